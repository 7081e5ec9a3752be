"""What the time of a step is spent on."""

from __future__ import annotations

from typing import NamedTuple

from ..._core.ops.table import BY_CODE, POWERS, Pointwise


class Work(NamedTuple):
    """Counts that determine the time: calls of parts, then numbers that go through operations."""

    calls: float = 0.0
    numbers: float = 0.0  # operations on single numbers
    number_functions: float = 0.0
    elements: float = 0.0  # by arithmetic on arrays
    element_functions: float = 0.0
    moved: float = 0.0
    multiplied: float = 0.0  # in products of matrices
    along: float = 0.0  # in other operations on whole arrays
    python: float = 0.0  # calls of Python functions
    solved: float = 0.0  # numbers of matrices times their rows, in factors and solutions


def is_function(code: int) -> bool:
    """Whether an operation calls a function, and is not arithmetic or a choice alone."""
    op = BY_CODE.get(code)
    if not isinstance(op, Pointwise) or op.name in POWERS:
        return False
    return any("np." in text for text in (op.value, *map(str, op.steps)))
