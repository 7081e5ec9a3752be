"""Functions that are called again later: their variables are their own, results compared."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from .._core.tensor.pytree import own_code

#: What a variable holds that has no value yet.
EMPTY = object()


def content(cell: types.CellType) -> Any:
    """The value of a variable of an enclosing function."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def with_own_variables(one, made: dict[int, Any] | None = None) -> Any:
    """Functions, also in tuples and in variables of functions, with copies of their variables.

    A function that is called later, as by a derivative, gives what it gives now: in a loop a
    variable may have another value by then. Other objects are themselves.
    """
    made = {} if made is None else made
    if type(one) is tuple:
        return tuple([with_own_variables(item, made) for item in one])
    if type(one) is not types.FunctionType or not one.__closure__:
        return one
    if id(one) not in made:
        cells = tuple([types.CellType() for _ in one.__closure__])
        space, code = one.__globals__, own_code(one)
        copy = types.FunctionType(code, space, one.__name__, one.__defaults__, cells)
        copy.__kwdefaults__, copy.__qualname__ = one.__kwdefaults__, one.__qualname__
        copy.__dict__.update(one.__dict__)
        made[id(one)] = copy
        for cell, given in zip(cells, one.__closure__, strict=True):
            if (value := content(given)) is not EMPTY:
                cell.cell_contents = with_own_variables(value, made)
    return made[id(one)]


def are_close(now: np.ndarray, then: np.ndarray) -> bool:
    """Whether results of two calls are equal up to rounding.

    That is another one where nothing is recorded.
    """
    if now.shape != then.shape or now.dtype.kind not in "fciub":
        return False
    if then.dtype.kind not in "fc":
        return np.array_equal(now, then)
    tolerance = float(np.finfo(then.dtype).eps) ** 0.6
    finite = np.abs(then[np.isfinite(then)])
    size = float(np.max(finite)) if finite.size else 0.0
    return np.allclose(now, then, rtol=tolerance, atol=tolerance * size, equal_nan=True)
