"""Notes of a row for advice: no array, only its line, its size, and its operands."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..._core.codegen import layout
from ..._core.ops.table import find
from ..._core.tape.tape import name_of_op
from ..._core.tensor import runtime as rt
from ..._core.tensor.row_listeners import Place

#: The value that leaves the other operand unchanged, by operation.
_NEUTRAL = {"multiply": 1.0, "divide": 1.0, "add": 0.0, "subtract": 0.0}


@dataclasses.dataclass
class Note:
    """One row that was recorded.

    `operands` are equal for two rows with the same computation; `function` is the function that the
    user called. `copied` holds two shapes if the row repeats elements that a view could repeat.
    """

    number: int
    op: str
    place: Place
    function: str
    nbytes: int
    scalar: bool
    operands: tuple
    written: int  # the row whose buffer this one writes, −1 if none
    copied: tuple | None
    sweeps: int  # the number of reverse sweeps before

    @property
    def reads(self) -> list[int]:
        """Numbers of the rows that this one reads."""
        return [operand[1] for operand in self.operands if operand[0] == "row"]


class Notes:
    """The rows of a profile, in the order in which they were recorded."""

    def __init__(self):
        self.rows: list[Note] = []
        self.sweeps = 0
        self._writes: dict[int, int] = {}  # row → writes to its buffer so far
        self._begin: dict[int, int] = {}  # row → address of its result

    def add(self, number: int, op: int, out, operands, place: Place, function: str) -> Note:
        name = name_of_op(op)
        written = operands[0]._id if out is None else -1
        note = Note(
            number,
            name,
            place,
            function,
            _bytes(op, out, operands),
            not isinstance(out, np.ndarray) and out is not None,
            tuple(self._operand(out, operand) for operand in operands),
            written,
            _copied(name, out, operands),
            self.sweeps,
        )
        self._writes[number] = 0
        self._begin[number] = _place(out)[0] if isinstance(out, np.ndarray) else 0
        if written >= 0:
            self._writes[written] = self._writes.get(written, 0) + 1
        self.rows.append(note)
        return note

    def _operand(self, out, operand) -> tuple:
        kind: Any = type(operand)
        if kind is rt.Scalar:
            return ("row", operand._id) if operand._id >= 0 else ("constant", operand._value)
        if kind is rt.Array and operand._id >= 0:
            number, (address, *rest) = operand._id, _place(operand._array)
            offset = address - self._begin.get(number, 0)
            return "row", number, self._writes.get(number, 0), offset, *rest
        array = operand._array if kind is rt.Array else operand
        if isinstance(array, np.ndarray):
            if isinstance(out, np.ndarray) and np.may_share_memory(array, out):
                address, *rest = _place(array)
                return "part", address - out.__array_interface__["data"][0], *rest
            return "array", array.shape, array.dtype, hash(array.tobytes())
        return "constant", operand


def _place(array: np.ndarray) -> tuple:
    return array.__array_interface__["data"][0], array.shape, array.strides


def _bytes(op: int, out, operands) -> int:
    """Memory of the row on the tape: itself, its references, its result or what it overwrites."""
    if op <= layout.ARRAY:
        return layout.ROW_BYTES
    own = out if out is not None else operands[1]
    size = own.nbytes if isinstance(own, np.ndarray) else 0
    return layout.ROW_BYTES + layout.REFERENCE_BYTES * (len(operands) + 1) + size


def _copied(name: str, out, operands) -> tuple | None:
    """Shapes before and after, if the row writes elements repeatedly."""
    if not isinstance(out, np.ndarray):
        return None
    tensors = [operand._array for operand in operands if type(operand) is rt.Array]
    if getattr(find(name), "layout", "") == "links":
        distinct = {_place(_unrepeated(array)): _unrepeated(array) for array in tensors}
        if sum(array.size for array in distinct.values()) < sum(a.size for a in tensors):
            first = next(iter(distinct.values()))
            return tuple(n for n, s in zip(first.shape, first.strides, strict=True) if s), out.shape
    if name in _NEUTRAL and len(tensors) == 1 and tensors[0].size < out.size:
        others = [operand for operand in operands if isinstance(operand, np.ndarray)]
        if others and np.all(others[0] == _NEUTRAL[name]):
            return tensors[0].shape, out.shape
    return None


def _unrepeated(array: np.ndarray) -> np.ndarray:
    """The distinct elements of a view."""
    return array[tuple(slice(None) if step else slice(0, 1) for step in array.strides)]
