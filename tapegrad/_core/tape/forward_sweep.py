"""Tangents of rows in forward mode: the Python interface of the compiled traversal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.factory import compile_source, functions, once
from ..ops.table import BY_CODE, MOST_CODES
from ..sweep import forward
from ..sweep.kernels import compile_structural, compile_text, inputs_of
from ..sweep.second_order_kernels import tangent_source
from .compiled_sweep import compiled
from .row_marks import Marks
from .workspace import FreedError, UnknownError, begin_reading, end_reading, give_back, work_for


class _Compiled:
    """The functions of the traversal, and the tables of kernels that it fills on demand."""

    def __init__(self):
        self.functions = functions(forward.source(), forward.EXPORTS, keep_lock=True)
        count = MOST_CODES * layout.MASKS  # memory that is never touched is never allocated
        self.kernels = {8: np.zeros(count, np.int64), 4: np.zeros(count, np.int64)}
        self.structural = np.zeros(MOST_CODES, np.int64)

    def want(self, status: int, frame: np.ndarray) -> None:
        """Compile what a traversal has requested."""
        if status == layout.WANT_CARRY:
            found = compile_source(forward.CARRY_SOURCE, {"carry_row": "int64(int64, int64)"})
            frame[layout.FRAME_CARRY // 8] = found["carry_row"]
            return
        if status == layout.WANT_STRIDED:
            compiled().want(status, frame)
            return
        code = int(frame[layout.FRAME_WANTED // 8])
        op = BY_CODE[code]
        if status == layout.WANT_STRUCTURAL:
            self.structural[code] = compile_structural(op, op.tangent) if op.tangent else 1
        else:
            masks = int(frame[layout.FRAME_WANTED_MASK // 8])
            width = int(frame[layout.FRAME_WANTED_DTYPE // 8])
            op.check(inputs_of(op, masks))
            kernel = compile_text(op, tangent_source(op, masks, width))
            self.kernels[width][code * layout.MASKS + masks] = kernel


@once
def _compiled() -> _Compiled:
    return _Compiled()


_ASKING = (layout.WANT_CARRY, layout.WANT_STRIDED, layout.WANT_KERNEL, layout.WANT_STRUCTURAL)


class Carrying:
    """One forward traversal from rows to `outputs`, in several directions at once; a context.

    A tangent has the shape of its array, with an axis of directions first.
    """

    def __init__(self, directions: int):
        self.compiled = _compiled()
        self.code: Any = self.compiled.functions
        self.directions = directions
        self.work, writes = work_for(self, directions, True)
        self.writes = writes > 0
        kernels = self.compiled.kernels
        self.work.set(
            FRAME_TANGENT_KERNELS64=kernels[8].ctypes.data,
            FRAME_TANGENT_KERNELS32=kernels[4].ctypes.data,
            FRAME_TANGENT_STRUCTURAL=self.compiled.structural.ctypes.data,
        )
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
        return self.work.adjoint_buffer(number, array, self.directions)

    def _needed(self, outputs) -> int:
        """Mark what `outputs` need; returns the oldest chunk of it."""
        self.marks = Marks(len(self.work.table))
        self.marks.mark(list(outputs))
        self.work.set(FRAME_MARKS=self.marks.address, FRAME_MET_USED=0)
        return self.code["mark_needed"](self.work.address)

    def meets_writes(self, outputs) -> bool:
        """Whether in-place writes are among what `outputs` need."""
        if not self.writes:
            return False
        self._needed(outputs)
        return self.code["has_writes"](self.work.address) != 0

    def run(self, stops, outputs, rule: Callable[[int], None]) -> None:
        """Traverse the tape; `rule(row)` sets the tangent of a row that compiled code leaves."""
        oldest = self._needed(outputs)
        frame = self.work.frame
        self.marks.rows[list(stops)] = layout.STOP  # their operands do not matter
        self.work.set(FRAME_AT_ORDER=oldest, FRAME_AT_POSITION=0)
        while (status := self.code["carry"](self.work.address)) != layout.DONE:
            if status in _ASKING:
                self.compiled.want(status, frame)
                continue
            if status == layout.MET_UNKNOWN:
                raise UnknownError
            if status != layout.WANT_RULE:
                raise FreedError
            slot = int(self.work.sequence[frame[layout.FRAME_AT_ORDER // 8]])
            rule((slot << layout.ROWS_BITS) + int(frame[layout.FRAME_AT_POSITION // 8]))
            frame[layout.FRAME_AT_POSITION // 8] += 1

    @property
    def met_used(self) -> bool:
        """Whether the traversal has passed a used-up row."""
        return bool(self.work.frame[layout.FRAME_MET_USED // 8])

    def give_again(self) -> None:
        """Make the rows that `outputs` need such that are not used up."""
        self.code["give_again"](self.work.address)
