"""Elements of an array written by their positions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from .array_step import ArrayStep
from .json_values import fields
from .steps import Renumber, View, remembered
from .verify_memory import Memory, expect
from .work import Work


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

    @remembered
    def views_read(self) -> list[View]:
        return [self.before, self.source, self.positions]

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Scatter:
        return Scatter(move(self.out), *map(move, self.views_read))

    def check_operands(self, memory: Memory) -> None:
        for view in self.views_read:
            memory.read(view)
        memory.last(self.positions)
        expect(self.before.shape == self.out.shape, "a result of another shape")
        expect(self.source.size == self.positions.size, "as many positions as elements")

    def encoded(self, writer: Any) -> dict:
        names = ("out", "before", "source", "positions")
        return {name: writer.view(getattr(self, name)) for name in names}

    @classmethod
    def decoded(cls, reader: Any, item: dict) -> Scatter:
        return Scatter(*map(reader.view, fields(item, "out", "before", "source", "positions")))

    @property
    def work(self) -> Work:
        return Work(1, moved=float(self.out.size))
