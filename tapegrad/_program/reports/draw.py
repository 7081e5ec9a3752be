"""Pictures of programs: steps, what flows between them, fused groups and loops marked."""

from __future__ import annotations

import numpy as np

from ..._core.tape.svg import BLUE, GREEN, PALE, RED, Box, picture
from ..build.executable import Program
from ..ir.scalars_step import Scalars
from ..ir.steps import ARENA, Step, View
from ..ir.verify_memory import marked
from ..native.loop_finding import find_loops

#: More loops of one step are not listed.
_LOOPS = 6


def drawing_of_program(program: Program, name: str) -> str:
    """The SVG text."""
    return picture(f"program of {name}: {len(program.code.steps)} steps", boxes_of(program))


def boxes_of(program: Program) -> list[Box]:
    """A box for each input, each array from outside, and each step."""
    code = program.code
    owner = np.full(code.slots, -1)
    boxes = []
    for number, one in enumerate(code.inputs):
        if one.view.base == ARENA:
            marked(owner, one.view)[...] = number
        lines = [f"input {number}", f"{one.dtype}{list(one.view.shape)}"]
        boxes.append(Box(lines, [], "input", BLUE if one.differentiated else PALE))
    for array in code.held:
        boxes.append(Box(["from outside", f"{array.dtype}{[*array.shape]}"], [], "input", PALE))
    loops = _loops(program)
    for k, step in enumerate(code.steps):
        reads = _owners(step, owner)
        for view in step.views_written:
            marked(owner, view)[...] = len(boxes)
        boxes.append(_box(step, reads, loops.get(k, [])))
    for output in code.outputs:
        for number in _of_view(output.view, owner):
            boxes[number].is_result = True
    return boxes


def _of_view(view: View, owner: np.ndarray) -> set[int]:
    """The boxes in which the slots of a view were computed."""
    if view.base != ARENA:
        return {view.base - 1}
    return set(np.unique(marked(owner, view)).tolist()) - {-1}


def _owners(step: Step, owner: np.ndarray) -> list[int]:
    found = set().union(*[_of_view(view, owner) for view in step.views_read])
    for slots in step.slots_read:
        outside = slots[slots >= 0]
        found |= set(np.unique(owner[outside]).tolist()) - {-1}
    return sorted(found)


def _box(step: Step, reads: list[int], loops: list[str]) -> Box:
    colour = RED if loops else GREEN if step.is_fused else "white"
    return Box(step.caption(loops[:_LOOPS]), reads, step.label, colour)


def _loops(program: Program) -> dict[int, list[str]]:
    """The loops in operations on numbers, by step."""
    constant = program.parts.wanted.constant
    steps = program.code.of(Scalars).items()
    return {k: list(map(str, find_loops(step, constant))) for k, step in steps}
