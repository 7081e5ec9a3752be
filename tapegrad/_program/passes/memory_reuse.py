"""Buffer reuse: arrays with disjoint lifetimes share slots.

An array lives from the step that writes it to the last that reads it; in reverse its adjoint lives
between the same two. One whose value is read in reverse lives on and shares nothing. What shares
slots has its adjoint set back to 0 once it has been passed on.
"""

from __future__ import annotations

import bisect
import dataclasses

import numpy as np

from ..ir.rewriting import renumbered
from ..ir.steps import ARENA, Code, Step, View
from ..ir.uses import Wanted

#: Smaller arrays are not worth it.
LEAST = 32


@dataclasses.dataclass
class Value:
    """An array of the program, by its slots, and the steps between which it lives."""

    first: int
    size: int
    begins: int
    ends: int
    lives_on: bool = False


class Lifetimes:
    """When the arrays that steps write are read."""

    def __init__(self, code: Code):
        self.values: list[Value] = []
        self.firsts: list[int] = []
        self.wanted = Wanted(code)
        self.known: dict[tuple, list[int]] = {}
        self._find(code)
        for k, step in enumerate(code.steps):
            self._read(step, k)
        for output in code.outputs:
            self._live_on(output.view)
        self._keep_single(code)

    def _find(self, code: Code) -> None:
        """The arrays; pieces of one view are one."""
        arrays = [(out, k) for k, step in enumerate(code.steps) for out in step.reusable]
        pieces = sorted((out.offset, out.size, k) for out, k in arrays if out.size)
        firsts = [first for first, _, _ in pieces]
        joined = np.zeros(len(pieces) + 1, bool)  # with the piece before
        for view in [
            *[v for s in code.steps for v in s.views_read],
            *[o.view for o in code.outputs],
        ]:
            if view.base == ARENA and view.size > 1:
                low, high = view.extent
                start = max(bisect.bisect_right(firsts, low) - 1, 0)
                joined[start + 1 : bisect.bisect_left(firsts, high)] = True
        for (first, size, k), with_last in zip(pieces, joined.tolist(), strict=False):
            if with_last:
                last = self.values[-1]
                last.size = first + size - last.first
                last.begins, last.ends = min(last.begins, k), max(last.ends, k)
            else:
                self.values.append(Value(first, size, k, k))
                self.firsts.append(first)

    def of(self, view: View) -> list[Value]:
        """The values of a view."""
        if view.base != ARENA or not view.size:
            return []
        low, high = view.extent
        found = []
        k = max(bisect.bisect_right(self.firsts, low) - 1, 0)
        while k < len(self.values) and self.values[k].first < high:
            if self.values[k].first + self.values[k].size > low:
                found.append(self.values[k])
            k += 1
        return found

    def _live_on(self, view: View) -> None:
        for value in self.of(view):
            value.lives_on = True

    def _read(self, step: Step, k: int) -> None:
        for view in step.views_read:
            for value in self.of(view):
                value.ends = max(value.ends, k)
        for view in step.kept(self.wanted, self.known):
            self._live_on(view)

    def _keep_single(self, code: Code) -> None:
        """Values of which single slots are read live on."""
        read = np.zeros(code.slots + 1, bool)  # the last one is of no slot, which is −1
        for slots in [slots for step in code.steps for slots in step.slots_read]:
            read[slots] = True
        for value in self.values:
            value.lives_on |= bool(read[value.first : value.first + value.size].any())


def share(code: Code) -> Code:
    """The program with fewer slots."""
    if sum([view.size >= LEAST for step in code.steps for view in step.reusable]) < 2:
        return code
    lifetimes = Lifetimes(code)
    sharing = [v for v in lifetimes.values if not v.lives_on and v.size >= LEAST]
    if len(sharing) < 2:
        return code
    begin: dict[int, list[Value]] = {}
    end: dict[int, list[Value]] = {}
    for value in sharing:
        begin.setdefault(value.begins, []).append(value)
        end.setdefault(value.ends, []).append(value)
    free: dict[int, list[int]] = {}
    place = np.append(np.arange(code.slots), -1)
    clears: dict[int, list[View]] = {}
    for k in range(len(code.steps)):
        for value in begin.get(k, []):
            found = free.get(value.size)
            first = found.pop() if found else value.first
            place[value.first : value.first + value.size] = first + np.arange(value.size)
            clears.setdefault(k, []).append(View(first, (value.size,), (1,)))
        for value in end.get(k, []):
            free.setdefault(value.size, []).append(int(place[value.first]))

    return dataclasses.replace(renumbered(code, place, code.slots), clears=clears)
