"""Derivatives of derivatives of programs that write in place, against differences of gradients."""

import numpy as np
import pytest

import tapegrad as tg

X = np.array([0.3, 0.5, -0.7, 1.1])
H = 1e-6


def recurrence(x):
    f = tg.zeros(4)
    for i in range(4):
        f[i] = x[i] * x[i - 1] + (f[i - 1] ** 2 if i else 0.0)
    return np.sum(f * f)


def views(x):
    f = x.copy()
    f[1:] *= f[:-1]
    f[::2] = np.tanh(f[::2])
    return np.sum(f**3)


def picked(x):
    """The last of two writes to one element counts."""
    f = x * 1.0
    f[[0, 1, 0]] = x[[1, 2, 3]] * f[[2, 2, 1]]
    f[f.detach().numpy() > 0.4] *= x[0]
    return np.sum(f**3)


def matrix(x):
    a = np.outer(x, x)
    diagonal = a.reshape(-1)[::5]
    diagonal *= x
    a[:, 1] = 2.0
    a[0] = x**2
    return np.sum(a**2 * a.T)


def scalar_broadcast(x):
    f = x * 1.0
    f[1:3] = x[2] * x[2]
    f[...] = f * x[0]
    return np.sum(f**3)


def old_value(x):
    y = x * 1.0
    z = y * y
    y[...] = x[0] * x[1]
    return np.sum(z * y)


def constant_buffer(x):
    work = tg.zeros((2, 4))
    work[0] = x * x
    work[1] = np.exp(work[0])
    work[0, 1:] = work[1, :-1] * x[1:]
    return np.sum(work**2)


def written_input(x):
    """A copy, where the function is differentiated again; x itself stays as it is."""
    x[1:] *= x[:-1]
    x[0] = np.sin(x[2]) * x[0]
    x[[1, 3]] = x[[3, 0]] ** 2
    return np.sum(x**3)


PROGRAMS = [recurrence, views, picked, matrix, scalar_broadcast, old_value, constant_buffer]


@pytest.mark.parametrize("f", [*PROGRAMS, written_input])
def test_hessian(f):
    g = tg.grad(f)
    wanted = [(g(X + H * e) - g(X - H * e)) / (2 * H) for e in np.eye(4)]
    np.testing.assert_allclose(tg.hessian(f)(X), wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("f", [*PROGRAMS, written_input])
def test_gradient_of_a_forward_derivative(f):
    v = np.array([1.0, -2.0, 0.5, 3.0])
    found = tg.grad(lambda x: tg.jvp(f, (x,), (v,))[1])(X)
    np.testing.assert_allclose(found, tg.hessian(f)(X) @ v, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("f", [views, written_input])
def test_third_derivative(f):
    third = tg.jacobian(tg.hessian(f))(X)
    hessian = tg.hessian(f)
    wanted = [(hessian(X + H * e) - hessian(X - H * e)) / (2 * H) for e in np.eye(4)]
    np.testing.assert_allclose(np.moveaxis(third, -1, 0), wanted, rtol=1e-6, atol=1e-6)


def test_values_are_left_as_they_were():
    x = tg.tensor(X, requires_grad=True)
    seen = []

    def f(z):
        y = z * x
        y[1:] = y[:-1] * 2.0
        seen.append(y)
        return np.sum(y * y)

    inner = tg.grad(f)(X)
    np.testing.assert_array_equal(seen[0].detach().numpy()[1:], 2.0 * (X * X)[:-1])
    np.sum(inner).backward()
    np.testing.assert_allclose(x.grad.numpy(), [20.0, 16.0, 16.0, 0.0] * X * X)


def test_the_last_derivative_of_a_tensor_around():
    """Of a function that writes to its input, and reads a tensor of somebody else."""
    t = tg.tensor([2.0, 3.0], requires_grad=True)

    def f(x):
        x[1:] *= x[:-1]
        return np.sum(x * x) * t[0] * t[1]

    gradient = tg.grad(f)(X)
    np.sum(gradient).backward()
    plain = tg.grad(lambda x: f(x.copy()) / (t[0] * t[1]))(X).detach().numpy()
    np.testing.assert_allclose(gradient.detach().numpy(), 6.0 * plain)
    np.testing.assert_allclose(t.grad.numpy(), np.sum(plain) * np.array([3.0, 2.0]))


def both_written(x, y):
    x[1:] *= y[:-1]
    y[::2] = np.sin(x[::2]) * y[1]
    x[0] += y[0] * y[-1]
    return np.sum(x**2 * y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "second",
    [
        lambda f, *d: tg.jacobian(tg.grad(f, (0, 1)), (0, 1))(*d),
        lambda f, *d: tg.jvp(tg.grad(f, (0, 1)), d, d[::-1])[1],
        lambda f, *d: tg.grad(lambda *e: tg.jvp(f, e, d[::-1])[1], (0, 1))(*d),
        lambda f, *d: tg.grad(lambda *e: np.sum(tg.grad(f, (0, 1))(*e)[1]) + f(*e), (0, 1))(*d),
        lambda f, *d: tg.vjp(tg.grad(f, (0, 1)), *d)[1](d),
    ],
)
def test_written_inputs_are_as_written_copies(second, dtype):
    x, y = X.astype(dtype), (X + 2.0).astype(dtype)
    found = second(both_written, x, y)
    wanted = second(lambda x, y: both_written(x.copy(), y.copy()), x, y)
    for one, other in zip(np.ravel(found), np.ravel(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5 if dtype == np.float32 else 1e-11)


def test_a_written_input_in_another_order():
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3) / 7 + 0.1)

    def f(x):
        x[:, 1] *= x[:, 0]
        x.T[2] = np.sin(x[:, 1])
        return np.sum(x**3)

    wanted = tg.hvp(lambda x: f(x.copy()))(x, x)
    np.testing.assert_allclose(tg.hvp(f)(x, x), wanted, rtol=1e-12)


def test_a_written_input_that_is_differentiated_with_respect_to_twice():
    """The gradient is one of the input as it was; another derivative would not find the input."""
    x = tg.tensor(X)
    with pytest.raises(NotImplementedError, match="to an input of the function is not supported"):
        tg.autograd.functional.hvp(written_input, x, x, create_graph=True)
    found = tg.autograd.functional.hessian(written_input, x)
    np.testing.assert_allclose(found.numpy(), tg.hessian(written_input)(X), rtol=1e-12)
    product = tg.autograd.functional.hvp(written_input, x, x)[1]
    np.testing.assert_allclose(product.numpy(), found.numpy() @ X, rtol=1e-11)


def test_compiled_second_derivatives_of_a_written_input():
    c, v = tg.compile(written_input), np.array([1.0, -2.0, 0.5, 3.0])
    for x in (X, X[::-1] * 0.5, -X):
        hessian = tg.hessian(lambda x: written_input(x.copy()))(x)
        np.testing.assert_allclose(c.hessian(x), hessian, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(c.hvp(x, v), hessian @ v, rtol=1e-11, atol=1e-12)


def test_a_write_of_one_element_at_a_computed_place():
    """The buffer of a number has no axes."""

    def f(x):
        y = x[0].reshape(-1)
        y[np.argsort(y)[:2]] *= np.sin(x[1])
        return np.sum(y**2)

    c, v = tg.compile(f), np.array([1.0, -2.0, 0.5, 3.0])
    for x in (X, -X):
        np.testing.assert_allclose(c.hvp(x, v), tg.hvp(f)(x, v), rtol=1e-12)
        a, b = x[:2]
        wanted = [2.0 * np.sin(b) ** 2 - 4.0 * a * np.sin(2 * b), 0.0, 0.0, 0.0]
        wanted[1] = 2.0 * a * np.sin(2 * b) - 4.0 * a**2 * np.cos(2 * b)
        np.testing.assert_allclose(c.hvp(x, v), wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", ["F", "transposed", "gaps", "backwards"])
def test_a_write_to_an_array_in_another_order(kind):
    ones = {
        "F": lambda: np.ones((2, 3), order="F"),
        "transposed": lambda: np.ones((3, 2, 1)).transpose(1, 0, 2)[..., 0],
        "gaps": lambda: np.ones((4, 7))[1::2, ::3],
        "backwards": lambda: np.ones((3, 2)).T[::-1, ::-1],
    }[kind]

    def f(x):
        a = tg.asarray(ones())
        a[0, 1:] = x[:2] * x[1]
        a[1, 2] = a[0, 1] * x[0]
        return np.sum(a**3)

    def plain(x):
        a = np.ones((2, 3), x.dtype)
        a[0, 1:] = x[:2] * x[1]
        a[1, 2] = a[0, 1] * x[0]
        return np.sum(a**3)

    steps = 1e-20j * np.eye(len(X))
    slopes = [np.imag(plain(X + step)) / 1e-20 for step in steps]
    np.testing.assert_allclose(tg.grad(f)(X), slopes, rtol=1e-13)
    shifted = [(tg.grad(f)(X + e) - tg.grad(f)(X - e)) / 2e-6 for e in 1e-6 * np.eye(len(X))]
    np.testing.assert_allclose(tg.jacobian(tg.grad(f))(X), shifted, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(tg.hessian(f)(X), shifted, rtol=1e-7, atol=1e-7)


def squares_of_array(x):
    return np.sum(x * x)


def squares_of_scalars(x):
    return x[0] * x[0] + x[1] * x[1]


def one_cell(x):
    return x[0]


def through_cells(x):
    f = tg.zeros(2)
    f[0] = x[0] * 2
    return np.sum(f)


def through_a_slice(x):
    f = tg.zeros(3)
    f[:2] = x * 2
    return np.sum(f)


def through_positions(x):
    f = tg.zeros(3)
    f[np.array([0, 1])] = x * 2
    return np.sum(f)


@pytest.mark.parametrize(
    "f",
    [
        squares_of_array,
        squares_of_scalars,
        one_cell,
        through_cells,
        through_a_slice,
        through_positions,
    ],
)
def test_used_up_rows_stop_a_derivative_of_higher_order(f):
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = f(x)
    y.backward()
    with pytest.raises(RuntimeError, match="used up by a backward pass"):
        (y * 1.0 + np.sum(x * 3.0)).backward(create_graph=True)
    with pytest.raises(RuntimeError, match="used up by a backward pass"):
        tg.autograd.grad(y, x, create_graph=True)
    found = tg.autograd.grad(f(x), x, create_graph=True)[0]
    assert np.array_equal(found.detach().numpy(), x.grad.numpy())


# --- results of every kind, written afterwards ----------------------------------------------------

Z = np.array([0.72, -1.2, 1.9, 0.4, -0.3, 1.1])
WEIGHTS = np.array([1.0, -2.0, 3.0, 0.5, 2.5, 1.0])


def matrix_of(x):
    return x.reshape(2, 3)


RESULTS = {
    "cumsum": np.cumsum,
    "cumsum along an axis": lambda x: np.cumsum(matrix_of(x), 0).reshape(-1),
    "cumsum of the transpose": lambda x: np.cumsum(matrix_of(x).T, 0).reshape(-1),
    "cumprod": np.cumprod,
    "cumprod along an axis": lambda x: np.cumprod(matrix_of(x), 0).reshape(-1),
    "softmax": tg.softmax,
    "softmax along an axis": lambda x: tg.softmax(matrix_of(x), axis=0).reshape(-1),
    "log_softmax": lambda x: tg.log_softmax(x.reshape(3, 2), axis=0).reshape(-1),
    "sort": np.sort,
    "max": lambda x: np.repeat(np.max(x.reshape(3, 2), 1), 2),
    "prod": lambda x: np.repeat(np.prod(x.reshape(3, 2), 1), 2),
    "logsumexp": lambda x: np.repeat(tg.logsumexp(x.reshape(3, 2), axis=1), 2),
    "matmul": lambda x: (matrix_of(x) @ np.arange(9.0).reshape(3, 3) / 9).reshape(-1),
    "einsum": lambda x: np.einsum("ij,jk->ki", matrix_of(x), np.ones((3, 3))).reshape(-1),
    "concatenate": lambda x: np.concatenate([x[3:], x[:3]]),
    "stack": lambda x: np.stack([x[:3], x[3:]], 1).reshape(-1),
    "elements": lambda x: np.stack([x[0] * x[1], x[1], x[2] ** 2, x[3], x[4], x[5]]),
    "take": lambda x: np.take(x, [1, 1, 2, 0, 5, 4]),
    "tile": lambda x: np.tile(x[:2], 3),
    "outer": lambda x: np.outer(x[:2], x[3:]).reshape(-1),
    "where": lambda x: np.where(x > 0, x**2, x),
    "copy": lambda x: x.copy(),
}


def add(y, x):
    y += x


def multiply(y, x):
    y *= x


def write_slice(y, x):
    y[1:4] = x[2:5] ** 2


def write_element(y, x):
    y[0] = x[0] * x[1]


def write_picked(y, x):
    y[[0, 2, 0]] = x[[1, 2, 3]] ** 2


def write_reversed(y, x):
    y[...] = y[::-1].copy() * x


def write_views(y, x):
    z = y.reshape(2, 3)
    z[:, 1] += x[:2]
    z.T[0] *= x[1]
    y[::-2] -= x[:3]
    y[2] = 3.0


def write_into(y, x):
    np.multiply(y, x, out=y)


WRITES = [
    add,
    multiply,
    write_slice,
    write_element,
    write_picked,
    write_reversed,
    write_views,
    write_into,
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", RESULTS)
def test_results_written(name, write):
    def f(x):
        y = RESULTS[name](x)
        z = y * x
        write(y, x)
        return np.sum(y**2 * WEIGHTS) + np.sum(z * y[::-1])

    g = tg.grad(f)
    wanted = sum(w * (g(Z + H * e) - g(Z - H * e)) for w, e in zip(WEIGHTS, np.eye(6), strict=True))
    wanted /= 2 * H
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(tg.hvp(f)(Z, WEIGHTS), wanted, rtol=1e-6, atol=1e-7 * scale)
    found = tg.grad(lambda x: tg.jvp(f, (x,), (WEIGHTS,))[1])(Z)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7 * scale)
    narrow = tg.hvp(f)(Z.astype(np.float32), WEIGHTS.astype(np.float32))
    np.testing.assert_allclose(narrow, wanted, rtol=1e-4, atol=1e-5 * scale)


def test_constants_side_by_side_in_what_is_put_together():
    """Their places are not known when elements from anywhere are put side by side."""

    def f(x):
        y = x * 1.0
        y[[0, 1, 2], [0, 1, 3]] = tg.stack([7.0, x[0, 0]])[np.array([0, 1, 0])]
        return np.sum(y * y * np.arange(12.0).reshape(3, 4))

    x = np.arange(12.0).reshape(3, 4) + 1.0
    compiled = tg.compile(f, native=False)
    np.testing.assert_allclose(compiled.hvp(x, x), tg.hvp(f)(x, x))


def test_an_array_without_axes_written_by_a_mask():
    def f(x):
        y = np.zeros_like(x[0] * 1.0).reshape(())
        y[np.array(True)] = x[0] ** 3
        return np.sum(y * y)

    np.testing.assert_allclose(tg.hvp(f)(np.array([2.0]), np.ones(1)), [30 * 2.0**4])
