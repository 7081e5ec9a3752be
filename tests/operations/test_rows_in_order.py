"""Adjoints added to rows in any order of their positions: sorted, in runs, alike, at random."""

import numpy as np
import pytest

import tapegrad as tg

RANDOM = np.random.default_rng(8)
COUNT, ROWS = 700, 9
ORDERS = {
    "random": RANDOM.integers(0, ROWS, COUNT),
    "sorted": np.sort(RANDOM.integers(0, ROWS, COUNT)),
    "runs": np.repeat(RANDOM.integers(0, ROWS, COUNT // 5), 5),
    "alike": np.full(COUNT, ROWS - 1),
    "sorted and random": np.concatenate([np.repeat(np.arange(5), 100), np.arange(200) % ROWS]),
    "one of each": np.arange(COUNT) % ROWS,
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 10, 12, 13, 17, 63, 64, 70])
def test_sums_of_rows(order, width):
    at = ORDERS[order]
    shape = (ROWS,) if width == 1 else (ROWS, width)
    x = RANDOM.normal(size=shape)
    weights = RANDOM.normal(size=(COUNT, *shape[1:]))
    c = tg.compile(lambda t, w: np.sum(t[at] * w))
    for _ in range(3):
        found = c.grad(x, weights)
    expected = np.zeros(shape)
    np.add.at(expected, at, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [1, 3, 5])
def test_sums_of_rows_in_single_precision(order, width):
    at = ORDERS[order]
    x = RANDOM.normal(size=(ROWS, width)).astype(np.float32)
    weights = RANDOM.normal(size=(COUNT, width)).astype(np.float32)
    c = tg.compile(lambda t, w: np.sum(t[at] * w))
    for _ in range(3):
        found = c.grad(x, weights)
    expected = np.zeros((ROWS, width))
    np.add.at(expected, at, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ORDERS)
def test_computed_positions(order):
    """Of positions that a program computes, which are floats there."""
    at = ORDERS[order].astype(float)

    def f(x, where, w):
        return np.sum(x[(where + 0.25).astype(int)] * w)

    x, w = RANDOM.normal(size=ROWS), RANDOM.normal(size=COUNT)
    c = tg.compile(f)
    for shift in (0.0, 0.5, 0.0):
        where = at + shift
        found = c.grad(x, where, w)
        expected = np.zeros(ROWS)
        np.add.at(expected, (where + 0.25).astype(int), w)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("wrong", [ROWS, -ROWS - 1.0, 1e12])
@pytest.mark.parametrize("where", [0, 350, COUNT - 1])
def test_computed_positions_outside(wrong, where):
    def f(x, at):
        return np.sum(x[at.astype(int)])

    x, at = RANDOM.normal(size=ROWS), ORDERS["random"].astype(float)
    c = tg.compile(f)
    for _ in range(3):
        assert c(x, at) == pytest.approx(f(x, at))
    other = at.copy()
    other[where] = wrong
    with pytest.raises(IndexError):
        c(x, other)
    assert c(x, at) == pytest.approx(f(x, at))


@pytest.mark.parametrize("length", range(1, 24))
def test_sums_along_rows(length):
    """Sums of short lines, and adjoints spread over them."""
    a = RANDOM.normal(size=(200, length))
    c = tg.compile(lambda a: np.sum(np.sin(np.sum(a * a, 1))))
    for _ in range(3):
        value, found = c.value_and_grad(a)
    total = np.sum(a * a, 1)
    assert value == pytest.approx(np.sum(np.sin(total)), rel=1e-12)
    np.testing.assert_allclose(found, 2.0 * a * np.cos(total)[:, None], rtol=1e-12, atol=1e-13)
