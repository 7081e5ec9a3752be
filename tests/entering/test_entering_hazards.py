"""What could go wrong with the codes of functions that are exchanged for the time of a call."""

import math
import os
import threading

import hostile_entering as hostile
import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.tensor.pytree import code_of

X = np.array([0.3, 0.4])


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


# --- interrupts, threads, forks -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("threads", [0, 2])
def test_interrupts(threads):
    hostile.interrupts(150, 7, threads)


def test_other_threads_get_the_results_of_numpy():
    hostile.gradients(20000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks():
    hostile.forks(2)


# --- calls that reach other functions -------------------------------------------------------------


def through(x, other):
    return other(x, np)


def filling(x, xp):
    y = xp.zeros(1)
    y[0] = xp.sin(x[0])
    return y[0] * x[1]


def comparing(x, xp):
    return x[0] * x[1] * (2.0 if xp is np else 3.0)


def beside(first, second):
    """The gradient of `second` while one of `first` is under way in another thread; and that."""
    begun, may_end, found = threading.Event(), threading.Event(), []

    def f(x):
        begun.set()
        may_end.wait(10.0)
        return first(x)

    other = threading.Thread(target=lambda: found.append(tg.grad(f)(X)))
    other.start()
    begun.wait(10.0)
    try:
        return tg.grad(second)(X), found
    finally:
        may_end.set()
        other.join()


def fill(x):
    return through(x, filling)


def compare(x):
    return through(x, comparing)


FILLED, COMPARED = [math.cos(0.3) * 0.4, math.sin(0.3)], [0.8, 0.6]


def test_calls_that_can_reach_other_functions():
    """One passes a module on to a function that only calls it, the other to one that compares."""
    own = through.__code__
    for _ in range(2):
        np.testing.assert_allclose(tg.grad(fill)(X), FILLED)
        np.testing.assert_allclose(tg.grad(compare)(X), COMPARED)
    found, first = beside(fill, compare)
    np.testing.assert_allclose(found, COMPARED)
    np.testing.assert_allclose(first, [FILLED])
    assert code_of(through) is own
    np.testing.assert_allclose(tg.grad(fill)(X), FILLED)


def test_a_comparison_is_right_while_another_call_is_under_way():
    own = through.__code__
    found, first = beside(compare, compare)
    np.testing.assert_allclose([found, *first], [COMPARED] * 2)
    with pytest.raises(TypeError, match="plain ndarray|plain NumPy array"):  # and none is wrong
        beside(compare, fill)
    assert code_of(through) is own
    np.testing.assert_allclose(tg.grad(fill)(X), FILLED)


def renaming(x):
    global scale
    scale = math.exp
    return math.sin(x[0]) * x[1]


scale = math.exp


def scaled(x):
    return scale(x[0]) * x[1]


def both(x):
    return renaming(x) + scaled(x)


def test_names_that_only_one_call_assigns():
    wanted = [math.exp(0.3) * 0.4, math.exp(0.3)]
    with pytest.raises(tg.DerivativeLost):  # what is assigned meanwhile stays as it is
        tg.grad(both)(X)
    found, _ = beside(lambda x: math.sin(x[0]) * x[1], scaled)
    np.testing.assert_allclose(found, wanted)
    with pytest.raises(tg.DerivativeLost):
        tg.grad(lambda x: tg.grad(scaled)(x)[0] + both(x))(X)
    np.testing.assert_allclose(tg.grad(scaled)(X), wanted)


class Column:
    """An object that NumPy takes for an array."""

    def __init__(self, values):
        self.held = values

    def values(self):
        return np.array(self.held) * 2.0

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values(), dtype)


COLUMN = Column([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.asarray(COLUMN) * x),
        lambda x: np.sum(np.sin(COLUMN) * x),
        lambda x: np.mean(COLUMN) * x[0] + np.linalg.norm(COLUMN) * x[1],
        lambda x: np.sum(np.stack([COLUMN, x]) ** 2),
        lambda x: np.interp(x[0], [0.0, 1.0, 2.0], COLUMN),
    ],
)
def test_objects_that_numpy_converts(f):
    x = np.array([0.3, 0.4, 0.5])
    step = 1e-6 * np.eye(3)
    wanted = [(float(f(x + e)) - float(f(x - e))) / 2e-6 for e in step]
    np.testing.assert_allclose(tg.grad(f)(x), wanted, rtol=1e-7, atol=1e-8)
    c = tg.compile(f)
    for _ in range(3):
        np.testing.assert_allclose(c.grad(x), wanted, rtol=1e-7, atol=1e-8)


def test_a_method_of_a_generator_in_c_that_a_function_holds():
    """Its class has a descriptor as the name of its module."""
    draw = np.random.RandomState(3).normal
    value, gradient = tg.value_and_grad(lambda x: x * draw())(2.0)
    assert gradient == value / 2.0 != 0.0
