"""A recording made an optimised program; of a long loop few iterations are converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.tensor.trace import Trace
from ..ir.steps import Code
from ..lowering.lower import Converter
from ..lowering.tape_rows import Unsupported
from ..passes.input_planning import put_down
from ..passes.pipeline import Account, optimised
from .lying_arrays import LyingArrays


def converted(
    inputs: list[tuple[Any, bool]],
    end: int,
    outputs: list,
    trace: Trace,
    dtype: np.dtype,
    without: tuple[str, ...],
) -> tuple[Code, Account]:
    """The program of a trace, and its history; see `Converter` and `optimised`."""
    for whole in (False, True):
        converter = Converter(inputs, end, outputs, trace, dtype, whole)
        code = converter.convert(outputs)
        if code is not None:
            made = optimised(code, *converter.counts(), without, converter.short(code))
            if made is not None:
                return made
    raise AssertionError("all iterations of all loops were converted")


def converted_lying(
    inputs: list[tuple[Any, bool]],
    end: int,
    outputs: list,
    trace: Trace,
    lying: LyingArrays,
    without: tuple[str, ...],
) -> tuple[Code, Account] | None:
    """The same with arrays from outside that are read where they lie; None if they cannot be."""
    try:
        converter = Converter(inputs, end, outputs, trace, lying.dtype, outside=lying)
        code = converter.convert(outputs)
    except Unsupported:
        return None
    if code is None or not lying.agrees(converter.lying.rows):
        return None
    made = optimised(code, *converter.counts(), without)
    found = None if made is None else put_down(made[0], lying.roots)
    return None if made is None or found is None else (found, made[1])
