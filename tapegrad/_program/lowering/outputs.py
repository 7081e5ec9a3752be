"""Views of arrays as views of slots: outputs assembled from parts, broadcasting."""

from __future__ import annotations

import bisect
import functools

import numpy as np

from ..._core.tape.memory_order import memory_of
from ..ir.blocks import is_injective
from ..ir.steps import View


class Target:
    """The output of a link, and views of it."""

    def __init__(self, out: np.ndarray):
        self.out, self.start, self.item = out, memory_of(out), out.itemsize

    def view(self, shown: np.ndarray, first: int = 0) -> View:
        """The slots that a view of the output sees, where that begins at the slot `first`."""
        item = self.item
        steps = tuple([stride // item for stride in shown.strides])
        return View(first + (memory_of(shown) - self.start) // item, shown.shape, steps)

    def left_out(self, views: list[View]) -> np.ndarray | None:
        """The elements that no view of the output reaches; None if several reach some."""
        counts = np.zeros(self.out.size, np.int64)
        for view in views:
            if not is_injective(view):
                return None  # one value repeated, or windows that overlap
            view.of(counts)[...] += 1
        return None if (counts > 1).any() else np.flatnonzero(counts == 0)


class Originals:
    """The contents of buffers before recorded writes: pairs of a buffer and its old content."""

    def __init__(self, pairs: list[tuple[np.ndarray, np.ndarray]]):
        self.pairs = sorted(pairs, key=lambda pair: memory_of(pair[0]))
        self.starts = [memory_of(owner) for owner, _ in self.pairs]

    def of(self, array: np.ndarray) -> np.ndarray:
        """An array as it was when it was read, also if it is part of such a buffer."""
        k = bisect.bisect_right(self.starts, memory_of(array)) - 1
        if k < 0:
            return array
        owner, content = self.pairs[k]
        offset = memory_of(array) - self.starts[k]
        if offset >= owner.nbytes:
            return array
        start = content.reshape(-1)[offset // owner.itemsize :]
        return np.lib.stride_tricks.as_strided(start, array.shape, array.strides)


def broadcast(view: View, shape) -> View:
    """A view as seen from a shape that it broadcasts to."""
    if view.shape == shape and 1 not in shape:
        return view
    shape = tuple(shape)
    return View(view.offset, shape, _strides_in(shape, view.shape, view.strides), view.base)


@functools.lru_cache(4096)
def _strides_in(shape: tuple, of: tuple, strides: tuple) -> tuple[int, ...]:
    """The strides of an array as seen from a shape that it broadcasts to."""
    own = [0 if n == 1 else step for n, step in zip(of, strides, strict=True)]
    return (0,) * (len(shape) - len(of)) + tuple(own)
