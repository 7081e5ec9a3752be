"""Views as the slots that they see, and slots as views."""

from __future__ import annotations

import numpy as np

from .steps import View, contiguous


def slots_of(view: View) -> np.ndarray:
    """The slots of a view, in its shape."""
    total = np.full((), view.offset, np.int64)
    for n, stride in zip(view.shape, view.strides, strict=True):
        total = total[..., None] + np.arange(n) * stride
    return total


def pattern(slots: np.ndarray) -> View | None:
    """Slots as a view, if they are one."""
    if not slots.size:
        return contiguous(0, slots.shape)
    corner = (0,) * slots.ndim
    first = int(slots[corner])
    strides, expected = [], np.int64(first)
    for axis, n in enumerate(slots.shape):
        step = 0
        if n > 1:
            step = int(slots[(*corner[:axis], 1, *corner[axis + 1 :])]) - first
        strides.append(step)
        expected = np.add.outer(expected, np.arange(n) * step)
    if not np.array_equal(slots, expected):
        return None
    lowest = first + sum(min(0, (n - 1) * s) for n, s in zip(slots.shape, strides, strict=True))
    if lowest < 0 and slots.size > 1 and any(strides):
        return None  # constants: their places are not known yet
    return View(first, slots.shape, tuple(strides))
