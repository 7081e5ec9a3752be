"""The reverse sweep: one pass over the rows, from the newest to the oldest that is reached.

The sweep may stop, return the reason, and be called again: a kernel or a part of the sweep that is
not compiled yet is requested in this manner.
"""

#: Element-wise runs are swept by a separate function, called by its address.
POINTWISE_SOURCE = """
from tapegrad._core.sweep.elementwise_run import pointwise_run


def pointwise(frame, id):
    return pointwise_run(frame, id)
"""

SOURCE = '''
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.codegen.sweep_frame import *
from tapegrad._core.codegen.layout import *
from tapegrad._core.codegen.shared_kernels import forget
from tapegrad._core.sweep.elementwise_run_planning import is_pointwise
from tapegrad._core.sweep.marking import buffer_written
from tapegrad._core.sweep.marking import is_needed, last_row, sweep_store
from tapegrad._core.codegen import machine_types as types

exchange_call = call_address(types.int64(types.int64, types.int64))
run_call = call_address(types.int64(types.int64, types.int64))
scalars_call = call_address(types.int64(types.int64, types.int64, types.int64, types.int64))
structural_call = call_address(types.none(types.int64, types.int64, types.int64, types.int64))


@helper
def sweep_array(frame, id, row, op, writes):
    """Reverse of an array row that is reached; returns (next id to look at, status)."""
    if is_pointwise(frame, op):
        run = load_i64(frame, FRAME_POINTWISE)
        if run == 0:
            return id, WANT_POINTWISE
        below = run_call(run, frame, id)
        return below, load_i64(frame, FRAME_STATUS)
    kernel = load_i64(load_i64(frame, FRAME_STRUCTURAL), (op - ARRAY) * 8)
    if kernel == 0:
        store_i64(frame, FRAME_WANTED, op - ARRAY)
        return id, WANT_STRUCTURAL
    store_i64(frame, FRAME_STATUS, DONE)
    structural_call(kernel, frame, id, reference_of(frame, id, load_i32(row, 4)), REVERSE)
    if load_i64(frame, FRAME_STATUS) != DONE:
        return id, load_i64(frame, FRAME_STATUS)
    if not writes:
        last = reference_of(frame, id, load_i32(row, 4) + load_i32(row, 8) - 1)
        if load_i32(last, 12) == TAG_ARRAY:
            forget(frame, id)
        if not load_i64(frame, FRAME_RETAIN):
            store_i32(row, 0, -op)
    return id - 1, DONE


@helper
def is_touched(frame, slot, position):
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
    if cells == 0:
        return False
    return load_i64(cells, position * 8 * load_i64(frame, FRAME_SEEDS)) != UNTOUCHED


@helper
def next_stop(frame, order, position):
    """Where in this chunk, at `position` or below, the sweep has to stop next; -1 for nowhere."""
    at = load_i64(frame, FRAME_STOPS)
    while load_i64(at, 0) > (order << ROWS_BITS) + position:
        at += 8
    store_i64(frame, FRAME_STOPS, at)
    stop = load_i64(at, 0) - (order << ROWS_BITS)
    slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
    store_i64(frame, FRAME_STOP, (slot << ROWS_BITS) + stop if stop >= 0 else -1)
    return stop if stop >= 0 else -1


@helper
def sweep_chunk(frame, order, position):
    """Sweep one chunk from `position` down; returns (position, status)."""
    slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
    chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
    writes = load_i64(frame, FRAME_WRITES) != 0 and load_i64(chunk, WRITES) != 0
    adjoints, lowest = load_i64(frame, FRAME_ADJOINTS), load_i64(frame, FRAME_LOWEST)
    base = slot << ROWS_BITS
    stop = next_stop(frame, order, position)
    while position >= 0:
        reached = load_i64(adjoints, slot * 8) != 0 and position >= load_i64(lowest, slot * 8)
        if not reached and not writes:
            break
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        op = load_i32(row, 0)
        buffer = buffer_written(chunk, row, op, load_i64(frame, FRAME_USED))
        if position == stop:
            if is_touched(frame, slot, position) or buffer >= 0:
                return position, STOPPED
            stop = next_stop(frame, order, position - 1)
        status = DONE
        if op > ARRAY:
            below = base + position - 1
            if is_needed(frame, buffer) if buffer >= 0 else is_touched(frame, slot, position):
                below, status = sweep_array(frame, base + position, row, op, buffer >= 0)
            position = below - base
        elif reached and (op < 0 or op >= 4 * FIRST_CODE or op == LOAD or op == STORE):
            scalars = load_i64(frame, FRAME_SCALARS)
            if scalars == 0:
                return position, WANT_SCALARS
            position = scalars_call(scalars, frame, slot, position, stop)
            status = load_i64(frame, FRAME_STATUS)
        else:
            if op == STORE:
                status = sweep_store(frame, row)
            position -= 1
        if status != DONE:
            return position, status
    return position, DONE


@helper
def leave_chunk(frame, order):
    """Use the cells of a chunk again where nobody reads them: scalar rows without inputs."""
    slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
    chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
    if cells != 0 and load_i64(chunk, USED_REFERENCES) == 0 and load_i64(chunk, LEAVES) == 0:
        free_cells(frame, slot)


@helper
def sweep_back(frame):
    """Sweep from where the frame says; returns why it stopped."""
    order = load_i64(frame, FRAME_AT_ORDER)
    position = load_i64(frame, FRAME_AT_POSITION)
    while order >= load_i64(frame, FRAME_FIRST):
        position, status = sweep_chunk(frame, order, position)
        if status != DONE:
            store_i64(frame, FRAME_AT_ORDER, order)
            store_i64(frame, FRAME_AT_POSITION, position)
            return status
        leave_chunk(frame, order)
        order -= 1
        position = last_row(frame, order)
    store_i64(frame, FRAME_AT_ORDER, order)
    store_i64(frame, FRAME_AT_POSITION, -1)
    return load_i64(frame, FRAME_MET_FREED)


def reverse(frame):
    """Sweep until it is over or has to stop; returns why.

    Between two stops others may look at what was written: only the sweep itself sees it undone.
    """
    if load_i64(frame, FRAME_WRITES) == 0:
        return sweep_back(frame)
    exchange = load_i64(frame, FRAME_EXCHANGE)
    exchange_call(exchange, frame, UNDO)
    status = sweep_back(frame)
    exchange_call(exchange, frame, REDO)
    return status


'''

EXPORTS = {"reverse": 1}
