"""The places of the elements of recorded arrays in a program's arena."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from typing import NamedTuple

import numpy as np

from ..._core.codegen import layout
from ..._core.tape.sweeps import memory_axes, memory_of
from ..ir.moving_step import Link, Pack
from ..ir.scalars_step import Scalars
from ..ir.steps import Step, View, contiguous
from ..ir.uses import CONSTANTS, joined, pattern, slots_of
from .tape_rows import RowRange, Unsupported

# --------------------------------------------------------------------------------------------------
# Large arrays put together of parts: boxes along the axes of a buffer, and the slots they show.
# Joins, copies and writes of slices change a few boxes, however many elements these have.


#: The axes of a part of a buffer: by axis of the buffer the first place, and how many steps of
#: which length it goes; by axis of the part that of the buffer, −1 for one of equal elements.
Axes = tuple[int, ...]


class IndexBox(NamedTuple):
    """The elements from `low` to before `high` along each axis, and where their values are."""

    low: Axes
    high: Axes
    source: View

    def inside(self, low: Axes, high: Axes) -> IndexBox:
        """The part of it between other ends."""
        offset, view = self.source.offset, self.source
        for a, b, step in zip(low, self.low, view.strides, strict=True):
            offset += (a - b) * step
        shape = tuple([n - m for n, m in zip(high, low, strict=True)])
        return IndexBox(low, high, View(offset, shape, view.strides, view.base))


def all_of(view: View) -> IndexBox:
    """A view as one box."""
    return IndexBox((0,) * len(view.shape), view.shape, view)


class BufferView(NamedTuple):
    """A view of a buffer: by axis of the buffer where it starts, by axis of its own which axis of
    the buffer it follows, −1 for none, and in what steps."""

    start: Axes
    axes: Axes
    steps: Axes
    shape: Axes

    def is_box(self) -> bool:
        """Whether it has each element between its ends once."""
        pairs = zip(self.axes, self.steps, self.shape, strict=True)
        return all([step == 1 if axis >= 0 else n == 1 for axis, step, n in pairs])


@functools.lru_cache(4096)
def part_of(shape: Axes, offset: int, view: Axes, view_strides: Axes) -> BufferView | None:
    """A view of an array in C order as a part; None for one that goes across its axes.

    The view is told by its first element, shape and strides.
    """
    left, strides, start = math.prod(shape), [], []
    for n in shape:
        left //= n
        strides.append(left)
        start.append(offset // left)
        offset %= left
    free, axes, steps = [axis for axis, n in enumerate(shape) if n > 1], [], []
    for n, stride in zip(view, view_strides, strict=True):
        found, step = -1, 0
        if n > 1 and stride:
            for axis in free:
                step, rest = divmod(stride, strides[axis])
                if not rest and 0 <= start[axis] + step * (n - 1) < shape[axis]:
                    found = axis
                    break
            if found < 0:
                return None
            free.remove(found)
        axes.append(found)
        steps.append(step)
    return BufferView(tuple(start), tuple(axes), tuple(steps), view)


def _within(start: int, step: int, count: int, low: int, high: int) -> tuple[int, int]:
    """Which of the places start, start + step, … are from `low` to before `high`."""
    if step > 0:
        first, last = -(-(low - start) // step), -(-(high - start) // step)
    else:
        first, last = (start - high) // -step + 1, (start - low) // -step + 1
    return max(first, 0), min(last, count)


def seen(boxes: list[IndexBox], part: BufferView) -> list[IndexBox]:
    """What a part of a buffer shows, as boxes along its own axes."""
    forms = tuple([(low, high, source.strides) for low, high, source in boxes])
    found = []
    for k, low, high, distance, shape, strides in _seen(forms, part):
        source = boxes[k].source
        found.append(
            IndexBox(low, high, View(source.offset + distance, shape, strides, source.base))
        )
    return found


@functools.lru_cache(4096)
def _seen(boxes: tuple[tuple[Axes, Axes, Axes], ...], part: BufferView) -> list[tuple]:
    """The same of boxes given by their ends and strides.

    Of each that is seen its number, the ends along the axes of the part, how far from its source
    the first element is, shape and strides.
    """
    found = []
    alone = [axis for axis in range(len(part.start)) if axis not in part.axes]
    for k, (low, high, strides) in enumerate(boxes):
        if not all([low[a] <= part.start[a] < high[a] for a in alone]):
            continue
        distance = 0
        for a, (at, begin) in enumerate(zip(part.start, low, strict=True)):
            distance += (at - begin) * strides[a]
        ends, own = [], []
        for axis, step, n in zip(part.axes, part.steps, part.shape, strict=True):
            first, last, stride = 0, n, 0
            if axis >= 0:
                first, last = _within(part.start[axis], step, n, low[axis], high[axis])
                stride = step * strides[axis]
            ends.append((first, last))
            own.append(stride)
            distance += first * stride
        if all([first < last for first, last in ends]):
            shape = tuple([last - first for first, last in ends])
            first_ones, last_ones = tuple([a for a, _ in ends]), tuple([b for _, b in ends])
            found.append((k, first_ones, last_ones, distance, shape, tuple(own)))
    return found


def without(boxes: list[IndexBox], low: Axes, high: Axes) -> list[IndexBox]:
    """Boxes without what is between some ends: what is left of each, around that."""
    left = []
    for box in boxes:
        inner = [*map(max, box.low, low)], [*map(min, box.high, high)]
        if any([a >= b for a, b in zip(*inner, strict=True)]):
            left.append(box)
            continue
        begin, end = [*box.low], [*box.high]
        for axis, (a, b) in enumerate(zip(*inner, strict=True)):
            for first, last in ((begin[axis], a), (b, end[axis])):
                if first < last:
                    one, other = (*begin[:axis], first, *begin[axis + 1 :]), [*end]
                    other[axis] = last
                    left.append(box.inside(one, tuple(other)))
            begin[axis], end[axis] = a, b
    return left


def placed(boxes: list[IndexBox], part: BufferView) -> list[IndexBox]:
    """Boxes along the axes of a part that is a box, along those of its buffer."""
    found, axes = [], range(len(part.start))
    if part.axes == tuple(axes):
        return [
            IndexBox(
                tuple(map(operator.add, part.start, low)),
                tuple(map(operator.add, part.start, high)),
                source,
            )
            for low, high, source in boxes
        ]
    own = [part.axes.index(axis) if axis in part.axes else -1 for axis in axes]
    for low, high, source in boxes:
        first = tuple([part.start[a] + (low[k] if k >= 0 else 0) for a, k in enumerate(own)])
        last = tuple([part.start[a] + (high[k] if k >= 0 else 1) for a, k in enumerate(own)])
        shape = tuple([b - a for a, b in zip(first, last, strict=True)])
        strides = tuple([source.strides[k] if k >= 0 else 0 for k in own])
        found.append(IndexBox(first, last, View(source.offset, shape, strides, source.base)))
    return found


@functools.lru_cache(4096)
def ends_of(part: BufferView) -> tuple[Axes, Axes]:
    """The ends of a part that is a box, along the axes of its buffer."""
    ((low, high, _),) = placed([all_of(View(0, part.shape, (0,) * len(part.shape)))], part)
    return low, high


@functools.lru_cache(4096)
def left_by(shape: Axes, parts: tuple[BufferView, ...]) -> tuple[IndexBox, ...]:
    """What parts that are boxes leave of a buffer; the boxes show nothing."""
    left = [all_of(View(0, shape, (0,) * len(shape)))]
    for part in parts:
        left = without(left, *ends_of(part))
    return tuple(left)


def whole_of(boxes: list[IndexBox], shape: Axes) -> View | None:
    """What boxes that cover a shape show as one view; None if that is not regular."""
    first = slot_at(boxes, (0,) * len(shape))
    strides = []
    for axis, n in enumerate(shape):
        ahead = tuple([int(a == axis) for a in range(len(shape))])
        strides.append(slot_at(boxes, ahead) - first if n > 1 else 0)
    if not all([_agree(box, first, strides) for box in boxes]):
        return None
    found = View(first, shape, tuple(strides))
    low, high = found.extent
    if any(strides) and (low < 0 or low < CONSTANTS < high):
        return None  # constants: their places are not known yet
    return found


def _agree(box: IndexBox, first: int, strides: list[int]) -> bool:
    """Whether a box shows the same slots as a view of the whole with this offset and strides."""
    low, high, source = box
    if source.offset != first + sum(map(operator.mul, low, strides)):
        return False
    axes = zip(low, high, strides, source.strides, strict=True)
    return all([b - a == 1 or step == own for a, b, step, own in axes])


def slot_at(boxes: list[IndexBox], place: Axes) -> int:
    """The slot of an element."""
    for low, high, source in boxes:
        if all([a <= at < b for a, at, b in zip(low, place, high, strict=True)]):
            away = zip(place, low, source.strides, strict=True)
            return source.offset + sum([(at - a) * step for at, a, step in away])
    raise IndexError(place)


# --- Operations on numbers as they are written, one step for those that follow each other ---------


class Numbers:
    """Appends to `steps` what is written here, and what compiled code writes of rows of numbers."""

    def __init__(self, rows: RowRange, steps: list[Step]):
        self.rows, self.steps = rows, steps
        self.begun = rows.counts()  # operation and slot with which the step begins

    def take(self, slots: int) -> int:
        """Take slots for anything else, which ends the step; returns the first."""
        count, first = self.rows.take(slots)
        if count > self.begun[0]:
            self.flush()
        self.begun = (count, first + slots)
        return first

    def flush(self) -> None:
        """End the step."""
        begun, first = self.begun
        count, slot = self.rows.counts()
        if count > begun:
            columns = (self.rows.op, self.rows.a, self.rows.b, self.rows.c)
            op, a, b, c = (column[begun:count] for column in columns)
            none = bool((c == -1).all())
            self.steps.append(Scalars(first, op, a, b, c[:0] if none else c))
        self.begun = (count, slot)

    def one(self, op: int, *slots: int) -> int:
        """Write an operation on numbers; returns the slot of its result."""
        return self.column(op, 1, slots)

    def each(self, op: int, *slots: np.ndarray) -> np.ndarray:
        """The same for each element of arrays of slots of one shape."""
        shape, count = slots[0].shape, slots[0].size
        first = self.column(op, count, [x.ravel() for x in slots])
        return np.arange(first, first + count, dtype=np.int64).reshape(shape)

    def column(self, op: int, count: int, operands) -> int:
        """Write an operation `count` times; each of the operands is one slot, or as many.

        Returns the slot of the first result.
        """
        return self.rows.emit(op, count, *(*operands, -1, -1)[:3])


# --- The places of the elements of recorded arrays in a program's arena ---------------------------
# A buffer is contiguous slots, or has a map: the slot of each of its elements; a large one has
# boxes while they are few. Copies, joins and in-place writes only change maps and boxes; a view
# whose slots have no regular pattern is copied when an operation reads it.


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
        self.boxes: list[IndexBox] = []
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

    def part(self, view: np.ndarray) -> BufferView | None:
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

    def add_boxes(self, number: int, array: np.ndarray, boxes: list[IndexBox]) -> None:
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

    def boxes(self, number: int, array: np.ndarray) -> list[IndexBox] | None:
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

    def write_boxes(self, number: int, view: np.ndarray, boxes: list[IndexBox]) -> bool:
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
            buffer.boxes = [*without(buffer.boxes, at, after), IndexBox(at, after, one)]
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

    def linked(self, boxes: list[IndexBox], shape: tuple[int, ...]) -> View:
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


def base_array(rows: RowRange, number: int) -> np.ndarray:
    """The array that owns the buffer of a row: its last reference."""
    return rows.read(rows.place(number))[1][-1].array


def is_output(reference, number: int) -> bool:
    return reference.id == number and reference.is_array
