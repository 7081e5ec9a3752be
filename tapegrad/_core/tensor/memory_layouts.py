"""Results with NumPy's memory order, on rows in C order.

A row has its result in C order. If NumPy's result has another order, the row is of the operands and
the result with their axes in the order of memory; the user gets a view of it, transposed back.
"""

from __future__ import annotations

import numpy as np

from ..tape.memory_order import dense, inverse, memory_axes
from . import runtime as rt
from .values import current, is_recorded, value_of


def row_on(op: int, out: np.ndarray, *operands):
    """Append a row whose result `out` may be in any order; its operands name views of `out`.

    `out` must have no gaps.
    """
    axes = memory_axes(out)
    if axes is None:
        return rt.row(op, out, *operands)
    return rt.view_of(rt.row(op, out.transpose(axes), *operands), out)


def transposed(operand, axes):
    """An operand as one of a result whose axes are transposed; numbers stay."""
    array = value_of(operand)
    if not isinstance(array, np.ndarray) or not array.ndim:
        return operand
    seen = array[(None,) * (len(axes) - array.ndim)].transpose(axes)
    return rt.view_of(current(operand), seen) if is_recorded(operand) else seen


def in_order(out: np.ndarray, operands, record):
    """The tensor that `record(out, operands)` gives, called with axes in the order of memory.

    For rows in which every element of the result is of the same element of each operand.
    """
    out = dense(out)
    axes = memory_axes(out)
    if axes is None:
        return record(out, operands)
    made = record(out.transpose(axes), [transposed(operand, axes) for operand in operands])
    return rt.view_of(made, out)


def order_of(values) -> tuple[int, ...] | None:
    """The `memory_axes` of what NumPy's element-wise functions give for values."""
    arrays = [value for value in values if isinstance(value, np.ndarray) and value.ndim]
    if all([array.flags.c_contiguous for array in arrays]):
        return None
    made = np.nditer([*arrays, None], ["zerosize_ok"]).operands[-1]
    return memory_axes(made)


def backwards(array: np.ndarray, axes) -> np.ndarray:
    """An array whose axes were transposed, in its own order."""
    return array.transpose(inverse(axes))
