"""In-place writes in a sweep: which are undone, and the reverse of a written cell."""

from ..codegen.intrinsics import helper, load_f64, load_i32, load_i64, load_u8, store_f64, store_i32
from ..codegen.layout import (
    ARRAY_DATA,
    DONE,
    FRAME_CHUNKS,
    FRAME_MARKS,
    FRAME_RETAIN,
    FRAME_SEEDS,
    FRAME_SEQUENCE,
    FRAME_WRITES,
    MET_FREED,
    USED_ROWS,
)
from ..codegen.sweep_frame import add_to_cell, adjoint_place, base_of, found_adjoint_buffer


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
