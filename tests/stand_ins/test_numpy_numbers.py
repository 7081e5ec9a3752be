"""NumPy's numbers beside recorded ones, and ufuncs of recorded numbers: compiled after one call."""

import functools
import math
import operator
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.special
from assumed import needs

import tapegrad as tg
from tapegrad._core.codegen import layout
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._core.tape import native_types
from tapegrad._core.tensor import runtime as rt
from tapegrad._core.tensor.apply import ufunc_of
from tapegrad._core.tensor.registry import PUBLIC

NUMBERS = {
    "float": 0.75,
    "int": 1,
    "float64": np.float64(0.7),
    "float32": np.float32(0.7),
    "int64": np.int64(1),
    "int32": np.int32(1),
    "uint8": np.uint8(1),
    "float16": np.float16(0.7),
    "bool": np.True_,
}
OPERATIONS = [
    name
    for name, op in TABLE.items()
    if isinstance(op, Pointwise) and op.of_numbers and name in PUBLIC and op.numpy != "numpy.i0"
]
UFUNCS = {name: ufunc_of(name) for name in OPERATIONS if type(ufunc_of(name)) is np.ufunc}
ONE = [name for name in UFUNCS if len(TABLE[name].inputs) == 1]
TWO = [name for name in UFUNCS if len(TABLE[name].inputs) == 2]


def known():
    """The ufuncs that compiled code computes."""
    count = native_types.get_word(layout.STATE_UFUNC_COUNT)
    return {*native_types._ufuncs()[:count, 0].tolist()}


@functools.cache
def calling(ufunc):
    """What `tapegrad.numpy` and `tapegrad.math` call."""
    rt.start()
    return native_types.calling(ufunc, ufunc)


def check(ufunc, function, *operands):
    """A ufunc, three times, and its builtin, against the function that computes as for arrays."""
    inputs = [tg.tensor(x, requires_grad=True) * 1.0 for x in operands if type(x) is Recorded]

    def given():
        there = iter(inputs)
        return [next(there) if type(x) is Recorded else x for x in operands]

    expected = function(*given())
    partials = tg.autograd.grad(expected, inputs)
    also = [calling(ufunc)] * 2 if isinstance(ufunc, np.ufunc) else []
    for call in (*also, ufunc, ufunc, ufunc, *also):
        found = call(*given())
        assert type(found) is type(expected) is rt.Scalar and found.dtype == np.float64
        np.testing.assert_array_equal(found._value, expected._value)
        assert type(found.grad_fn) is type(expected.grad_fn)
        for one, other in zip(tg.autograd.grad(found, inputs), partials, strict=True):
            np.testing.assert_array_equal(one, other)


class Recorded(float):
    """An operand that is recorded."""


@pytest.mark.parametrize("name", ONE)
def test_functions_of_a_number(name):
    low, high = TABLE[name].domain[0]
    for x in (low + 0.3 * (high - low), low + 0.6 * (high - low)):
        check(UFUNCS[name], PUBLIC[name], Recorded(x))


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", TWO)
def test_operations_with_a_number(name, kind):
    check(UFUNCS[name], PUBLIC[name], Recorded(0.6), NUMBERS[kind])
    check(UFUNCS[name], PUBLIC[name], NUMBERS[kind], Recorded(1.6))
    check(UFUNCS[name], PUBLIC[name], Recorded(0.6), Recorded(1.6))


@pytest.mark.parametrize("kind", NUMBERS)
def test_operators_without_slots(kind):
    c = NUMBERS[kind]
    for name, function in (("remainder", operator.mod), ("floor_divide", operator.floordiv)):
        check(function, PUBLIC[name], Recorded(0.6), c)
        check(function, PUBLIC[name], c, Recorded(1.6))
        check(function, PUBLIC[name], Recorded(1.6), Recorded(0.6))
    check(abs, PUBLIC["absolute"], Recorded(-0.6))


@needs("numpy-ufunc-fields")
def test_they_are_compiled():
    t = tg.tensor(0.5, requires_grad=True) * 1.0
    for name in ("add", "subtract", "multiply", "divide", "power", "remainder", "floor_divide"):
        UFUNCS[name](np.float64(2.0), t)
        assert id(UFUNCS[name]) in known()
    for name in ("log", "exp", "sin", "sigmoid"):
        UFUNCS[name](t)
        assert id(UFUNCS[name]) in known()


@pytest.mark.parametrize("x", [0.0, -0.0, -1.0, 1e-320, 1e308, np.inf, -np.inf, np.nan])
def test_values_at_the_ends(x):
    for name in ("log", "sqrt", "exp", "reciprocal", "arcsin", "expm1"):
        check(UFUNCS[name], PUBLIC[name], Recorded(x))
    for name in ("divide", "power", "remainder", "floor_divide", "maximum", "multiply"):
        check(UFUNCS[name], PUBLIC[name], np.float64(0.0), Recorded(x))
        check(UFUNCS[name], PUBLIC[name], Recorded(x), Recorded(0.0))


@pytest.mark.parametrize("number", [2**53 + 1, -(2**63), 2**63 - 1])
def test_large_integers_are_rounded_as_by_numpy(number):
    t = tg.tensor(1.0, requires_grad=True) * 1.0
    for _ in range(2):
        assert (np.int64(number) * t)._value == (t * np.int64(number))._value == float(number)


def mixed(x, c):
    """A loop over data, of all that is compiled."""
    a, b = x[0], x[1]
    for k in range(1, len(c)):
        a = c[k] * a + np.log(c[k] ** 2 + b * b) - c[k] / (1.5 + np.sin(a))
        b = np.float32(0.25) + np.exp(-((c[k] % a) ** 2)) * np.int64(2) - c[k] ** b
        if c[k] < a:
            b = b - np.maximum(c[k], a)
    return a * b


X, DATA = np.array([0.6, 1.2]), np.array([0.3, 0.8, 1.3, 0.45])


def by_complex_step(f, x):
    return np.array([(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(len(x))])


def test_in_every_mode():
    f = lambda x: mixed(x, DATA)
    expected = by_complex_step(f, X)
    second = by_complex_step(tg.grad(f), X)
    np.testing.assert_allclose(tg.value_and_grad(f)(X)[0], f(X), rtol=1e-14)
    np.testing.assert_allclose(tg.grad(f)(X), expected, rtol=1e-7)
    np.testing.assert_allclose([tg.jvp(f, (X,), (e,))[1] for e in np.eye(2)], expected, rtol=1e-7)
    np.testing.assert_allclose(tg.hessian(f)(X), second, rtol=1e-6)
    np.testing.assert_allclose(tg.vmap(lambda x: x[0] * np.float64(2.0))(np.ones((3, 2))), 2.0)
    for options in ({}, {"verify": "never"}, {"native": True}):
        compiled = tg.compile(mixed, **options)
        for _ in range(3):
            np.testing.assert_allclose(compiled.grad(X, DATA), expected, rtol=1e-7)
            np.testing.assert_allclose(compiled(X, DATA), f(X), rtol=1e-12)
    other = DATA + 0.01
    np.testing.assert_allclose(
        compiled.grad(X, other), by_complex_step(lambda x: mixed(x, other), X), rtol=1e-7
    )


def test_without_recording():
    t = tg.tensor(0.5, requires_grad=True) * 1.0
    plain = tg.tensor([0.5])[0]
    for log in (np.log, calling(np.log), np.log, calling(np.log)):
        with tg.no_grad():
            made = [np.float64(2.0) * t, log(t), np.float64(2.0) ** t]
        made += [np.float64(2.0) * plain, log(plain)]
        assert not any(one.requires_grad for one in made)
        assert [one._value for one in made] == [1.0, np.log(0.5), 2.0**0.5, 1.0, np.log(0.5)]


def test_what_python_computes():
    """Arguments by name, methods, other operands, errors, calls without NumPy."""
    t = tg.tensor(0.5, requires_grad=True) * 1.0
    for _ in range(2):
        assert np.multiply(np.float64(2.0), t, dtype=np.float64).requires_grad
        assert type(t).__array_ufunc__(t, np.add, "__call__", t, 1.0)._value == 1.5
        assert t.__array_ufunc__(np.add, "__call__", np.float64(1.0), t)._value == 1.5
        np.testing.assert_array_equal(np.add.outer(np.float64(1.0), t), 1.5)
        np.testing.assert_array_equal(np.multiply(np.array([1.0, 2.0]), t), [0.5, 1.0])
        np.testing.assert_array_equal(np.float64(2.0) * (t * np.ones(2)), [1.0, 1.0])
        assert (np.complex128(2.0) * t).dtype == np.complex128
        assert np.power(t, 2.0).grad_fn.name() == PUBLIC["power"](t, 2.0).grad_fn.name()
        with pytest.raises(TypeError):
            np.add(np.float64(1.0), "text", t)
        with pytest.raises(TypeError):
            t.__array_ufunc__(np.add, "__call__", t)
        with pytest.raises(TypeError):
            np.float64(1.0) * t * None
        with pytest.raises((TypeError, ValueError)):
            np.datetime64("2020-01-01") + t


def test_builtins_are_called_as_their_ufuncs():
    t, out = tg.tensor(0.5, requires_grad=True) * 1.0, np.empty(2)
    add, log, less = calling(np.add), calling(np.log), calling(np.less)
    for _ in range(2):
        assert add(1, 2) == 3 and type(add(1, 2)) is np.int64 and type(log(1.0)) is np.float64
        assert type(add(np.float32(1.0), 1.0)) is np.float32
        np.testing.assert_array_equal(log(np.ones((2, 2))), np.zeros((2, 2)))
        assert add([1.0, 2.0], 3, out=out) is out and out.tolist() == [4.0, 5.0]
        assert add([1.0, 2.0], 3, out) is out
        assert add(t, 1.0, dtype=np.float64).requires_grad and bool(less(t, 1.0))
        assert add(t, np.ones(2)).shape == add(np.ones(2), t).shape == (2,)
        assert (add(t, 2j)).dtype == np.complex128
        for arguments, error in (((), TypeError), ((t, t, t, t), TypeError), ((t, "a"), TypeError)):
            with pytest.raises(error):
                add(*arguments)
        with pytest.raises(TypeError, match="derivative"):
            add(t, 1.0, np.empty(()))
        with pytest.raises(TypeError):
            log(t, t)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        log(-1.0)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        log(t - 1.0)


def test_numbers_of_math_without_recording():
    t, still = tg.tensor(0.5, requires_grad=True) * 1.0, tg.tensor([0.5])[0]
    cell = tg.tensor(0.5, requires_grad=True).reshape(())
    for _ in range(2):
        with tg.no_grad():
            made = [tg.math.exp(t), tg.math.exp(cell), tg.math.atan2(t, 2.0)]
        assert not any([one.requires_grad for one in made])
        np.testing.assert_array_equal(made, [np.exp(0.5), np.exp(0.5), np.arctan2(0.5, 2.0)])
        assert type(tg.math.exp(still)) is float and tg.math.exp(still) == math.exp(0.5)
        with np.errstate(all="raise"), pytest.raises(ValueError, match="domain"):
            tg.math.log(t - 1.0)


def test_comparisons():
    t = tg.tensor(0.5, requires_grad=True) * 1.0
    for number in (np.float64(0.5), np.float32(1.0), np.int64(0), 0.5, t):
        for ufunc in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
            value = number._value if number is t else number
            for pair, values in (((number, t), (value, 0.5)), ((t, number), (0.5, value))):
                found = ufunc(*pair)
                assert type(found) is rt.Array and found.dtype == np.bool_ and found.shape == ()
                assert bool(found) == bool(ufunc(*values))


def test_where_rows_are_watched():
    """Python computes, for those who want to know the line of each row."""
    t = tg.tensor(0.5, requires_grad=True)
    for _ in range(2):
        t.grad = None
        with tg.autograd.detect_anomaly():
            y = np.float64(3.0) * t
            z = np.exp(y) - np.float32(1.5) / y
        z.backward()
        np.testing.assert_allclose(t.grad, 3.0 * np.exp(1.5) + 1.5 / (3.0 * 0.25))
        place = pytest.warns(UserWarning, match=r"np.log.t \* 0.0.")
        with tg.autograd.detect_anomaly(), pytest.raises(RuntimeError), place:
            (np.float64(0.0) * np.log(t * 0.0) * np.float64(np.inf)).backward()
        t.grad = None


def test_errors_of_scipy_are_raised():
    t = tg.tensor(-1.0, requires_grad=True) * 1.0
    good = tg.tensor(2.0, requires_grad=True) * 1.0
    for _ in range(2):
        assert scipy.special.gammaln(good)._value == scipy.special.gammaln(2.0)
    with scipy.special.errstate(all="raise"):
        with pytest.raises(scipy.special.SpecialFunctionError):
            scipy.special.gammaln(-1.0)
        with pytest.raises(scipy.special.SpecialFunctionError):
            scipy.special.gammaln(t)


def test_nothing_is_warned_of():
    t = tg.tensor(0.0, requires_grad=True) * 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert np.log(t)._value == -np.inf and (np.float64(1.0) / t)._value == np.inf


def test_ufuncs_of_users_are_not_kept():
    """Each is another object, as NumPy's vectorize makes them."""
    t = tg.tensor(0.5) * 1.0
    before = len(known())
    for _ in range(3):
        assert np.frompyfunc(lambda x: x, 1, 1)(t) == 0.5
    assert len(known()) == before


def test_without_the_loops():
    script = (
        "import numpy as np, tapegrad as tg\n"
        "f = lambda x: np.float64(3.0) * x * np.log(x)\n"
        "print(tg.value_and_grad(f)(2.0), tg.value_and_grad(f)(2.0))\n"
    )
    environment = {**os.environ, "TAPEGRAD_WITHOUT": "numpy-ufunc-fields"}
    words = [sys.executable, "-W", "error", "-c", script]
    found = [subprocess.check_output(words, env=e, text=True) for e in (environment, None)]
    assert found[0] == found[1] and "4.158" in found[0]
