"""Views of arrays as views of slots: outputs assembled from parts, broadcasting."""

from __future__ import annotations

import bisect

import numpy as np

from ..._core.tape.memory_order import memory_of
from ..ir.blocks import is_injective
from ..ir.steps import View


class Target:
    """The output of a link: how often each element is reached."""

    def __init__(self, out: np.ndarray):
        self.out = out
        self.counts = np.zeros(out.size, np.int64)
        self.repeats = False

    def part(self, flat: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """The part of an array like the output for a view of the output."""
        return self.view(View(0, (), ()), shown).of(flat.reshape(-1))

    def _offset(self, shown: np.ndarray) -> int:
        return (memory_of(shown) - memory_of(self.out)) // self.out.itemsize

    def view(self, made: View, shown: np.ndarray) -> View:
        """The slots that a view of the output sees."""
        size = self.out.itemsize
        steps = tuple([stride // size for stride in shown.strides])
        return View(made.offset + self._offset(shown), shown.shape, steps)

    def count(self, shown: np.ndarray) -> None:
        """Note that a part is added to a view of the output."""
        if not shown.size:
            return
        if not is_injective(self.view(View(0, (), ()), shown)):
            self.repeats = True  # one value repeated, or windows that overlap
        else:
            self.part(self.counts, shown)[...] += 1

    def is_covered_at_most_once(self) -> bool:
        return not self.repeats and bool((self.counts <= 1).all())


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
    extra = len(shape) - len(view.shape)
    strides = [0] * extra + [
        0 if n == 1 else step for n, step in zip(view.shape, view.strides, strict=True)
    ]
    return View(view.offset, tuple(shape), tuple(strides), view.base)
