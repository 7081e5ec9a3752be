"""What arrays contain, kept to see later whether it has changed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..codegen.factory import functions, once
from ..tape.memory_order import memory_of

#: Bytes up to which the elements themselves are kept.
SMALL = 1 << 16

#: Each word is mixed with its number by steps that can be undone, so one that differs shows always;
#: several escape notice once in 2⁶⁴ times. Words do not wait for one another: they are mixed in
#: vectors, about as fast as memory is read.
_SOURCE = """
from tapegrad._core.codegen.intrinsics import i64s

def digest(address, count):
    words, h = i64s(address), count
    for k in range(count):
        x = words[k] ^ (k * -7046029254386353131)
        x = (x ^ ((x >> 33) & 0x7FFFFFFF)) * -49064778989728563
        x = (x ^ ((x >> 33) & 0x7FFFFFFF)) * -4265267296055464877
        h += x ^ ((x >> 33) & 0x7FFFFFFF)
    return h
"""


@once
def _digest():
    return functions(_SOURCE, {"digest": 2}, keep_lock=False)["digest"]


def least(a: np.ndarray) -> np.ndarray:
    """An array, or the one whose memory it shows if that is smaller, as of windows of an array."""
    base = a.base
    while base is not None and not isinstance(base, np.ndarray):
        base = getattr(base, "base", None)  # `as_strided` puts an object between
    return a if base is None or base.nbytes >= a.nbytes else least(base)


def contents(a: np.ndarray) -> Any:
    """What is equal for arrays of equal elements, bit for bit: these, or a hash of many."""
    if a.nbytes <= SMALL or not a.flags.forc:
        return a.tobytes("A")
    address, (words, rest) = memory_of(a), divmod(a.nbytes, 8)
    return _digest()(address, words), ctypes.string_at(address + 8 * words, rest) if rest else b""


def is_constant(a: np.ndarray) -> bool:
    """Whether nothing can write to an array: it shows an object of type bytes.

    Of others that are read-only there may be views that are not, made before.
    """
    base = a.base
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, bytes)
