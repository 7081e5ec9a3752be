"""Rows picked, and rows added to, by the element-wise steps that read or compute them.

A gather that one element-wise step alone reads, all of it and in order, need not be an array: the
step takes the rows block by block, and adds their adjoints where they are from. Likewise it adds
results to rows itself which a scatter-add would read.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..._core.ops.table import TABLE
from ..ir.gather_step import Gather
from ..ir.kernel_step import Kernel
from ..ir.rowwise_step import Picked, Rowwise
from ..ir.steps import ARENA, Code, Step, View, Visitor, contiguous
from ..ir.uses import mark_outputs

#: Fewer elements are not worth it: they may become operations on numbers.
LEAST = 256
#: The most arrays of rows of one step: its blocks are to stay in cache.
MOST = 16
_SCATTER_ADD = TABLE["scatter_add"].code


class Readers:
    """Which steps read the slots of an array."""

    def __init__(self, code: Code):
        self.code = code
        self.outputs = np.zeros(code.slots, bool)
        mark_outputs(code, self.outputs)
        self.steps = np.full(code.slots + 1, -1, np.int64)  # −2 for several
        for number, step in enumerate(code.steps):
            for slots in step.slots_read:
                self._read(number, np.asarray(slots))
            for view in step.views_read:
                if view.base == ARENA:
                    self._read(number, slice(*view.extent))

    def _read(self, number: int, slots: Any) -> None:
        seen = self.steps[slots]
        self.steps[slots] = np.where((seen == -1) | (seen == number), number, -2)

    def only(self, view: View) -> int:
        """The one step that reads an array, −1 if there is none, or several."""
        low, high = view.extent
        if low == high or self.outputs[low:high].any():
            return -1
        found = self.steps[low:high]
        return int(found[0]) if found[0] >= 0 and (found == found[0]).all() else -1


class _Reading(Visitor):
    """Gives an element-wise step that reads rows itself, in place of a gather; None for others."""

    def __init__(self, gather: Gather):
        positions: Any = gather.positions
        self.out, self.picked = gather.out, Picked(gather.source, positions)

    def elementwise(self, step: Any) -> Rowwise | None:
        out = self.out
        seen = {x for x in step.operand_views if x.overlaps(out)}
        if not all(x.offset == out.offset and x.size == out.size for x in seen):
            return None
        if len(step.picks) >= MOST or not all(x.is_contiguous for x in seen):
            return None
        rows = contiguous(0, step.shape, -1 - len(step.picks))
        ops = [(op, tuple([rows if x in seen else x for x in given])) for op, given in step.ops]
        return Rowwise(step.shape, ops, step.stores, step.sums, [*step.picks, self.picked])

    def other(self, step: Step) -> None:
        return None


class _Adding(Visitor):
    """Gives an element-wise step that adds what it stores to rows itself; None for others."""

    def __init__(self, source: View, picked: Picked):
        self.source, self.picked = source, picked

    def elementwise(self, step: Any) -> Rowwise | None:
        if len(step.picks) >= MOST:
            return None
        rows = contiguous(0, step.shape, -1 - len(step.picks))
        result = next(k for k, stored in step.stores if stored == self.source)
        sums, picks = [*step.sums, (result, rows)], [*step.picks, self.picked]
        return Rowwise(step.shape, step.ops, step.stores, sums, picks)

    def other(self, step: Step) -> None:
        return None


def pick(code: Code) -> Code:
    """The program with rows picked and added to where they are needed."""
    gathers = {k: step for k, step in code.of(Gather).items() if _is_suited(step)}
    adds = {k: step for k, step in code.of(Kernel).items() if step.code == _SCATTER_ADD}
    if not gathers and not adds:
        return code
    steps = list(code.steps)
    done: set[int] = set()
    readers = Readers(code)
    for k, gather in gathers.items():
        reader = readers.only(gather.out)
        if reader >= 0:
            _replace(steps, reader, steps[reader].accept(_Reading(gather)), k, done)
    homes = {view: k for k, step in enumerate(steps) for view in step.movable}
    for k, add in adds.items():
        source, positions = add.operands
        if isinstance(positions, np.ndarray) and source.size >= LEAST and source in homes:
            home, picked = homes[source], Picked(add.out, positions)
            _replace(steps, home, steps[home].accept(_Adding(source, picked)), k, done)
    return dataclasses.replace(code, steps=[x for k, x in enumerate(steps) if k not in done])


def _replace(steps: list[Step], number: int, made: Step | None, instead: int, done: set) -> None:
    """Let a step, if it was made, take the place of one and do what another one did."""
    if made is not None:
        steps[number] = made
        done.add(instead)


def _is_suited(gather: Gather) -> bool:
    known = isinstance(gather.positions, np.ndarray)
    return known and gather.out.size >= LEAST and gather.source.is_contiguous
