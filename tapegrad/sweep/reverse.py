"""The reverse sweep: one pass over the rows, from the newest to the oldest that is reached.

The switch over scalar operations is generated from the table. The sweep may stop, say why, and be
called again: a kernel that has not been compiled yet is asked for that way.
"""

from ..ops.table import TABLE, Pointwise

#: Element-wise runs are a function of their own, called by its address.
POINTWISE_SOURCE = """
from tapegrad.sweep.pointwise_run import pointwise_run


def pointwise(frame, id):
    return pointwise_run(frame, id)
"""

_HEAD = '''
from tapegrad.codegen import vmath as np
from tapegrad.codegen.memory import *
from tapegrad.codegen.vmath import select
from tapegrad.codegen.frame import *
from tapegrad.codegen.layout import *
from tapegrad.sweep.runs import is_pointwise
from numba import types

run_call = call_address(types.int64(types.int64, types.int64))
structural_call = call_address(types.none(types.int64, types.int64, types.int64, types.int64))


@helper
def sweep_load(frame, row, address):
    """Reverse of a read cell."""
    buffer = load_i32(row, 4)
    found = mirror(frame, buffer)
    if found == 0:
        return
    data = load_i64(base_of(frame, buffer), ARRAY_DATA) + load_i32(row, 8) * 4
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        where = mirrored(found, data, seed)
        store_f64(where, 0, load_f64(where, 0) + load_f64(address, seed * 8))


@helper
def swap_cell(frame, row):
    """Put back what a written cell held, or what was written; returns its address, 0 if gone."""
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
    """Reverse of a written cell: the old value back, its adjoint to what was written."""
    buffer, source = load_i32(row, 4), load_i32(row, 12)
    found = found_mirror(frame, buffer)
    if found != 0 and source == -2:
        return MET_FREED
    where = swap_cell(frame, row)
    if where == 0 or found == 0:
        return DONE
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        at = mirrored(found, where, seed)
        add_to_cell(frame, source, seed, load_f64(at, 0))
        store_f64(at, 0, 0.0)
    if not load_i64(frame, FRAME_RETAIN):
        store_i32(row, 12, -2)
    return DONE


@helper
def slopes_of(code, kind, x, y, out):
    """Slopes of a scalar operation to its operands.

    Those of sums and products are picked without a jump, which would often be foreseen wrongly.
    """
    sx = 0.0
    sy = 0.0
    bit = 1 << code if code < 63 else 0
    if bit & PLAIN:
        sx = y if bit & X_IS_Y else (-1.0 if bit & X_IS_LESS else 1.0)
        sy = x if bit & Y_IS_X else (-1.0 if bit & Y_IS_LESS else 1.0)
        return sx, sy
'''

_TAIL = '''
    return sx, sy


@helper
def operand_of(frame, id, slot, first_row, cells, stride):
    """Value of a scalar operand, address of its cell, and its position in the chunk being swept.

    Most operands lie there and are found without tables; the position of others counts as ROWS.
    """
    if id >> ROWS_BITS == slot:
        position = id & (ROWS - 1)
        return load_f64(first_row + position * ROW_BYTES, 16), cells + position * stride, position
    return load_f64(row_of(frame, id), 16), cell(frame, id), ROWS


@helper
def pass_on(address, seeds, slope, target):
    """Add a row's adjoint times a slope to an operand's; an adjoint of exactly 0 gives 0."""
    for seed in range(seeds):
        g = load_f64(address, seed * 8)
        part = 0.0 if g == 0.0 else g * slope
        store_f64(target, seed * 8, load_f64(target, seed * 8) + (part + 0.0))


@helper
def sweep_scalar(frame, slot, first_row, cells, row, op, address):
    """Reverse of a touched scalar row; returns the lowest position of its operands in the chunk."""
    seeds = load_i64(frame, FRAME_SEEDS)
    kind, out = op & 3, load_f64(row, 16)
    x, to_x, at = operand_of(frame, load_i32(row, 4), slot, first_row, cells, seeds * 8)
    if kind == CONSTANT_ROW:
        _, slope = slopes_of(op >> 2, kind, load_f64(row, 8), x, out)
        pass_on(address, seeds, slope, to_x)
    elif kind == ROW_CONSTANT or load_i32(row, 8) < 0:
        slope, _ = slopes_of(op >> 2, kind, x, load_f64(row, 8), out)
        pass_on(address, seeds, slope, to_x)
    else:
        y, to_y, other = operand_of(frame, load_i32(row, 8), slot, first_row, cells, seeds * 8)
        first, second = slopes_of(op >> 2, kind, x, y, out)
        pass_on(address, seeds, first, to_x)
        pass_on(address, seeds, second, to_y)
        at = min(at, other)
    return at


@helper
def sweep_scalars(frame, slot, position, stop):
    """Sweep scalar rows of a chunk from `position` down to a row of another kind, to `stop` or
    to the lowest row reached; returns (position, status)."""
    first_row = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8) + HEADER_BYTES
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
    lowest = load_i64(frame, FRAME_LOWEST) + slot * 8
    stride, retain = load_i64(frame, FRAME_SEEDS) * 8, load_i64(frame, FRAME_RETAIN)
    low = load_i64(lowest, 0)
    while position >= low and position != stop:
        row = first_row + position * ROW_BYTES
        op = load_i32(row, 0)
        if op > ARRAY:
            break
        address = cells + position * stride
        touched = load_i64(address, 0) != UNTOUCHED or op == STORE
        if touched and op < 4 * FIRST_CODE:
            store_i64(lowest, 0, low)
            status = sweep_other(frame, (slot << ROWS_BITS) + position, row, op, address)
            if status != DONE:
                return position, status
            low = load_i64(lowest, 0)
        elif touched:
            low = min(low, sweep_scalar(frame, slot, first_row, cells, row, op, address))
            if not retain:
                store_i32(row, 0, -op)
        position -= 1
    store_i64(lowest, 0, low)
    return position, DONE


@helper
def sweep_other(frame, id, row, op, address):
    """Reverse of a touched row that is neither an operation on scalars nor on arrays."""
    if op == LOAD:
        sweep_load(frame, row, address)
        if not load_i64(frame, FRAME_RETAIN):
            store_i32(row, 0, -op)
    elif op == STORE:
        return sweep_store(frame, row)
    elif op < 0:
        return MET_FREED
    elif op == CONSTANT:
        forget(frame, id)
    return DONE


@helper
def is_write(frame, op):
    """Whether a row changes a buffer in place."""
    if op <= ARRAY:
        return False
    return load_i64(load_i64(frame, FRAME_USED), (op - ARRAY) * 8) & WRITE_BIT != 0


@helper
def sweep_array(frame, id, row, op, touched):
    """Reverse of an array row; returns (next id to look at, status)."""
    if is_pointwise(frame, op):
        if not touched:
            return id - 1, DONE
        below = run_call(load_i64(frame, FRAME_POINTWISE), frame, id)
        return below, WANT_KERNEL if below == id else DONE
    writes = is_write(frame, op)
    if not touched and not writes:
        return id - 1, DONE
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
    writes = load_i64(chunk, WRITES)
    adjoints, lowest = load_i64(frame, FRAME_ADJOINTS), load_i64(frame, FRAME_LOWEST)
    base = slot << ROWS_BITS
    stop = next_stop(frame, order, position)
    while position >= 0:
        reached = load_i64(adjoints, slot * 8) != 0 and position >= load_i64(lowest, slot * 8)
        if not reached and not writes:
            break
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        op = load_i32(row, 0)
        if position == stop:
            if is_touched(frame, slot, position) or is_write(frame, op) or op == STORE:
                return position, STOPPED
            stop = next_stop(frame, order, position - 1)
        status = DONE
        if op > ARRAY:
            touched = is_touched(frame, slot, position)
            below, status = sweep_array(frame, base + position, row, op, touched)
            position = below - base
        elif reached:
            position, status = sweep_scalars(frame, slot, position, stop)
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
def last_row(frame, order):
    """Position of the newest row of a chunk; -1 before the first chunk.

    A chunk may be closed before it is full; what lies beyond is from an earlier use of its memory.
    """
    if order < 0:
        return -1
    slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
    return load_i64(load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8), USED_ROWS) - 1


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
    exchange_writes(frame, UNDO)
    status = sweep_back(frame)
    exchange_writes(frame, REDO)
    return status


@helper
def exchange_writes(frame, task):
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


@helper
def exchange_in_chunk(frame, slot, first, last, task):
    """Undo the writes of a chunk from `last` down to `first`, or write them again upwards."""
    rows = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8) + HEADER_BYTES
    for k in range(last - first + 1):
        position = last - k if task == UNDO else first + k
        row = rows + position * ROW_BYTES
        op = load_i32(row, 0)
        if op == STORE:
            swap_cell(frame, row)
        elif is_write(frame, op):
            kernel = load_i64(load_i64(frame, FRAME_STRUCTURAL), (op - ARRAY) * 8)
            id = (slot << ROWS_BITS) + position
            structural_call(kernel, frame, id, reference_of(frame, id, load_i32(row, 4)), task)
'''

EXPORTS = {"reverse": 1}


def _case(op: Pointwise) -> str:
    lines = []
    places = zip((2, 1), ("sx", "sy"), op.slopes, strict=False)
    for kind, variable, slope in places:
        if slope == "0.0":
            continue
        guard = f"if kind != {kind}:\n            " if len(op.inputs) == 2 else ""
        lines.append(f"{guard}{variable} = {slope}")
    body = "\n        ".join(lines) or "pass"
    return f"if code == {op.code + 1}:\n        {body}"


def _plain() -> dict[str, int]:
    """Bits of the operations whose slopes are 1, −1 or the other operand, and which they are."""
    bits = dict.fromkeys(("PLAIN", "X_IS_Y", "X_IS_LESS", "Y_IS_X", "Y_IS_LESS"), 0)
    named = {"y": "IS_Y", "x": "IS_X", "-1.0": "IS_LESS"}
    for op in TABLE.values():
        pairs = list(zip("XY", getattr(op, "slopes", ()), (("y",), ("x",)), strict=False))
        plain = [slope in ("1.0", "-1.0", *other) for _, slope, other in pairs]
        if not plain or not all(plain) or len(op.inputs) > 2 or op.code > 61:
            continue
        bits["PLAIN"] |= 2 << op.code
        for place, slope, _ in pairs:
            if slope in named:
                bits[f"{place}_{named[slope]}"] |= 2 << op.code
    return bits


def source() -> str:
    """The text of the sweep's module: the switch holds every operation of up to two inputs."""
    constants = "".join(f"{name} = {value}\n" for name, value in _plain().items())
    cases = [
        _case(op) for op in TABLE.values() if isinstance(op, Pointwise) and len(op.inputs) <= 2
    ]
    return constants + _HEAD + "    " + "\n    el".join(cases) + _TAIL
