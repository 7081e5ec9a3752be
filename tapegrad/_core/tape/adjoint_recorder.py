"""Adjoints of scalar rows written as rows: the Python interface of the compiled traversal."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.factory import functions
from ..sweep import scalar_adjoint_recording
from .compiled_sweep import compiled
from .later_writes import moment
from .workspace import FreedError, begin_reading, end_reading, give_back, work_for

#: A read of a cell, as the traversal records it.
LOADED = np.dtype([("buffer", "i8"), ("place", "i8"), ("row", "i8"), ("value", "f8")])


class _Cell(ctypes.Structure):
    _fields_ = (("row", ctypes.c_int64), ("value", ctypes.c_double))


@functools.cache
def _compiled() -> dict:
    return functions(
        scalar_adjoint_recording.source(), scalar_adjoint_recording.EXPORTS, keep_lock=True
    )


class Writing:
    """One backward traversal from rows to `stops`; a context that releases its memory.

    `oldest` is the oldest chunk to visit, if that is known; `choices` says whether the choices of
    partial derivatives are recorded (`layout.BY_VALUE` and the like). An adjoint of a scalar row is
    a pair: the row that holds it (−1 for a constant) and its value.
    """

    def __init__(self, stops, oldest: int | None = None, choices: int = layout.BY_VALUE):
        self.code: Any = _compiled()
        self.begun = moment()
        self.work, _ = work_for(self, 2, True)  # a cell of a row is a pair
        self.reader = begin_reading()
        self.marks = np.zeros(len(self.work.table) << layout.ROWS_BITS, np.uint8)
        self.marks[list(stops)] = layout.STOP
        self.loads = np.zeros(layout.LOADS, LOADED)
        self.work.set(
            FRAME_MARKS=self.marks.ctypes.data,
            FRAME_LOADS=self.loads.ctypes.data,
            FRAME_LOADS_COUNT=0,
            FRAME_CHOICES=choices,
        )
        self.meets_writes = self._mark(stops, oldest)
        self.noted: dict[int, list[np.ndarray]] = {}  # reads of cells, by buffer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_reading(self.reader)
        give_back(self, self.work)

    def _mark(self, stops, oldest: int | None) -> bool:
        """Mark the rows that depend on `stops`; whether some of them meet an in-place write."""
        first = min((int(self.work.places[s >> layout.ROWS_BITS]) for s in stops), default=0)
        first = max(first, int(self.work.frame[layout.FRAME_INPUTS // 8]))
        if oldest is not None:
            first = max(first, int(self.work.places[oldest]))
        self.code["mark_written"](self.work.address, first)
        return self.code["mark_active"](self.work.address, first) > 0

    def adjoint(self, number: int) -> tuple[int, float] | None:
        """The adjoint of a scalar row so far, None if nothing has reached it."""
        if int(self.work.adjoints[number >> layout.ROWS_BITS]) == 0:
            return None
        cell = self._cell(number)
        return None if cell.row == layout.UNTOUCHED else (cell.row, cell.value)

    def set(self, number: int, row: int, value: float = 0.0) -> None:
        """Set the adjoint of a scalar row; for an array row, that it has one."""
        cell = self._cell(number)
        cell.row, cell.value = row, value

    def _cell(self, number: int) -> _Cell:
        return _Cell.from_address(compiled().cell_of(self.work.address, number))

    def run(self, rule: Callable[[int], None]) -> None:
        """Traverse the tape; `rule(row)` writes the adjoint of a row that compiled code leaves."""
        frame = self.work.frame
        while (status := self.code["write_adjoints"](self.work.address)) != layout.DONE:
            if status == layout.MET_FREED:
                raise FreedError
            if status == layout.LOADS_FULL:
                self.note_loads()
                continue
            self.note_loads()
            slot = int(self.work.sequence[frame[layout.FRAME_AT_ORDER // 8]])
            rule((slot << layout.ROWS_BITS) + int(frame[layout.FRAME_AT_POSITION // 8]))
            frame[layout.FRAME_AT_POSITION // 8] -= 1
        self.note_loads()

    def reads(self, buffer: int) -> np.ndarray | None:
        """The adjoints that reads of a buffer's cells have brought so far, one for each cell.

        They are given once. None if there are none.
        """
        noted = self.noted.pop(buffer, None)
        if noted is None:
            return None
        loads = np.concatenate(noted)
        loads = loads[np.argsort(loads["place"], kind="stable")]
        return loads[: self.code["add_up_loads"](loads.ctypes.data, len(loads))]

    def note_loads(self) -> None:
        """Sort the reads of cells since the last time by their buffers."""
        count = int(self.work.frame[layout.FRAME_LOADS_COUNT // 8])
        self.work.set(FRAME_LOADS_COUNT=0)
        loads = self.loads[:count]
        for buffer in np.unique(loads["buffer"]).tolist():
            self.noted.setdefault(buffer, []).append(loads[loads["buffer"] == buffer])
