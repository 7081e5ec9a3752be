"""What a sweep can reach, marked before it begins: only those writes are undone whose buffer it is.

Other threads may be computing with the buffers of their own rows meanwhile, without the lock.
"""

SOURCE = '''
from tapegrad.codegen.layout import *
from tapegrad.codegen.memory import *
from tapegrad.sweep.marks import buffer_written, mark, mark_operands


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
def mark_read(chunk, row, op, marks):
    """Mark what a row reads: as `mark_operands`, but short for the rows that are many."""
    if op > ARRAY or op < 4 * FIRST_CODE and op != LOAD:
        mark_operands(chunk, row, op, marks)
        return
    store_u8(marks, load_i32(row, 4), 1)
    if op != LOAD and op & 3 == ROW_ROW and load_i32(row, 8) >= 0:
        store_u8(marks, load_i32(row, 8), 1)


@helper
def mark_below(chunk, base, marks, used):
    """Mark what the marked rows of a chunk read, newest first, and what was written for them."""
    writes = load_i64(chunk, WRITES)
    position = load_i64(chunk, USED_ROWS) - 1
    while position >= 0:
        if writes == 0 and position & 7 == 7 and load_i64(marks, base + position - 7) == 0:
            position -= 8
            continue
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        op = load_i32(row, 0)
        buffer = buffer_written(chunk, row, op, used)
        if load_u8(marks, buffer if buffer >= 0 else base + position) != 0:
            mark_read(chunk, row, op, marks)
        position -= 1


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


def find_writes(frame):
    """Mark the rows that a sweep from those with an adjoint can reach; returns, and notes, whether
    there are writes that it has to undo."""
    marks, used = load_i64(frame, FRAME_MARKS), load_i64(frame, FRAME_USED)
    sequence, chunks = load_i64(frame, FRAME_SEQUENCE), load_i64(frame, FRAME_CHUNKS)
    newest, first = load_i64(frame, FRAME_START_ORDER), load_i64(frame, FRAME_INPUTS)
    for back in range(newest - first + 1):
        slot = load_i64(sequence, (newest - back) * 8)
        mark_touched(frame, slot, marks)
        mark_below(load_i64(chunks, slot * 8), slot << ROWS_BITS, marks, used)
    store_i64(frame, FRAME_WRITES, 0)
    for back in range(newest - first + 1):
        chunk = load_i64(chunks, load_i64(sequence, (newest - back) * 8) * 8)
        if load_i64(chunk, WRITES) != 0:
            if has_needed_write(chunk, marks, used):
                store_i64(frame, FRAME_WRITES, 1)
                break
    return load_i64(frame, FRAME_WRITES)
'''

EXPORTS = {"find_writes": 1}
