"""0 times infinity in derivatives that are recorded.

What passes on nothing contributes exactly 0, however steep the slope: an adjoint of 0 times an
infinite slope is 0. Ordinarily values tell where that is. A program that is traced meets other
values; it would be slow to ask at every product, and hardly ever matters. So derivatives are
recorded with plain products, and the program checks that they hold no NaN. Where they do it takes
another way, on which each product is asked (`Trace.careful`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.trace import steered
from .._core.tensor.values import FLOATS, array_of, dtype_of, is_recorded


def _is_traced(x, y) -> bool:
    """Whether a program that is being traced computes a product again."""
    return rt.trace() is not None and (is_recorded(x) or is_recorded(y))


def _is_complex(x) -> bool:
    return dtype_of(x).kind == "c"


def _is_plain(x, y, seen) -> bool:
    """Whether x times y is to be recorded as it is, `seen` being what is infinite otherwise."""
    if _is_complex(x) or _is_complex(y):
        return True
    if _is_traced(x, y):
        return rt.trace().careful is False
    values = array_of(seen)
    return math.isfinite(np.vdot(values, values))  # an overflow only takes the slower way


def product(adjoint, slope):
    """Adjoint times slope, 0 where the adjoint is exactly 0 whatever the slope."""
    if _is_plain(adjoint, slope, slope):
        return adjoint * slope
    return adjoint * PUBLIC["where"](_lost(adjoint, slope), 0.0, slope)


def symmetric_product(tangent, slope):
    """Tangent times slope, 0 where either is exactly 0 whatever the other is."""
    made = tangent * slope
    if _is_plain(tangent, slope, made):
        return made
    where = PUBLIC["where"]
    lost = steered(operator.or_, _lost(tangent, slope), _lost(slope, tangent))
    return where(lost, 0.0, tangent) * where(lost, 0.0, slope)


def _lost(factor, other):
    """Where a factor is 0 and the other one infinite or NaN."""
    zero = steered(operator.eq, factor, 0.0)
    return steered(np.logical_and, zero, steered(np.logical_not, steered(np.isfinite, other)))


def settled(derive: Callable[[], list]) -> list:
    """The recorded derivatives that `derive` gives; in a trace, for all values of a program."""
    trace = rt.trace()
    if trace is None or trace.careful is not None:
        return derive()
    try:
        trace.careful = False
        found = derive()
        if _holds_nan(trace, found):
            trace.careful = True
            found = derive()
        return found
    finally:
        trace.careful = None


def _holds_nan(trace, found: list) -> bool:
    """Whether derivatives hold a NaN, or infinities; the program checks whether they do."""
    parts = [part for part in found if is_recorded(part) and dtype_of(part) in FLOATS]
    if not parts:
        return False
    total = sum([PUBLIC["sum"](part * 0.0) for part in parts[1:]], PUBLIC["sum"](parts[0] * 0.0))
    bad = steered(np.isnan, total)
    trace.learn(bad, "whether a derivative is NaN or infinite")
    return bool(array_of(bad))
