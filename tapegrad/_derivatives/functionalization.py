"""A computation recorded again without in-place writes, for derivatives of derivatives.

A recorded derivative reads values that a write may have replaced since, and its contribution to the
adjoint of a buffer comes after the write. So each write becomes a new array: the elements that
remain, and the written ones. Rows that make or read such arrays are appended again; all others stay
as they are.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.operations import PUBLIC
from .._core.tape.row_reader import name_of_row, needed
from .._core.tape.tape import bounds
from .._core.tensor import runtime as rt
from .._core.tensor.copies import link, pack
from .._core.tensor.indexing import of_elements, scatter_add
from .._core.tensor.trace import named, steered
from .._core.tensor.values import is_recorded, is_tensor, value_of
from .past_values import Rewound
from .tape_traversal import placed


def without_writes(outputs, stops) -> list:
    """Recorded tensors of the same values as `outputs`, computed from `stops` without writes."""
    return _again(outputs, Unwritten(stops, refuses=True))


def without_writes_to(inputs, outputs) -> tuple[list, list]:
    """The inputs and outputs computed without writes; a written input is replaced by a new one.

    The new input has the value from before the writes. Derivatives with respect to the old one
    would be zero from now on, so that they must not be requested.
    """
    traversal = Unwritten([tensor._id for tensor in inputs], refuses=False)
    outputs = _again(outputs, traversal)
    return [traversal.input(tensor) for tensor in inputs], outputs


def _again(outputs, traversal: Unwritten) -> list:
    numbers = needed(traversal.reader, [output._id for output in outputs], traversal.stops)
    if not any(traversal.reader.writes(number) for number in numbers):
        return list(outputs)
    for number in numbers:
        traversal.take(number)
    return [traversal.operand(output._id, getattr(output, "_array", None)) for output in outputs]


class Unwritten(Rewound):
    """Rows, oldest to newest, with their replacements."""

    def __init__(self, stops, refuses: bool):
        super().__init__(stops)
        self.refuses = refuses  # inputs that were written
        self.made: dict = {}  # row → its scalar, or its array at the time of the traversal
        self.inputs: dict = {}  # inputs that were written, as they were before

    def operand(self, source: int, what):
        """The replacement of an operand that `read` has found."""
        if source not in self.made:
            return self.tensor(source, what)
        return self._seen(self.made[source], source, what)

    def input(self, tensor):
        """The replacement of an input."""
        if tensor._id not in self.inputs:
            return tensor
        return self._seen(self.inputs[tensor._id], tensor._id, tensor._array)

    def _seen(self, made, source: int, what):
        if what is None:
            return made
        view = placed(made._array, self.base(source), what)
        return rt.view_of(made, view) if is_recorded(made) else view

    def take(self, number: int) -> None:
        """Find or make the replacement of a row."""
        self.now = number
        buffer = self.reader.buffer_written(number)
        if buffer >= 0:
            self.made[buffer] = self._replaced(number, buffer)
            return
        if self.reader.writes(number):
            self._check(number)
        if number in self.stops:
            if self.reader.writes(number):
                self.made[number] = self.inputs[number] = self._input_again(number)
            return
        if self.reader.writes(number) or any(k in self.made for k in self.reader.operands(number)):
            self.made[number] = self._again(number)

    def _check(self, number: int) -> None:
        """Refuse a written buffer that cannot be made once more."""
        is_input = number in self.stops or name_of_row(self.reader, number) == "input"
        if is_input and (self.refuses or number not in self.stops):
            raise NotImplementedError(
                "tapegrad: a derivative of a derivative through an in-place write to an input of "
                "the function is not supported; write to a copy() of it"
            )
        if not self.base(number).flags.c_contiguous:
            raise NotImplementedError(
                "tapegrad: a derivative of a derivative through an in-place write to an array that "
                "is not in C order is not supported; write to a copy() of it"
            )

    def _input_again(self, number: int):
        """An input once more, as it was before all writes."""
        if name_of_row(self.reader, number) == "input":
            return rt.row(layout.LEAF, np.array(self.then(number, self.base(number))))
        return self._again(number)

    def _again(self, number: int):
        """The row again, on the replacements of its operands."""
        row = self.reader.row(number)
        op, base = int(row["op"]), self.base(number)
        read = self.read(number)[:-1] if op != layout.CONSTANT else []
        operands = [_parameter(self.operand(*pair)) for pair in read]
        out: Any = float(self.number(number)) if base is None else np.array(self.then(number, base))
        if base is not None:  # the places in the output that operands go to, or are seen in
            operands = [
                placed(out, base, one) if type(one) is np.ndarray and _lies_in(base, one) else one
                for one in operands
            ]
        if not any(is_tensor(operand) for operand in operands):
            return out if base is None else rt.wrap(out)
        if op == layout.LOAD:
            return rt.load(*operands)
        return rt.row(op if op > layout.ARRAY else op & ~3, out, *operands)

    def _replaced(self, number: int, buffer: int):
        """The array after a write: the remaining elements, and the written ones."""
        (_, view), _, (source, what), *picked = self.read(number)
        if picked and is_tensor(self.operand(*picked[0])):
            return self._replaced_at(number, buffer, self.operand(*picked[0]))
        before, base = self.made[buffer], self.base(buffer)
        made = np.zeros_like(before._array)
        part, key = placed(made, base, view), self.key(number, view)
        part[key] = self.wrote(number)
        value = self.operand(source, what)
        if is_tensor(value):
            made = link(made, [(self._written(number, value, part), part)])
        elif not is_recorded(before):
            written = before._array.copy()
            placed(written, base, view)[key] = self.wrote(number)
            return rt.wrap(written)
        kept = np.ones(base.shape, base.dtype)
        placed(kept, base, view)[key] = 0.0
        return _array(PUBLIC["where"](kept != 0.0, before, made))

    def _replaced_at(self, number: int, buffer: int, positions):
        """The same where a traced program computes the positions: any element may be kept."""
        (_, view), (_, kept), (source, what), *_ = self.read(number)
        before, base = self.made[buffer], self.base(buffer)
        positions = of_elements(positions, kept.shape)
        places = np.arange(base.size, dtype=f"i{base.itemsize}").view(base.dtype)
        places = placed(places, base, view).copy().view(f"i{base.itemsize}")
        at = steered(_places, positions, places=places)
        last = steered(_is_last, at)
        value = self.operand(source, what)
        value = _array(value) if is_tensor(value) else self.wrote(number)
        value = PUBLIC["ravel"](PUBLIC["broadcast_to"](value, np.shape(value_of(positions))))
        written = scatter_add(PUBLIC["where"](last, value, 0.0), at, base.size)
        count = scatter_add(steered(np.multiply, last, 1.0), at, base.size)
        kept = steered(operator.eq, PUBLIC["reshape"](count, base.shape), 0.0)
        return _array(PUBLIC["where"](kept, before, PUBLIC["reshape"](written, base.shape)))

    def _written(self, number: int, value, part):
        """The value of a write, as a tensor of the shape of its view, 0 elsewhere."""
        _, (_, kept), _, *picked = self.read(number)
        value = PUBLIC["broadcast_to"](_array(value), kept.shape if picked else part.shape)
        if value.dtype != part.dtype:
            value = value.astype(part.dtype)
        if not picked:
            return _array(value)
        places = np.ravel(of_elements(np.asarray(picked[0][1]), kept.shape))
        last = len(places) - 1 - np.unique(places[::-1], return_index=True)[1]
        values = PUBLIC["reshape"](value, (-1,))[last]
        return _array(PUBLIC["reshape"](scatter_add(values, places[last], part.size), part.shape))


@named("unwritten.places")
def _places(positions, places):
    """The positions in a buffer of elements of a view of it; the view holds the positions."""
    return places.ravel()[np.ravel(positions).astype(np.int64)].astype(np.int64)


@named("unwritten.is_last")
def _is_last(places):
    """The last occurrence of each of the places, as a mask."""
    last = np.zeros(np.shape(places), bool)
    last[len(last) - 1 - np.unique(places[::-1], return_index=True)[1]] = True
    return last


def _lies_in(base: np.ndarray, array: np.ndarray) -> bool:
    """Whether an array shows a part of a buffer."""
    if not array.size or array.dtype != base.dtype:
        return False
    low, high = bounds(base)
    first, end = bounds(array)
    return low <= first and end <= high


def _array(value):
    """A tensor as one that has an array."""
    return pack(value) if type(value) is rt.Scalar else value


def _parameter(value):
    """An operand as a row takes it."""
    return float(value) if isinstance(value, (float, np.floating)) else value
