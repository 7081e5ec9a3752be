"""Views of steps as columns: the slots between their ends, for questions about all of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

#: What a view of another base than the arena has for its ends: slot 0, which is of no value.
_ELSEWHERE = (0, 1)


class Spans:
    """Views of steps, given as a list for each, from slot `low` to before `high`.

    `step` is the number of the step of each.
    """

    def __init__(self, steps: list[list[Any]]):
        self.views = list(itertools.chain.from_iterable(steps))
        ends = [_ELSEWHERE if view.base else view.extent for view in self.views]
        flat = np.fromiter(itertools.chain.from_iterable(ends), np.int64, 2 * len(ends))
        self.low, self.high = flat.reshape(-1, 2).T
        self.count = len(steps)
        self.step = np.repeat(np.arange(self.count), [len(views) for views in steps])

    @property
    def lengths(self) -> np.ndarray:
        """How many slots are between the ends of each view."""
        return self.high - self.low

    def steps_of(self, which: np.ndarray) -> np.ndarray:
        """By step, whether it has a view among those that are marked."""
        found = np.zeros(self.count, bool)
        found[self.step[which]] = True
        return found

    def overlapped(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Which of these views, of which no two overlap, overlap others with the given ends."""
        low, high = low[low < high], high[low < high]
        order = np.lexsort((self.high, self.low))  # those without elements before the next ones
        first = np.searchsorted(self.high[order], low, side="right")
        after = np.searchsorted(self.low[order], high, side="left")
        counts = np.zeros(len(order) + 1, np.int64)
        for at, sign in ((first, 1), (after, -1)):
            counts += sign * np.bincount(at, minlength=len(counts))
        found = np.empty(len(order), bool)
        found[order] = np.cumsum(counts[:-1]) > 0
        return found & (self.low < self.high)
