"""Elements of an array written by their positions."""

from __future__ import annotations

import dataclasses

from .array_step import ArrayStep
from .file_fields import VIEW
from .steps import View
from .verify_memory import Memory, expect


@dataclasses.dataclass
class Scatter(ArrayStep):
    """Elements written: `out`, in C order, is `before`, but `source` at `positions` of it.

    Positions count in C order and are a view; the last element of a repeated one holds.
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
        expect(self.source.size == self.positions.size, "as many positions as elements")
