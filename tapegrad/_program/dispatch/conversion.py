"""A recording made an optimised program."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.tensor.trace import Trace
from ..ir.steps import Code
from ..lowering.lower import Converter
from ..lowering.tape_rows import Unsupported
from ..passes.input_planning import put_down
from ..passes.pipeline import Account, optimised
from .arrays_in_place import ArraysInPlace


def converted(
    inputs: list[tuple[Any, bool]],
    end: int,
    outputs: list,
    trace: Trace,
    dtype: np.dtype,
    without: tuple[str, ...],
) -> tuple[Code, Account]:
    """The program of a trace, and its history; see `Converter` and `optimised`."""
    converter = Converter(inputs, end, outputs, trace, dtype)
    return optimised(converter.convert(outputs), *converter.counts(), without)


def converted_in_place(
    inputs: list[tuple[Any, bool]],
    end: int,
    outputs: list,
    trace: Trace,
    in_place: ArraysInPlace,
    without: tuple[str, ...],
) -> tuple[Code, Account] | None:
    """The same with arrays from outside that are read where they lie; None if they cannot be."""
    try:
        converter = Converter(inputs, end, outputs, trace, in_place.dtype, outside=in_place)
        code = converter.convert(outputs)
    except Unsupported:
        return None
    if not in_place.agrees(converter.in_place.rows):
        return None
    made, account = optimised(code, *converter.counts(), without)
    found = put_down(made, in_place.roots)
    return None if found is None else (found, account)
