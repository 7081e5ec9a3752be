"""What arrays contain, kept to see later whether it has changed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..codegen.factory import functions, once

#: Bytes up to which the elements themselves are kept.
SMALL = 1 << 16

#: Words that are hashed side by side, each with a hash of its own.
_LANES = 8
#: 2⁶⁴ divided by the golden ratio. Each step can be undone, so one word that differs shows always;
#: several escape notice once in 2⁶⁴ times.
_STEP = "h{0} = (h{0} ^ {1}) * -7046029254386353131; h{0} = h{0} ^ ((h{0} >> 32) & 0xFFFFFFFF)"


def _source() -> str:
    def steps(indent, words):
        lines = [_STEP.format(lane, word) for lane, word in words]
        return "\n".join(" " * indent + line for line in lines)

    lanes = range(_LANES)
    names = " = ".join(f"h{lane}" for lane in lanes)
    return f"""
from tapegrad._core.codegen.intrinsics import load_i64

def digest(address, count):
    {names} = count
    for k in range(0, count - {_LANES - 1}, {_LANES}):
{steps(8, [(lane, f"load_i64(address, 8 * (k + {lane}))") for lane in lanes])}
    for k in range(count // {_LANES} * {_LANES}, count):
{steps(8, [(0, "load_i64(address, 8 * k)")])}
{steps(4, [(0, f"h{lane}") for lane in lanes[1:]])}
    return h0
"""


@once
def _digest():
    return functions(_source(), {"digest": 2}, keep_lock=False)["digest"]


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
    address, (words, rest) = a.ctypes.data, divmod(a.nbytes, 8)
    return _digest()(address, words), ctypes.string_at(address + 8 * words, rest) if rest else b""


def is_constant(a: np.ndarray) -> bool:
    """Whether nothing can write to an array: it shows an object of type bytes.

    Of others that are read-only there may be views that are not, made before.
    """
    base = a.base
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, bytes)
