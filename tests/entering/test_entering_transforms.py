"""Public functions that take a function: they enter it."""

import functools
import math
import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.config import Config
from tapegrad._core.tensor import runtime as rt
from tapegrad.autograd import functional

X, V = np.array([0.4, 1.1, 0.7]), np.array([0.3, -1.0, 0.5])


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


def test_functions_are_entered_by_default():
    assert Config().enter


def filled(x):
    y = np.zeros(3)
    for k in range(3):
        y[k] = math.sin(x[k]) * x[0]
    return np.sum(y)


def whole(x):
    """The same without a plain array that is filled, for PyTorch's style."""
    return np.sum(np.sin(x) * x[0])


GRADIENT = tg.grad(whole)(X)
HESSIAN = tg.hessian(whole)(X)


@pytest.mark.parametrize(
    ("name", "vector", "wanted"),
    [
        ("vjp", (), GRADIENT),
        ("jvp", (V,), GRADIENT @ V),
        ("jacobian", (), GRADIENT),
        ("hessian", (), HESSIAN),
        ("vhp", (V,), HESSIAN @ V),
        ("hvp", (V,), HESSIAN @ V),
    ],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_functional(name, vector, wanted, create_graph):
    x = tg.tensor(X, requires_grad=True)
    given = [tg.tensor(one) for one in vector]
    found = getattr(functional, name)(filled, x, *given, create_graph=create_graph)
    found = found[1] if type(found) is tuple else found
    np.testing.assert_allclose(found.detach().numpy(), wanted)
    if create_graph and name in ("vjp", "jacobian"):
        found.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), HESSIAN.sum(0))


def test_checks_of_derivatives():
    x = tg.tensor(X, requires_grad=True)
    assert tg.autograd.gradcheck(filled, (x,), check_forward_ad=True)
    assert tg.autograd.gradcheck(filled, (x,), fast_mode=True)
    assert tg.autograd.gradgradcheck(filled, (x,))
    tg.check_grads(filled, (X,))


def test_record():
    text = repr(tg.record(filled, X))
    assert text.count("  sin ") == 3 and "write" in text


def test_check_grads_has_the_packages_of_a_transform():
    with pytest.raises(TypeError, match="enter has 1"):
        tg.check_grads(whole, (X,), enter=(1,))


# --- programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", ["once", "never"])
def test_programs_of_entered_functions_are_compared_where_they_ask_for_types(verify):
    """As those that are not entered: the search for such code goes through what enters."""

    def f(x, d):
        return x[0] if hasattr(d, "shape") else x[1] ** 2

    c = tg.compile(f, verify=verify)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(3):
            value, gradient = c.value_and_grad(X, 2.0)
            assert value == pytest.approx(X[1] ** 2)
            np.testing.assert_allclose(gradient, [0.0, 2 * X[1], 0.0])


def test_memoized_functions_forget_what_a_recording_has_asked_of_them():
    @functools.lru_cache
    def kind(d):
        return d * 2.0

    def f(x, d):
        return x[0] * kind(d)

    c = tg.compile(f)
    for _ in range(3):
        assert c(X, 2.0) == pytest.approx(4.0 * X[0])
    assert type(kind(2.0)) is float


# --- black boxes, and what is not recorded --------------------------------------------------------


def plainly_filled(x):
    """What compiled code is given: NumPy's own arrays."""
    y, given = np.zeros(len(x)), np.ascontiguousarray(x, dtype=float)
    assert y.ctypes.data and given.ctypes.data
    for k in range(len(x)):
        y[k] = math.sin(given[k])
    return y


class Box(tg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return plainly_filled(np.asarray(x) if isinstance(x, np.ndarray) else x.detach().numpy())

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * np.cos(x)


def test_the_forward_of_a_function_is_none_of_the_transform():
    def f(x):
        y = np.zeros(3)
        y[:] = Box.apply(x * 1.0)
        return np.sum(y * x)

    wanted = X * np.cos(X) + np.sin(X)
    np.testing.assert_allclose(tg.grad(f)(X), wanted)
    second = np.diag(2 * np.cos(X) - X * np.sin(X))
    np.testing.assert_allclose(tg.hessian(f)(X), second, atol=1e-15)
    for verify in ("once", "never"):
        c = tg.compile(f, verify=verify)
        for k in (1.0, 1.0, -2.0):
            y = k * X
            np.testing.assert_allclose(c.grad(y), y * np.cos(y) + np.sin(y))
        assert "1 program" in repr(c)


class Inner(Box):
    @staticmethod
    def forward(ctx, x):
        assert tg.grad(lambda t: t * math.sin(t))(0.0) == 0.0  # which enters, and leaves
        return Box.forward(ctx, x)


def test_a_transform_in_forward():
    with np.errstate(all="raise"):
        found = tg.grad(lambda x: np.sum(Inner.apply(x)) + math.sin(x[0]))(X)
    np.testing.assert_allclose(found, np.cos(X) * [2.0, 1.0, 1.0])
    assert not rt.in_transform() and type(np.zeros(1)) is np.ndarray


def test_conversions_where_nothing_is_recorded_take_values():
    def f(x):
        with tg.no_grad():
            held = np.asarray(x), np.ascontiguousarray(x), np.array(x)
        return sum([np.sum(x * one) for one in held])

    np.testing.assert_allclose(tg.grad(f)(X), 3.0 * X)


def branching(x, y):
    """With a graph that derivatives are computed by, and compared."""
    z = np.zeros(1)
    z[0] = math.sin(x) * y if x > y else math.exp(y)
    return z[0] * x * x


@pytest.mark.parametrize("verify", ["once", "never"])
def test_derivatives_by_a_graph_are_compared_with_the_entered_function(verify):
    points = [(0.7, 0.2), (0.3, 0.9), (0.8, 0.1)]
    c = tg.compile(branching, argnums=(0, 1), verify=verify)
    for x, y in points:
        np.testing.assert_allclose(c.grad(x, y), tg.grad(branching, (0, 1))(x, y))
    for x, y in points:
        np.testing.assert_allclose(c.hessian(x, y), tg.hessian(branching, (0, 1))(x, y))
        jvp = c.jvp((x, y), (1.0, 0.5))[1]
        np.testing.assert_allclose(jvp, np.dot(tg.grad(branching, (0, 1))(x, y), [1.0, 0.5]))
        np.testing.assert_allclose(c.vjp(x, y)[1](2.0), np.multiply(c.grad(x, y), 2.0))
        outer = tg.grad(lambda x, y: c(x, y) ** 2, (0, 1))(x, y)
        np.testing.assert_allclose(outer, np.multiply(c.grad(x, y), 2 * branching(x, y)))
    assert "graph" in repr(c)
