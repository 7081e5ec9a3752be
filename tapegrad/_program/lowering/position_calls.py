"""Positions of elements as steps: what keys pick whose integers and masks a program computes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.ordering import STEERING
from ..ir.gather_step import Gather
from ..ir.kernel_step import Kernel
from ..ir.slots import slots_of
from ..ir.steps import View, contiguous
from . import intervals
from .call_lowering import Lowering
from .numpy_calls import Given, Result

_BOOL = np.dtype(bool)


def _wrapped(lower: Lowering, index: Given, n: int) -> View | None:
    """Indices along an axis of n elements, counted from its start; None if they may be outside."""
    if index.interval is None or not intervals.is_within(index.interval, (-n, n - 1)):
        return None
    view = index.slots(lower.writer)
    if index.interval[0] >= 0:
        return view
    from_end = lower.apply("add", view, float(n))
    return lower.apply("where", lower.apply("less", view, 0.0), from_end, view)


def _positions(lower: Lowering, shape: tuple[int, ...], key: tuple) -> Result | None:
    """Positions in C order for a key whose integers a program computes.

    The targets of the parts of a key, found by indexing arrays that vary along one axis only.
    """
    axes = _axes_of_key(key, len(shape))
    if axes is None or 0 in shape:
        return None
    fixed = tuple(_zeros_of(part) if isinstance(part, Given) else part for part in key)
    steps = contiguous(0, shape).strides
    places = slots_of(contiguous(0, shape))
    parts = [lower.constant(places[fixed])] if places[fixed].any() else []
    for k, (part, axis) in enumerate(zip(key, axes, strict=True)):
        if not isinstance(part, Given):
            continue
        index = _wrapped(lower, part, shape[axis])
        if index is None:
            return None
        count = max(index.size, 1)
        numbers = np.arange(count).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        along = (*shape[:axis], count, *shape[axis + 1 :])
        chosen = (*fixed[:k], np.arange(index.size).reshape(index.shape), *fixed[k + 1 :])
        spread = lower.picked(index, np.broadcast_to(numbers, along)[chosen])
        far = steps[axis] != 1
        parts.append(lower.apply("multiply", spread, float(steps[axis])) if far else spread)
    total = functools.reduce(lambda x, y: lower.apply("add", x, y), parts)
    return Result(total, (0, math.prod(shape) - 1))


def _zeros_of(part: Given) -> np.ndarray:
    assert part.view is not None
    return np.zeros(part.view.shape, np.int64)


def _axes_of_key(key: tuple, ndim: int) -> list | None:
    """The axis that each part of a key picks from; None where masks are among its parts."""
    for part in key:
        if isinstance(part, Given) and part.dtype.kind not in "iu":
            return None
        if not isinstance(part, (Given, slice, int, np.integer, np.ndarray, type(None), type(...))):
            return None
        if isinstance(part, (bool, np.ndarray)) and np.asarray(part).dtype == bool:
            return None
    picks = [part is not None and part is not ... for part in key]
    found, axis = [], 0
    for k, part in enumerate(key):
        found.append(axis)
        axis += ndim - sum(picks) if part is ... else picks[k]
    return found


def key_positions(lower: Lowering, *parts, shape, is_tuple) -> Result | None:
    (first, *others) = parts
    if not others and isinstance(first, Given) and first.dtype == _BOOL:
        return _mask_positions(lower, first, shape)
    return _positions(lower, shape, parts)


def _mask_positions(lower: Lowering, mask: Given, shape) -> Result | None:
    """Positions of a mask, as many as when it was recorded: that is checked before."""
    view = mask.slots(lower.writer)
    if view.shape != shape:
        return None
    made = lower.writer.buffers.allocate(lower.out.shape)
    lower.writer.steps.append(Kernel(STEERING["mask_positions"].code, [view], made))
    return Result(made, (0, max(view.size - 1, 0)))


def _taken(lower: Lowering, indices: Given, shape, axis, mode) -> Result | None:
    """Positions of the rows that `take` picks."""
    n, shape = shape[axis], shape[: axis + 1]
    if mode == "clip" and n:
        view = lower.apply("maximum", indices.slots(lower.writer), 0.0)
        view = lower.apply("minimum", view, n - 1.0)
        indices = Given(view, None, indices.dtype, (0, n - 1))
    elif mode == "wrap" and n:
        inside = lower.apply("remainder", indices.slots(lower.writer), float(n))
        indices = Given(lower.apply("add", inside, 0.0), None, indices.dtype, (0, n - 1))
    return _positions(lower, shape, (*[slice(None)] * axis, indices))


def _taken_along(lower: Lowering, indices: Given, shape, axis) -> Result | None:
    ndim, axis = len(shape), axis % len(shape)
    key: list[Any] = [
        np.arange(n).reshape((-1,) + (1,) * (ndim - k - 1)) for k, n in enumerate(shape)
    ]
    key[axis] = indices
    return _positions(lower, shape, tuple(key))


def _placed(lower: Lowering, positions: Given, places) -> Result | None:
    """Elements of a constant array at positions, flat."""
    view = positions.slots(lower.writer)
    inside = positions.interval is not None and intervals.is_within(
        positions.interval, (0, places.size - 1)
    )
    if not inside:
        return None
    made = lower.writer.buffers.allocate((view.size,))
    lower.writer.steps.append(Gather(made, lower.constant(places), view))
    return Result(made, intervals.of_values(places))


def _repeated(lower: Lowering, positions: Given, directions, size) -> Result | None:
    """Positions in contiguous arrays, in each of them."""
    if positions.interval is None:
        return None
    view = positions.slots(lower.writer)
    flat = lower.picked(view, np.arange(view.size))
    starts = size * np.arange(directions, dtype=np.float64)[:, None]
    low, high = positions.interval
    made = lower.apply("add", flat, lower.constant(starts))
    return Result(made, (low, high + size * (directions - 1)))


def _elements_of_rows(lower: Lowering, picked: Given, shape) -> Result | None:
    """Positions of all elements of rows at positions."""
    view, size = picked.slots(lower.writer), math.prod(shape)
    if picked.interval is None or not view.size or not size:
        return None
    width, (low, high) = size // view.size, picked.interval
    flat = lower.picked(view, np.arange(view.size))
    first = View(flat.offset, (view.size, 1), (*flat.strides, 0), flat.base)
    each = lower.constant(np.arange(width))
    made = lower.apply("add", lower.apply("multiply", first, float(width)), each)
    return Result(slots_of(made).reshape(shape), (low * width, high * width + width - 1))


#: Functions by their names in files.
HANDLERS: dict[str, Callable[..., Result | None]] = {
    "extremes.rows_taken": _taken,
    "extremes.taken_along": _taken_along,
    "indexing.positions_of": key_positions,
    "indexing.positions_of_elements": _elements_of_rows,
    "unwritten.places": _placed,
    "tangent_rules.repeated": _repeated,
}
