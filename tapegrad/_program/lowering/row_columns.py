"""The needed rows of a recording as columns, for questions about all of them."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen import layout
from ..._core.codegen.layout import ARRAY, FIRST_CODE, LOAD, ROW_ROW, ROWS, ROWS_BITS, STORE
from ..._core.tape.memory_order import memory_of
from ..._core.tape.row_reader import REFERENCE
from . import tape_scan
from .tape_rows import Rows


class References(NamedTuple):
    """The references of rows of arrays: the row of each, what they are, and the arrays."""

    of: np.ndarray
    table: np.ndarray
    objects: list[Any]


class RowColumns:
    """The needed rows of a recording, in order: `places`, `table` and `op`."""

    def __init__(self, rows: Rows):
        self.rows = rows
        self.places = np.flatnonzero(rows.marks & tape_scan.NEEDED)
        self.ordinals = np.full(len(rows.marks), -1, np.int64)
        self.ordinals[self.places] = np.arange(len(self.places))
        self.chunks = self.places >> ROWS_BITS
        found = []
        for chunk in np.unique(self.chunks).tolist():
            at = self.places[self.chunks == chunk] & (ROWS - 1)
            found.append(rows.reader.chunk(rows.chunk_at(chunk))[0][at])
        self.table = np.concatenate(found)
        self.op = np.abs(self.table["op"].astype(np.int64))
        self.is_array = (self.op > ARRAY) | (self.op == layout.CONSTANT) | (self.op == layout.LEAF)

    def tokens(self) -> np.ndarray:
        """Equal for rows of one operation and number of references."""
        marks = self.rows.marks[self.places].astype(np.int64)
        counts = np.where(self.is_array, self.table["b"], 0)
        return (self.op << 32) + (counts << 8) + marks

    def targets(self, ids: np.ndarray) -> np.ndarray:
        """The needed rows with some ids, −1 for none."""
        numbers = self.rows.numbers[np.maximum(ids, 0) >> ROWS_BITS]
        places = (numbers << ROWS_BITS) + (ids & (ROWS - 1))
        known = (ids >= 0) & (numbers >= 0)
        return np.where(known, self.ordinals[np.where(known, places, 0)], -1)

    def operands(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the two rows that rows of numbers and of elements read, −1 for none."""
        table, op = self.table, self.op
        is_operation = ~self.is_array & (op >= 4 * FIRST_CODE)
        reads = is_operation | (op == LOAD) | (op == STORE)
        both = is_operation & (op & 3 == ROW_ROW)
        second = np.where(both, table["b"], np.where(op == STORE, table["c"], -1))
        return np.where(reads, table["a"], -1).astype(np.int64), second.astype(np.int64)

    def references(self, start: int, stop: int) -> References:
        """The references of the rows of arrays among some rows."""
        of, found = [np.zeros(0, np.int64)], []
        objects: list[Any] = []
        chunks = self.chunks[start:stop]
        for chunk in np.unique(chunks).tolist():
            rows = start + np.flatnonzero(chunks == chunk)
            rows = rows[self.is_array[rows]]
            memory = self.rows.reader.chunk(self.rows.chunk_at(chunk))[1]
            first, counts = self.table["a"][rows], self.table["b"][rows]
            before = np.cumsum(counts) - counts
            at = np.repeat(first - before, counts) + np.arange(counts.sum())
            addresses = (ctypes.py_object * (2 * len(memory))).from_address(memory_of(memory))
            made = memory[at]
            is_array = (made["tag"] == layout.TAG_ARRAY) & (made["what"] != 0)
            pairs = zip(at.tolist(), is_array.tolist(), strict=True)
            objects += [addresses[2 * k] if is_one else None for k, is_one in pairs]
            of.append(np.repeat(rows, counts))
            found.append(made)
        table = np.concatenate([np.zeros(0, REFERENCE), *found])
        return References(np.concatenate(of), table, objects)

    def number(self, row: int) -> int:
        """The number in the store of a needed row."""
        return self.rows.number(int(self.places[row]))
