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
    extremes,
    float_parts,
    joining,
    linear_algebra,
    logsumexp,
    norms,
    numpy_protocols,
    products,
    reductions,
    shapes,
    softmax,
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
    "logsumexp",
    "extremes",
    "float_parts",
    "joining",
    "linear_algebra",
    "norms",
    "numpy_protocols",
    "operators",
    "products",
    "reductions",
    "shapes",
    "softmax",
    "solving",
]
