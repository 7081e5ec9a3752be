"""Floor 4: the recorded value. Operators, NumPy's functions, views and in-place writes."""

from . import creation, dispatch, elementwise, operators, reductions
from .namespace import PUBLIC

__all__ = ["PUBLIC", "creation", "dispatch", "elementwise", "operators", "reductions"]
