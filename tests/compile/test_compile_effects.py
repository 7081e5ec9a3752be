"""`tg.compile`: counters and histories stand still at replay, and are reported by line."""

import collections
import types
import warnings

import numpy as np
import pytest
from effect_lines import line_of, warned

import tapegrad as tg

X = np.array([1.0, 2.0])
counted = 0


def _in_a_dict():
    held = {"calls": 0}

    def f(x):
        y = np.sum(x * x)
        held["calls"] += 1  # here
        return y

    return f, "held"


def _in_a_list():
    history = []

    def f(x):
        history.append(len(history))  # here
        return np.sum(x * x)

    return f, "history"


def _in_a_list_in_a_dict():
    record = {"seen": []}

    def f(x):
        record["seen"].append(1)  # here
        return np.sum(x * x)

    return f, "record"


def _in_an_attribute():
    one = types.SimpleNamespace(calls=0)

    def f(x):
        one.calls += 1  # here
        return np.sum(x * x)

    return f, "calls"


def _in_an_array():
    calls = np.zeros(2)

    def f(x):
        calls[1] += 1.0  # here
        return np.sum(x * x)

    return f, "calls"


def _in_a_counter():
    seen = collections.Counter(a=0)

    def f(x):
        seen.update("a")  # here
        return np.sum(x * x)

    return f, "seen"


def _in_a_variable():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1  # here
        return np.sum(x * x)

    return f, "calls"


def _in_a_global():
    def f(x):
        global counted
        counted += 1  # here
        return np.sum(x * x)

    return f, "counted"


def _in_a_function():
    history = collections.deque()

    def note(value):
        history.append(1)  # here
        return value

    return lambda x: note(np.sum(x * x)), "history"


COUNTING = {
    name[1:]: made
    for name, made in list(globals().items())
    if name.startswith("_in_") and isinstance(made, types.FunctionType)
}


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("use", ["value", "grad", "hessian"])
@pytest.mark.parametrize("what", COUNTING)
def test_what_stands_still_is_reported_once(what, use, verify):
    f, name = COUNTING[what]()
    c = tg.compile(f, verify=verify)
    evaluate = {"value": c, "grad": c.grad, "hessian": c.hessian}[use]

    def calls():
        for _ in range(4):
            evaluate(X)
        for _ in range(4):
            c.value_and_grad(np.ones(3))

    (one,) = warned(calls)
    place = line_of(COUNTING[what])
    assert issubclass(one.category, RuntimeWarning)
    assert f"changes {name} at {place}, when it is recorded and compared" in str(one.message)
    assert one.filename == __file__
    assert f"  changes {name} at {place}, which its programs do not" in c.explain()
    assert evaluate(X) is not None


@pytest.mark.parametrize("what", COUNTING)
def test_with_every_call_compared_nothing_stands_still(what):
    f, _ = COUNTING[what]()
    c = tg.compile(f, verify="always")
    assert not warned(lambda: [c(X) for _ in range(4)])


def test_a_list_that_the_function_has_made():
    record = {}

    def f(x):
        record.setdefault("seen", []).append(1)
        return np.sum(x * x)

    c = tg.compile(f)
    (one,) = warned(lambda: [c(X) for _ in range(4)])
    assert "changes record at" in str(one.message) and len(record["seen"]) == 2


def test_what_is_done_once_is_not_reported():
    cache, made, lazy = {}, [], types.SimpleNamespace(scale=None)

    def f(x):
        if "scale" not in cache:
            cache["scale"] = 2.0
        if lazy.scale is None:
            lazy.scale = 3.0
        if not made:
            made.append(4.0)
        return np.sum(x) * cache["scale"] * lazy.scale * made[0]

    c = tg.compile(f)
    assert not warned(lambda: [c(X) for _ in range(3)] + [c(np.ones(3)) for _ in range(3)])
    assert c(X) == f(X) == 72.0
    assert "changes" not in c.explain()


def test_what_the_caller_changes_is_not_reported():
    held, history = {"scale": 2.0}, []
    c = tg.compile(lambda x: np.sum(x) * held["scale"] + len(history))
    for k in range(5):
        held["scale"] = 2.0 + k
        history.append(k)
        assert not warned(lambda: [c(X) for _ in range(5)])
        assert c(X) == 3.0 * (2.0 + k) + k + 1


def test_an_error_of_the_warning_leaves_the_result_of_the_function():
    f, _ = _in_a_list()
    c = tg.compile(f)
    c(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="changes history"):
            c(X)
        for _ in range(3):
            assert c(X) == 5.0
            np.testing.assert_array_equal(c.grad(X), 2.0 * X)
