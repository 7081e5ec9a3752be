"""Numbers put side by side as an array."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .array_step import ArrayStep
from .json_values import fields
from .slots import slots_of
from .steps import Renumber, View, remembered
from .verify_memory import Memory, are_below, expect
from .work import Work


@dataclasses.dataclass
class Pack(ArrayStep):
    """Slots side by side: out[k] = slot[k]; `out` in C order, `slots` an int32 array."""

    out: View
    slots: np.ndarray

    plural = "packs"
    may_stop = False
    can_fold = True

    # --- what it reads and writes -------------------------------------------------------------

    @remembered
    def views_read(self) -> list[View]:
        return []

    @property
    def slots_read(self) -> list[np.ndarray]:
        return [self.slots]

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Pack:
        slots = self.slots if renumber is None else renumber(self.slots).astype(np.int32)
        return Pack(move(self.out), slots)

    # --- what passes ask ----------------------------------------------------------------------

    @property
    def reusable(self) -> list[View]:
        return self.views_written

    def kept(self, wanted: Callable[[View], bool], known: dict) -> list[View]:
        return []

    def key(self, places: Any) -> tuple:
        return places.key_of(Pack, [self.out, places.stand_ins(self.slots)], self.views_written)

    # --- how it is made a part ----------------------------------------------------------------

    def is_small(self, elements: int, products: int) -> bool:
        return self.out.size <= elements

    def expand(self, numbers: Any) -> None:
        numbers.place[slots_of(self.out).ravel()] = numbers.place[self.slots]

    # --- files --------------------------------------------------------------------------------

    def check_operands(self, memory: Memory) -> None:
        slots = self.slots
        expect(slots.dtype == np.int32 and slots.size == self.out.size, "slots of another number")
        are_below(slots, memory.slots)
        expect(bool(memory.ready[slots].all()), "a slot is read before it is written")

    def encoded(self, writer: Any) -> dict:
        slots = writer.array(np.asarray(self.slots, np.int32))
        return {"out": writer.view(self.out), "slots": slots}

    @classmethod
    def decoded(cls, reader: Any, item: dict) -> Pack:
        out, slots = fields(item, "out", "slots")
        return Pack(reader.view(out), reader.array(slots, np.int32))

    @property
    def work(self) -> Work:
        return Work(1, moved=float(self.out.size))
