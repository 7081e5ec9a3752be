"""The namespace of the rules of declarations: NumPy, and functions that it lacks.

NumPy's functions serve every reading, since tensors answer its protocols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.values import array_of
from .infinities import product, symmetric_product
from .view_layouts import joined, seen_as


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
