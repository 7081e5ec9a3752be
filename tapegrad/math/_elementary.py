"""Functions of one or two numbers that are operations of the table."""

from __future__ import annotations

import math as _math
from collections.abc import Callable

import numpy as np

from .._core.operations.numpy_protocols import OF_NUMBERS
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.tensor_classes import Tensor
from .._core.tensor.trace import steered
from ._operands import PLAIN, as_number, as_numbers, checked, standing_for


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
NEWER = {name: _unary(name) for name in ("cbrt", "exp2") if hasattr(_math, name)}
