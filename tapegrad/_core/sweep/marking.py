"""Marks of rows, a byte each: which rows read or write what.

A byte for each chunk lies before the bytes of the rows, backwards: whether a row of it is marked.
"""

from ..codegen.intrinsics import helper, load_i32, load_i64, load_u8, store_u8
from ..codegen.layout import (
    ARRAY,
    FIRST_CODE,
    HEADER_BYTES,
    LOAD,
    REFERENCE_BYTES,
    ROW_BYTES,
    ROW_ROW,
    ROWS_BITS,
    STORE,
    USED_ROWS,
    WRITE_BIT,
    WRITES,
)
from ..codegen.sweep_frame import REFERENCES_AT


@helper
def mark(marks, id):
    """Mark a row; returns 1 if it was not marked."""
    if id < 0:
        return 0
    if load_u8(marks, id) != 0:
        return 0
    set_mark(marks, id)
    return 1


@helper
def set_mark(marks, id):
    """Mark a row without returning its former mark."""
    store_u8(marks, id, 1)
    store_u8(marks, -1 - (id >> ROWS_BITS), 1)


@helper
def has_marked(marks, slot):
    """Whether a row of a chunk is marked."""
    return load_u8(marks, -1 - slot) != 0


@helper
def references(chunk, row):
    """Address of the first reference of an array row."""
    return chunk + REFERENCES_AT + load_i32(row, 4) * REFERENCE_BYTES


@helper
def mark_operands(chunk, row, op, marks):
    """Mark the operands of a row; returns how many were not marked before."""
    count = 0
    if op > ARRAY:
        at = references(chunk, row)
        for k in range(load_i32(row, 8)):
            count += mark(marks, load_i32(at, k * REFERENCE_BYTES + 8))
    elif op == LOAD or op == STORE:
        count += mark(marks, load_i32(row, 4))
        if op == STORE:
            count += mark(marks, load_i32(row, 12))
    elif op >= 4 * FIRST_CODE:
        count += mark(marks, load_i32(row, 4))
        if op & 3 == ROW_ROW:
            count += mark(marks, load_i32(row, 8))
    return count


@helper
def buffer_written(chunk, row, op, used):
    """Id of the buffer that a row writes in place, -1 if it is no such row."""
    if op > ARRAY and load_i64(used, (op - ARRAY) * 8) & WRITE_BIT:
        return load_i32(references(chunk, row), 8)
    return load_i32(row, 4) if op == STORE else -1


@helper
def mark_read(chunk, row, op, marks):
    """Mark the operands of a row: as `mark_operands`, but faster for the most frequent rows."""
    if op > ARRAY or op < 4 * FIRST_CODE and op != LOAD:
        mark_operands(chunk, row, op, marks)
        return
    set_mark(marks, load_i32(row, 4))
    if op != LOAD and op & 3 == ROW_ROW and load_i32(row, 8) >= 0:
        set_mark(marks, load_i32(row, 8))


@helper
def mark_below(chunk, base, marks, used):
    """Mark operands of the marked rows of a chunk, newest first, and values written for them.

    Used-up rows are marked, too: the reader of the marks must detect them.
    """
    writes = load_i64(chunk, WRITES)
    position = load_i64(chunk, USED_ROWS) - 1
    while position >= 0:
        if writes == 0 and position & 7 == 7 and load_i64(marks, base + position - 7) == 0:
            position -= 8
            continue
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        op = abs(load_i32(row, 0))
        buffer = buffer_written(chunk, row, op, used)
        if load_u8(marks, buffer if buffer >= 0 else base + position) != 0:
            mark_read(chunk, row, op, marks)
        position -= 1
