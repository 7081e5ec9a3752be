"""`tapegrad.math`: Python's own functions for plain numbers, derivatives and its errors."""

import inspect
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
import tapegrad.math as ours

UNARY = {
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "asinh",
    "atanh": "atanh",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "log2": "log2",
    "log10": "log10",
    "sqrt": "sqrt",
    "erf": "erf",
    "erfc": "erfc",
    "lgamma": "lgamma",
    "fabs": "abs",
    "degrees": "rad2deg",
    "radians": "deg2rad",
}
POSITIVE = ("log", "log2", "log10", "sqrt", "lgamma", "gamma")


def expression(text, torch=None, **fields):
    """Of the elements of a vector between 0.2 and 0.9, called where nothing raises."""
    fields = {"shape": (3,), "low": 0.2, "high": 0.9, "other": (0.5, -0.9), **fields}
    return Expression(text, torch, names={"math": ours}, choices=False, **fields)


TABLE = [
    *[
        expression(
            f"math.{name}(x[1])",
            f"torch.{torch}(x[1])",
            other=(0.5, 0.9) if name in POSITIVE else (0.5, -0.9),
        )
        for name, torch in UNARY.items()
        if hasattr(math, name)
    ],
    expression("math.acosh(1.1 + x[1])", "torch.acosh(1.1 + x[1])", other=(0.5, 0.9)),
    expression("math.gamma(x[1])", "torch.exp(torch.lgamma(x[1]))", other=(0.5, 0.9)),
    expression("math.gamma(x[1] - 2.0)"),
    expression("math.atan2(x[0], x[1])", "torch.atan2(x[0], x[1])"),
    expression("math.atan2(0.5, x[1])"),
    expression("math.fmod(3.7, x[1])", "torch.fmod(torch.tensor(3.7, dtype=float), x[1])"),
    expression("math.fmod(5.1 * x[0], x[1])", "torch.fmod(5.1 * x[0], x[1])"),
    expression("math.remainder(5.1 * x[0], x[1])"),
    expression("math.remainder(x[2], 0.37)"),
    expression("math.copysign(x[0], -x[1])", "torch.copysign(x[0], -x[1])"),
    expression(
        "math.copysign(2.0, x[1]) * math.fabs(x[0])",
        "torch.copysign(torch.tensor(2.0, dtype=float), x[1]) * abs(x[0])",
    ),
    expression("math.pow(x[0], x[1])", "torch.pow(x[0], x[1])", other=(0.5, 0.9)),
    expression("math.pow(x[0], 3)", "torch.pow(x[0], 3)"),
    expression("math.pow(2.5, x[0])", "torch.pow(2.5, x[0])"),
    expression("math.log(x[0], 7)", "torch.log(x[0]) / np.log(7.0)", other=(0.5, 0.9)),
    expression("math.log(x[0], x[1])", "torch.log(x[0]) / torch.log(x[1])", other=(0.5, 0.9)),
    expression("math.log(3.0, x[1])", "np.log(3.0) / torch.log(x[1])", other=(0.5, 0.9)),
    expression("math.hypot(*x)", "torch.linalg.vector_norm(x)"),
    expression("math.hypot(x[0], 3)", "torch.hypot(x[0], torch.tensor(3.0))"),
    expression("math.hypot(x[0]) * math.fabs(x[1])", "abs(x[0] * x[1])"),
    expression(
        "math.dist(x, [1.0, 2, 3])", "torch.dist(x, torch.tensor([1.0, 2.0, 3.0], dtype=float))"
    ),
    expression("math.dist((x[0], 1.0), (x[1], x[2]))", "torch.hypot(x[0] - x[1], 1.0 - x[2])"),
    expression("math.fsum(x * x)", "(x * x).sum()"),
    expression("math.fsum([1e100, x[0], x[1] ** 2, -1e100])", "x[0] + x[1] ** 2"),
    expression("math.fsum(v * 2.0 for v in x)", "2.0 * x.sum()"),
    expression("math.prod(x)", "x.prod()"),
    expression("math.prod([x[0], 2, x[1]], start=x[2])", "x.prod() * 2"),
    expression("math.prod((2.0, 3), start=x[2])", "6.0 * x[2]"),
    expression("math.ldexp(x[0], 3)", "8 * x[0]"),
    expression("math.ldexp(x[0], math.floor(4.0 * x[1]))"),
    expression("math.frexp(5.0 * x[1])[0]", other=(0.5, 3.0)),
    expression("x * math.frexp(5.0 * x[1])[1]", other=(0.5, 3.0)),
    expression("math.modf(3.0 * x[1])[0]", "torch.frac(3.0 * x[1])"),
    expression("math.modf(3.0 * x[1])[1] * math.fabs(x[0])", "torch.trunc(3.0 * x[1]) * abs(x[0])"),
    expression("x * math.floor(3.0 * x[1])", "x * torch.floor(3.0 * x[1])"),
    expression("x * math.ceil(3.0 * x[1])", "x * torch.ceil(3.0 * x[1])"),
    expression("x * math.trunc(3.0 * x[1])", "x * torch.trunc(3.0 * x[1])"),
    expression("x * 2.0 if math.isfinite(x[0]) and not math.isnan(x[0]) else x", "2.0 * x"),
    expression("x * 2.0 if math.isclose(x[0], 0.5, abs_tol=0.3) else x**3", other=(0.1, 3.0)),
    expression("x * 2.0 if math.isinf(x[0] * 1e4) else x**3", other=(0.1, np.inf)),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    if "trunc" in expression.text and check == "float32":
        pytest.skip("NumPy's float32 has no __trunc__")
    CHECKS[check](expression)


@native_parts([e for e in TABLE if min(e.other) > 0])
def test_native(part):
    check_native(part)


# --- plain numbers --------------------------------------------------------------------------------

VALUES = [0.0, -0.0, 0.5, -0.5, 1.0, 2, -1, 3.5, True, math.inf, -math.inf, math.nan, 1e308, 5e-324]
FUNCTIONS = [name for name in dir(math) if callable(getattr(math, name)) and name[0] != "_"]


def same(a, b):
    if isinstance(a, tuple):
        return all(map(same, a, b))
    if isinstance(a, str) and "argument" in a:
        return True
    return type(a) is type(b) and repr(a) == repr(b)


def outcome(function, *args):
    """What a call gives, or its error."""
    try:
        return function(*args)
    except (ValueError, OverflowError, TypeError, ZeroDivisionError) as error:
        return type(error), str(error)


def test_every_name_is_there():
    assert {name for name in dir(math) if name[0] != "_"} == {*ours.__all__}
    assert (ours.pi, ours.e, ours.tau, ours.inf) == (math.pi, math.e, math.tau, math.inf)
    assert math.isnan(ours.nan)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_numbers_take_pythons_function(name):
    function, theirs = getattr(ours, name), getattr(math, name)
    assert function.__name__ == name and f"`math.{name}`" in function.__doc__
    assert pickle.loads(pickle.dumps(function)) is function
    cases = [(), ("a",), (None,), ([1.0, 2.0],), ([1.0, 2.0], [3.0, 5.0]), (iter([1, 2]),)]
    cases += [(x,) for x in VALUES] + [(x, y) for x in VALUES for y in (*VALUES, "a")]
    cases += [(np.float64(0.5),), (np.float32(0.5), 2), (7, 3), (np.int64(7), 3), (1, 2, 3)]
    for case in cases:
        again = (iter([1, 2]),) if case and hasattr(case[0], "__next__") else case
        assert same(outcome(function, *case), outcome(theirs, *again)), case
        unrecorded = [tg.tensor(x) if type(x) is float else x for x in case]
        if any(type(x) is float for x in case) and not any(isinstance(x, str) for x in case):
            found, wanted = outcome(function, *unrecorded), outcome(theirs, *case)
            assert same(found, wanted) or (found[0] is wanted[0] is TypeError), case


# --- recorded numbers -----------------------------------------------------------------------------

OF_ONE = [*UNARY, "gamma", "acosh", "cbrt", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite"]
OF_TWO = ["atan2", "copysign", "fmod", "remainder", "pow", "log", "hypot"]


@pytest.mark.parametrize("name", [n for n in [*OF_ONE, *OF_TWO, "modf", "frexp"] if n in FUNCTIONS])
def test_values_and_errors_are_pythons(name):
    theirs, function = getattr(math, name), getattr(ours, name)
    others = [(), *[(y,) for y in VALUES]] if name in OF_TWO else [()]
    for x in [float(v) for v in VALUES] + [171.5, 172.5, 710.0, -0.75, -2.0]:
        for more in others:
            if name in OF_TWO and name != "log" and not more:
                continue
            if name == "pow" and more == (0.5,) and x == -math.inf:
                continue  # NumPy's power is √
            wanted = outcome(theirs, x, *more)
            found = outcome(function, tg.tensor(x, requires_grad=True), *more)
            if name == "lgamma" and abs(x) == 5e-324 or (name, x) == ("lgamma", -math.inf):
                assert found[0] is ValueError and "tapegrad.math.lgamma" in found[1]
                continue
            if isinstance(wanted, tuple) and isinstance(wanted[0], type):
                assert found == wanted, (x, more)
                continue
            for one, other in zip(list_of(found), list_of(wanted), strict=True):
                one, other = float(getattr(one, "item", lambda one=one: one)()), float(other)
                np.testing.assert_allclose(one, other, rtol=4e-15, atol=1e-310)
                if other == other and more != (0.5,):  # NumPy's power takes √−0 = −0
                    assert math.copysign(1, one) == math.copysign(1, other)


def list_of(result):
    return list(result) if isinstance(result, tuple) else [result]


REFUSED = {
    "log": (lambda x: ours.log(x), 2.0, 0.0),
    "log of a base": (lambda x: ours.log(2.0, x), 3.0, 1.0),
    "exp": (lambda x: ours.exp(x), 2.0, 1e3),
    "sqrt": (lambda x: ours.sqrt(x), 2.0, -1.0),
    "sin": (lambda x: ours.sin(x), 2.0, math.inf),
    "pow": (lambda x: ours.pow(x, 0.5), 2.0, -2.0),
    "fmod": (lambda x: ours.fmod(2.0, x), 2.0, 0.0),
    "gamma": (lambda x: ours.gamma(x), 2.0, -1.0),
    "ldexp": (lambda x: ours.ldexp(x, 1020), 0.5, 1e10),
    "fsum": (lambda x: ours.fsum([x, 1e308]), 2.0, 1.7e308),
    "floor": (lambda x: ours.floor(x) * x, 2.5, math.nan),
    "asin": (lambda x: ours.asin(x), 0.5, 1.5),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("native", [False, True])
def test_a_program_refuses_as_python_does(name, native):
    f, good, bad = REFUSED[name]
    c = tg.compile(f, native=native)
    for x in (good, good, 1.1 * good if name != "asin" else 0.4):
        assert c.value_and_grad(x) == pytest.approx(tg.value_and_grad(f)(x))
    wanted = outcome(f, bad)
    assert wanted[0] in (ValueError, OverflowError, ZeroDivisionError)
    for _ in range(2):
        assert outcome(c.value_and_grad, bad) == outcome(c, bad) == wanted
        assert c.value_and_grad(good) == pytest.approx(tg.value_and_grad(f)(good))


def test_a_program_recorded_at_infinity_serves_nothing_else():
    c = tg.compile(lambda x: ours.exp(x) * 0.0 + ours.atan(x))
    with pytest.raises(OverflowError):
        c(1e3)
    c = tg.compile(lambda x: ours.exp(x))
    assert c(math.inf) == math.inf and c(1.0) == pytest.approx(math.e)
    with pytest.raises(OverflowError):
        c(1e3)
    assert c(math.inf) == math.inf


def test_derivatives_where_distances_vanish():
    assert tg.grad(lambda x: ours.dist(x, [1.0, 2.0]))(np.array([1.0, 2.0])).tolist() == [0, 0]
    assert tg.grad(lambda x: ours.hypot(*x))(np.zeros(3)).tolist() == [0, 0, 0]
    assert ours.hypot() == 0.0 and ours.fsum([]) == 0.0 and ours.prod([]) == 1


def test_fsum_is_exact(rng):
    x = rng.normal(size=40) * 10.0 ** rng.integers(-20, 20, size=40)
    found, gradient = tg.value_and_grad(lambda x: ours.fsum(x))(x)
    assert found == math.fsum(x) and gradient.tolist() == [1.0] * 40
    c = tg.compile(lambda x: ours.fsum(x))
    for one in (x, x[::-1].copy(), -x):
        assert c(one) == math.fsum(one)
    with pytest.raises(ValueError, match="-inf"):
        tg.grad(lambda x: ours.fsum([x, math.inf, -math.inf]))(1.0)


def test_what_has_no_derivative_refuses_by_name():
    for name, more in [("ulp", ()), ("nextafter", (2.0,))]:
        with pytest.raises(TypeError, match=f"tapegrad.math.{name}: an argument is recorded"):
            tg.grad(lambda x: getattr(ours, name)(x, *more))(1.0)
    for name, more in [("gcd", (4,)), ("comb", (2,)), ("factorial", ()), ("isqrt", ())]:
        with pytest.raises(TypeError, match=f"tapegrad.math.{name}: takes integers"):
            tg.grad(lambda x: getattr(ours, name)(x, *more) * x)(4.0)
    assert tg.grad(lambda x: ours.comb(5, int(tg.stop_gradient(x))) * x)(2.0) == 10.0
    counts = tg.tensor([4, 6])
    assert ours.gcd(counts[0], counts[1]) == 2 and ours.factorial(counts[0]) == 24


def test_arrays_are_refused_by_name():
    with pytest.raises(TypeError, match=r"tapegrad.math.sin: takes numbers; a tensor of shape \(2"):
        tg.grad(lambda x: ours.sin(x))(np.ones(2))
    assert tg.grad(lambda x: ours.sin(x))(np.array([0.0])) == [1.0]


def test_whole_numbers_are_guards():
    def f(x):
        return ours.floor(x) * x + ours.ceil(x) * x**2 + (3.0 if ours.isclose(x, 2.0) else 0.0)

    c = tg.compile(f)
    for x in (1.5, 1.7, 2.0, 2.0 + 1e-12, 2.2, -0.5, 0.0):
        assert c.value_and_grad(x) == pytest.approx(tg.value_and_grad(f)(x))
        assert c(x) == f(x)
    assert type(tg.vmap(lambda x: ours.floor(x) * x)(np.arange(9.0) / 3)) is np.ndarray


def test_operations_of_users_read_these_functions():
    f = tg.elementwise(lambda x: ours.sin(x) * ours.log(x) + ours.gamma(x))
    wanted = tg.grad(lambda x: math.pi * 0 + np.sin(x) * np.log(x) + tg.gamma(x))(1.3)
    assert tg.grad(f)(1.3) == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["sumprod", "fma"])
def test_functions_of_newer_pythons(name, monkeypatch):
    """Those of 3.12 and 3.13, which this Python may not have."""
    stand_ins = {
        "sumprod": lambda p, q: math.fsum(a * b for a, b in zip(p, q, strict=True)),
        "fma": lambda x, y, z: x * y + z,
    }
    monkeypatch.setattr(math, name, getattr(math, name, stand_ins[name]), raising=False)
    function = getattr(ours._number_functions, f"_{name}")
    if name == "sumprod":
        f = lambda x: function([x[0], 2.0, x[1]], [x[1], 3, x[1]])
        wanted = [3.0, 2.0 + 2 * 3.0]
    else:
        f = lambda x: function(x[0], x[1], 4.0)
        wanted = [3.0, 2.0]
    x = np.array([2.0, 3.0])
    assert tg.grad(f)(x).tolist() == wanted
    c = tg.compile(f)
    for one in (x, 2 * x, -x):
        assert c(one) == f(one) == tg.value_and_grad(f)(one)[0]


def test_functions_of_later_pythons_refuse_recorded_numbers(monkeypatch):
    monkeypatch.setattr(math, "fmax", max, raising=False)
    found = ours._number_functions.others({*ours.__all__})
    assert inspect.isfunction(found["fmax"]) and found["fmax"](1.0, 2.0) == 2.0
    with pytest.raises(TypeError, match="tapegrad.math.fmax: an argument is recorded"):
        found["fmax"](tg.tensor(1.0, requires_grad=True), 2.0)


def test_programs_with_these_functions_are_saved(tmp_path):
    """They are loaded where nobody has imported this module."""
    c = tg.compile(
        lambda x: ours.exp(x) + ours.fsum([x, 1.0]) + ours.frexp(x)[0] + ours.isclose(x, 1e9) * x
    )
    for _ in range(2):
        c.value_and_grad(1.5)
    c.save(tmp_path / "a")
    code = (
        "import sys, tapegrad as tg; f = tg.load(sys.argv[1]); print(*f.value_and_grad(1.75))\n"
        "assert 'tapegrad.math' not in sys.modules\n"
        "try:\n    f(1e4)\nexcept Exception as error:\n    print(type(error).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    value, gradient, error = done.stdout.split()
    assert (float(value), float(gradient)) == pytest.approx(c.value_and_grad(1.75))
    assert error.endswith("Error")
