"""Functions of tensors, each family in a file; importing them registers them."""

from ..tensor import conversions, operators
from ..tensor.registry import PUBLIC
from . import (
    counting,
    creation,
    cumulative,
    declaring,
    einsum,
    elementwise_functions,
    exponentials,
    extremes,
    joining,
    linear_algebra,
    norms,
    numpy_protocols,
    reductions,
    shapes,
    solving,
)

__all__ = [
    "PUBLIC",
    "conversions",
    "counting",
    "creation",
    "cumulative",
    "declaring",
    "einsum",
    "elementwise_functions",
    "exponentials",
    "extremes",
    "joining",
    "linear_algebra",
    "norms",
    "numpy_protocols",
    "operators",
    "reductions",
    "shapes",
    "solving",
]
