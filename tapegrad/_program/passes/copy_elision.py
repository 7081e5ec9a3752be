"""Results computed where a join wants them, instead of being copied there."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..ir.rewriting import renumbered
from ..ir.steps import ARENA, Code, Elementwise, Link, Scalars, Step, View
from ..ir.uses import views_read, views_written


def place(code: Code) -> Code:
    """A result that is one whole piece of a join is written to its place there."""
    homes = {view: k for k, step in enumerate(code.steps) for view in _results(step)}
    apart = _taken_apart(code)
    moves: dict[int, tuple[int, int]] = {}  # first slot of a result → its size and new first slot
    steps: list[Step] = []
    for step in code.steps:
        if not isinstance(step, Link) or not is_join(step):
            steps.append(step)
            continue
        left = []
        for target, source in step.pairs:
            free = source in homes and not apart[slice(*source.extent)].any()
            if free and source.offset not in moves and source.size > 1:
                moves[source.offset] = source.size, target.offset
            else:
                left.append((target, source))
        if len(left) == len(step.pairs):
            steps.append(step)
        else:
            steps += _links(left)
    if not moves:
        return code
    return _moved(dataclasses.replace(code, steps=steps), moves)


def _taken_apart(code: Code) -> np.ndarray:
    """By slot: whether a view that is read sees more than one result there, which must not part."""
    owner = np.arange(-code.slots, 0)
    for number, view in enumerate(v for step in code.steps for v in views_written(step)):
        if view.size:
            owner[slice(*view.extent)] = number
    ends = np.zeros(code.slots + 1, np.int64)
    read = [view for step in code.steps for view in views_read(step)]
    for view in [*read, *[output.view for output in code.outputs]]:
        low, high = view.extent
        if view.base == ARENA and low < high and owner[low] != owner[high - 1]:
            ends[low] += 1
            ends[high] -= 1
    return np.cumsum(ends[:-1]) > 0


def _links(pairs: list[tuple[View, View]]) -> list[Step]:
    """What is left of a join; two single elements are a view of two."""
    single = [pair for pair in pairs if pair[0].size == 1]
    if len(single) == 2:
        target, source = (
            View(a.offset, (2,), (b.offset - a.offset,)) for a, b in zip(*single, strict=True)
        )
        pairs = [pair for pair in pairs if pair[0].size != 1] + [(target, source)]
    return [Link(target, [(target, source)]) for target, source in pairs]


def _results(step: Step) -> list[View]:
    """What a step writes, where it may as well be written elsewhere."""
    if isinstance(step, Scalars):
        return []
    if isinstance(step, Elementwise):
        return [view for _, view in step.stores]
    return views_written(step)


def is_join(step: Link) -> bool:
    """Whether pieces, each in C order, lie side by side in the output."""
    if any(not t.is_contiguous or t.base != ARENA or t.shape != s.shape for t, s in step.pairs):
        return False
    at = step.out.offset
    for target in sorted((t for t, _ in step.pairs), key=lambda t: t.offset):
        if target.offset != at:
            return False
        at += target.size
    return at == step.out.offset + step.out.size


def _moved(code: Code, moves: dict[int, tuple[int, int]]) -> Code:
    """The program with results moved; one may have been moved into another that moves too."""
    slots = np.append(np.arange(code.slots), -1)
    for first, (size, new) in reversed(moves.items()):
        slots[first : first + size] = slots[new : new + size]
    return renumbered(code, slots, code.slots)
