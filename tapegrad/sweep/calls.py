"""What Python calls to make rows and tensors, each as `f(*arguments)` with arguments in memory."""

from ..codegen.layout import (
    ARRAY,
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    CONSTANT_ROW,
    DELETE_ITEM,
    FIRST_CODE,
    FLOAT_VALUE,
    HEADER_BYTES,
    LEAF,
    LEAVES,
    LIVE,
    LOAD,
    OBJECT_TYPE,
    ROW_BYTES,
    ROW_CONSTANT,
    ROWS,
    SCALAR_CHUNK,
    SCALAR_ID,
    SET_ITEM,
    STATE_ARRAY_TYPE,
    STATE_CHUNK,
    STATE_COPY,
    STATE_ELLIPSIS,
    STATE_FALSE,
    STATE_FLOAT_TYPE,
    STATE_INT_TYPE,
    STATE_NDARRAY_TYPE,
    STATE_SCALAR_TYPE,
    STATE_SLICE_TYPE,
    STATE_SLOW,
    STATE_SPECIAL,
    STATE_TRUE,
    TAG_ARRAY,
    TAG_CONSTANT,
    TAG_INT,
    TAG_SCALAR,
    TENSOR_ARRAY,
    TENSOR_CHUNK,
    TENSOR_ID,
    WRITEABLE,
    WRITES,
)
from ..codegen.memory import (
    bits_of,
    helper,
    load_f64,
    load_i32,
    load_i64,
    store_f64,
    store_i32,
    store_i64,
)
from ..codegen.python import (
    call_three,
    call_two,
    decref,
    error_occurred,
    get_item,
    incref,
    int_as_word,
    set_object,
)
from .arrays import load_cell
from .rows import (
    add_reference,
    bytes_of,
    first_reference,
    new_scalar,
    new_tensor,
    next_row,
    row_done,
    scalar_row,
    slow,
    state,
)


@helper
def add_operand(operand):
    """Write the reference of an operand: a tensor, a scalar, an array, an int or a float."""
    S = state()
    kind = load_i64(operand, OBJECT_TYPE)
    if kind == load_i64(S, STATE_ARRAY_TYPE):
        array = load_i64(operand, TENSOR_ARRAY)
        incref(array)
        add_reference(array, load_i64(operand, TENSOR_ID), TAG_ARRAY)
    elif kind == load_i64(S, STATE_SCALAR_TYPE):
        add_reference(0, load_i64(operand, SCALAR_ID), TAG_SCALAR)
    elif kind == load_i64(S, STATE_NDARRAY_TYPE):
        incref(operand)
        add_reference(operand, -1, TAG_ARRAY)
    elif kind == load_i64(S, STATE_INT_TYPE):
        add_reference(int_as_word(operand), -1, TAG_INT)
    else:
        add_reference(bits_of(load_f64(operand, FLOAT_VALUE)), -1, TAG_CONSTANT)


@helper
def row(arguments, count):
    """Append one row: `row(op, out, *operands)`, from Python.

    `out` is an array (the result is a tensor on it), a float (a scalar) or None (no result).
    Operands: tensors, scalars, arrays, floats, ints.
    """
    S = state()
    op, out = int_as_word(load_i64(arguments, 0)), load_i64(arguments, 8)
    if op < ARRAY and op >= 4 * FIRST_CODE:
        return scalars_row(arguments, count, op, load_f64(out, FLOAT_VALUE))
    kind = load_i64(out, OBJECT_TYPE)
    is_array = kind == load_i64(S, STATE_NDARRAY_TYPE)
    is_scalar = kind == load_i64(S, STATE_FLOAT_TYPE)
    at = next_row(count, bytes_of(out) if is_array else 0)
    if at == 0:
        return 0
    chunk = load_i64(S, STATE_CHUNK)
    store_i32(at, 0, op)
    store_i32(at, 4, first_reference(chunk))
    store_i32(at, 8, count - 1 if is_array or is_scalar else count - 2)
    for k in range(2, count):
        add_operand(load_i64(arguments, k * 8))
    id = row_done(at)
    if is_array:
        incref(out)  # once for the row, once for the tensor
        incref(out)
        add_reference(out, id, TAG_ARRAY)
        return new_tensor(out, id, chunk)
    if is_scalar:
        add_reference(0, id, TAG_SCALAR)
        store_f64(at, 16, load_f64(out, FLOAT_VALUE))
        return new_scalar(load_f64(out, FLOAT_VALUE), id)
    store_i64(chunk, WRITES, load_i64(chunk, WRITES) + 1)
    incref(out)
    return out


@helper
def scalars_row(arguments, count, op, value):
    """A row of scalar operands, at most one of them a constant."""
    scalar = load_i64(state(), STATE_SCALAR_TYPE)
    a = load_i64(arguments, 16)
    if count == 3:
        return scalar_row(op, load_i64(a, SCALAR_ID), -1, 0.0, value)
    b = load_i64(arguments, 24)
    if load_i64(a, OBJECT_TYPE) != scalar:
        constant = load_f64(a, FLOAT_VALUE)
        return scalar_row(op + CONSTANT_ROW, load_i64(b, SCALAR_ID), -1, constant, value)
    if load_i64(b, OBJECT_TYPE) != scalar:
        constant = load_f64(b, FLOAT_VALUE)
        return scalar_row(op + ROW_CONSTANT, load_i64(a, SCALAR_ID), -1, constant, value)
    return scalar_row(op, load_i64(a, SCALAR_ID), load_i64(b, SCALAR_ID), 0.0, value)


@helper
def view(arguments, count):
    """`view(tensor, array)`: a tensor on `array`, which lies in the buffer of `tensor`."""
    tensor, array = load_i64(arguments, 0), load_i64(arguments, 8)
    incref(array)
    return new_tensor(array, load_i64(tensor, TENSOR_ID), load_i64(tensor, TENSOR_CHUNK))


@helper
def scalar_at(arguments, count):
    """`scalar_at(value, id, chunk)`: another scalar tensor on a row that is there."""
    S = state()
    before = load_i64(S, STATE_CHUNK)
    store_i64(S, STATE_CHUNK, int_as_word(load_i64(arguments, 16)))
    value = load_f64(load_i64(arguments, 0), FLOAT_VALUE)
    made = new_scalar(value, int_as_word(load_i64(arguments, 8)))
    store_i64(S, STATE_CHUNK, before)
    return made


@helper
def load(arguments, count):
    """`load(tensor)`: the scalar that reads the one element of a float64 tensor without axes."""
    tensor = load_i64(arguments, 0)
    array = load_i64(tensor, TENSOR_ARRAY)
    made = load_cell(tensor, array, 0)
    if made == 0 and error_occurred() == 0:
        value = load_f64(load_i64(array, ARRAY_DATA), 0)
        return scalar_row(LOAD, load_i64(tensor, TENSOR_ID), 0, 0.0, value)
    return made


@helper
def truth(value):
    S = state()
    made = load_i64(S, STATE_TRUE) if value else load_i64(S, STATE_FALSE)
    incref(made)
    return made


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
def same_place(arguments, count):
    """`same_place(a, b)`: whether two arrays are the same elements in the same order."""
    return truth(is_same_place(load_i64(arguments, 0), load_i64(arguments, 8)))


@helper
def fits_whole(t, v):
    """Whether all of tensor `t` can be written with `v` as it is.

    Both are recorded, of one shape and dtype, the first can be written and is no input, and they
    are apart.
    """
    id, other = load_i64(t, TENSOR_ID), load_i64(v, TENSOR_ID)
    if id < 0 or other < 0 or id == other:
        return False
    row = load_i64(t, TENSOR_CHUNK) + HEADER_BYTES + (id & (ROWS - 1)) * ROW_BYTES
    a, b = load_i64(t, TENSOR_ARRAY), load_i64(v, TENSOR_ARRAY)
    if load_i32(row, 0) == LEAF or load_i64(a, ARRAY_DTYPE) != load_i64(b, ARRAY_DTYPE):
        return False
    return (load_i32(a, ARRAY_FLAGS) & WRITEABLE) != 0 and same_axes(a, b, ARRAY_SHAPE)


@helper
def write_whole(arguments, count):
    """`write_whole(op, tensor, value)`: write all of a tensor, if nothing has to be looked at."""
    S = state()
    t, v = load_i64(arguments, 8), load_i64(arguments, 16)
    if load_i64(S, STATE_SPECIAL) != 0 or not fits_whole(t, v):
        return truth(False)
    array = load_i64(t, TENSOR_ARRAY)
    kept = call_two(load_i64(S, STATE_COPY), array, 0, 0)
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
def set_subscript(self, key, value):
    """`tensor[key] = value`: nothing is to be done at the end of `tensor[key] += x`."""
    S = state()
    if value == 0:
        let_go(slow(self, key, DELETE_ITEM))
        return -1
    id = load_i64(self, TENSOR_ID)
    kind = load_i64(key, OBJECT_TYPE)
    if load_i64(value, OBJECT_TYPE) == load_i64(S, STATE_ARRAY_TYPE) and id >= 0:
        if load_i64(value, TENSOR_ID) == id and kind == load_i64(S, STATE_SLICE_TYPE):
            part = get_item(load_i64(self, TENSOR_ARRAY), key)
            if part == 0:
                return -1
            same = is_same_place(part, load_i64(value, TENSOR_ARRAY))
            decref(part)
            if same:
                return 0
    done = call_three(load_i64(load_i64(S, STATE_SLOW), SET_ITEM * 8), self, key, value, 0)
    let_go(done)
    return 0 if done != 0 else -1


@helper
def let_go(made):
    if made != 0:
        decref(made)


@helper
def wrap(arguments, count):
    """`wrap(array)`: a tensor that is not recorded."""
    array = load_i64(arguments, 0)
    incref(array)
    return new_tensor(array, -1, 0)


@helper
def attach(arguments, count):
    """`attach(tensor, id, chunk)`: make `tensor` the owner or a view of the buffer of row `id`."""
    tensor = load_i64(arguments, 0)
    chunk = int_as_word(load_i64(arguments, 16))
    before = load_i64(tensor, TENSOR_CHUNK)
    if before != 0:
        store_i64(before, LIVE, load_i64(before, LIVE) - 1)
    store_i64(tensor, TENSOR_ID, int_as_word(load_i64(arguments, 8)))
    store_i64(tensor, TENSOR_CHUNK, chunk)
    if chunk != 0:
        store_i64(chunk, LIVE, load_i64(chunk, LIVE) + 1)
    incref(tensor)
    return tensor


@helper
def scalar_leaf(arguments, count):
    """`scalar_leaf(value)`: a scalar tensor that is an input."""
    made = scalar_row(LEAF, 0, 0, 0.0, load_f64(load_i64(arguments, 0), FLOAT_VALUE))
    if made != 0:
        chunk = load_i64(made, SCALAR_CHUNK)
        store_i64(chunk, LEAVES, load_i64(chunk, LEAVES) + 1)
    return made
