"""Dependences between rows, found in compiled code."""

from __future__ import annotations

from typing import Any

from ..codegen.factory import functions, once
from ..sweep import dependence_entry
from .row_marks import Marks
from .workspace import give_back, work_for


@once
def _compiled() -> dict[str, Any]:
    return functions(dependence_entry.SOURCE, dependence_entry.EXPORTS, keep_lock=True)


def dependence_of(numbers: list[int]) -> tuple[Marks, int | None]:
    """Marks of some rows and of what they depend on; the oldest chunk, None if all are inputs."""
    traversal = object()
    work, _ = work_for(traversal, 1, True)
    try:
        marks = Marks(len(work.table))
        marks.mark(numbers)
        work.set(FRAME_MARKS=marks.address)
        oldest = _compiled()["mark_dependence"](work.address)
        return marks, int(work.sequence[oldest]) if oldest < work.length else None
    finally:
        give_back(traversal, work)
