"""Memory for large results, used again once nothing refers to it.

A recorded program keeps its intermediate arrays alive and frees all of them after the sweep; fresh
pages from the system for each of them would cost more than the arithmetic.
"""

from __future__ import annotations

import functools
import math
import sys

import numpy as np

from ..codegen import forks
from ..codegen.layout import LARGE
from ..tape.memory_order import copy_axes, inverse

#: Large results begin with a page. NumPy's large arrays begin 16 bytes after one, so that stores of
#: a loop never alias its next loads: processors compare twelve bits first.
PAGE = 4096
#: The most bytes that are kept idle.
KEPT = 512 << 20

_lock = forks.lock()
_blocks: dict[int, list[np.ndarray]] = {}  # bytes → memory, in use or not
_total = 0


def _is_idle(blocks, k) -> bool:
    """Whether nothing but the list refers to a block."""
    return sys.getrefcount(blocks[k]) == 2


def empty(shape, dtype=np.float64) -> np.ndarray:
    """An uninitialised array in C order, like np.empty; a large one begins with a page."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    with _lock:
        block = _take(size)
    start = -block.ctypes.data % PAGE
    return block[start : start + size].view(dtype).reshape(shape)


def maker(shape, dtype: np.dtype):
    """The function of a shape by which arrays of this shape and dtype are made best."""
    make = empty if dtype.itemsize * math.prod(shape) >= LARGE else np.empty
    return make if dtype == np.float64 else functools.partial(make, dtype=dtype)


def _take(size: int) -> np.ndarray:
    global _total
    blocks = _blocks.setdefault(size, [])
    for k in range(len(blocks)):
        if _is_idle(blocks, k):
            return blocks[k]
    if _total + size > KEPT:
        _drop_idle()
    block = np.empty(size + PAGE, np.uint8)
    if _total + size <= KEPT:
        blocks.append(block)
        _total += size
    return block


def _drop_idle() -> None:
    """Forget blocks that are not in use; the system gets their memory back."""
    global _total
    for size, blocks in list(_blocks.items()):
        for k in reversed(range(len(blocks))):
            if _is_idle(blocks, k):
                del blocks[k]
                _total -= size
        if not blocks:
            del _blocks[size]


def copy_of(array: np.ndarray) -> np.ndarray:
    """A copy in C order."""
    made = empty(array.shape, array.dtype)
    made[...] = array
    return made


def copy_in_order(array: np.ndarray) -> np.ndarray:
    """A copy in the memory order of the array, as np.array(array) is."""
    axes = copy_axes(array)
    if axes is None:
        return copy_of(array)
    return copy_of(array.transpose(axes)).transpose(inverse(axes))
