"""The arena planned: arrays share slots, unused ones are given up, large inputs stay outside."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from ..ir.rewriting import closed, renumbered, used
from ..ir.steps import ARENA, ChainedPlaces, Code, Shifts, Spans, Step, View
from ..ir.uses import Wanted, constants_read, inside

# --- memory reuse ---------------------------------------------------------------------------------
# Buffer reuse: arrays with disjoint lifetimes share slots.
#
# An array lives from the step that writes it to the last that reads it; in reverse its adjoint
# lives between the same two. One whose value is read in reverse lives on and shares nothing. What
# shares slots has its adjoint set back to 0 once it has been passed on. Slots that are left are
# given up.

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
    made = renumbered(code, ChainedPlaces(moves, after), slots, constants)
    new = {k: [view.at(after.place(view.offset)) for view in views] for k, views in clears.items()}
    return dataclasses.replace(made, clears=new)


# --- input planning -------------------------------------------------------------------------------
# The arena planned: slots that nothing uses are given up, large inputs stay with the caller.

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
            steps = [_moved_step(step, view, base) for step in steps]
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


def _moved_step(step: Step, whole: View, base: int) -> Step:
    """A step that reads an input at a base of its own."""

    def move(view: View) -> View:
        if inside(view, whole):
            return dataclasses.replace(view, offset=view.offset - whole.offset, base=base)
        return view

    return step.mapped(move) if any(inside(v, whole) for v in step.views_read) else step
