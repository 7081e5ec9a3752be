"""Tangents of rows carried forwards: the compiled walk as Python sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.factory import functions, once
from ..sweep import forward
from .row_marks import Marks
from .workspace import FreedError, UnknownError, begin_reading, end_reading, give_back, work_for


@once
def _compiled() -> dict:
    return functions(forward.source(), forward.EXPORTS, keep_lock=True)


class Carrying:
    """One walk forwards from rows to `outputs`, in several directions at once; a context.

    A tangent has the shape of what it belongs to, with an axis of directions first.
    """

    def __init__(self, directions: int):
        self.code: Any = _compiled()
        self.directions = directions
        self.work, _ = work_for(self, directions, True)
        self.reader = begin_reading()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_reading(self.reader)
        give_back(self, self.work)

    def has(self, number: int) -> bool:
        """Whether a row has a tangent."""
        return self.work.is_touched(number, self.directions)

    def scalar(self, number: int) -> np.ndarray:
        """The tangent of a scalar row, to be read or written."""
        return self.work.cell(number, self.directions)

    def part(self, number: int, array: np.ndarray) -> np.ndarray:
        """The tangent of `array`, which lies in the buffer of a row, to be read or written."""
        return self.work.mirror(number, array, self.directions)

    def run(self, stops, outputs, rule: Callable[[int], None]) -> None:
        """Walk; `rule(row)` sets the tangent of a row that is not one of scalars alone."""
        marks = Marks(len(self.work.table))
        marks.mark(list(outputs))
        frame = self.work.frame
        self.work.set(FRAME_MARKS=marks.address)
        oldest = self.code["mark_needed"](self.work.address)
        marks.rows[list(stops)] = layout.STOP  # what they were computed from does not matter
        self.work.set(FRAME_AT_ORDER=oldest, FRAME_AT_POSITION=0)
        while (status := self.code["carry"](self.work.address)) != layout.DONE:
            if status == layout.MET_UNKNOWN:
                raise UnknownError
            if status != layout.WANT_RULE:
                raise FreedError
            slot = int(self.work.sequence[frame[layout.FRAME_AT_ORDER // 8]])
            rule((slot << layout.ROWS_BITS) + int(frame[layout.FRAME_AT_POSITION // 8]))
            frame[layout.FRAME_AT_POSITION // 8] += 1
