"""Rows of an array written by their positions."""

from __future__ import annotations

import dataclasses

from .array_step import ArrayStep
from .file_fields import VIEW
from .steps import View
from .verify_memory import Memory, expect


@dataclasses.dataclass
class Scatter(ArrayStep):
    """Rows written: `out`, in C order, is `before`, but `source` at `positions` of it.

    Positions count rows in C order and are a view; the last row of a repeated one holds. A row has
    as many elements as `source` has to each position.
    """

    out: View
    before: View
    source: View
    positions: View

    plural = "scatters"
    file_fields = dict.fromkeys(("out", "before", "source", "positions"), VIEW)

    def check_operands(self, memory: Memory) -> None:
        super().check_operands(memory)
        memory.last(self.positions)
        expect(self.before.shape == self.out.shape, "a result of another shape")
        expect(
            self.width * self.positions.size == self.source.size, "rows of equally many elements"
        )
        expect(self.out.size % self.width == 0, "a result of whole rows")

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.source.size // (self.positions.size or 1) or 1
