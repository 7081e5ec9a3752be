"""Few iterations of a loop of a recording, converted as if there were no others.

Constants that differ are inputs meanwhile, so that nothing relies on their values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._core.codegen import layout
from ..._core.tape.memory_order import memory_axes
from ..ir.steps import Code, Input, View, contiguous
from .buffers import Buffer
from .builder import Writer
from .repetition import Loop
from .tape_rows import Reference

#: Numbers of rows from here on stand for constants.
_CONSTANTS = 1 << 30
#: The iterations before those left out that have as many slots as these.
EVEN = 3


class Short(NamedTuple):
    """A loop of which `converted` iterations are in a program.

    The first `before` of them, and those after others that are `left_out`, begin at `slots`. Of
    each `width` slots of constants are from `constants` on, in so many of the last `inputs`;
    `values` are those of all iterations. Other constants are from `end` on.
    """

    before: int
    left_out: int
    converted: int
    slots: list[int]
    constants: int
    width: int
    inputs: int
    values: np.ndarray
    end: int

    @property
    def size(self) -> int:
        """The slots of an iteration."""
        return self.slots[self.before] - self.slots[self.before - 1]


def first_constant(code: Code) -> int:
    """The first slot of the constants, which are behind all others."""
    return min([slot for slot, _ in code.constants], default=code.slots)


class Iterations:
    """What is known of the converted iterations of a loop.

    `slots` are the first slots of each, and the one after the last, `steps` the steps before it.
    The constants of each that differ begin at `first`, and `width` are those of one iteration.
    `inputs` are these constants.
    """

    def __init__(self, loop: Loop, writer: Writer):
        self.loop, self.writer, self.rows = loop, writer, writer.rows
        self.slots: list[int] = []
        self.steps: list[int] = []
        self.inputs: list[Input] = []
        self.first = 0
        self.width = sum([one.size for one in loop.constants.varying])
        self.numbers: dict[int, int] = {}  # by place: the slot of the constant of a number
        self._given: dict[int, dict[int, View]] = {}  # by place: constants, by reference
        self._equal: dict[int, dict[int, np.ndarray]] = {}
        self._next = _CONSTANTS

    def place(self, iteration: int, row: int = 0) -> int:
        """The place of a row of an iteration, or the one after the loop."""
        at = self.loop.start + iteration * self.loop.length + row
        return int(self.loop.places[at]) if at < len(self.loop.places) else self.rows.end

    def begin(self, slot: int, step: int) -> None:
        """Note where an iteration begins."""
        self.slots.append(slot)
        self.steps.append(step)

    @property
    def is_even(self) -> bool:
        """Whether all but the first iterations so far have as many slots, and steps of arrays."""
        begin = self.loop.before - EVEN
        sizes, steps = np.diff(self.slots[begin:]), np.diff(self.steps[begin:])
        return bool((sizes == sizes[:1]).all() and (sizes > 0).all() and (steps > 0).all())

    def allocate(self) -> None:
        """Take slots for the constants that differ."""
        converted, constants = self.loop.converted(), self.loop.constants
        self.first = at = self.writer.numbers.take(len(converted) * self.width)
        for k in converted:
            for one in constants.varying:
                view, place = contiguous(at, one.shape), self.place(k, one.row)
                self.inputs.append(Input(view, self.writer.dtype, False))
                if one.reference < 0:
                    self.numbers[place] = at
                else:
                    self._given.setdefault(place, {})[one.reference] = view
                at += one.size
            for one, array in constants.equal.items():
                self._equal.setdefault(self.place(k, one.row), {})[one.reference] = array

    def short(self, code: Code) -> Short:
        """What is needed to continue the program, as it was converted."""
        loop, dtype = self.loop, self.writer.dtype
        with np.errstate(over="ignore"):  # a number of Python's, which is infinite in float32
            columns = [
                np.array(found, dtype).reshape(loop.count, one.size)
                for one, found in loop.constants.varying.items()
            ]
        return Short(
            loop.before,
            loop.left_out,
            loop.before + loop.after,
            self.slots,
            self.first,
            self.width,
            len(self.inputs),
            np.concatenate([np.zeros((loop.count, 0), dtype), *columns], 1),
            first_constant(code),
        )

    # --- reading ------------------------------------------------------------------------------

    def constant(self, place: int) -> View | None:
        """The slots of the buffer of a row that is a constant, if they are known here."""
        if place in self._equal:
            return self.writer.constant_slots(self._equal[place][0])
        return self._given[place][0] if place in self._given else None

    def replaced(self, place: int, references: list[Reference]) -> list[Reference]:
        """The references of a row, where rows stand for constants that differ."""
        for j, array in self._equal.get(place, {}).items():
            references[j] = references[j]._replace(array=array)
        for j, view in self._given.get(place, {}).items():
            old, self._next = references[j], self._next + 1
            array = old.array if old.is_array else np.zeros(())
            self.writer.buffers.found[self._next] = Buffer(array, view.offset, None, view)
            references[j] = Reference(old.what, self._next, layout.TAG_ARRAY, array)
        return references

    def number_row(self, place: int) -> None:
        """Write an operation on a number and a constant that differs, or the constant."""
        row, constant = self.rows.reader.row(self.rows.number(place)), self.numbers[place]
        op = abs(int(row["op"]))
        if op != layout.NUMBER:
            x = self.writer.slot(int(row["a"]))
            operands = (constant, x) if op & 3 == layout.CONSTANT_ROW else (x, constant)
            constant = self.writer.numbers.one((op >> 2) - 1, *operands)
        self.rows.slots[place] = constant

    def leave_out(self) -> None:
        """Go on with the last iterations: they read what is there as results of those before."""
        rows, found, loop = self.rows, self.writer.buffers.found, self.loop
        first = loop.start + (loop.count - loop.after) * loop.length
        away = loop.left_out * loop.length
        for at in range(first - loop.lag * loop.length, first):
            source, place = int(loop.places[at - away]), int(loop.places[at])
            rows.slots[place], rows.maps[place] = rows.slots[source], rows.maps[source]
            given = found.get(rows.number(source))
            if given is not None:
                array = rows.read(place)[1][-1].array
                axes = memory_axes(array)
                array = array if axes is None else array.transpose(axes)
                made = Buffer(array, given.slot, given.map, given.whole)
                made.boxes, made.alone = given.boxes, given.alone
                found[rows.number(place)] = made
        rows.again(int(loop.places[first]))
