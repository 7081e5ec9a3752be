"""Compiled parts of programs, and the memory of a run. `run_layout` says how they are called."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..._core.codegen.layout import CACHE_LINE
from . import run_layout

SIGNATURE = "int64(int64, int64)"


@dataclasses.dataclass
class Part:
    """What a step became: addresses of C functions, and of data that all runs share.

    `both` computes values and adds adjoints in one pass; it is called instead of `forward` and
    `reverse` where the adjoints of the results do not depend on values. `ahead` is called instead
    of `forward` where `reverse` comes next: it computes some of that ahead. 0 if there is none.
    """

    forward: int
    reverse: int
    data: np.ndarray
    both: int = 0
    ahead: int = 0
    keep: Any = None


def aligned(count: int) -> np.ndarray:
    """Zeros that begin at a cache line."""
    step = CACHE_LINE // 8
    memory = np.zeros(count + step)
    start = -(memory.ctypes.data // 8) % step
    return memory[start : start + count]


class Run:
    """Memory for one evaluation at a time: two arenas, scratch memory, the words of the run."""

    def __init__(self, slots: int, bases: int = 1, program: Any = None):
        self.program = program
        self.values, self.adjoints = aligned(slots), aligned(slots)
        self.scratch = aligned(run_layout.SCRATCH_BYTES // 8)
        self.value_bases = np.zeros(bases, np.int64)
        self.adjoint_bases = np.zeros(bases, np.int64)
        self.value_bases[0] = self.values.ctypes.data
        self.adjoint_bases[0] = self.adjoints.ctypes.data
        self.pointers = np.zeros(2 * bases, np.int64)
        self.words = np.zeros(run_layout.RUN_BYTES // 8, np.int64)
        self.address = self.words.ctypes.data
        for word, address in (
            (run_layout.RUN_VALUES, self.values.ctypes.data),
            (run_layout.RUN_ADJOINTS, self.adjoints.ctypes.data),
            (run_layout.RUN_VALUE_BASES, self.value_bases.ctypes.data),
            (run_layout.RUN_ADJOINT_BASES, self.adjoint_bases.ctypes.data),
            (run_layout.RUN_SCRATCH, self.scratch.ctypes.data),
            (run_layout.RUN_POINTERS, self.pointers.ctypes.data),
        ):
            self.words[word // 8] = address
