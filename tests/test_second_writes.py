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


PROGRAMS = [recurrence, views, picked, matrix, scalar_broadcast, old_value, constant_buffer]


@pytest.mark.parametrize("f", PROGRAMS)
def test_hessian(f):
    g = tg.grad(f)
    wanted = [(g(X + H * e) - g(X - H * e)) / (2 * H) for e in np.eye(4)]
    np.testing.assert_allclose(tg.hessian(f)(X), wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("f", PROGRAMS)
def test_gradient_of_a_forward_derivative(f):
    v = np.array([1.0, -2.0, 0.5, 3.0])
    found = tg.grad(lambda x: tg.jvp(f, (x,), (v,))[1])(X)
    np.testing.assert_allclose(found, tg.hessian(f)(X) @ v, rtol=1e-11, atol=1e-12)


def test_third_derivative():
    third = tg.jacobian(tg.hessian(views))(X)
    hessian = tg.hessian(views)
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


def test_a_write_to_an_input_is_refused():
    def f(x):
        x[0] = x[1] * x[1]
        return np.sum(x * x)

    with pytest.raises(NotImplementedError, match="to an input of the function is not supported"):
        tg.jacobian(tg.grad(f))(X)


def test_a_write_to_an_array_in_another_order_is_refused():
    def f(x):
        a = tg.asarray(np.asfortranarray(np.ones((2, 2))))
        a[0] = x[:2]
        return np.sum(a**3)

    with pytest.raises(NotImplementedError, match="not in C order is not supported"):
        tg.jacobian(tg.grad(f))(X)


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
