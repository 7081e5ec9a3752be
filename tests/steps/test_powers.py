"""Powers of constant exponents: products, reciprocals and square roots give what powers give."""

import math
import re
import warnings

import numpy as np
import pytest
from compiled import same
from passed_programs import steps_of

import tapegrad as tg
import tapegrad.math
from tapegrad._core.codegen.vector_math import MOST, halves, raised
from tapegrad._core.ops.powers import OF_ARRAYS, OF_NUMBERS

mpmath = pytest.importorskip("mpmath")
TINY, HUGE = np.finfo(float).tiny, np.finfo(float).max
LEAST = 5e-324
ENDS = [0.0, -0.0, np.inf, -np.inf, np.nan, LEAST, -LEAST, HUGE, -HUGE, TINY, -TINY]
SIZES = [1e-310, 1e-300, 1e-155, 1e-103, 1e-20, 0.3, 1.0 - 2**-53, 1.0, 1.7, 20.0, 1e20, 1e103]
ALL = np.array([*ENDS, *SIZES, *[-x for x in SIZES], 1e154, -1e154, 1e155, 1e300])
#: Whole numbers and halves, of which some are compiled in each mode.
SOME = [3, -2, 1.5, -1.5, 4, -0.5, 7, -3.0]


class Numpys:
    """Makes products by NumPy."""

    constant = float

    def step(self, op, *x):
        names = {"float_equal": "equal", "float_select": "where"}
        return getattr(np, names.get(op, op))(*x)


def powers(x, exponent):
    """The function of the C library."""
    with np.errstate(all="ignore"):
        return np.array([np.float64(one) ** np.float64(exponent) for one in x])


def agree(found, wanted, roundings):
    """Zeros, infinities and NaN are the same, and other numbers up to some roundings."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    known = ~np.isnan(wanted)
    found, wanted = found[known], wanted[known]
    assert np.array_equal(np.signbit(found), np.signbit(wanted))
    most = roundings * 2.0**-53
    large = np.isinf(wanted) | np.isinf(found)
    assert (np.abs(np.clip(found[large], -HUGE, HUGE) / HUGE - np.sign(wanted[large])) < most).all()
    error = np.abs(found[~large] - wanted[~large])
    assert (error <= most * np.abs(wanted[~large]) + roundings * LEAST).all()


@pytest.mark.parametrize("twice", range(-2 * MOST, 2 * MOST + 1))
def test_products_are_powers(twice):
    with np.errstate(all="ignore"):
        found = np.broadcast_to(raised(Numpys(), ALL, twice), ALL.shape)
    agree(found, powers(ALL, twice / 2), 2 * abs(twice) + 2)


def test_exponents():
    assert halves(1.5) == 3 and halves(-20.0) == -40 and halves(0.0) == 0
    assert [halves(x) for x in (1.25, 20.5, 1e300, math.inf, math.nan)] == [None] * 5
    assert {2.0 * x for x in OF_NUMBERS} == {*range(-32, 33)} - {0, 2} == {2 * x for x in OF_ARRAYS}


@pytest.mark.parametrize("twice", [-32, -7, -1, 3, 6, 32])
def test_errors_of_products(twice):
    """As many roundings as the exponent counts, and twice as many where it is negative."""
    x = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    found = raised(Numpys(), x, twice)
    with mpmath.workdps(50):
        for a, b in zip(x.tolist(), found.tolist(), strict=True):
            exact = mpmath.mpf(a) ** (mpmath.mpf(twice) / 2)
            assert abs(b / exact - 1) < (abs(twice) / 2 * (1 + (twice < 0)) + 1) * 2.0**-53


def total(exponent):
    return lambda x: np.sum(x**exponent)


@pytest.mark.parametrize("exponent", SOME)
@pytest.mark.parametrize("n", [1, 5, 5000])
def test_arrays(exponent, n):
    x = np.random.default_rng(n).uniform(0.2, 3.0, n)
    x[::3] *= -1.0 if exponent == int(exponent) else 1.0
    for _ in range(3):  # by Python, then by compiled code
        t = tg.tensor(x, requires_grad=True)
        y = t**exponent
        y.backward(np.ones(n))
        same(y.detach().numpy(), x**exponent, 1e-14)
        same(t.grad.numpy(), exponent * x ** (exponent - 1.0), 1e-14)


@pytest.mark.parametrize("exponent", [3, -3, 1.5, -1.5, -0.5, 2.5])
def test_ends_of_arrays(exponent):
    t = tg.tensor(ALL, requires_grad=True)
    y = t**exponent
    y.backward(np.ones(len(ALL)))
    agree(y.detach().numpy(), powers(ALL, exponent), 16)
    with np.errstate(all="ignore"):
        agree(t.grad.numpy() + 0.0, exponent * powers(ALL, exponent - 1.0) + 0.0, 16)


@pytest.mark.parametrize("native", [False, True])
def test_every_exponent_of_few_elements(native):
    """They are operations on numbers in programs."""
    exponents = [k / 2 for k in range(-32, 33)]
    shift = np.linspace(0.0, 0.5, len(exponents))

    def f(x):
        return np.sum(sum([(x + a) ** e for a, e in zip(shift, exponents, strict=True)]))

    c = tg.compile(f, native=native)
    for x in (np.array([0.7, 0.9]), np.array([0.8, 1.1]), np.array([1.2, 0.6])):
        value, gradient = c.value_and_grad(x)
        c.wait()
        same(value, f(x), 1e-13)
        parts = [e * (x + a) ** (e - 1.0) for a, e in zip(shift, exponents, strict=True)]
        same(gradient, np.sum(parts, axis=0), 1e-13)


@pytest.mark.parametrize("exponent", [-2, -1.5, 5])
@pytest.mark.parametrize("native", [None, False, True])
def test_products_to_the_bit(exponent, native):
    """Powers of the C library have other last places for some of so many numbers."""
    x = np.random.default_rng(3).uniform(0.5, 2.0, 1000)
    g = tg.value_and_grad(total(exponent))
    if native is not None:
        c = tg.compile(total(exponent), native=native)
        g = c.value_and_grad
        g(x), g(x), c.wait()
    made = exponent * raised(Numpys(), x, int(2 * exponent) - 2)
    assert np.array_equal(g(x)[1], made)
    assert not np.array_equal(made, exponent * powers(x, exponent - 1.0))


# --- modes ----------------------------------------------------------------------------------------


def mixed(x):
    """Powers of arrays and of numbers, some written in place."""
    y = (1.0 - x) ** 3 + np.power(x, -2) + np.float_power(x, 1.5)
    y **= 4
    return np.sum(y) * x[0] ** -3 + x[1] ** 2.5 / x[2] ** 0.5 + tg.math.pow(x[0], 7)


def of_products(x):
    y = (1.0 - x) * (1.0 - x) * (1.0 - x) + 1.0 / (x * x) + x * np.sqrt(x)
    y = y * y
    a, b, c = x[0], x[1], x[2]
    power = a * a * a * a * a * a * a
    return np.sum(y * y) / (a * a * a) + b * b * np.sqrt(b) / np.sqrt(c) + power


X = np.array([0.6, 1.3, 0.8, 1.1])


def third(c, name):
    return [getattr(c, name)(X) for _ in range(3)][-1]


def derivatives(f):
    return [third(f, "value_and_grad"), third(f, "hessian")]


MODES = {
    "eager": lambda f: [tg.value_and_grad(f)(X), tg.hessian(f)(X)],
    "interpreted": lambda f: derivatives(tg.compile(f)),
    "native": lambda f: derivatives(tg.compile(f, native=True)),
}


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode):
    same(MODES[mode](mixed), MODES["eager"](of_products), 1e-11)


def test_products_of_derivatives():
    v = np.array([0.3, -1.0, 0.5, 2.0])
    same(tg.hvp(mixed)(X, v), tg.hessian(of_products)(X) @ v, 1e-11)
    same(tg.jvp(mixed, (X,), (v,))[1], np.dot(tg.grad(of_products)(X), v), 1e-11)
    batch = np.stack([X, X[::-1], 0.5 * X])
    same(tg.vmap(tg.grad(mixed))(batch), np.stack([tg.grad(of_products)(x) for x in batch]), 1e-11)


def test_files(tmp_path):
    c = tg.compile(mixed)
    c.value_and_grad(X), c.value_and_grad(X)
    c.save(tmp_path / "f")
    same(tg.load(tmp_path / "f").value_and_grad(X), tg.value_and_grad(of_products)(X), 1e-12)


def branching(x):
    """A graph: numbers, and arrays with a branch."""
    total = 0.0
    for k in range(3):
        r = x[k] * x[k] + 0.1
        total = total + (r**-1.5 if x[k] > 0.9 else r**3 - r**0.5)
    return total + np.sum(x**4) + math.pow(2.0, 3.0)


def branching_by_products(x):
    total = 0.0
    for k in range(3):
        r = x[k] * x[k] + 0.1
        total = total + (1.0 / (r * np.sqrt(r)) if x[k] > 0.9 else r * r * r - np.sqrt(r))
    return total + np.sum(x * x * x * x) + 8.0


@pytest.mark.parametrize("native", [False, True])
def test_graphs(native):
    c = tg.compile(branching, native=native)
    for scale in (1.0, 1.2, 0.7, 1.0, 0.5):
        c.value_and_grad(scale * X)
    c.wait()
    for scale in (1.0, 1.2, 0.7, 0.5):
        wanted = tg.value_and_grad(branching_by_products)(scale * X)
        same(c.value_and_grad(scale * X), wanted, 1e-12)
    assert "graph" in c.explain()


@tg.elementwise
def of_numbers(x):
    return x**3 + x**-2.5 - x**-1


def test_elementwise():
    wanted = tg.value_and_grad(lambda x: np.sum(x * x * x + 1.0 / (x * x * np.sqrt(x)) - 1.0 / x))(
        X
    )
    same(tg.value_and_grad(lambda x: np.sum(of_numbers(x)))(X), wanted, 1e-13)


@pytest.mark.parametrize("native", [False, True])
def test_loops_of_numbers(native):
    """Products in the body of a loop of native code; exponents that change stay data."""

    def f(x):
        y = x[0]
        for k in range(60):
            y = 0.5 * y**3 + 0.3 * x[1] ** -1.5 + 0.01 * x[2] ** (k % 5)
        return y

    def g(x):
        y = x[0]
        for k in range(60):
            y = 0.5 * y * y * y + 0.3 / (x[1] * np.sqrt(x[1])) + 0.01 * math.prod([x[2]] * (k % 5))
        return y

    c = tg.compile(f, native=native)
    for _ in range(2):
        c.value_and_grad(X)
    c.wait()
    same(c.value_and_grad(X), tg.value_and_grad(g)(X), 1e-12)


def test_exponents_that_change_keep_loops():
    """A loop whose exponent is the same in all rounds has products, another keeps it as data."""

    def f(x):
        y = x[0]
        for _ in range(40):
            y = 0.9 * y + (y + x[0]) ** -1.5
        for k in range(60):
            y = y + (y + x[1]) ** (0.5 - k % 5)
        return y

    names = steps_of(f, X)
    assert names.count("power_minus_1_5") == 40 and names.count("power") >= 58
    c = tg.compile(f, native=True)
    c.value_and_grad(X), c.value_and_grad(X), c.wait()
    found = [int(count) for count in re.findall(r"loop of (\d+) x", c.explain())]
    assert len(found) == 2 and min(found) >= 38


# --- float32, kinds of exponents, NumPy's state ---------------------------------------------------


@pytest.mark.parametrize("exponent", [3, -2, 1.5])
@pytest.mark.parametrize("native", [None, False, True])
def test_float32(exponent, native):
    x = np.random.default_rng(0).uniform(0.3, 2.0, 50).astype(np.float32)
    f = total(exponent) if native is None else tg.compile(total(exponent), native=native)
    gradient = [tg.grad(f)(x) for _ in range(3)][-1]
    assert gradient.dtype == np.float32
    wanted = exponent * x.astype(float) ** (exponent - 1)
    np.testing.assert_allclose(gradient, wanted, 1e-6)
    assert tg.tensor(x, requires_grad=True).__pow__(exponent).dtype == np.float32


def test_numbers_of_numpy_as_exponents():
    x = tg.tensor(np.array([1.0, 2.0]), requires_grad=True)
    single = tg.tensor(np.array([1.0, 2.0], np.float32), requires_grad=True)
    for exponent in (2, 3):
        for kind in (np.float64, np.float32, np.int64, np.int8):
            assert (x ** kind(exponent)).tolist() == [1.0, 2.0**exponent]
        assert (single**exponent).dtype == np.float32
        assert (single ** np.float32(exponent)).dtype == np.float32
        assert (single ** np.float64(exponent)).dtype == np.float64


def test_other_exponents_and_operands():
    x = tg.tensor(np.array([0.5, 2.0]), requires_grad=True)
    for exponent in (0, 1, 17, 0.3, True, 1e300, np.nan, np.inf, -np.inf):
        with np.errstate(all="ignore"):
            wanted = np.array([0.5, 2.0]) ** exponent
        np.testing.assert_allclose((x**exponent).detach().numpy(), wanted, 1e-15)
    np.testing.assert_allclose((x ** np.array([3.0, 2.0])).detach().numpy(), [0.125, 4.0])
    y = tg.tensor(3.0, requires_grad=True)
    same(
        tg.grad(lambda x, y: np.sum(x**y), (0, 1))(np.array([0.5, 2.0]), 3.0)[1],
        np.float64(0.125 * np.log(0.5) + 8.0 * np.log(2.0)),
    )
    with pytest.raises(ValueError, match="negative integer"):
        tg.tensor([1, 2]) ** -1
    assert (y**3).item() == 27.0


def test_warnings_are_those_of_powers():
    x = tg.tensor(np.array([1e200, 0.0]), requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert (x**3).tolist() == [np.inf, 0.0]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="power"):
        x**3
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        x**-3
    with np.errstate(over="raise"):
        assert (x**-2).tolist()[0] == 0.0


def test_graphs_of_rows():
    x = tg.tensor(np.array([1.0, 2.0]), requires_grad=True)
    assert type((x**3).grad_fn).__name__ == type((x**0.3).grad_fn).__name__ == "PowBackward0"
