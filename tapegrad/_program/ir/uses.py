"""What the steps of a program read and write, whether its memory is legal, what it costs."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ..._core.codegen.layout import DIMENSIONS
from ..._core.ops.table import TABLE
from ..._core.remembered import remembered
from .steps import (
    ARENA,
    NOTHING,
    Code,
    Ranges,
    Spans,
    Step,
    View,
    WorkCounts,
    contiguous,
    in_order,
    mostly_zeros,
)

# --- uses -----------------------------------------------------------------------------------------
# What the steps of a program read and write, and whether its memory is legal.


# --- Views as slots, and slots as views -----------------------------------------------------------


#: The first slot of arrays of constants while a program is read: they lie behind all others.
CONSTANTS = 1 << 30


def slots_of(view: View) -> np.ndarray:
    """The slots of a view, in its shape."""
    if view.is_contiguous:
        return np.arange(view.offset, view.offset + view.size).reshape(view.shape)
    total = np.array(view.offset)
    for n, stride in zip(view.shape, view.strides, strict=True):
        total = total[..., None] + np.arange(n) * stride
    return total


def pattern(slots: np.ndarray) -> View | None:
    """Slots as a view, if they are one."""
    if not slots.size:
        return contiguous(0, slots.shape)
    corner = (0,) * slots.ndim
    first = slots.item(corner)
    strides = [
        slots.item((*corner[:axis], 1, *corner[axis + 1 :])) - first if n > 1 else 0
        for axis, n in enumerate(slots.shape)
    ]
    found = View(first, slots.shape, tuple(strides))
    if slots.size > 1 and not (slots == slots_of(found)).all():
        return None
    low, high = found.extent
    if (low < 0 and any(strides)) or low < CONSTANTS < high:
        return None  # constants: their places are not known yet
    return found


# --- Blocks of the shape of an element-wise step, and the part of each view in a block ------------
# Axes that all views traverse as one are one axis. A block is a number of elements, in C order, of
# the `inner` axes: the last ones that have enough elements for a block. It never crosses the
# `outer` axes before them.


#: Elements that make a block worth its calls: fewer, and it runs along one more axis.
ENOUGH = 128
#: The layout of a view in a block: contiguous; one element for all; otherwise.
LINE, ONE, SCATTERED = range(3)


def joined(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """The remaining axes, and their lengths: each includes the merged ones before it."""
    kept: list[int] = []
    sizes: list[int] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        if kept and all(s[kept[-1]] == n * s[axis] for s in strides):
            kept.pop()
            n *= sizes.pop()
        kept.append(axis)
        sizes.append(n)
    return kept, sizes


@dataclasses.dataclass(frozen=True)
class Cut:
    """`axes` are the remaining ones of the shape (see `joined`), the first of them outer ones."""

    outer: tuple[int, ...]
    inner: tuple[int, ...]
    axes: tuple[int, ...]
    _ways: dict[tuple[int, ...], int] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def groups(self) -> int:
        return math.prod(self.outer)

    @property
    def size(self) -> int:
        """Elements of the inner axes."""
        return math.prod(self.inner)

    def outer_strides(self, view: View) -> tuple[int, ...]:
        return tuple(view.strides[axis] for axis in self.axes[: len(self.outer)])

    def inner_strides(self, view: View) -> tuple[int, ...]:
        return tuple(view.strides[axis] for axis in self.axes[len(self.outer) :])

    def way(self, view: View) -> int:
        """How a view lies in a block: views with the same strides lie alike; rows are scattered."""
        if view.base < 0:
            return SCATTERED
        found = self._ways.get(view.strides)
        if found is None:
            found = self._ways[view.strides] = self._way(view)
        return found

    def _way(self, view: View) -> int:
        strides = self.inner_strides(view)
        if in_order(self.inner, strides):
            return LINE
        return SCATTERED if any(strides) else ONE


def cut(shape: tuple[int, ...], views: Iterable[View]) -> Cut:
    """The cut of a step over a shape that reads and writes these views."""
    axes, sizes = joined(shape, list({view.strides for view in views}))
    before = len(sizes)
    while before > 0 and math.prod(sizes[before:]) < ENOUGH:
        before -= 1
    return Cut(tuple(sizes[:before]), tuple(sizes[before:]), tuple(axes))


def is_injective(view: View) -> bool:
    """Whether each element is known to have a slot of its own."""
    return not view.size or _is_injective(view.shape, view.strides)


@functools.lru_cache(4096)
def _is_injective(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    reach = 0
    axes = zip(strides, shape, strict=True)
    for stride, n in sorted((abs(stride), n) for stride, n in axes if n > 1):
        if stride <= reach:
            return False
        reach += (n - 1) * stride
    return True


def covering(view: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides that reach each slot of a view, with as few axes as possible."""
    axes = [(s, n) for s, n in zip(view.strides, view.shape, strict=True) if n != 1 and s]
    axes.sort(key=lambda axis: -abs(axis[0]))
    strides = tuple(stride for stride, _ in axes)
    kept, sizes = joined(tuple(n for _, n in axes), [strides])
    return tuple(sizes), tuple(strides[axis] for axis in kept)


# --- What the steps of a program read and write ---------------------------------------------------


def inside(view: View, whole: View) -> bool:
    """Whether a view sees slots of another in C order only."""
    low, high = view.extent
    return view.base == whole.base and whole.offset <= low and high <= whole.offset + whole.size


def mark_reads(step: Step, marks: np.ndarray) -> None:
    """Mark the slots of the arena that a step reads; a view marks all between its ends."""
    for slots in step.slots_read:
        marks[slots[slots >= 0]] = True
    for view in dict.fromkeys(step.views_read):
        if view.base == ARENA:
            low, high = view.extent
            marks[low:high] = True


def any_in(marks: np.ndarray, view: View) -> bool:
    """Whether a slot between the ends of a view is marked; most often the first one tells."""
    low, high = view.extent
    return low < high and bool(marks.item(low) or marks[low:high].any())


def all_in(marks: np.ndarray, view: View) -> bool:
    """Whether all slots between the ends of a view are marked."""
    low, high = view.extent
    return low == high or bool(marks.item(low) and marks[low:high].all())


def mark_outputs(code: Code, marks: np.ndarray) -> None:
    """Mark the slots that the results of a program are read from."""
    for output in code.outputs:
        low, high = output.view.extent
        marks[low:high] = True


def views_needed(code: Code) -> np.ndarray:
    """Which of the views that whole steps write any step reads, or that are among the results."""
    writes, reads, outputs = code.writes, code.reads, Spans([[o.view] for o in code.outputs])
    low, high = np.append(reads.low, outputs.low), np.append(reads.high, outputs.high)
    found = writes.overlapped(low, high)
    at = code.single_reads
    return found | (np.searchsorted(at, writes.low) < np.searchsorted(at, writes.high))


def known_slots(code: Code) -> np.ndarray:
    """By slot: whether it holds a constant."""
    known = mostly_zeros(code.slots, bool)
    for slot, given in code.constants:
        known[slot : slot + len(given)] = True
    return known


def constants_of(code: Code) -> tuple[np.ndarray, np.ndarray]:
    """By slot: whether it holds a constant, and which."""
    values = np.zeros(code.slots, code.dtype)
    for slot, given in code.constants:
        values[slot : slot + len(given)] = given
    return known_slots(code), values


class Constants:
    """The constants of a program, found by their slots."""

    def __init__(self, code: Code):
        self.given = sorted([one for one in code.constants if len(one[1])], key=lambda one: one[0])
        self.first = [slot for slot, _ in self.given]
        self.last = [slot + len(values) for slot, values in self.given]

    def among(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of some slots, in order, that hold one; and which."""
        begin, end = (np.searchsorted(slots, edges).tolist() for edges in (self.first, self.last))
        found = [
            (slots[a:b], values[slots[a:b] - slot])
            for (slot, values), a, b in zip(self.given, begin, end, strict=True)
            if a < b
        ]
        if not found:
            return slots[:0], np.zeros(0)
        at, values = zip(*found, strict=True)
        return np.concatenate(at), np.concatenate(values)

    def of(self, view: View) -> np.ndarray | None:
        """Those that a view of one array of them shows; None for another."""
        low, high = view.extent
        k = bisect.bisect_right(self.first, low) - 1
        if view.base != ARENA or k < 0 or high > self.last[k]:
            return None
        return view.moved(-self.first[k]).of(self.given[k][1])


def constants_read(code: Code) -> list[tuple[int, np.ndarray]]:
    """The constants of which any step reads some, or that are among the results."""
    outputs, single = Spans([[one.view] for one in code.outputs]), code.single_reads
    read = Ranges(
        np.concatenate([code.reads.low, outputs.low, single]),
        np.concatenate([code.reads.high, outputs.high, single + 1]),
    )
    first = np.array([slot for slot, _ in code.constants], np.int64)
    last = first + [len(values) for _, values in code.constants]
    return [code.constants[k] for k in np.flatnonzero(read.meet(first, last)).tolist()]


class Written:
    """The views that the steps of a program write, numbered by their slots; none overlap.

    View k has the slots from `first[k]` to before `last[k]`.
    """

    def __init__(self, code: Code):
        numbers = [view for step in code.numbers for view in step.views_written]
        writes, others = code.writes, Spans([numbers])
        low, high = np.append(writes.low, others.low), np.append(writes.high, others.high)
        order = np.flatnonzero(low < high)
        order = order[np.argsort(low[order])]
        self.first, self.last = low[order], high[order]

    def seen(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By span from `low` to before `high`: the first of the views in it, after the last one."""
        begin = np.searchsorted(self.last, low, side="right")
        return begin, np.searchsorted(self.first, high, side="left")

    def of(self, slots: np.ndarray) -> np.ndarray:
        """The view with each slot; −1 for those in none."""
        found = np.searchsorted(self.first, slots, side="right") - 1
        return np.where(np.searchsorted(self.last, slots, side="right") == found, found, -1)


class Wanted:
    """Whether the adjoints of slots are wanted: not of constants and of data."""

    def __init__(self, code: Code):
        self._slots = code.slots
        differentiated = [one.view for one in code.inputs if one.differentiated]
        self.bases = {view.base for view in differentiated if view.base != ARENA}
        numbers = [view for step in code.numbers for view in step.views_written]
        others = Spans([[view for view in differentiated if view.base == ARENA], numbers])
        writes = code.writes
        low, high = np.append(writes.low, others.low), np.append(writes.high, others.high)
        self.varying = Ranges(low, high)

    def __call__(self, view: View) -> bool:
        return view.base in self.bases if view.base != ARENA else self.varying.meets(view)

    def of_slots(self, slots: np.ndarray) -> np.ndarray:
        """The same of single slots."""
        return self.varying.hold(slots)

    @remembered
    def constant(self) -> np.ndarray:
        """By slot: whether its adjoint is not wanted."""
        found = np.ones(self._slots, bool)
        for low, high in self.varying.edges.reshape(-1, 2).tolist():
            found[low:high] = False
        return found


# --- The memory of a program during its check: slots that hold values, and the places of views ----


#: Slots of a program, and elements of a view: BLAS and columns of operands count no further.
MOST = 2**31 - 1
#: Kinds of dtypes of arguments and results.
KINDS = "biuf"


class IllegalProgram(ValueError):
    """Why a program cannot be trusted."""


def expect(holds: bool, what: str) -> None:
    """Raise IllegalProgram if a condition does not hold."""
    if not holds:
        raise IllegalProgram(what)


class Memory:
    """Slots of a program that is traversed in order, first those of constants and inputs.

    Slots that are `ready` can be read, those that are `taken` not be written. Those that are
    `lasting` stay to the end: constants, inputs, and what is read as positions in reverse.
    """

    def __init__(self, code: Code, most: int):
        expect(NOTHING < code.slots <= MOST, f"{code.slots} slots")
        self.most = min(most, MOST)
        self.inputs, self.dtype = code.inputs, code.dtype
        given = enumerate(code.inputs, 1)
        self.bases = {k: one.view.size for k, one in given if one.view.base == k}
        held = enumerate(code.held, len(code.inputs) + 1)
        self.bases |= {k: array.size for k, array in held}
        self.slots = code.slots
        self.ready = np.zeros(code.slots, bool)
        self.taken = np.zeros(code.slots, bool)
        self.taken[NOTHING] = True
        for slot, values in code.constants:
            fits = values.dtype == code.dtype and values.ndim == 1
            expect(fits, f"constants are not of {code.dtype}")
            self.write(contiguous(slot, values.shape))
        for number, one in enumerate(self.inputs):
            self._input(number, one)
        self.lasting = self.taken.copy()

    def _input(self, number: int, one) -> None:
        self.is_shaped(one.view)
        expect(one.view.is_contiguous, f"input {number} is not in C order")
        expect(one.dtype.kind in KINDS, f"input {number} has dtype {one.dtype}")
        if one.view.base == ARENA:
            self.write(one.view)
        else:
            own = one.view.base == number + 1 and one.view.offset == 0
            expect(own and one.dtype == self.dtype, f"input {number} is base {one.view.base}")

    def is_shaped(self, view: View) -> None:
        """Shape and strides are such that no product of them is too large."""
        sizes, strides = view.shape, view.strides
        is_legal = len(sizes) == len(strides) <= DIMENSIONS and min(sizes, default=0) >= 0
        if not is_legal or math.prod([n or 1 for n in sizes]) > self.most:
            raise IllegalProgram(f"a view has shape {sizes}")  # no text is made where all is well
        if max(map(abs, strides), default=0) > MOST:
            raise IllegalProgram(f"a view has strides {strides}")

    def fits(self, view: View) -> None:
        """A view lies in its memory."""
        self.is_shaped(view)
        room = self.slots
        if view.base != ARENA:
            expect(view.base in self.bases, f"there is no base {view.base}")
            room = self.bases[view.base]
        low, high = view.extent
        if not 0 <= low <= high <= room:
            raise IllegalProgram(f"a view of {low} to {high} in {room} slots")

    def read(self, view: View) -> None:
        """A view has values."""
        self.fits(view)
        if view.base == ARENA:
            ready = self.ready[slice(*view.extent)].all() or marked(self.ready, view).all()
            expect(bool(ready), "a slot is read before it is written")

    def write(self, view: View) -> None:
        """Slots in C order get values."""
        self.fits(view)
        expect(view.base == ARENA and view.is_contiguous, "results are not in C order in the arena")
        self._take(view)

    def write_each(self, view: View) -> None:
        """Slots anywhere get values, each slot one."""
        self.fits(view)
        expect(view.base == ARENA and is_injective(view), "two results share a slot")
        self._take(view)

    def write_sums(self, view: View) -> None:
        """Slots get sums along the axes whose strides are 0."""
        axes = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if s or not n]
        shape, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
        self.write_each(View(view.offset, shape, strides, view.base))

    def begin_again(self, view: View) -> None:
        """Slots whose values are not read any more are given to others."""
        self.fits(view)
        expect(view.base == ARENA and view.is_contiguous, "shared slots are not side by side")
        expect(not marked(self.lasting, view).any(), "slots are given up that must last")
        marked(self.taken, view)[...] = False
        marked(self.ready, view)[...] = False

    def _take(self, view: View) -> None:
        expect(not marked(self.taken, view).any(), "a slot is written twice")
        marked(self.taken, view)[...] = True
        marked(self.ready, view)[...] = True

    def last(self, view: View) -> None:
        """A view is read in reverse by code that trusts its values."""
        if view.base == ARENA:
            marked(self.lasting, view)[...] = True

    def lies_in(self, view: View, whole: View) -> None:
        """A view sees slots of a result only."""
        self.fits(view)
        low, high = view.extent
        inside = whole.offset <= low and high <= whole.offset + whole.size
        expect(view.base == whole.base and (inside or not view.size), "a view leaves the result")


def marked(marks: np.ndarray, view: View) -> np.ndarray:
    """Marks of the slots of a view, those of a broadcast axis once."""
    axes = zip(view.shape, view.strides, strict=True)
    sizes = tuple(n if stride else min(n, 1) for n, stride in axes)
    return View(view.offset, sizes, view.strides).of(marks)


def are_below(positions: np.ndarray, count: int) -> None:
    """Positions are in an array."""
    inside = not positions.size or 0 <= positions.min() <= positions.max() < count
    expect(bool(inside), "a position is outside")


# --- cost -----------------------------------------------------------------------------------------
# The size of a program and an estimate of its time; sums written as numbers.


# --- The size of a program, and an estimate of its time -------------------------------------------


class Size(NamedTuple):
    """Steps, operations in them, numbers that they store, slots of the arena."""

    steps: int
    operations: int
    stored: int
    slots: int


def size_of(code: Code) -> Size:
    operations = sum([step.operations for step in code.steps])
    stored = sum([step.stored for step in code.numbers])
    stored += int(code.writes.lengths.sum())
    return Size(len(code.steps), operations, stored, code.slots)


#: Nanoseconds of one of each, and of an evaluation itself, interpreted: values, and values with
#: derivatives. Fitted to 30 functions from 2 µs to 13 ms on one machine; of the evaluations there
#: half are off by less than 8 %, and nine of ten by less than a factor of 1.5.
VALUE_COSTS = WorkCounts(50.0, 4.0, 16.0, 0.2, 1.9, 0.9, 0.05, 2.3, 32e3, 0.2), 2.8e3
GRADIENT_COSTS = WorkCounts(30.0, 11.0, 34.0, 0.5, 2.7, 2.3, 0.15, 3.1, 40e3, 0.2), 6.5e3


def nanoseconds(code: Code, costs: tuple[WorkCounts, float]) -> float:
    """About how long an evaluation takes, interpreted."""
    counts = np.sum([step.work for step in code.steps], axis=0)
    return costs[1] + float(np.dot(costs[0], counts)) if code.steps else costs[1]


# --- Sums written as operations on numbers, for arrays of slots -----------------------------------
# `apply(code, *slots)` writes an operation for each element of arrays of slots of one shape, and
# returns the slots of the results.


_ADD = TABLE["add"].code
Apply = Callable[..., np.ndarray]


def summed(apply: Apply, targets: np.ndarray, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The targets, each once, and the sum of the sources at its places, added in their order."""
    order = np.argsort(targets, kind="stable")
    places, begins = np.unique(targets[order], return_index=True)
    sources, counts = sources[order], np.diff([*begins, len(order)])
    totals = sources[begins]
    for number in range(1, int(counts.max(initial=0))):
        more = counts > number
        totals[more] = apply(_ADD, totals[more], sources[begins[more] + number])
    return places, totals
