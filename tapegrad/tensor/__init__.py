"""Floor 4: the recorded value. Operators, NumPy's functions, views and in-place writes."""

from . import creation, dispatch, einsum, elementwise, linear, operators, reductions
from .namespace import PUBLIC

__all__ = [
    "PUBLIC",
    "creation",
    "dispatch",
    "einsum",
    "elementwise",
    "linear",
    "operators",
    "reductions",
]
