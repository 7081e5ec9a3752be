"""The writes that a sweep undoes: those of buffers that it can reach, marked before it begins.

Other threads may be computing with the buffers of their own rows meanwhile, without the lock. All
this is a separate part of the sweep, compiled for the first sweep that meets a write.
"""

SOURCE = '''
from tapegrad._core.codegen.sweep_frame import *
from tapegrad._core.codegen.layout import *
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.sweep.marking import buffer_written, references
from tapegrad._core.sweep.marking import mark_reached
from tapegrad._core.sweep.marking import is_needed, last_row, swap_cell
from tapegrad._core.codegen import machine_types as types

structural_call = call_address(types.none(types.int64, types.int64, types.int64, types.int64))


@helper
def has_needed_write(chunk, marks, used):
    """Whether a write of a chunk changes what is marked."""
    for position in range(load_i64(chunk, USED_ROWS)):
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        buffer = buffer_written(chunk, row, load_i32(row, 0), used)
        if buffer >= 0:
            if load_u8(marks, buffer) != 0:
                return True
    return False


@helper
def exchange_in_chunk(frame, slot, first, last, task):
    """Undo the writes of a chunk from `last` down to `first`, or write them again upwards."""
    chunk, used = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8), load_i64(frame, FRAME_USED)
    for k in range(last - first + 1):
        position = last - k if task == UNDO else first + k
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        op = load_i32(row, 0)
        buffer = buffer_written(chunk, row, op, used)
        if buffer < 0 or not is_needed(frame, buffer):
            continue
        if op == STORE:
            swap_cell(frame, row)
        else:
            kernel = load_i64(load_i64(frame, FRAME_STRUCTURAL), (op - ARRAY) * 8)
            id = (slot << ROWS_BITS) + position
            structural_call(kernel, frame, id, references(chunk, row), task)


def exchange(frame, task):
    """Undo, newest first, the writes that the sweep has passed, or write them again."""
    lowest, newest = load_i64(frame, FRAME_AT_ORDER), load_i64(frame, FRAME_START_ORDER)
    position = load_i64(frame, FRAME_AT_POSITION) + 1
    for k in range(newest - lowest + 1):
        order = newest - k if task == UNDO else lowest + k
        if order < load_i64(frame, FRAME_FIRST):
            continue
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        if load_i64(load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8), WRITES):
            first = position if order == lowest else 0
            last = load_i64(frame, FRAME_START_POSITION)
            last = last if order == newest else last_row(frame, order)
            exchange_in_chunk(frame, slot, first, last, task)
    return 0


def find_writes(frame):
    """Mark what the sweep can reach; returns, and notes, whether it has to undo writes."""
    marks, used = load_i64(frame, FRAME_MARKS), load_i64(frame, FRAME_USED)
    sequence, chunks = load_i64(frame, FRAME_SEQUENCE), load_i64(frame, FRAME_CHUNKS)
    oldest = mark_reached(frame)
    store_i64(frame, FRAME_WRITES, 0)
    for order in range(oldest, load_i64(frame, FRAME_START_ORDER) + 1):
        chunk = load_i64(chunks, load_i64(sequence, order * 8) * 8)
        if load_i64(chunk, WRITES) != 0:
            if has_needed_write(chunk, marks, used):
                store_i64(frame, FRAME_WRITES, 1)
                break
    return load_i64(frame, FRAME_WRITES)
'''

EXPORTS = {"find_writes": 1, "exchange": 2}
