"""Compiled parts of programs, and the memory of a run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.codegen.elements import ITEM
from ..._core.codegen.factory import compile_source, once
from ..._core.codegen.layout import CACHE_LINE
from ..._core.tape.sweeps import memory_of
from ..ir.steps import DOUBLE, Step, View
from . import run_layout

# --- Compiled parts of programs, and the memory of a run (layout: `run_layout`) -------------------


SIGNATURE = "int64(int64, int64)"


@dataclasses.dataclass
class Part:
    """The compiled form of a step: addresses of C functions, and of data that all runs share.

    `both` computes values and adds adjoints in one pass; it is called instead of `forward` and
    `reverse` where the adjoints of the results do not depend on values. `ahead` is called instead
    of `forward` where `reverse` comes next: it computes some of that ahead. 0 if there is none.
    `tier` says what it is: "native", "interpreted", a "kernel" compiled ahead for any program, or
    "Python"; `note` what is in it. `address` is that of the data.
    """

    forward: int
    reverse: int
    data: np.ndarray
    both: int = 0
    ahead: int = 0
    keep: Any = None
    tier: str = "kernel"
    note: str = ""

    def __post_init__(self) -> None:
        self.address = memory_of(self.data)


Wanted = Callable[[View], bool]
Bases = frozenset[int]
NO_BASES: Bases = frozenset()
#: Bytes before memory that is written.
_GAP = 512


@functools.singledispatch
def part_of(step: Step, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM) -> Part:
    """The part of a step without code of its own; each kind of steps registers a function.

    `wanted` says which views have adjoints, and `fresh` are the bases whose adjoints no other step
    adds to. Slots have `item` bytes.
    """
    raise TypeError(f"there is nothing that computes a step of the kind {step.name}")


@functools.singledispatch
def native_part_of(step: Step, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM) -> Part:
    """The part of a step with code of its own, of kinds that register a function for that."""
    return part_of(step, wanted, fresh, item)


def aligned(count: int, dtype: np.dtype = DOUBLE) -> np.ndarray:
    """Zeros, aligned to a cache line, and far behind other arrays.

    A loop uses no vectors where it writes up to 256 bytes behind what it reads, so the last digits
    of its results would depend on where memory happens to lie.
    """
    item = dtype.itemsize
    step, gap = CACHE_LINE // item, _GAP // item
    memory = np.zeros(gap + count + step, dtype)
    start = gap + -(memory.ctypes.data // item) % step
    return memory[start : start + count]


class Run:
    """Memory for one evaluation at a time: two arenas, scratch memory, the words of the run."""

    def __init__(self, slots: int, bases: int = 1, program: Any = None, dtype: np.dtype = DOUBLE):
        self.program = program
        self.values, self.adjoints = aligned(slots, dtype), aligned(slots, dtype)
        self.scratch = aligned(run_layout.SCRATCH_BYTES // DOUBLE.itemsize)
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


# --- Adjoints set back to 0, where slots belong to several arrays one after the other -------------


SOURCE = """
from tapegrad._core.codegen.intrinsics import load_i64, memset
from tapegrad._program.replay.run_layout import FINISHED, RUN_ADJOINTS


def clear(run, data):
    memset(load_i64(run, RUN_ADJOINTS) + load_i64(data, 0), 0, load_i64(data, 8))
    return FINISHED
"""


@once
def compiled() -> int:
    return compile_source(SOURCE, {"clear": SIGNATURE})["clear"]


def clearing(view: View, item: int) -> Part:
    """The part, as a forward, that sets the adjoints of slots in C order to 0."""
    return Part(compiled(), 0, np.array([item * view.offset, item * view.size], np.int64))
