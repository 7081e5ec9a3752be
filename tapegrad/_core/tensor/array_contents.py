"""What arrays contain, kept to see later whether it has changed."""

import ctypes
import mmap
import sys

import numpy as np

#: Bytes up to which a copy takes less time than finding the address of an array.
SMALL = 1 << 16

_memcmp = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None).memcmp
_memcmp.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t


def least(a: np.ndarray) -> np.ndarray:
    """An array, or the one whose memory it shows if that is smaller, as of windows of an array."""
    base = a.base
    while base is not None and not isinstance(base, np.ndarray):
        base = getattr(base, "base", None)  # `as_strided` puts an object between
    return a if base is None or base.nbytes >= a.nbytes else least(base)


def contents(a: np.ndarray) -> bytes:
    """The elements of an array, in the order in which they lie in memory if without gaps."""
    return a.tobytes("A")


def contains(a: np.ndarray, before: bytes) -> bool:
    """Whether an array has the contents that it had, bit for bit."""
    if not a.flags.forc:
        return contents(a) == before
    return a.nbytes == len(before) and not _memcmp(a.ctypes.data, before, a.nbytes)


def read_only(a: np.ndarray) -> list[np.ndarray]:
    """An array and those whose memory it shows, if none of them can be written; else nothing."""
    found: list[np.ndarray] = []
    one: np.ndarray | None = a
    while isinstance(one, np.ndarray):
        if one.flags.writeable:
            return []
        found.append(one)
        one = one.base
    return found if one is None or isinstance(one, (bytes, mmap.mmap)) else []
