"""Functions that ask for types and attributes of data, which a recording cannot answer."""

import contextlib
import datetime
import functools
import inspect
import json
import sys
import warnings

import numpy as np
import pytest

import tapegrad as tg

X = np.array([1.3, 2.7, 3.1])


def by_attribute(x, d):
    try:
        return x[0] * len(d.shape)
    except AttributeError:
        return x[1] ** 2


def helper(d):
    return type(d).__name__


def by_error(x, d):
    """C code takes numbers alone."""
    try:
        return x[0] * datetime.timedelta(seconds=d).total_seconds()
    except TypeError:
        return x[1] ** 2


def by_any_error(x, d):
    try:
        return x[0] * len(json.dumps(d))
    except:  # noqa: E722
        return x[1] ** 2


def by_suppressed_error(x, d):
    with contextlib.suppress(TypeError):
        return x[0] * float.__add__(d, 1.0)
    return x[1] ** 2


def limited(x, d):
    try:
        return x[0] * d**d
    except OverflowError:
        return x[0] * 1e300


OTHERS = [
    (lambda x, d: x[0] if type(d) is float else x[1] ** 2, 2.0),
    (lambda x, d: x[0] * len(helper(d)), 2.0),
    (lambda x, d: x[0] if type(d) is np.ndarray else x[1] ** 2, np.ones(2)),
    (lambda x, d: x[0] if type(d[0]) is np.int64 else x[1] ** 2, np.arange(2)),
    (lambda x, d: x[0] if hasattr(d, "shape") else x[1] ** 2, 2.0),
    (lambda x, d: x[0] * getattr(d, "ndim", 7), 2.0),
    (lambda x, d: x[0] * len(dir(d)), 2.0),
    (lambda x, d: x[0] * sys.getsizeof(d), 2.0),
    (lambda x, d: x[0] if type(x) is np.ndarray else x[1] ** 2, 2.0),
    (by_attribute, 2.0),
    (by_error, 2.0),
    (by_any_error, 2.0),
    (by_suppressed_error, 2.0),
]
SAME = [
    (lambda x, d: x[0] if type(d) is str else x[1] ** 2, 2.0),
    (lambda x, d: x[0] if hasattr(d, "shape") else x[1] ** 2, np.ones(2)),
    (
        lambda x, d: sum([v * k for v, k in zip(x, d, strict=True) if type(k) is not str]),
        np.ones(3),
    ),
    (lambda x, d: np.sum(x * getattr(np, "sin")(d)), 2.0),
    (limited, 2.0),
]


@pytest.mark.parametrize(("f", "d"), OTHERS, ids=map(str, range(len(OTHERS))))
@pytest.mark.parametrize("x", [X, np.ones(3), np.zeros(3)], ids=str)
def test_a_function_that_depends_on_types_runs_eagerly(f, d, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for c in (tg.compile(f), tg.compile(f, verify="never")):
            for value in (x, x, X):
                assert float(c(value, d)) == pytest.approx(float(f(value, d)))
        for c in (tg.compile(f), tg.compile(f, verify="never")):
            for value in (x, x, X):
                np.testing.assert_allclose(c.grad(value, d), tg.grad(f)(value, d))


def test_the_warning_names_the_line():
    f, d = OTHERS[5]
    c = tg.compile(f)
    line = inspect.getsourcelines(f)[1]
    with pytest.warns(RuntimeWarning, match=rf"reads getattr at .*test_types_asked.py:{line}, .*"):
        c(X, d)


@pytest.mark.parametrize(("f", "d"), SAME, ids=map(str, range(len(SAME))))
def test_a_function_that_gives_the_same_is_compiled(f, d):
    c = tg.compile(f)
    for x in (X, X, 2 * X):
        np.testing.assert_allclose(c.grad(x, d), tg.grad(f)(x, d))
    assert "1 program" in repr(c)


def test_a_long_recording_is_compared_before_its_first_result():
    def f(x, d):
        total = x[0]
        for _ in range(20_000):
            total = total * 1.0001
        return total * getattr(d, "ndim", 3.0)

    with pytest.warns(RuntimeWarning, match="reads getattr"):
        assert float(tg.compile(f)(X, 2.0)) == float(f(X, 2.0))


def test_other_functions_are_called_once():
    calls = []
    tg.compile(lambda x, d: (calls.append(1), functools.reduce(max, [x[0] * d]))[1])(X, 2.0)
    assert len(calls) == 1
