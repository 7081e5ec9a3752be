"""Rows of the store as they are: their operations, operands, arrays, and the writes of buffers."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from ..codegen import layout
from ..ops.table import BY_CODE, Pointwise
from . import store

ROW = np.dtype([("op", "i4"), ("a", "i4"), ("b", "i4"), ("c", "i4"), ("value", "f8")])
REFERENCE = np.dtype([("what", "i8"), ("id", "i4"), ("tag", "i4")])
USED_UP = (
    "tapegrad: a row that is needed was used up by a backward pass; call it with retain_graph=True"
)
CELLS = {layout.LOAD: "load", layout.STORE: "store"}
_OTHERS = {
    layout.LEAF: "input",
    layout.CONSTANT: "constant",
    layout.NUMBER: "constant",
    **CELLS,
}
_IN_CHUNK = layout.ROWS - 1  # the position of a time in its chunk


@functools.cache
def _writing_ops() -> np.ndarray:
    """Words of the operations that write in place."""
    codes = [code for code, op in list(BY_CODE.items()) if getattr(op, "writes", False)]
    return np.array([layout.STORE, *[layout.ARRAY + code for code in codes]])


def array_at(address: int) -> np.ndarray:
    return object_at(address)


def object_at(address: int) -> Any:
    if not address:
        raise RuntimeError(USED_UP)
    return ctypes.py_object.from_buffer(ctypes.c_int64(address)).value


class Reader:
    """Rows of the store, by id."""

    def __init__(self):
        with store.lock:
            store.seal()
            self._sequence = store.input_slots + store.order
            self._inputs = len(store.input_slots)
        self.place = {slot: k for k, slot in enumerate(self._sequence)}
        self._writes: dict[int, list[int]] = {}
        self._looked = len(self._sequence) << layout.ROWS_BITS  # from this time on they are known
        self._rows: dict[int, np.ndarray] = {}
        self._references: dict[int, np.ndarray] = {}

    def time(self, number: int) -> int:
        """Position in time."""
        slot = number >> layout.ROWS_BITS
        return (self.place[slot] << layout.ROWS_BITS) + (number & (layout.ROWS - 1))

    def _read(self, slot: int) -> None:
        if slot not in self._rows:
            memory = store.chunks[slot]
            rows = layout.HEADER_BYTES + layout.ROWS * layout.ROW_BYTES
            self._rows[slot] = memory[layout.HEADER_BYTES : rows].view(ROW)
            self._references[slot] = memory[rows:].view(REFERENCE)

    def chunk(self, slot: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a chunk and all references, used or not."""
        self._read(slot)
        return self._rows[slot], self._references[slot]

    def filled(self, slot: int) -> np.ndarray:
        """The rows of a chunk."""
        self._read(slot)
        return self._rows[slot][: store.word(slot, layout.USED_ROWS)]

    def row(self, number: int):
        slot = number >> layout.ROWS_BITS
        self._read(slot)
        return self._rows[slot][number & (layout.ROWS - 1)]

    def references(self, number: int):
        row = self.row(number)
        first, count = int(row["a"]), int(row["b"])
        return self._references[number >> layout.ROWS_BITS][first : first + count]

    def operands(self, number: int) -> list[int]:
        """Ids of the rows that row `number` reads."""
        row = self.row(number)
        op = int(row["op"])
        if op > layout.ARRAY:
            found = [int(i) for i in self.references(number)["id"]]
            return [i for i in found if i >= 0 and i != number]
        if op == layout.LOAD:
            return [int(row["a"])]
        if op == layout.STORE:
            return [i for i in (int(row["a"]), int(row["c"])) if i >= 0]  # below: used up
        if op >= 4 * layout.FIRST_CODE:
            both = op & 3 == layout.ROW_ROW and row["b"] >= 0
            return [int(row["a"])] + ([int(row["b"])] if both else [])
        return []

    def buffer_written(self, number: int) -> int:
        """The buffer that the row writes in place, −1 if none."""
        row = self.row(number)
        op = int(row["op"])
        if op > layout.ARRAY:
            declared = BY_CODE[op - layout.ARRAY]
            if not isinstance(declared, Pointwise) and declared.writes:
                return int(self.references(number)["id"][0])
        return int(row["a"]) if op == layout.STORE else -1

    def writes(self, buffer: int) -> list[int]:
        """The rows that write a buffer in place, oldest first. All are newer than its own."""
        if self.place[buffer >> layout.ROWS_BITS] < self._inputs:
            return []  # an input that is written has another row from then on
        self._look_back(self.time(buffer))
        return self._writes.get(buffer, [])

    def written_since(self, time: int) -> dict[int, int]:
        """The buffers that rows from a time on write in place, and the first of these rows."""
        self._look_back(time)
        found = {}
        for buffer, rows in self._writes.items():
            newer = [row for row in rows if self.time(row) >= time]
            found.update({buffer: newer[0]} if newer else {})
        return found

    def last_reads(self, rows: set[int]) -> dict[int, int]:
        """The time at which each of some rows is read last, of those that are read."""
        found, first = {}, min(rows, key=self.time)
        start = (first & (layout.ROWS - 1)) + 1
        for slot in self._sequence[self.place[first >> layout.ROWS_BITS] :]:
            for place in range(start, len(self.filled(slot))):
                number = (slot << layout.ROWS_BITS) + place
                found.update(dict.fromkeys(rows.intersection(self.operands(number)), number))
            start = 0
        return {row: self.time(number) for row, number in found.items()}

    def base(self, number: int) -> np.ndarray | None:
        """The array of a row, None where its value is a scalar, such as that of a sum.

        A row that is used up has it as long as another pass may read it, and None afterwards.
        """
        op = abs(int(self.row(number)["op"]))
        if op <= layout.ARRAY and op not in (layout.LEAF, layout.CONSTANT):
            return None
        references = self.references(number)
        if not len(references) or int(references[-1]["tag"]) != layout.TAG_ARRAY:
            return None
        return self.held(number, len(references) - 1)

    def held(self, number: int, k: int) -> Any:
        """The object of the k-th reference of a row, None if it is gone.

        It is looked up in one step, since another thread's pass may let it go meanwhile.
        """
        slot, first = number >> layout.ROWS_BITS, int(self.row(number)["a"])
        start = int(store.table[slot]) + layout.HEADER_BYTES + layout.ROWS * layout.ROW_BYTES
        try:
            return ctypes.py_object.from_address(start + (first + k) * REFERENCE.itemsize).value
        except ValueError:
            return None

    def function(self, number: int) -> Any:
        """The call of a `Function` that a row represents."""
        found = self.held(number, 0)
        if found is None:
            raise RuntimeError(USED_UP)
        return found

    def _look_back(self, time: int) -> None:
        """Find the writes among the rows from a time on."""
        while self._looked > time:
            place = (self._looked - 1) >> layout.ROWS_BITS
            first, stop = max(time - (place << layout.ROWS_BITS), 0), self._looked & _IN_CHUNK
            self._look(self._sequence[place], first, stop or layout.ROWS)
            self._looked = (place << layout.ROWS_BITS) + first

    def _look(self, slot: int, first: int, stop: int) -> None:
        """Find the writes among some rows of a chunk, which are older than those known."""
        if store.word(slot, layout.WRITES):
            base, rows = (slot << layout.ROWS_BITS) + first, self.filled(slot)[first:stop]
            places = np.isin(rows["op"], _writing_ops()).nonzero()[0]
            buffers, ops = rows["a"][places].copy(), rows["op"][places]
            arrays = ops > layout.ARRAY  # there `a` is the number of the first reference
            buffers[arrays] = self._references[slot]["id"][buffers[arrays]]
            found: dict[int, list[int]] = {}
            for buffer, place in zip(buffers.tolist(), places.tolist(), strict=True):
                found.setdefault(buffer, []).append(base + place)
            for buffer, older in found.items():
                self._writes[buffer] = older + self._writes.get(buffer, [])


def constant_of(row) -> float:
    return float(np.array([row["b"], row["c"]], np.int32).view(np.float64)[0])


def operation_of(op: int) -> Any:
    """The declared operation of a row, from its word; None for inputs and cells."""
    op = abs(op)
    code = op - layout.ARRAY if op > layout.ARRAY else op // 4 - 1
    return BY_CODE[code] if op >= 4 * layout.FIRST_CODE else None


def name_of_op(op: int) -> str:
    """Name of the operation of a row, from its word; also if the row is used up."""
    declared = operation_of(op)
    return _OTHERS.get(abs(op), "") if declared is None else declared.name


def name_of_row(reader: Reader, number: int) -> str:
    """Name of a row's operation."""
    op = int(reader.row(number)["op"])
    name = name_of_op(op) if op > 0 else ""
    if not name:
        raise RuntimeError(USED_UP)
    return name


def needed(reader: Reader, outputs: list[int], stops=()) -> list[int]:
    """Ids of all rows that the outputs need, in order of time; writes of their buffers included.

    Rows that only the rows in `stops` need are left out, but not writes of their buffers.
    """
    found, waiting = set(), list(outputs)
    while waiting:
        number = waiting.pop()
        if number in found:
            continue
        found.add(number)
        waiting.extend(reader.writes(number))
        if number not in stops:
            waiting.extend(reader.operands(number))
    return sorted(found, key=reader.time)
