"""Rows of the store as a batch reads them, each read once: operands, buffers, operations.

They are read straight from the memory of their chunks, so that small batches pay off too.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any, NamedTuple

from .._core.codegen import layout
from .._core.tape import store
from .._core.tape.row_reader import USED_UP, operation_of
from .._core.tape.tape import cell_of

_ROW = struct.Struct("<iiiid")
_REFERENCE = struct.Struct("<qii")
_NUMBER = struct.Struct("<d")
_WORDS = struct.Struct("<ii")
_object = ctypes.py_object.from_address
_REFERENCES = layout.HEADER_BYTES + layout.ROWS * layout.ROW_BYTES


class RecordedRow(NamedTuple):
    """A row: its word and operation, operands as (row, view, number or object), its own array.

    A constant operand is of row −1; the view of a row of a number is None. `reads` are the rows
    that it reads.
    """

    word: int
    op: Any
    operands: list[tuple[int, Any]]
    base: Any  # an array, or None
    reads: list[int]

    @property
    def name(self) -> str:
        return self.op.name if self.op is not None else "a row"


class RecordedRows:
    """Rows by number."""

    def __init__(self):
        self._rows: dict[int, RecordedRow] = {}

    def __getitem__(self, number: int) -> RecordedRow:
        found = self._rows.get(number)
        if found is None:
            found = self._rows[number] = self._read(number)
        return found

    @staticmethod
    def fields(number: int) -> tuple[int, int, int, int, float]:
        """The word of a row, a, b, c and its value."""
        chunk: Any = store.chunks[number >> layout.ROWS_BITS]
        at = layout.HEADER_BYTES + (number & (layout.ROWS - 1)) * layout.ROW_BYTES
        return _ROW.unpack_from(chunk, at)

    def _read(self, number: int) -> RecordedRow:
        word, a, b, c, _ = self.fields(number)
        if word <= 0:
            raise RuntimeError(USED_UP)
        if word > layout.ARRAY or word in (layout.LEAF, layout.CONSTANT):
            return self._read_array(number, word, a, b)
        if word == layout.LOAD:
            return RecordedRow(word, None, [(a, cell_of(self[a].base, b))], None, [a])
        if word == layout.STORE:
            return RecordedRow(word, None, [], None, [k for k in (a, c) if k >= 0])
        if word < 4 * layout.FIRST_CODE:
            return RecordedRow(word, None, [], None, [])
        return self._read_number(word, a, b, c)

    @staticmethod
    def _read_number(word: int, a: int, b: int, c: int) -> RecordedRow:
        op, kind = operation_of(word), word & 3
        if kind == layout.ROW_ROW:
            reads = [a, b] if b >= 0 else [a]
            return RecordedRow(word, op, [(k, None) for k in reads], None, reads)
        (constant,) = _NUMBER.unpack(_WORDS.pack(b, c))
        operands = [(a, None), (-1, constant)]
        if kind == layout.CONSTANT_ROW:
            operands.reverse()
        return RecordedRow(word, op, operands, None, [a])

    @staticmethod
    def _read_array(number: int, word: int, first: int, count: int) -> RecordedRow:
        chunk: Any = store.chunks[number >> layout.ROWS_BITS]
        start = _REFERENCES + first * layout.REFERENCE_BYTES
        memory = memoryview(chunk)[start : start + count * layout.REFERENCE_BYTES]
        address = chunk.ctypes.data + start
        found: list[tuple[int, Any]] = []
        for what, source, tag in _REFERENCE.iter_unpack(memory):
            if source < -1:
                raise RuntimeError(USED_UP)
            seen: Any = None
            if tag in (layout.TAG_ARRAY, layout.TAG_OBJECT):
                seen = _object(address + len(found) * layout.REFERENCE_BYTES).value
            elif tag == layout.TAG_INT:
                seen = what
            elif tag == layout.TAG_CONSTANT:
                (seen,) = _NUMBER.unpack(what.to_bytes(8, "little", signed=True))
            found.append((source if tag <= layout.TAG_SCALAR else -1, seen))
        op = operation_of(word) if word > layout.ARRAY else None
        if getattr(op, "writes", False):
            found.append((-1, None))  # it has no output
        *operands, (_, base) = found or [(-1, None)]
        reads = [source for source, _ in operands if source >= 0]
        return RecordedRow(word, op, operands, base, reads)
