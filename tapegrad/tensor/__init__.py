"""Floor 4: the recorded value. Operators, NumPy's functions, views and in-place writes."""

from . import (
    counting,
    creation,
    dispatch,
    einsum,
    elementwise,
    extremes,
    joining,
    leaving,
    linear,
    norms,
    operators,
    reductions,
    scans,
    shaping,
)
from .namespace import PUBLIC

__all__ = [
    "PUBLIC",
    "counting",
    "creation",
    "dispatch",
    "einsum",
    "elementwise",
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
