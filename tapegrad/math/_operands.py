"""Operands and results of functions of `math`: numbers, recorded or not, and Python's errors."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.registry import STAND_INS
from .._core.tensor.tensor_classes import Tensor
from .._core.tensor.trace import learned, steered
from .._core.tensor.values import dtype_of, is_recorded, scalar_of, value_of

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
