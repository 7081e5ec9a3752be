"""Positions of what an advanced key picks from an array: of whole rows where it takes all of them.

The axes of a key are the first ones of the array, without the last ones of which it takes all, in
order: what it picks are rows along these, by their positions among all rows in C order.
"""

from __future__ import annotations

import math

import numpy as np

from . import runtime as rt
from .buffer_pool import empty
from .copies import unlisted
from .trace import named, of_each, steered
from .values import array_of, dtype_of, is_recorded, is_tensor, plain_array, shape_of

#: Elements of rows from which on they are taken as such.
MANY = 1 << 10


def as_tuple(key) -> tuple:
    return key if isinstance(key, tuple) else (key,)


def axes_and_parts(shape, key) -> tuple[tuple[int, ...], tuple]:
    """The lengths of the axes of an advanced key, and its parts without what takes whole axes."""
    parts = as_tuple(key)
    while parts and _is_whole(parts[-1]):
        parts = parts[:-1]
    taken = len(as_tuple(key)) - len(parts)
    parts = parts[:-1] if parts[-1] is Ellipsis else parts
    if any(part is Ellipsis for part in parts):
        count = len(shape) - taken
    else:
        count = sum(map(_axes_of, parts))
    if not count or not math.prod(shape[count:]):
        return shape, as_tuple(key)
    return shape[:count], parts


def _is_whole(part) -> bool:
    return type(part) is slice and part.start is part.stop is part.step is None


def _axes_of(part) -> int:
    """The number of axes that a part of a key stands for."""
    if type(part) is np.ndarray:
        return part.ndim if part.dtype == bool else 1
    if part is None:
        return 0
    if isinstance(part, slice):
        return 1
    array = array_of(part) if is_tensor(part) else np.asarray(part)
    return array.ndim if array.dtype == bool else 1


def steered_positions(shape, key):
    """The `positions` of a key; in a trace, if it holds recorded tensors, a recorded tensor.

    They are those of rows.
    """
    axes, parts = axes_and_parts(shape, key)
    parts = tuple([unlisted(p) if isinstance(p, list) and p else p for p in parts])
    parts = tuple([plain_array(p) if isinstance(p, np.ndarray) else p for p in parts])
    for part in parts:
        if rt.trace() is not None and is_recorded(part) and dtype_of(part).kind == "b":
            rt.trace().learn(steered(np.count_nonzero, part), "how many a mask picks")
    return steered(_positions_of, *parts, shape=axes, is_tuple=len(parts) > 1)


def rows_at(array: np.ndarray, key) -> np.ndarray:
    """`array[key]`, which takes NumPy three times as long for rows by index."""
    if type(key) is not np.ndarray or key.dtype == bool or array.ndim < 2:
        return array[key]
    if not np.can_cast(key.dtype, np.intp):
        return array[key]
    if key.size * array.size < MANY * (len(array) or 1) or not array.flags.c_contiguous:
        return array[key]
    out = empty((*key.shape, *array.shape[1:]), array.dtype)
    low, high = key.min(), key.max()
    if low < -len(array) or high >= len(array):
        return array[key]  # raises NumPy's own error
    return np.take(array, key, axis=0, out=out, mode="wrap")


def of_elements(picked, shape: tuple[int, ...]):
    """The positions of all elements, in a shape, of the rows at positions."""
    same = shape_of(picked) == shape
    return picked if same else steered(_positions_of_elements, picked, shape=shape)


@named("indexing.positions_of_elements")
def _positions_of_elements(picked, shape):
    picked = np.asarray(picked, np.int64)
    width = math.prod(shape) // (picked.size or 1)
    return np.add.outer(picked * width, np.arange(width)).reshape(shape)


@named("indexing.positions_of")
def _positions_of(*parts, shape, is_tuple):
    return np.asarray(positions(shape, parts if is_tuple else parts[0]), order="C")


@of_each(_positions_of, "indexing.positions_of_each")
def _positions_of_each(*parts, shape, is_tuple, mapped):
    """A further index, of the element, comes first; with it NumPy puts index axes first."""
    count = next(len(part) for part, is_mapped in zip(parts, mapped, strict=True) if is_mapped)
    picks = [k for k, part in enumerate(parts) if isinstance(part, (np.ndarray, int, np.integer))]
    if any(np.asarray(parts[k]).dtype == bool for k in picks):
        each = [
            [p[n] if m else p for p, m in zip(parts, mapped, strict=True)] for n in range(count)
        ]
        return np.stack([_positions_of(*one, shape=shape, is_tuple=is_tuple) for one in each])
    ndim = max(np.ndim(parts[k]) - mapped[k] for k in picks)
    axes = [
        part.reshape(count, *[1] * (ndim + 1 - part.ndim), *part.shape[1:]) if is_mapped else part
        for part, is_mapped in zip(parts, mapped, strict=True)
    ]
    own = np.arange(count).reshape(count, *[1] * ndim)
    found = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), (count, *shape))
    found = found[(own, *axes)]
    before = 0 if picks[-1] - picks[0] >= len(picks) else _axes_before(parts, picks[0], len(shape))
    return np.moveaxis(found, range(1, 1 + ndim), range(1 + before, 1 + before + ndim))


def _axes_before(parts, stop: int, ndim: int) -> int:
    """The number of axes of the result before one of the parts of a key."""
    rest = ndim - sum(part is not None and part is not Ellipsis for part in parts)
    return sum(rest if part is Ellipsis else 1 for part in parts[:stop])


def positions(shape, key) -> np.ndarray:
    """Positions in C order of the elements that an advanced key picks from an array of `shape`."""
    size = int(np.prod(shape, dtype=np.int64))
    if isinstance(key, np.ndarray) and key.dtype == bool and key.shape == shape:
        return np.flatnonzero(key)
    if isinstance(key, np.ndarray) and key.dtype.kind in "iu" and len(shape) == 1:
        picked = key.astype(np.int64)
        low, high = picked.min(initial=0), picked.max(initial=0)
        if low < -size or high >= size:
            np.empty(size, np.uint8)[key]  # raises NumPy's own error
        return picked if low >= 0 else np.where(picked < 0, picked + size, picked)
    return np.arange(size, dtype=np.int64).reshape(shape)[key]
