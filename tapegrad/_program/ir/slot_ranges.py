"""Sets of slots as ranges: what is asked of arrays costs the same however large they are."""

from __future__ import annotations

import bisect
import mmap
from typing import Any

import numpy as np

from ..._core.remembered import remembered


def mostly_zeros(count: int, dtype: type) -> np.ndarray:
    """Zeros by slot, of which few are written or read: the others take neither time nor memory."""
    memory = mmap.mmap(-1, max(count, 1) * np.dtype(dtype).itemsize)
    found: np.ndarray = np.frombuffer(memory, dtype, count)
    return found


class Ranges:
    """A set of slots, given as ranges from `low` to before `high` in any order.

    `edges` are the first slot and the one after the last of each range, in order; no two touch.
    """

    def __init__(self, low, high):
        low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
        low, high = low[low < high], high[low < high]
        order = np.argsort(low, kind="stable")
        low, high = low[order], np.maximum.accumulate(high[order])
        begins = np.flatnonzero(np.append(True, low[1:] > high[:-1])[: len(low)])
        ends = np.append(begins[1:], len(low))[: len(begins)] - 1
        self.edges = np.stack([low[begins], high[ends]], 1).ravel()

    @remembered
    def listed(self) -> list[int]:
        """The edges as numbers of Python, in which single slots are found faster."""
        return self.edges.tolist()

    def __bool__(self) -> bool:
        return len(self.edges) > 0

    # --- questions about many slots -----------------------------------------------------------

    def hold(self, slots: np.ndarray) -> np.ndarray:
        """Which slots are in the set."""
        return (np.searchsorted(self.edges, slots, side="right") & 1).astype(bool)

    def meet(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Which of the spans from `low` to before `high` have a slot in the set."""
        first = np.searchsorted(self.edges, low, side="right")
        last = np.searchsorted(self.edges, high, side="left")
        return (low < high) & ((first & 1 == 1) | (last > first))

    def cover(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Which of these spans have all their slots in the set."""
        first = np.searchsorted(self.edges, low, side="right")
        last = np.searchsorted(self.edges, high, side="left")
        return (low >= high) | ((first & 1 == 1) & (last == first))

    # --- questions about one view -------------------------------------------------------------

    def meets(self, view: Any) -> bool:
        """Whether a slot between the ends of a view is in the set."""
        (low, high), edges = view.extent, self.listed
        first = bisect.bisect_right(edges, low)
        return low < high and bool(first & 1 or (first < len(edges) and edges[first] < high))

    def covers(self, view: Any) -> bool:
        """Whether all slots between the ends of a view are in the set."""
        (low, high), edges = view.extent, self.listed
        first = bisect.bisect_right(edges, low)
        return low >= high or bool(first & 1 and edges[first] >= high)


class Shifts:
    """New places of slots: those from `starts[k]` on are moved by `by[k]`; −1 is no slot.

    `starts` are in order, and slots before the first stay.
    """

    def __init__(self, starts, by):
        self.starts = np.append(0, starts).astype(np.int64)
        self.by = np.append(0, by).astype(np.int64)
        self._starts, self._by = self.starts.tolist(), self.by.tolist()

    @classmethod
    def of(cls, low, high, by) -> Shifts:
        """Those of ranges in order from `low` to before `high`; slots between them stay."""
        starts = np.stack([low, high], 1).ravel()
        return cls(starts, np.stack([by, np.zeros_like(by)], 1).ravel())

    def place(self, slot: int) -> int:
        """The new place of a slot."""
        return slot + self._by[bisect.bisect_right(self._starts, slot) - 1] if slot >= 0 else slot

    def __call__(self, slots: np.ndarray) -> np.ndarray:
        """The new places of slots."""
        at = np.searchsorted(self.starts, slots, side="right") - 1
        return np.where(slots >= 0, slots + self.by[at], slots)


class Chain:
    """New places of slots by one after the other of two of these."""

    def __init__(self, first: Shifts, second: Shifts):
        self.first, self.second = first, second

    def place(self, slot: int) -> int:
        """The new place of a slot."""
        return self.second.place(self.first.place(slot))

    def __call__(self, slots: np.ndarray) -> np.ndarray:
        """The new places of slots."""
        return self.second(self.first(slots))
