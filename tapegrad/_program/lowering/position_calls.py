"""Positions of elements as steps: what keys pick whose integers and masks a program computes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.moving_step import Gather
from ..ir.steps import View, contiguous
from ..ir.uses import slots_of
from ..replay.operation_parts import LARGEST
from . import builder
from .call_lowering import Lowering
from .numpy_calls import Given, Result

_BOOL = np.dtype(bool)


def _is_inside(index: Given, n: int) -> bool:
    """Whether indices are known to be along an axis of n elements."""
    return index.interval is not None and builder.is_within(index.interval, (-n, n - 1))


def _counted(lower: Lowering, index: Given, n: int) -> View:
    """Indices along an axis of n elements, counted from its start.

    Those outside become places that no array has: what reads or writes there stops the program,
    and checks of integers do. Such results have no interval.
    """
    view = index.slots(lower.writer)
    if index.interval is not None and builder.is_within(index.interval, (0, n - 1)):
        return view
    return lower.apply("index", view, float(n))


def _positions(lower: Lowering, shape: tuple[int, ...], key: tuple) -> Result | None:
    """Positions in C order for a key whose integers a program computes.

    The targets of the parts of a key, found by indexing arrays that vary along one axis only.
    """
    found = _without_masks(lower, shape, key)
    if found is None or not 0 < math.prod(shape) <= LARGEST[lower.writer.dtype.itemsize]:
        return None
    shape, key, axes = found
    fixed = tuple(_zeros_of(part) if isinstance(part, Given) else part for part in key)
    steps = contiguous(0, shape).strides
    places = slots_of(contiguous(0, shape))
    parts = [lower.constant(places[fixed])] if places[fixed].any() else []
    for k, (part, axis) in enumerate(zip(key, axes, strict=True)):
        if not isinstance(part, Given):
            continue
        index = _counted(lower, part, shape[axis])
        count = max(index.size, 1)
        numbers = np.arange(count).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        along = (*shape[:axis], count, *shape[axis + 1 :])
        chosen = (*fixed[:k], np.arange(index.size).reshape(index.shape), *fixed[k + 1 :])
        spread = lower.picked(index, np.broadcast_to(numbers, along)[chosen])
        far = steps[axis] != 1
        parts.append(lower.apply("multiply", spread, float(steps[axis])) if far else spread)
    total = functools.reduce(lambda x, y: lower.apply("add", x, y), parts)
    given = [(x, shape[axis]) for x, axis in zip(key, axes, strict=True) if isinstance(x, Given)]
    is_inside = all([_is_inside(x, n) for x, n in given])
    return Result(total, (0, math.prod(shape) - 1) if is_inside else None)


def _zeros_of(part: Given) -> np.ndarray:
    return np.zeros(part.shape, np.int64)


def _without_masks(lower: Lowering, shape: tuple[int, ...], key: tuple):
    """A shape, a key, and the axis that each of its parts picks from.

    The axes that a mask picks from are one in this shape, and the mask the indices along that. None
    for parts that are neither slices nor arrays.
    """
    parts = [np.asarray(part) if isinstance(part, list) else part for part in key]
    if not all(map(_is_known, parts)):
        return None
    picks = [_axes_picked(part) for part in parts]
    new, axes, axis = list(shape), [], 0
    for k, part in enumerate(parts):
        axes.append(axis)
        if _is_mask(part):
            sizes = tuple(new[axis : axis + picks[k]])
            if not sizes or sizes != part.shape:
                return None
            new[axis : axis + picks[k]] = [math.prod(sizes)]
            parts[k] = _picked(lower, part)
            axis += 1
        else:
            axis += len(shape) - sum(picks) if part is ... else picks[k]
    return tuple(new), tuple(parts), axes


def _is_known(part) -> bool:
    """Whether a part of a key is a slice, an integer, or an array of integers or masks."""
    if isinstance(part, (Given, np.ndarray)):
        return part.dtype.kind in "biu"
    kinds = (slice, int, np.integer, type(None), type(...))
    return isinstance(part, kinds) and not isinstance(part, bool)


def _axes_picked(part) -> int:
    """How many axes a part of a key picks from; 0 for an ellipsis."""
    if part is None or part is ...:
        return 0
    return len(part.shape) if _is_mask(part) else 1


def _is_mask(part) -> bool:
    return isinstance(part, (Given, np.ndarray)) and part.dtype == _BOOL


def _picked(lower: Lowering, mask: Given | np.ndarray) -> Given | np.ndarray:
    """Where a mask holds, as many positions as when it was recorded: that is checked before."""
    if isinstance(mask, np.ndarray):
        return np.flatnonzero(mask)
    assert mask.seen is not None  # masks are never written to
    view = lower.true_places(mask, int(np.count_nonzero(mask.seen)))
    return Given(view, None, np.dtype(np.int64), (0, max(mask.seen.size - 1, 0)))


def key_positions(lower: Lowering, *parts, shape, is_tuple) -> Result | None:
    return _positions(lower, shape, parts)


def _taken(lower: Lowering, indices: Given, shape, axis, mode) -> Result | None:
    """Positions of the rows that `take` picks."""
    n, shape = shape[axis], shape[: axis + 1]
    if indices.dtype == _BOOL:
        return None
    if mode == "clip" and n:
        view = lower.apply("maximum", indices.slots(lower.writer), 0.0)
        view = lower.apply("minimum", view, n - 1.0)
        indices = Given(view, None, indices.dtype, (0, n - 1))
    elif mode == "wrap" and n:
        inside = lower.apply("remainder", indices.slots(lower.writer), float(n))
        indices = Given(lower.apply("add", inside, 0.0), None, indices.dtype, (0, n - 1))
    return _positions(lower, shape, (*[slice(None)] * axis, indices))


def _taken_along(lower: Lowering, indices: Given, shape, axis) -> Result | None:
    if indices.dtype == _BOOL:
        return None
    ndim, axis = len(shape), axis % len(shape)
    key: list[Any] = [
        np.arange(n).reshape((-1,) + (1,) * (ndim - k - 1)) for k, n in enumerate(shape)
    ]
    key[axis] = indices
    return _positions(lower, shape, tuple(key))


def _placed(lower: Lowering, positions: Given, places) -> Result | None:
    """Elements of a constant array at positions, flat."""
    view = positions.slots(lower.writer)
    made = lower.writer.buffers.allocate((view.size,))
    lower.writer.steps.append(Gather(made, lower.constant(places), view))
    return Result(made, builder.of_values(places))


def _repeated(lower: Lowering, positions: Given, directions, size) -> Result | None:
    """Positions in contiguous arrays, in each of them."""
    view = positions.slots(lower.writer)
    flat = lower.picked(view, np.arange(view.size))
    starts = size * np.arange(directions, dtype=np.float64)[:, None]
    made = lower.apply("add", flat, lower.constant(starts))
    inside = positions.interval
    if inside is not None:
        inside = inside[0], inside[1] + size * (directions - 1)
    return Result(made, inside)


def _put(lower: Lowering, indices: Given, size, mode) -> Result | None:
    """Positions in C order that `put` writes."""
    if mode != "raise" or indices.dtype.kind not in "iu" or not size:
        return None
    view = lower.within(indices.slots(lower.writer), -size, size - 1)
    flat = lower.picked(lower.apply("index", view, float(size)), np.arange(view.size))
    return Result(flat, (0, size - 1))


def _elements_of_rows(lower: Lowering, picked: Given, shape) -> Result | None:
    """Positions of all elements of rows at positions."""
    view, size = picked.slots(lower.writer), math.prod(shape)
    if not view.size or not size:
        return None
    width, inside = size // view.size, picked.interval
    flat = lower.picked(view, np.arange(view.size))
    first = View(flat.offset, (view.size, 1), (*flat.strides, 0), flat.base)
    each = lower.constant(np.arange(width))
    made = lower.apply("add", lower.apply("multiply", first, float(width)), each)
    if inside is not None:
        inside = inside[0] * width, inside[1] * width + width - 1
    return Result(slots_of(made).reshape(shape), inside)


#: Functions by their names in files.
HANDLERS: dict[str, Callable[..., Result | None]] = {
    "sorting.rows_taken": _taken,
    "inplace_functions.positions": _put,
    "sorting.taken_along": _taken_along,
    "indexing.positions_of": key_positions,
    "indexing.positions_of_elements": _elements_of_rows,
    "unwritten.places": _placed,
    "tangent_rules.repeated": _repeated,
}
