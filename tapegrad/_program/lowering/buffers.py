"""The places of the elements of recorded arrays in a program's arena.

A buffer is contiguous slots, or has a map: the slot of each of its elements; a large one has boxes
while they are few. Copies, joins and in-place writes only change maps and boxes; a view whose slots
have no regular pattern is copied when an operation reads it.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from ..._core.codegen import layout
from ..._core.tape.memory_order import memory_axes, memory_of
from ..ir.blocks import joined
from ..ir.link_step import Link
from ..ir.pack_step import Pack
from ..ir.slots import pattern, slots_of
from ..ir.steps import View, contiguous
from .boxes import Box, Part, all_of, ends_of, part_of, placed, seen, slot_at, whole_of, without
from .numbers_written import Numbers
from .tape_rows import Rows, Unsupported

#: A whole buffer is copied for a view of at least this part of it.
WHOLE = 4
#: Up to this number pieces of contiguous slots, and boxes, are linked; more are packed one by one.
PIECES = 16
#: Buffers of this number of elements have boxes, and maps once one in so many has been used alone.
LARGE = 512


class Buffer:
    """A buffer in C order: its first slot, or its map, or boxes.

    `whole` is the view of the array itself, and `alone` how many elements of boxes were used alone.
    """

    __slots__ = ("alone", "array", "boxes", "map", "slot", "whole")

    def __init__(
        self, array: np.ndarray, slot: int, map: np.ndarray | None, whole: View | None = None
    ):
        self.array, self.slot, self.map, self.whole = array, slot, map, whole
        self.boxes: list[Box] = []
        self.alone = 0

    @property
    def size(self) -> int:
        return self.array.size

    def offset(self, view: np.ndarray) -> int:
        """Number of the first element of a view."""
        return (memory_of(view) - memory_of(self.array)) // self.array.itemsize

    def strides(self, view: np.ndarray) -> tuple[int, ...]:
        size = self.array.itemsize
        return tuple([stride // size for stride in view.strides])

    def part(self, view: np.ndarray) -> Part | None:
        """The part of the boxes for a view."""
        return part_of(self.array.shape, self.offset(view), view.shape, self.strides(view))

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
        elif isinstance(slots, View) and array.size >= LARGE:
            self.add_boxes(number, array, [all_of(contiguous(slots.offset, array.shape))])
        else:
            each = slots_of(slots) if isinstance(slots, View) else slots
            map = np.array(each, np.int64).ravel()
            self.found[number] = Buffer(array, 0, map)
            self.rows.set_map(place, map)

    def add_boxes(self, number: int, array: np.ndarray, boxes: list[Box]) -> None:
        """Set where a new buffer in C order is, of a row, as boxes."""
        self.found[number] = Buffer(array, 0, None)
        self.found[number].boxes = boxes

    def slots(self, number: int, view: np.ndarray) -> np.ndarray:
        """The slots of the elements of a view."""
        buffer = self.found[number]
        if buffer.boxes:
            self._map(number)
        if buffer.map is not None:
            return buffer.map.reshape(view.shape) if view is buffer.array else buffer.mapped(view)
        return slots_of(self.view(number, view))

    def _map(self, number: int) -> None:
        """Let a buffer have a map in place of boxes."""
        buffer = self.found[number]
        map = np.empty(buffer.array.shape, np.int64)
        for low, high, source in buffer.boxes:
            map[tuple(itertools.starmap(slice, zip(low, high, strict=True)))] = slots_of(source)
        buffer.boxes, buffer.map = [], map.ravel()
        self.rows.set_map(self.rows.place(number), buffer.map)

    # --- boxes --------------------------------------------------------------------------------

    def boxes(self, number: int, array: np.ndarray) -> list[Box] | None:
        """What a view of a buffer shows, as boxes; None where it has a map that is no view."""
        buffer = self.found[number]
        if buffer.boxes:
            if array is buffer.array:
                return buffer.boxes
            part = buffer.part(array)
            return None if part is None else seen(buffer.boxes, part)
        if buffer.map is None:
            return [all_of(self.view(number, array))]
        found = pattern(buffer.mapped(array))
        return None if found is None else [all_of(found)]

    def write_boxes(self, number: int, view: np.ndarray, boxes: list[Box]) -> bool:
        """Write boxes to a view of a buffer that has some; whether that is done."""
        buffer = self.found[number]
        part = buffer.part(view) if buffer.boxes else None
        if part is None or not part.is_box():
            return False
        left = without(buffer.boxes, *ends_of(part)) + placed(boxes, part)
        if len(left) <= PIECES:
            buffer.boxes = left
        return len(left) <= PIECES

    def use_cell(self, place: int) -> None:
        """Read or write an element of a buffer that has boxes, as the row at a place does."""
        op, number, element, written = self.rows.cell(place)
        buffer = self.found[number]
        buffer.alone += 1
        at = tuple(map(int, np.unravel_index(element, buffer.array.shape)))
        if buffer.alone * LARGE <= buffer.size and op == layout.LOAD:
            self.rows.slots[place] = slot_at(buffer.boxes, at)
            return
        if buffer.alone * LARGE <= buffer.size and len(buffer.boxes) < PIECES:
            after = tuple([n + 1 for n in at])
            slot = self.rows.slots.item(self.rows.place(written))
            one = View(slot, (1,) * len(at), (0,) * len(at))
            buffer.boxes = [*without(buffer.boxes, at, after), Box(at, after, one)]
            return
        self._map(number)
        self.rows.again(place)

    def _view_of_boxes(self, number: int, array: np.ndarray) -> View:
        """A view of a buffer that has boxes."""
        buffer, boxes = self.found[number], self.boxes(number, array)
        if boxes is None:
            self._map(number)
            return self.view(number, array)
        found = whole_of(boxes, array.shape)
        if found is not None:
            return found
        if buffer.size > WHOLE * array.size:
            return self.linked(boxes, array.shape)
        made = self.linked(buffer.boxes, buffer.array.shape)
        self.add(self.rows.place(number), number, buffer.array, made)
        return made if array is buffer.array else self.view(number, array)

    def linked(self, boxes: list[Box], shape: tuple[int, ...]) -> View:
        """Boxes as a contiguous array."""
        out = self.allocate(shape)
        pairs = [as_short(out, low, source) for low, _, source in boxes]
        pairs.sort(key=lambda pair: pair[0].offset)
        self.steps.append(Link(out, pairs))
        return out

    # --- views --------------------------------------------------------------------------------

    def view(self, number: int, array: np.ndarray) -> View:
        """A view of a buffer as operations read it."""
        buffer = self.found[number]
        if array is buffer.array and buffer.whole is not None:
            return buffer.whole
        if buffer.boxes:
            return self._view_of_boxes(number, array)
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


def as_short(out: View, low: tuple[int, ...], source: View) -> tuple[View, View]:
    """The part of a view that begins at `low`, and what is in it, with as few axes as possible."""
    first = out.offset + sum([n * step for n, step in zip(low, out.strides, strict=True)])
    shape, *steps = shortest(source.shape, out.strides, source.strides)
    return View(first, shape, steps[0]), View(source.offset, shape, steps[1], source.base)


@functools.lru_cache(4096)
def shortest(shape: tuple[int, ...], *strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """A shape and strides with as few axes as possible, at least one."""
    kept, sizes = joined(shape, list(strides))
    return [tuple(sizes) or (1,), *[tuple([s[axis] for axis in kept]) or (1,) for s in strides]]


def base_array(rows: Rows, number: int) -> np.ndarray:
    """The array that owns the buffer of a row: its last reference."""
    return rows.read(rows.place(number))[1][-1].array


def is_output(reference, number: int) -> bool:
    return reference.id == number and reference.is_array
