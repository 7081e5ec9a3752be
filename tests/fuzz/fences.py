"""Memory that nothing can leave unnoticed: pages that cannot be touched lie around it.

Programs reach their memory by a base and distances below 2^34 bytes, and as much is reserved on
both sides, so that an access outside ends the process. Which end the memory touches alternates.
"""

import ctypes
import itertools
import mmap

import numpy as np

#: More than 8 bytes for each of 2^31 slots.
FENCE = 1 << 35
_NOTHING, _USABLE, _PRIVATE, _ANONYMOUS, _UNRESERVED = 0, 3, 2, 0x20, 0x4000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_reserved: list[tuple[int, int]] = []
_turn = itertools.count()


def fenced(shape, dtype=np.float64) -> np.ndarray:
    """Zeros in C order until `release`."""
    size_of_all = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = -(-max(size_of_all, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    size = 2 * FENCE + room
    flags = _PRIVATE | _ANONYMOUS | _UNRESERVED
    start = _libc.mmap(None, size, _NOTHING, flags, -1, 0)
    assert start not in (None, ctypes.c_void_p(-1).value), ctypes.get_errno()
    _reserved.append((start, size))
    assert _libc.mprotect(start + FENCE, room, _USABLE) == 0
    first = start + FENCE + (next(_turn) % 2) * (room - size_of_all)
    memory = (ctypes.c_char * size_of_all).from_address(first)
    return np.frombuffer(memory, dtype).reshape(shape)


def release() -> None:
    """Give all of it back; what was made is not to be touched again."""
    while _reserved:
        _libc.munmap(*_reserved.pop())
