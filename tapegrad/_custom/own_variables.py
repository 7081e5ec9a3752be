"""Functions that are called again later: their variables are their own, results compared."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.tensor.pytree import ABSENT, content, own_code


def with_cells(f: types.FunctionType, cells: tuple, made: dict[int, Any], of: Callable) -> Any:
    """A copy of a function with other cells, noted in `made`; new ones hold `of(value)`."""
    copy = types.FunctionType(own_code(f), f.__globals__, f.__name__, f.__defaults__, cells)
    copy.__kwdefaults__, copy.__qualname__ = f.__kwdefaults__, f.__qualname__
    copy.__dict__.update(f.__dict__)
    made[id(f)] = copy
    for cell, given in zip(cells, f.__closure__ or (), strict=True):
        if cell is not given and (value := content(given)) is not ABSENT:
            cell.cell_contents = of(value)
    return copy


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
    if id(one) in made:
        return made[id(one)]
    cells = tuple([types.CellType() for _ in one.__closure__])
    return with_cells(one, cells, made, lambda value: with_own_variables(value, made))


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
