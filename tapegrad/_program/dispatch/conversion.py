"""A recording made an optimised program; of a long loop few iterations are converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.tensor.trace import Trace
from ..ir.steps import Code
from ..lowering.lower import Converter
from ..passes.pipeline import Account, optimised


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
