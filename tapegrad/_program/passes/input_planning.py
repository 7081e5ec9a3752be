"""The arena planned: slots that nothing uses are given up, large inputs stay with the caller."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from ..ir.steps import ARENA, Code, Step, View
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


def put_down(code: Code, roots: Sequence[np.ndarray]) -> Code | None:
    """The program without its last inputs: they are arrays from outside that lie where they are.

    None if one of them had to be copied.
    """
    count = len(code.inputs) - len(roots)
    if any(one.view.base == ARENA for one in code.inputs[count:]):
        return None
    return dataclasses.replace(code, inputs=code.inputs[:count], held=[*roots])


def taken_up(code: Code) -> Code:
    """The program with what arrays from outside hold now as constants."""
    constants, steps, slots = list(code.constants), list(code.steps), code.slots
    for base, array in enumerate(code.held, len(code.inputs) + 1):
        move = functools.partial(_in_arena, base=base, first=slots)
        reads = [any(view.base == base for view in step.views_read) for step in steps]
        steps = [s.mapped(move) if r else s for s, r in zip(steps, reads, strict=True)]
        constants.append((slots, np.array(array, code.dtype).ravel()))
        slots += array.size
    return dataclasses.replace(code, slots=slots, constants=constants, steps=steps, held=())


def _in_arena(view: View, base: int, first: int) -> View:
    """A view of a base that begins at a slot of the arena."""
    return View(view.offset + first, view.shape, view.strides) if view.base == base else view


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
