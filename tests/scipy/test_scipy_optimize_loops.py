"""Solvers in loops: functions that differ in numbers alone share compiled equations."""

import threading

import numpy as np
import pytest
from scipy.optimize import brentq, root

import tapegrad as tg
from tapegrad._custom.closures import Captured
from tapegrad._custom.structure import structure, with_numbers_lifted
from tapegrad._implicit import native_calls

P = np.array([1.0, 2.0])


@pytest.fixture
def kept():
    """The compiled equations that a test makes."""
    native_calls._kept.found.clear()
    return native_calls._kept.found


def test_a_loop_over_data_compiles_the_equations_once(kept):
    data = np.linspace(0.3, 2.0, 30)

    def f(p):
        total = 0.0
        for datum in data:
            total = total + brentq(lambda x: x**3 + p[0] * x - datum * p[1], -9.0, 9.0)
        return total

    c = tg.compile(f)
    for k in range(5):
        p = P + 0.1 * k
        x = np.array([brentq(lambda x, d=d: x**3 + p[0] * x - d * p[1], -9, 9) for d in data])
        slope = 3 * x**2 + p[0]
        expected = [np.sum(-x / slope), np.sum(data / slope)]
        assert np.allclose(c.grad(p), expected, rtol=1e-9)
    assert len(kept) == 1


def test_data_decide_a_branch_of_the_function(kept):
    def f(p, data):
        total = 0.0
        for k, datum in enumerate(data):

            def g(x, datum=datum):
                return x**3 - datum * p[0] if datum > 1.0 else x - datum * p[1]

            total = total + (k + 1) * brentq(g, -9.0, 9.0)
        return total

    c, weights = tg.compile(f), np.arange(1, 41)
    for k in range(6):
        p, data = P + 0.1 * k, (1 + 0.1 * k) * np.linspace(0.3, 2.0, 40)
        cubic = weights * np.cbrt(data * p[0]) / (3 * p[0])
        by_first = np.sum(np.where(data > 1.0, cubic, 0.0))
        by_second = np.sum(np.where(data > 1.0, 0.0, weights * data))
        for found in (c.grad(p, data), tg.grad(f)(p, data)):
            assert np.allclose(found, [by_first, by_second], rtol=1e-9)
    assert len(kept) == 1


def test_rows_of_data_are_operands(kept):
    rows = np.random.default_rng(3).uniform(0.2, 1.0, (25, 3))

    def f(p):
        total = 0.0
        for row in rows:
            x = root(
                lambda z: [z[0] * row[0] + z[1] ** 3 - p[0], z[0] - row[1] * z[1] * p[1]], row[:2]
            ).x
            total = total + row[2] * x[1]
        return total

    def slopes(p):
        found = np.zeros(2)
        for a, b, weight in rows:  # z0 = b z1 p1, so that a b p1 z1 + z1^3 = p0
            z = brentq(lambda z, a=a, b=b: a * b * p[1] * z + z**3 - p[0], 0.0, 9.0, xtol=1e-14)
            found += weight * np.array([1.0, -a * b * z]) / (a * b * p[1] + 3 * z**2)
        return found

    c = tg.compile(f)
    for k in range(4):
        assert np.allclose(c.grad(P + 0.2 * k), slopes(P + 0.2 * k), rtol=1e-6)
    assert len(kept) == 1


def test_arrays_are_read_when_the_adjoint_is_computed():
    weights = np.array([1.0, 2.0])

    def f(p):
        return brentq(lambda x: x**3 + p[0] * x - weights[0] * p[1], -9.0, 9.0)

    c = tg.compile(f)
    for k in range(50):
        weights[0] = 1.0 + 0.3 * (k > 30)
        x = f(P)
        expected = np.array([-x, weights[0]]) / (3 * x**2 + P[0])
        assert np.allclose(c.grad(P), expected, rtol=1e-9)


def test_numbers_of_several_types_and_threads(kept):
    numbers = [1, 2.0, np.float32(3.0), np.float64(0.0), -0.0] * 9

    def f(p):
        total = 0.0
        for number in numbers:
            total = total + brentq(lambda x: x - number * p[0], -99.0, 99.0)
        return total

    c, failed = tg.compile(f), []

    def work():
        for k in range(15):
            if not np.allclose(c.grad(np.array([1.0 + k])), 54.0):
                failed.append(k)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed


def test_what_is_lifted_and_what_makes_a_structure():
    def made(number, name="a", values=(1.0,)):
        return lambda x: (number, name, values)

    first = Captured(made(2.0))
    lifted, numbers = with_numbers_lifted(first, 0)
    assert numbers == [2.0]
    assert lifted.filled([5.0])[0](0) == (5.0, "a", (1.0,))
    other, _ = with_numbers_lifted(Captured(made(3.0)), 0)
    assert structure(lifted) == structure(other)
    assert structure(first) != structure(Captured(made(3.0)))
    for changed in (made(2.0, "b"), made(2.0, values=(2.0,)), made(2.0, values=[1.0])):
        assert structure(with_numbers_lifted(Captured(changed), 0)[0]) != structure(lifted)
    assert with_numbers_lifted(Captured(made(2)), 0) is None  # whole numbers may be positions


class Slots:
    __slots__ = ("name", "p")

    def __init__(self, p, name="a"):
        self.p, self.name = p, name

    def f(self, x):
        return x**3 + self.p[0] * x - self.p[1]


def test_objects_with_slots_share_equations(kept):
    def f(p, name="b"):
        every = [Slots((1.0 + 0.1 * k) * p, name if k == 3 else "a") for k in range(4)]
        return sum([brentq(one.f, -3.0, 3.0) for one in every])

    def exact(p):
        scaled = [(1.0 + 0.1 * k) * p for k in range(4)]
        roots = [brentq(lambda x, q=q: x**3 + q[0] * x - q[1], -3.0, 3.0) for q in scaled]
        slopes = [3.0 * x**2 + q[0] for x, q in zip(roots, scaled, strict=True)]
        pairs = zip(roots, slopes, range(4), strict=True)
        return sum([(1.0 + 0.1 * k) * np.array([-x, 1.0]) / slope for x, slope, k in pairs])

    c = tg.compile(f)
    for p in (P, 2.0 * P, P + 1.0, P):
        np.testing.assert_allclose(c.grad(p), exact(p), rtol=1e-9)
    assert len(kept) == 2  # one has another name


def test_a_variable_that_the_function_assigns_stays():
    def f(p):
        calls = 0.0

        def g(x):
            nonlocal calls
            calls = calls + 1.0
            return x**3 - p[0]

        return brentq(g, 0.0, 9.0), calls

    x, calls = f(P)
    assert calls > 3.0
    assert np.allclose(tg.grad(lambda p: f(p)[0])(P), [1 / (3 * x**2), 0.0])
