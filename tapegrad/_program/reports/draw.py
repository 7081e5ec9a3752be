"""Pictures of programs: steps, what flows between them, fused groups and loops marked."""

from __future__ import annotations

import collections

import numpy as np

from ..._core.ops.table import BY_CODE
from ..._core.tape.svg import BLUE, GREEN, PALE, RED, Box, picture
from ..._core.tensor.trace import name_of
from ..build.executable import Program
from ..files.verify_memory import marked
from ..ir.steps import ARENA, GUARD, Computed, Elementwise, Kernel, Link, Scalars, Step, View
from ..ir.uses import slots_read, views_read, views_written
from ..native.loop_finding import find_loops

#: More kinds of operations of one step are not listed.
_KINDS = 6


def drawing_of_program(program: Program, name: str) -> str:
    """The SVG text."""
    return picture(f"program of {name}: {len(program.code.steps)} steps", boxes_of(program))


def boxes_of(program: Program) -> list[Box]:
    """A box for each input and each step."""
    code = program.code
    owner = np.full(code.slots, -1)
    boxes = []
    for number, one in enumerate(code.inputs):
        if one.view.base == ARENA:
            marked(owner, one.view)[...] = number
        lines = [f"input {number}", f"{one.dtype}{list(one.view.shape)}"]
        boxes.append(Box(lines, [], "input", BLUE if one.differentiated else PALE))
    for step in code.steps:
        reads = _owners(step, owner)
        for view in views_written(step):
            marked(owner, view)[...] = len(boxes)
        boxes.append(_box(program, step, reads))
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
    found = set().union(*[_of_view(view, owner) for view in views_read(step)])
    for slots in slots_read(step):
        outside = slots[slots >= 0]
        found |= set(np.unique(owner[outside]).tolist()) - {-1}
    return sorted(found)


def _box(program: Program, step: Step, reads: list[int]) -> Box:
    kind = type(step).__name__.lower()
    if isinstance(step, Elementwise):
        lines = ["fused" if len(step.ops) > 1 else "element-wise", "×".join(map(str, step.shape))]
        colour = GREEN if len(step.ops) > 1 else "white"
        return Box([*lines, *_counted([code for code, _ in step.ops])], reads, kind, colour)
    if isinstance(step, Scalars):
        loops = [str(loop) for loop in find_loops(step, program.parts.wanted.constant)]
        lines = [f"numbers: {len(step.op)}", *loops[:_KINDS], *_counted(step.op.tolist())]
        return Box(lines, reads, kind, RED if loops else "white")
    if isinstance(step, Link):
        kind = "sum" if any(target.size > step.out.size for target, _ in step.pairs) else "join"
    if isinstance(step, Kernel):
        kind = BY_CODE[step.code].name
    if isinstance(step, Computed):
        kind = name_of(getattr(step.function, "func", step.function)).strip("_")
    return Box([kind, "×".join(map(str, step.out.shape)) or "number"], reads, kind)


def _counted(codes: list[int]) -> list[str]:
    """Names of operations with how often they come, the most frequent first."""
    counts = collections.Counter(codes).most_common()
    names = [(("guard" if op == GUARD else BY_CODE[op].name), count) for op, count in counts]
    lines = [f"{name} × {count}" if count > 1 else name for name, count in names[:_KINDS]]
    return lines + ["…"] * (len(names) > _KINDS)
