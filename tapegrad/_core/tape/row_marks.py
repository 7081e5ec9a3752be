"""A mark for each row of the store, and one for each chunk (see `sweep.marking`)."""

from __future__ import annotations

import numpy as np

from ..codegen import layout


class Marks:
    """A byte in `rows` for each row of a number of chunks, at its id; 0 at first.

    The marks of the chunks lie before them, backwards.
    """

    def __init__(self, slots: int):
        before = -(-slots // layout.CACHE_LINE) * layout.CACHE_LINE
        memory = np.zeros(before + (slots << layout.ROWS_BITS), np.uint8)
        self.rows = memory[before:]
        self._chunks = memory[before - 1 :: -1]
        self.address = self.rows.ctypes.data

    def mark(self, numbers: list[int]) -> None:
        """Mark some rows."""
        ids = np.array(numbers, np.int64)
        self.rows[ids] = self._chunks[ids >> layout.ROWS_BITS] = 1

    def has(self, slot: int) -> bool:
        """Whether a row of a chunk is marked."""
        return bool(self._chunks[slot])
