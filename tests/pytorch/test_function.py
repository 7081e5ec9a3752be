"""tg.autograd.Function against PyTorch's: forms, ctx, several results, orders, errors."""

import ctypes
import math

import numpy as np
import pytest
from torch_side import both, exp_of, leaf, make

import tapegrad as tg


@pytest.mark.parametrize("value", [0.5, [0.5, 1.5], [[0.5], [1.0]]])
def test_exp(value):
    def script(lib):
        x = leaf(lib, value)
        y = exp_of(lib)(x * 2) * 3
        y.sum().backward()
        return y, x.grad, y.requires_grad, y.is_leaf

    both(script)


def test_attributes_and_constants():
    def script(lib):
        def forward(ctx, x, coefficient, name="unused"):
            ctx.coefficient, ctx.name = coefficient, name
            return x.clone()

        def backward(ctx, gradient):
            return gradient * ctx.coefficient, None, None

        scale = make(lib, forward, backward)
        x = leaf(lib, 2.0)
        y = scale(x, -0.1, "a name")
        (y * y).backward()
        return x.grad, y

    assert both(script)[0] == -0.4


def test_methods_without_the_decorator():
    class Double(tg.autograd.Function):
        def forward(ctx, x):
            return 2.0 * x

        def backward(ctx, gradient):
            return 2.0 * gradient

    x = leaf(tg, [1.0, 2.0])
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_setup_context():
    def script(lib):
        def forward(x, y):
            return x * y, x + y

        def setup_context(ctx, inputs, output):
            x, y = inputs
            product, _ = output
            ctx.save_for_backward(x, y, product)

        def backward(ctx, g, h):
            x, y, product = ctx.saved_tensors
            return g * y + h * product, g * x + h

        f = make(lib, forward, backward, setup_context=setup_context)
        x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0, 5.0])
        a, b = f(x, y)
        (a * b).sum().backward()
        return a, b, x.grad, y.grad

    both(script)


def test_several_results_of_other_shapes():
    def script(lib):
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sum(), x * x, "label", x[:1].clone()

        def backward(ctx, total, square, label, first):
            (x,) = ctx.saved_tensors
            assert label is None
            made = lib.zeros(x.shape)
            made[:1] += first
            return total + 2 * x * square + made

        f = make(lib, forward, backward)
        x = leaf(lib, [1.0, 2.0, 3.0])
        total, square, label, first = f(x)
        (total * square).sum().backward(retain_graph=True)
        every = x.grad.clone()
        x.grad = None
        names = [t.grad_fn.name() for t in (total, square, first)]
        first.backward()
        return label, every, x.grad, names

    both(script)


def test_needs_input_grad():
    def script(lib):
        seen = []

        def forward(ctx, x, y, z):
            seen.append(ctx.needs_input_grad)
            return x * y * z

        def backward(ctx, gradient):
            seen.append(ctx.needs_input_grad)
            return tuple(gradient if need else None for need in ctx.needs_input_grad)

        f = make(lib, forward, backward)
        x, y = leaf(lib, 2.0), lib.tensor(3.0)
        f(x, y, 4.0).backward()
        return seen, x.grad, y.grad

    both(script)


def test_no_row_is_recorded_where_nothing_needs_it():
    def script(lib):
        x, c = leaf(lib, [1.0, 2.0]), lib.tensor([1.0, 2.0])
        f = exp_of(lib)
        with lib.no_grad():
            quiet = f(x)
        return f(c).requires_grad, quiet.requires_grad, f(c)

    both(script)


def test_none_leaves_no_gradient():
    def script(lib):
        f = make(lib, lambda ctx, x, y: x * y, lambda ctx, g: (None, g))
        x, y = leaf(lib, 2.0), leaf(lib, 3.0)
        f(x, y).backward()
        return x.grad, y.grad

    both(script)


def test_mark_non_differentiable():
    def script(lib):
        seen = []

        def forward(ctx, x):
            rounded = lib.round(x)
            ctx.mark_non_differentiable(rounded)
            return x * 2, rounded

        def backward(ctx, g, h):
            seen.append(h)
            return 2 * g

        x = leaf(lib, [1.2, 2.7])
        y, rounded = make(lib, forward, backward)(x)
        (y * rounded).sum().backward()
        return rounded, rounded.requires_grad, y.requires_grad, x.grad, seen

    both(script)


@pytest.mark.parametrize("materialize", [True, False])
def test_set_materialize_grads(materialize):
    def script(lib):
        seen = []

        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        def backward(ctx, g, h):
            seen.append((g, h))
            return 3 * h if g is None else 2 * g + (0 if h is None else 3 * h)

        x = leaf(lib, [1.0, 2.0])
        _, b = make(lib, forward, backward)(x)
        b.sum().backward()
        return seen, x.grad

    both(script)


def test_mark_dirty():
    def script(lib):
        def forward(ctx, x):
            x *= 3.0
            ctx.mark_dirty(x)
            return x

        x = leaf(lib, [1.0, 2.0])
        h = x + 0.0
        y = make(lib, forward, lambda ctx, g: 3 * g)(h)
        same = y is h
        (h * h).sum().backward()
        return same, h, x.grad

    both(script)


def test_what_read_the_old_values_of_a_dirty_argument_is_right():
    """PyTorch refuses this; the sweep puts the old values back."""

    def forward(ctx, x):
        ctx.mark_dirty(x)
        x[...] = np.exp(x)
        ctx.save_for_backward(x)
        return x

    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y

    def f(x):
        h = x * 1.0
        square = h * h
        y = make(tg, forward, backward)(h)
        return (square * y).sum()

    x = np.array([0.5, 1.5])
    np.testing.assert_allclose(tg.grad(f)(x), (2 * x + x * x) * np.exp(x), rtol=1e-14)
    with tg.no_grad():
        plain = tg.tensor([0.0])
        assert make(tg, forward, backward)(plain) is plain and plain.tolist() == [1.0]


def test_dirty_inputs_are_refused():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x *= 2.0
        return x

    x = leaf(tg, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="an input that requires grad cannot be written"):
        make(tg, forward, lambda ctx, g: g)(x)
    assert x.tolist() == [1.0, 2.0]

    def lost(ctx, x):
        ctx.mark_dirty(x)
        return x * 2.0

    with pytest.raises(RuntimeError, match="mark_dirty got a tensor that is not both an argument"):
        make(tg, lost, lambda ctx, g: g)(x)


def test_an_argument_returned_as_it_is():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * 1
        y = make(lib, lambda ctx, x: x, lambda ctx, g: 5 * g)(h)
        (y * y).sum().backward()
        return y is h, x.grad

    both(script)


def test_arrays_and_numbers_may_be_returned():
    def forward(ctx, x):
        return np.sin(x.detach().numpy())

    f = make(tg, forward, lambda ctx, g: 2.0)
    x = leaf(tg, 1.0)
    f(x).backward()
    assert x.grad.item() == 2.0


# --- higher order -----------------------------------------------------------------------------


def test_double_backward():
    def script(lib):
        f, x = exp_of(lib), leaf(lib, [0.5, 1.0])
        found = [f(x * x)]
        for _ in range(3):
            found += lib.autograd.grad(found[-1].sum(), x, create_graph=True)
        return found

    both(script)


def test_double_backward_of_saved_inputs_and_attributes():
    def script(lib):
        def forward(ctx, x, y):
            ctx.x = x
            ctx.save_for_backward(y)
            return x * x * y, x.sum()

        def backward(ctx, g, h):
            (y,) = ctx.saved_tensors
            return 2 * ctx.x * y * g + h, ctx.x**2 * g

        f = make(lib, forward, backward)
        x, y = leaf(lib, [0.5, 1.0]), leaf(lib, [2.0, 3.0])
        p, q = f(x * 2, y)
        first = lib.autograd.grad((p * q).sum(), (x, y), create_graph=True)
        return first, lib.autograd.grad((first[0] * first[1]).sum(), (x, y))

    both(script)


def test_transforms_and_jacobians():
    f = exp_of(tg)
    x = np.array([0.3, 0.6])
    np.testing.assert_allclose(tg.grad(lambda x: f(x).sum())(x), np.exp(x), rtol=1e-15)
    np.testing.assert_allclose(tg.jacobian(f)(x), np.diag(np.exp(x)), rtol=1e-15)
    second = tg.grad(lambda x: tg.grad(lambda x: f(x * x).sum())(x).sum())(x)
    np.testing.assert_allclose(second, (2 + 4 * x * x) * np.exp(x * x), rtol=1e-14)


def test_once_differentiable():
    class Square(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @tg.autograd.function.once_differentiable
        def backward(ctx, gradient):
            return 2 * ctx.saved_tensors[0] * gradient

    x = leaf(tg, [1.0, 2.0])
    assert tg.autograd.grad(Square.apply(x).sum(), x)[0].tolist() == [2.0, 4.0]
    y = (Square.apply(x) ** 2).sum()
    (g,) = tg.autograd.grad(y, x, create_graph=True)
    assert g.tolist() == [4.0, 32.0]
    text = "trying to differentiate twice a function that was marked with @once_differentiable"
    with pytest.raises(RuntimeError, match=text):
        g.sum().backward()


def test_once_differentiable_of_gradients_that_are_constants():
    """The Hessian of a sum is not 0 because the gradient of the sum is 1."""

    class Cube(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return np.asarray(x) ** 3

        @staticmethod
        @tg.autograd.function.once_differentiable
        def backward(ctx, gradient):
            return gradient * 3 * np.asarray(ctx.saved_tensors[0]) ** 2

    def f(x):
        return np.sum(Cube.apply(x))

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(tg.grad(f)(x), [3.0, 12.0])
    np.testing.assert_allclose(tg.jacobian(Cube.apply)(x), np.diag([3.0, 12.0]))
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        tg.hessian(f)(x)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        tg.compile(f).hessian(x)


def test_gradcheck_of_a_function():
    x = leaf(tg, [0.5, 1.0])
    assert tg.autograd.gradcheck(exp_of(tg), (x,))
    assert tg.autograd.gradgradcheck(exp_of(tg), (x,))


def test_backward_may_differentiate():
    """As recomputation does: the forward is run again with recording on."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return np.sin(x) * x

    def backward(ctx, g):
        with tg.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            y = np.sin(x) * x
        y.backward(g)
        return x.grad

    x = leaf(tg, [0.5, 1.0])
    (make(tg, forward, backward)(x * 2) * x).sum().backward()
    v = np.array([0.5, 1.0])
    wanted = np.sin(2 * v) * 2 * v + v * 2 * (np.cos(2 * v) * 2 * v + np.sin(2 * v))
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-14)


class Box(tg.autograd.Function):
    """A black box that takes plain arrays: its argument may be a tensor, an array, or a number."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return np.array([math.sin(value) for value in np.asarray(x).ravel()]).reshape(np.shape(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * np.cos(x)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 300)])
def test_a_black_box_takes_the_arrays_of_its_arguments(shape):
    x = np.random.default_rng(0).normal(size=shape)
    f = lambda x: np.sum(Box.apply(x) * x)
    wanted = np.cos(x) * x + np.sin(x)
    given = x if shape else float(x)
    np.testing.assert_allclose(tg.grad(f)(given), wanted, rtol=1e-14)
    np.testing.assert_allclose(tg.jvp(f, (given,), (given,))[1], np.sum(wanted * x), rtol=1e-13)
    for c in (tg.compile(f), tg.compile(f, verify="never")):
        for scale in (1.0, 1.0, -2.0):
            y = scale * x if shape else float(scale * x)
            np.testing.assert_allclose(c.grad(y), np.cos(y) * y + np.sin(y), rtol=1e-13)
    np.testing.assert_allclose(np.asarray(Box.apply(given)), np.sin(x), rtol=1e-15)


@pytest.mark.parametrize("saved", ["x, a", "np.asarray(x), np.asarray(a)", "out, a, None"])
def test_saved_arrays(saved):
    """An argument, a result and constants saved as plain arrays, which are written later."""
    code = compile(f"ctx.save_for_backward({saved})", "saved", "exec")

    def forward(ctx, x, a):
        out = np.asarray(x) ** 2 * np.asarray(a)
        exec(code, {"np": np}, {"ctx": ctx, "x": x, "a": a, "out": out})
        return out

    def backward(ctx, g):
        one, a, *more = ctx.saved_tensors
        assert isinstance(a, tg.Tensor)
        return g * 2 * (np.sqrt(one * a) if more else one * a), None

    apply, a, x = make(tg, forward, backward), np.array([2.0, 3.0]), np.array([1.0, 2.0])
    f = lambda x: np.sum(apply(x, a) ** 2)  # noqa: E731
    c = tg.compile(f)
    for y in (x, 1.5 * x, 0.5 * x):
        for got in (tg.grad(f)(y), c.grad(y)):
            np.testing.assert_allclose(got, 4 * y**3 * a**2, rtol=1e-14)
        for got in (tg.hessian(f)(y), c.hessian(y)):
            np.testing.assert_allclose(got, 12 * np.diag(y**2 * a**2), rtol=1e-14)
    p, b = leaf(tg, [1.0, 2.0]), a.copy()
    made = apply(p, b)
    b[:] = 0.0
    made.sum().backward()
    np.testing.assert_allclose(p.grad.numpy(), 2 * x * a, rtol=1e-14)


def test_backward_makes_arrays_for_c():
    """Also in the derivative of a compiled function, which runs inside a transform."""

    @tg.autograd.function.once_differentiable
    def backward(ctx, g):
        made = np.array(g, dtype=float)
        return 2.0 * np.array([*(ctypes.c_double * made.size).from_buffer(made)])

    apply, x = make(tg, lambda ctx, x: 2.0 * np.asarray(x), backward), np.array([1.0, 2.0])
    f = lambda x: apply(x * x)  # noqa: E731
    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="runs eagerly"):  # no derivative of a derivative
        first = c.jacobian(x)
    for got, y in ((first, x), (c.jacobian(2 * x), 2 * x), (tg.jacobian(f)(x), x)):
        np.testing.assert_allclose(got, np.diag(4 * y), rtol=1e-15)
    np.testing.assert_allclose(tg.compile(lambda x: np.sum(f(x))).grad(x), 4 * x, rtol=1e-15)


def test_arrays_where_nothing_is_recorded():
    def f(x):
        with tg.no_grad():
            held = np.asarray(x), np.array([x[0], 1.0]), np.asarray(x * 1j)
        assert [type(one) for one in held] == [np.ndarray] * 3 and held[2][1] == 2j
        return np.sum(x * held[0])

    assert tg.grad(f)(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
