"""The writes that a sweep undoes: those of buffers that it can reach, marked before it begins.

Other threads may be computing with the buffers of their own rows meanwhile, without the lock. All
this is a part of the sweep of its own, compiled for the first sweep that meets a write.
"""

SOURCE = '''
from tapegrad.codegen.frame import *
from tapegrad.codegen.layout import *
from tapegrad.codegen.memory import *
from tapegrad.sweep.marks import buffer_written, has_marked, mark, mark_below, references
from tapegrad.sweep.stores import is_needed, last_row, swap_cell
from numba import types

structural_call = call_address(types.none(types.int64, types.int64, types.int64, types.int64))


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
def mark_reached(frame, marks, used):
    """Mark the rows that a sweep from those with an adjoint can reach; returns the oldest chunk."""
    order = load_i64(frame, FRAME_START_ORDER)
    reached = load_i64(frame, FRAME_FIRST)
    while order >= reached:
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        mark_touched(frame, slot, marks)
        chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
        mark_below(chunk, slot << ROWS_BITS, marks, used)
        order -= 1
        if order < reached:
            older = next_marked(frame, order)
            reached = older if older >= 0 else reached
    return reached


def find_writes(frame):
    """Mark what the sweep can reach; returns, and notes, whether it has to undo writes."""
    marks, used = load_i64(frame, FRAME_MARKS), load_i64(frame, FRAME_USED)
    sequence, chunks = load_i64(frame, FRAME_SEQUENCE), load_i64(frame, FRAME_CHUNKS)
    oldest = mark_reached(frame, marks, used)
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
