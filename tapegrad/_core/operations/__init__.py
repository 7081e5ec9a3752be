"""Floor 4: the recorded value. Operators, NumPy's functions, views and in-place writes."""

from ..tensor import conversions as leaving
from ..tensor import operators
from ..tensor.registry import PUBLIC
from . import (
    counting,
    creation,
    declaring,
    einsum,
    exponentials,
    extremes,
    joining,
    norms,
    reductions,
)
from . import cumulative as scans
from . import elementwise_functions as elementwise
from . import linear_algebra as linear
from . import numpy_protocols as dispatch
from . import shapes as shaping

__all__ = [
    "PUBLIC",
    "counting",
    "creation",
    "declaring",
    "dispatch",
    "einsum",
    "elementwise",
    "exponentials",
    "extremes",
    "joining",
    "leaving",
    "linear",
    "norms",
    "operators",
    "reductions",
    "scans",
    "shaping",
]
