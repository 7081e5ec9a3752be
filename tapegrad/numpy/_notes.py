"""Notes in the docstrings of functions, in addition to NumPy's: how they take recorded values."""

from __future__ import annotations

import textwrap

import numpy

from .._core.operations.numpy_protocols import COMPARISONS, UNRECORDED
from .._core.tensor.registry import PUBLIC, implementation

_CREATES = (
    "Inside a transform (`tg.grad` and others, `tg.compile`, `tg.vmap`) an array of\n"
    "floats is a tensor, to which recorded values can be written."
)
CONVERTS = "Recorded values, also in lists, and floats inside a transform, become a tensor."
SERIES = "Coefficients and points may be recorded."
DRAWS = (
    "Which functions keep the derivative with respect to recorded parameters is listed\n"
    "in `docs/randomness.md`."
)
_NO_DERIVATIVE = "Recorded values are accepted; the result has no derivative."
_WITHOUT = {*" ".join(UNRECORDED.values()).split(), *COMPARISONS}


def of_recorded(found) -> str:
    """How a NumPy function takes recorded values; empty if it takes none."""
    ours, name = implementation(found), getattr(found, "__name__", "")
    if ours is not None:
        names = [name] if PUBLIC.get(name) is ours else PUBLIC.names_of(ours)
        if names:
            return f"Recorded values are accepted, also in lists; see `tapegrad.{names[-1]}`."
    is_without = name in _WITHOUT and getattr(numpy, name, None) is found
    return _NO_DERIVATIVE if is_without else ""


def creates(found) -> str:
    """The note of a NumPy function that creates arrays."""
    return f"{of_recorded(found)}\n{_CREATES}".lstrip()


def refuses(reason: str) -> str:
    """The note of a function that refuses recorded values."""
    return textwrap.fill(f"A recorded argument raises TypeError: {reason}.", 75)
