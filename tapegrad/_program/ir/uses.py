"""What the steps of a program read and write."""

from __future__ import annotations

import numpy as np

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
    single = [slots for step in code.steps for slots in step.slots_read]
    if single:
        marks = np.zeros(code.slots + 1, bool)  # the last one is of no slot, which is −1
        for slots in single:
            marks[slots] = True
        at = np.flatnonzero(marks[:-1])
        found |= np.searchsorted(at, writes.low) < np.searchsorted(at, writes.high)
    return found


def constants_of(code: Code) -> tuple[np.ndarray, np.ndarray]:
    """By slot: whether it holds a constant, and which."""
    known, values = np.zeros(code.slots, bool), np.zeros(code.slots, code.dtype)
    for slot, given in code.constants:
        known[slot : slot + len(given)] = True
        values[slot : slot + len(given)] = given
    return known, values


class Wanted:
    """Whether the adjoints of slots are wanted: not of constants and of data."""

    def __init__(self, code: Code):
        self.constant = np.ones(code.slots, bool)
        differentiated = [one.view for one in code.inputs if one.differentiated]
        self.bases = {view.base for view in differentiated if view.base != ARENA}
        for view in differentiated + [view for step in code.steps for view in step.views_written]:
            if view.base == ARENA:
                self.constant[view.offset : view.offset + view.size] = False

    def __call__(self, view: View) -> bool:
        if view.base != ARENA:
            return view.base in self.bases
        return not all_in(self.constant, view)
