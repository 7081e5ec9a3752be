"""Functions of users called by fixed machine code, by address."""

import ctypes

import numpy as np
import pytest

from tapegrad._core.codegen.factory import functions
from tapegrad._program.callbacks import callback_of

TEXT = """
from tapegrad._core.codegen.intrinsics import load_f64, load_i64, memcpy, store_f64
from tapegrad._program.replay.callback_kernels import *


def copied(callback, run, given):
    for k in range(load_i64(callback, CALLBACK_COUNT)):
        size = argument_size(callback, k)
        memcpy(argument_at(callback, run, k), given, 8 * size)
        given += 8 * size
    return given


def value(callback, given, out):
    run = begin_calls(callback)
    copied(callback, run, given)
    status = call_value(callback, run)
    for j in range(load_i64(callback, CALLBACK_SIZE)):
        store_f64(out, 8 * j, load_f64(result_at(callback, run, j), 0))
    end_calls(callback, run)
    return status


def pull(callback, given, out):
    run = begin_calls(callback)
    weights = copied(callback, run, given)
    clear_seeds(callback, run)
    for j in range(load_i64(callback, CALLBACK_SIZE)):
        seed(callback, run, j, load_f64(weights, 8 * j))
    status = call_pull(callback, run)
    for k in range(load_i64(callback, CALLBACK_COUNT)):
        size = argument_size(callback, k)
        memcpy(out, adjoint_at(callback, run, k), 8 * size)
        out += 8 * size
    end_calls(callback, run)
    return status
"""


def called(callback, name, given, size):
    """The status, and what machine code finds."""
    function = functions(TEXT, {"value": 3, "pull": 3}, keep_lock=False)[name]
    given, out = np.concatenate([np.ravel(one) for one in given]), np.full(size, np.nan)
    address = ctypes.c_double.from_buffer
    status = function(
        callback.address, ctypes.addressof(address(given)), ctypes.addressof(address(out))
    )
    return status, out


def lotka(t, y, a, d):
    return np.stack([a[0] * y[0] - a[1] * y[0] * y[1], d * np.sin(t) * y[0] - y[1]])


def test_values_and_adjoints():
    t, y, a, d = 0.3, np.array([1.1, 0.4]), np.array([1.5, 0.7]), 0.9
    callback = callback_of(lotka, (0.1, y + 1.0, a, 1.0))
    status, found = called(callback, "value", (t, y, a, d), 2)
    assert status == 0
    np.testing.assert_allclose(found, lotka(t, y, a, d), rtol=1e-14)
    w = np.array([0.6, -1.3])
    status, found = called(callback, "pull", (t, y, a, d, w), 6)
    assert status == 0
    by_t = w[1] * d * np.cos(t) * y[0]
    by_y = w[0] * (a[0] - a[1] * y[1]) + w[1] * d * np.sin(t), -w[0] * a[1] * y[0] - w[1]
    by_a = w[0] * y[0], -w[0] * y[0] * y[1]
    by_d = w[1] * np.sin(t) * y[0]
    np.testing.assert_allclose(found, [by_t, *by_y, *by_a, by_d], rtol=1e-14)


@pytest.mark.parametrize("args", [(0.1,), (0.1, np.ones(3), np.ones(4), 1.0), ()])
def test_machine_code_is_not_tried_with_other_arguments(args):
    callback = callback_of(lotka, (0.1, np.ones(2), np.ones(4), 1.0))
    with pytest.raises(ValueError, match="the arguments have shapes"):
        callback.native(args)


def test_matrices_and_results_that_are_arguments():
    def f(x, a):
        return np.concatenate([x, np.linalg.solve(a, x)])

    x, a = np.array([1.0, 2.0]), np.array([[3.0, 1.0], [0.5, 2.0]])
    callback = callback_of(f, (x, np.eye(2)))
    assert np.allclose(called(callback, "value", (x, a), 4)[1], f(x, a), rtol=1e-14)
    w = np.array([0.2, 0.3, 0.4, -0.5])
    found = called(callback, "pull", (x, a, w), 6)[1]
    back = np.linalg.solve(a.T, w[2:])
    expected = [*(w[:2] + back), *np.ravel(-np.outer(back, np.linalg.solve(a, x)))]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_another_way_is_told():
    callback = callback_of(lambda x: np.stack([x if x > 0.0 else -x, x]), (1.0,))
    assert called(callback, "value", (2.0,), 2)[0] == 0
    assert called(callback, "value", (-2.0,), 2)[0] != 0


def test_what_is_read_from_outside_is_compared(monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    callback = callback_of(lambda x: np.stack([FACTOR * x]), (1.0,))  # noqa: F821
    assert callback.is_current()
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert not callback.is_current()


SEEN = []


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.array([1.0, 2.0]),  # it does not depend on x
        lambda x: (SEEN.append(1), np.stack([x, x]))[1],
        lambda x: x * x,  # it is no vector
        lambda x: np.random.normal() * np.stack([x]),
        lambda x: x * np.isin(np.stack([x, 2.0]), [1.0, 3.0]),  # Python computes a step
    ],
)
def test_others_are_none(f):
    assert callback_of(f, (1.0,)) is None
