"""Copy elision: results computed at their place in a join, instead of being copied there."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..ir.link_step import Link
from ..ir.rewriting import renumbered
from ..ir.steps import ARENA, Code, Step, View


def place(code: Code) -> Code:
    """A result that is one whole piece of a join is written to its place there."""
    if not any([step.pieces for step in code.steps]):
        return code
    movable = {view for step in code.steps for view in step.movable}
    apart = _taken_apart(code)
    moves: dict[int, tuple[int, int]] = {}  # first slot of a result → its size and new first slot
    steps: list[Step] = []
    for step in code.steps:
        pieces, left = step.pieces, []
        for target, source in pieces:
            free = source in movable and not apart[slice(*source.extent)].any()
            if free and source.offset not in moves and source.size > 1:
                moves[source.offset] = source.size, target.offset
            else:
                left.append((target, source))
        if len(left) == len(pieces):
            steps.append(step)
        else:
            steps += _links(left)
    if not moves:
        return code
    return _moved(dataclasses.replace(code, steps=steps), moves)


def _taken_apart(code: Code) -> np.ndarray:
    """By slot: whether a view that is read sees several results there, which must stay together."""
    owner = np.arange(-code.slots, 0)
    for number, view in enumerate(v for step in code.steps for v in step.views_written):
        if view.size:
            owner[slice(*view.extent)] = number
    ends = np.zeros(code.slots + 1, np.int64)
    read = [view for step in code.steps for view in step.views_read]
    for view in [*read, *[output.view for output in code.outputs]]:
        low, high = view.extent
        if view.base == ARENA and low < high and owner[low] != owner[high - 1]:
            ends[low] += 1
            ends[high] -= 1
    return np.cumsum(ends[:-1]) > 0


def _links(pairs: list[tuple[View, View]]) -> list[Step]:
    """The rest of a join; two single elements are a view of two."""
    single = [pair for pair in pairs if pair[0].size == 1]
    if len(single) == 2:
        target, source = (
            View(a.offset, (2,), (b.offset - a.offset,)) for a, b in zip(*single, strict=True)
        )
        pairs = [pair for pair in pairs if pair[0].size != 1] + [(target, source)]
    return [Link(target, [(target, source)]) for target, source in pairs]


def _moved(code: Code, moves: dict[int, tuple[int, int]]) -> Code:
    """The program with results moved; one may have been moved into another that moves too."""
    slots = np.append(np.arange(code.slots), -1)
    for first, (size, new) in reversed(moves.items()):
        slots[first : first + size] = slots[new : new + size]
    return renumbered(code, slots, code.slots)
