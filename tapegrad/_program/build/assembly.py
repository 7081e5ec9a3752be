"""The parts of a program: interpreted, or compiled to native code."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ..._core.ops.table import BY_CODE
from ..ir.steps import (
    Code,
    Computed,
    Elementwise,
    Gather,
    Kernel,
    Link,
    Pack,
    Scalars,
    Scatter,
    Step,
    View,
    contiguous,
)
from ..ir.uses import Wanted, constants_of, mark_outputs, mark_reads, views_read
from ..native import fused_elementwise, scalar_code
from ..native.scalar_code import Piece
from ..replay import moves, scalar_interpreter
from ..replay.elementwise_parts import interpreted
from ..replay.opaque_calls import part_of_computed
from ..replay.parts import Part
from ..replay.rule_parts import part_of_rule
from ..replay.structural import part_of_kernel
from .templates import parts_of

#: Fewer operations on numbers are interpreted in any case.
FEW = 16


def _part_of_operation(step: Kernel, wanted: Callable[[View], bool]) -> Part:
    by_rule = BY_CODE[step.code].is_by_rule
    return part_of_rule(step, wanted) if by_rule else part_of_kernel(step, wanted)


_MAKERS: dict[type, Callable] = {
    Link: moves.part_of_link,
    Gather: moves.part_of_gather,
    Scatter: moves.part_of_scatter,
    Pack: moves.part_of_pack,
    Kernel: _part_of_operation,
    Computed: part_of_computed,
}


class Parts:
    """The parts of each step of a program; `slots` of the arena they need, `used` of its steps'."""

    def __init__(self, code: Code, native: bool, cut: bool):
        self.code, self.cut = code, cut
        self.slots = code.slots
        self.used = np.ones(code.slots, bool)  # whether an adjoint may lie in a slot
        self.wanted = Wanted(code)
        self.fresh = frozenset(b for b in self.wanted.bases if self._is_fresh(b))
        self._elementwise = fused_elementwise.native if native else interpreted
        single = iter(
            parts_of([s for s in code.steps if not isinstance(s, Scalars)], self._part, self.wanted)
        )
        make = self._native if native else self._interpreted
        self._pieces = self._planned() if native else {}
        self.of = [
            make(k, step) if isinstance(step, Scalars) else [next(single)]
            for k, step in enumerate(code.steps)
        ]

    def _is_fresh(self, base: int) -> bool:
        """Whether one element-wise step alone reads a large input, and all of it."""
        whole = contiguous(0, self.code.inputs[base - 1].view.shape, base)
        readers = [s for s in self.code.steps if any(v.base == base for v in views_read(s))]
        if len(readers) != 1 or not isinstance(readers[0], Elementwise):
            return False
        return whole in views_read(readers[0])

    def _part(self, step: Step, wanted: Callable[[View], bool]) -> Part:
        if isinstance(step, Elementwise):
            return self._elementwise(step, wanted, self.fresh)
        return _MAKERS[type(step)](step, wanted)

    def _interpreted(self, k: int, step: Scalars) -> list[Part]:
        return [scalar_interpreter.interpreted(step)]

    def _planned(self) -> dict[int, list[Piece]]:
        """By step: pieces of operations on numbers; those within the budget are compiled."""
        self._known, self._initial = constants_of(self.code)
        found = {
            k: scalar_code.pieces_of(step, self._known)
            for k, step in enumerate(self.code.steps)
            if isinstance(step, Scalars) and len(step.op) >= FEW
        }
        scalar_code.within(scalar_code.BUDGET, itertools.chain(*found.values()))
        return found

    def _native(self, k: int, step: Scalars) -> list[Part]:
        pieces = self._pieces.get(k, [])
        if not any(piece.native for piece in pieces):
            return self._interpreted(k, step)
        slots = slice(step.first, step.first + len(step.op))
        outside, wanted = self._read_outside(k)[slots], ~self.wanted.constant
        known, initial = self._known, self._initial
        parts = scalar_code.native(
            step, pieces, known, initial, wanted, outside, self._new_slots, self.cut
        )
        self.used[slots] = outside  # values that live in registers only are missing
        return parts

    def _new_slots(self, count: int) -> int:
        self.slots += count
        return self.slots - count

    def _read_outside(self, k: int) -> np.ndarray:
        """Which slots other steps than step k read, or the results."""
        marks = np.zeros(self.code.slots, bool)
        for j, step in enumerate(self.code.steps):
            if j != k:
                mark_reads(step, marks)
        mark_outputs(self.code, marks)
        return marks

    def touched(self) -> np.ndarray:
        """Rows (offset, bytes): the adjoints that are to be 0 before a reverse pass."""
        changes = np.flatnonzero(np.diff(self.used, prepend=False, append=False))
        starts, ends = changes[::2], changes[1::2]
        if not len(starts):
            return np.zeros((0, 2), np.int64)
        apart = starts[1:] - ends[:-1] > _NEAR
        starts = starts[np.concatenate(([True], apart))]
        ends = ends[np.concatenate((apart, [True]))]
        return np.stack([8 * starts, 8 * (ends - starts)], 1)


#: Slots between that are set to 0 as well, rather than in another call.
_NEAR = 64
