"""Rows of an array taken by their positions."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from .array_step import ArrayStep
from .file_fields import OPERAND, VIEW, Field
from .json_values import short
from .slots import slots_of
from .steps import View
from .verify_memory import Memory, are_below, expect
from .work import Work


def _positions(reader: Any, item: Any) -> np.ndarray | View:
    found = OPERAND.decode(reader, item)
    if not isinstance(found, (View, np.ndarray)):
        raise ValueError(f"{short(item)} are no positions")
    return found


POSITIONS = Field(OPERAND.encode, _positions)


@dataclasses.dataclass
class Gather(ArrayStep):
    """Rows of `source`, counted in C order, at `positions`: an int64 array, or a view.

    A row has as many elements as `out` has to each position.
    """

    out: View
    source: View
    positions: np.ndarray | View

    plural = "gathers"
    can_fold = True
    shares_memory = True
    file_fields = {"out": VIEW, "source": VIEW, "positions": POSITIONS}

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.out.size // (math.prod(self.positions.shape) or 1) or 1

    # --- how it is made a part ----------------------------------------------------------------

    def is_small(self, elements: int, products: int) -> bool:
        return isinstance(self.positions, np.ndarray) and self.out.size <= elements

    def expand(self, numbers: Any) -> None:
        assert isinstance(self.positions, np.ndarray)
        slots = numbers.of(self.source).reshape(-1, self.width)[self.positions.ravel()]
        numbers.place[slots_of(self.out).ravel()] = slots.ravel()

    # --- files --------------------------------------------------------------------------------

    def check_operands(self, memory: Memory) -> None:
        super().check_operands(memory)
        positions = self.positions
        expect(self.source.size % self.width == 0, "a source that is not of whole rows")
        if isinstance(positions, View):
            memory.last(positions)
        else:
            expect(positions.dtype == np.int64, "positions are no int64")
            are_below(positions, self.source.size // self.width)
        rows = math.prod(positions.shape)
        expect(rows * self.width == self.out.size, "rows of equally many elements")

    @property
    def work(self) -> Work:
        return Work(1, moved=2.0 * self.out.size)
