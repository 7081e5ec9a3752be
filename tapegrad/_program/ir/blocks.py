"""Blocks of the shape of an element-wise step, and the part of each view in a block.

Axes that all views traverse as one are one axis. A block is a number of elements, in C order, of
the `inner` axes: the last ones that have enough elements for a block. It never crosses the `outer`
axes before them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable

from .steps import View, in_order

#: Elements that make a block worth its calls: fewer, and it runs along one more axis.
ENOUGH = 128
#: The layout of a view in a block: contiguous; one element for all; otherwise.
LINE, ONE, SCATTERED = range(3)


def joined(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """The remaining axes, and their lengths: each includes the merged ones before it."""
    kept: list[int] = []
    sizes: list[int] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        if kept and all(s[kept[-1]] == n * s[axis] for s in strides):
            kept.pop()
            n *= sizes.pop()
        kept.append(axis)
        sizes.append(n)
    return kept, sizes


@dataclasses.dataclass(frozen=True)
class Cut:
    """`axes` are the remaining ones of the shape (see `joined`), the first of them outer ones."""

    outer: tuple[int, ...]
    inner: tuple[int, ...]
    axes: tuple[int, ...]
    _ways: dict[tuple[int, ...], int] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def groups(self) -> int:
        return math.prod(self.outer)

    @property
    def size(self) -> int:
        """Elements of the inner axes."""
        return math.prod(self.inner)

    def outer_strides(self, view: View) -> tuple[int, ...]:
        return tuple(view.strides[axis] for axis in self.axes[: len(self.outer)])

    def inner_strides(self, view: View) -> tuple[int, ...]:
        return tuple(view.strides[axis] for axis in self.axes[len(self.outer) :])

    def way(self, view: View) -> int:
        """How a view lies in a block: views with the same strides lie alike; rows are scattered."""
        if view.base < 0:
            return SCATTERED
        found = self._ways.get(view.strides)
        if found is None:
            found = self._ways[view.strides] = self._way(view)
        return found

    def _way(self, view: View) -> int:
        strides = self.inner_strides(view)
        if in_order(self.inner, strides):
            return LINE
        return SCATTERED if any(strides) else ONE


def cut(shape: tuple[int, ...], views: Iterable[View]) -> Cut:
    """The cut of a step over a shape that reads and writes these views."""
    axes, sizes = joined(shape, list({view.strides for view in views}))
    before = len(sizes)
    while before > 0 and math.prod(sizes[before:]) < ENOUGH:
        before -= 1
    return Cut(tuple(sizes[:before]), tuple(sizes[before:]), tuple(axes))


def is_injective(view: View) -> bool:
    """Whether each element is known to have a slot of its own."""
    return not view.size or _is_injective(view.shape, view.strides)


@functools.lru_cache(4096)
def _is_injective(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    reach = 0
    axes = zip(strides, shape, strict=True)
    for stride, n in sorted((abs(stride), n) for stride, n in axes if n > 1):
        if stride <= reach:
            return False
        reach += (n - 1) * stride
    return True


def covering(view: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides that reach each slot of a view, with as few axes as possible."""
    axes = [(s, n) for s, n in zip(view.strides, view.shape, strict=True) if n != 1 and s]
    axes.sort(key=lambda axis: -abs(axis[0]))
    strides = tuple(stride for stride, _ in axes)
    kept, sizes = joined(tuple(n for _, n in axes), [strides])
    return tuple(sizes), tuple(strides[axis] for axis in kept)
