"""Functions of one or two numbers that are operations of the table."""

from __future__ import annotations

import functools
import math as _math
from collections.abc import Callable

import numpy as np

from .._core.tensor.apply import apply
from .._core.tensor.tensor_classes import Tensor
from .._core.tensor.trace import steered
from ._operands import PLAIN, as_number, as_numbers, checked, standing_for


def _unary(name: str, ours: str | None = None, refuses: bool = True):
    """A function of one number; `refuses` says that Python's raises for some numbers."""
    theirs, ours = getattr(_math, name), ours or name

    def function(x, /):
        kind = type(x)  # tested first, since most are
        if kind is float or kind is int or not isinstance(x, Tensor):
            return theirs(x)
        x = as_number(name, x)
        if type(x) is float:
            return theirs(x)
        made = apply(ours, x)
        return checked(name, theirs, made, [x]) if refuses else made

    return standing_for(function, theirs)


def _binary(name: str, ours: Callable, refuses: bool = True):
    """A function of two numbers."""
    theirs = getattr(_math, name)

    def function(x, y, /):
        if (type(x) in PLAIN or not isinstance(x, Tensor)) and (
            type(y) in PLAIN or not isinstance(y, Tensor)
        ):
            return theirs(x, y)
        pair, recorded = as_numbers(name, (x, y))
        if not recorded:
            return theirs(*pair)
        made = ours(*pair)
        return checked(name, theirs, made, pair) if refuses else made

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
atan2 = _binary("atan2", functools.partial(apply, "arctan2"), refuses=False)
copysign = _binary("copysign", functools.partial(apply, "copysign"), refuses=False)
fmod = _binary("fmod", functools.partial(apply, "fmod"))
pow = _binary("pow", functools.partial(apply, "power"))


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


def _log(x, /, *base):
    if not base and type(x) in PLAIN:
        return _math.log(x)
    if len(base) > 1 or not any([isinstance(one, Tensor) for one in (x, *base)]):
        return _math.log(x, *base)
    given, recorded = as_numbers("log", (x, *base))
    if not recorded:
        return _math.log(*given)
    parts = [_math.log(x) if type(x) is float else _log_of(x) for x in given]
    if not base:
        return parts[0]
    return checked("log", _math.log, apply("divide", *parts), given)


def _log_of(x):
    return checked("log", _math.log, apply("log", x), [x])


log = standing_for(_log, _math.log)


#: Functions of Python from 3.11 on.
NEWER = {name: _unary(name) for name in ("cbrt", "exp2") if hasattr(_math, name)}
