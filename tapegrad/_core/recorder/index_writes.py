"""In-place writes recorded in compiled code: of one cell, and of a whole tensor or view."""

from ..codegen.cpython import (
    call_one,
    call_three,
    decref,
    error_clear,
    error_occurred,
    get_item,
    int_as_word,
    set_object,
)
from ..codegen.intrinsics import (
    helper,
    load_f64,
    load_i32,
    load_i64,
    store_f64,
    store_i32,
    store_i64,
)
from ..codegen.layout import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    DELETE_ITEM,
    HEADER_BYTES,
    LEAF,
    NUMBER,
    OBJECT_TYPE,
    RECORDING,
    ROW_BYTES,
    ROWS,
    SET_ITEM,
    SILENT,
    STATE_ARRAY_TYPE,
    STATE_CHUNK,
    STATE_COPY,
    STATE_ELLIPSIS,
    STATE_ID,
    STATE_SCALAR_TYPE,
    STATE_SLICE_TYPE,
    STATE_SLOW,
    STATE_VERSION,
    STORE,
    TAG_ARRAY,
    TENSOR_ARRAY,
    TENSOR_CHUNK,
    TENSOR_ID,
    WATCHED,
    WRITEABLE,
    WRITES,
)
from .array_operators import MISS, base_data, cell_offset
from .rows import (
    add_operand,
    add_reference,
    append_scalar,
    bytes_of,
    count_tensor,
    first_reference,
    is_apart,
    is_double,
    is_unrecorded,
    mode,
    next_row,
    number_at,
    row_done,
    slow,
    state,
    truth,
)


@helper
def same_axes(a, b, table):
    """Whether two arrays of as many axes have the same shape, or the same strides."""
    same = load_i32(a, ARRAY_NDIM) == load_i32(b, ARRAY_NDIM)
    if same:
        first, second = load_i64(a, table), load_i64(b, table)
        for axis in range(load_i32(a, ARRAY_NDIM)):
            same = same and load_i64(first, axis * 8) == load_i64(second, axis * 8)
    return same


@helper
def is_same_place(a, b):
    """Whether two arrays are the same elements in the same order."""
    if load_i64(a, ARRAY_DATA) != load_i64(b, ARRAY_DATA):
        return False
    return same_axes(a, b, ARRAY_SHAPE) and same_axes(a, b, ARRAY_STRIDES)


@helper
def let_go(made):
    if made != 0:
        decref(made)


@helper
def fits_whole(t, v):
    """Whether all of tensor `t` can be written with `v` as it is.

    Both are recorded, of one shape and dtype, the first can be written and is no input, and they do
    not overlap.
    """
    id, other = load_i64(t, TENSOR_ID), load_i64(v, TENSOR_ID)
    if id < 0 or other < 0 or id == other:
        return False
    a, b = load_i64(t, TENSOR_ARRAY), load_i64(v, TENSOR_ARRAY)
    if load_i32(row_of_tensor(t), 0) == LEAF or load_i64(a, ARRAY_DTYPE) != load_i64(
        b, ARRAY_DTYPE
    ):
        return False
    return (load_i32(a, ARRAY_FLAGS) & WRITEABLE) != 0 and same_axes(a, b, ARRAY_SHAPE)


@helper
def write_whole(arguments, count):
    """`write_whole(op, tensor, value)`: write all of a tensor, if no further check is needed."""
    S = state()
    t, v = load_i64(arguments, 8), load_i64(arguments, 16)
    if mode() != RECORDING or not fits_whole(t, v):
        return truth(False)
    array = load_i64(t, TENSOR_ARRAY)
    kept = call_one(load_i64(S, STATE_COPY), array)
    if kept == 0:
        return 0
    at = next_row(3, bytes_of(array))
    if at == 0:
        decref(kept)
        return 0
    chunk = load_i64(S, STATE_CHUNK)
    store_i32(at, 0, int_as_word(load_i64(arguments, 0)))
    store_i32(at, 4, first_reference(chunk))
    store_i32(at, 8, 3)
    add_operand(t)
    add_reference(kept, -1, TAG_ARRAY)
    add_operand(v)
    row_done(at)
    store_i64(chunk, WRITES, load_i64(chunk, WRITES) + 1)
    if set_object(array, load_i64(S, STATE_ELLIPSIS), load_i64(v, TENSOR_ARRAY)) < 0:
        return 0
    return truth(True)


@helper
def ends_in_place(self, key, value):
    """Whether `tensor[key] = value` is the end of `tensor[key] += x`, done already."""
    S = state()
    if load_i64(value, OBJECT_TYPE) != load_i64(S, STATE_ARRAY_TYPE):
        return False
    if load_i64(value, TENSOR_ID) != load_i64(self, TENSOR_ID) or load_i64(self, TENSOR_ID) < 0:
        return False
    if load_i64(key, OBJECT_TYPE) != load_i64(S, STATE_SLICE_TYPE):
        return False
    part = get_item(load_i64(self, TENSOR_ARRAY), key)
    if part == 0:
        error_clear()
        return False
    same = is_same_place(part, load_i64(value, TENSOR_ARRAY))
    decref(part)
    return same


@helper
def row_of_tensor(tensor):
    """Address of the row whose buffer a recorded tensor lies in."""
    position = load_i64(tensor, TENSOR_ID) & (ROWS - 1)
    return load_i64(tensor, TENSOR_CHUNK) + HEADER_BYTES + position * ROW_BYTES


@helper
def number_for_cell(value, how):
    """As `number_at`; a tensor without axes that is not recorded counts as a number."""
    if load_i64(value, OBJECT_TYPE) != load_i64(state(), STATE_ARRAY_TYPE):
        return number_at(value, how)
    array = load_i64(value, TENSOR_ARRAY)
    if load_i32(array, ARRAY_NDIM) != 0 or not is_double(array):
        return False, 0.0, -1
    plain = how == SILENT or is_unrecorded(value)
    return plain, load_f64(load_i64(array, ARRAY_DATA), 0), -1


@helper
def place_of_cell(self, key):
    """Address of the float64 cell of a tensor that `key` picks for writing; 0 if it is none."""
    array = load_i64(self, TENSOR_ARRAY)
    if not is_double(array) or (load_i32(array, ARRAY_FLAGS) & WRITEABLE) == 0:
        return 0
    if load_i32(array, ARRAY_NDIM) == 0 and key == load_i64(state(), STATE_ELLIPSIS):
        return load_i64(array, ARRAY_DATA)
    offset = cell_offset(array, key)
    if offset != MISS:
        return load_i64(array, ARRAY_DATA) + offset
    error_clear()
    return 0


@helper
def is_unread(self):
    """Whether a tensor is an input, and no row was appended since it was made or written.

    Then no row can have read its values, and it may be written outside of the tape: see
    `store.renew_input`.
    """
    S = state()
    if load_i64(self, TENSOR_ID) < 0:
        return False
    row = row_of_tensor(self)
    now = (load_i64(S, STATE_VERSION) << 32) + load_i64(S, STATE_ID)
    return load_i32(row, 0) == LEAF and load_i64(row, 16) == now


@helper
def store_cell(self, key, value, how):
    """Do the write of a number to one cell, and record it; returns whether it was one.

    In an error it returns False too, with the error set.
    """
    where = place_of_cell(self, key)
    if where == 0:
        return False
    simple, number, source = number_for_cell(value, how)
    if not simple:
        return False
    if source < 0 and (is_apart(self) or (how == SILENT and is_unread(self))):
        store_f64(where, 0, number)
        return True
    return how == RECORDING and record_store(self, where, number, source)


@helper
def record_store(self, where, number, source):
    """Write a number to a cell of a recorded tensor, which is no input, and record that."""
    id = load_i64(self, TENSOR_ID)
    if id < 0 or load_i32(row_of_tensor(self), 0) == LEAF:
        return False
    base = base_data(self)
    distance = (where - base) // 4
    if base == 0 or distance > 2147483647 or distance < -2147483647:
        return False
    kept = 0
    if source < 0:
        source = append_scalar(NUMBER, -1, -1, 0.0, number)
        kept = load_i64(state(), STATE_CHUNK) if source >= 0 else 0
    count_tensor(kept, 1)  # no tensor holds the number's row while room is made
    row = next_row(0, 0)
    count_tensor(kept, -1)
    if row == 0 or source < 0:
        return False
    store_i32(row, 0, STORE)
    store_i32(row, 4, id)
    store_i32(row, 8, distance)
    store_i32(row, 12, source)
    store_f64(row, 16, load_f64(where, 0))
    store_f64(where, 0, number)
    row_done(row)
    chunk = load_i64(state(), STATE_CHUNK)
    store_i64(chunk, WRITES, load_i64(chunk, WRITES) + 1)
    return True


@helper
def set_subscript(self, key, value):
    """`tensor[key] = value`: cells here, everything else in Python."""
    S = state()
    if value == 0:
        let_go(slow(self, key, DELETE_ITEM))
        return -1
    how = mode()
    if how != WATCHED and load_i64(self, OBJECT_TYPE) != load_i64(S, STATE_SCALAR_TYPE):
        done = how == RECORDING and ends_in_place(self, key, value)
        if done or store_cell(self, key, value, how):
            return 0
        if error_occurred() != 0:
            return -1
    done = call_three(load_i64(load_i64(S, STATE_SLOW), SET_ITEM * 8), self, key, value)
    let_go(done)
    return 0 if done != 0 else -1
