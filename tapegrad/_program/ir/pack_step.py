"""Numbers as an array."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .array_step import ArrayStep
from .file_fields import SLOTS, VIEW
from .slots import slots_of
from .steps import Renumber, View
from .verify_memory import Memory, are_below, expect


@dataclasses.dataclass
class Pack(ArrayStep):
    """Slots as an array: out[k] = slot[k]; `out` in C order, `slots` an int32 array."""

    out: View
    slots: np.ndarray

    plural = "packs"
    may_stop = False
    can_fold = True
    shares_memory = True
    needs_values = False
    file_fields = {"out": VIEW, "slots": SLOTS}

    # --- what it reads and writes -------------------------------------------------------------

    @property
    def slots_read(self) -> list[np.ndarray]:
        return [self.slots]

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Pack:
        slots = self.slots if renumber is None else renumber(self.slots).astype(np.int32)
        return Pack(move(self.out), slots)

    # --- what passes ask ----------------------------------------------------------------------

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
