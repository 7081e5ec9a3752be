"""Buffer reuse: arrays with disjoint lifetimes share slots.

An array lives from the step that writes it to the last that reads it; in reverse its adjoint lives
between the same two. One whose value is read in reverse lives on and shares nothing. What shares
slots has its adjoint set back to 0 once it has been passed on. Slots that are left are given up.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..ir.rewriting import closed, renumbered, used
from ..ir.steps import Chain, Code, Shifts, Spans, View
from ..ir.uses import Wanted, constants_read

#: Smaller arrays are not worth it.
LEAST = 32


class Lifetimes:
    """The arrays of a program, in order of their slots, and when they live, as columns.

    An array has `size` slots from `first` on, and lives between the steps `begins` and `ends`, or
    to the end of the reverse if it `lives_on`.
    """

    def __init__(self, code: Code):
        whole = [k for k, step in enumerate(code.steps) if step.is_whole]
        reads, outputs = code.reads, Spans([[one.view] for one in code.outputs])
        self._find(code, (reads, outputs))
        read, of = self._seen(reads)
        np.maximum.at(self.ends, read, np.array(whole, np.int64)[of])
        wanted = Wanted(code)
        known: dict[tuple, list[int]] = {}
        kept = Spans([[*step.kept(wanted, known)] for step in code.steps])
        for spans in (kept, outputs):
            self.lives_on[self._seen(spans)[0]] = True
        self._keep_single(code)

    def _find(self, code: Code, seen: tuple[Spans, ...]) -> None:
        """The arrays that steps write; pieces of one view are one.

        What other steps write may lie between such pieces: then they live on.
        """
        pieces = sorted(
            [
                (out.offset, out.size, k)
                for k, step in enumerate(code.steps)
                for out in step.reusable
                if out.size
            ]
        )
        first, size, step = np.array(pieces, np.int64).reshape(-1, 3).T
        begins = np.ones(len(first), bool)  # not with the piece before
        for spans in seen:
            start = np.maximum(np.searchsorted(first, spans.low, side="right") - 1, 0)
            stop = np.searchsorted(first, spans.high, side="left")
            for k in np.flatnonzero((stop > start + 1) & (spans.lengths > 1)):
                begins[start[k] + 1 : stop[k]] = False
        at = np.flatnonzero(begins)
        last = np.append(at[1:], len(first)) - 1
        self.first, self.size = first[at], first[last] + size[last] - first[at]
        self.lives_on = np.add.reduceat(size, at) < self.size
        self.begins = np.minimum.reduceat(step, at)
        self.ends = np.maximum.reduceat(step, at)

    def _seen(self, spans: Spans) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of an array and the number of a step whose views see some of its slots."""
        begin = np.maximum(np.searchsorted(self.first, spans.low, side="right") - 1, 0)
        count = np.searchsorted(self.first, spans.high, side="left") - begin
        count[(count < 0) | (spans.lengths == 0)] = 0
        view = np.repeat(np.arange(len(count)), count)
        number = np.arange(len(view)) - np.repeat(np.cumsum(count) - count, count) + begin[view]
        sees = self.first[number] + self.size[number] > spans.low[view]
        return number[sees], spans.step[view[sees]]

    def _keep_single(self, code: Code) -> None:
        """Arrays of which single slots are read live on."""
        at, ends = code.single_reads, self.first + self.size
        self.lives_on |= np.searchsorted(at, self.first) < np.searchsorted(at, ends)


def share(code: Code) -> Code:
    """The program with fewer slots."""
    if sum([view.size >= LEAST for step in code.steps for view in step.reusable]) < 2:
        return code
    lives = Lifetimes(code)
    sharing = np.flatnonzero(~lives.lives_on & (lives.size >= LEAST))
    if len(sharing) < 2:
        return code
    begin: dict[int, list[int]] = {}
    end: dict[int, list[int]] = {}
    for number, begins, ends in zip(
        sharing.tolist(), lives.begins[sharing].tolist(), lives.ends[sharing].tolist(), strict=True
    ):
        begin.setdefault(begins, []).append(number)
        end.setdefault(ends, []).append(number)
    free: dict[int, list[int]] = {}
    places = lives.first.copy()
    clears: dict[int, list[View]] = {}
    for k in range(len(code.steps)):
        for number in begin.get(k, []):
            first, size = int(lives.first[number]), int(lives.size[number])
            found = free.get(size)
            new = found.pop() if found else first
            places[number] = new
            clears.setdefault(k, []).append(View(new, (size,), (1,)))
        for number in end.get(k, []):
            free.setdefault(int(lives.size[number]), []).append(int(places[number]))
    moves = Shifts.of(lives.first, lives.first + lives.size, places - lives.first)
    return _moved(code, moves, clears)


def _moved(code: Code, moves: Shifts, clears: dict[int, list[View]]) -> Code:
    """The program with arrays moved, and without the slots that they have left."""
    constants = constants_read(code)
    low, high = used(code, constants)
    after, slots = closed(moves(low), moves(low) + (high - low))
    made = renumbered(code, Chain(moves, after), slots, constants)
    new = {k: [view.at(after.place(view.offset)) for view in views] for k, views in clears.items()}
    return dataclasses.replace(made, clears=new)
