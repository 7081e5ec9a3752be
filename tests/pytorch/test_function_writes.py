"""Functions whose saved tensors are written later: backward finds what the call had read."""

import numpy as np
import pytest

import tapegrad as tg

V = np.array([0.72, -1.2, 1.9, 0.4, -0.3])
H = 1e-6


class Cube(tg.autograd.Function):
    """x³, whose backward reads the argument and the result."""

    @staticmethod
    def forward(ctx, x):
        y = x * x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * 3.0 * y / x


class Pair(tg.autograd.Function):
    """x³ and x², saved as attributes."""

    @staticmethod
    def forward(ctx, x):
        ctx.cube, ctx.square, ctx.x = x * x * x, x * x, x
        return ctx.cube, ctx.square

    @staticmethod
    def backward(ctx, of_cube, of_square):
        return of_cube * 3.0 * ctx.cube / ctx.x + of_square * 2.0 * ctx.square / ctx.x


def cube(x):
    return Cube.apply(x) if isinstance(x, tg.Tensor) else x**3


def pair(x):
    return Pair.apply(x) if isinstance(x, tg.Tensor) else (x**3, x**2)


def argument(x):
    y = x * 1.0
    z = cube(y)
    y[0] = 100.0
    return np.sum(z) + np.sum(y * x)


def result(x):
    z = cube(x * 1.0)
    z[1:3] = x[:2] * z[0]
    z[0] *= z[4]
    return np.sum(z * x)


def both(x):
    y = x * 1.0
    z = cube(y)
    y *= z
    z += y
    w = cube(y)
    y[[0, 0, 3]] = x[[1, 2, 3]]
    return np.sum(w) + np.sum(z * y)


def a_loop(x):
    state = x * 1.0
    total = 0.0
    for k in range(6):
        total = total + np.sum(cube(state) * x)
        state[k % 5] = state[(k + 1) % 5] * x[k % 5]
    return total


def views(x):
    m = np.outer(x, x)
    z = cube(m[1:, ::-2])
    m[2] = 3.0
    m.T[0] += x
    return np.sum(z * m[1:, :3]) + np.sum(z**2)


def several(x):
    y = x * 1.0
    a, b = pair(y)
    a[0] = 5.0
    b *= a
    y[...] = 2.0
    return np.sum(a * x) + np.sum(b)


PROGRAMS = [argument, result, both, a_loop, views, several]


def differences(f, x):
    return np.array([(f(x + H * e) - f(x - H * e)) / (2 * H) for e in np.eye(x.size)])


def close(found, wanted):
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-8 * scale)


@pytest.mark.parametrize("f", PROGRAMS)
def test_gradient(f):
    wanted = differences(f, V)
    close(tg.grad(f)(V), wanted)
    x = tg.tensor(V, requires_grad=True)
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    close(x.grad.numpy(), 2 * wanted)
    _, back = tg.vjp(lambda x: f(x) * np.ones(2), V)
    for _ in range(2):
        close(back(np.array([1.0, 2.0]))[0], 3 * wanted)


@pytest.mark.parametrize("f", PROGRAMS)
def test_jacobian_and_forward_mode(f):
    wanted = differences(f, V)
    found = tg.jacobian(lambda x: np.stack([f(x), f(2.0 * x)]))(V)
    close(found, [wanted, differences(lambda x: f(2.0 * x), V)])
    v = np.linspace(-1.0, 1.0, 5)
    close(tg.jvp(f, (V,), (v,))[1], wanted @ v)


@pytest.mark.parametrize("f", PROGRAMS)
def test_second_derivatives(f):
    wanted = differences(tg.grad(f), V)
    close(tg.hessian(f)(V), wanted)
    x = tg.tensor(V, requires_grad=True)
    (gradient,) = tg.autograd.grad(f(x), x, create_graph=True)
    v = np.linspace(-1.0, 1.0, 5)
    close(tg.autograd.grad((gradient * v).sum(), x)[0].numpy(), wanted @ v)


def test_memory_is_as_it_was():
    seen = []

    def f(x):
        y = x * 1.0
        z = cube(y)
        y[0] = 100.0
        z[1] = 7.0
        seen[:] = y, z
        return np.sum(z)

    tg.grad(f)(V)
    assert np.asarray(seen[0])[0] == 100.0 and np.asarray(seen[1])[1] == 7.0
