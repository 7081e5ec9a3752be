"""Rows marked in sweeps: what rows depend on, which writes are undone, and written cells."""

from ..codegen.intrinsics import (
    helper,
    load_f64,
    load_i32,
    load_i64,
    load_u8,
    store_f64,
    store_i32,
    store_u8,
)
from ..codegen.layout import (
    ARRAY,
    ARRAY_DATA,
    DONE,
    FIRST_CODE,
    FRAME_ADJOINTS,
    FRAME_CHUNKS,
    FRAME_FIRST,
    FRAME_INPUTS,
    FRAME_LOWEST,
    FRAME_MARKS,
    FRAME_RETAIN,
    FRAME_SEEDS,
    FRAME_SEQUENCE,
    FRAME_START_ORDER,
    FRAME_USED,
    FRAME_WRITES,
    HEADER_BYTES,
    LOAD,
    MET_FREED,
    REFERENCE_BYTES,
    ROW_BYTES,
    ROW_ROW,
    ROWS,
    ROWS_BITS,
    STORE,
    UNTOUCHED,
    USED_ROWS,
    WRITE_BIT,
    WRITES,
)
from ..codegen.sweep_frame import (
    REFERENCES_AT,
    add_to_cell,
    adjoint_place,
    base_of,
    found_adjoint_buffer,
)

# --- marking --------------------------------------------------------------------------------------
# Marks of rows, a byte each: which rows read or write what.
#
# A byte for each chunk lies before the bytes of the rows, backwards: whether a row of it is marked.


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


# --- dependence sweep -----------------------------------------------------------------------------
# What rows depend on, marked from newest to oldest; it ends at the oldest mark.


@helper
def mark_touched(frame, slot, marks):
    """Mark the rows of a chunk that have an adjoint."""
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
    if cells == 0:
        return
    stride = load_i64(frame, FRAME_SEEDS) * 8
    for position in range(load_i64(load_i64(frame, FRAME_LOWEST), slot * 8), ROWS):
        if load_i64(cells, position * stride) != UNTOUCHED:
            mark(marks, (slot << ROWS_BITS) + position)


@helper
def next_marked(frame, order):
    """The newest chunk with a marked row among those up to `order`; -1 if there is none."""
    marks, sequence = load_i64(frame, FRAME_MARKS), load_i64(frame, FRAME_SEQUENCE)
    while order >= load_i64(frame, FRAME_INPUTS):
        if has_marked(marks, load_i64(sequence, order * 8)):
            return order
        order -= 1
    return -1


@helper
def mark_reached(frame):
    """Mark what the marked rows and those with an adjoint depend on; returns the oldest chunk.

    All that have an adjoint are marked first: a newer chunk may contain writes to their buffers.
    """
    marks, used = load_i64(frame, FRAME_MARKS), load_i64(frame, FRAME_USED)
    order, oldest = load_i64(frame, FRAME_START_ORDER), load_i64(frame, FRAME_FIRST)
    for touched in range(oldest, order + 1):
        mark_touched(frame, load_i64(load_i64(frame, FRAME_SEQUENCE), touched * 8), marks)
    while True:
        if order < oldest:
            older = next_marked(frame, order)
            if older < 0:
                return oldest
            oldest = older
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
        mark_below(chunk, slot << ROWS_BITS, marks, used)
        order -= 1


# --- cell writes ----------------------------------------------------------------------------------
# In-place writes in a sweep: which are undone, and the reverse of a written cell.


@helper
def last_row(frame, order):
    """Position of the newest row of a chunk; -1 before the first chunk.

    A chunk may be closed before it is full; rows beyond are from an earlier use of its memory.
    """
    if order < 0:
        return -1
    slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
    return load_i64(load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8), USED_ROWS) - 1


@helper
def is_needed(frame, buffer):
    """Whether the writes of a buffer are undone: the sweep can reach what reads it."""
    if load_i64(frame, FRAME_WRITES) == 0:
        return False
    return load_u8(load_i64(frame, FRAME_MARKS), buffer) != 0


@helper
def swap_cell(frame, row):
    """Restore the old value of a written cell, or the new one; returns its address, 0 if gone."""
    base = base_of(frame, load_i32(row, 4))
    if base == 0:
        return 0
    where = load_i64(base, ARRAY_DATA) + load_i32(row, 8) * 4
    held = load_f64(where, 0)
    store_f64(where, 0, load_f64(row, 16))
    store_f64(row, 16, held)
    return where


@helper
def sweep_store(frame, row):
    """Reverse of a written cell: restore the old value, pass its adjoint to the written value."""
    buffer, source = load_i32(row, 4), load_i32(row, 12)
    if not is_needed(frame, buffer):
        return DONE
    found = found_adjoint_buffer(frame, buffer)
    if found != 0 and source == -2:
        return MET_FREED
    where = swap_cell(frame, row)
    if where == 0 or found == 0:
        return DONE
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        at = adjoint_place(found, where, seed)
        add_to_cell(frame, source, seed, load_f64(at, 0))
        store_f64(at, 0, 0.0)
    if not load_i64(frame, FRAME_RETAIN):
        store_i32(row, 12, -2)
    return DONE
