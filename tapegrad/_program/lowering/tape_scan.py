"""Rows of the store read as operations of a program, in compiled code.

`mark` finds, newest to oldest, the rows that marked rows need. `scan` goes from a row on, oldest to
newest, writes marked operations on scalars as columns (op and slots of operands), follows reads and
writes of cells through maps of buffers, and returns at each marked row of arrays.
"""

from __future__ import annotations

from ..._core.codegen.factory import functions, once
from ..._core.ops import elementwise as _declarations
from ..._core.ops.table import find

assert _declarations

#: Words of a reading, byte offsets: addresses unless said otherwise. A row has a place: the number
#: of its chunk in the order of time, times ROWS, plus its position.
(
    CHUNKS,  # slot → chunk
    ORDER,  # number → slot
    NUMBERS,  # slot → number, −1 for chunks that are not read
    MARKS,  # bytes by place
    SLOTS,  # int64 by place: the arena slot of a scalar, the first of a buffer
    MAPS,  # int64 by place: 0, or the address of a buffer's map: int64 slots of its elements
    AT,  # a number: the place to go on from
    END,  # a number: the place after the last row; `scan` stops there, `mark` begins
    FIRST,  # a number: the place of the first row
    OPS,
    A,
    B,
    C,  # columns, int32
    COUNT,  # a number: operations written
    NEXT_SLOT,  # a number
    TABLE,  # hash table of constants: pairs of bits and index + 1
    TABLE_MASK,  # a number
    CONSTANTS,  # float64 by index
    CONSTANTS_COUNT,  # a number
    OUTSIDE,  # a number: id of a needed row before the first, −1
    SCALARS,  # a number: marked operations on scalars, and numbers written to cells
    ARRAYS,  # a number: marked rows of arrays
) = range(0, 8 * 22, 8)
WORDS = 22

#: Marks of rows: needed, and a buffer that a needed row writes.
NEEDED, WRITTEN = 1, 2
#: Slots of constants while the program is read: −2 − index.
FIRST_CONSTANT = -2

_NAMES = [f"{name} = {value}\n" for name, value in list(globals().items()) if name.isupper()]
_named = ("add", "where", "keep_where", "drop_where")
_codes = [f"{name.upper()}_CODE = {find(name).code}\n" for name in _named]
SOURCE = (
    "".join(_NAMES + _codes)
    + '''
from tapegrad._core.codegen.layout import (
    ARRAY, CONSTANT, CONSTANT_ROW, FIRST_CODE, HEADER_BYTES, LEAF, LOAD, NUMBER, REFERENCE_BYTES,
    ROW_BYTES, ROW_CONSTANT, ROW_ROW, ROWS, ROWS_BITS, STORE, USED_ROWS, WRITES,
)
from tapegrad._core.codegen.intrinsics import (
    bits_of, helper, load_f64, load_i32, load_i64, load_u8, store_f64, store_i32, store_i64,
    store_u8,
)


@helper
def chunk_at(w, place):
    slot = load_i64(load_i64(w, ORDER), (place >> ROWS_BITS) * 8)
    return load_i64(load_i64(w, CHUNKS), slot * 8)


@helper
def row_at(w, place):
    return chunk_at(w, place) + HEADER_BYTES + (place & (ROWS - 1)) * ROW_BYTES


@helper
def references_at(w, place, row):
    references = chunk_at(w, place) + HEADER_BYTES + ROWS * ROW_BYTES
    return references + load_i32(row, 4) * REFERENCE_BYTES


@helper
def place_of(w, id):
    """Where a row is in the order of time; −1 before the first."""
    number = load_i64(load_i64(w, NUMBERS), (id >> ROWS_BITS) * 8)
    place = (number << ROWS_BITS) + (id & (ROWS - 1))
    return -1 if number < 0 or place < load_i64(w, FIRST) else place


@helper
def mark_row(w, id, bits):
    place = place_of(w, id)
    if place < 0:
        store_i64(w, OUTSIDE, id)
        return
    marks = load_i64(w, MARKS)
    store_u8(marks, place, load_u8(marks, place) | bits)


@helper
def is_marked(w, id):
    place = place_of(w, id)
    return place >= 0 and load_u8(load_i64(w, MARKS), place) & NEEDED != 0


@helper
def mark_array(w, place, row, writes):
    """Mark what a row of arrays reads; one that writes is needed if its buffer is."""
    at = references_at(w, place, row)
    if writes:
        if not is_marked(w, load_i32(at, 8)):
            return
        mark_row(w, load_i32(at, 8), WRITTEN)
        store_u8(load_i64(w, MARKS), place, NEEDED)
    elif load_u8(load_i64(w, MARKS), place) & NEEDED == 0:
        return
    store_i64(w, ARRAYS, load_i64(w, ARRAYS) + 1)
    for k in range(load_i32(row, 8)):
        id = load_i32(at, k * REFERENCE_BYTES + 8)
        if id >= 0:
            mark_row(w, id, NEEDED)


@helper
def mark_scalar(w, op, row):
    if op != NUMBER:
        mark_row(w, load_i32(row, 4), NEEDED)
    if op == NUMBER or op >= 4 * FIRST_CODE:
        store_i64(w, SCALARS, load_i64(w, SCALARS) + 1)
    if op >= 4 * FIRST_CODE and op & 3 == ROW_ROW and load_i32(row, 8) >= 0:
        mark_row(w, load_i32(row, 8), NEEDED)


def mark(w, write, scatter):
    """Mark rows from the last to the first; `write` and `scatter` are ops of rows that write."""
    place = load_i64(w, END) - 1
    while place >= load_i64(w, FIRST):
        row = row_at(w, place)
        op = load_i32(row, 0)
        op = -op if op < 0 else op
        if op > ARRAY or op == CONSTANT or op == LEAF:
            if op > ARRAY:
                mark_array(w, place, row, op == write or op == scatter)
        elif op == STORE:
            if is_marked(w, load_i32(row, 4)):
                mark_row(w, load_i32(row, 4), WRITTEN)
                mark_row(w, load_i32(row, 12), NEEDED)
                store_u8(load_i64(w, MARKS), place, NEEDED)
        elif load_u8(load_i64(w, MARKS), place) & NEEDED != 0:
            mark_scalar(w, op, row)
        place -= 1
        if place >= 0 and place & (ROWS - 1) == ROWS - 1:  # the chunk before may not be full
            used = load_i64(chunk_at(w, place), USED_ROWS)
            place = (place >> ROWS_BITS << ROWS_BITS) + used - 1
    return 0


@helper
def constant_slot(w, value):
    """The slot of a constant: equal ones, bit for bit, share it."""
    bits, mask, table = bits_of(value), load_i64(w, TABLE_MASK), load_i64(w, TABLE)
    at = (bits * -7046029254386353131 >> 20) & mask
    while load_i64(table, at * 16 + 8) != 0:
        if load_i64(table, at * 16) == bits:
            return FIRST_CONSTANT - (load_i64(table, at * 16 + 8) - 1)
        at = (at + 1) & mask
    index = load_i64(w, CONSTANTS_COUNT)
    store_i64(w, CONSTANTS_COUNT, index + 1)
    store_f64(load_i64(w, CONSTANTS), index * 8, value)
    store_i64(table, at * 16, bits)
    store_i64(table, at * 16 + 8, index + 1)
    return FIRST_CONSTANT - index


@helper
def slot_of(w, id):
    return load_i64(load_i64(w, SLOTS), place_of(w, id) * 8)


@helper
def set_slot(w, place, slot):
    store_i64(load_i64(w, SLOTS), place * 8, slot)


@helper
def cell_of(w, id, offset):
    """The slot of an element of a buffer."""
    map = load_i64(load_i64(w, MAPS), place_of(w, id) * 8)
    return load_i64(map, offset) if map != 0 else slot_of(w, id) + (offset >> 3)


@helper
def emit(w, op, a, b, c):
    """Write an operation; returns the slot of its result."""
    k = load_i64(w, COUNT)
    store_i32(load_i64(w, OPS), k * 4, op)
    store_i32(load_i64(w, A), k * 4, a)
    store_i32(load_i64(w, B), k * 4, b)
    store_i32(load_i64(w, C), k * 4, c)
    store_i64(w, COUNT, k + 1)
    slot = load_i64(w, NEXT_SLOT)
    store_i64(w, NEXT_SLOT, slot + 1)
    return slot


@helper
def code_at(w, id):
    """The code of the operation of a row."""
    op = load_i32(row_at(w, place_of(w, id)), 0)
    return ((-op if op < 0 else op) >> 2) - 1


@helper
def second_slot(w, row):
    """The slot of the second operand of a row whose first operand is a row."""
    op = load_i32(row, 0)
    if (-op if op < 0 else op) & 3 == ROW_CONSTANT:
        return constant_slot(w, load_f64(row, 8))
    return slot_of(w, load_i32(row, 8)) if load_i32(row, 8) >= 0 else -1


@helper
def is_choice(w, row):
    """Whether a sum of two rows is a choice: what one condition keeps, and what it drops."""
    i, j = load_i32(row, 4), load_i32(row, 8)
    if code_at(w, i) != KEEP_WHERE_CODE or code_at(w, j) != DROP_WHERE_CODE:
        return False
    kept, dropped = row_at(w, place_of(w, i)), row_at(w, place_of(w, j))
    return load_i32(kept, 4) == load_i32(dropped, 4)


@helper
def scan_choice(w, row):
    """A choice as one operation; nothing reads its two parts then."""
    kept = row_at(w, place_of(w, load_i32(row, 4)))
    dropped = row_at(w, place_of(w, load_i32(row, 8)))
    condition = slot_of(w, load_i32(kept, 4))
    return emit(w, WHERE_CODE, condition, second_slot(w, kept), second_slot(w, dropped))


@helper
def scan_scalar(w, place, op, row):
    code, kind, x = (op >> 2) - 1, op & 3, slot_of(w, load_i32(row, 4))
    if kind == CONSTANT_ROW:
        slot = emit(w, code, constant_slot(w, load_f64(row, 8)), x, -1)
    elif code == ADD_CODE and kind == ROW_ROW and is_choice(w, row):
        slot = scan_choice(w, row)
    else:
        slot = emit(w, code, x, second_slot(w, row), -1)
    set_slot(w, place, slot)


@helper
def is_known(w, place):
    """Whether a row has a slot, or slots."""
    return load_i64(load_i64(w, SLOTS), place * 8) != -1 or load_i64(load_i64(w, MAPS), place * 8)


def scan(w):
    """Read rows until one of arrays, or an input of a function inside; −1 at the end.

    The row's place is returned, also of one that reads or writes an element of boxes.
    """
    place, end = load_i64(w, AT), load_i64(w, END)
    while place < end:
        row = row_at(w, place)
        chunk = row - HEADER_BYTES - (place & (ROWS - 1)) * ROW_BYTES
        if place & (ROWS - 1) >= load_i64(chunk, USED_ROWS):
            place = ((place >> ROWS_BITS) + 1) << ROWS_BITS
            continue
        if load_u8(load_i64(w, MARKS), place) & NEEDED != 0:
            op = load_i32(row, 0)
            op = -op if op < 0 else op
            is_cell = op == LOAD or op == STORE
            if is_cell and not is_known(w, place_of(w, load_i32(row, 4))):
                store_i64(w, AT, place + 1)
                return place
            if op > ARRAY or op == CONSTANT or op == LEAF and not is_known(w, place):
                store_i64(w, AT, place + 1)
                return place
            if op >= 4 * FIRST_CODE:
                scan_scalar(w, place, op, row)
            elif op == LOAD:
                set_slot(w, place, cell_of(w, load_i32(row, 4), load_i32(row, 8) * 4))
            elif op == STORE:
                map = load_i64(load_i64(w, MAPS), place_of(w, load_i32(row, 4)) * 8)
                store_i64(map, load_i32(row, 8) * 4, slot_of(w, load_i32(row, 12)))
            elif op == NUMBER:
                set_slot(w, place, constant_slot(w, load_f64(row, 16)))
        place += 1
    store_i64(w, AT, place)
    return -1


def constant(w, address):
    """The slot of the constant at an address."""
    return constant_slot(w, load_f64(address, 0))
'''
)
EXPORTS = {"mark": 3, "scan": 1, "constant": 2}


@once
def reading():
    """The compiled functions, by name."""
    return functions(SOURCE, EXPORTS, keep_lock=True)
