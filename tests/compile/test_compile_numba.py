"""Programs called from a user's own Numba code."""

import gc
import pickle
import subprocess
import sys
import threading

import numba
import numpy as np
import pytest
from compiled import by_ways, same

import tapegrad as tg


@numba.njit(nogil=True)
def rows_of(both, xs, out, gradients):
    """Value and gradient of a function of an array at each of some rows."""
    for k in range(len(xs)):
        out[k] = both(xs[k], gradients[k])


def check_rows(f, xs, c=None):
    """Against the function itself, each row."""
    value, both = (c or tg.compile(f)).numba(xs[0])
    out, gradients = np.full(len(xs), np.nan), np.full(xs.shape, np.nan)
    rows_of(both, xs, out, gradients)
    for x, made, gradient in zip(xs, out, gradients, strict=True):
        same((float(made), gradient), tg.value_and_grad(f)(x))
        assert value(x) == made
    return value, both


def by_threads(call, count=4):
    """Call it in several threads at once, with their number."""
    errors = []

    def run(number):
        try:
            call(number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# --- values and gradients -----------------------------------------------------------------------


def test_arrays_and_a_number():
    """Arguments of each kind in one loop: arrays, a number, data; gradients into given arrays."""
    f = lambda x, s, w: np.sum(np.sin(x @ w) * s) + s * np.sum(x)
    value, both = tg.compile(f, argnums=(0, 1)).numba(np.ones((3, 2)), 2.0, np.ones(2))

    @numba.njit
    def loop(xs, ss, ws, out, again, gx, gs):
        for k in range(len(xs)):
            out[k] = both(xs[k], ss[k], ws[k], gx[k], gs[k : k + 1])
            again[k] = value(xs[k], ss[k], ws[k])

    rng = np.random.default_rng(0)
    xs, ss, ws = rng.normal(size=(9, 3, 2)), rng.normal(size=9), rng.normal(size=(9, 2))
    out, again, gx, gs = np.empty(9), np.empty(9), np.full((9, 3, 2), np.nan), np.full(9, np.nan)
    loop(xs, ss, ws, out, again, gx, gs)
    for k in range(9):
        wanted = tg.value_and_grad(f, (0, 1))(xs[k], ss[k], ws[k])
        same((float(out[k]), (gx[k], float(gs[k]))), wanted)
    np.testing.assert_array_equal(again, out)


FUNCTIONS = {
    "element-wise": lambda x: np.sum(np.exp(-x * x) / (1.0 + x**2)),
    "cells": lambda x: x[0] * x[1] * x[2] + x[3] ** 2,
    "in place": lambda x: np.sum(smoothed(x) * x),
    "sorted": lambda x: np.sum(x[np.argsort(x)] * np.arange(4.0)) + np.max(x),
    "products": lambda x: np.sum((x.reshape(2, 2) @ x.reshape(2, 2)) ** 2),
    "along": lambda x: np.sum(np.cumsum(x) * np.cumprod(x)) + tg.logsumexp(x),
    "input": lambda x: x[2],
}


def smoothed(x):
    y = np.copy(x)
    for _ in range(3):
        y[1:-1] += 0.25 * (y[2:] - 2 * y[1:-1] + y[:-2])
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kinds_of_steps(name):
    check_rows(FUNCTIONS[name], np.random.default_rng(1).normal(size=(12, 4)))


def test_large_arrays():
    """Whose memory the program reads and fills where it is."""
    f = lambda x: np.sum(x[1:] * x[:-1]) + np.sum(np.exp(-x)[::3])
    check_rows(f, np.random.default_rng(2).normal(size=(4, 20_000)))


def test_native_programs():
    f = lambda x: np.sum(np.tanh(x[1:] * x[:-1])) * x[0]
    c = tg.compile(f, native=True)
    xs = np.random.default_rng(3).normal(size=(8, 5))
    c.value_and_grad(xs[0])
    c.wait()
    check_rows(f, xs, c)


def test_a_descent():
    f = lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    _, both = tg.compile(f).numba(np.zeros(3))

    @numba.njit
    def descend(x, steps):
        gradient = np.empty_like(x)
        for _ in range(steps):
            both(x, gradient)
            x -= 1e-3 * gradient
        return both(x, gradient)

    x, gradient = np.zeros(3), tg.grad(f)
    value = descend(np.zeros(3), 200)
    for _ in range(200):
        x -= 1e-3 * gradient(x)
    same(value, float(f(x)), 1e-10)


def test_gradients_are_set_and_arguments_left():
    f = lambda x, y: np.sum(x * x * y)
    value, both = tg.compile(f, argnums=1).numba(np.ones(3), np.ones(3))
    x, y, gradient = np.arange(3.0), np.ones(3), np.full(3, 7.0)
    for _ in range(3):
        assert both(x, y, gradient) == value(x, y) == 5.0
        np.testing.assert_array_equal(gradient, [0.0, 1.0, 4.0])
    np.testing.assert_array_equal((x, y), (np.arange(3.0), np.ones(3)))


def test_the_functions_keep_the_program():
    value, both = tg.compile(lambda x: np.sum(x * 3.0)).numba(np.ones(3))
    gc.collect()
    others = [tg.compile(lambda x, k=k: np.sum(x * k)) for k in range(3)]
    for c in others:
        c.value_and_grad(np.ones(3))
    gradient = np.zeros(3)
    assert both(np.ones(3), gradient) == value(np.ones(3)) == 9.0 and (gradient == 3.0).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pickle looks in every module
def test_numba_keeps_no_code_with_addresses_in_files():
    value, _ = tg.compile(lambda x: np.sum(x * 3.0)).numba(np.ones(3))

    @numba.njit(cache=True)
    def loop(x):
        return value(x)

    with pytest.warns(numba.NumbaWarning, match="Cannot cache .*loop"):
        assert loop(np.ones(3)) == 9.0


def test_another_process_refuses_the_functions():
    value, _ = tg.compile(lambda x: np.sum(x * 3.0)).numba(np.ones(3))
    written = pickle.dumps(value)
    assert pickle.loads(written) is value
    code = f"import pickle; pickle.loads({written!r})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "was pickled by another process; pickle what numba() is called on" in found.stderr


# --- guards -------------------------------------------------------------------------------------


def kinked(x):
    return np.sum(x * x) if x[0] > 0.0 else 3.0 * x[1]


def test_a_guard_that_fails():
    c = by_ways(tg.compile(kinked))
    value, both = c.numba(np.ones(2))

    @numba.njit
    def outcomes(both, xs, out, gradients):
        for k in range(len(xs)):
            try:
                out[k] = both(xs[k], gradients[k])
            except Exception:
                out[k] = -1.0

    xs = np.array([[1.0, 2.0], [-1.0, 2.0], [3.0, 0.5], [0.0, 1.0], [2.0, 2.0]])
    out, gradients = np.empty(5), np.zeros((5, 2))
    outcomes(both, xs, out, gradients)
    np.testing.assert_array_equal(out, [5.0, -1.0, 9.25, -1.0, 8.0])
    np.testing.assert_array_equal(gradients[[0, 2, 4]], 2 * xs[[0, 2, 4]])
    for call in (lambda x: value(x), lambda x: rows_of(both, x[None], out, gradients)):
        with pytest.raises(ValueError, match="takes a way here that was not recorded"):
            call(np.array([-1.0, 1.0]))
    assert value(np.ones(2)) == 2.0

    c.value_and_grad(xs[1])  # records the other way
    _, other = c.numba(xs[1])
    outcomes(other, xs, out, gradients)
    np.testing.assert_array_equal(out, [-1.0, 6.0, -1.0, 3.0, -1.0])
    outcomes(both, xs, out, gradients)  # the first are what they were
    np.testing.assert_array_equal(out, [5.0, -1.0, 9.25, -1.0, 8.0])


# --- threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["element-wise", "in place", "sorted"])
def test_threads(name):
    """At once, without the interpreter lock, each with memory of its own."""
    f = FUNCTIONS[name]
    _, both = check_rows(f, np.random.default_rng(4).normal(size=(2, 4)))
    xs = np.random.default_rng(5).normal(size=(4, 300, 4))
    out, gradients = np.empty(xs.shape[:2]), np.empty(xs.shape)
    by_threads(lambda k: rows_of(both, xs[k], out[k], gradients[k]))
    alone, alone_gradients = np.empty_like(out), np.empty_like(gradients)
    for k in range(4):
        rows_of(both, xs[k], alone[k], alone_gradients[k])
    np.testing.assert_array_equal(out, alone)
    np.testing.assert_array_equal(gradients, alone_gradients)
    for k in range(4):
        same((float(out[k, -1]), gradients[k, -1]), tg.value_and_grad(f)(xs[k, -1]))


def test_threads_beside_calls_from_python():
    f = FUNCTIONS["element-wise"]
    c = tg.compile(f)
    _, both = c.numba(np.ones(4))
    xs = np.random.default_rng(6).normal(size=(4, 200, 4))
    out, gradients = np.empty(xs.shape[:2]), np.empty(xs.shape)

    def run(k):
        if k % 2:
            rows_of(both, xs[k], out[k], gradients[k])
            return
        for j, x in enumerate(xs[k]):
            out[k, j], gradients[k, j] = c.value_and_grad(x)

    rows_of(both, xs[0][:1], out[0], gradients[0])  # compiled before
    by_threads(run)
    wanted = [[tg.value_and_grad(f)(x) for x in rows] for rows in xs]
    same(out, np.array([[value for value, _ in rows] for rows in wanted]))
    same(gradients, np.array([[gradient for _, gradient in rows] for rows in wanted]))


# --- errors -------------------------------------------------------------------------------------


def test_arguments_that_do_not_fit():
    value, both = tg.compile(lambda x, s: np.sum(x) * s, argnums=(0, 1)).numba(np.ones((2, 3)), 1.0)
    x, g, one = np.ones((2, 3)), np.ones((2, 3)), np.ones(1)
    for call, text in (
        (lambda: value(np.ones((3, 3)), 1.0), "argument 0 .* another shape"),
        (lambda: value(np.ones((2, 4))[:, ::2], 1.0), "argument 0 .* another shape"),
        (lambda: value(np.ones((2, 6))[:, ::2], 1.0), "argument 0 .* not in C order"),
        (lambda: value(np.ones((3, 2)).T, 1.0), "argument 0 .* not in C order"),
        (lambda: both(x, 1.0, np.ones((3, 3)), one), "argument 2 .* another shape"),
        (lambda: both(x, 1.0, np.ones((3, 2)).T, one), "argument 2 .* not in C order"),
        (lambda: both(x, 1.0, g, np.ones(2)), "argument 3 .* another shape"),
    ):
        with pytest.raises(ValueError, match=f"tapegrad: {text}"):
            call()
    assert value(x, 2) == both(x, 2.0, g, one) == 12.0
    assert (g == 2.0).all() and one[0] == 6.0


def test_a_singular_matrix():
    a, b = 2.0 * np.eye(2), np.ones(2)
    value, both = tg.compile(lambda a, b: np.sum(np.linalg.solve(a, b))).numba(a, b)
    for call in (value, lambda a, b: both(a, b, np.empty((2, 2)))):
        with pytest.raises(np.linalg.LinAlgError, match="such as a singular matrix"):
            call(np.ones((2, 2)), b)
        assert call(a, b) == 1.0


@pytest.mark.filterwarnings("ignore:tapegrad.compile. .* without a program")
@pytest.mark.parametrize(
    "f, args, reason",
    [
        (lambda x: np.sum(x.astype(np.float32)), (np.ones(3),), "it converts to float32"),
        (lambda x, k: np.sum(x) * k, (np.ones(3), 2), "it has other arguments or results than"),
        (lambda x: 2.0, (np.ones(3),), "it has other arguments or results than"),
        (lambda x: np.sum(x[0]) + x[1], ((np.ones(3), 1.0),), "it has other arguments or results"),
        (lambda x, n: np.sum(x * n), (np.ones(3), np.arange(3)), "it has other arguments or res"),
    ],
)
def test_functions_that_cannot_be_called(f, args, reason):
    c = tg.compile(f)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"<lambda> cannot be called from Numba: {reason}"):
            c.numba(*args)


# --- what Numba code may give -------------------------------------------------------------------


def test_several_numbers():
    value, both = tg.compile(lambda s, x, n: s * n * x[0]).numba(2.0, np.ones(2), 1.0)
    x, slope = np.array([1.5, 2.0]), np.zeros(1)
    assert value(5.0, x, 7.0) == both(5.0, x, 7.0, slope) == 52.5
    assert slope[0] == 10.5


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool, complex])
def test_other_dtypes_are_refused(dtype):
    value, both = tg.compile(lambda x: np.sum(x * x)).numba(np.ones(3))
    with pytest.raises(numba.TypingError, match="takes arrays of float64 in Numba code, not array"):
        value(np.ones(3, dtype))
    with pytest.raises(numba.TypingError, match="takes arrays of float64 in Numba code, not array"):
        both(np.ones(3), np.zeros(3, dtype))


def test_gradients_that_cannot_be_written():
    _, both = tg.compile(lambda x: np.sum(x * x)).numba(np.ones(3))
    gradient = np.zeros(3)
    gradient.flags.writeable = False
    with pytest.raises(numba.TypingError, match="[Rr]eadonly"):
        both(np.ones(3), gradient)


def test_the_program_is_that_of_the_arguments():
    c = by_ways(tg.compile(lambda x: np.sum(x * x) if x[0] > 0 else 3.0 * x[1]))
    a, b = np.array([1.0, 2.0]), np.array([-1.0, 2.0])
    for x in (a, a, b):
        c.value_and_grad(x)
    assert c.numba(a)[0](a) == 5.0
    assert c.numba(b)[0](b) == 6.0


def test_other_results_are_refused():
    with pytest.raises(ValueError, match="cannot be called from Numba: it has other arguments or"):
        tg.compile(lambda x: (np.sum(x), np.sum(x))).numba(np.ones(3))
