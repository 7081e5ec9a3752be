"""The places of the elements of recorded arrays in a program's arena.

A buffer is contiguous slots, or has a map: the slot of each of its elements. Copies, joins and
in-place writes only change maps; a view whose slots have no regular pattern is copied when an
operation reads it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from ..._core.tape.memory_order import memory_axes, memory_of
from ..ir.link_step import Link
from ..ir.pack_step import Pack
from ..ir.slots import pattern, slots_of
from ..ir.steps import View, contiguous
from .numbers_written import Numbers
from .tape_rows import Rows, Unsupported

#: A whole buffer is copied for a view of at least this part of it.
WHOLE = 4
#: Up to this number pieces of contiguous slots are linked; more are packed slot by slot.
PIECES = 16


class Buffer:
    """A buffer in C order: its first slot, or its map. `whole` is the view of the array itself."""

    __slots__ = ("array", "map", "slot", "whole")

    def __init__(
        self, array: np.ndarray, slot: int, map: np.ndarray | None, whole: View | None = None
    ):
        self.array, self.slot, self.map, self.whole = array, slot, map, whole

    @property
    def size(self) -> int:
        return self.array.size

    def offset(self, view: np.ndarray) -> int:
        """Number of the first element of a view."""
        return (memory_of(view) - memory_of(self.array)) // self.array.itemsize

    def strides(self, view: np.ndarray) -> tuple[int, ...]:
        size = self.array.itemsize
        return tuple([stride // size for stride in view.strides])

    def mapped(self, view: np.ndarray) -> np.ndarray:
        """The part of the map for a view."""
        assert self.map is not None
        if not view.size:
            return np.empty(view.shape, np.int64)
        item = self.map.itemsize
        steps = [item * stride for stride in self.strides(view)]
        return np.ndarray(view.shape, np.int64, self.map, item * self.offset(view), steps)


class Buffers:
    """The buffers of a recording, by row; a step of `numbers` ends whenever slots are taken."""

    def __init__(self, numbers: Numbers):
        self.numbers, self.rows, self.steps = numbers, numbers.rows, numbers.steps
        self.found: dict[int, Buffer] = {}

    def allocate(self, shape: tuple[int, ...]) -> View:
        """New slots for an array in C order."""
        return contiguous(self.numbers.take(math.prod(shape)), shape)

    def add(self, place: int, number: int, array: np.ndarray, slots: View | np.ndarray) -> None:
        """Set where a new buffer is, of a row: a view in C order, or the slots of its elements.

        A buffer in another memory order has a map, which is in the order of memory.
        """
        axes = memory_axes(array)
        if axes is not None:
            found = slots if isinstance(slots, np.ndarray) else slots_of(slots)
            array, slots = array.transpose(axes), found.reshape(array.shape).transpose(axes)
            if not array.flags.c_contiguous:
                raise Unsupported("an array with gaps between its elements")
        if isinstance(slots, View) and not self.rows.is_written(place):
            whole = slots if slots.shape == array.shape else None
            self.found[number] = Buffer(array, slots.offset, None, whole)
            self.rows.slots[place] = slots.offset
        else:
            each = slots_of(slots) if isinstance(slots, View) else slots
            map = np.array(each, np.int64).ravel()
            self.found[number] = Buffer(array, 0, map)
            self.rows.set_map(place, map)

    def slots(self, number: int, view: np.ndarray) -> np.ndarray:
        """The slots of the elements of a view."""
        buffer = self.found[number]
        if buffer.map is not None:
            return buffer.map.reshape(view.shape) if view is buffer.array else buffer.mapped(view)
        return slots_of(self.view(number, view))

    def view(self, number: int, array: np.ndarray) -> View:
        """A view of a buffer as operations read it."""
        buffer = self.found[number]
        if array is buffer.array and buffer.whole is not None:
            return buffer.whole
        if buffer.map is None:
            return View(buffer.slot + buffer.offset(array), array.shape, buffer.strides(array))
        slots = buffer.mapped(array)
        found = pattern(slots)
        if found is not None:
            return found
        if buffer.size > WHOLE * array.size:
            return self.together(slots)
        buffer.map[:] = self.together(buffer.map).offset + np.arange(buffer.size)
        found = pattern(buffer.mapped(array))
        assert found is not None
        return found

    def together(self, slots: np.ndarray) -> View:
        """Elements from anywhere as a contiguous array."""
        out, flat = self.allocate(slots.shape), slots.ravel()
        # Constants are negative here, in the order of their entry: their places are not known yet.
        cuts = np.flatnonzero((np.diff(flat) != 1) | (flat[:-1] < 0)) + 1
        if len(cuts) >= PIECES:
            self.steps.append(Pack(out, flat.astype(np.int32)))
            return out
        ends = [0, *cuts.tolist(), flat.size]
        pairs = [
            (
                View(out.offset + start, (end - start,), (1,)),
                View(int(flat[start]), (end - start,), (1,)),
            )
            for start, end in itertools.pairwise(ends)
        ]
        self.steps.append(Link(out, pairs))
        return out


def base_array(rows: Rows, number: int) -> np.ndarray:
    """The array that owns the buffer of a row: its last reference."""
    return rows.read(rows.place(number))[1][-1].array


def is_output(reference, number: int) -> bool:
    return reference.id == number and reference.is_array
