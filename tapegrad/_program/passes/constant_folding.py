"""Constant folding: what depends on constants only is computed when the program is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ..build.executable import Program
from ..ir import scalar_scans
from ..ir.scalars_step import Scalars
from ..ir.slot_ranges import Ranges, mostly_zeros
from ..ir.steps import ARENA, GUARD, NOTHING, Code, Step, Visitor
from ..ir.substitution import merged
from ..ir.uses import all_in, constants_read, known_slots
from ..replay.run_layout import FINISHED


def fold(code: Code) -> Code:
    """Operations on numbers and steps of arrays whose operands are all constants become constants.

    The program's own parts compute them, so that values are the same to the bit. Guards stay: the
    programs of a function identify them by their order.
    """
    if not _may_fold(code):
        return code
    finder = _Finder(code)
    if not finder.steps:
        return code
    only = dataclasses.replace(code, inputs=[], steps=finder.steps, outputs=[], clears={})
    program = Program(dataclasses.replace(only, constants=constants_read(only)))
    run = program.begin()
    if program.forward(run, []) != FINISHED:
        return code
    constants = list(code.constants)
    for view in finder.written:
        constants.append((view.offset, run.values[slice(*view.extent)].copy()))
    steps = [step for step in code.steps if id(step) not in finder.whole]
    rest = dataclasses.replace(code, constants=constants, steps=steps)
    return _without(rest, finder, run.values)


def _may_fold(code: Code) -> bool:
    """Whether anything has operands that are all constants: without that nothing ever has."""
    known, reads = code.constant_ranges, code.reads
    others = reads.steps_of(~known.cover(reads.low, reads.high))
    whole = [code.whole_steps[k] for k in np.flatnonzero(~others).tolist()]
    return any(step.can_fold and _reads_known(step, known) for step in whole) or any(
        _has_known(step, known.hold) for step in code.numbers
    )


def _reads_known(step: Step, known: Ranges) -> bool:
    """Whether all that a step whose views are known reads is known."""
    inside = all(view.base == ARENA for view in step.views_read)
    return inside and all([known.hold(slots).all() for slots in step.slots_read])


def _is_known(step: Step, known: np.ndarray) -> bool:
    """Whether all that a step reads is known."""
    for view in step.views_read:
        if view.base != ARENA or not all_in(known, view):
            return False
    return all([known[slots].all() for slots in step.slots_read])


def _has_known(step: Scalars, known: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether there is an operation whose operands are known before the step."""
    left = np.flatnonzero(known(step.a))
    left = left[(known(step.b[left]) != 0) | (step.b[left] < 0)]
    return bool((step.op[left] != GUARD).any())


class _Finder(Visitor):
    """The steps that can be folded: `whole` ones, by id, and operations that are `wished` away."""

    def __init__(self, code: Code):
        self.known = known_slots(code).view(np.uint8)
        self.scan = scalar_scans.Scan({scalar_scans.BY_SLOT: self.known})
        self.steps: list[Step] = []
        self.whole: set[int] = set()
        self.written: list = []
        self.numbers: list[Scalars] = []
        self.wishes: list[np.ndarray] = []
        for step in code.steps:
            step.accept(self)

    def other(self, step: Step) -> None:
        if step.can_fold and _is_known(step, self.known):
            self.whole.add(id(step))
            self.steps.append(step)
            self.written += step.views_written
            for view in step.views_written:
                self.known[slice(*view.extent)] = True

    def scalars(self, step: Scalars) -> None:
        """Operations whose operands are known; the others are guards that hold."""
        self.numbers.append(step)
        wished = np.zeros(len(step.op), np.uint8)
        self.wishes.append(wished)
        if not _has_known(step, self.known.__getitem__):
            return
        if self.scan("know", step, {scalar_scans.WISHED: wished}):
            op, a, b = (
                np.where(wished, column, nothing).astype(np.int32)
                for column, nothing in ((step.op, GUARD), (step.a, NOTHING), (step.b, NOTHING))
            )
            self.steps.append(Scalars(step.first, op, a, b, step.c))


def _without(code: Code, finder: _Finder, values: np.ndarray) -> Code:
    """The program with constants instead of operations."""
    if not scalar_scans.settle_wishes(finder.numbers, finder.wishes):
        return code
    pairs = zip(finder.numbers, finder.wishes, strict=True)
    slots = np.concatenate([step.first + np.flatnonzero(wished) for step, wished in pairs])
    bits, numbers = np.unique(values[slots].view(f"i{code.item}"), return_inverse=True)
    stands = mostly_zeros(code.slots + len(bits), np.int32)
    stands[slots] = code.slots + numbers
    constants = [*code.constants, (code.slots, bits.view(code.dtype))]
    return merged(dataclasses.replace(code, slots=len(stands), constants=constants), stands)
