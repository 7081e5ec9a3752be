"""Functions that a scalar function may call, and their meaning in the table.

Functions that the table lacks are written here as scalar functions of those that it has.
"""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._core.operations import PUBLIC
from .._core.ops.table import TABLE, Pointwise
from .._core.tensor.registry import OF_NUMPY, STAND_INS, implementation


class Known(NamedTuple):
    """The meaning of a call: an operation, an operation over all arguments, a body."""

    op: Pointwise | None = None
    fold: str | None = None
    body: Callable | None = None
    pure: bool = False  # whether it may be called with constants
    advice: str = ""


def _log(x, base=None):
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _where(test, x, y):
    return x if test else y


def _clip(x, low, high):
    if low is None:
        return np.minimum(x, high)
    return np.maximum(x, low) if high is None else np.minimum(np.maximum(x, low), high)


def _degrees(x):
    return x * (180.0 / math.pi)


def _radians(x):
    return x * (math.pi / 180.0)


def _isnan(x):
    return x != x


def _isinf(x):
    return np.absolute(x) == math.inf


def _isfinite(x):
    return np.absolute(x) < math.inf


def _and(x, y):
    return x and y


def _or(x, y):
    return x or y


def _not(x):
    return not x


def _itself(x):
    return x


COMPOSITES: dict[Callable, Callable] = {
    math.log: _log,
    np.where: _where,
    np.clip: _clip,
    PUBLIC["where"]: _where,
    PUBLIC["clip"]: _clip,
    **dict.fromkeys((math.degrees, np.degrees, np.rad2deg), _degrees),
    **dict.fromkeys((math.radians, np.radians, np.deg2rad), _radians),
    **dict.fromkeys((math.isnan, np.isnan), _isnan),
    **dict.fromkeys((math.isinf, np.isinf), _isinf),
    **dict.fromkeys((math.isfinite, np.isfinite), _isfinite),
    np.logical_and: _and,
    np.logical_or: _or,
    np.logical_not: _not,
    **dict.fromkeys((float, np.float64, np.positive), _itself),
}
_MATH = {
    math.asin: "arcsin",
    math.acos: "arccos",
    math.atan: "arctan",
    math.atan2: "arctan2",
    math.asinh: "arcsinh",
    math.acosh: "arccosh",
    math.atanh: "arctanh",
    math.fabs: "absolute",
    math.pow: "power",
    math.lgamma: "gammaln",
    abs: "absolute",
    pow: "power",
    round: "rint",
    np.float_power: "power",
    PUBLIC["pow"]: "power",
}
#: Names with another meaning in `math`: its remainder is the one of IEEE 754.
_OTHERS = {"remainder"}
_MATH |= {
    getattr(math, name): name for name in TABLE if hasattr(math, name) and name not in _OTHERS
}
_FOLDS = {min: "minimum", max: "maximum"}
_PURE = frozenset(
    (abs, min, max, round, pow, float, int, bool, len, range, sum, tuple, list, zip, enumerate)
)
_PURE |= {reversed, sorted}


def function_of(function) -> Known:
    """The interpretation of a call of a function."""
    function = _of_numpy(function)
    found = _found(function)
    return found._replace(pure=_is_pure(function), advice=_advice(function))


def _of_numpy(function):
    """NumPy's function where `tapegrad.numpy` has another for it."""
    is_function = isinstance(function, types.FunctionType)
    return STAND_INS.get(function, function) if is_function else function


def _found(function) -> Known:
    declared = getattr(function, "declaration", None)
    if isinstance(declared, Pointwise):
        return Known(op=declared)
    function = getattr(function, "py_func", function)  # one that Numba has compiled
    function = getattr(function, "of_python", function)  # one of tapegrad.math
    try:
        hash(function)
    except TypeError:
        return Known()
    if function in _FOLDS:
        return Known(fold=_FOLDS[function])
    if function in COMPOSITES:
        return Known(body=COMPOSITES[function])
    name = _MATH.get(function) or _name_in_table(function)
    if name is not None:
        return Known(op=TABLE[name])
    own = isinstance(function, types.FunctionType) and _module_of(function)[0] not in _LIBRARIES
    return Known(body=function) if own else Known()


_LIBRARIES = ("tapegrad", "numpy", "scipy", "math")


def _module_of(function) -> list[str]:
    return (getattr(function, "__module__", None) or "").split(".")


def _name_in_table(function) -> str | None:
    """The table's name of a function of NumPy, SciPy or tapegrad."""
    ours = implementation(function)
    if ours is None and (isinstance(function, np.ufunc) or _module_of(function)[0] == "scipy"):
        ours = OF_NUMPY.get(function.__name__)
    if ours is None and _module_of(function)[0] == "tapegrad":
        ours = function
    name = getattr(ours, "__name__", "")
    return name if isinstance(TABLE.get(name), Pointwise) and PUBLIC.get(name) is ours else None


def _is_pure(function) -> bool:
    is_library = isinstance(function, np.ufunc) or _module_of(function)[0] in _LIBRARIES[1:]
    return is_library or any(function is other for other in _PURE)


def _advice(function) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    names = [n for n, op in list(TABLE.items()) if isinstance(op, Pointwise)]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f", for instance {', '.join(near)}" if near else ""
    return (
        f"{name} is not a function of one number that can be read; use those of math or NumPy{hint}"
    )
