"""Elements of tensors that are not recorded: values, flags, what is a view and what is a number."""

import math

import numpy as np
import pytest
from test_threads import in_threads
from torch_side import both, leaf, make

import tapegrad as tg
from tapegrad._core.codegen import layout
from tapegrad._core.tape import native_types, store

X = np.array([[0.3, 0.5, -0.7], [1.1, -0.2, 0.9]])


def swap(x, y):
    """What is read before a write stays as it was, as NumPy's elements do."""
    y[...] = x
    for i in range(2):
        first = y[i, 0]
        y[i, 0] = y[i, 2]
        y[i, 2] = first
    return y


def arithmetic(x, y):
    for i in range(2):
        for j in range(3):
            a, b = x[i, j], x[1 - i, -1]
            y[i, j] = -a + a * b - a / b + 2 * a - b / 3.5 + a**2 + (b * b) ** 1.5 - 1.0 + 2.0**a
    return y


def functions(x, y):
    total = x[0, 0] * 0.0
    for i in range(2):
        for j in range(3):
            if x[i, j] > 0:
                total += math.sqrt(x[i, j]) if y.dtype == object else np.sqrt(x[i, j])
            y[i, j] = np.sin(total) * abs(x[i, j])
        y[i, 1] += total
        y[i, -1] *= 2.0
    return y


def accumulators(x, y):
    total = tg.tensor(0.0) if isinstance(y, tg.Tensor) else np.zeros(())
    for i in range(2):
        total += x[i, 0] * x[i, 1]
        total = total + x[i, 2]
        y[i, 0] = total
        y[i, 1] = total * total - 2 * total
    return y


PROGRAMS = [swap, arithmetic, functions, accumulators]


def in_function(f, x):
    """`f` on elements of an input, in the forward of a Function."""

    def forward(ctx, x):
        return f(x, tg.zeros_like(x))

    return make(tg, forward, None)(tg.tensor(x, requires_grad=True))


def in_no_grad(f, x):
    with tg.no_grad():
        return f(tg.tensor(x, requires_grad=True), tg.zeros(x.shape))


WAYS = {
    "unrecorded": lambda f, x: f(tg.tensor(x), tg.zeros(x.shape)),
    "no_grad": in_no_grad,
    "Function": in_function,
    "recorded": lambda f, x: f(tg.tensor(x, requires_grad=True), tg.zeros(x.shape)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_values_are_numpys_however_they_are_computed(f, way):
    right = f(X.copy(), np.zeros(X.shape))
    np.testing.assert_allclose(WAYS[way](f, X).detach().numpy(), right, rtol=1e-14)


@pytest.mark.parametrize("f", PROGRAMS)
def test_values_are_the_same_while_somebody_listens(f):
    with tg.autograd.profiler.profile():
        found = WAYS["unrecorded"](f, X)
    np.testing.assert_allclose(found.numpy(), f(X.copy(), np.zeros(X.shape)), rtol=1e-14)


def test_loops_in_forward_and_backward():
    def script(lib):
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            y = lib.zeros_like(x)
            for i in range(2):
                s = lib.zeros(())
                for j in range(3):
                    s = s + x[i, j] * w[j]
                    if x[i, j] > 0:
                        y[i, j] = lib.sin(s) / (1 + x[i, j] ** 2) - w[j]
            return y

        def backward(ctx, g):
            x, w = ctx.saved_tensors
            gx, gw = lib.zeros_like(x), lib.zeros_like(w)
            for i in range(2):
                s = lib.zeros(())
                for j in range(3):
                    s = s + x[i, j] * w[j]
                    if x[i, j] > 0:
                        bottom = 1 + x[i, j] ** 2
                        slope = g[i, j] * lib.cos(s) / bottom
                        for k in range(j + 1):
                            gx[i, k] += slope * w[k]
                            gw[k] = gw[k] + slope * x[i, k]
                        gx[i, j] -= 2.0 * g[i, j] * lib.sin(s) * x[i, j] / bottom / bottom
                        gw[j] -= g[i, j]
            return gx, gw

        x, w = leaf(lib, X.tolist()), leaf(lib, [0.4, -1.0, 2.0])
        y = make(lib, forward, backward)(x, w)
        (y * y).sum().backward()
        return y, x.grad, w.grad

    both(script)


def test_loops_of_saved_tensors_twice_differentiated():
    def script(lib):
        def forward(ctx, x):
            ctx.save_for_backward(x)
            y = lib.zeros_like(x)
            for i in range(3):
                y[i] = x[i] * x[i] * x[i]
            return y

        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return lib.stack([3 * x[i] * x[i] * g[i] for i in range(3)])

        x = leaf(lib, [0.3, -0.5, 2.0])
        y = make(lib, forward, backward)(x)
        (g,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
        return g, lib.autograd.grad(g.sum(), x)

    both(script)


def test_flags():
    def script(lib):
        seen = []
        x, y = leaf(lib, [1.0, 2.0]), lib.tensor([1.0, 2.0])
        with lib.no_grad():
            for one in (x[0] * x[1], -x[0], x[0] * 2):
                seen.append((one, one.requires_grad, one.is_leaf, one.grad_fn))
        for one in (y[0], y[0] * y[1], 3 / y[1], y[1] ** 2):
            seen.append((one, one.requires_grad, one.is_leaf, one.grad_fn, one.grad))
        return seen

    both(script)
    x = leaf(tg, [1.0, 2.0])
    with tg.no_grad():
        assert not x[0].requires_grad  # a number, while x[:1] is a view of the input


def test_nothing_is_recorded():
    x, y = tg.tensor(X), tg.zeros(X.shape)
    before = native_types.get_word(layout.STATE_ID)
    arithmetic(x, y)
    WAYS["no_grad"](arithmetic, X)
    assert native_types.get_word(layout.STATE_ID) == before


def test_elements_with_recorded_tensors():
    def script(lib):
        c = lib.tensor([1.5, -2.0])
        x, w = leaf(lib, [0.3, 0.7]), leaf(lib, 0.5)
        s = x[0] * 1.0
        parts = [c[0] * s, s * c[0], s / c[1], c[1] / s, s - c[0], c[0] - s, s ** c[0], c[0] ** s]
        parts += [c[0] * w, (x * c[1]).sum(), (c[0] / x).sum(), c[0] * c[1] * s]
        y = lib.zeros(3)
        y[0] = c[0]
        y[1] = s * c[1]
        y[2] = c[1] * c[1]
        lib.autograd.backward(sum(parts) + (y * y).sum())
        return parts, y, x.grad, w.grad

    both(script)


def test_an_element_is_a_number_and_no_view():
    y = tg.tensor([1.0, 2.0])
    v = y[0]
    v += 5.0
    assert (v.item(), y.tolist()) == (6.0, [1.0, 2.0])
    y[0] = 7.0
    assert v.item() == 6.0
    with pytest.raises(TypeError, match=r"tapegrad.setitem: .* is a number, not a view.*y\[i\] ="):
        v[...] = 3.0
    y[0:1][...] = 8.0
    y[1, ...][...] = 9.0
    assert y.tolist() == [8.0, 9.0]


def test_what_is_computed_from_an_element_is_a_number_too():
    def script():
        y = tg.tensor([1.0, 2.0])
        for made in (y[0] * 2, np.square(y[1]), abs(y[0]), y[1] % 3, np.power(y[0], tg.tensor(2))):
            alias = made
            made += 1.0
            yield made.item() - alias.item()

    with tg.autograd.profiler.profile():
        assert list(script()) == [1.0] * 5
    assert list(script()) == [1.0] * 5


def test_an_element_becomes_an_input_by_a_copy():
    v = tg.tensor([1.0, 2.0])[1]
    with pytest.raises(RuntimeError, match=r"requires_grad_: .*tg.tensor\(t, requires_grad=True\)"):
        v.requires_grad_()
    x = tg.tensor(v, requires_grad=True)
    (x * x).backward()
    assert x.grad.item() == 4.0


def test_tensors_without_axes_stay_tensors_that_can_be_written():
    t = tg.tensor(2.0) * 3 - tg.tensor(1.0)
    alias = t
    t += tg.tensor([4.0])[0]
    assert alias is t and alias.item() == 9.0
    t.requires_grad_()
    (t * t).backward()
    assert t.grad.item() == 18.0


def test_subscripts_of_an_element():
    for x in (tg.tensor([1.0, 2.0]), tg.tensor([1.0, 2.0], requires_grad=True)):
        assert x[1][None].shape == (1,) and x[1][...].item() == x[1][()].item() == 2.0
        assert x[0][None].requires_grad == x.requires_grad
    plain = np.zeros(2)
    plain[1] = tg.tensor([3.0])[0]
    assert plain.tolist() == [0.0, 3.0]


def test_elements_of_other_dtypes_are_numbers_too():
    y = tg.tensor([1, 2], dtype=np.float32)
    v = y[0]
    v += 1
    assert (v.dtype, v.item(), y.tolist()) == (np.float32, 2.0, [1.0, 2.0])
    y[1] = tg.tensor([0.1])[0]
    assert y[1].item() == np.float32(0.1)
    assert (tg.tensor([1, 2])[0] + 1).dtype == np.int64


def test_a_buffer_that_becomes_recorded_is_noticed_by_its_views():
    x = tg.tensor(3.0, requires_grad=True)
    y = tg.ones(3)
    view, other = y[:2], y[2:]
    y[0] = x * x
    with tg.no_grad(), pytest.raises(RuntimeError, match="cannot be written inside no_grad"):
        y[1:][0] = 5.0
    with tg.no_grad(), pytest.raises(RuntimeError, match="cannot be written inside no_grad"):
        other[0] = 5.0
    assert view[0].requires_grad
    view[1] = 5.0  # a row now: the sweep undoes it
    total = view[0] * view[1] + y[1]
    assert total.item() == 50.0
    total.backward()
    assert x.grad.item() == 30.0


def test_an_input_written_inside_no_grad_is_noticed():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    for k in range(2):
        early = (x * x).sum()
        with tg.no_grad():
            x[k] = x[k] - 0.5
            x[0] = 7.0
        with pytest.raises(RuntimeError, match="written in place"):
            early.backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [14.0, 3.0]


def test_a_loop_of_writes_to_an_input_makes_one_row():
    x = tg.tensor(np.ones(2000), requires_grad=True)
    view = x[10:]
    out = (x * x).sum()
    with tg.no_grad():
        x[0] = 2.0
        inputs, row = len(store._arrays), x._id
        for k in range(len(x)):
            x[k] = x[k] * 3.0
        x *= 2.0
    assert (len(store._arrays), x._id) == (inputs, row)
    assert (x[0].item(), view.detach()[0].item(), out.item()) == (12.0, 6.0, 2000.0)


def test_a_result_is_not_written_inside_no_grad():
    y = tg.tensor([1.0, 2.0], requires_grad=True) * 1.0
    with tg.no_grad(), pytest.raises(RuntimeError, match="cannot be written inside no_grad"):
        y[0] = 3.0


def test_keys():
    cube = tg.tensor(np.arange(24.0).reshape(2, 3, 4))
    assert cube[1, 2, -1].item() == 23.0
    cube[0, 1, 2] = cube[1, 0, 0]
    assert cube.detach().numpy()[0, 1, 2] == 12.0
    for x in (tg.tensor(X[0]), tg.tensor(X[0], requires_grad=True)):
        for key in (3, -4, 2**70, -(2**70)):
            with pytest.raises(IndexError):
                x[key]
    frozen = np.broadcast_to(tg.tensor(X[0]), (2, 3))
    with pytest.raises(ValueError, match="read-only"):
        frozen[0, 1] = 1.0


def test_a_thread_that_records_beside_one_that_does_not():
    def work(k):
        x = tg.tensor(X, requires_grad=True)
        for _ in range(300):
            with tg.set_grad_enabled(k % 2 == 0):
                y = swap(x, tg.zeros(X.shape))
                assert (x[0, 1] * y[0, 0]).requires_grad == (k % 2 == 0)
                assert y.requires_grad == (k % 2 == 0)

    in_threads(4, work)
