"""The arena planned: slots that nothing uses are given up, large inputs stay with the caller."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..ir.steps import Code, Step, View
from ..ir.uses import inside

#: Inputs of this number of elements are read in place.
LARGE = 1 << 14


def leave_inputs(code: Code) -> Code:
    """Large inputs become bases of their own, unless a step requires them in the arena.

    That is one that reads single slots, or through one view several inputs, or parts of them.
    """
    if all(one.view.size < LARGE for one in code.inputs):
        return code
    inputs, steps = list(code.inputs), list(code.steps)
    for number, one in enumerate(inputs):
        view, base = one.view, number + 1
        if view.size < LARGE or one.dtype != code.dtype or _is_result(view, code):
            continue
        if not any(_reads_slots(step, view) or _reads_across(step, view) for step in steps):
            steps = [_moved(step, view, base) for step in steps]
            inputs[number] = dataclasses.replace(
                one, view=dataclasses.replace(view, offset=0, base=base)
            )
    return dataclasses.replace(code, inputs=inputs, steps=steps)


def _is_result(view: View, code: Code) -> bool:
    return any(one.view.overlaps(view) for one in code.outputs)


def _reads_slots(step: Step, whole: View) -> bool:
    ends = whole.offset, whole.offset + whole.size
    return any(np.any((slots >= ends[0]) & (slots < ends[1])) for slots in step.slots_read)


def _reads_across(step: Step, whole: View) -> bool:
    """Whether a step reads a view with other ends."""
    return any(view.overlaps(whole) and not inside(view, whole) for view in step.views_read)


def _moved(step: Step, whole: View, base: int) -> Step:
    """A step that reads an input at a base of its own."""

    def move(view: View) -> View:
        if inside(view, whole):
            return dataclasses.replace(view, offset=view.offset - whole.offset, base=base)
        return view

    return step.mapped(move) if any(inside(v, whole) for v in step.views_read) else step
