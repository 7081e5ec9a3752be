"""The namespace of the rules of declarations: NumPy, 0 times infinity, what else it lacks."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.trace import steered
from .._core.tensor.values import FLOATS, array_of, dtype_of, is_recorded
from .tape_traversal import joined, seen_as

# --- 0 times infinity in derivatives that are recorded --------------------------------------------
# An adjoint of 0 times an infinite partial derivative is 0. Outside of traces the values decide
# where this applies. A traced program has other values later; a test at every product would be slow
# and hardly ever matters. Therefore derivatives are recorded with plain products, and the program
# checks that they hold no NaN. If they do, another variant is recorded, which tests each product
# (`Trace.careful`).


def _is_traced(x, y) -> bool:
    """Whether a program that is being traced computes a product again."""
    return rt.trace() is not None and (is_recorded(x) or is_recorded(y))


def _is_complex(x) -> bool:
    return dtype_of(x).kind == "c"


def _is_plain(x, y, seen) -> bool:
    """Whether x times y is recorded as a plain product, `seen` being infinite otherwise."""
    if _is_complex(x) or _is_complex(y):
        return True
    if _is_traced(x, y):
        return rt.trace().careful is False
    values = array_of(seen)
    return math.isfinite(np.vdot(values, values))  # an overflow only selects the slower variant


def product(adjoint, partial):
    """Adjoint times partial derivative, 0 where the adjoint is exactly 0."""
    if _is_plain(adjoint, partial, partial):
        return adjoint * partial
    return adjoint * PUBLIC["where"](_lost(adjoint, partial), 0.0, partial)


def symmetric_product(tangent, partial):
    """Tangent times partial derivative, 0 where either is exactly 0."""
    made = tangent * partial
    if _is_plain(tangent, partial, made):
        return made
    where = PUBLIC["where"]
    lost = steered(operator.or_, _lost(tangent, partial), _lost(partial, tangent))
    return where(lost, 0.0, tangent) * where(lost, 0.0, partial)


def _lost(factor, other):
    """The places where a factor is 0 and the other one infinite or NaN."""
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


# --- The namespace of the rules of declarations: NumPy, and functions that it lacks ---------------
# NumPy's functions serve every reading, since tensors answer its protocols.


class Namespace:
    """NumPy's functions by their names, and `times`, the product of a derivative and a partial."""

    def __init__(self, times: Callable):
        self.times = times

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        setattr(self, name, found)  # found at once from now on
        return found

    @staticmethod
    def seen_as(derivative, base, view):
        """An adjoint of a view, or several, of the array `base`."""
        return seen_as(derivative, base, view, *derivative.shape[: derivative.ndim - base.ndim])

    #: Tangents of views of an array, combined to those of the array.
    joined = staticmethod(joined)

    @staticmethod
    def may_hold_zeros(x) -> bool:
        """Whether an element is 0, or may be when a program that is traced computes it.

        The one test of values in rules: its result does not matter where the rule is used for
        others.
        """
        return rt.trace() is not None or not np.all(array_of(x))


#: An adjoint of 0 passes on 0, however steep the partial derivative.
REVERSE = Namespace(product)
#: So does a tangent of 0; a partial derivative of 0 does for every tangent.
FORWARD = Namespace(symmetric_product)
