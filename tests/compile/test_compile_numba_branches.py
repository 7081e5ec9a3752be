"""Graphs called from a user's own Numba code: all branches, numbers of rounds, lengths of data."""

import gc
import re
import warnings
import weakref

import numba
import numpy as np
import pytest
from assumed import needs
from compiled import same
from test_compile_branches import with_graph
from test_compile_numba import by_threads

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad._program.dispatch.life import State

RNG = np.random.default_rng(5)


def robust(p, x, y):
    total = 0.0
    for k in range(len(y)):
        r = y[k] - p[0] * x[k] - p[1]
        if abs(r) < 1.0:
            total = total + r * r
        else:
            total = total + 2.0 * abs(r) - 1.0
    return total


def points(n):
    return RNG.normal(size=2), RNG.normal(size=n), 3.0 * RNG.normal(size=n)


def both_ways(n):
    """Two calls, by one branch each."""
    return [(np.zeros(2), np.ones(n), np.full(n, size)) for size in (0.5, 5.0)]


def root(a):
    """Newton's method, to a tolerance."""
    x = 1.0 + 0.0 * a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def filled(x, s):
    """An array that is filled, along branches that depend on what is in it."""
    y = tnp.zeros(len(x))
    for k in range(len(x)):
        y[k] = s * x[k] if x[k] > 0.0 else 0.5 * y[k - 1] + x[k]
    return tnp.sum(y * y) + s


def table(w, m):
    """A matrix of data, and an early return."""
    total = 0.0
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            total = total + w[j % 2] * m[i, j] ** 2
        if total > 4.0:
            return total * w[0]
    return total - w[1]


def gradients_of(args, argnums):
    return [np.full(np.shape(args[k]) or (1,), np.nan) for k in argnums]


def check(f, functions, calls, argnums=(0,)):
    """Both functions held against the eager one at each of some calls."""
    value, both = functions
    for args in calls:
        made = gradients_of(args, argnums)
        found = both(*args, *made)
        wanted, gradients = tg.value_and_grad(f, argnums)(*args)
        assert found == value(*args)
        same((float(found), tuple(made)), (float(wanted), tuple(map(np.atleast_1d, gradients))))


NUMBERS = [(a,) for a in (2.0, 50.0, 3.0, 1e-3, 1.0, 1e6)]
CASES = {
    "loop": (robust, [points(n) for n in (9, 7, 1, 0, 30, 2000)], (0,)),
    "while": (root, NUMBERS, (0,)),
    "filled": (filled, [(RNG.normal(size=6), s) for s in (0.5, -1.0, 2.0, 0.1)], (0, 1)),
    "data": (filled, [(RNG.normal(size=n), 0.5) for n in (6, 4, 1, 800)], (1,)),
    "table": (table, [(RNG.normal(size=2), RNG.normal(size=s)) for s in ((2, 3), (5, 2))], (0,)),
    "empty": (table, [(RNG.normal(size=2), np.ones(s)) for s in ((2, 3), (0, 3), (3, 0))], (0,)),
}


@needs("numba-reader")
@pytest.mark.parametrize("name", CASES)
def test_all_ways(name):
    """Interpreted, and by native code that takes over: the functions are the same."""
    f, calls, argnums = CASES[name]
    c = tg.compile(f, argnums=argnums, native=False)
    for args in (*calls[:2], *[tuple(-np.asarray(x)[()] for x in args) for args in calls[:2]]):
        if f is not root or args[0] > 0:
            c.value_and_grad(*args)
    functions = c.numba(*calls[0])
    check(f, functions, calls, argnums)
    for flow in c._flows.found.values():
        flow.primal.life.go(State.COMPILING)
        flow.primal.take_over(flow.inputs(list(calls[0])), gradient=True)
        assert flow.primal.life.state == "native"
    check(f, functions, calls, argnums)


@needs("numba-reader")
def test_a_graph_is_read_for_other_arguments():
    """Calls took several ways with another length of what is differentiated."""
    f = lambda x: x[0] * x[1] if x[0] > 0.0 else np.sum(x * x)
    c = with_graph(f, (np.ones(3),), (-np.ones(3),))
    check(f, c.numba(np.ones(2)), [(np.array([3.0, 2.0]),), (np.array([-3.0, 2.0]),)])


@needs("numba-reader")
def test_in_a_loop_of_numba():
    """A descent across branches, held against the same in Python."""
    c = with_graph(robust, *both_ways(20))
    start, x, y = points(20)
    value, both = c.numba(start, x, y)

    @numba.njit
    def descend(p, steps, x, y):
        gradient = np.empty_like(p)
        for _ in range(steps):
            both(p, x, y, gradient)
            p -= 1e-3 * gradient
        return value(p, x, y)

    p, gradient = start.copy(), tg.grad(robust)
    for _ in range(100):
        p -= 1e-3 * gradient(p, x, y)
    q = start.copy()
    same(descend(q, 100, x, y), robust(p, x, y), 1e-10)
    same(q, p, 1e-10)


# --- calls that leave, arguments that do not fit --------------------------------------------------


def refusing(x, n):
    total = 0.0
    for k in range(int(n[0])):
        total = total + x[k] ** 2
    if total > 100.0:
        raise ArithmeticError("too much")
    return total


@needs("numba-reader")
@pytest.mark.parametrize("native", [False, True])
def test_calls_that_leave(native):
    c = with_graph(refusing, *[(np.ones(3), np.array([n])) for n in (2.0, 3.0)], native=native)
    c.wait()
    value, both = c.numba(np.ones(3), np.array([2.0]))
    for x, n, why in (
        (np.ones(3), 4.0, r"an index .*\d in refusing"),
        (np.ones(3), np.inf, r"an integer beyond 63 bits.*\d in refusing"),
        (np.full(3, 9.0), 3.0, r"the function raises an exception.*\d in refusing"),
    ):
        gradient = np.full(3, 7.0)
        for call in (lambda *a: value(*a), lambda *a, g=gradient: both(*a, g)):
            with pytest.raises(ValueError, match=rf"tapegrad: .* in Numba code: .*{why}"):
                call(x, np.array([n]))
        assert (gradient == 7.0).all()
    check(refusing, (value, both), [(np.ones(3), np.array([n])) for n in (3.0, 0.0, 1.0)])


@needs("numba-reader")
def test_memory_has_an_end():
    """A call that would need more memory than there is says so; smaller ones go on."""

    def many(x, n):
        y = tnp.zeros(int(n[0]))
        for k in range(min(len(x), len(y))):
            y[k] = x[k] if x[k] > 0.0 else x[0] * x[1]
        return tnp.sum(y * y)

    c = with_graph(many, *[(x * np.ones(3), np.array([4.0])) for x in (-1.0, 2.0)])
    value, both = c.numba(np.ones(3), np.ones(1))
    for call in (value, lambda *args: both(*args, np.zeros(3))):
        with pytest.raises(ValueError, match="needs more memory than a program takes"):
            call(np.ones(3), np.array([1e12]))
    calls = [(np.array([1.0, -2.0, 3.0]), np.array([n])) for n in (0.0, 1.0, 3.0, 9e3)]
    check(many, (value, both), calls)


@needs("numba-reader")
def test_arguments_that_do_not_fit():
    c = with_graph(table, *[(k * np.ones(2), np.ones((2, 3))) for k in (0.1, 9.0)])
    value, both = c.numba(np.ones(2), np.ones((2, 3)))
    w, m, g = np.ones(2), np.ones((4, 2)), np.zeros(2)
    for call, text in (
        (lambda: value(np.ones(3), m), "argument 0 .* another shape"),
        (lambda: value(w, np.ones((4, 4))[:, ::2]), "argument 1 .* not in C order"),
        (lambda: value(w, np.ones((2, 4)).T), "argument 1 .* not in C order"),
        (lambda: both(w, m, np.zeros(3)), "argument 2 .* another shape"),
        (lambda: both(w, m, np.zeros(4)[::2]), "argument 2 .* not in C order"),
    ):
        with pytest.raises(ValueError, match=f"tapegrad: {text}"):
            call()
    for call, text in (
        (lambda: value(w, np.ones(4)), "takes an array of 2 axes here in Numba code, not array"),
        (lambda: value(w, m[None]), "takes an array of 2 axes"),
        (lambda: value(w[None], m), "takes an array of 1 axes"),
        (lambda: both(w, m, g[None]), "takes an array of 1 axes"),
        (lambda: value(w, 1.0), "takes arrays of float64 in Numba code, not float64"),
        (lambda: value(w, m.astype(np.float32)), "takes arrays of float64 in Numba code"),
        (lambda: value(w.astype(int), m), "takes arrays of float64 in Numba code"),
    ):
        with pytest.raises(numba.TypingError, match=text):
            call()
    check(table, (value, both), [(w, m)])


@needs("numba-reader")
def test_arguments_and_gradients_in_one_memory():
    """The gradient may replace the argument that it is of."""
    c = with_graph(robust, *both_ways(5))
    _, both = c.numba(*points(5))
    p, x, y = points(700)
    wanted = tg.value_and_grad(robust)(p, x, y)
    same((float(both(p, x, y, p)), p), (float(wanted[0]), wanted[1]))


# --- threads and lives ----------------------------------------------------------------------------


@needs("numba-reader")
def test_rows_of_prange():
    """Each thread has memory of its own, which grows in some rows."""
    c = with_graph(robust, *both_ways(5))
    _, both = c.numba(*points(5))

    @numba.njit(parallel=True)
    def rows(p, x, y, counts, out, gradients):
        for k in numba.prange(len(counts)):
            out[k] = both(p[k], x[k, : counts[k]], y[k, : counts[k]], gradients[k])

    counts = np.arange(40) * 31 % 600
    p, x, y = RNG.normal(size=(40, 2)), RNG.normal(size=(40, 600)), RNG.normal(size=(40, 600)) * 3
    out, gradients = np.full(40, np.nan), np.full((40, 2), np.nan)
    rows(p, x, y, counts, out, gradients)
    for k, n in enumerate(counts):
        same((float(out[k]), gradients[k]), _plain(robust, p[k], x[k, :n], y[k, :n]))


def _plain(f, *args):
    value, gradient = tg.value_and_grad(f)(*args)
    return float(value), gradient


@numba.njit(nogil=True)
def repeated(both, p, x, y, out, gradients):
    for k in range(len(out)):
        out[k] = both(p[k], x[k], y[k], gradients[k])


@needs("numba-reader")
@pytest.mark.parametrize("native", [False, True])
def test_threads_beside_calls_from_python(native):
    """While native code takes over."""
    c = with_graph(robust, *both_ways(50), native=native)
    _, both = c.numba(*points(50))
    p, x, y = RNG.normal(size=(3, 60, 2)), RNG.normal(size=(3, 60, 50)), RNG.normal(size=(60, 50))
    out, gradients = np.full((3, 60), np.nan), np.full((3, 60, 2), np.nan)
    repeated(both, p[0][:1], x[0], y, out[0][:1], gradients[0])  # compiled before

    def run(k):
        if k < 3:
            return repeated(both, p[k], x[k], y, out[k], gradients[k])
        for row in range(60):
            same(c.value_and_grad(p[0, row], x[0, row], y[row]), wanted[0][row])

    wanted = [[_plain(robust, p[k, j], x[k, j], y[j]) for j in range(60)] for k in range(3)]
    by_threads(run)
    for k in range(3):
        for j in range(60):
            same((float(out[k, j]), gradients[k, j]), wanted[k][j])
    c.wait()


@needs("numba-reader")
def test_the_functions_keep_the_graph():
    """Of a function that is gone, by functions that call them alone."""

    def used():
        scale = np.array([3.0, 2.0])

        def f(x):
            return np.sum(x * scale) if x[0] > 0.0 else x[0] * scale[1]

        c = with_graph(f, (np.ones(2),), (-np.ones(2),))
        value, both = c.numba(np.ones(2))

        @numba.njit
        def caller(x, g):
            return both(x, g) + value(x)

        return caller, weakref.ref(c)

    caller, c = used()
    gc.collect()
    assert c() is None
    others = [with_graph(robust, *both_ways(5)) for _ in range(3)]  # which take memory
    g = np.zeros(2)
    assert caller(np.array([1.0, 2.0]), g) == 14.0 and (g == [3.0, 2.0]).all()
    assert caller(np.array([-1.0, 2.0]), g) == -4.0 and (g == [2.0, 0.0]).all()
    assert len(others) == 3


# --- what a function reads outside, and what is no graph ------------------------------------------

weights = np.array([1.0, 2.0, 4.0])


def weighted(x, n):
    total = 0.0
    for k in range(len(n)):
        if n[k] > 0.0:
            total = total + weights[k] * x[k] ** 2
    return total


@needs("numba-reader")
def test_arrays_from_outside_are_read_in_each_call():
    x, n = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 1.0])
    c = with_graph(weighted, (x, n), (x, -n))
    functions = c.numba(x, n)
    check(weighted, functions, [(x, n), (x, -n), (x, n[:1]), (x, n[:0])])
    weights[0] = 7.0
    try:
        check(weighted, functions, [(x, n), (x, -n)])
    finally:
        weights[0] = 1.0


@needs("numba-reader")
def test_a_graph_that_is_wrong_is_not_used():
    """It is compared with the function first, as in each call."""
    state = [1.0]

    def f(x):
        return x[0] * stated(state) if x[0] > 0.0 else x[1]

    def stated(one):
        return one[0]

    x = np.array([1.0, 2.0])
    c = tg.compile(lambda x: x[0] * 2.0 if x[0] > 0.0 else x[1])
    for k in (1.0, -1.0, 1.0):
        c.value_and_grad(k * x)
    (flow,) = c._flows.found.values()
    c._f = c._entered = f
    flow.primal._compared = [0, 0]  # the graph is of something else than f
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="depends on something else"):
            c.numba(x)
    assert any("its graph is wrong" in str(one.message) for one in caught)


def test_one_way_where_there_is_no_graph():
    """A program of one way, and an error on others that says how to go on."""
    c = tg.compile(lambda x: x[0] if x[0] > 0.0 else x[1], on_branch="error")
    c.value_and_grad(np.ones(2))
    with pytest.raises(RuntimeError, match="takes another branch"):
        c.value_and_grad(-np.ones(2))
    value, _ = c.numba(np.ones(2))
    assert value(np.array([3.0, 1.0])) == 3.0
    text = "takes a way here that was not recorded; call it in Python with such arguments, then num"
    with pytest.raises(ValueError, match=re.escape(text)):
        value(np.array([-3.0, 1.0]))
