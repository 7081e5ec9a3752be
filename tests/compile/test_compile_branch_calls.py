"""Calls of functions that have graphs, from recordings and from functions compiled themselves."""

import functools

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg

RNG = np.random.default_rng(5)


def robust(p, x):
    total = 0.0
    for v in x:
        r = abs(v - p[0]) * p[1]
        total = total + (r * r if r < 1 else 2 * r - 1)
    return total


def several(p, x):
    low, n, high = 0.0 * p[0], 0, p[1]
    for v in x:
        if v > 0:
            low = low + v * p[0]
        else:
            high, n = high * p[1] * v, n + 1
    return low, {"n": n, "high": high}


def written(p, x):
    for i in range(len(p)):
        if x[i] > 0:
            p[i] = p[i] * x[i]
    return p[0] * p[1]


def around(f):
    """A function that calls another one, and uses its numbers."""
    if f is several or getattr(f, "_f", None) is several:

        def outer(p, x):
            low, rest = f(np.tanh(p), x)
            return low * rest["high"] + rest["n"] * low

        return outer
    return lambda p, x: f(np.tanh(p), x) ** 2 + p[1]


def points(count=8):
    return [(RNG.normal(size=2), 2 * RNG.normal(size=(5, 5, 9)[k % 3])) for k in range(count)]


def close(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@needs("numba-reader")
@pytest.mark.parametrize("f", [robust, several, written])
def test_a_call_in_a_recording_is_one_row(f):
    c = tg.compile(f)
    outer, eager = around(c), around(f)
    for p, x in points():
        close(tg.value_and_grad(outer)(p, x), tg.value_and_grad(eager)(p, x))
        close([tg.hessian(outer)(p, x)], [tg.hessian(eager)(p, x)])
        along = (p, x), (RNG.normal(size=2), 0.0 * x)
        close(tg.jvp(outer, *along), tg.jvp(eager, *along))
    x = 2 * RNG.normal(size=11)  # a length that no program has
    tape = str(tg.record(lambda p: outer(p, x), p))
    assert f"function     {f.__name__}" in tape and len(tape.splitlines()) < 12


@needs("numba-reader")
@pytest.mark.parametrize("f", [robust, several, written])
@pytest.mark.parametrize("inner_first", [False, True])
@pytest.mark.filterwarnings("ignore:.* is slow")
def test_a_call_in_a_compiled_function_is_part_of_its_graph(f, inner_first):
    c = tg.compile(f)
    if inner_first:
        for args in points(4):
            c(*args)
    outer = tg.compile(around(c))
    eager = around(f)
    for p, x in points():
        before = p.copy()
        close(outer.value_and_grad(p, x), tg.value_and_grad(eager)(p, x))
        close([outer.hessian(p, x)], [tg.hessian(eager)(p, x)])
        assert np.array_equal(p, before)
    assert ("a graph of" in outer.explain()) == (f is not written), outer.explain()


@pytest.mark.filterwarnings("ignore:.* is slow")
def test_a_compiled_function_writes_to_arrays_of_its_own():
    c = tg.compile(written)

    def f(p, x):
        q = p * 1.0
        found = c(q, x)
        return found + q[0]

    def eager(p, x):
        return written(p * 1.0, x) + p[0]

    outer = tg.compile(f)
    for p, x in points():
        close(outer.value_and_grad(p, x), tg.value_and_grad(eager)(p, x))


def of_one_number(a, b):
    return a["x"] ** 2 * b["x"]


def of_two_numbers(a, b):
    total = 0.0
    for k in range(3):
        total = total + (a["x"] ** 2 * b["x"] if a["x"] > k else a["x"] * b["x"])
    return 3.0 * total, a["x"] * b["x"] ** 2


def of_arrays(a, b):
    z = np.exp(a["x"] * np.arange(3.0))
    return z * b["x"] if a["x"] > 1 else z + b["x"] ** 2


@pytest.mark.parametrize("argnums", [(0, 1), (1, 0), (-1, 0)])
@pytest.mark.parametrize("f", [of_one_number, of_two_numbers, of_arrays])
def test_arguments_differentiated_in_any_order(f, argnums):
    """Gradients of a call in a recording are those of its arguments, however argnums names them."""
    c = tg.compile(f, argnums=argnums)

    def around(f):
        return lambda a, b: sum(np.sum(np.sin(one)) for one in f({"x": a}, {"x": b}))

    if f is of_one_number:
        around = lambda f: lambda a, b: np.sin(f({"x": a}, {"x": b}))
    for k in range(8):
        point = 0.3 + 0.7 * (k % 4), 1.5 - 0.1 * k
        close(tg.grad(around(c), (0, 1))(*point), tg.grad(around(f), (0, 1))(*point))
        expected = tg.hessian(around(f), (0, 1))(*point)
        close(np.ravel(tg.hessian(around(c), (0, 1))(*point)), np.ravel(expected))


FACTORS = np.array([1.5, 2.0])


def scaled(x, factor=1.0, others=FACTORS):
    return x * factor if x > 0 else x * x * others[0]


tripled = functools.partial(scaled, factor=3.0)
others_known = functools.partial(tripled, others=FACTORS)


def of_partials(x):
    total = 0.0
    for v in x:
        total = total + tripled(v) * others_known(v, factor=v)
    return total


@needs("numba-reader")
def test_partials_are_followed():
    """Arrays that they hold are read in each call, as those of closures are."""
    c = tg.compile(of_partials)
    try:
        for k in range(9):
            FACTORS[0] = 1.5 + k // 3
            x = np.random.default_rng(k).normal(size=4)
            close([c(x), c.grad(x)], [of_partials(x), tg.grad(of_partials)(x)])
    finally:
        FACTORS[0] = 1.5
    assert c._flows.found and not c._flows.refused


def by_name(x, **factors):
    total = 0.0
    for v in x:
        total = total + (v * factors["up"] if v > 0 else v * v * factors["down"])
    return total


def with_rest(a, /, *rest, b=1.0, **named):
    return a * rest[1] * named["a"] * b if a > 0 else rest[0] * a * len(named)


def around_rest(x):
    total = 0.0
    for v in x:
        total = total + with_rest(v, 1.0, v, a=v * 2.0) + with_rest(v, v, 2.0, c=1.0, a=3.0)
    return total


@needs("numba-reader")
@pytest.mark.parametrize("f, names", [(by_name, ("up", "down")), (around_rest, ())])
def test_arguments_that_two_stars_take(f, names):
    c = tg.compile(f)
    for k in range(6):
        rng = np.random.default_rng(k)
        x, named = rng.normal(size=4), {name: float(rng.normal()) for name in names}
        value, gradient = c.value_and_grad(x, **named)
        close([value, gradient], tg.value_and_grad(f)(x, **named))
    assert c._flows.found and not c._flows.refused
