"""The rows of the store that a program is made of: which are needed, and slots for their values."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen import layout
from ..._core.codegen.layout import ARRAY, ROWS, ROWS_BITS
from ..._core.ops.table import TABLE
from ..._core.tape import store
from ..._core.tape.sweeps import memory_of
from ..._core.tape.tape import CELLS, Reader
from ..ir.steps import NOTHING
from . import tape_scan


class Unsupported(Exception):
    """Why a recording cannot be a program."""


WRITES_DATA = "it writes to an argument that is not differentiated; copy() it first"
READS_OTHERS = (
    "it reads a recorded tensor that is not an argument (for instance one made with "
    "requires_grad=True); pass it as an argument"
)


_ARRAY = layout.TAG_ARRAY
#: A reference in memory: address or bits, row, kind.
_REFERENCE = struct.Struct("=qii")
_ROW_WORDS = layout.ROW_BYTES // 4
_COUNT, _NEXT_SLOT = tape_scan.COUNT // 8, tape_scan.NEXT_SLOT // 8


class Reference(NamedTuple):
    """The reference of a row of arrays: an address or bits, the row that it belongs to, its kind.

    `array` is the array at the address, None for other operands.
    """

    what: int
    id: int
    tag: int
    array: Any

    @property
    def is_array(self) -> bool:
        return self.tag == _ARRAY


#: Chunks of a recording whose conversion is put off, and operations on arrays of such a one: to
#: convert one of these takes as long as some thousand numbers.
LONG, MANY = 4, 200


def is_long(first: int, end: int) -> bool:
    """Whether the rows from `first` to before `end` take long to convert."""
    with store.lock:
        begin, last = (store.order.index(row >> ROWS_BITS) for row in (first, end))
        slots = store.order[begin : last + 1]
    if len(slots) > LONG:
        return True
    reader, arrays = Reader(), 0
    for slot in slots:
        ops = reader.filled(slot)["op"]
        ops = ops[: end & (ROWS - 1)] if slot == slots[-1] else ops
        ops = ops[first & (ROWS - 1) :] if slot == slots[0] else ops
        arrays += int(np.count_nonzero(ops > ARRAY))
    return arrays >= MANY


class RowRange:
    """Rows from `first` to before `end`: marked from results, then read in order by `next_array`.

    Rows that other threads record meanwhile lie between them and are never marked.
    """

    def __init__(self, first: int, end: int, results: list[int]):
        self.reader = Reader()
        self.compiled = tape_scan.reading()
        self._scan = self.compiled["scan"]
        start = store.order.index(first >> ROWS_BITS)
        order = np.array(store.order[start:], np.int64)
        self.numbers = np.full(len(store.table), -1, np.int64)
        self.numbers[order] = np.arange(len(order))
        places = len(order) * ROWS
        self.marks = np.zeros(places, np.uint8)
        self.slots = np.full(places, -1, np.int64)
        self.maps = np.zeros(places, np.int64)
        words = np.zeros(tape_scan.WORDS, np.int64)
        self.words, self.address = words.data, memory_of(words)
        self._order, self._numbers = order.tolist(), self.numbers.tolist()
        self._chunk = -1  # the one that was read last
        self._keep = [words, order]
        self._known: dict[int, int] = {}  # slots of constants of rows, by their bits
        table = store.table
        for word, array in (
            (tape_scan.CHUNKS, table),
            (tape_scan.ORDER, order),
            (tape_scan.NUMBERS, self.numbers),
            (tape_scan.MARKS, self.marks),
            (tape_scan.SLOTS, self.slots),
            (tape_scan.MAPS, self.maps),
        ):
            self._point(word, array)
        self.first = self[tape_scan.FIRST] = self[tape_scan.AT] = first & (ROWS - 1)
        self.end = self[tape_scan.END] = self.place(end)
        self[tape_scan.OUTSIDE] = -1
        self.next_slot = NOTHING + 1
        self._mark(results)

    def __getitem__(self, word: int) -> int:
        return self.words[word // 8]

    def __setitem__(self, word: int, value: int) -> None:
        self.words[word // 8] = value

    def _point(self, word: int, array: np.ndarray) -> None:
        self[word] = memory_of(array)
        self._keep.append(array)

    def _mark(self, results: list[int]) -> None:
        for number in results:
            place = self.place(number)
            if place < 0:
                raise Unsupported("a result is a tensor that was recorded before the call")
            self.marks[place] |= tape_scan.NEEDED
        write, scatter = (ARRAY + TABLE[name].code for name in ("write", "scatter"))
        self.compiled["mark"](self.address, write, scatter)
        if self[tape_scan.OUTSIDE] >= 0:
            raise Unsupported(READS_OTHERS)

    def make_room(self, extra: int) -> None:
        """Memory for the columns of the marked scalars and `extra` more operations."""
        count = self[tape_scan.SCALARS] + extra
        self.op, self.a, self.b, self.c = (np.empty(count, np.int32) for _ in range(4))
        for word, array in (
            (tape_scan.OPS, self.op),
            (tape_scan.A, self.a),
            (tape_scan.B, self.b),
            (tape_scan.C, self.c),
        ):
            self._point(word, array)
        self._hold_constants(2 * count)

    def _hold_constants(self, least: int) -> None:
        """Memory for at least a number of constants, and those so far in it."""
        so_far = self.constant_values() if self[tape_scan.CONSTANTS_COUNT] else ()
        size = 64
        while size < 2 * least + 64:
            size *= 2
        self.constants = np.empty(size // 2)
        self._point(tape_scan.TABLE, np.zeros((size, 2), np.int64))
        self._point(tape_scan.CONSTANTS, self.constants)
        self[tape_scan.TABLE_MASK], self[tape_scan.CONSTANTS_COUNT] = size - 1, 0
        for value in so_far:
            self.constant(value)

    def place(self, number: int) -> int:
        """The position of a row in the order of time; −1 before the first."""
        found = self._numbers[number >> ROWS_BITS]
        place = (found << ROWS_BITS) + (number & (ROWS - 1))
        return -1 if found < 0 or place < self.first else place

    def number(self, place: int) -> int:
        """The row at a place."""
        return (self._order[place >> ROWS_BITS] << ROWS_BITS) + (place & (ROWS - 1))

    def read(self, place: int) -> tuple[int, list[Reference]]:
        """The operation of a row, as a word, and the references of one of arrays."""
        chunk = place >> ROWS_BITS
        if chunk != self._chunk:
            self._chunk, slot = chunk, self._order[chunk]
            rows, self._references = self.reader.chunk(slot)
            self._words = rows.view(np.int32).data
            self._bytes = self._references.view(np.uint8).data
            addresses = ctypes.py_object * (2 * len(self._references))
            self._objects = addresses.from_address(memory_of(self._references))
        at, size, objects = (place & (ROWS - 1)) * _ROW_WORDS, _REFERENCE.size, self._objects
        op, first, count = self._words[at : at + 3]
        if abs(op) in CELLS:
            return abs(op), []
        found = _REFERENCE.iter_unpack(self._bytes[size * first : size * (first + count)])
        return abs(op), [
            Reference(what, id, tag, objects[2 * k] if tag == _ARRAY and what else None)
            for k, (what, id, tag) in enumerate(found, first)
        ]

    def cell(self, place: int) -> tuple[int, int, int, int]:
        """Of a row that reads or writes an element: which, buffer, number of the element, source.

        The source is the row whose value is written.
        """
        row = self.reader.row(self.number(place))
        return abs(int(row["op"])), int(row["a"]), int(row["b"]) // 2, int(row["c"])

    def again(self, place: int) -> None:
        """Let `next_array` begin with a row."""
        self[tape_scan.AT] = place

    @property
    def next_slot(self) -> int:
        return self.words[_NEXT_SLOT]

    @next_slot.setter
    def next_slot(self, slot: int) -> None:
        self.words[_NEXT_SLOT] = slot

    def take(self, slots: int) -> tuple[int, int]:
        """Take slots; returns the number of operations on numbers so far, and the first slot."""
        words = self.words
        first = words[_NEXT_SLOT]
        words[_NEXT_SLOT] = first + slots
        return words[_COUNT], first

    def counts(self) -> tuple[int, int]:
        """The number of operations on numbers so far, and the next slot."""
        return self.words[_COUNT], self.words[_NEXT_SLOT]

    def constant_values(self) -> np.ndarray:
        """The constants so far, by index."""
        return self.constants[: self[tape_scan.CONSTANTS_COUNT]].copy()

    def how_many(self) -> tuple[int, int]:
        """The number of rows, and the number of them that are needed."""
        used = [store.word(slot, layout.USED_ROWS) for slot in self._order]
        return sum(used) - self.first, int(np.count_nonzero(self.marks & tape_scan.NEEDED))

    def is_needed(self, place: int) -> bool:
        return bool(self.marks[place] & tape_scan.NEEDED)

    def is_written(self, place: int) -> bool:
        """Whether a needed row writes the buffer of the row at a place."""
        return bool(self.marks.item(place) & tape_scan.WRITTEN)

    def set_map(self, place: int, map: np.ndarray) -> None:
        self.maps[place] = memory_of(map)
        self._keep.append(map)

    def go_on_to(self, stop: int) -> None:
        """Let `next_array` read up to before a row."""
        self[tape_scan.END] = min(stop, self.end)

    def next_array(self) -> int:
        """Read operations on scalars up to the next row of arrays; −1 if there is none."""
        return self._scan(self.address)

    def constant(self, value: float) -> int:
        """The slot of a constant, while the program is read."""
        free = len(self.constants) - self[tape_scan.CONSTANTS_COUNT]
        if free <= self[tape_scan.SCALARS]:  # the room for those that compiled code adds
            self._hold_constants(2 * len(self.constants))
        cell = ctypes.c_double(value)
        return self.compiled["constant"](self.address, ctypes.addressof(cell))

    def constant_of(self, bits: int) -> int:
        """The same of a number of a row."""
        slot = self._known.get(bits)
        if slot is None:
            value = ctypes.c_double.from_buffer(ctypes.c_int64(bits)).value
            slot = self._known[bits] = self.constant(value)
        return slot

    def emit(self, op: int, count: int, a, b, c) -> int:
        """Append an operation `count` times, on slots; returns the slot of the first result."""
        k, first = self[tape_scan.COUNT], self.next_slot
        new = slice(k, k + count)
        self.op[new], self.a[new], self.b[new], self.c[new] = op, a, b, c
        self[tape_scan.COUNT] = k + count
        self.next_slot = first + count
        return first
