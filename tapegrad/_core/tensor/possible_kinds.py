"""What a tensor may be where nothing is recorded: an array, a number of NumPy's or of Python's."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..codegen import layout
from ..ops.table import TABLE
from ..tape import store
from . import runtime as rt
from .values import array_of, dtype_of, is_number

_NUMBER = float, np.float64
#: Rows of operators: of one operand of NumPy's the result is NumPy's, too.
_OPERATORS = frozenset([TABLE[name].code for name in ("add", "subtract", "multiply", "divide")])
_NEGATIVE = TABLE["negative"].code
#: The number of rows that are looked at for the kind of one.
_MOST_ROWS = 64


def possible_kinds(tensor) -> tuple[type, ...]:
    """The types that the plain value of a tensor may have: one, or float and np.float64.

    The same row stands for a result of `math.sin` and of `np.sin`. Inputs are what was given;
    elements of arrays, results of functions of arrays, and what operators compute of them are
    NumPy's.
    """
    if type(tensor) is rt.ComplexTensor:
        kind = dtype_of(tensor).type
        is_array = tensor._re is not None and array_of(tensor).ndim > 0
        return (np.ndarray,) if is_array else (complex, kind) if kind is np.complex128 else (kind,)
    if type(tensor) is not rt.Scalar:
        is_array = tensor.ndim > 0 or not is_number(tensor)
        return (np.ndarray,) if is_array else (dtype_of(tensor).type,)
    if tensor._id < 0:
        return (np.float64,)
    return _kinds_of_row(tensor._id)


def _kinds_of_row(number: int) -> tuple[type, ...]:
    todo = [number]
    for one in todo:  # which grows
        if (given := rt.given(one)) is not None:
            if one == number:
                return (given,)
            if issubclass(given, np.float64):
                return (np.float64,)
            continue
        op, a, b = _row(one)
        if op == layout.LOAD or op >= layout.ARRAY:
            return (np.float64,)
        code, kind = (op >> 2) - 1, op & 3
        if code not in (*_OPERATORS, _NEGATIVE) or len(todo) > _MOST_ROWS:
            continue
        todo += [a, b] if kind == layout.ROW_ROW and code != _NEGATIVE else [a]
    return _NUMBER


def _row(number: int) -> tuple[int, int, int]:
    """The operation and the operands of a row of numbers."""
    slot, position = number >> layout.ROWS_BITS, number & (layout.ROWS - 1)
    start = int(store.table[slot]) + layout.HEADER_BYTES + position * layout.ROW_BYTES
    op, a, b = (ctypes.c_int32 * 3).from_address(start)
    return op, a, b


def plain_samples(tensor) -> list[Any]:
    """For each of these types the value of a tensor."""
    return [as_kind(tensor, kind) for kind in possible_kinds(tensor)]


def as_kind(tensor, kind: type) -> Any:
    """The value of a tensor as an array, or as a number of a class."""
    array = array_of(tensor)
    return array if kind is np.ndarray else kind(array[()])
