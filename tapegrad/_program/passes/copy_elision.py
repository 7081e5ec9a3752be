"""Copy elision: results computed at their place in a join, instead of being copied there."""

from __future__ import annotations

import bisect
import dataclasses

import numpy as np

from ..ir.moving_step import Link
from ..ir.rewriting import renumbered
from ..ir.steps import Code, Ranges, Shifts, Spans, Step, View
from ..ir.uses import Written


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
            free = source in movable and not apart.meets(source)
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


def _taken_apart(code: Code) -> Ranges:
    """The slots where a view that is read sees several results, which must stay together."""
    written, outputs = Written(code), Spans([[output.view] for output in code.outputs])
    low, high = np.append(code.reads.low, outputs.low), np.append(code.reads.high, outputs.high)
    begin, end = written.seen(low, high)
    low, high, begin, count = (x[begin < end] for x in (low, high, begin, end - begin))
    apart = (count > 1) | (low < written.first[begin]) | (high > written.last[begin])
    return Ranges(low[apart], high[apart])


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
    starts = sorted(moves)
    ends = [first + moves[first][0] for first in starts]
    shifts = [0] * len(starts)
    for first, (_, new) in reversed(moves.items()):
        k = bisect.bisect_right(starts, new) - 1
        further = shifts[k] if k >= 0 and new < ends[k] else 0
        shifts[bisect.bisect_left(starts, first)] = new - first + further
    return renumbered(code, Shifts.of(starts, ends, shifts), code.slots)
