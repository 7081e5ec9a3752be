"""What the steps of a program read and write."""

from __future__ import annotations

import bisect

import numpy as np

from ..._core.remembered import remembered
from .slot_ranges import Ranges, mostly_zeros
from .spans import Spans
from .steps import ARENA, Code, Step, View


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
