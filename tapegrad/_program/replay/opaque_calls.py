"""Parts that call Python: functions without derivative.

Compiled code calls it without the interpreter lock, which the callback takes.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.codegen.elements import ITEM
from ..._core.ops.table import BY_CODE
from ..._core.tensor.indexing import OUTSIDE
from ..ir.kernel_step import Computed
from ..ir.steps import View
from .parts import NO_BASES, Bases, Part, Wanted, part_of
from .run_layout import (
    FINISHED,
    GUARD_FAILED,
    RAISED,
    REFUSED,
    RUN_ANSWER,
    RUN_FAILED,
    RUN_REFUSED,
    RUN_VALUE_BASES,
)

_callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_word = ctypes.c_int64.from_address
#: The largest of the whole numbers that elements of so many bytes hold without gaps.
LARGEST = {8: 2**53, 4: 2**24}
#: The exceptions raised, by the run's address.
_raised: dict[int, BaseException] = {}


def raised(run: int) -> BaseException:
    """Why a run has returned RAISED: the exception of a function, or a position out of range."""
    return _raised.pop(run, IndexError(OUTSIDE))


def error_of(run: int, status: int) -> BaseException | None:
    """The exception that has stopped a run with a status; None for a guard, or nothing."""
    if status == RAISED:
        return raised(run)
    if status != REFUSED:
        return None
    code = _word(run + RUN_REFUSED).value
    if not code:
        return MemoryError("tapegrad: there is no memory to run the rule of an operation")
    return BY_CODE[code].refusal(_word(run + RUN_ANSWER).value)


def array_of(run: int, view: View, dtype: np.dtype, bases: int = RUN_VALUE_BASES) -> np.ndarray:
    """The values of a view in a run of a program of a dtype, where they are; or its adjoints."""
    memory, start, offset, strides = _layout(view, dtype)
    base = _word(_word(run + bases).value + 8 * view.base).value
    return np.ndarray(view.shape, dtype, memory.from_address(base + start), offset, strides)


@functools.lru_cache(maxsize=4096)
def _layout(view: View, dtype: np.dtype) -> tuple[Any, int, int, list[int]]:
    """The type of the memory that a view spans, where it starts, and how elements lie in it."""
    item = dtype.itemsize
    spans = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
    low, high = sum(s for s in spans if s < 0), sum(s for s in spans if s > 0)
    count = high - low + 1 if view.size else 0
    strides = [item * stride for stride in view.strides]
    start = item * (view.offset + low)
    return ctypes.c_char * (item * count), start, -item * low if count else 0, strides


def float_of(item: int) -> np.dtype:
    """The floats of so many bytes."""
    return np.dtype(f"f{item}")


def holds(dtype: np.dtype, values: np.ndarray) -> bool:
    """Whether elements of a program of a dtype hold the values: whole numbers, and floats."""
    if values.dtype.kind in "iu" and values.size:
        most = LARGEST[dtype.itemsize]
        return -most <= int(values.min()) and int(values.max()) <= most
    return values.dtype.kind in "biuf" and values.dtype.itemsize <= 8


def fits(result: np.ndarray, out: View, dtype: np.dtype) -> bool:
    """Whether a result fits into the program: its shape, and numbers that slots hold.

    Values of other shapes make another program.
    """
    is_wide = result.dtype.kind == "f" and result.dtype.itemsize > dtype.itemsize
    return result.shape == out.shape and not is_wide and holds(dtype, result)


def compute(step: Computed, own: np.dtype, run: int) -> int:
    """Call the function with copies of its operands; returns the status of a part."""
    result = np.asarray(step.function(*_given(step, own, run)))
    if not fits(result, step.out, own):
        _word(run + RUN_FAILED).value = step.out.offset
        return GUARD_FAILED
    array_of(run, step.out, own)[...] = result
    return FINISHED


def _given(step: Computed, own: np.dtype, run: int) -> list:
    """Copies of the operands."""
    return [
        array_of(run, operand, own).astype(dtype) if isinstance(operand, View) else operand
        for operand, dtype in step.operands
    ]


def c_function(call: Callable[[int], int]) -> Any:
    """A function of a run as one of a part, `(run, data)`; its exceptions stop the program."""

    def calling(run, data):
        try:
            return call(run)
        except BaseException as error:  # no exception can pass through compiled code
            _raised[run] = error
            return RAISED

    return _callback(calling)


def address_of(function) -> int:
    """The address of a C function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@part_of.register(Computed)
def part_of_computed(
    step: Computed, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM
) -> Part:
    function = c_function(functools.partial(compute, step, float_of(item)))
    return Part(address_of(function), 0, np.zeros(1, np.int64), keep=function, tier="Python")
