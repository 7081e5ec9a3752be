"""Compiled functions with branches whose results are arrays, or hold some."""

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg
import tapegrad.numpy as tnp

pytestmark = needs("numba-reader")

RNG = np.random.default_rng(9)


def clipped(p, x):
    made = tnp.zeros(len(x))
    for k in range(len(x)):
        made[k] = x[k] * p if x[k] > 0 else -x[k]
    return made


def sorted_rows(p, x):
    """Arrays in a tuple and a dict, of integers and truths too; views in another order."""
    order = tnp.zeros(len(x), int)
    for i in range(len(x)):
        for k in range(len(x)):
            if x[k] < x[i]:
                order[i] += 1
    table = x[:, None] * tnp.ones(3) * p
    return {"order": order, "above": x > p, "both": (table.T, table[::-2, 1])}, x[1:]


def relaxed(p, x):
    values, rounds = x, 0
    while tnp.max(abs(values)) > 0.5 and rounds < 20:
        values, rounds = values * (0.8 * p), rounds + 1
    return values, rounds


def same(found, wanted):
    if isinstance(wanted, (tuple, list)):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
    elif isinstance(wanted, dict):
        assert [*found] == [*wanted]
        same([*found.values()], [*wanted.values()])
    else:
        assert np.shape(found) == np.shape(wanted) and type(found) is type(wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("f", [clipped, sorted_rows, relaxed], ids=lambda f: f.__name__)
def test_equal_to_eager(f, native):
    c = tg.compile(f, argnums=0, native=native)
    for n in (4, 4, 5, 3, 4, 9, 1, 40, 4):
        p, x = float(RNG.uniform(0.2, 0.9)), RNG.normal(size=n)
        found = c(p, x)
        same(found, f(p, x))
        c.wait()
    assert {flow.primal.left for flow in c._flows.found.values()} == {0}


def test_results_are_the_callers():
    """What is written to a result changes no argument and no later result."""

    def f(p, x):
        return x if x[0] > 0 else p * x

    c = tg.compile(f)
    for sign in (1, -1, 1, -1, 1, -1):
        x = sign * np.arange(1.0, 4.0)
        found = c(2.0, x)
        found[:] = 7.0
        assert x[0] == sign
        same(c(2.0, x), f(2.0, x))
    assert c._flows.found


def test_other_numbers_of_axes_are_refused():
    def f(p, x):
        return x * p if x[0] > 0 else x[:, None] * p

    c = tg.compile(f)
    for sign in (1, -1, 1, -1):
        x = sign * np.arange(1.0, 4.0)
        same(c(2.0, x), f(2.0, x))
    assert "on one branch" in c.explain()


def test_derivatives_are_those_of_the_function():
    """A graph gives values of arrays alone; derivatives go by other means."""
    c = tg.compile(clipped)
    calls = [(0.7, RNG.normal(size=4)) for _ in range(6)]
    for p, x in calls:
        same(c(p, x), clipped(p, x))
    assert c._flows.found
    for p, x in calls:
        wanted = tg.jacobian(clipped)(p, x)
        np.testing.assert_allclose(c.jacobian(p, x), wanted, rtol=1e-12)
        outer = lambda p: tnp.sum(c(p, x) ** 2)
        plain = lambda p: tnp.sum(clipped(p, x) ** 2)
        np.testing.assert_allclose(tg.grad(outer)(p), tg.grad(plain)(p), rtol=1e-12)


T, COUNTS = np.linspace(0.0, 1.0, 7), np.arange(7)


def full_like(p):
    out = np.full_like(T, p[1])
    for k in range(len(T)):
        if T[k] > p[0]:
            out[k] += p[0] * T[k]
    return np.sum(out**2)


def zeros_like_of_integers(p):
    out = np.zeros_like(COUNTS, dtype=float)
    for k in range(len(COUNTS)):
        if COUNTS[k] > 3.0 * p[0]:
            out[k] = p[0] * COUNTS[k] + p[1]
    return np.sum(out**2)


def likes_with_dtypes(p):
    out, whole = np.ones_like(2.0 * p, dtype=np.float64), np.full_like(T, 2.7, dtype=int)
    for k in range(len(p)):
        if p[k] > 0.4:
            out[k] = p[0] * out[k]
    return np.sum(out * np.full_like(p, 2.5)) + whole[0] * p[0]


@pytest.mark.parametrize("f", [full_like, zeros_like_of_integers, likes_with_dtypes])
def test_arrays_like_others(f):
    compiled = tg.compile(f)
    for p in ([0.5, 1.0], [0.2, 0.3], [0.9, -1.0], [0.3, 2.0], [0.6, 0.7]):
        value, slope = compiled.value_and_grad(np.array(p))
        expected, wanted = tg.value_and_grad(f)(np.array(p))
        np.testing.assert_allclose(value, expected, rtol=1e-14)
        np.testing.assert_allclose(slope, wanted, rtol=1e-14)
    assert "1 graph" in compiled.explain()
