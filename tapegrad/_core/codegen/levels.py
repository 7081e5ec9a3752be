"""Levels of processors: machine code for each is made when the package is built.

Code of a level uses nothing of a processor but what NumPy, of any release, tells of it. So a level
can be chosen without asking the processor, and `NPY_DISABLE_CPU_FEATURES` counts.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ..environment import given


class Level(NamedTuple):
    """A processor as LLVM knows it, and what NumPy tells of those that run its code."""

    name: str
    processor: str
    features: str
    needs: tuple[str, ...]
    #: Sets of instructions that vector functions are called for, as LLVM names them.
    vectors: tuple[str, ...] = ()


_V2 = ("SSE3", "SSSE3", "SSE41", "SSE42", "POPCNT")
_V3 = (*_V2, "AVX", "F16C", "FMA3", "AVX2")
_V4 = (*_V3, "AVX512F", "AVX512CD", "AVX512VL", "AVX512BW", "AVX512DQ")
#: Groups of features in newer releases of NumPy, which switch them off together.
_GROUPS = {"x86-64-v2": ("X86_V2",), "x86-64-v3": ("X86_V2", "X86_V3")}
_GROUPS["x86-64-v4"] = (*_GROUPS["x86-64-v3"], "X86_V4", "AVX512_SKX")
_UNTOLD = "-cx16,-sahf"
_UNTOLD_V3 = f"{_UNTOLD},-bmi,-bmi2,-lzcnt,-movbe"
#: From the widest down. Vectors of 512 bits are not avoided: that costs 30 % where they are fast.
LEVELS = {
    one.name: one
    for one in (
        Level(
            *("x86-64-v4", "x86-64-v4", f"{_UNTOLD_V3},-prefer-256-bit", _V4),
            ("avx2", "avx512f"),
        ),
        Level("x86-64-v3", "x86-64-v3", _UNTOLD_V3, _V3, ("avx2",)),
        Level("x86-64-v2", "x86-64-v2", _UNTOLD, _V2),
        Level("aarch64", "generic", "+neon", ("ASIMD",)),
    )
}
_VARIABLE = "TAPEGRAD_BUILD_LEVEL"


@functools.cache
def made() -> Level | None:
    """The level that this process makes code for; None if its code is for its own processor."""
    name = given(_VARIABLE)
    return LEVELS[name] if name else None


def environment(level: Level) -> dict[str, str]:
    """What is set for a process that makes code for a level."""
    return {_VARIABLE: level.name}


def of_this_processor() -> list[Level]:
    """The levels whose code runs here, from the widest down."""
    has: dict[str, bool] = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    return [one for one in LEVELS.values() if _runs(one, has)]


def _runs(level: Level, has: dict[str, bool]) -> bool:
    groups = [one for one in _GROUPS.get(level.name, ()) if one in has]
    return all(has.get(one, False) for one in (*level.needs, *groups))
