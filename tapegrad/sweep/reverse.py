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
from tapegrad.sweep.pointwise_run import is_pointwise
from numba import types

run_call = call_address(types.int64(types.int64, types.int64))
structural_call = call_address(types.none(types.int64, types.int64, types.int64, types.int64))
WRITE_BIT = 1 << 17
word = types.int64
global_state = global_address("tapegrad_state")
decref = c_function("Py_DecRef", types.none(word))
incref = c_function("Py_IncRef", types.none(word))
float_from = c_function("PyFloat_FromDouble", word(types.float64))
int_as_word = c_function("PyLong_AsLongLong", word(word))


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
def slopes_of(frame, code, kind, x, y, out):
    """Slopes of a scalar operation to its operands."""
    sx = 0.0
    sy = 0.0
'''

_TAIL = '''
    return sx, sy


@helper
def sweep_scalar(frame, row, op, address):
    code, kind = op >> 2, op & 3
    a = load_i32(row, 4)
    out = load_f64(row, 16)
    x = load_f64(row_of(frame, a), 16)
    y = 0.0
    b = -1
    if kind == ROW_ROW:
        b = load_i32(row, 8)
        if b >= 0:
            y = load_f64(row_of(frame, b), 16)
    else:
        y = load_f64(row, 8)
        if kind == CONSTANT_ROW:
            x, y = y, x
    sx, sy = slopes_of(frame, code, kind, x, y, out)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        g = load_f64(address, seed * 8)
        first = sy if kind == CONSTANT_ROW else sx
        add_to_cell(frame, a, seed, 0.0 if g == 0.0 else g * first)
        if b >= 0:
            add_to_cell(frame, b, seed, 0.0 if g == 0.0 else g * sy)


@helper
def sweep_array(frame, id, row, op, touched):
    """Reverse of an array row; returns (next id to look at, status)."""
    if is_pointwise(frame, op):
        if not touched:
            return id - 1, DONE
        below = run_call(load_i64(frame, FRAME_POINTWISE), frame, id)
        return below, WANT_KERNEL if below == id else DONE
    writes = load_i64(load_i64(frame, FRAME_USED), (op - ARRAY) * 8) & WRITE_BIT
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
            store_i32(row, 0, FREED_ARRAY)
    return id - 1, DONE


@helper
def sweep_chunk(frame, slot, position):
    """Sweep one chunk from `position` down; returns (position, status)."""
    chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
    first_row = chunk + HEADER_BYTES
    writes = load_i64(chunk, WRITES)
    seeds = load_i64(frame, FRAME_SEEDS)
    retain = load_i64(frame, FRAME_RETAIN)
    adjoints, lowest = load_i64(frame, FRAME_ADJOINTS), load_i64(frame, FRAME_LOWEST)
    base = slot << ROWS_BITS
    while position >= 0:
        cells = load_i64(adjoints, slot * 8)
        if not writes:
            if cells == 0 or position < load_i64(lowest, slot * 8):
                break
        address = cells + position * 8 * seeds
        touched = False
        if cells != 0:
            touched = load_i64(address, 0) != UNTOUCHED
        row = first_row + position * ROW_BYTES
        op = load_i32(row, 0)
        if op > ARRAY:
            below, status = sweep_array(frame, base + position, row, op, touched)
            position = below - base
            if status != DONE:
                return position, status
            continue
        if touched:
            if op == FREED or op == FREED_ARRAY:
                return position, MET_FREED
            if op >= 4 * FIRST_CODE:
                sweep_scalar(frame, row, op, address)
                if not retain:
                    store_i32(row, 0, FREED)
            elif op == LOAD:
                sweep_load(frame, row, address)
                if not retain:
                    store_i32(row, 0, FREED)
            elif op == CONSTANT:
                forget(frame, base + position)
        position -= 1
    return position, DONE


@helper
def sweep_back(frame):
    """Sweep from where the frame says; returns why it stopped."""
    order = load_i64(frame, FRAME_AT_ORDER)
    position = load_i64(frame, FRAME_AT_POSITION)
    while order >= load_i64(frame, FRAME_FIRST):
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        position, status = sweep_chunk(frame, slot, position)
        if status != DONE:
            store_i64(frame, FRAME_AT_ORDER, order)
            store_i64(frame, FRAME_AT_POSITION, position)
            return status
        order -= 1
        position = ROWS - 1
    store_i64(frame, FRAME_AT_ORDER, order)
    store_i64(frame, FRAME_AT_POSITION, -1)
    return load_i64(frame, FRAME_MET_FREED)


def reverse(frame):
    """Sweep, and when it is over write again what it has undone; returns why it stopped."""
    status = sweep_back(frame)
    if status == DONE or status == MET_FREED or status == MET_CHANGED:
        redo_writes(frame)
    return status


@helper
def redo_writes(frame):
    """Write again, oldest first, what the sweep has undone."""
    order = load_i64(frame, FRAME_AT_ORDER)
    position = load_i64(frame, FRAME_AT_POSITION) + 1
    if order < load_i64(frame, FRAME_FIRST):
        order += 1
        position = 0
    while order <= load_i64(frame, FRAME_START_ORDER):
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
        if load_i64(chunk, WRITES):
            last = ROWS - 1
            if order == load_i64(frame, FRAME_START_ORDER):
                last = load_i64(frame, FRAME_START_POSITION)
            while position <= last:
                row = chunk + HEADER_BYTES + position * ROW_BYTES
                op = load_i32(row, 0)
                if op > ARRAY:
                    if load_i64(load_i64(frame, FRAME_USED), (op - ARRAY) * 8) & WRITE_BIT:
                        kernel = load_i64(load_i64(frame, FRAME_STRUCTURAL), (op - ARRAY) * 8)
                        id = (slot << ROWS_BITS) + position
                        refs = reference_of(frame, id, load_i32(row, 4))
                        structural_call(kernel, frame, id, refs, REDO)
                position += 1
        order += 1
        position = 0


def redo(frame):
    redo_writes(frame)
    return 0


def begin(frame, length, seeds, retain):
    """Set the frame for a sweep over `length` chunks from the newest row; returns their writes."""
    S = global_state()
    chunk = load_i64(S, STATE_CHUNK)
    rows = (load_i64(S, STATE_ROW) - chunk - HEADER_BYTES) // ROW_BYTES
    store_i64(chunk, USED_ROWS, rows)
    store_i64(frame, FRAME_SEEDS, seeds)
    store_i64(frame, FRAME_RETAIN, retain)
    store_i64(frame, FRAME_FIRST, length)
    store_i64(frame, FRAME_MET_FREED, 0)
    store_i64(frame, FRAME_AT_ORDER, length - 1)
    store_i64(frame, FRAME_AT_POSITION, rows - 1)
    store_i64(frame, FRAME_START_ORDER, length - 1)
    store_i64(frame, FRAME_START_POSITION, rows - 1)
    writes = 0
    for order in range(length):
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        writes += load_i64(load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8), WRITES)
    return writes


@helper
def release_row(chunk, row):
    """Let go of the objects that a used-up array row refers to; returns the output's bytes."""
    given = 0
    last = load_i32(row, 8) - 1
    at = chunk + HEADER_BYTES + ROWS * ROW_BYTES + load_i32(row, 4) * REFERENCE_BYTES
    for k in range(last + 1):
        tag, what = load_i32(at, k * REFERENCE_BYTES + 12), load_i64(at, k * REFERENCE_BYTES)
        if (tag == TAG_ARRAY or tag == TAG_OBJECT) and what != 0:
            if tag == TAG_ARRAY and k == last:
                given += 8 * count_of(what)
            store_i64(at, k * REFERENCE_BYTES, 0)
            decref(what)
    store_i32(row, 0, FREED)
    return given


@helper
def leave_mirror(frame, chunk, row, address):
    """Free the mirror of an array row that the sweep has left.

    A mirror that Python owns is an input of a transform, which is over: its array goes.
    """
    op = load_i32(row, 0)
    if op > ARRAY or op == LEAF or op == CONSTANT:
        last = load_i32(row, 4) + load_i32(row, 8) - 1
        at = chunk + HEADER_BYTES + ROWS * ROW_BYTES + last * REFERENCE_BYTES
        if load_i32(row, 8) > 0 and load_i32(at, 12) == TAG_ARRAY:
            found = load_i64(address, 0)
            if found > 0:
                if load_i64(found, 16) == 0:
                    free(found)
                elif not load_i64(frame, FRAME_RETAIN):
                    return release_row(chunk, row)
    return 0


def end(frame):
    """Give back the cells and what used-up rows keep alive (with the interpreter lock held)."""
    adjoints, lowest = load_i64(frame, FRAME_ADJOINTS), load_i64(frame, FRAME_LOWEST)
    given = 0
    inputs, first = load_i64(frame, FRAME_INPUTS), load_i64(frame, FRAME_FIRST)
    for order in range(load_i64(frame, FRAME_START_ORDER) + 1):
        if inputs <= order < first:
            continue
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        cells = load_i64(adjoints, slot * 8)
        if cells == 0:
            continue
        chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
        for position in range(load_i64(lowest, slot * 8), load_i64(chunk, USED_ROWS)):
            row = chunk + HEADER_BYTES + position * ROW_BYTES
            if load_i32(row, 0) == FREED_ARRAY:
                given += release_row(chunk, row)
            else:
                address = cells + position * 8 * load_i64(frame, FRAME_SEEDS)
                given += leave_mirror(frame, chunk, row, address)
        free(cells)
        store_i64(adjoints, slot * 8, 0)
    S = global_state()
    store_i64(S, STATE_BYTES, max(0, load_i64(S, STATE_BYTES) - given))
    return 0


def cell_of(frame, id):
    """Address of a row's cell, for the seed and for reading results."""
    return cell(frame, id)


def mirror_of(frame, id):
    """Address of a buffer's mirror, for the seed and for reading results."""
    return mirror(frame, id)


def plant_scalar(self, arguments, count):
    """`plant_scalar(frame, scalar, seed, value)`: add to one seed of a scalar row's adjoint."""
    frame, tensor = int_as_word(load_i64(arguments, 0)), load_i64(arguments, 8)
    seed = int_as_word(load_i64(arguments, 16))
    value = load_f64(load_i64(arguments, 24), FLOAT_VALUE)
    id = load_i64(tensor, SCALAR_ID)
    touch_cell(frame, id)
    add_to_cell(frame, id, seed, value)
    incref(tensor)
    return tensor


def read_scalar(self, arguments, count):
    """`read_scalar(frame, scalar, seed)`: the adjoint of a scalar row, 0.0 if not reached."""
    frame, tensor = int_as_word(load_i64(arguments, 0)), load_i64(arguments, 8)
    seed, id = int_as_word(load_i64(arguments, 16)), load_i64(tensor, SCALAR_ID)
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), (id >> ROWS_BITS) * 8)
    value = 0.0
    if cells != 0:
        at = cells + (id & (ROWS - 1)) * 8 * load_i64(frame, FRAME_SEEDS)
        if load_i64(at, 0) != UNTOUCHED:
            value = load_f64(at, seed * 8)
    return float_from(value)


def adopt(self, arguments, count):
    """`adopt(frame, tensor, memory)`: make zeroed memory of Python's the mirror of an input."""
    frame, tensor = int_as_word(load_i64(arguments, 0)), load_i64(arguments, 8)
    array, memory = load_i64(tensor, TENSOR_ARRAY), load_i64(arguments, 16)
    data = load_i64(memory, ARRAY_DATA)
    span = load_i64(load_i64(memory, ARRAY_SHAPE), 0) - MIRROR_HEADER
    store_i64(data, 0, span // load_i64(frame, FRAME_SEEDS))
    store_i64(data, 8, load_i64(array, ARRAY_DATA))
    store_i64(data, 16, 1)
    store_i64(cell(frame, load_i64(tensor, TENSOR_ID)), 0, data)
    incref(tensor)
    return tensor


def free_memory(address):
    """Give back the mirror of an input that has been read."""
    free(address)
    return 0
'''

#: Called with the interpreter lock held.
LOCKED = {"end": 1}
#: Called with CPython's fast convention.
BUILTINS = ("plant_scalar", "read_scalar", "adopt")
EXPORTS = {"reverse": 1, "redo": 1, "begin": 4, "cell_of": 2, "mirror_of": 2, "free_memory": 1}


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


def source() -> str:
    """The text of the sweep's module: the switch holds every operation of up to two inputs."""
    cases = [
        _case(op) for op in TABLE.values() if isinstance(op, Pointwise) and len(op.inputs) <= 2
    ]
    return _HEAD + "    " + "\n    el".join(cases) + _TAIL
