"""Functions of `math`: their operands, elementary ones, sums, parts and whole numbers."""

from __future__ import annotations

import functools
import inspect
import math
import math as _math
import operator
from collections.abc import Callable

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.numpy_protocols import OF_NUMBERS
from .._core.operations.without_derivative import (
    are_close,
    multiplied_and_added,
    sum_of_floats,
    sum_of_products,
)
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.copies import unlisted
from .._core.tensor.registry import STAND_INS
from .._core.tensor.tensor_classes import Tensor
from .._core.tensor.trace import learned, lost_derivative, steered
from .._core.tensor.values import dtype_of, is_recorded, scalar_of, value_of

# --- operands -------------------------------------------------------------------------------------
# Operands and results of functions of `math`: numbers, recorded or not, and Python's errors.

#: Types that are tested first, since most numbers have them.
PLAIN = frozenset((float, int))


def are_plain(numbers) -> bool:
    """Whether there is no tensor among numbers."""
    for x in numbers:
        if type(x) is not float and isinstance(x, Tensor):
            return False
    return True


def as_number(name: str, x):
    """An operand: a recorded number in double precision, else the float that `math` reads."""
    kind = type(x)
    if kind is float:
        return x
    if kind is rt.Scalar:
        return x if x._id >= 0 else x._value
    if not isinstance(x, Tensor):
        return math.ldexp(x, 0)  # by the rules of `math`, with its errors
    if np.size(value_of(x)) != 1:
        raise TypeError(
            f"tapegrad.math.{name}: takes numbers; a tensor of shape {np.shape(value_of(x))} is "
            "given: use NumPy's function, which works element by element"
        )
    if not is_recorded(x):
        return float(value_of(x).item())
    if np.ndim(value_of(x)):
        x = PUBLIC["reshape"](x, ())
    return scalar_of(x if dtype_of(x) == np.float64 else x.astype(np.float64))


def as_numbers(name: str, operands) -> tuple[list, bool]:
    """Operands as numbers, and whether one is recorded."""
    found = [as_number(name, x) for x in operands]
    return found, any([is_recorded(x) for x in found])


def floats_of(numbers) -> list[float]:
    return [float(value_of(x)) for x in numbers]


def checked(name: str, theirs: Callable, made, operands):
    """A result, if `math` has one there; else its error.

    It refuses nothing whose value is finite, which is cheap to check in a program. Where the value
    is not, a program serves these operands alone.
    """
    value = made._value if type(made) is rt.Scalar else float(value_of(made))
    if math.isfinite(value):
        if rt.trace() is not None:
            learned(steered(np.isfinite, made), f"math.{name}()")
        return rt.as_float(made)
    for x in operands:
        learned(x, f"math.{name}()")
    wanted = theirs(*floats_of(operands))
    if not (wanted == value or (wanted != wanted and value != value)):
        raise ValueError(
            f"tapegrad.math.{name}: with a derivative it gives {value} for {floats_of(operands)}, "
            f"where math.{name} gives {wanted}; give tg.stop_gradient(x), or keep away from the "
            "ends of the range of floats"
        )
    return rt.as_float(made)


#: Summaries of functions whose docstrings in Python do not begin with a sentence.
_SUMMARIES = {
    "erf": "Return the error function at x.",
    "erfc": "Return the complementary error function at x.",
    "fmod": "Return the remainder of x / y, with the sign of x.",
    "gamma": "Return the gamma function at x.",
    "gcd": "Return the greatest common divisor.",
    "hypot": "Return the Euclidean norm of the coordinates.",
    "lcm": "Return the least common multiple.",
    "lgamma": "Return the logarithm of the absolute value of the gamma function at x.",
    "log": "Return the logarithm of x, to base e or to a given base.",
}


_DOCSTRING = """{summary}

Of Python's numbers it is `math.{name}`, and raises what that raises. {recorded}

Parameters
----------
{parameters}
    Numbers, or tensors with one element; iterables of them where Python's function takes these.

Returns
-------
{returns}

See Also
--------
math.{name}
"""
#: The treatment of recorded numbers by a function, and its result.
KEEPS = "A recorded number keeps its derivative.", "number or Tensor"
LEARNS = "A recorded number is read: its value is a guard in programs.", "int or bool"
REFUSES = "It raises TypeError for recorded numbers.", "number"


def _docstring(made, theirs, kind: tuple[str, str]) -> str:
    name, (recorded, returns) = theirs.__name__, kind
    summary = _SUMMARIES.get(name) or (theirs.__doc__ or "").partition("\n")[0]
    parameters = ", ".join(inspect.signature(made).parameters)
    return _DOCSTRING.format(
        summary=summary, name=name, recorded=recorded, parameters=parameters, returns=returns
    )


def standing_for(made, theirs, kind: tuple[str, str] = KEEPS):
    """Register a function for one of Python's; `kind` says how it takes recorded numbers."""
    made.__name__ = made.__qualname__ = theirs.__name__
    made.__module__ = "tapegrad.math"
    made.__doc__ = _docstring(made, theirs, kind)
    STAND_INS[made] = theirs
    return made


# --- elementary -----------------------------------------------------------------------------------
# Functions of one or two numbers that are operations of the table.


def _unary(name: str, ours: str | None = None, refuses: bool = True):
    """A function of one number; `refuses` says that Python's raises for some numbers."""
    theirs = getattr(_math, name)
    return standing_for(_of_one(name, ours or name, refuses), theirs)


def _of_one(name: str, ours: str, refuses: bool = True):
    theirs = getattr(_math, name)

    def function(x, /):
        kind = type(x)  # tested first, since most are
        if kind is float or kind is int:
            return theirs(x)
        if kind is not rt.Scalar or x._id < 0:
            x = as_number(name, x) if isinstance(x, Tensor) else x
            if not isinstance(x, Tensor):
                return theirs(x)
        made = OF_NUMBERS[ours](x)
        if not refuses:
            return made
        if type(made) is rt.Scalar and rt.trace() is None and _math.isfinite(made._value):
            return made
        return checked(name, theirs, made, [x])

    return function


def _binary(name: str, ours: str | Callable, refuses: bool = True):
    """A function of two numbers, as an operation or another function of them."""
    theirs = getattr(_math, name)

    def function(x, y, /):
        if (type(x) in PLAIN or not isinstance(x, Tensor)) and (
            type(y) in PLAIN or not isinstance(y, Tensor)
        ):
            return theirs(x, y)
        pair, recorded = as_numbers(name, (x, y))
        if not recorded:
            return theirs(*pair)
        made = OF_NUMBERS[ours](*pair) if isinstance(ours, str) else ours(*pair)
        return checked(name, theirs, made, pair) if refuses else rt.as_float(made)

    return standing_for(function, theirs)


sin, cos, tan = _unary("sin"), _unary("cos"), _unary("tan")
asin, acos = _unary("asin", "arcsin"), _unary("acos", "arccos")
atan = _unary("atan", "arctan", refuses=False)
sinh, cosh, tanh = _unary("sinh"), _unary("cosh"), _unary("tanh", refuses=False)
asinh = _unary("asinh", "arcsinh", refuses=False)
acosh, atanh = _unary("acosh", "arccosh"), _unary("atanh", "arctanh")
exp, expm1 = _unary("exp"), _unary("expm1")
log1p, log2, log10 = _unary("log1p"), _unary("log2"), _unary("log10")
sqrt = _unary("sqrt")
erf, erfc = _unary("erf", refuses=False), _unary("erfc", refuses=False)
gamma, lgamma = _unary("gamma"), _unary("lgamma", "gammaln")
fabs = _unary("fabs", "absolute", refuses=False)
degrees, radians = _unary("degrees", refuses=False), _unary("radians", refuses=False)
atan2 = _binary("atan2", "arctan2", refuses=False)
copysign = _binary("copysign", "copysign", refuses=False)
fmod = _binary("fmod", "fmod")
pow = _binary("pow", "power")


def _remainder(x, y):
    """The remainder of |x| over |y| as Python computes it, or its distance to |y|."""
    size, step = apply("absolute", x), apply("absolute", y)
    left = apply("fmod", size, step)
    other = apply("subtract", step, left)
    half = apply("fmod", apply("multiply", 0.5, apply("subtract", size, left)), step)
    tied = apply("subtract", left, apply("multiply", 2.0, half))
    above = steered(np.greater, left, other)
    found = apply("where", above, apply("negative", other), tied)
    found = apply("where", steered(np.less, left, other), left, found)
    return apply("multiply", apply("copysign", 1.0, x), found)


remainder = _binary("remainder", _remainder)


_natural = _of_one("log", "log")


def _log(x, /, *base):
    if not base:
        return _math.log(x) if type(x) in PLAIN else _natural(x)
    if len(base) > 1 or not any([isinstance(one, Tensor) for one in (x, *base)]):
        return _math.log(x, *base)
    given, recorded = as_numbers("log", (x, *base))
    if not recorded:
        return _math.log(*given)
    made = OF_NUMBERS["divide"](*map(_natural, given))
    return checked("log", _math.log, made, given)


log = standing_for(_log, _math.log)


#: Functions of Python from 3.11 on.
NEWER_ELEMENTARY = {name: _unary(name) for name in ("cbrt", "exp2") if hasattr(_math, name)}


# --- sums -----------------------------------------------------------------------------------------
# Functions of several numbers: distances, exact sums, products.


def _distance(numbers):
    """√Σx², nested; the derivative at 0 is 0."""
    if len(numbers) == 1:
        return OF_NUMBERS["absolute"](numbers[0])
    return functools.reduce(OF_NUMBERS["hypot"], numbers)


def _hypot(*coordinates):
    for x in coordinates:  # `are_plain`, without a call
        if type(x) is not float and isinstance(x, Tensor):
            break
    else:
        return _math.hypot(*coordinates)
    found, recorded = as_numbers("hypot", coordinates)
    return rt.as_float(_distance(found)) if recorded else _math.hypot(*found)


def _items(numbers):
    """The elements of an iterable, as a list, since they are read twice; arrays unchanged."""
    return numbers if isinstance(numbers, (list, tuple, np.ndarray)) else list(numbers)


def _dist(p, q, /):
    p = p if type(p) is tuple else _items(p)
    q = q if type(q) is tuple else _items(q)
    for x in (*p, *q):
        if type(x) is not float and isinstance(x, Tensor):
            break
    else:
        return _math.dist(p, q)
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    (first, one), (second, other) = as_numbers("dist", p), as_numbers("dist", q)
    if not one and not other:
        return _math.dist(first, second)
    return rt.as_float(_distance([*map(OF_NUMBERS["subtract"], first, second)]))


def _exactly(parts, value):
    """A value with the derivative of the sum of `parts`, whose own value may have rounded."""
    known = steered(np.array, parts)
    nothing = apply("subtract", parts, known)  # 0, and its derivative is 1
    moved = apply("where", steered(np.isfinite, parts), nothing, parts)
    with np.errstate(invalid="ignore"):  # of infinities
        total = PUBLIC["sum"](moved)
    return apply("add", total, value)


def _fsum(seq, /):
    if type(seq) is not list:
        seq = _items(seq)
    for x in seq:
        if type(x) is not float and isinstance(x, Tensor):
            break
    else:
        return _math.fsum(seq)
    numbers, recorded = as_numbers("fsum", seq)
    if not recorded:
        return _math.fsum(numbers)
    parts = unlisted(numbers)
    made = _exactly(parts, steered(sum_of_floats, parts))
    return checked("fsum", lambda *numbers: _math.fsum(numbers), made, numbers)


def _prod(iterable, /, *, start=1):
    items = iterable if type(iterable) is list else _items(iterable)
    if type(start) is int or not isinstance(start, Tensor):
        for x in items:
            if type(x) is not float and isinstance(x, Tensor):
                break
        else:
            return _math.prod(items, start=start)
    return functools.reduce(operator.mul, items, start)


hypot, dist = standing_for(_hypot, _math.hypot), standing_for(_dist, _math.dist)
fsum, prod = standing_for(_fsum, _math.fsum), standing_for(_prod, _math.prod)


def _sumprod(p, q, /):
    p, q = _items(p), _items(q)
    theirs = _math.sumprod
    if are_plain(p) and are_plain(q):
        return theirs(p, q)
    if len(p) != len(q):
        raise ValueError("Inputs are not the same length")
    (first, one), (second, other) = as_numbers("sumprod", p), as_numbers("sumprod", q)
    if not one and not other:
        return theirs(first, second)
    pair = [unlisted(first), unlisted(second)]
    return rt.as_float(_exactly(apply("multiply", *pair), steered(sum_of_products, *pair)))


def _fma(x, y, z, /):
    theirs = _math.fma
    if are_plain((x, y, z)):
        return theirs(x, y, z)
    given, recorded = as_numbers("fma", (x, y, z))
    if not recorded:
        return theirs(*given)
    parts = unlisted([apply("multiply", given[0], given[1]), given[2]])
    made = _exactly(parts, steered(multiplied_and_added, *given))
    return checked("fma", theirs, made, given)


#: Functions of Python from 3.12 and 3.13 on.
NEWER_SUMS = {
    name: standing_for(ours, getattr(_math, name))
    for name, ours in (("sumprod", _sumprod), ("fma", _fma))
    if hasattr(_math, name)
}


# --- whole numbers --------------------------------------------------------------------------------
# Parts of a float, truths, and whole numbers.


def _ldexp(x, i, /):
    if type(x) is float or not isinstance(x, Tensor):
        return _math.ldexp(x, i)
    x, i = as_number("ldexp", x), operator.index(i)
    if type(x) is float:
        return _math.ldexp(x, i)
    made = PUBLIC["ldexp"](x, max(-4000, min(i, 4000)))
    return checked("ldexp", lambda x: _math.ldexp(x, i), made, [x])


def _frexp(x, /):
    if not isinstance(x, Tensor) or type(x := as_number("frexp", x)) is float:
        return _math.frexp(x)
    mantissa, power = PUBLIC["frexp"](x)
    return rt.as_float(mantissa), operator.index(power)


def _modf(x, /):
    if not isinstance(x, Tensor) or type(x := as_number("modf", x)) is float:
        return _math.modf(x)
    return tuple(map(rt.as_float, PUBLIC["modf"](x)))


ldexp, frexp, modf = (
    standing_for(_ldexp, _math.ldexp),
    standing_for(_frexp, _math.frexp),
    standing_for(_modf, _math.modf),
)


def _kept(name: str, found: Callable):
    """A Python integer or truth: a compiled function checks that it stays the same."""
    theirs = getattr(_math, name)

    def function(x, /):
        if type(x) in PLAIN or not isinstance(x, Tensor):
            return theirs(x)
        if type(x := as_number(name, x)) is float:
            return theirs(x)
        learned(found(x), f"math.{name}()")
        return theirs(*floats_of([x]))

    return standing_for(function, theirs, LEARNS)


floor, ceil, trunc = [
    _kept(_name, functools.partial(apply, _name)) for _name in ("floor", "ceil", "trunc")
]
isnan, isinf, isfinite = [
    _kept(_test.__name__, functools.partial(steered, _test))
    for _test in (np.isnan, np.isinf, np.isfinite)
]


def _isclose(a, b, *, rel_tol=1e-09, abs_tol=0.0):
    if type(a) is type(b) is type(rel_tol) is type(abs_tol) is float or are_plain(
        (a, b, rel_tol, abs_tol)
    ):
        return _math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
    given, _ = as_numbers("isclose", (a, b, rel_tol, abs_tol))
    found = steered(are_close, *given)
    learned(found, "math.isclose()")
    return bool(value_of(found))


isclose = standing_for(_isclose, _math.isclose, LEARNS)


def refusing(name: str, why: str):
    """Python's function, which refuses recorded numbers by name."""
    theirs = getattr(_math, name)

    def function(*args, **kwargs):
        if are_plain(args):
            return theirs(*args, **kwargs)
        if any([is_recorded(x) and dtype_of(x).kind == "f" for x in args]):
            raise lost_derivative(f"tapegrad.math.{name}: an argument is recorded, and {why}", args)
        args = [as_number(name, x) if isinstance(x, Tensor) else x for x in args]
        return theirs(*args, **kwargs)

    return standing_for(function, theirs, REFUSES)


_STEP = "a step from float to float has no derivative; give tg.stop_gradient(x)"
nextafter, ulp = refusing("nextafter", _STEP), refusing("ulp", _STEP)


def _of_whole_numbers(name: str):
    """Python's function, which takes tensors of integers as such, and refuses floats by name."""
    theirs = getattr(_math, name)

    def function(*args):
        try:
            return theirs(*args)
        except TypeError:
            if are_plain(args):
                raise
        raise TypeError(
            f"tapegrad.math.{name}: takes integers, which have no derivative; pass int(x)"
        )

    return standing_for(function, theirs, REFUSES)


_NAMES = ("gcd", "lcm", "comb", "perm", "factorial", "isqrt")
gcd, lcm, comb, perm, factorial, isqrt = map(_of_whole_numbers, _NAMES)


def others(known) -> dict:
    """The names of Python's `math` that are not defined here: they refuse recorded numbers."""
    names = {name for name in dir(_math) if not name.startswith("_")} - {*known}
    found = {name: getattr(_math, name) for name in names}
    why = "this Python function has no derivative here; pass tg.stop_gradient(x)"
    return {
        name: refusing(name, why) if callable(one) else one for name, one in sorted(found.items())
    }
