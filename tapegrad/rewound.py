"""Floor 5: a walk forwards over rows that finds buffers as they were at the time of each row.

The walk starts from copies of the written buffers with their oldest values, and does the writes
again as it meets them. The memory of the user's tensors is not touched.
"""

from __future__ import annotations

import numpy as np

from .tape.tape import bounds
from .walk import Walk, placed


class Rewound(Walk):
    """Rows with the values that they had read."""

    def __init__(self, stops):
        super().__init__(stops)
        self.written: dict[int, list[int]] = {}  # buffer → rows that write it
        self._memory: dict[int, np.ndarray] = {}  # buffer → its values at the time of the walk
        self._after: dict[int, np.ndarray] = {}  # write → what it wrote

    def then(self, source: int, what):
        """What `read` has found, as a plain value of that time."""
        if source < 0:
            return what
        if what is None:
            return self.number(source)
        memory = self._memory.get(source)
        return what if memory is None else placed(memory, self.base(source), what)

    def key(self, number: int, view: np.ndarray) -> tuple:
        """The key by which a write writes its view: all of it, or picked elements."""
        picked = self.read(number)[3:]
        return np.unravel_index(picked[0][1], view.shape) if picked else (...,)

    def rewind(self, numbers) -> None:
        """Note the writes, and give their buffers the values before the first."""
        writes = [n for n in numbers if self.reader.buffer_written(n) >= 0]
        for number in writes:
            self.written.setdefault(self.reader.buffer_written(number), []).append(number)
        for buffer in self.written:
            base = self.base(buffer)
            low, high = bounds(base)
            memory = np.zeros((high - low) // base.itemsize if base.size else 0, base.dtype)
            placed(memory, base, base)[...] = base
            self._memory[buffer] = memory
        for number in reversed(writes):
            (buffer, view), (_, kept), *_ = self.read(number)
            now, key = self.then(buffer, view), self.key(number, view)
            self._after[number] = now[key].copy()
            now[key] = kept

    def write_again(self, number: int) -> None:
        """Do the write of a row, if it is one."""
        if number in self._after:
            buffer, view = self.read(number)[0]
            self.then(buffer, view)[self.key(number, view)] = self._after[number]
