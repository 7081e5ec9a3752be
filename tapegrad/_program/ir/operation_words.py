"""Operations in words: how many, and which."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from ..._core.ops.table import BY_CODE
from .steps import GUARD

#: More kinds of operations of one step are not listed.
_KINDS = 6


def counted(count: int, word: str) -> str:
    """A number of things."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def names_of(codes: Iterable[int]) -> list[str]:
    """Names of operations with their counts, the most frequent first."""
    counts = collections.Counter(codes).most_common()
    names = [(("guard" if op == GUARD else BY_CODE[op].name), count) for op, count in counts]
    lines = [f"{name} × {count}" if count > 1 else name for name, count in names[:_KINDS]]
    return lines + ["…"] * (len(names) > _KINDS)
