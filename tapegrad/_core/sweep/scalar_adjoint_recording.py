"""Adjoints of scalar rows written as rows, in compiled code: derivatives of derivatives.

The rows are traversed backwards as in the reverse sweep, but an adjoint is itself a row: each cell
holds the row of the adjoint so far (−1: a constant) and its value. The partial derivatives of the
table are converted to calls that compute a value and append its row. Of a `select` only the branch
that the values choose is written; while a program is traced, whose later runs have other values,
both branches and the choice are written. Rows of arrays are left to Python, which has their rules.
"""

from ..ops.elementwise_text import of_numbers
from ..ops.table import find
from .partial_statements import cases_of

_HEAD = '''
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.sweep_frame import *
from tapegrad._core.codegen.layout import *
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.codegen.cpython import error_occurred
from tapegrad._core.codegen.vector_math import select
from tapegrad._core.sweep.marking import buffer_written, references
from tapegrad._core.recorder.rows import append_scalar


@helper
def unary(op, i, value):
    """Append an operation of one operand, row `i`; returns its row, -1 if it is a constant."""
    apart()
    return append_scalar(op, i, -1, 0.0, value) if i >= 0 else -1


@helper
def binary(op, i, x, j, y, value):
    """Append an operation of two operands, rows `i` and `j` or constants; returns its row."""
    apart()
    if i >= 0 and j >= 0:
        return append_scalar(op + ROW_ROW, i, j, 0.0, value)
    if i >= 0:
        return append_scalar(op + ROW_CONSTANT, i, -1, y, value)
    return append_scalar(op + CONSTANT_ROW, j, -1, x, value) if j >= 0 else -1


@helper
def test(traced, op, i, x, j, y, value):
    """Append a comparison in a trace; returns its row, -1 where values are to choose."""
    return binary(op, i, x, j, y, value) if traced else -1


@helper
def choose(c, holds, i, x, j, y):
    """Append the choice of x where row `c` holds, else y; returns its row and value."""
    apart()
    if i < 0 and j < 0 and x == 1.0 and y == 0.0:
        return c, holds
    if j < 0 and y == 0.0:
        value = x if holds != 0.0 else -0.0
        return binary(KEEP_WHERE_OP, c, holds, i, x, value), value
    value = x if holds != 0.0 else y
    kept = binary(KEEP_WHERE_OP, c, holds, i, x, x if holds != 0.0 else -0.0)
    other = binary(DROP_WHERE_OP, c, holds, j, y, -0.0 if holds != 0.0 else y)
    return binary(ADD_OP, kept, 0.0, other, 0.0, value), value


@helper
def is_nothing(choices, g_row, g, s):
    """Whether an adjoint of 0 passes nothing on: in a program only one that is 0 for good."""
    return g == 0.0 and (g_row < 0 if choices != BY_VALUE else not s - s == 0.0)


@helper
def product(choices, g_row, g, s_row, s):
    """Row and value of an adjoint times a partial."""
    apart()
    if s_row < 0 and s == 1.0:
        return g_row, g
    if is_nothing(choices, g_row, g, s):
        return -1, 0.0
    if choices == CAREFUL and g_row >= 0 and (s_row >= 0 or not s - s == 0.0):
        part = 0.0 if g == 0.0 else g * s
        return binary(TIMES_OP, g_row, g, s_row, s, part), part
    return binary(MULTIPLY_OP, g_row, g, s_row, s, g * s), g * s


@helper
def part_of(choices, which, g_row, g, i, x, j, y, k, out):
    """Row and value of the adjoint times a partial: `which` is twice the code of the operation,
    plus the operand."""
    traced = choices != BY_VALUE
'''

_TAIL = '''
    return -1, 0.0


@helper
def contribute(frame, id, i, part):
    """Add a row or constant to the adjoint of a scalar row."""
    at = cell(frame, id)
    before = load_i64(at, 0)
    if before != UNTOUCHED:
        i = binary(ADD_OP, before, load_f64(at, 8), i, part, load_f64(at, 8) + part)
        part = load_f64(at, 8) + part
    store_i64(at, 0, i)
    store_f64(at, 8, part)


@helper
def pass_on(frame, id, which, g_row, g, i, x, j, y, k, out):
    """Add adjoint times partial to that of operand `id`."""
    choices = load_i64(frame, FRAME_CHOICES)
    part_row, part = part_of(choices, which, g_row, g, i, x, j, y, k, out)
    contribute(frame, id, part_row, part)


@helper
def scalar_rule(frame, id, row, op, at):
    """Write the adjoint of a scalar operation."""
    marks = load_i64(frame, FRAME_MARKS)
    g_row, g = load_i64(at, 0), load_f64(at, 8)
    which, kind = 2 * ((op >> 2) - 1), op & 3
    i = load_i32(row, 4)
    x = load_f64(row_of(frame, i), 16)
    j, y = -1, load_f64(row, 8)
    if kind == ROW_ROW:
        j, y = load_i32(row, 8), 0.0
        if j >= 0:
            y = load_f64(row_of(frame, j), 16)
    elif kind == CONSTANT_ROW:
        i, x, j, y = -1, y, i, x
    out = load_f64(row, 16)
    if i >= 0 and load_u8(marks, i) & (ACTIVE | STOP):
        pass_on(frame, i, which, g_row, g, i, x, j, y, id, out)
    if j >= 0 and load_u8(marks, j) & (ACTIVE | STOP):
        pass_on(frame, j, which + 1, g_row, g, i, x, j, y, id, out)


@helper
def load_rule(frame, row, at):
    """Note the adjoint of a cell that was read: buffer, place in it, row and value."""
    buffer = load_i32(row, 4)
    if not load_u8(load_i64(frame, FRAME_MARKS), buffer) & (ACTIVE | STOP):
        return
    count = load_i64(frame, FRAME_LOADS_COUNT)
    entry = load_i64(frame, FRAME_LOADS) + count * 32
    store_i64(entry, 0, buffer)
    store_i64(entry, 8, load_i32(row, 8))
    store_i64(entry, 16, load_i64(at, 0))
    store_f64(entry, 24, load_f64(at, 8))
    store_i64(frame, FRAME_LOADS_COUNT, count + 1)
    store_i64(cell(frame, buffer), 0, -1)


@helper
def row_rule(frame, id, row, at):
    """Write the adjoint of a row; returns a status."""
    op = load_i32(row, 0)
    if op > ARRAY:
        return WANT_RULE
    if op < 0:
        return MET_FREED
    if op == LOAD:
        if load_i64(frame, FRAME_LOADS_COUNT) == LOADS:
            return LOADS_FULL
        load_rule(frame, row, at)
    elif op >= 4 * FIRST_CODE:
        scalar_rule(frame, id, row, op, at)
        if error_occurred() != 0:
            return FAILED
    return DONE


def write_adjoints(frame):
    """Go back from where the frame says; returns why it stopped."""
    order, position = load_i64(frame, FRAME_AT_ORDER), load_i64(frame, FRAME_AT_POSITION)
    marks = load_i64(frame, FRAME_MARKS)
    while order >= load_i64(frame, FRAME_FIRST):
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        rows = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8) + HEADER_BYTES
        cells = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
        base, lowest = slot << ROWS_BITS, load_i64(frame, FRAME_LOWEST) + slot * 8
        while cells != 0 and position >= load_i64(lowest, 0):
            at = cells + position * 16
            status = DONE
            if load_i64(at, 0) != UNTOUCHED and load_u8(marks, base + position) & ACTIVE:
                status = row_rule(frame, base + position, rows + position * ROW_BYTES, at)
            if status != DONE:
                store_i64(frame, FRAME_AT_ORDER, order)
                store_i64(frame, FRAME_AT_POSITION, position)
                return status
            position -= 1
        order -= 1
        position = ROWS - 1
    return DONE


@helper
def marks_of_operands(chunk, row, op, marks, id):
    """The marks of what a row reads, together."""
    found = 0
    if op > ARRAY:
        refs = references(chunk, row)
        for k in range(load_i32(row, 8)):
            source = load_i32(refs, k * REFERENCE_BYTES + 8)
            if source >= 0 and source != id:
                found |= load_u8(marks, source)
    elif op == LOAD or op == STORE or op >= 4 * FIRST_CODE:
        found = load_u8(marks, load_i32(row, 4))
        if op == STORE and load_i32(row, 12) >= 0:  # else it was used up
            found |= load_u8(marks, load_i32(row, 12))
        if op >= 4 * FIRST_CODE and op & 3 == ROW_ROW and load_i32(row, 8) >= 0:
            found |= load_u8(marks, load_i32(row, 8))
    return found


def add_up_loads(loads, count):
    """Add up the adjoints of cells read several times, which lie side by side.

    They are put together at the front, one for each cell; returns how many there are.
    """
    kept = 0
    for k in range(1, count):
        entry, last = loads + 32 * k, loads + 32 * kept
        x, y = load_f64(last, 24), load_f64(entry, 24)
        if load_i64(last, 8) == load_i64(entry, 8):
            row = binary(ADD_OP, load_i64(last, 16), x, load_i64(entry, 16), y, x + y)
            store_i64(last, 16, row)
            store_f64(last, 24, x + y)
            if error_occurred() != 0:
                return k
        else:
            kept += 1
            last = loads + 32 * kept
            store_i64(last, 8, load_i64(entry, 8))
            store_i64(last, 16, load_i64(entry, 16))
            store_f64(last, 24, y)
    return kept + 1


def mark_written(frame, start):
    """Mark the buffers that are written in place from chunk `start` of the sequence on."""
    marks = load_i64(frame, FRAME_MARKS)
    for order in range(start, load_i64(frame, FRAME_START_ORDER) + 1):
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
        if load_i64(chunk, WRITES) == 0:
            continue
        for position in range(load_i64(chunk, USED_ROWS)):
            row = chunk + HEADER_BYTES + position * ROW_BYTES
            buffer = buffer_written(chunk, row, load_i32(row, 0), load_i64(frame, FRAME_USED))
            if buffer >= 0:
                store_u8(marks, buffer, load_u8(marks, buffer) | WRITTEN)
    return 0


@helper
def is_used_up(chunk, row, op):
    """Whether a row that writes in place has passed on its adjoint for good."""
    if op == STORE:
        return load_i32(row, 12) == -2
    return load_i32(references(chunk, row), 2 * REFERENCE_BYTES + 8) == -2


def mark_active(frame, start):
    """Mark the rows that depend on a stop; returns how many of them read what is written later.

    Used-up rows are marked too, and buffers with a used-up write: the traversal is to stop there.
    """
    marks = load_i64(frame, FRAME_MARKS)
    troubled = 0
    for order in range(start, load_i64(frame, FRAME_START_ORDER) + 1):
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
        for position in range(load_i64(chunk, USED_ROWS)):
            row = chunk + HEADER_BYTES + position * ROW_BYTES
            id, op = (slot << ROWS_BITS) + position, load_i32(row, 0)
            buffer = buffer_written(chunk, row, op, load_i64(frame, FRAME_USED))
            if buffer >= 0 and is_used_up(chunk, row, op):
                store_u8(marks, buffer, load_u8(marks, buffer) | ACTIVE)
            found = marks_of_operands(chunk, row, abs(op), marks, id)
            if found & (ACTIVE | STOP) and not load_u8(marks, id) & STOP:
                store_u8(marks, id, load_u8(marks, id) | ACTIVE)
                if op > 0 and (found | load_u8(marks, id)) & WRITTEN:
                    troubled += 1
    return troubled
'''


def source() -> str:
    """The text of the module: partial derivatives of every operation of a scalar row."""
    cases = "".join(map(cases_of, of_numbers()))
    names = ("add", "multiply", "keep_where", "drop_where", "times")
    codes = {name: find(name).code for name in names}
    constants = [f"{name.upper()}_OP = {4 * (code + 1)}\n" for name, code in codes.items()]
    return "".join(constants) + _HEAD + cases + _TAIL


#: Called with the interpreter lock held: rows are appended.
EXPORTS = {"write_adjoints": 1, "add_up_loads": 2, "mark_written": 2, "mark_active": 2}
