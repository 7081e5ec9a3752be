"""Large arrays put together of parts: boxes along the axes of a buffer, and the slots they show.

Joins, copies and writes of slices change a few boxes, however many elements these have.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import NamedTuple

from ..ir.slots import CONSTANTS
from ..ir.steps import View

#: The axes of a part of a buffer: by axis of the buffer the first place, and how many steps of
#: which length it goes; by axis of the part that of the buffer, −1 for one of equal elements.
Axes = tuple[int, ...]


class Box(NamedTuple):
    """The elements from `low` to before `high` along each axis, and where their values are."""

    low: Axes
    high: Axes
    source: View

    def inside(self, low: Axes, high: Axes) -> Box:
        """The part of it between other ends."""
        offset, view = self.source.offset, self.source
        for a, b, step in zip(low, self.low, view.strides, strict=True):
            offset += (a - b) * step
        shape = tuple([n - m for n, m in zip(high, low, strict=True)])
        return Box(low, high, View(offset, shape, view.strides, view.base))


def all_of(view: View) -> Box:
    """A view as one box."""
    return Box((0,) * len(view.shape), view.shape, view)


class Part(NamedTuple):
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
def part_of(shape: Axes, offset: int, view: Axes, view_strides: Axes) -> Part | None:
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
    return Part(tuple(start), tuple(axes), tuple(steps), view)


def _within(start: int, step: int, count: int, low: int, high: int) -> tuple[int, int]:
    """Which of the places start, start + step, … are from `low` to before `high`."""
    if step > 0:
        first, last = -(-(low - start) // step), -(-(high - start) // step)
    else:
        first, last = (start - high) // -step + 1, (start - low) // -step + 1
    return max(first, 0), min(last, count)


def seen(boxes: list[Box], part: Part) -> list[Box]:
    """What a part of a buffer shows, as boxes along its own axes."""
    forms = tuple([(low, high, source.strides) for low, high, source in boxes])
    found = []
    for k, low, high, distance, shape, strides in _seen(forms, part):
        source = boxes[k].source
        found.append(Box(low, high, View(source.offset + distance, shape, strides, source.base)))
    return found


@functools.lru_cache(4096)
def _seen(boxes: tuple[tuple[Axes, Axes, Axes], ...], part: Part) -> list[tuple]:
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


def without(boxes: list[Box], low: Axes, high: Axes) -> list[Box]:
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


def placed(boxes: list[Box], part: Part) -> list[Box]:
    """Boxes along the axes of a part that is a box, along those of its buffer."""
    found, axes = [], range(len(part.start))
    if part.axes == tuple(axes):
        return [
            Box(
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
        found.append(Box(first, last, View(source.offset, shape, strides, source.base)))
    return found


@functools.lru_cache(4096)
def ends_of(part: Part) -> tuple[Axes, Axes]:
    """The ends of a part that is a box, along the axes of its buffer."""
    ((low, high, _),) = placed([all_of(View(0, part.shape, (0,) * len(part.shape)))], part)
    return low, high


@functools.lru_cache(4096)
def left_by(shape: Axes, parts: tuple[Part, ...]) -> tuple[Box, ...]:
    """What parts that are boxes leave of a buffer; the boxes show nothing."""
    left = [all_of(View(0, shape, (0,) * len(shape)))]
    for part in parts:
        left = without(left, *ends_of(part))
    return tuple(left)


def whole_of(boxes: list[Box], shape: Axes) -> View | None:
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


def _agree(box: Box, first: int, strides: list[int]) -> bool:
    """Whether a box shows the same slots as a view of the whole with this offset and strides."""
    low, high, source = box
    if source.offset != first + sum(map(operator.mul, low, strides)):
        return False
    axes = zip(low, high, strides, source.strides, strict=True)
    return all([b - a == 1 or step == own for a, b, step, own in axes])


def slot_at(boxes: list[Box], place: Axes) -> int:
    """The slot of an element."""
    for low, high, source in boxes:
        if all([a <= at < b for a, at, b in zip(low, place, high, strict=True)]):
            away = zip(place, low, source.strides, strict=True)
            return source.offset + sum([(at - a) * step for at, a, step in away])
    raise IndexError(place)
