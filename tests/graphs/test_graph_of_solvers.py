"""Loops whose rounds depend on data and solve equations: they have graphs, with eager results."""

import functools
import warnings

import numba
import numpy as np
import pytest
from scipy.optimize import bisect, brenth, brentq, newton, root_scalar

import tapegrad as tg

P = np.array([2.0, 5.0, 0.3])
TIMES = np.array([1.0, 2.0, 3.5])
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def cubic(z, a, b):
    return z**3 + a * z - b


def slope(z, a, b):
    return 3 * z**2 + a


class Model:
    def __init__(self, c):
        self.c = c

    def equation(self, z, a, b):
        return z**3 + self.c * a * z - b


MODEL = Model(1.5)


def settled(solve):
    """Solutions of equations that take the one before, until they settle."""

    @functools.wraps(solve)
    def f(p):
        x, change = 1.0, 1.0
        while change > 1e-7:
            new = solve(p, x)
            change, x = abs(new - x), new
        return x

    return f


@case
@settled
def of_lambda(p, x):
    return brentq(lambda z: z**3 + p[0] * z - p[1] * x, 0.0, 10.0)


@case
@settled
def of_local_function(p, x):
    def equation(z, a=p[0]):
        return z**3 + a * z - p[1] * x

    return brenth(equation, 0, 10)


@case
@settled
def of_global_function(p, x):
    return bisect(cubic, 0, 8, args=(p[0], p[1] * x))


@case
@settled
def of_method(p, x):
    return brentq(MODEL.equation, 0.0, 9.0, args=(p[0], p[1] * x))


@case
@settled
def by_secant(p, x):
    return newton(cubic, x, args=(p[0], p[1] * x))


@case
@settled
def by_slope(p, x):
    return newton(cubic, x, slope, (p[0], p[1] * x))


@case
@settled
def by_name(p, x):
    found = root_scalar(cubic, args=(p[0], p[1] * x), bracket=[0, 8])
    assert found.converged
    return found.root


@case
@settled
def by_name_of_newton(p, x):
    found = root_scalar(cubic, (p[0], p[1] * x), "newton", x0=x, fprime=slope, xtol=1e-12)
    return found.root + 0.0 * root_scalar(lambda z: z - p[2], bracket=(0.0, 1.0), rtol=1e-9).root


@case
@settled
def of_arrays(p, x):
    paid = p[:2] * np.exp(p[2])
    return brentq(lambda r: np.sum(paid * np.exp(-r * TIMES[:2])) - 0.5 * x, -1.0, 9.0)


@case
@settled
def of_loops_and_branches(p, x):
    def value(r):
        total = 0.0
        for t in range(1, 6):
            if t > 2:
                total = total + p[0] / (1 + r) ** t
            else:
                total = total + abs(r - p[2]) * p[1] / (1 + r) ** t
        return total - 3.0 - 0.1 * x

    return brentq(value, 0.4, 5.0)


@case
@settled
def of_arrays_in_another(p, x):
    def outer(y):
        weights = y * p[:2] * np.ones(2)
        inner = brentq(lambda z: np.sum(weights * np.exp(z * TIMES[:2])) - 9.0, -9.0, 9.0)
        return inner - p[2] + 0.1 * x

    return brentq(outer, 0.01, 20.0)


@case
@settled
def of_equal_slopes_in_another(p, x):
    def outer(y):
        inner = brentq(lambda z: np.sum(TIMES * z) - y * p[0], -99.0, 99.0)
        return np.sum(inner * TIMES**2) - p[1] - 0.1 * x

    return brentq(outer, -9.0, 20.0)


@case
@settled
def at_an_end(p, x):
    return brentq(lambda z: (z - 1.0) * (p[0] + z), 1.0, 3.0) + 0.06 * p[1] * x


@pytest.mark.parametrize("name", CASES)
def test_a_loop_over_solutions_has_a_graph(name):
    f = CASES[name]
    c = tg.compile(f, native=False)
    for k in range(4):
        p = P + 0.02 * k
        value, gradient = c.value_and_grad(p)
        expected, slopes = tg.value_and_grad(f)(p)
        np.testing.assert_allclose(value, expected, rtol=1e-11)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-7, atol=1e-9)
    assert c._flows.found, c._flows.refused
    np.testing.assert_allclose(c.hessian(P), tg.hessian(f)(P), rtol=1e-5, atol=1e-7)


def test_native_code_gives_the_same():
    f = CASES["of_arrays"]
    c = tg.compile(f)
    for _ in range(3):
        c.value_and_grad(P)
    c.wait()
    np.testing.assert_allclose(c.grad(P), tg.grad(f)(P), rtol=1e-7)


def test_files_rows_and_calls_by_numba(tmp_path):
    """They have all spaces of the memory."""
    f = CASES["of_arrays"]
    c = tg.compile(f, native=False)
    c.grad(P), c.grad(P + 0.1)
    assert c._flows.found
    c.save(tmp_path / "program")
    np.testing.assert_allclose(tg.load(tmp_path / "program").grad(P), tg.grad(f)(P), rtol=1e-7)
    _, value_and_grad = c.numba(P)

    @numba.njit
    def call(p, gradient):
        return value_and_grad(p, gradient)

    rows = P + 0.02 * np.arange(3)[:, None]
    values, gradients = c.map(rows)
    for row, value, gradient in zip(rows, values, gradients, strict=True):
        expected, slopes = tg.value_and_grad(f)(row)
        again = np.zeros(3)
        np.testing.assert_allclose([value, call(row, again)], expected, rtol=1e-10)
        np.testing.assert_allclose([gradient, again], [slopes] * 2, rtol=1e-7, atol=1e-9)


@settled
def _counted(p, x):
    calls = 0

    def equation(z):
        nonlocal calls
        calls += 1
        return z**3 + p[0] * z - p[1] * x

    return brentq(equation, 0.0, 10.0) + 0.0 * calls


@settled
def _told(p, x):
    return brentq(cubic, 0.0, 9.0, args=(p[0], p[1] * x), full_output=True)[0]


@settled
def _by_ridder(p, x):
    return root_scalar(cubic, (p[0], p[1] * x), "ridder", (0.0, 9.0)).root


@settled
def _counted_by_scipy(p, x):
    found = root_scalar(cubic, (p[0], p[1] * x), bracket=(0.0, 9.0))
    return found.root + 0.0 * found.iterations


@settled
def _of_several(p, x):
    return newton(cubic, x * np.ones(2), args=(p[0], p[1] * x))[0]


@pytest.mark.parametrize("f", [_counted, _told, _by_ridder, _counted_by_scipy, _of_several])
def test_other_calls_stay_with_scipy(f):
    c = tg.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it is slow
        for k in range(3):
            found = c.value_and_grad(P + 0.02 * k)
    expected = tg.value_and_grad(f)(P + 0.04)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-7)
    assert not c._flows.found


def test_errors_and_warnings_are_those_of_scipy():
    @settled
    def f(p, x):
        return brentq(lambda z: z**3 - p[0] * x, 1.0, 9.0)

    c = tg.compile(f)
    p = np.array([4.0])
    for _ in range(3):
        np.testing.assert_allclose(c.grad(p), tg.grad(f)(p), rtol=1e-7)
    with pytest.raises(ValueError, match="different signs"):
        c.grad(np.array([-4.0]))


def test_a_root_that_is_not_close_warns():
    @settled
    def f(p, x):
        return brentq(lambda z: np.arctan(z - p[0]) + 0.0 * x, -1.0, 8.0, xtol=0.5)

    c, p = tg.compile(f), np.array([4.1])
    for evaluate in (tg.grad(f), c.grad, c.grad):
        with pytest.warns(RuntimeWarning, match="not close to a solution"):
            evaluate(p)


@pytest.mark.parametrize("count", [20, 60])
def test_many_solutions_have_a_graph_at_once(count):
    data = np.linspace(0.5, 2.0, count)

    def f(p):
        total = 0.0
        for one in data:
            total = total + brentq(lambda z: z**3 + p[0] * z - p[1] * one, 0.0, 10.0)  # noqa: B023
        return total

    c = tg.compile(f)
    for k in range(3):
        p = P + 0.1 * k
        roots = np.array([brentq(cubic, 0.0, 10.0, args=(p[0], p[1] * one)) for one in data])
        found = c.grad(p)
        slopes = slope(roots, p[0], p[1])
        np.testing.assert_allclose(found[:2], [-np.sum(roots / slopes), np.sum(data / slopes)])
    assert bool(c._flows.found) == (count == 60)


def test_many_solutions_without_a_graph_have_a_program():
    def f(p):
        total = 0.0
        for k in range(50):
            total = total + np.linalg.det(p[0] * np.ones((k % 3, 2, 2))).sum()  # no graph has it
            total = total + brentq(cubic, 0.0, 10.0, args=(p[0], p[1] * (1 + k)))
        return total

    c = tg.compile(f)
    for k in range(3):
        p = P + 0.1 * k
        np.testing.assert_allclose(c.grad(p), tg.grad(f)(p), rtol=1e-8, atol=1e-12)
    assert not c._flows.found and c._families.found
