"""Infinite and overflowing partial derivatives, in programs as in eager code."""

import numpy as np
import pytest
from compiled import check_tiers

import tapegrad as tg

POINTS = [[1.0, 4.0, 0.25], [0.0, 4.0, 1.0], [0.0, 0.0, 0.0], [-0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]


def places(n):
    """Vectors of n elements that repeat those points, and some with one zero in the middle."""
    one = np.linspace(0.5, 1.5, n)
    one[n // 2] = 0.0
    two = np.copy(one)
    two[n // 3] = 0.0
    return [(np.resize(p, n),) for p in POINTS] + [(one,), (two,)]


INFINITE = {
    "square roots": lambda x: np.sum(np.sqrt(x)),
    "divisions": lambda x: np.sum(1.0 / x),
    "powers and logs": lambda x: np.sum(x**0.5 + np.log(x)),
    "masked": lambda x: np.sum(np.where(x > 0.0, np.sqrt(x), x * 3.0)),
    "masked twice": lambda x: np.sum(np.where(x > 0.0, np.sqrt(x) + np.log(x * x) / x, 1.0) * x),
    "times zero": lambda x: np.sum(np.sqrt(x) * 0.0 + x) + np.sum((1.0 / x) * np.where(x, x, 0.0)),
    "two roots": lambda x: np.sum(np.where(x > 0.0, np.sqrt(x) * np.sqrt(np.sqrt(x)), x)),
    "chosen": lambda x: np.sum(np.maximum(np.sqrt(x), 1.0) * x + np.minimum(1.0 / x, 2.0)),
    "first 0, then infinite": lambda x: np.sum(np.square(np.sqrt(x))),
    "first infinite, then 0": lambda x: np.sum(np.sqrt(np.square(x))),
    "root of root": lambda x: np.sum(np.where(x > 0.0, 1.0, np.sqrt(np.sqrt(x)) + x)),
    "nothing asked": lambda x: np.sum(np.sqrt(x)) * 0.0 + np.sum(x * x),
    "picked": lambda x: np.sqrt(x)[-1] + np.sum(np.log(x + 1.0) / np.sqrt(x + 1.0)),
    "broadcast": lambda x: np.sum(np.where(x[:, None], np.sqrt(x[:, None]) * x[:3], x[:3])),
    "shifted": lambda x: np.sum(np.where(x[1:] > 0.0, np.sqrt(x[:-1]) / x[1:], x[1:])),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", [3, 1000])
@pytest.mark.parametrize("name", INFINITE)
def test_infinite_slopes(name, n):
    """Infinite where they are in eager code; nothing where the adjoint is 0."""
    check_tiers(INFINITE[name], places(n), recorded=1)


@pytest.mark.parametrize("native", [False, True])
def test_what_is_meant(native):
    root, masked, twice = (
        tg.compile(INFINITE[name], native=native, verify="never")
        for name in ("square roots", "masked", "masked twice")
    )
    x = np.array([0.0, 4.0, 0.0, 1.0])
    with np.errstate(all="ignore"):
        for c in (root, masked, twice):
            c.value_and_grad(x)
            c.wait()
        np.testing.assert_array_equal(root.grad(x), [np.inf, 0.25, np.inf, 0.5])
        np.testing.assert_array_equal(masked.grad(x), [3.0, 0.25, 3.0, 0.5])
        assert np.all(twice.grad(x)[[0, 2]] == 1.0) and np.all(np.isfinite(twice.grad(x)))


def test_infinite_slopes_of_loops():
    def f(x):
        a = 0.0
        for k in range(3, 33):
            a = a * 0.5 + np.sqrt(x[k % 3]) * x[k] + np.sqrt(x[k]) * x[k % 3]
        return a

    calls = [(np.concatenate([p, np.resize(q, 30)]),) for p in POINTS for q in POINTS]
    check_tiers(f, calls, exact=True, recorded=1)


BIG, SMALL = 1e200, 1e-200
OVERFLOWING = {
    "up": lambda x, b, s: np.sum(((x * s) * b) * b * s * s),
    "down": lambda x, b, s: np.sum(((x * b) * s) * s * s * b),
    "constants": lambda x, b, s: np.sum((((x * SMALL) * BIG) * BIG) * SMALL * SMALL),
    "squares": lambda x, b, s: np.sum(np.square(x * b * 1e-50) * s * 1e-150),
    "quotients": lambda x, b, s: np.sum(x * s / (b * x) * b * b),
    "roots": lambda x, b, s: np.sum(np.sqrt(np.square(x * 1e120) * 1e60) * s + np.sqrt(x)),
    "beyond": lambda x, b, s: np.sum(np.where(x > 1.0, np.exp(x * 1e3) * x, x * b * b)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", [3, 1000])
@pytest.mark.parametrize("name", OVERFLOWING)
def test_slopes_whose_products_overflow(name, n):
    """Adjoints are multiplied step by step: what is finite so is finite, and nothing else."""
    rng = np.random.default_rng(n)
    calls = [(rng.uniform(0.5, 1.5, n), np.full(n, BIG), np.full(n, SMALL)) for _ in range(2)]
    calls += [(x, np.full(n, BIG), np.full(n, SMALL)) for (x,) in places(n)]
    check_tiers(OVERFLOWING[name], calls, (0, 1, 2), recorded=1)
