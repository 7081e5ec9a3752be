"""Compiled functions whose way changes: by graphs of their loops and branches."""

import copy
import threading
import warnings

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg
import tapegrad.numpy as tnp

RNG = np.random.default_rng(0)


def robust(p, x, y):
    total = 0.0
    for i in range(len(x)):
        r = abs(y[i] - p[0] * x[i] - p[1])
        if r < 1:
            total = total + r * r
        else:
            total = total + 2 * r - 1
    return total


def root(a):
    x = 1.0 + 0.0 * a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def data(n):
    return RNG.normal(size=2), RNG.normal(size=n), 2 * RNG.normal(size=n)


def same(found, expected):
    leaves = (
        zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    )
    for a, b in leaves:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def with_graph(f, *calls, **options):
    """The function compiled, and called on other ways until it has a graph."""
    c = tg.compile(f, **options)
    for args in calls:
        c.value_and_grad(*args)
    assert "a graph of" in c.explain(), c.explain()
    return c


def recordings(c):
    return sum(family.recorded for family in c._families.found.values())


@needs("numba-reader")
@pytest.mark.parametrize("native", [False, True])
def test_one_graph_serves_all_ways_and_lengths(native):
    c = with_graph(robust, data(9), data(9), data(9), native=native)
    c.wait()
    for n in [*range(30), 300]:
        args = data(n)
        if n:
            same(c.value_and_grad(*args), tg.value_and_grad(robust)(*args))
            same(c(*args), robust(*args))
    assert recordings(c) <= 2


def test_a_function_that_never_branches_has_no_graph():
    c = tg.compile(lambda p, x: np.sum(p * x**2))
    for _ in range(5):
        c.grad(np.ones(3), RNG.normal(size=3))
    assert not c._flows.found and not c._flows.refused


def test_a_graph_of_fixed_lengths_serves_no_other_lengths():
    """A length that is the exponent of a number is part of the graph."""

    def f(p, x):
        total = 0.0 * p
        for v in x:
            total = total + (p * v if v > 0 else 2 ** len(x) * v * p * p)
        return total

    c = tg.compile(f)
    for n in (3, 3, 4, 5, 2, 4, 3, 5):
        x = RNG.normal(size=n)
        same(c.value_and_grad(1.5, x), tg.value_and_grad(f)(1.5, x))
        same(c(1.5, x), f(1.5, x))


@needs("numba-reader")
def test_gradients_that_cancel_but_for_rounding_do_not_end_a_graph():
    def f(p, x):
        total = 0.0
        for v in x:
            d = p * v if v > 0 else p * v * v
            total = total + d * 0.1 + d * 0.2 - d * 0.3
        return total

    c = with_graph(f, *[(1.5, RNG.normal(size=7)) for _ in range(3)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            same(c.value_and_grad(1.5, x := RNG.normal(size=7)), tg.value_and_grad(f)(1.5, x))
    assert c._flows.found


@needs("numba-reader")
@pytest.mark.parametrize("native", [False, True])
def test_a_deleted_variable_outside_ends_a_graph(native):
    k = 2.0

    def f(p, x):
        total = 0.0
        for v in x:
            total = total + (p * v if v > 0 else k * p)
        return total

    c = with_graph(f, *[(1.5, RNG.normal(size=7)) for _ in range(3)], native=native)
    c.wait()
    del k
    with pytest.raises(NameError):
        c.grad(1.5, -np.ones(7))
    k = 3.0
    same(c.grad(1.5, -np.ones(7)), 21.0)


@needs("numba-reader")
def test_second_derivatives():
    c = with_graph(robust, data(9), data(9))
    for n in (4, 9, 15):
        p, x, y = data(n)
        same(c.hvp(p, np.array([1.0, -2.0]), x, y), tg.hvp(robust)(p, np.array([1.0, -2.0]), x, y))
        same(c.hessian(p, x, y), tg.hessian(robust)(p, x, y))
    c = with_graph(root, (2.0,), (50.0,))
    for a in (3.0, 700.0, 0.01):
        same(c.hessian(a), tg.hessian(root)(a))
        same(c.hvp(a, 2.0), tg.hvp(root)(a, 2.0))


SCALE, WEIGHTS = 2.0, np.array([1.0, 2.0, 3.0])


@needs("numba-reader")
def test_what_lies_outside_is_looked_at_in_each_call(monkeypatch):
    offset = 1.0

    def f(x):
        total = 0.0
        for i in range(3):
            total = total + (SCALE * x[i] if x[i] > 0 else WEIGHTS[i] * x[i] ** 2) + offset
        return total

    calls = [(np.array(signs) * [1.0, 2.0, 3.0],) for signs in ([1, 1, 1], [-1, 1, 1], [1, -1, -1])]
    c = with_graph(f, *calls)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    for args in calls:
        same(c.value_and_grad(*args), tg.value_and_grad(f)(*args))
    offset = 7.5
    WEIGHTS[1] = 10.0
    for args in calls:
        same(c.value_and_grad(*args), tg.value_and_grad(f)(*args))
    WEIGHTS[1] = 2.0


def test_arguments_keep_their_values_and_types():
    def f(x, table):
        for i in range(len(x)):
            if x[i] > 1:
                x[i] = 0.5 * x[i]
        return x[0] * table["k"] + x[1]

    calls = [(np.array([2.0, 0.5]), {"k": 3.0}), (np.array([0.5, 2.0]), {"k": 4.0})]
    c = tg.compile(f)
    for x, table in calls * 2:
        before = x.copy()
        same(c.value_and_grad(x, table), tg.value_and_grad(f)(x.copy(), table))
        assert np.array_equal(x, before)


def test_an_integer_on_one_way_stays_one():
    c = tg.compile(lambda x: 0 if x < 0 else x)
    for _ in range(2):
        assert c(5.0) == 5.0 and type(c(-5.0)) is int


@needs("numba-reader")
def test_other_ways_of_calling():
    c = with_graph(robust, data(9), data(9))
    p, x, y = data(9)
    expected = tg.value_and_grad(robust)(p, x, y)
    same(c.value_and_grad(p, x=x, y=y), expected)
    same(c.value_and_grad(p, x[::-1][::-1], np.asfortranarray(y)), expected)
    same(c.value_and_grad(p, x.tolist() and x, y), expected)
    out = np.empty(2)
    same(c.grad(p, x, y, out=out), expected[1])
    same(tg.grad(lambda p: c(p, x, y) ** 2)(p), 2 * expected[0] * expected[1])
    values, gradients = c.map(np.stack([p, p + 1]), x, y, in_axes=(0, None, None))
    same((values[1], gradients[1]), tg.value_and_grad(robust)(p + 1, x, y))
    for made in (copy.copy(c), copy.deepcopy(c)):
        same(made.value_and_grad(p, x, y), expected)


@needs("numba-reader")
def test_settings():
    strict = tg.compile(robust, on_branch="error")
    strict.grad(np.array([0.0, 0.0]), np.zeros(2), np.zeros(2))
    with pytest.raises(RuntimeError, match="another branch"):
        strict.grad(np.array([0.0, 0.0]), np.zeros(2), 5 * np.ones(2))
    for verify in ("always", "never"):
        c = with_graph(robust, data(9), data(9), verify=verify)
        args = data(12)
        same(c.value_and_grad(*args), tg.value_and_grad(robust)(*args))


@needs("numba-reader")
def test_state_that_no_argument_shows_is_refused_by_name():
    class Box:
        count = 0

    box = Box()

    def f(x):
        box.count += 1
        return x * 2 if x > 1 else x * box.count

    c = tg.compile(f, verify="never")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in (0.5, 2.0, 0.5):
            c(x)
    assert "attribute" in " ".join(c._flows.refused.values()) or c._reason


@needs("numba-reader")
def test_a_graph_that_is_wrong_is_dropped(monkeypatch):
    c = with_graph(robust, data(9), data(9), verify="always")
    flow = next(iter(c._flows.found.values()))
    monkeypatch.setattr(flow, "run", lambda values, gradient: (1.0, [np.zeros(2)], 1))
    args = data(9)
    with pytest.warns(RuntimeWarning, match="is wrong"):
        found = c.value_and_grad(*args)
    same(found, tg.value_and_grad(robust)(*args))
    assert not c._flows.found


@needs("numba-reader")
def test_threads():
    c = with_graph(robust, data(9), data(9))
    calls = [data(n) for n in range(5, 45)]
    expected = [tg.value_and_grad(robust)(*args) for args in calls]
    wrong = []

    def work(shift):
        for k in range(len(calls)):
            at = (k + shift) % len(calls)
            value, gradient = c.value_and_grad(*calls[at])
            if (
                abs(value - expected[at][0]) > 1e-9
                or np.abs(gradient - expected[at][1]).max() > 1e-9
            ):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


@needs("numba-reader")
def test_arrays_that_are_filled():
    def f(a, x):
        y = tnp.zeros(len(x))
        for i in range(len(x)):
            if x[i] > 0:
                y[i] = a * x[i]
            else:
                y[i] = y[i - 1] * 0.5
        return tnp.sum(y * y)

    c = with_graph(f, (2.0, RNG.normal(size=6)), (1.0, RNG.normal(size=6)))
    for n in (1, 6, 20):
        x = RNG.normal(size=n)
        same(c.value_and_grad(1.5, x), tg.value_and_grad(f)(1.5, x))


@needs("numba-reader")
def test_programs_of_one_way_are_there_for_profiles():
    c = with_graph(robust, data(9), data(9))
    assert "robust" in str(c.profile(*data(9), repeats=1))
    args = data(9)
    same(c.value_and_grad(*args), tg.value_and_grad(robust)(*args))


def short(x, y):
    """Arms so short that both are computed."""
    total = 0.0
    for k in range(len(y)):
        total = total + (x[k] * x[k] if y[k] < 1.0 else 2.0 * x[k])
    return total if total < 50.0 else total * 2.0


def nested(x, y):
    """A short arm inside of a short arm."""
    total = 0.0
    for k in range(len(y)):
        v, limit = x[k], y[k]
        if limit < 1.0:
            total = total + (v * v if v > 0.0 else 3.0 * v)
        else:
            total = total - v
    return total


@needs("numba-reader")
@pytest.mark.parametrize("native", [False, True])
def test_arms_inside_of_an_arm_that_is_not_taken_stay_new(native, monkeypatch):
    x, low, high = np.ones(1), np.zeros(1), np.full(1, 2.0)
    c = with_graph(nested, (x, low), (x, high), (x, low), native=native)
    c.wait()
    (flow,) = c._flows.found.values()
    assert flow.primal.program.graph.selects == 2 and len(flow.primal.program.graph.blocks) < 6
    for _ in range(3):
        c.value_and_grad(-x, high)
    calls = []
    eagerly = type(c)._eagerly
    monkeypatch.setattr(type(c), "_eagerly", lambda *a: calls.append(1) or eagerly(*a))
    for args, compared in [((-x, high), 0), ((-x, low), 1), ((-x, low), 0), ((x, low), None)]:
        calls.clear()
        same(c.value_and_grad(*args), tg.value_and_grad(nested)(*args))
        assert compared in (None, len(calls))


@needs("numba-reader")
@pytest.mark.parametrize("native", [False, True])
def test_first_uses_of_selected_arms_are_compared(native, monkeypatch):
    x, low, high = np.arange(3.0), np.zeros(3), np.full(3, 2.0)
    c = with_graph(short, (x, low), (x, high), (x, low), native=native)
    c.wait()
    (flow,) = c._flows.found.values()
    assert flow.primal.program.graph.selects >= 1
    calls = []
    eagerly = type(c)._eagerly
    monkeypatch.setattr(type(c), "_eagerly", lambda *a: calls.append(1) or eagerly(*a))
    for args, compared in [
        *[((x, low), None), ((x, high), None), ((x, low), 0), ((x, high), 0)],
        *[((9 * x, low), 1), ((9 * x, low), 0), ((9 * x, high), 0)],
    ]:
        calls.clear()
        same(c.value_and_grad(*args), tg.value_and_grad(short)(*args))
        assert compared is None or len(calls) == compared
