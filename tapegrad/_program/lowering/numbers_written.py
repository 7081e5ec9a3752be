"""Operations on numbers as they are written, one step for those that follow each other."""

from __future__ import annotations

import numpy as np

from ..ir.scalars_step import Scalars
from ..ir.steps import Step
from .tape_rows import Rows


class Numbers:
    """Appends to `steps` what is written here, and what compiled code writes of rows of numbers."""

    def __init__(self, rows: Rows, steps: list[Step]):
        self.rows, self.steps = rows, steps
        self.begun = rows.counts()  # operation and slot with which the step begins

    def take(self, slots: int) -> int:
        """Take slots for anything else, which ends the step; returns the first."""
        count, first = self.rows.take(slots)
        if count > self.begun[0]:
            self.flush()
        self.begun = (count, first + slots)
        return first

    def flush(self) -> None:
        """End the step."""
        begun, first = self.begun
        count, slot = self.rows.counts()
        if count > begun:
            columns = (self.rows.op, self.rows.a, self.rows.b, self.rows.c)
            op, a, b, c = (column[begun:count] for column in columns)
            none = bool((c == -1).all())
            self.steps.append(Scalars(first, op, a, b, c[:0] if none else c))
        self.begun = (count, slot)

    def one(self, op: int, *slots: int) -> int:
        """Write an operation on numbers; returns the slot of its result."""
        return self.column(op, 1, slots)

    def each(self, op: int, *slots: np.ndarray) -> np.ndarray:
        """The same for each element of arrays of slots of one shape."""
        shape, count = slots[0].shape, slots[0].size
        first = self.column(op, count, [x.ravel() for x in slots])
        return np.arange(first, first + count, dtype=np.int64).reshape(shape)

    def column(self, op: int, count: int, operands) -> int:
        """Write an operation `count` times; each of the operands is one slot, or as many.

        Returns the slot of the first result.
        """
        return self.rows.emit(op, count, *(*operands, -1, -1)[:3])
