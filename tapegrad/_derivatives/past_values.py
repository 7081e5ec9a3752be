"""Traversals of rows that find past values of buffers, at the time of each row.

A buffer that has been written since is copied when its values are first needed, and the newer
writes are undone in the copy; they are repeated there as the traversal proceeds. The memory of the
user's tensors is not changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.tape.tape import bounds
from .tape_traversal import Traversal, placed


class _Past:
    """A buffer as it was: a copy, and the writes that are not in it, oldest last."""

    def __init__(self, memory: np.ndarray):
        self.memory = memory
        self.newer: list[tuple[int, np.ndarray]] = []  # the row, and the value that it wrote


class Rewound(Traversal):
    """Rows with the values that they had read."""

    def __init__(self, stops):
        super().__init__(stops)
        self.now = -1  # the current row of the traversal
        self._pasts: dict[int, _Past] = {}

    def then(self, source: int, what):
        """The result of `read` as a plain value, at the time of the current row."""
        if source < 0:
            return what
        if what is None:
            return self.number(source)
        past = self._past(source)
        return what if past is None else placed(past.memory, self.base(source), what)

    def wrote(self, number: int) -> np.ndarray:
        """The value written by the current row of the traversal, which is a write."""
        past = self._past(self.reader.buffer_written(number))
        assert past is not None
        return past.newer[-1][1]

    def key(self, number: int, view: np.ndarray) -> tuple:
        """The key by which a write writes its view: all of it, or picked elements."""
        _, (_, kept), _, *picked = self.read(number)
        if not picked or not view.ndim:  # the one element without axes has no indices
            return (...,)
        positions = np.asarray(picked[0][1], np.int64)
        rows = view.shape[: view.ndim - (kept.ndim - positions.ndim)]
        return np.unravel_index(positions, rows)

    def _past(self, buffer: int) -> _Past | None:
        """The buffer as it was, None if it is so still."""
        past, now = self._pasts.get(buffer), self.reader.time(self.now)
        if past is None:
            writes = self.reader.writes(buffer)
            if not writes or self.reader.time(writes[-1]) < now:
                return None
            past = self._pasts[buffer] = _Past(self._copy(buffer))
            for number in reversed(writes):
                if self.reader.time(number) < now:
                    break
                place, key = self._place(buffer, number)
                past.newer.append((number, place[key].copy()))
                place[key] = self.read(number)[1][1]
        while past.newer and self.reader.time(past.newer[-1][0]) < now:
            number, after = past.newer.pop()
            place, key = self._place(buffer, number)
            place[key] = after
        return past

    def _copy(self, buffer: int) -> np.ndarray:
        base = self.base(buffer)
        low, high = bounds(base)
        memory = np.zeros((high - low) // base.itemsize if base.size else 0, base.dtype)
        placed(memory, base, base)[...] = base
        return memory

    def _place(self, buffer: int, number: int) -> tuple[np.ndarray, tuple]:
        """The place that a row writes in the copy of a buffer."""
        view = self.read(number)[0][1]
        return placed(self._pasts[buffer].memory, self.base(buffer), view), self.key(number, view)


class Before(Rewound):
    """One row in a sweep that has passed newer ones, with the values that it had read.

    The values written by those rows are not known any more, the replaced ones are.
    """

    def at(self, number: int) -> Before:
        """The same traversal at another row; found values are kept only from call to call."""
        self.now = number
        self._pasts = {}
        return self

    def value(self, number: int, source: int, what):
        """The operand that a row has read from another, as a plain value."""
        return self.then(source, what)

    def _stored(self, source: int) -> tuple[int, Any]:
        return super()._stored(source) if source >= 0 else (-1, None)

    @staticmethod
    def referred(what, source, tag):
        return Rewound.referred(what, max(int(source), -1), tag)
