"""Liveness of rows: marks from live tensors back through the operands.

All rows of a chunk that tensors still point into count as needed, and so do their operands.
In-place writes are needed when their buffer is.
"""

SOURCE = '''
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.codegen.layout import *
from tapegrad._core.sweep.marking import buffer_written, mark, mark_operands, references
from tapegrad._core.codegen import machine_types as types


@helper
def reach_chunk(chunk, base, live, marks, used):
    """Mark what the needed rows of one chunk need; returns how many rows were new."""
    rows = load_i64(chunk, USED_ROWS)
    count = 0
    for up in range(rows):
        position = rows - 1 - up
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        op = load_i32(row, 0)
        buffer = buffer_written(chunk, row, op, used)
        if live:
            count += mark(marks, base + position)
        elif buffer >= 0:
            if load_u8(marks, buffer) != 0:
                count += mark(marks, base + position)
        if load_u8(marks, base + position) != 0:
            count += mark_operands(chunk, row, op, marks)
    return count


def reach(chunks, sequence, length, marks, used, current):
    """Mark what is needed among the chunks in order of time; `current` is being written.

    A write is older news than its buffer's own row, so passes go on until nothing is new.
    """
    writes = 0
    for k in range(length):
        writes += load_i64(load_i64(chunks, load_i64(sequence, k * 8) * 8), WRITES)
    again = True
    while again:
        count = 0
        for back in range(length):
            slot = load_i64(sequence, (length - 1 - back) * 8)
            chunk = load_i64(chunks, slot * 8)
            live = slot == current or load_i64(chunk, LIVE) > 0
            count += reach_chunk(chunk, slot << ROWS_BITS, live, marks, used)
        again = writes > 0 and count > 0
    return 0


def release_rows(chunk, marks, base):
    """Let go of the arrays of rows that are not marked; returns their bytes."""
    given = 0
    for position in range(load_i64(chunk, USED_ROWS)):
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        op = load_i32(row, 0)
        holds = op > ARRAY or op == LEAF or op == CONSTANT or op < -ARRAY
        if holds and load_u8(marks, base + position) == 0:
            at = references(chunk, row)
            for k in range(load_i32(row, 8)):
                what = load_i64(at, k * REFERENCE_BYTES)
                tag = load_i32(at, k * REFERENCE_BYTES + 12)
                if (tag == TAG_ARRAY or tag == TAG_OBJECT) and what != 0:
                    if tag == TAG_ARRAY and k == load_i32(row, 8) - 1:
                        given += bytes_of(what)
                    store_i64(at, k * REFERENCE_BYTES, 0)
                    decref(what)
            store_i32(row, 0, NOTHING)
        elif op == STORE and load_u8(marks, base + position) == 0:
            store_i32(row, 0, NOTHING)
    return given


decref = c_function("Py_DecRef", types.none(types.int64))


@helper
def bytes_of(array):
    total = 8
    for axis in range(load_i32(array, ARRAY_NDIM)):
        total *= load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    return total
'''

EXPORTS = {"reach": 6, "release_rows": 3}
