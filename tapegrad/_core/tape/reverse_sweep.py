"""One reverse sweep from Python: seeds in, adjoints of inputs out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.sweep_frame import ADJOINT_HEADER
from ..ops.table import BY_CODE
from .compiled_sweep import address_of, compiled, undoing
from .later_writes import moment, refuse_writes_since
from .memory_order import laid_like, memory_of
from .overlaps import add_to_view
from .row_marks import Marks
from .workspace import FreedError, UnknownError, begin_reading, end_reading, give_back, work_for


class ChangedError(RuntimeError):
    """An input that the sweep reaches was written after it had been read."""


FEW_INPUTS, FEW_ELEMENTS = 32, 1024
_NOWHERE = np.array([-1], np.int64)  # the stops of a sweep without any
_word = ctypes.c_int64.from_address
_half = ctypes.c_int32.from_address
#: The function that passes back the adjoint of a row by its rule, set by the wing that computes
#: rules.
by_rule: list[Callable[[Sweep, int, Any], None]] = []


class Sweep:
    """One reverse sweep with `seeds` right-hand sides at once; a context that gives back memory."""

    def __init__(self, seeds: int = 1, retain: bool = False):
        self.seeds = seeds
        self.roots: list[int] = []
        self.begun = moment()
        self.code = compiled()
        self.work, writes = work_for(self, seeds, retain)
        self.address = self.work.address
        self.writes = writes > 0
        self.before: Any = None  # a traversal that finds past values

    def __enter__(self):
        return self

    def __exit__(self, *_):
        give_back(self, self.work)

    def _key(self, number: int) -> int:
        """The position of a row in the order of time."""
        place = int(self.work.places[number >> layout.ROWS_BITS])
        return (place << layout.ROWS_BITS) + (number & (layout.ROWS - 1))

    def plant(self, tensor, seeds) -> None:
        """Add `seeds`, one per right-hand side, to the adjoint of a recorded tensor."""
        self.roots.append(tensor._id)
        if hasattr(tensor, "_array"):
            self.add(tensor._id, tensor._array, np.asarray(seeds))
            return
        for k in range(self.seeds):
            self.code.plant_scalar(self.address, tensor, k, float(seeds[k]))

    def add(self, number: int, array: np.ndarray | None, parts: np.ndarray, seeds=slice(None)):
        """Add to the adjoint of an array in a row's buffer, or of a scalar row, for some seeds."""
        if array is None:
            cell = self.cell(number)
            cell[seeds] += parts  # that of a row which nothing has touched is −0.0
            return
        adjoint_buffer = self.adjoint_buffer(number, array)
        add_to_view(adjoint_buffer if self.seeds == 1 else adjoint_buffer[seeds], parts)

    def adopt(self, tensor) -> np.ndarray:
        """Prepare the adjoint of an input, shape (seeds, …), before the sweep."""
        array = tensor._array
        size = ADJOINT_HEADER + self.seeds * array.nbytes
        memory = np.zeros(size + layout.CACHE_LINE, np.uint8)
        address = memory_of(memory) + ADJOINT_HEADER
        first = ADJOINT_HEADER + -address % layout.CACHE_LINE
        is_plain = array.flags.c_contiguous
        shape = (self.seeds, *array.shape) if is_plain else (self.seeds * array.size,)
        adjoint = np.ndarray(shape, array.dtype, memory, first)
        self.code.adopt(self.address, tensor, adjoint)
        return adjoint if is_plain else laid_like(adjoint, array, self.seeds)

    def scalar(self, tensor, seed: int = 0) -> float:
        """The adjoint of a scalar tensor."""
        return self.code.read_scalar(self.address, tensor, seed)

    def adjoint_buffer(self, number: int, array: np.ndarray) -> np.ndarray:
        """The adjoint of `array`, which lies in the buffer of row `number`: shape (seeds, …)."""
        return self.work.adjoint_buffer(number, array, self.seeds)

    def add_plain(self, number: int, array, part) -> bool:
        """Add the same of one seed where both are plain arrays alike; whether that is done."""
        if type(array) is not np.ndarray or type(part) is not np.ndarray:
            return False
        if part.size <= FEW_ELEMENTS:  # such as the transpose of a small matrix
            part = np.ascontiguousarray(part)
        return self.code.add_array(self.address, number, array, part) != 0

    def references(self, number: int) -> tuple | None:
        """The references of a row, as (row, array or object) each; None if there are others."""
        return self.code.references(self.address, number) or None

    def cell(self, number: int) -> np.ndarray:
        """The adjoint of a scalar row, shape (seeds,); what is written there is passed on."""
        return self.work.cell(number, self.seeds)

    def is_touched(self, number: int) -> bool:
        """Whether the sweep has reached a row."""
        return self.work.is_touched(number, self.seeds)

    def take(self, number: int, array: np.ndarray) -> np.ndarray:
        """The adjoint of an input as an array of its own; releases the adjoint buffer."""
        size = self.seeds * array.size
        result = laid_like(np.empty(size, array.dtype), np.empty_like(array), self.seeds)
        if not self.code.take(self.address, number, array, result):
            result[...] = self.adjoint_buffer(number, array)
            self.forget(number, True)
        return result

    def cells(self, number: int) -> np.ndarray | None:
        """The contents of a row's cell, per right-hand side; None if it has not been touched."""
        address = int(self.work.adjoints[number >> layout.ROWS_BITS])
        if address:
            address += (number & (layout.ROWS - 1)) * 8 * self.seeds
            if _word(address).value != layout.UNTOUCHED:
                memory: Any = (ctypes.c_double * self.seeds).from_address(address)
                return np.frombuffer(memory)
        return None

    def touched_inputs(self) -> list[int]:
        """Numbers of the tensors made with `requires_grad=True` that the sweep has reached.

        Their chunks are those of when the sweep began: other threads, and hooks, may make more.
        """
        found: list[int] = []
        for slot in self.work.input_slots:
            address = int(self.work.adjoints[slot])
            if address:
                rows = _word(int(self.work.table[slot]) + layout.USED_ROWS).value
                cells: Any = (ctypes.c_int64 * (rows * self.seeds)).from_address(address)
                base = slot << layout.ROWS_BITS
                if rows <= FEW_INPUTS:  # NumPy's calls would take longer
                    firsts = cells[:: self.seeds]
                    hits = [k for k, cell in enumerate(firsts) if cell != layout.UNTOUCHED]
                else:
                    firsts = np.frombuffer(cells, np.int64)[:: self.seeds]
                    hits = (firsts != layout.UNTOUCHED).nonzero()[0].tolist()
                found.extend(base + k for k in hits)
        return found

    def forget(self, number: int, is_array: bool) -> None:
        """Make a row one that the sweep has not reached."""
        cell = _word(self.code.cell_of(self.address, number))
        if is_array and cell.value != layout.UNTOUCHED:
            self.code.free_memory(cell.value)
        cell.value = layout.UNTOUCHED

    def _call_python(self, frame: np.ndarray) -> None:
        """Let the rule of a row's operation, or the object it refers to first, pass it back."""
        number = int(frame[layout.FRAME_WANTED // 8])
        op = BY_CODE[int(frame[layout.FRAME_WANTED_MASK // 8])]
        if op.vjp is not None:
            by_rule[0](self, number, op)
        else:
            self._first_object(number)(self, number)
        frame[layout.FRAME_ANSWERED // 8] = 1

    def _first_object(self, number: int) -> Any:
        """The first reference of a row."""
        start = int(self.work.table[number >> layout.ROWS_BITS]) + layout.HEADER_BYTES
        row = start + (number & (layout.ROWS - 1)) * layout.ROW_BYTES
        at = start + layout.ROWS * layout.ROW_BYTES
        first = at + _half(row + 4).value * layout.REFERENCE_BYTES
        return ctypes.cast(_word(first).value, ctypes.py_object).value

    def _find_writes(self) -> None:
        """Find which writes the sweep has to undo, if any."""
        self.marks = Marks(len(self.work.table))
        found = undoing()
        self.work.set(FRAME_MARKS=self.marks.address, FRAME_EXCHANGE=address_of(found["exchange"]))
        self.writes = found["find_writes"](self.address) != 0

    def _reverse(self) -> int:
        """Sweep until it is over or has to stop; returns why."""
        if self.writes:  # while writes are undone no other thread may read what they wrote
            return self.code.reverse_alone(self.address)
        return self.code.reverse(self.address)

    def run(self, stops: dict[int, Any] | None = None) -> None:
        """Sweep from the newest row to the oldest one that is reached.

        `stops` names rows at which the sweep pauses, if it reaches them, with the function called
        there: every contribution to the row's adjoint is in, and none has been passed on. What was
        read must not have been written meanwhile (WrittenError).
        """
        reader = begin_reading(inner_may_free=True)
        try:
            self._run(stops)
        finally:
            end_reading(reader)
        refuse_writes_since(self.begun, self.roots)

    def _run(self, stops: dict[int, Any] | None) -> None:
        code, frame = self.code, self.work.frame
        if self.writes:
            self._find_writes()
        named = {self._key(number): stop for number, stop in stops.items()} if stops else {}
        keys = np.array([*sorted(named, reverse=True), -1], np.int64) if stops else _NOWHERE
        frame[layout.FRAME_STOPS // 8] = keys.ctypes.data
        while (status := self._reverse()) != layout.DONE:
            if status == layout.MET_FREED:
                raise FreedError
            if status == layout.MET_CHANGED:
                raise ChangedError
            if status == layout.MET_UNKNOWN:
                raise UnknownError
            if status == layout.STOPPED:
                named[_word(int(frame[layout.FRAME_STOPS // 8])).value]()
                frame[layout.FRAME_STOPS // 8] += 8
            elif status == layout.CALL_PYTHON:
                self._call_python(frame)
            else:
                code.want(status, frame)
