"""Small arrays made numbers, for native code, which rolls what repeats into loops.

A loop in Python over small vectors and matrices makes many steps that cost more to start than to
compute. As operations on numbers they become one compiled loop, whose values stay in registers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..ir.kernel_step import Kernel
from ..ir.moving_step import Pack
from ..ir.rewriting import compact
from ..ir.scalars_step import Scalars
from ..ir.steps import ARENA, Code, Step, View, Visitor, contiguous
from ..ir.uses import any_in, known_slots, mark_outputs, mark_reads, pattern, slots_of, summed
from ..native.scalar_code import rolled

#: The most elements of an array that is made numbers, and products in one of matrices.
MOST, PRODUCTS = 16, 64
#: The fewest steps that are worth it, and how many of all steps on arrays they have to be.
LEAST, NEARLY = 16, 0.9
#: The least share of repeating operations among all operations.
MOSTLY = 0.8
_OPERANDS = 3


def spread(code: Code) -> Code:
    """The program with its small arrays as numbers, if that leaves hardly more than loops."""
    arrays = code.whole_steps
    small = sum(map(is_small, arrays))
    if code.clears or small < max(LEAST, NEARLY * len(arrays)):
        return code
    made = Spreader(code).program()
    known = known_slots(made)
    numbers = made.of(Scalars).values()
    repeated = sum(rolled(step, known) for step in numbers)
    return made if repeated >= MOSTLY * sum(len(step.op) for step in numbers) else code


def is_small(step: Step) -> bool:
    """Whether a step on arrays is made operations on numbers."""
    if any(view.base != ARENA or not view.size for view in step.views_read):
        return False
    return step.is_small(MOST, PRODUCTS)


class Spreader(Visitor):
    """Traverses the steps. `place` gives by slot the current slot of its value."""

    def __init__(self, code: Code):
        self.code = code
        self.place = np.arange(code.slots, dtype=np.int64)
        self.zero, self.one, self.slots = code.slots, code.slots + 1, code.slots + 2
        self.constants = [*code.constants, (self.zero, np.array([0.0, 1.0]))]
        self.known: dict[Any, Any] = {}  # slots that operations of small matrices have written
        self.refused: dict[Any, dict[int, None]] = {}
        self.steps: list[Step] = []
        self.written: list[tuple[np.ndarray, ...]] = []  # columns of the step of numbers so far
        self.first = self.slots  # its first slot

    def program(self) -> Code:
        self.read = self._read_by_arrays()
        for step in self.code.steps:
            step.accept(self)
        self.flush()
        self._check_refused()
        outputs = [dataclasses.replace(one, view=self.view(one.view)) for one in self.code.outputs]
        made = Code(self.slots, self.constants, self.code.inputs, self.steps, outputs)
        return compact(dataclasses.replace(made, held=self.code.held))

    def _read_by_arrays(self) -> np.ndarray:
        """The slots that are read by unchanged steps."""
        read = np.zeros(self.code.slots, bool)
        mark_outputs(self.code, read)
        for step in self.code.steps:
            if step.is_whole and not is_small(step):
                mark_reads(step, read)
        return read

    def _check_refused(self) -> None:
        """Let operations that were expanded refuse values as before."""
        for op, slots in self.refused.items():
            found = contiguous(self._take(len(slots)), (len(slots),))
            self.steps.append(Pack(found, np.array([*slots], np.int32)))
            self.steps.append(Kernel(op.code, [(), found], contiguous(self._take(1), ())))

    # --- slots --------------------------------------------------------------------------------

    def of(self, view: View) -> np.ndarray:
        """The slots of the values of a view, in its shape."""
        return self.place[slots_of(view)]

    def view(self, view: View) -> View:
        """A view of the same values; they are copied if they form no regular view."""
        if view.base != ARENA or not view.size:
            return view
        slots = self.of(view)
        if np.array_equal(slots, slots_of(view)):
            return view
        found = pattern(slots)
        if found is None:
            self.flush()
            found = contiguous(self._take(view.size), view.shape)
            self.steps.append(Pack(found, slots.ravel().astype(np.int32)))
        return found

    def _take(self, count: int) -> int:
        self.slots += count
        self.first = self.slots
        return self.slots - count

    # --- operations ---------------------------------------------------------------------------

    def flush(self) -> None:
        """End the step of operations on numbers."""
        if self.written:
            op, a, b, c = (
                np.concatenate(x).astype(np.int32) for x in zip(*self.written, strict=True)
            )
            c = c if (c >= 0).any() else np.empty(0, np.int32)
            self.steps.append(Scalars(self.first, op, a, b, c))
            self.written = []
        self.first = self.slots

    def write(self, op: np.ndarray, *operands: np.ndarray) -> np.ndarray:
        """Write operations; returns the slots of their results."""
        count = len(op)
        missing = [np.full(count, -1)] * (_OPERANDS - len(operands))
        self.written.append((op, *operands, *missing))
        self.slots += count
        return np.arange(self.slots - count, self.slots)

    def apply(self, code: int, *operands: np.ndarray) -> np.ndarray:
        """The same operation for each element of some arrays of slots, of one shape."""
        flat = [slots.flatten() for slots in operands]  # the caller may write to them
        return self.write(np.full(len(flat[0]), code), *flat).reshape(operands[0].shape)

    def constant(self, value: float) -> int:
        """The slot of 0 or 1."""
        return {0.0: self.zero, 1.0: self.one}[value]

    def refuse(self, op, slots: np.ndarray) -> None:
        """Let an operation of programs check numbers, at the end, and refuse some."""
        self.refused.setdefault(op, {}).update(dict.fromkeys(slots.tolist()))

    def scalars(self, step: Scalars) -> None:
        count = len(step.op)
        self.place[step.first : step.first + count] = np.arange(self.slots, self.slots + count)
        columns = [column for column in (step.a, step.b, step.c) if len(column)]
        self.write(step.op, *[np.where(x < 0, x, self.place[x]) for x in columns])

    def other(self, step: Step) -> None:
        if is_small(step) and not (step.is_left_out and self._is_read(step)):
            step.expand(self)
        else:
            self.flush()
            self.steps.append(step.mapped(self.view, lambda slots: self.place[slots]))

    def _is_read(self, step: Step) -> bool:
        return any(any_in(self.read, view) for view in step.views_written)

    def sum(self, targets: np.ndarray, sources: np.ndarray) -> None:
        """Let each target be the sum of the sources at its places, in their order."""
        places, totals = summed(self.apply, targets, sources)
        self.place[places] = totals
