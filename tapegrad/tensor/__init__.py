"""Floor 4: the recorded value. Operators, NumPy's functions, views and in-place writes."""

from . import (
    creation,
    dispatch,
    elementwise,
    extremes,
    joining,
    operators,
    reductions,
    scans,
    scipy_functions,
    shaping,
)
from .namespace import PUBLIC

__all__ = [
    "PUBLIC",
    "creation",
    "dispatch",
    "elementwise",
    "extremes",
    "joining",
    "operators",
    "reductions",
    "scans",
    "scipy_functions",
    "shaping",
]
