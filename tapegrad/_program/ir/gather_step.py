"""Elements of an array taken by their positions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .array_step import ArrayStep
from .json_values import fields, short
from .slots import slots_of
from .steps import Renumber, View, remembered
from .verify_memory import Memory, are_below, expect
from .work import Work


@dataclasses.dataclass
class Gather(ArrayStep):
    """Elements of `source`, counted in C order, at `positions`: an int64 array, or a view."""

    out: View
    source: View
    positions: np.ndarray | View

    plural = "gathers"
    can_fold = True

    @remembered
    def views_read(self) -> list[View]:
        return [x for x in (self.source, self.positions) if isinstance(x, View)]

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Gather:
        positions = self.positions
        moved = move(positions) if isinstance(positions, View) else positions
        return Gather(move(self.out), move(self.source), moved)

    @property
    def reusable(self) -> list[View]:
        return self.views_written

    # --- how it is made a part ----------------------------------------------------------------

    def is_small(self, elements: int, products: int) -> bool:
        return isinstance(self.positions, np.ndarray) and self.out.size <= elements

    def expand(self, numbers: Any) -> None:
        assert isinstance(self.positions, np.ndarray)
        picked = numbers.of(self.source).ravel()[self.positions.ravel()]
        numbers.place[slots_of(self.out).ravel()] = picked

    # --- files --------------------------------------------------------------------------------

    def check_operands(self, memory: Memory) -> None:
        memory.read(self.source)
        positions = self.positions
        if isinstance(positions, View):
            memory.read(positions)
            memory.last(positions)
        else:
            expect(positions.dtype == np.int64, "positions are no int64")
            are_below(positions, self.source.size)
        expect(math.prod(positions.shape) == self.out.size, "as many positions as elements")

    def encoded(self, writer: Any) -> dict:
        views = {"out": writer.view(self.out), "source": writer.view(self.source)}
        return {**views, "positions": writer.operand(self.positions)}

    @classmethod
    def decoded(cls, reader: Any, item: dict) -> Gather:
        out, source, positions = fields(item, "out", "source", "positions")
        found = reader.operand(positions)
        if not isinstance(found, (View, np.ndarray)):
            raise ValueError(f"{short(positions)} are no positions")
        return Gather(reader.view(out), reader.view(source), found)

    @property
    def work(self) -> Work:
        return Work(1, moved=2.0 * self.out.size)
