"""Which rows are still needed: marks from live tensors back through the operands.

All rows of a chunk that tensors still point into count as needed, and so do their operands.
In-place writes are needed when their buffer is.
"""

SOURCE = '''
from tapegrad.codegen.memory import *
from tapegrad.codegen.layout import *
from numba import types

WRITE_BIT = 1 << 17


@helper
def mark(marks, id):
    """Mark a row; returns 1 if it was not marked."""
    if id < 0:
        return 0
    if load_u8(marks, id) != 0:
        return 0
    store_u8(marks, id, 1)
    return 1


@helper
def references(chunk, row):
    return chunk + HEADER_BYTES + ROWS * ROW_BYTES + load_i32(row, 4) * REFERENCE_BYTES


@helper
def mark_operands(chunk, row, op, marks):
    """Mark the operands of a row; returns how many were not marked."""
    new = 0
    if op > ARRAY:
        at = references(chunk, row)
        for k in range(load_i32(row, 8)):
            new += mark(marks, load_i32(at, k * REFERENCE_BYTES + 8))
    elif op == LOAD:
        new += mark(marks, load_i32(row, 4))
    elif op == STORE:
        new += mark(marks, load_i32(row, 4)) + mark(marks, load_i32(row, 8))
    elif op >= 4 * FIRST_CODE:
        new += mark(marks, load_i32(row, 4))
        if op & 3 == ROW_ROW:
            new += mark(marks, load_i32(row, 8))
    return new


@helper
def written_buffer(chunk, row, op, used):
    """Id of the buffer that a row writes in place, -1 if it is no such row."""
    if op == STORE:
        return load_i32(row, 8)
    if op > ARRAY and load_i64(used, (op - ARRAY) * 8) & WRITE_BIT:
        return load_i32(references(chunk, row), 8)
    return -1


def reach(chunks, sequence, length, marks, used, current):
    """Mark what is needed among the chunks in order of time; `current` is the slot in use."""
    again = True
    while again:
        new, skipped = 0, False
        for back in range(length):
            slot = load_i64(sequence, (length - 1 - back) * 8)
            chunk = load_i64(chunks, slot * 8)
            base = slot << ROWS_BITS
            live = slot == current or load_i64(chunk, LIVE) > 0
            rows = load_i64(chunk, USED_ROWS)
            writes = load_i64(chunk, WRITES) > 0
            for up in range(rows):
                position = rows - 1 - up
                row = chunk + HEADER_BYTES + position * ROW_BYTES
                op = load_i32(row, 0)
                if live:
                    new += mark(marks, base + position)
                elif writes:
                    buffer = written_buffer(chunk, row, op, used)
                    if buffer >= 0:
                        if load_u8(marks, buffer) == 0:
                            skipped = True
                            continue
                        new += mark(marks, base + position)
                if load_u8(marks, base + position) != 0:
                    new += mark_operands(chunk, row, op, marks)
        again = skipped and new > 0
    return 0


def any_mark(marks, base, rows):
    for k in range(rows):
        if load_u8(marks, base + k) != 0:
            return 1
    return 0


def release_rows(chunk, marks, base, only_freed):
    """Let go of the arrays of rows: all used up (`only_freed`), or all that are not marked."""
    given = 0
    for position in range(load_i64(chunk, USED_ROWS)):
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        op = load_i32(row, 0)
        gone = False
        if only_freed == 0 and (op > ARRAY or op == LEAF or op == CONSTANT):
            gone = load_u8(marks, base + position) == 0
        if gone or op == FREED_ARRAY:
            at = references(chunk, row)
            for k in range(load_i32(row, 8)):
                tag, what = load_i32(at, k * REFERENCE_BYTES + 12), load_i64(at, k * REFERENCE_BYTES)
                if (tag == TAG_ARRAY or tag == TAG_OBJECT) and what != 0:
                    if tag == TAG_ARRAY and k == load_i32(row, 8) - 1:
                        given += bytes_of(what)
                    store_i64(at, k * REFERENCE_BYTES, 0)
                    decref(what)
            store_i32(row, 0, FREED if op == FREED_ARRAY else NOTHING)
    return given


decref = c_function("Py_DecRef", types.none(types.int64))


@helper
def bytes_of(array):
    total = 8
    for axis in range(load_i32(array, ARRAY_NDIM)):
        total *= load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    return total
'''

EXPORTS = {"reach": 6, "any_mark": 3, "release_rows": 4}
