"""Python floats given as data: they raise, become complex and are rounded as Python's do."""

import math
import warnings

import numpy as np
import pytest
from extent import some

import tapegrad as tg
import tapegrad.math as tmath

X = np.array([1.5, 2.0])


def caught(x, d):
    try:
        return x[0] * (1.0 / d)
    except ZeroDivisionError:
        return x[1] * 7.0


def looped(x, d):
    total, t = 0.0, d
    for _ in range(5):
        t = t - 1.0
        total = total + x[0] / t * (1.0 / t)
    return total


#: Functions, data for which they are ordinary, and others.
CASES = {
    "divide": (lambda x, d: x[0] * (1.0 / d), 2.0, 0.0),
    "minus zero": (lambda x, d: x[0] * (1.0 / d), 2.0, -0.0),
    "floor": (lambda x, d: x[0] * (1.0 // d), 2.0, 0.0),
    "remainder": (lambda x, d: x[0] * (1.5 % d), 2.0, 0.0),
    "divmod": (lambda x, d: x[0] * divmod(1.5, d)[1], 2.0, 0.0),
    "inverse": (lambda x, d: x[0] * d**-1, 2.0, 0.0),
    "root": (lambda x, d: x[0] * abs(d**0.5), 2.0, -2.0),
    "exponent": (lambda x, d: x[0] * 10.0**d, 2.0, 400.0),
    "zero to": (lambda x, d: x[0] * 0.0**d, 2.0, -1.0),
    "square": (lambda x, d: x[0] * d**2, 2.0, 1e200),
    "product": (lambda x, d: x[0] * (d * d), 2.0, 1e200),
    "computed": (lambda x, d: x[0] * ((d + 1.0) / (d - 3.0)), 2.0, 3.0),
    "two": (lambda x, d: x[0] * (d[0] / d[1]), (2.0, 3.0), (2.0, 0.0)),
    "list": (lambda x, d: x[0] * sum([1.0 / v for v in d]), [1.0, 2.0], [1.0, 0.0]),
    "in place": (lambda x, d: x[0] * in_place(d), 2.0, 0.0),
    "loop": (looped, 9.5, 3.0),
    "known divisor": (lambda x, d: x[0] * (d / 0.0) if d < 1 else x[0], 2.0, 0.5),
    "caught": (caught, 2.0, 0.0),
    "guarded": (lambda x, d: x[0] * (1.0 / d if d else 5.0), 2.0, 0.0),
    "recorded": (lambda x, d: x[0] / d, 2.0, 0.0),
    "array": (lambda x, d: x[0] * (1.0 / d[0]), np.array([2.0, 1.0]), np.array([0.0, 1.0])),
    "numpy": (lambda x, d: x[0] * (1.0 / d), np.float64(2.0), np.float64(0.0)),
    "np.divide": (lambda x, d: x[0] * np.divide(1.0, d), 2.0, 0.0),
    "math": (lambda x, d: x[0] * math.sqrt(d), 2.0, -1.0),
    "tapegrad.math": (lambda x, d: x[0] * tmath.log(d), 2.0, 0.0),
    "overflow": (lambda x, d: x[0] * tmath.exp(d), 2.0, 1e4),
    "round": (lambda x, d: x[0] * round(d, 2), 2.675, 0.125),
    "round to one": (lambda x, d: x[0] * round(d, 1), 0.35, 0.15),
    "round list": (lambda x, d: x[0] * sum([round(v, 2) for v in d]), [2.675], [0.125]),
    "round computed": (lambda x, d: x[0] * round(d + 1.0, 2), 1.5, 1.675),
    "round numpy": (lambda x, d: x[0] * round(d, 2), np.float64(2.675), np.float64(0.125)),
    "round elements": (lambda x, d: x[0] * round(d[0], 2), np.array([2.675]), np.array([0.125])),
    "whole": (lambda x, d: x[0] * round(d), 2.5, math.inf),
    "int": (lambda x, d: x[0] * int(d), 2.5, math.nan),
}


def in_place(d):
    d /= 1.0
    one = 1.0
    one /= d
    return one


def outcome(g, *args):
    try:
        return np.asarray(g(*args))
    except (ArithmeticError, ValueError, TypeError) as error:
        return type(error).__name__


def check(g, f, *args):
    found, wanted = outcome(g, *args), outcome(f, *args)
    if isinstance(wanted, str):
        assert found == wanted
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize("name", CASES)
def test_data_are_floats_of_python(name):
    """With some calls before those at which Python's rules matter."""
    f, ordinary, other = CASES[name]
    ways = [(verify, before) for verify in ("once", "never") for before in (0, 1, 3)]
    for verify, before in some(ways, [*CASES].index(name), 1):
        c, d = tg.compile(f, verify=verify), tg.compile(f, verify=verify)
        for data in (*[ordinary] * before, *[other] * 3, ordinary, other):
            check(c, f, X, data)
            check(d.grad, tg.grad(f), X, data)


@pytest.mark.parametrize("name", ["divide", "root", "exponent", "computed", "round", "loop"])
def test_files_and_native_code_keep_the_rules(name, tmp_path):
    f, ordinary, other = CASES[name]
    c = tg.compile(f, native=True)
    for _ in range(3):
        c.grad(X, ordinary)
    c.wait()
    check(c.grad, tg.grad(f), X, ordinary)
    c.save(tmp_path / "program")
    loaded = tg.load(tmp_path / "program")
    check(loaded.grad, tg.grad(f), X, ordinary)
    if isinstance(outcome(f, X, other), str):
        with pytest.raises(RuntimeError, match="of Python's floats"):
            loaded(X, other)
    check(c.grad, tg.grad(f), X, other)


def test_programs_of_numpys_numbers_do_not_serve_those_of_python():
    f = CASES["divide"][0]
    c = tg.compile(f)
    for d in (np.float64(2.0), np.float64(2.0), np.float64(0.0), 0.0, 2.0, 0.0, np.float64(0.0)):
        check(c, f, X, d)


def test_ordinary_calls_have_one_program_and_the_short_way():
    calls: list = []
    for f in (lambda x, d: x[0] * (1.0 / d), lambda x, d: x[0] / d + x[1] ** 2 * d):
        calls.clear()
        c = tg.compile(lambda x, d, f=f: (calls.append(1), f(x, d))[1], verify="never")
        for d in (2.0, 3.0, -1.0, 1e-300, 1e300):
            check(c, f, X, d)
        assert len(calls) == 1
        assert c._fast_value is not None


def test_rows_of_maps_follow_the_rules():
    f = CASES["divide"][0]
    c = tg.compile(f)
    data = np.array([1.0, 2.0, 4.0, 3.0])
    values, _ = c.map(np.tile(X, (4, 1)), data)
    np.testing.assert_allclose(values, X[0] / data)
    data[2] = 0.0
    with pytest.raises(ZeroDivisionError):
        c.map(np.tile(X, (4, 1)), data)


def test_long_recordings_are_checked_before_their_first_result():
    def f(x, d):
        total = x[0]
        for _ in range(10_000):
            total = total * 1.0001
        return total * (1.0 / d)

    c = tg.compile(f)
    for d in (0.0, 2.0, 2.0, 0.0):
        check(c.grad, tg.grad(f), X, d)


def test_a_divisor_of_both_kinds_of_numbers():
    f = lambda x, a, d: x[0] * (a / d) + x[1] * (1.0 / d)
    c = tg.compile(f)
    for a, d in ((np.float64(1.0), 2.0), (np.float64(1.0), 2.0), (np.float64(1.0), 0.0)):
        check(lambda x, d, a=a: c(x, a, d), lambda x, d, a=a: f(x, a, d), X, d)
