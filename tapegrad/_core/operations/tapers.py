"""The window whose shape may be recorded; those of a number of points alone are NumPy's."""

from __future__ import annotations

import numpy as np

from ..tensor.apply import apply
from ..tensor.registry import function
from ..tensor.trace import fixed, lost_derivative
from ..tensor.values import differentiates, is_recorded, is_tensor, shape_of, value_of, wrap


@function("kaiser")
def kaiser(M, beta):
    """Compute the Kaiser window I₀(β √(1 − t²)) / I₀(β), with t from −1 to 1.

    Parameters
    ----------
    M : int
        The number of points.
    beta : number
        The shape β, which may be recorded.
    """
    if differentiates(M):
        raise lost_derivative(
            "tapegrad.kaiser: the number of points is recorded; it must be an integer, such as "
            "len(x)",
            M,
        )
    count = fixed(M, "the length of kaiser()")
    if not is_recorded(beta):
        made = np.kaiser(count, value_of(beta))
        return wrap(made) if is_tensor(M) or is_tensor(beta) else made
    if shape_of(beta):
        raise TypeError(
            f"tapegrad.kaiser: beta has shape {shape_of(beta)}; it must be one number; call kaiser "
            "once for each window"
        )
    if count == 1:
        return np.ones(1)
    t = (np.arange(0, count) - (count - 1) / 2) / ((count - 1) / 2)
    top = apply("i0", apply("multiply", beta, np.sqrt(1 - t**2)))
    return apply("divide", top, apply("i0", beta))
