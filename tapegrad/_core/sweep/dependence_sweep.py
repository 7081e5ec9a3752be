"""What rows depend on, marked from newest to oldest; it ends at the oldest mark."""

from ..codegen.intrinsics import helper, load_i64
from ..codegen.layout import (
    FRAME_ADJOINTS,
    FRAME_CHUNKS,
    FRAME_FIRST,
    FRAME_INPUTS,
    FRAME_LOWEST,
    FRAME_MARKS,
    FRAME_SEEDS,
    FRAME_SEQUENCE,
    FRAME_START_ORDER,
    FRAME_USED,
    ROWS,
    ROWS_BITS,
    UNTOUCHED,
)
from .marking import has_marked, mark, mark_below


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
