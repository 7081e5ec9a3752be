"""The functions of Python's that files of programs can name, and no others.

They read arrays and give arrays; none of them opens files, runs code, or writes to its operands.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import numpy as np

from ..._core.tensor.trace import NAMED

_NUMPY = (
    "add all allclose any argmax argmin argsort argwhere array array_equal asarray bincount "
    "bitwise_and bitwise_or bitwise_xor count_nonzero digitize dot einsum equal flatnonzero "
    "floor floor_divide fmod full_like greater greater_equal histogram inner invert isclose "
    "isfinite isin isinf isnan less less_equal lexsort linalg.norm logical_and "
    "logical_and.reduce logical_not logical_or logical_or.reduce logical_xor matmul mean "
    "median multiply nonzero not_equal outer prod ptp remainder searchsorted signbit sort "
    "squeeze std subtract sum take take_along_axis tensordot trace unique unravel_index var "
    "argpartition nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod "
    "nanquantile nanstd nansum nanvar nan_to_num partition percentile quantile angle convolve "
    "corrcoef correlate cov cross diff ediff1d float_power gradient interp matvec round unwrap "
    "vecmat "
    "conjugate copysign frexp ldexp modf negative positive spacing"
).split()
_OPERATORS = "and_ eq ge gt invert le lt ne or_ xor".split()


@functools.cache
def _by_name() -> dict[str, Callable]:
    found = {f"numpy.{name}": operator.attrgetter(name)(np) for name in _NUMPY}
    found |= {f"operator.{name}": getattr(operator, name) for name in _OPERATORS}
    return found | {f"tapegrad.{name}": function for name, function in NAMED.items()}


def function_named(name) -> Callable | None:
    """The function of a name, None for names that are not allowed."""
    return _by_name().get(name) if isinstance(name, str) else None


def name_of(function) -> str | None:
    """The name of a function, None if it has none."""
    return next((name for name, one in _by_name().items() if one == function), None)
