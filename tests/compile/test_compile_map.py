"""Compiled functions over many inputs: rows and sums, on threads."""

import random
import re

import numpy as np
import pytest
from compiled import counts

import tapegrad as tg

RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(300, 3))
FACTORS = RNG.normal(size=3)


def product(w, x, s):
    """A function of an array for all, one of each row, and a number of each row."""
    return np.sum(np.tanh(w * x) * s) + w[0] * s * s


def branching(w, x):
    """The guard fails where the first of a row is negative."""
    return np.sum(w * x) ** 2 if x[0] > 0.0 else np.sum(np.exp(w)) * x[1]


def one_by_one(f, axes, args, argnums):
    """Values and gradients row by row, by the function as it is."""
    eager = tg.value_and_grad(f, argnums)
    count = len(args[axes.index(0)])
    found = []
    for k in range(count):
        row = [a if axis is None else a[k] for a, axis in zip(args, axes, strict=True)]
        found.append(eager(*[x if np.ndim(x) else float(x) for x in row]))
    values = np.array([value for value, _ in found])
    return values, [np.stack([g[j] for _, g in found]) for j in range(len(argnums))]


CASES = [
    (product, (None, 0, 0), (FACTORS, ROWS, RNG.normal(size=300)), (0, 1, 2)),
    (product, (None, 0, None), (FACTORS, ROWS, 0.5), (0, 2)),
    (product, (0, None, 0), (ROWS, FACTORS, RNG.normal(size=300)), (1, 0)),
    (branching, (None, 0), (FACTORS, ROWS), (0, 1)),
    (branching, (0, 0), (ROWS[::-1], ROWS), (1, -2)),
]


@pytest.mark.parametrize("f, axes, args, argnums", CASES)
def test_rows(f, axes, args, argnums):
    values, gradients = tg.compile(f, argnums=argnums).map(*args, in_axes=axes)
    right, wanted = one_by_one(f, axes, args, argnums)
    np.testing.assert_allclose(values, right, rtol=1e-13)
    for found, exact in zip(gradients, wanted, strict=True):
        assert found.shape == exact.shape
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("f, axes, args, argnums", CASES)
def test_sums(f, axes, args, argnums):
    value, gradients = tg.compile(f, argnums=argnums).sum(*args, in_axes=axes)
    right, wanted = one_by_one(f, axes, args, argnums)
    np.testing.assert_allclose(value, right.sum(), rtol=1e-13)
    for number, found, exact in zip(argnums, gradients, wanted, strict=True):
        shared = axes[number] is None
        np.testing.assert_allclose(found, exact.sum(axis=0) if shared else exact, 1e-12, 1e-13)


@pytest.mark.parametrize("f, axes, args, argnums", CASES[::3])
@pytest.mark.parametrize("method", ["map", "sum"])
def test_the_number_of_threads_changes_nothing(f, axes, args, argnums, method):
    pairs = zip(args, axes, strict=True)
    many = [np.tile(a, (30, 1)[: np.ndim(a)]) if axis == 0 else a for a, axis in pairs]
    c = tg.compile(f, argnums=argnums, native=False)
    first = getattr(c, method)(*many, in_axes=axes, threads=1)
    for threads in (2, 5):
        again = getattr(c, method)(*many, in_axes=axes, threads=threads)
        np.testing.assert_array_equal(again[0], first[0])
        for a, b in zip(again[1], first[1], strict=True):
            np.testing.assert_array_equal(a, b)


def test_values_alone_and_one_gradient():
    c = tg.compile(lambda x: np.sum(x * x))
    np.testing.assert_allclose(c.map(ROWS, gradient=False), np.sum(ROWS**2, axis=1), rtol=1e-14)
    np.testing.assert_allclose(c.sum(ROWS, gradient=False), np.sum(ROWS**2), rtol=1e-14)
    values, gradient = c.map(ROWS)
    np.testing.assert_array_equal(gradient, 2 * ROWS)
    value, gradient = c.sum(ROWS)
    assert isinstance(value, float)
    np.testing.assert_array_equal(gradient, 2 * ROWS)


def test_the_gradient_of_a_number_is_a_number():
    value, slope = tg.compile(lambda a, x: a * a * x).sum(3.0, ROWS[:, 0], in_axes=(None, 0))
    assert isinstance(slope, float)
    np.testing.assert_allclose([value, slope], [9 * ROWS[:, 0].sum(), 6 * ROWS[:, 0].sum()])


def test_no_rows():
    c = tg.compile(product, argnums=(0, 1))
    args = (FACTORS, np.empty((0, 3)), np.empty(0))
    values, gradients = c.map(*args, in_axes=(None, 0, 0))
    assert values.shape == (0,) and [g.shape for g in gradients] == [(0, 3), (0, 3)]
    value, gradients = c.sum(*args, in_axes=(None, 0, 0))
    assert value == 0.0
    np.testing.assert_array_equal(gradients[0], np.zeros(3))


def test_functions_without_a_program_are_called_row_by_row():
    def f(w, x):
        with tg.no_grad():
            scale = np.sum(x)
        return np.sum(w * x) * scale

    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="without a program"):
        value, gradient = c.sum(FACTORS, ROWS, in_axes=(None, 0))
    right, (wanted,) = one_by_one(f, (None, 0), (FACTORS, ROWS), (0,))
    np.testing.assert_allclose(value, right.sum(), rtol=1e-12)
    np.testing.assert_allclose(gradient, wanted.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    "args, in_axes, text",
    [
        ((FACTORS, ROWS), 1, "in_axes is 1 for 2 arguments; it must be 0,"),
        ((FACTORS, ROWS), (0,), "in_axes is (0,) for 2 arguments"),
        ((FACTORS, ROWS), (None, None), "not (3,), (300, 3); in_axes says"),
        ((FACTORS, ROWS), 0, "need arrays with a row for each evaluation, not (3,), (300, 3)"),
        ((1.0, ROWS), 0, "need arrays with a row for each evaluation, not (), (300, 3)"),
        ((), 0, "need arrays with a row for each evaluation, not "),
    ],
)
def test_arguments_that_do_not_fit(args, in_axes, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        tg.compile(branching).map(*args, in_axes=in_axes)


# --- functions of something else ----------------------------------------------------------------

USES = {
    "map": lambda c: c.map(ROWS),
    "values of map": lambda c: c.map(ROWS, gradient=False),
    "sum": lambda c: c.sum(ROWS),
    "values of sum": lambda c: c.sum(ROWS, gradient=False),
    "numba": lambda c: c.numba(ROWS[0]),
}


@pytest.mark.parametrize("verify", ["once", "always"])
@pytest.mark.parametrize("use", USES)
def test_random_numbers_are_found_out_at_the_first_use(use, verify):
    c = tg.compile(lambda x: np.sum(x * random.SystemRandom().random()), verify=verify)
    with pytest.raises(RuntimeError, match="replayed gives .*, called again .*random numbers"):
        USES[use](c)


@counts
def test_state_that_only_the_gradient_depends_on_is_followed():
    """The value is the same at every call: what changes is the gradient."""
    state = [1.0]

    def f(x):
        state[0] += 1.0
        return np.sum(x) * state[0] - np.sum(x.detach()) * (state[0] - 1.0)

    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="f runs eagerly.*it changes state.*method detach"):
        _, gradients = c.map(ROWS)
    assert state[0] >= 1.0 + len(ROWS)
    np.testing.assert_array_equal(np.diff(gradients, axis=0), np.ones_like(ROWS[1:]))
    before = state[0]
    np.testing.assert_array_equal(c.grad(ROWS[0]), np.full(ROWS.shape[1], before + 1.0))


@counts
def test_each_row_is_compared_where_that_is_asked_for():
    calls = []

    def f(x):
        calls.append(None)
        return np.sum(x * x)

    values, gradients = tg.compile(f, verify="always").map(ROWS)
    np.testing.assert_allclose(values, np.sum(ROWS**2, axis=1), rtol=1e-13)
    np.testing.assert_array_equal(gradients, 2 * ROWS)
    assert len(calls) >= len(ROWS)
    calls.clear()
    tg.compile(f).map(ROWS)
    assert len(calls) == 2


@pytest.mark.parametrize("gradient", [False, True])
def test_functions_of_more_than_one_number(gradient):
    for _ in range(2):
        with pytest.raises(ValueError, match="returned (more than one number|ndarray of shape)"):
            tg.compile(lambda x: x * 2.0).map(ROWS, gradient=gradient)
    values = tg.compile(lambda x: np.sum(x, keepdims=True)).map(ROWS, gradient=gradient)
    np.testing.assert_allclose(values[0] if gradient else values, np.sum(ROWS, axis=1), rtol=1e-13)


@pytest.mark.parametrize("argument", [{"a": np.ones(3)}, ["text", "more"], [object()]])
def test_arguments_that_are_no_arrays_are_refused_by_name(argument):
    c = tg.compile(lambda x, d: x * d)
    for method in (c.map, c.sum):
        with pytest.raises(TypeError, match="argument 1 is .*; give the parts"):
            method(np.ones(3), argument)
