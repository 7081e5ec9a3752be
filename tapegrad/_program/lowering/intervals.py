"""Intervals of integers of a program: within them arithmetic in doubles is exact.

A program keeps integers in floats, which hold them up to 2^53, or 2^24 in float32, and do not wrap
around as integers do. An interval is (least, greatest).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ..replay.opaque_calls import LARGEST

Interval = tuple[int, int]


def of_dtype(dtype: np.dtype, most: int = LARGEST[8]) -> Interval | None:
    """The numbers of a dtype, up to `most`; None if they are no integers."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    return max(int(info.min), -most), min(int(info.max), most)


def usual(within: Interval, most: int) -> list[Interval]:
    """Intervals for integers of which only that of their dtype is known, the narrowest first.

    Sums and products of integers in the first need no checks. In the last each result that is
    inside is exact, where slots hold integers up to `most`: others are rounded to `most` or beyond.
    """
    bounds = (int(most ** (3 / 4)), most - 1)
    return [(max(within[0], -bound), min(within[1], bound)) for bound in bounds]


def of_values(values: np.ndarray) -> Interval | None:
    if values.dtype.kind not in "biu":
        return None
    return (int(values.min()), int(values.max())) if values.size else (0, 0)


def is_within(interval: Interval, other: Interval | None) -> bool:
    return other is not None and other[0] <= interval[0] and interval[1] <= other[1]


def _corners(function, x: Interval, y: Interval) -> Interval:
    found = [function(a, b) for a, b in itertools.product(x, y)]
    return min(found), max(found)


def _remainder(x: Interval, y: Interval) -> Interval | None:
    if y[0] > 0:
        return 0, y[1] - 1
    return (y[0] + 1, 0) if y[1] < 0 else None


def _floor_divide(x: Interval, y: Interval) -> Interval | None:
    return _corners(lambda a, b: a // b, x, y) if y[0] > 0 or y[1] < 0 else None


#: The interval of the results of an operation, by name; None if it may divide by 0.
_RESULTS: dict[str, Callable[..., Interval | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "multiply": lambda x, y: _corners(lambda a, b: a * b, x, y),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "negative": lambda x: (-x[1], -x[0]),
    "absolute": lambda x: (max(x[0], -x[1], 0), max(x[1], -x[0])),
    "remainder": _remainder,
    "floor_divide": _floor_divide,
}
#: Operations whose result in doubles is −0 for some negative numbers, where integers have one 0.
_SIGNED_ZERO = ("multiply", "negative", "remainder", "floor_divide")


def of_result(name: str, *operands: Interval | None) -> Interval | None:
    """The interval of the results of an operation on integers; None if that is not known."""
    if name not in _RESULTS or None in operands:
        return None
    return _RESULTS[name](*operands)


def may_be_minus_zero(name: str, *operands: Interval) -> bool:
    return name in _SIGNED_ZERO and (name == "negative" or min(low for low, _ in operands) < 0)


def union(*intervals: Interval | None) -> Interval | None:
    known = [one for one in intervals if one is not None]
    if len(known) < len(intervals):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def of_sum(interval: Interval, count: int) -> Interval:
    """The interval of sums of a number of integers, and of sums of the first of them."""
    return min(0, count * interval[0]), max(0, count * interval[1])
