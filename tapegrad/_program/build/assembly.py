"""The parts of a program: interpreted, or compiled to native code."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ..._core.remembered import remembered
from ..ir.scalars_step import Scalars
from ..ir.steps import Code, Ranges, Spans, Step, View, contiguous
from ..ir.uses import Wanted, constants_of
from ..native import fused_elementwise as _registered  # noqa: F401
from ..native import scalar_code
from ..native.loop_operands import Slots
from ..native.scalar_code import Piece
from ..replay import scalar_interpreter
from ..replay.block_calls import APART
from ..replay.parts import Part, native_part_of, part_of
from .templates import parts_of

#: Fewer operations on numbers are interpreted in any case.
FEW = 16


class Parts:
    """The parts of each step of a program; `slots` of the arena they need.

    `pivot` is the last step but for those with constant partial derivatives: their adjoints can be
    computed before its values, so that it alone may be evaluated in one pass. −1 for none.
    """

    def __init__(self, code: Code, native: bool, cut: bool):
        self.code, self.cut, self.item = code, cut, code.item
        self.slots = code.slots
        self._unused: list[np.ndarray] = []  # slots of values that live in registers only
        self.wanted = Wanted(code)
        self.fresh = frozenset(b for b in self.wanted.bases if self._is_fresh(b))
        self._make: Callable[..., Part] = native_part_of if native else part_of
        self.pivot = self._pivot()
        last = code.steps[self.pivot] if self.pivot >= 0 else None
        apart = [step for step in code.whole_steps if step is not last]
        whole = iter(parts_of(apart, self._part, self.wanted, self.item))
        self._pieces = self._planned() if native else {}
        numbers = self._of_numbers(code.of(Scalars))
        self.of = [
            numbers[k]
            if k in numbers
            else [self._make(step, self.wanted, self.fresh, self.item)]
            if step is last
            else [next(whole)]
            for k, step in enumerate(code.steps)
        ]

    def _pivot(self) -> int:
        steps, k = self.code.steps, len(self.code.steps) - 1
        while k >= 0 and steps[k].is_linear(self.wanted):
            k -= 1
        return k

    def _is_fresh(self, base: int) -> bool:
        """Whether one element-wise step alone reads a large input, and all of it."""
        whole = contiguous(0, self.code.inputs[base - 1].view.shape, base)
        readers = [s for s in self.code.steps if any(v.base == base for v in s.views_read)]
        return len(readers) == 1 and readers[0].sets_adjoints and whole in readers[0].views_read

    def _part(self, step: Step, wanted: Callable[[View], bool]) -> Part:
        passes = (APART,) if step.in_one_pass else ()
        return self._make(step, wanted, self.fresh, self.item, *passes)

    def _planned(self) -> dict[int, list[Piece]]:
        """By step: pieces of operations on numbers; those within the budget are compiled."""
        numbers = {k: step for k, step in self.code.of(Scalars).items() if len(step.op) >= FEW}
        found = {k: scalar_code.pieces_of(step, self._by_slot.known) for k, step in numbers.items()}
        scalar_code.within(scalar_code.BUDGET, itertools.chain(*found.values()))
        return found

    def _of_numbers(self, numbers: dict[int, Scalars]) -> dict[int, list[Part]]:
        """The parts of operations on numbers, by step."""
        native = [k for k, found in self._pieces.items() if any(piece.native for piece in found)]
        others = [k for k in numbers if k not in native]
        made = scalar_interpreter.interpreted_each([numbers[k] for k in others], self.item)
        parts = {k: [part] for k, part in zip(others, made, strict=True)}
        return parts | {k: self._native(k, numbers[k]) for k in native}

    def _native(self, k: int, step: Scalars) -> list[Part]:
        pieces = self._pieces[k]
        own = np.arange(step.first, step.first + len(step.op))
        outside = self._read_outside.hold(own)
        parts = scalar_code.native(step, pieces, self._by_slot, outside, self._new_slots, self.cut)
        self._unused.append(own[~outside])
        return parts

    @remembered
    def _by_slot(self) -> Slots:
        known, initial = constants_of(self.code)
        return Slots(known, initial, ~self.wanted.constant)

    def _new_slots(self, count: int) -> int:
        self.slots += count
        return self.slots - count

    @remembered
    def _read_outside(self) -> Ranges:
        """The slots that other steps than the one that writes them read, or the results."""
        found = [slots for step in self.code.whole_steps for slots in step.slots_read]
        for step in self.code.of(Scalars).values():
            read = np.concatenate(step.slots_read)
            own = (read >= step.first) & (read < step.first + len(step.op))
            found.append(read[(read >= 0) & ~own])
        single = np.concatenate([np.zeros(0, np.int64), *found])
        outputs = Spans([[one.view] for one in self.code.outputs])
        return Ranges(
            np.concatenate([single, self.code.reads.low, outputs.low]),
            np.concatenate([single + 1, self.code.reads.high, outputs.high]),
        )

    @property
    def used(self) -> np.ndarray:
        """By slot of the program: whether its value, and its adjoint, may lie there."""
        found = np.ones(self.code.slots, bool)
        for slots in self._unused:
            found[slots] = False
        return found

    def touched(self) -> np.ndarray:
        """Rows (offset, bytes): the adjoints that are to be 0 before a reverse pass."""
        unused = np.concatenate([np.zeros(0, np.int64), *self._unused])
        constants = np.array([(at, at + len(x)) for at, x in self.code.constants], np.int64)
        low, high = constants.reshape(-1, 2).T  # their adjoints are not read
        gaps = Ranges(np.append(unused, low), np.append(unused + 1, high)).edges
        starts, ends = np.append(0, gaps[1::2]), np.append(gaps[::2], self.code.slots)
        starts, ends = starts[starts < ends], ends[starts < ends]
        if not len(starts):
            return np.zeros((0, 2), np.int64)
        apart = starts[1:] - ends[:-1] > _NEAR
        starts = starts[np.concatenate(([True], apart))]
        ends = ends[np.concatenate((apart, [True]))]
        return self.item * np.stack([starts, ends - starts], 1)


#: Slots between that are set to 0 as well, rather than in another call.
_NEAR = 64
