"""The order of an array's axes in memory, and arrays with the layout of others."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..codegen import layout


def memory_of(array: np.ndarray) -> int:
    """The address of the first element of an array; `array.ctypes` takes ten times as long."""
    return ctypes.c_int64.from_address(id(array) + layout.ARRAY_DATA).value


def memory_axes(array: np.ndarray) -> tuple[int, ...] | None:
    """The axes of an array, those of the largest strides first; None if it is in C order.

    An array without gaps is in C order if its axes are transposed so.

    >>> memory_axes(np.zeros((2, 3), order="F"))
    (1, 0)
    """
    if array.flags.c_contiguous:
        return None
    strides = array.strides
    return tuple(sorted(range(array.ndim), key=lambda axis: -abs(strides[axis])))


def copy_axes(array: np.ndarray) -> tuple[int, ...] | None:
    """As `memory_axes`, for the copy np.array(array, order="K")."""
    if array.flags.c_contiguous:
        return None
    return memory_axes(np.empty_like(array, order="K", subok=False))


def inverse(axes) -> tuple[int, ...]:
    """The axes that bring an array transposed by `axes` back to its own order."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def dense(array: np.ndarray) -> np.ndarray:
    """The array, or if its elements are not contiguous a copy of it in its order."""
    axes = memory_axes(array)
    if axes is None or array.transpose(axes).flags.c_contiguous:
        return array
    return np.array(array, order="K")


def copied(array: np.ndarray, axes, dtype=None) -> np.ndarray:
    """A copy of an array, in another dtype perhaps, whose `memory_axes` are those given."""
    if axes is None:
        return np.array(array, dtype, order="C")
    return np.array(array.transpose(axes), dtype, order="C").transpose(inverse(axes))


def laid_like(memory: np.ndarray, array: np.ndarray, count: int) -> Any:
    """Memory as `count` consecutive arrays with the layout of a dense `array`.

    The result has them one after the other along a first axis.
    """
    axes = memory_axes(array)
    if axes is None:
        return memory.reshape(count, *array.shape)
    shape = [array.shape[axis] for axis in axes]
    return memory.reshape(count, *shape).transpose(0, *[1 + axis for axis in inverse(axes)])


def covering(array: np.ndarray) -> np.ndarray:
    """The array if it is in C order, else its memory as a line of elements."""
    if array.flags.c_contiguous:
        return array
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    before = sum(step for step in reach if step < 0)
    first = array[tuple(-1 if step < 0 else 0 for step in reach) + (...,)]
    count = (sum(reach) - 2 * before) // array.itemsize + 1
    return np.lib.stride_tricks.as_strided(first, (count,), (array.itemsize,))


def has_order(array: np.ndarray, order: str) -> bool:
    """Whether an array is in a memory order of NumPy: "C", "F", "A" or "K"."""
    flags = array.flags
    return {"C": flags.c_contiguous, "F": flags.f_contiguous, "A": flags.forc}.get(order, True)
