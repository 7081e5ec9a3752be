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

from .._core.ops.table import TABLE, Pointwise
from .._core.tensor.registry import declared_by, theirs


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
    np.logical_and: _and,
    np.logical_or: _or,
    np.logical_not: _not,
    **dict.fromkeys((float, np.float64, np.positive), _itself),
}
_FOLDS = {min: "minimum", max: "maximum"}
_PURE = frozenset(
    (abs, min, max, round, pow, float, int, bool, len, range, sum, tuple, list, zip, enumerate)
)
_PURE |= {reversed, sorted}


def function_of(function) -> Known:
    """The interpretation of a call of a function."""
    function = theirs(getattr(function, "py_func", function))  # one that Numba has compiled
    return _found(function)._replace(pure=_is_pure(function), advice=_advice(function))


def _found(function) -> Known:
    try:
        hash(function)
    except TypeError:
        return Known()
    if function in _FOLDS:
        return Known(fold=_FOLDS[function])
    if function in COMPOSITES:
        return Known(body=COMPOSITES[function])
    if (op := declared_by(function)) is not None:
        return Known(op=op)
    own = isinstance(function, types.FunctionType) and _module_of(function)[0] not in _LIBRARIES
    return Known(body=function) if own else Known()


_LIBRARIES = ("tapegrad", "numpy", "scipy", "math")


def _module_of(function) -> list[str]:
    return (getattr(function, "__module__", None) or "").split(".")


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
