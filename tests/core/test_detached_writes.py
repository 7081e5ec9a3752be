"""Writes through detached tensors and the like: the right gradient, or an error as in PyTorch."""

import gc

import numpy as np
import pytest

import tapegrad as tg

V = np.array([0.72, -1.2, 1.9, 0.4, -0.3])
E = np.exp(V)
THROUGH_DETACH = "written through detach"


def assign_element(d):
    d[0] = 5.0


def assign_all(d):
    d[...] = 5.0


def assign_picked(d):
    d[[0, 2]] = 5.0


def assign_view(d):
    d[1:][::2] = 5.0


def add_in_place(d):
    d += 1.0


def in_a_loop(d):
    for k in range(d.size):
        d[k] = d[k] * 2.0


def again_detached(d):
    d.detach()[0] = 5.0


def without_recording(d):
    with tg.no_grad():
        d[0] = 5.0


def of_recorded_values(d):
    d[0] = tg.tensor(5.0, requires_grad=True) * 2.0


def as_an_input(d):
    with tg.no_grad():
        d.requires_grad_()[0] = 5.0


WRITES = [
    assign_element,
    assign_all,
    assign_picked,
    assign_view,
    add_in_place,
    in_a_loop,
    again_detached,
    without_recording,
    of_recorded_values,
    as_an_input,
]


@pytest.mark.parametrize("write", WRITES)
def test_what_was_read_before(write):
    """The sweep puts back what rows had read; exp reads its own result."""
    x = tg.tensor(V, requires_grad=True)
    y = np.exp(x)
    z = y * y
    write(y.detach())
    after = y.detach().numpy().copy()
    for _ in range(2):
        x.grad = None
        z.sum().backward(retain_graph=True)
        np.testing.assert_allclose(x.grad.numpy(), 2 * E**2, rtol=1e-15)
        np.testing.assert_array_equal(y.detach().numpy(), after)


@pytest.mark.parametrize("write", WRITES)
def test_what_is_read_afterwards(write):
    """PyTorch raises where the derivative needs the old value; here it is refused always."""
    x = tg.tensor(V, requires_grad=True)
    y = np.exp(x)
    write(y.detach())
    for z in (y.sum(), y[0] * 1.0, (y * y).sum()):
        with pytest.raises(RuntimeError, match=THROUGH_DETACH):
            z.backward()
    x = tg.tensor(V, requires_grad=True)
    np.exp(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), E)


@pytest.mark.parametrize("write", WRITES)
def test_other_derivatives_are_refused(write):
    def f(x):
        y = np.exp(x)
        z = np.sum(y * y)
        write(y.detach())
        return z

    np.testing.assert_allclose(tg.grad(f)(V), 2 * E**2)
    np.testing.assert_allclose(tg.jacobian(lambda x: f(x) * x[:2])(V)[0, 1:], 2 * E[1:] ** 2 * V[0])
    for one in (lambda: tg.jvp(f, (V,), (V,)), lambda: tg.hessian(f)(V), lambda: tg.hvp(f)(V, V)):
        with pytest.raises(RuntimeError, match=THROUGH_DETACH):
            one()


def test_a_tensor_that_nobody_differentiates_any_more():
    x = tg.tensor(V, requires_grad=True)
    y = np.exp(x)
    y.sum().backward()
    d = y.detach()
    d[d > 1.0] = 0.0
    np.testing.assert_array_equal(d.numpy(), np.where(E > 1.0, 0.0, E))
    d = (x * 1.0).detach()
    gc.collect()
    d[0] = 7.0
    assert d[0] == 7.0 and not d.requires_grad
    d[1] += x[1]
    d.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), E + [0, 1, 0, 0, 0])


def test_an_input_written_through_detach_is_another():
    """As in PyTorch, where the two share their version."""
    x = tg.tensor(V, requires_grad=True)
    before = (x * x).sum()
    x.detach()[0] = 3.0
    after = (x * x).sum()
    after.backward()
    np.testing.assert_allclose(x.grad.numpy(), [6.0, *(2 * V[1:])])
    with pytest.raises(RuntimeError, match="an input was written in place"):
        before.backward()


def test_steps_of_descent_through_detach():
    x = tg.tensor(V, requires_grad=True)
    d, wanted = x.detach(), V.copy()
    for _ in range(5):
        x.grad = None
        (x**2).sum().backward()
        d -= 0.1 * x.grad
        wanted -= 0.2 * wanted
    np.testing.assert_allclose(x.detach().numpy(), wanted)


def test_an_input_that_no_longer_requires_grad():
    x, w = tg.tensor(V, requires_grad=True), tg.tensor(V, requires_grad=True)
    y = (x * w).sum()
    x.requires_grad_(False)
    x[0] = 100.0
    with pytest.raises(RuntimeError, match="an input was written in place"):
        y.backward()
    (x * w).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), [100.0, *V[1:]])


def test_an_input_that_is_gone():
    x, w = tg.tensor(V, requires_grad=True), tg.tensor(V, requires_grad=True)
    y, d = (x * w).sum(), x.detach()
    del x
    d[0] = 100.0
    with pytest.raises(RuntimeError, match="an input was written in place"):
        y.backward()


def test_views_of_before_an_input():
    """A view made before its tensor became an input writes to the input."""
    t = tg.tensor(V)
    view = t[1:]
    t.requires_grad_()
    y = (t * t).sum()
    view[0] = 100.0
    with pytest.raises(RuntimeError, match="an input was written in place"):
        y.backward()
    (t * t).sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), 2 * np.array([V[0], 100.0, *V[2:]]))


def test_an_input_on_memory_of_another_tensor():
    t = tg.tensor(V)
    x = tg.asarray(t, requires_grad=True)
    y = (x * x).sum()
    t[0] = 3.0
    with pytest.raises(RuntimeError, match="an input was written in place"):
        y.backward()


def test_an_input_on_memory_of_a_result():
    """As in a recurrence whose state is cut off: `state.detach().requires_grad_()`."""
    x = tg.tensor(V, requires_grad=True)
    y = np.exp(x)
    s = y.detach().requires_grad_()
    z = y * y
    (s * s).sum().backward()
    for _ in range(2):
        with tg.no_grad():
            s -= 0.5 * s.grad
    np.testing.assert_allclose(s.detach().numpy(), -E)
    z.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * E**2)


def test_freezing_again_and_again():
    x = tg.tensor(V, requires_grad=True)
    for k in range(4):
        x.requires_grad_(False)
        x[0] = float(k)
        x.requires_grad_(True)
        y = (x * x).sum()
        with tg.no_grad():
            x[1] = float(k)
        with pytest.raises(RuntimeError, match="an input was written in place"):
            y.backward()
        x.grad = None
        (x * x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * np.array([k, k, *V[2:]]))


# --- what Functions keep --------------------------------------------------------------------------


class Scale(tg.autograd.Function):
    """x · w, where w may be a tensor that is not recorded."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    def backward(ctx, gradient):
        (w,) = ctx.saved_tensors
        return gradient * w, None


@pytest.mark.parametrize("write", WRITES)
def test_saved_constants(write):
    """They are copied before they are written; PyTorch raises."""
    w, x = tg.tensor(V), tg.tensor(np.ones(5), requires_grad=True)
    y = Scale.apply(x, w).sum()
    write(w)
    (y * 2.0).backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * V)


def test_a_constant_saved_by_many_calls():
    w, x = tg.tensor(V), tg.tensor(np.ones(5), requires_grad=True)
    parts = []
    for k in range(5):
        parts.append(Scale.apply(x, w[...]))
        w[0] = float(k)
    np.sum(np.stack(parts)).backward()
    np.testing.assert_allclose(x.grad.numpy(), [V[0] + 0 + 1 + 2 + 3, *(5 * V[1:])])


def test_a_result_that_forward_has_kept():
    class Kept(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            kept.append(tg.exp(x))
            return kept[0]

        @staticmethod
        def backward(ctx, gradient):
            return gradient * E

    kept = []
    x = tg.tensor(V, requires_grad=True)
    z = Kept.apply(x) ** 2
    kept[0][...] = 0.0
    z.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * E**2)


def test_gradients_that_are_added_to():
    w, x = tg.tensor(V, requires_grad=True), tg.tensor(np.ones(5), requires_grad=True)
    (w * V).sum().backward()
    y = Scale.apply(x, w.grad).sum()
    (w * V).sum().backward()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), V)


# --- compiled -------------------------------------------------------------------------------------


def test_a_traced_function_that_writes_to_what_it_has_detached():
    """A program would not share the memory: it is called as it is."""

    def f(x):
        y = np.sum(x * x)
        x.detach()[0] = 5.0
        return y

    def g(x):
        x.detach()[0] = 5.0
        return np.sum(x * x)

    with pytest.warns(RuntimeWarning, match="a detached tensor is written"):
        np.testing.assert_allclose(tg.compile(f).grad(V), 2 * V)
    with pytest.raises(RuntimeError, match=THROUGH_DETACH):
        tg.compile(g).grad(V)


def test_an_input_of_a_function():
    """What it holds is known at each write; only a changed element must not be differentiated."""

    def f(x, c):
        y, d = np.sum(x[1:] * x[:-1]), x.detach()
        d[0] = 7.0
        y = y + x[0] * c
        in_a_loop(d)
        y = y + x[0] * c + x[1] * c
        d[0] = 5.0
        return y + x[0] * c

    of_x, of_c = tg.grad(f, (0, 1))(V, 0.0)
    np.testing.assert_allclose(of_x, [V[1], V[0] + V[2], V[1] + V[3], V[2] + V[4], V[3]])
    np.testing.assert_allclose(of_c, 7.0 + 14.0 + 2 * V[1] + 5.0)
    with pytest.raises(RuntimeError, match=THROUGH_DETACH):
        tg.grad(f)(V, 1e-9)


@pytest.mark.parametrize("write", WRITES[:6])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_an_input_of_a_function_read_afterwards(write, dtype):
    def f(x):
        write(x.detach())
        return np.sum(x) * np.ones(3)

    for one in (lambda x: tg.grad(lambda x: f(x)[0])(x), tg.jacobian(f)):
        with pytest.raises(RuntimeError, match=THROUGH_DETACH):
            one(V.astype(dtype))


def test_detached_tensors_are_read_and_written_as_others():
    x = tg.tensor(V, requires_grad=True)
    d = (x * 2.0).detach()
    assert [float(v) for v in d] == list(2 * V)
    assert type(d[1]) is type(tg.tensor(V)[1]) and not d[1].requires_grad
    d[1] = d[0]
    d[2:] = d[1]
    np.testing.assert_array_equal(d.numpy(), [2 * V[0]] * 5)
