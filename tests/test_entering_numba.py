"""Functions compiled by Numba, given to transforms or called from functions that are entered."""

import math
import types

import numba
import numpy as np
import pytest
from numba import njit, prange, typed, vectorize
from test_entering import differences

import tapegrad as tg

Y = np.random.default_rng(0).normal(size=50)


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


@njit
def _decay(a, b):
    return math.exp(-a) * b


@njit
def garch(p):
    s, total = np.zeros(Y.shape[0]), 0.0
    s[0] = p[0] ** 2 + 0.1
    for i in range(1, Y.shape[0]):
        s[i] = p[0] ** 2 + 0.1 * Y[i - 1] ** 2 + 0.3 * s[i - 1]
        total += math.log(s[i]) + Y[i] ** 2 / s[i]
    return total + _decay(p[0], p[1])


@njit(fastmath=True)
def loop_in_parallel(p):
    total = 0.0
    for i in prange(len(Y)):
        total += math.log(1.0 + (Y[i] - p[0]) ** 2) * p[1]
    for i in numba.prange(3):
        total += math.sin(p[0] * i)
    return total


@njit
def tuples_and_branches(p):
    low, high = (p[0], p[1]) if p[0] < p[1] else (p[1], p[0])
    if high > 1.0:
        return low * high
    return np.sum(np.array([low, high]) ** 3)


@njit
def containers(p):
    values = typed.List()
    for k in range(4):
        values.append(p[k % 2] * k)
    total = 0.0
    for x in values:
        total += math.sin(x)
    return total


@njit
def matrices(p):
    a = np.eye(2)
    a[0, 1], a[1, 0] = p[0], 0.3 * p[1]
    return np.linalg.det(a) + np.linalg.solve(a, np.ones(2)).sum()


@njit
def recursion(x, n):
    if n == 0:
        return math.sin(x)
    return recursion(x, n - 1) * math.cos(x)


@vectorize
def softened(x, k):
    return math.log1p(math.exp(k * x)) if x < 30 else k * x


def calls_of_compiled_functions(p):
    y = np.zeros(3)
    y[0] = garch(p)
    y[1:] = softened(p, 2.0)
    return np.sum(y) * recursion(p[0], 2)


def closure_of(scale):
    @njit
    def inner(p):
        return scale * math.sin(p[0]) * p[1]

    return inner


HELPERS = types.ModuleType("helpers")
HELPERS.decay, HELPERS.sin, HELPERS.rate = _decay, math.sin, 2.0


def functions_of_a_module(p):
    return HELPERS.decay(p[0], p[1]) + HELPERS.sin(p[0]) * HELPERS.rate


FUNCTIONS = [
    *(garch, loop_in_parallel, tuples_and_branches, containers, matrices),
    *(calls_of_compiled_functions, closure_of(3.0), functions_of_a_module),
]
NAMES = [one.__name__ for one in FUNCTIONS]


@pytest.mark.parametrize("f", FUNCTIONS, ids=NAMES)
def test_gradients(f):
    own = getattr(f, "py_func", f)
    before = own.__code__
    c = tg.compile(f)
    for point in ([0.4, 1.3], [0.4, 1.3], [1.1, -0.7], [-0.6, 0.9]):
        x = np.array(point)
        wanted = differences(f, x)
        value, gradient = tg.value_and_grad(f)(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-8)
        value, gradient = c.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-8)
    assert own.__code__ is before and type(f(x)) in (float, np.float64)


def test_results_that_differ_in_python_are_refused():
    @njit
    def wraps(x):
        big = 9_223_372_036_854_775_807
        return x * ((big + 1) % 1000)

    with pytest.raises(ValueError, match=r"wraps\(\) gives .* compiled by Numba, and .* in Python"):
        tg.grad(wraps)(2.0)
