"""Solvers of equations in compiled functions: in machine code, as SciPy solves them."""

import functools
import threading
import warnings

import numpy as np
import pytest
from scipy import optimize
from scipy.optimize import (
    bisect,
    brenth,
    brentq,
    fsolve,
    newton,
    ridder,
    root,
    root_scalar,
)

import tapegrad as tg
from tapegrad._implicit import native_calls, solution

CALLS = native_calls.EAGER + 4
K = 1.0


@pytest.fixture
def solved(monkeypatch):
    """How often Python has solved problems; what is found is forgotten before."""
    native_calls._kept.found.clear()
    found, own = [], solution.Problem.solved
    monkeypatch.setattr(
        solution.Problem, "solved", lambda self, values: found.append(1) or own(self, values)
    )
    return found


def compiled(f, *args, calls=CALLS):
    """A compiled function after so many calls that solvers in it are machine code."""
    c = tg.compile(f)
    for _ in range(calls):
        c.value_and_grad(*args)
    return c


def cubic(x, p):
    return x**3 + p[0] * x - p[1]


ONE_UNKNOWN = {
    "brentq": lambda p: brentq(cubic, -9.0, p[1] + 3.0, args=(p,)),
    "brenth": lambda p: brenth(cubic, -9.0, 9.0, args=(p,), xtol=1e-13),
    "bisect": lambda p: bisect(cubic, -9, 9, (p,), 1e-13),
    "ridder": lambda p: ridder(lambda x: cubic(x, p), -9.0, 9.0, xtol=1e-13),
    "secant": lambda p: newton(cubic, 0.5, args=(p,), tol=1e-13),
    "secant from two": lambda p: newton(cubic, p[0], x1=0.3, args=(p,), tol=1e-13),
    "newton": lambda p: newton(cubic, 0.5, lambda x, p: 3.0 * x**2 + p[0], (p,), 1e-13),
    "halley": lambda p: newton(
        cubic, 0.5, lambda x, p: 3.0 * x**2 + p[0], (p,), 1e-13, fprime2=lambda x, p: 6.0 * x
    ),
    "root_scalar": lambda p: root_scalar(cubic, args=(p,), bracket=(-9.0, 9.0)).root,
    "root_scalar, newton": lambda p: (
        root_scalar(cubic, (p,), x0=0.5, fprime=lambda x, p: 3.0 * x**2 + p[0], xtol=1e-13).root
    ),
    "told": lambda p: (
        np.sum(brentq(cubic, -9.0, 9.0, args=(p,), full_output=True)[0])
        + 0.0 * root_scalar(cubic, args=(p,), bracket=[-9.0, 9.0], method="brentq").iterations
    ),
}


@pytest.mark.parametrize("name", ONE_UNKNOWN)
def test_one_unknown(name, solved):
    f = ONE_UNKNOWN[name]
    c = compiled(f, np.array([1.0, 2.0]))
    solved.clear()
    for p in np.random.default_rng(0).uniform(0.5, 3.0, (5, 2)):
        value, gradient = c.value_and_grad(p)
        x = f(p)  # by SciPy
        assert abs(value - x) <= 1e-11
        slope = 3.0 * x**2 + p[0]
        np.testing.assert_allclose(gradient, [-x / slope, 1.0 / slope], rtol=1e-9)
        assert abs(c(p) - x) <= 1e-11
    assert not solved


def plane(x, a, b):
    return [x[0] ** 2 + a * x[1] - 4.0, b * np.exp(x[0]) + x[1] - 1.0]


def slopes(x, a, b):
    return np.array([[2.0 * x[0], a], [b * np.exp(x[0]), 1.0]])


@pytest.mark.parametrize(
    "solve",
    [
        lambda p: root(plane, [1.0, p[0]], args=(p[0], p[1])).x,
        lambda p: root(lambda x: plane(x, *p), np.ones(2), tol=1e-10).x,
        lambda p: root(plane, [1.0, 1.0], args=(p[0], p[1]), jac=slopes).x,
        lambda p: root(lambda x: (plane(x, *p), slopes(x, *p)), [1.0, 1.0], jac=True).x,
        lambda p: fsolve(plane, (1.0, 1.0), args=(p[0], p[1])),
        lambda p: fsolve(plane, (1.0, 1.0), args=(p[0], p[1]), fprime=slopes),
        lambda p: fsolve(plane, (1.0, 1.0), args=(p[0], p[1]), full_output=True)[0],
    ],
)
def test_two_unknowns(solve, solved):
    c = compiled(lambda p: np.sum(solve(p) * [2.0, 1.0]), np.array([1.2, 0.9]))
    solved.clear()
    for p in np.random.default_rng(1).uniform(0.8, 1.5, (4, 2)):
        value, gradient = c.value_and_grad(p)
        x = solve(p)
        assert abs(value - 2.0 * x[0] - x[1]) <= 1e-10
        by_x = np.array([[2.0 * x[0], p[0]], [p[1] * np.exp(x[0]), 1.0]])
        by_p = np.array([[x[1], 0.0], [0.0, np.exp(x[0])]])
        expected = -np.array([2.0, 1.0]) @ np.linalg.solve(by_x, by_p)
        np.testing.assert_allclose(gradient, expected, rtol=1e-8)
    assert not solved


def many_roots(x, p):
    return [
        np.sin(3.0 * x[0]) * x[1] - p[0],
        x[0] ** 3 - x[1] ** 2 * x[0] + 0.3 * x[2],
        x[2] ** 2 + x[0] - 1.5,
    ]


@pytest.mark.parametrize("jac", [None, tg.jacobian(many_roots)], ids=["differences", "jac"])
def test_starts_lead_to_the_same_roots_and_tell_the_same(jac):
    def told(start, p):
        found = root(many_roots, [start[0], start[1], start[2]], args=(p,), jac=jac)
        return found.x, found.fun, found.nfev, found.success

    c, p = tg.compile(told, argnums=1), np.array([0.2])
    starts = np.random.default_rng(2).normal(size=(200, 3)) * 2.0
    for _ in range(CALLS):
        c(np.array([1.0, 1.0, 1.0]), p)
    roots = set()
    for start in starts:
        theirs = optimize.root(many_roots, start, args=(p,), jac=jac)
        x, fun, calls, success = c(start, p)
        assert success == theirs.success
        if not success:
            continue
        np.testing.assert_allclose(x, theirs.x, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(fun, theirs.fun, atol=1e-8)
        assert calls == theirs.nfev
        roots.add(tuple(x.round(6)))
    assert len(roots) > 3


def test_many_unknowns(solved):
    n = 30

    def f(p):
        def residual(x):
            y = (3.0 - p[0] * x) * x + p[1]
            return np.concatenate(
                [y[:1] - 2.0 * x[1:2], y[1:-1] - x[:-2] - 2.0 * x[2:], y[-1:] - x[-2:-1]]
            )

        return root(residual, -np.ones(n)).x

    p, v = np.array([2.0, 1.0]), np.linspace(0.5, 1.5, n)
    c = compiled(lambda p: v @ f(p), p)
    solved.clear()
    value, gradient = c.value_and_grad(p)
    assert not solved
    x = f(p)
    assert abs(value - v @ x) <= 1e-10 * n
    by_x = np.diag(3.0 - 4.0 * x) - np.diag(np.ones(n - 1), -1) - 2.0 * np.diag(np.ones(n - 1), 1)
    expected = -np.linalg.solve(by_x.T, v) @ np.stack([-(x**2), np.ones(n)], 1)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_failures_are_those_of_scipy():
    c = compiled(ONE_UNKNOWN["bisect"], np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="different signs"):
        c.value_and_grad(np.array([1.0, 1e6]))
    with pytest.raises(ValueError, match="is NaN"):
        c(np.array([np.nan, 2.0]))
    many = compiled(lambda p: newton(lambda x: x**2 + p, 3.0, tol=1e-13), -2.0)
    with pytest.raises(RuntimeError, match="Failed to converge"):
        many(1.0)
    assert abs(many(-9.0) - 3.0) < 1e-11  # and goes on
    with pytest.warns(RuntimeWarning, match="not close to a solution"):
        loose = compiled(lambda p: np.sum(root(lambda x: x**3 - p, [3.0], tol=0.3).x), 9.0)
    by_x = 3.0 * loose(9.0) ** 2  # at what was found
    np.testing.assert_allclose(loose.grad(9.0), 1.0 / by_x, rtol=1e-12)


def test_a_singular_jacobian_raises():
    def line(x, p):
        return [x[0] + x[1] - p, 2.0 * (x[0] + x[1] - p)]

    c = compiled(lambda p: np.sum(root(lambda x: [x[0] ** 3 - p, x[1] - x[0]], [2.0, 2.0]).x), 1.0)
    np.testing.assert_allclose(c.grad(8.0), 1.0 / 6.0, rtol=1e-7)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        compiled(lambda p: np.sum(root(line, [1.0, 1.0], args=(p,)).x), 2.0)


def branching(x, p):
    if x[0] > 1.0:
        return [x[0] ** 2 - p[0], 2.0 * p[0] - x[1] if x[1] > 0.5 else x[0] - p[0]]
    return [x[0] - p[0], x[1] ** 3 - p[1]]


def test_branches(solved):
    def one(p):
        return brentq(lambda x: x - p if x < 1.0 else x**2 - p**2, 0.0, 9.0)

    c = compiled(one, 0.5)
    for p in (0.6, 3.0, 0.7):
        assert abs(c(p) - p) < 1e-11
        assert abs(c.grad(p) - 1.0) < 1e-9

    def two(p):
        return np.sum(root(branching, [1.5, 0.9], args=(p,)).x * [1.0, 2.0])

    c = compiled(two, np.array([2.0, 0.5]))
    ways = np.array([[2.0, 0.5], [0.5, 0.5], [3.0, 0.1], [0.7, 2.0]])
    for _ in range(4):
        solved.clear()
        for p in ways:
            x = np.array([p[0], np.cbrt(p[1])]) if p[0] < 1.0 else [np.sqrt(p[0]), 2.0 * p[0]]
            value, gradient = c.value_and_grad(p)
            assert abs(value - x[0] - 2.0 * x[1]) < 1e-9
            by_p = [1.0, 2.0 / (3.0 * x[1] ** 2)] if p[0] < 1.0 else [0.5 / x[0] + 4.0, 0.0]
            np.testing.assert_allclose(gradient, by_p, rtol=1e-7)
    assert not solved


def test_names_of_the_function(monkeypatch):
    c = compiled(lambda p: brentq(lambda x: x**3 - K * p, -9.0, 9.0), 2.0)
    monkeypatch.setitem(globals(), "K", 4.0)
    for _ in range(3):
        assert abs(c(2.0) - 2.0) < 1e-11
        assert abs(c.grad(2.0) - 4.0 / 12.0) < 1e-9


class Model:
    def __init__(self):
        self.k = 1.0

    def f(self, x, p):
        return x**3 - self.k * p


MODEL = Model()


@pytest.mark.parametrize(
    "solve",
    [
        lambda p: brentq(MODEL.f, -9.0, 9.0, args=(p,)),
        lambda p: brentq(lambda x, m: x**3 - m["k"].k * p, -9.0, 9.0, args=({"k": MODEL},)),
        lambda p: brentq(functools.partial(Model.f, MODEL), -9.0, 9.0, args=(p,)),
    ],
)
def test_objects_that_change(solve):
    MODEL.k = 1.0
    c = compiled(solve, 2.0)
    assert abs(c(2.0) - np.cbrt(2.0)) < 1e-11
    MODEL.k = 4.0
    for _ in range(3):
        assert abs(c(2.0) - 2.0) < 1e-11
        assert abs(c.grad(2.0) - 4.0 / 12.0) < 1e-9


def test_globals_that_are_recorded(monkeypatch):
    def f(p):
        monkeypatch.setitem(globals(), "K", p)
        return brentq(lambda x: x**3 - K, -9.0, 9.0)

    c = tg.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that it changes K
        for k in range(CALLS):
            assert abs(c(2.0 + k) - np.cbrt(2.0 + k)) < 1e-11
            assert abs(c.grad(2.0 + k) - np.cbrt(2.0 + k) / (3.0 * (2.0 + k))) < 1e-9


def test_data_of_a_loop_are_arguments(solved):
    data, low = np.linspace(0.3, 2.0, 30), [0.0, -1.0] * 15

    def f(p):
        total = 0.0
        for datum, a in zip(data, low, strict=True):
            total = total + brentq(cubic, a, 9.0, args=([p[0], datum * p[1]],)) ** 2
        return total

    p = np.array([1.0, 2.0])
    c = compiled(f, p, calls=3)
    assert len(native_calls._kept.found) == 1
    solved.clear()
    value, gradient = c.value_and_grad(p)
    assert not solved
    x = np.array([brentq(cubic, -1.0, 9.0, args=([p[0], d * p[1]],)) for d in data])
    slope = 3.0 * x**2 + p[0]
    assert abs(value - np.sum(x**2)) < 1e-9
    expected = [np.sum(-2.0 * x**2 / slope), np.sum(2.0 * x * data / slope)]
    np.testing.assert_allclose(gradient, expected, rtol=1e-9)


def test_threads():
    c, failed = compiled(ONE_UNKNOWN["brentq"], np.array([1.0, 2.0])), []

    def work(seed):
        for p in np.random.default_rng(seed).uniform(0.5, 3.0, (100, 2)):
            value, gradient = c.value_and_grad(p)
            if abs(cubic(value, p)) > 1e-10 or abs(gradient[1] * (3 * value**2 + p[0]) - 1) > 1e-9:
                failed.append(p)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed
