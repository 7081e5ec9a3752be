"""Parts of a float, truths, and whole numbers."""

from __future__ import annotations

import math as _math
import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.without_derivative import are_close
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.tensor_classes import Tensor
from .._core.tensor.trace import learned, lost_derivative, steered
from .._core.tensor.values import dtype_of, is_recorded, value_of
from ._operands import (
    LEARNS,
    PLAIN,
    REFUSES,
    are_plain,
    as_number,
    as_numbers,
    checked,
    floats_of,
    standing_for,
)


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


def _whole(name: str):
    """A Python integer: a compiled function checks that it stays the same."""
    theirs = getattr(_math, name)

    def function(x, /):
        if type(x) in PLAIN or not isinstance(x, Tensor):
            return theirs(x)
        if type(x := as_number(name, x)) is float:
            return theirs(x)
        learned(apply(name, x), f"math.{name}()")
        return theirs(*floats_of([x]))

    return standing_for(function, theirs, LEARNS)


def _truth(name: str):
    theirs, test = getattr(_math, name), getattr(np, name)

    def function(x, /):
        if type(x) in PLAIN or not isinstance(x, Tensor):
            return theirs(x)
        if type(x := as_number(name, x)) is float:
            return theirs(x)
        learned(steered(test, x), f"math.{name}()")
        return theirs(*floats_of([x]))

    return standing_for(function, theirs, LEARNS)


floor, ceil, trunc = _whole("floor"), _whole("ceil"), _whole("trunc")
isnan, isinf, isfinite = _truth("isnan"), _truth("isinf"), _truth("isfinite")


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
