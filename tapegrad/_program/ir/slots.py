"""Views as slots, and slots as views."""

from __future__ import annotations

import numpy as np

from .steps import View, contiguous

#: The first slot of arrays of constants while a program is read: they lie behind all others.
CONSTANTS = 1 << 30


def slots_of(view: View) -> np.ndarray:
    """The slots of a view, in its shape."""
    if view.is_contiguous:
        return np.arange(view.offset, view.offset + view.size).reshape(view.shape)
    total = np.array(view.offset)
    for n, stride in zip(view.shape, view.strides, strict=True):
        total = total[..., None] + np.arange(n) * stride
    return total


def pattern(slots: np.ndarray) -> View | None:
    """Slots as a view, if they are one."""
    if not slots.size:
        return contiguous(0, slots.shape)
    corner = (0,) * slots.ndim
    first = slots.item(corner)
    strides = [
        slots.item((*corner[:axis], 1, *corner[axis + 1 :])) - first if n > 1 else 0
        for axis, n in enumerate(slots.shape)
    ]
    found = View(first, slots.shape, tuple(strides))
    if slots.size > 1 and not (slots == slots_of(found)).all():
        return None
    low, high = found.extent
    if (low < 0 and any(strides)) or low < CONSTANTS < high:
        return None  # constants: their places are not known yet
    return found
