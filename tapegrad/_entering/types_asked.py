"""`type` and `float` in entered code: recorded arrays are arrays, and numbers stay recorded."""

from __future__ import annotations

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.plain_data import class_of, kind_of, number_of
from .._core.tensor.refused_derivatives import lost_derivative


def type_of_recorded(one, *more, **named):
    """Python's `type`; refused for recorded numbers, which may be Python's or NumPy's."""
    if more or named or not isinstance(one, rt.Tensor):
        return type(one, *more, **named)
    found = kind_of(one)
    if found is np.ndarray or class_of(one) is not None:
        return found
    raise lost_derivative(
        "type: a recorded number stands for a float and for an np.float64 alike; use "
        "isinstance(x, float)",
        one,
    )


def float_of_recorded(*given):
    """Python's `float`; a recorded number stays one, with its derivative."""
    if len(given) != 1 or not isinstance(given[0], rt.Tensor):
        return float(*given)
    kept = number_of(given[0])
    return float(given[0]) if kept is None else kept


#: What stands for Python's own functions and classes.
OF_PYTHON = {type: type_of_recorded, float: float_of_recorded}
