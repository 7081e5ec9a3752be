"""Forward mode: tangents are computed together with rows, from the oldest to the newest.

Each row's tangent is computed from those of its operands, in several directions at once: a tangent
has the shape of the row's array with an axis of directions before it. `Carried` does it in compiled
code, which stops at rows of arrays for their rules, called with arrays. `Recorded` serves
derivatives of tangents: the rules are called with tensors for every row.

Rows read buffers as they were at their time (see `tape_traversal`); where tangents are recorded,
the rows are recorded again without in-place writes first (see `recorded_reverse`).
"""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.ops.table import Pointwise
from .._core.tape.sweeps import Carrying
from .._core.tape.tape import USED_UP, needed
from .._core.tape.workspace import FreedError
from .._core.tensor import runtime as rt
from .._core.tensor.runtime import silence, silent
from .._core.tensor.values import array_of, is_recorded, value_of
from .declared_tangents import aligned, pointwise_tangent, tangent_of
from .recorded_reverse import without_writes_to
from .rule_namespace import settled
from .tape_traversal import Rewound, Traversal, copied, of_row, seen_as


def _load(traversal, number: int):
    return traversal.tangent(*traversal.read(number)[0])


def _write(traversal, number):
    """The tangent of a written value belongs to its place; that of a constant is zero."""
    (buffer, view), _, (source, seen), *_ = traversal.read(number)
    traversal.begin(buffer)
    place = traversal.tangent(buffer, view)
    tangent = traversal.tangent(source, seen)
    key = (slice(None), *traversal.key(number, view))
    if tangent is not None:
        tangent = aligned(tangent, np.ndim(value_of(place[key])) - 1)
    place[key] = 0.0 if tangent is None else tangent


#: Tangents of rows that read or write buffers in place, and of users' operations, by name.
BY_HAND = {"load": _load, "write": _write, "store": _write, "scatter": _write}


def _tangent(traversal, number: int, name: str, op):
    """The tangent of a row from those of its operands; None where it is zero, or was written."""
    if isinstance(op, Pointwise):
        return pointwise_tangent(traversal, number, op)
    if name in BY_HAND:
        return BY_HAND[name](traversal, number)
    if op.jvp is None and op.vjp is None:
        raise NotImplementedError(
            f"tapegrad: a forward derivative through {name} is not supported yet; use a "
            "reverse one: grad, vjp or jacobian"
        )
    return tangent_of(traversal, number, op)


def _view_of(tensor):
    return tensor._array if type(tensor) is rt.Array else None


class Carried(Rewound):
    """Tangents as plain arrays, in the memory of a compiled traversal."""

    recorded = False

    def __init__(self, stops, carrying: Carrying):
        super().__init__(stops)
        self.carrying = carrying
        self.directions = carrying.directions

    def value(self, number: int, source: int, what):
        """An operand of row `number`, found by `read`, as a plain value."""
        return self.then(source, what)

    def tangent(self, source: int, view=None):
        """The tangent of a row, seen through a view of its buffer; None where it is zero."""
        if source < 0 or not self.carrying.has(source):
            return None
        return self._memory(source, view)

    def _memory(self, number: int, view=None) -> np.ndarray:
        base = self.base(number)
        if base is None:
            return self.carrying.scalar(number)
        return self.carrying.part(number, base if view is None else view)

    def start(self, number: int, seed) -> None:
        """Give a row its tangent, or one that broadcasts to it."""
        memory = self._memory(number)
        # The −0.0 of a scalar row would stand for no tangent.
        np.add(aligned(value_of(seed), memory.ndim - 1), 0.0, out=memory, casting="same_kind")

    def begin(self, buffer: int) -> None:
        """Give a buffer that is written its tangent, zero so far, if it has none."""
        self._memory(buffer)

    def run(self, outputs) -> None:
        """Traverse the tape from the oldest row that `outputs` need to the newest."""
        try:
            with silence():
                self.carrying.run(self.stops, outputs, self._carry)
        except FreedError:
            raise RuntimeError(USED_UP) from None

    def _carry(self, number: int) -> None:
        self.now = number
        tangent = _tangent(self, number, *self.operation(number))
        if tangent is not None:
            self.start(number, tangent)

    def found(self, output) -> np.ndarray:
        """The tangent of a recorded tensor, in memory of its own."""
        tangent = self.tangent(output._id, _view_of(output))
        value = array_of(output)
        shape = (self.directions, *value.shape)
        return np.zeros(shape, value.dtype) if tangent is None else np.array(tangent, order="C")


class Recorded(Traversal):
    """Tangents as tensors, or arrays where they depend on nothing recorded."""

    recorded = True

    def __init__(self, stops, directions: int):
        super().__init__(stops)
        self.directions = directions
        self.tangents: dict = {}

    def tangent(self, source: int, view=None):
        """The tangent of a row, seen through a view of its buffer; None where it is zero."""
        found = self.tangents.get(source)
        if found is None or view is None:
            return found
        base = self.base(source)
        return found if rt.same_place(view, base) else seen_as(found, base, view, self.directions)

    def start(self, number: int, seed) -> None:
        """Give a row its tangent, or one that broadcasts to it."""
        base = self.base(number)
        dtype = np.dtype(np.float64) if base is None else base.dtype
        shape = (self.directions, *(() if base is None else base.shape))
        tangent = seed
        if tangent.shape != shape:
            tangent = PUBLIC["broadcast_to"](aligned(tangent, len(shape) - 1), shape)
        if tangent.dtype != dtype:
            tangent = tangent.astype(dtype)
        contiguous = array_of(tangent).flags.c_contiguous
        self.tangents[number] = tangent if contiguous else copied(tangent)

    def run(self, outputs) -> None:
        """Traverse the tape from the oldest row that `outputs` need to the newest."""
        with silence():
            for number in needed(self.reader, outputs, self.stops):
                if number not in self.stops:
                    self._carry(number)

    def _carry(self, number: int) -> None:
        operation = self.operation(number)  # raises if the row is used up
        if any(source in self.tangents for source in self.reader.operands(number)):
            tangent = _tangent(self, number, *operation)
            if tangent is not None:
                self.start(number, tangent)

    def found(self, output):
        """The tangent of a recorded tensor."""
        tangent = self.tangent(output._id, _view_of(output))
        value = array_of(output)
        shape = (self.directions, *value.shape)
        return np.zeros(shape, value.dtype) if tangent is None else tangent


def _traversed(traversal, outputs, inputs, seeds) -> list:
    for tensor, seed in zip(inputs, seeds, strict=True):
        traversal.start(tensor._id, of_row(seed, traversal.base(tensor._id), tensor))
    traversal.run([output._id for output in outputs])
    return [traversal.found(output) for output in outputs]


def tangents_of(outputs, inputs, seeds, recorded: bool) -> list:
    """Tangents of recorded tensors for those of the inputs, an axis of directions first.

    `seeds` have that axis too. With `recorded`, or where a seed is recorded, tangents are tensors
    that can be differentiated with respect to whatever values and seeds depend on; else arrays.
    """
    with silent():
        return settled(lambda: _tangents(outputs, inputs, seeds, recorded))


def _tangents(outputs, inputs, seeds, recorded: bool) -> list:
    directions = len(value_of(seeds[0])) if seeds else 1
    stops = [tensor._id for tensor in inputs]
    if recorded or any([is_recorded(seed) for seed in seeds]):
        inputs, outputs = without_writes_to(inputs, outputs)  # rows that the traversal must know
        stops = [tensor._id for tensor in inputs]
        return _traversed(Recorded(stops, directions), outputs, inputs, seeds)
    with Carrying(directions) as carrying:
        return _traversed(Carried(stops, carrying), outputs, inputs, seeds)
