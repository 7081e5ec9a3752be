"""What a tensor may be where nothing is recorded: an array, a number of NumPy's or of Python's."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen import layout
from . import runtime as rt
from .values import array_of, dtype_of, is_number


def kind_of(given: type | None) -> int:
    """Of whom numbers of a type are: OF_PYTHON, OF_NUMPY, or OF_EITHER."""
    if given is float:
        return layout.OF_PYTHON
    is_of_numpy = given is not None and issubclass(given, (np.generic, np.ndarray))
    return layout.OF_NUMPY if is_of_numpy else layout.OF_EITHER


def is_pythons_truth(tensor) -> bool:
    """Whether a row of a trace is a comparison of Python's numbers, which is True or False."""
    trace = rt.trace()
    return trace is not None and tensor._id in trace.truths


def possible_kinds(tensor) -> tuple[type, ...]:
    """The types that the plain value of a tensor may have: one, or float and np.float64.

    Inputs are what was given, results of `math` Python's, those of ufuncs and elements of arrays
    NumPy's; operators give NumPy's if an operand is. Not known are results of other functions of
    numbers, such as `abs`.
    """
    if type(tensor) is rt.ComplexTensor:
        kind = dtype_of(tensor).type
        is_array = tensor._re is not None and array_of(tensor).ndim > 0
        return (np.ndarray,) if is_array else (complex, kind) if kind is np.complex128 else (kind,)
    if is_pythons_truth(tensor):
        return (bool,)
    if type(tensor) is not rt.Scalar:
        is_array = tensor.ndim > 0 or not is_number(tensor)
        return (np.ndarray,) if is_array else (dtype_of(tensor).type,)
    if tensor._kind == layout.OF_PYTHON:
        return (float,)
    if (given := rt.given(tensor._id)) is not None:
        return (given,)
    is_of_numpy = tensor._kind == layout.OF_NUMPY or tensor._id < 0
    return (np.float64,) if is_of_numpy else (float, np.float64)


def plain_samples(tensor) -> list[Any]:
    """For each of these types the value of a tensor."""
    return [as_kind(tensor, kind) for kind in possible_kinds(tensor)]


def as_kind(tensor, kind: type) -> Any:
    """The value of a tensor as an array, or as a number of a class."""
    array = array_of(tensor)
    return array if kind is np.ndarray else kind(array[()])
