"""Calls without derivative written as steps: what all of them are written with."""

from __future__ import annotations

import math

import numpy as np

from ..._core.ops.ordering import STEERING, searching
from ..._core.ops.table import TABLE
from ..ir.kernel_step import Kernel
from ..ir.moving_step import Link
from ..ir.steps import View, contiguous
from ..ir.uses import slots_of
from .builder import Writer, broadcast
from .numpy_calls import Given

_BOOL = np.dtype(bool)


class Lowering:
    """A call, written as steps; `out` is its recorded result."""

    def __init__(self, writer: Writer, out: np.ndarray):
        self.writer, self.out = writer, out

    def apply(self, name: str, *operands: View | float) -> View:
        """An element-wise operation of views and numbers."""
        op = STEERING.get(name) or TABLE[name]
        views = [x if isinstance(x, View) else self.constant(x) for x in operands]
        shape = np.broadcast_shapes(*[view.shape for view in views])
        return self.writer.together(self.writer.apply(op.code, views, shape))

    def constant(self, values) -> View:
        return self.writer.constant_array(np.asarray(values, self.writer.dtype))

    def mask(self, x: Given) -> View:
        """1 where x is true, else 0."""
        view = x.slots(self.writer)
        return view if x.dtype == _BOOL else self.apply("not_equal", view, 0.0)

    def total(self, view: View, axes: tuple[int, ...], keepdims: bool) -> View:
        """Sums along axes."""
        kept = tuple(1 if k in axes else n for k, n in enumerate(view.shape))
        made = self.writer.buffers.allocate(kept)
        self.writer.steps.append(Link(made, [(broadcast(made, view.shape), view)]))
        shape = tuple(n for k, n in enumerate(view.shape) if k not in axes)
        return made if keepdims else contiguous(made.offset, shape)

    def reduction(self, name: str, view: View, axes: tuple[int, ...], keepdims: bool) -> View:
        """The result of a kernel along axes."""
        kept = [k for k in range(len(view.shape)) if k not in axes]
        moved = _transposed(view, [*kept, *axes])
        shape = [n if k in kept else 1 for k, n in enumerate(view.shape) if keepdims or k in kept]
        made = self.writer.buffers.allocate(tuple(shape))
        op = STEERING.get(name) or TABLE[name]
        lines = math.prod(moved.shape[len(kept) : -1])
        self.writer.steps.append(Kernel(op.code, [moved, lines], made))
        return made

    def along(self, name: str, view: View, axis: int) -> View:
        """The result of a kernel for each line along an axis, in the shape of the view."""
        order = [*[k for k in range(len(view.shape)) if k != axis], axis]
        made = self.writer.buffers.allocate(view.shape)
        op = STEERING.get(name) or TABLE[name]
        operands = [_transposed(view, order), 1, _transposed(made, order)]
        self.writer.steps.append(Kernel(op.code, operands, made))
        return made

    def within(self, view: View, least: int, greatest: int) -> View:
        """Numbers without their fractions; the program stops where one is outside."""
        made = self.writer.buffers.allocate(view.shape)
        operands = [view, least, greatest]
        self.writer.steps.append(Kernel(STEERING["whole"].code, operands, made))
        return made

    def true_places(self, x: Given, count: int) -> View:
        """The positions in C order at which elements are not 0, which are so many."""
        made = self.writer.buffers.allocate((count,))
        operands = [x.slots(self.writer)]
        self.writer.steps.append(Kernel(STEERING["mask_positions"].code, operands, made))
        return made

    def searched(self, array: View, values: View, side: str) -> View:
        """Where values belong in a sorted array."""
        made = self.writer.buffers.allocate(values.shape)
        operands = [array, values, searching(side)]
        self.writer.steps.append(Kernel(STEERING["searchsorted"].code, operands, made))
        return made

    def picked(self, view: View, places: np.ndarray) -> View:
        """Elements of a view, by their numbers in C order."""
        return self.writer.together(slots_of(view).ravel()[places])


def _transposed(view: View, order: list[int]) -> View:
    shape = tuple(view.shape[k] for k in order)
    return View(view.offset, shape, tuple(view.strides[k] for k in order), view.base)


def axes_of(axis, ndim: int) -> tuple[int, ...]:
    if axis is None or not ndim:  # what has no axes is reduced along axis 0, too
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted(int(one) % ndim for one in axes))


def size_along(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return math.prod(shape[k] for k in axes)
