"""What the steps of a program read and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .slots import slots_of
from .steps import (
    ARENA,
    Code,
    Computed,
    Elementwise,
    Gather,
    Kernel,
    Link,
    Pack,
    Scalars,
    Scatter,
    Step,
    View,
)


def views_read(step: Step) -> list[View]:
    """The views that a step reads; operations on numbers and packs read slots."""
    return once(step, "_views_read", _READ[type(step)])


def once(step: Step, name: str, find: Callable) -> Any:
    """What is found of a step, which never changes once it is in a program: every pass asks."""
    known = vars(step)
    if name not in known:
        known[name] = find(step)
    return known[name]


def _seen_by_kernel(step: Kernel) -> list[View]:
    return [x for x in step.operands if isinstance(x, View) and not inside(x, step.out)]


_READ: dict[type, Callable] = {
    Scalars: lambda step: [],
    Pack: lambda step: [],
    Elementwise: lambda step: [x for _, given in step.ops for x in given if type(x) is View],
    Link: lambda step: [source for _, source in step.pairs],
    Gather: lambda step: [x for x in (step.source, step.positions) if isinstance(x, View)],
    Scatter: lambda step: [step.before, step.source, step.positions],
    Kernel: _seen_by_kernel,
    Computed: lambda step: [x for x, _ in step.operands if isinstance(x, View)],
}


def views_of(step: Step) -> list[View]:
    """All views of a step, in a fixed order."""
    return once(step, "_views_of", _ALL[type(step)])


_ALL: dict[type, Callable] = {
    Scalars: lambda step: [],
    Pack: lambda step: [step.out],
    Elementwise: lambda step: [*views_read(step), *[v for _, v in (*step.stores, *step.sums)]],
    Link: lambda step: [step.out, *[view for pair in step.pairs for view in pair]],
    Kernel: lambda step: [*[x for x in step.operands if isinstance(x, View)], step.out],
    **dict.fromkeys((Gather, Scatter, Computed), lambda step: [*views_read(step), step.out]),
}


def inside(view: View, whole: View) -> bool:
    """Whether a view sees slots of another in C order only."""
    low, high = view.extent
    return view.base == whole.base and whole.offset <= low and high <= whole.offset + whole.size


def slots_read(step: Step) -> list[np.ndarray]:
    """The single slots that a step reads; −1 stands for none."""
    if isinstance(step, Scalars):
        return [step.a, step.b, step.c]
    return [step.slots] if isinstance(step, Pack) else []


def views_written(step: Step) -> list[View]:
    """The slots that a step writes, in C order."""
    return once(step, "_views_written", _WRITTEN[type(step)])


def _out(step) -> list[View]:
    if step.out.is_contiguous:
        return [step.out]
    return [View(slot, (1,), (1,)) for slot in slots_of(step.out).ravel().tolist()]


def _results(step: Elementwise) -> list[View]:
    return [view for _, view in step.stores] + [_summed(view) for _, view in step.sums]


_WRITTEN: dict[type, Callable] = {
    Scalars: lambda step: [View(step.first, (len(step.op),), (1,))],
    Elementwise: _results,
    **dict.fromkeys((Link, Gather, Scatter, Pack, Kernel, Computed), _out),
}


def mark_reads(step: Step, marks: np.ndarray) -> None:
    """Mark the slots of the arena that a step reads; a view marks all between its ends."""
    for slots in slots_read(step):
        marks[slots[slots >= 0]] = True
    for view in views_read(step):
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


def constants_of(code: Code) -> tuple[np.ndarray, np.ndarray]:
    """By slot: whether it holds a constant, and which."""
    known, values = np.zeros(code.slots, bool), np.zeros(code.slots)
    for slot, given in code.constants:
        known[slot : slot + len(given)] = True
        values[slot : slot + len(given)] = given
    return known, values


def _summed(view: View) -> View:
    """The slots into which a result is summed."""
    low, high = view.extent
    return View(low, (high - low,), (1,))


class Wanted:
    """Whether the adjoints of slots are wanted: not of constants and of data."""

    def __init__(self, code: Code):
        self.constant = np.ones(code.slots, bool)
        differentiated = [one.view for one in code.inputs if one.differentiated]
        self.bases = {view.base for view in differentiated if view.base != ARENA}
        for view in differentiated + [view for step in code.steps for view in views_written(step)]:
            if view.base == ARENA:
                self.constant[view.offset : view.offset + view.size] = False

    def __call__(self, view: View) -> bool:
        if view.base != ARENA:
            return view.base in self.bases
        return not all_in(self.constant, view)
