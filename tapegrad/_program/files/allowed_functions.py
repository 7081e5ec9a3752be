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
    "add all allclose angle any argmax argmin argpartition argsort argwhere array array_equal "
    "array_equiv asarray bincount bitwise_and bitwise_or bitwise_xor convolve corrcoef correlate "
    "count_nonzero cov cross diff digitize dot ediff1d einsum equal flatnonzero float_power floor "
    "floor_divide fmod gcd full_like gradient greater greater_equal histogram inner interp invert "
    "isclose iscomplex isfinite isin isinf isnan isneginf isposinf isreal left_shift lcm less "
    "less_equal lexsort linalg.norm logical_and logical_and.reduce logical_not logical_or "
    "logical_or.reduce logical_xor matmul matvec mean median multiply nan_to_num nanargmax "
    "nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod "
    "nanquantile nanstd nansum nanvar nonzero not_equal outer packbits partition percentile prod "
    "ptp quantile remainder right_shift round searchsorted signbit sort squeeze std subtract sum "
    "take take_along_axis tensordot trace unique unpackbits unravel_index unwrap var vecmat"
).split()
_OPERATORS = "and_ eq ge gt invert le lshift lt ne or_ rshift xor".split()


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
