"""Images that are extended beyond their ends, and the transpose of that; batches of images."""

from __future__ import annotations

import functools
import importlib
import operator
from typing import Any

import numpy as np

from .filter_kernels import MODES

#: For the modes by number the mode of `np.pad` with the same elements; None for a constant.
_PADDING: tuple[Any, ...] = ("edge", "wrap", "symmetric", "reflect", None)


def in_ndimage(name: str):
    return getattr(importlib.import_module("scipy.ndimage"), name)


def sources(n: int, before: int, after: int, mode: int) -> np.ndarray:
    """The element of an axis that each of the extended axis is; −1 for a constant."""
    padding = _PADDING[mode]
    if padding is None:
        ends = [np.full(count, -1) for count in (before, after)]
        return np.concatenate([ends[0], np.arange(n), ends[1]])
    return np.pad(np.arange(n), (before, after), padding)


def ends_of(size: int, origin: int) -> tuple[int, int]:
    """How many elements before and after one its window has."""
    before = size // 2 + origin
    return before, size - 1 - before


def extended(x, axis: int, ends: tuple[int, int], mode: int, cval):
    found = np.moveaxis(x, axis, -1)
    if _PADDING[mode] is None:
        padding = [(0, 0)] * (x.ndim - 1) + [ends]
        found = np.pad(found, padding, constant_values=cval)
    else:
        found = found[..., sources(x.shape[axis], ends[0], ends[1], mode)]
    return np.moveaxis(found, -1, axis)


def folded(x, axis: int, ends, mode: int):
    """The transpose of `_extended`: what was added is added to the elements that it comes from."""
    x = np.moveaxis(x, axis, 0)
    n = x.shape[0] - sum(ends)
    out = x[ends[0] : ends[0] + n].copy()
    found = sources(n, ends[0], ends[1], mode)
    for k in (*range(ends[0]), *range(ends[0] + n, len(found))):
        if found[k] >= 0:
            out[found[k]] += x[k]
    return np.moveaxis(out, 0, axis)


def spread_out(g, sizes, correlate):
    """Σₖ wₖ gₚ₋ₖ for all p, by a correlation with the weights in opposite order from an origin."""
    wide = np.pad(g, [(0, size - 1) for size in sizes])
    return correlate(wide, [(size - 1) // 2 for size in sizes])


def line_back(g, window, axis: int, mode: int, correlate, is_even: bool):
    """The transpose of a filter along an axis: the ends alone have more to be added to.

    `window` is its size and origin; `is_even` says whether weights are the same from both ends.
    `correlate` is the filter with the weights in opposite order, from an origin, with zeros beyond
    the ends, or in another mode.
    """
    size, ends, n, axis = window[0], ends_of(*window), g.shape[axis], axis % g.ndim
    if _PADDING[mode] == "wrap" or (
        _PADDING[mode] == "symmetric" and is_even and ends[0] == ends[1]
    ):
        return correlate(g, ends[1] - size // 2, MODES[mode])
    sizes = [size if k == axis else 1 for k in range(g.ndim)]
    if n < 2 * size:
        wide = spread_out(g, sizes, lambda x, origins: correlate(x, origins[axis]))
        return folded(wide, axis, ends, mode)
    out = correlate(g, ends[1] - size // 2)
    if _PADDING[mode] is not None:
        found, to = sources(n, ends[0], ends[1], mode), np.moveaxis(out, axis, 0)
        before, after = (slice(0, ends[0]), slice(n - ends[1], n))
        for part, places in ((before, found[: ends[0]]), (after, found[n + ends[0] :])):
            strip = np.moveaxis(np.moveaxis(g, axis, 0)[part], 0, axis)
            wide = spread_out(strip, sizes, lambda x, origins: correlate(x, origins[axis]))
            wide = np.moveaxis(wide, axis, 0)
            beyond = wide[: ends[0]] if part is before else wide[size - 1 :][-len(places) :]
            for place, values in zip(places, beyond, strict=False):
                to[place] += values
    return out


def of_each(function, numbers, operands, **static):
    """A function for each element of a batch: `numbers` are those of the axes of each operand."""
    fronts = [x.shape[: x.ndim - n] for x, n in zip(operands, numbers, strict=True)]
    if not any(fronts):
        return function(*operands, **static)
    front = np.broadcast_shapes(*fronts)
    wide = [
        np.broadcast_to(x, (*front, *x.shape[x.ndim - n :]))
        for x, n in zip(operands, numbers, strict=True)
    ]
    made = [function(*[x[at] for x in wide], **static) for at in np.ndindex(front)]
    return np.reshape(np.stack(made), (*front, *made[0].shape))


def total(t, *parts):
    """The sum of what the tangents of operands contribute."""
    found = [part(one) for part, one in zip(parts, t, strict=True) if one is not None]
    return functools.reduce(operator.add, found)


def last_axes(ndim: int) -> tuple[int, ...]:
    return tuple(range(-ndim, 0))


def beside(x, ndim: int):
    """Numbers, which are multiplied with arrays of some axes."""
    return x[(..., *(None,) * ndim)]


def constants(np, x) -> tuple:
    """The images of zeros, and the numbers 0 and 1."""
    return np.zeros(x.shape, x.dtype), np.zeros((), x.dtype), np.ones((), x.dtype)
