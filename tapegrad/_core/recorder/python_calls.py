"""Functions for Python that make rows and tensors, with their arguments in memory."""

from ..codegen.cpython import decref, error_occurred, incref, int_as_word
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
    ARRAY,
    ARRAY_DATA,
    FIRST_CODE,
    FLOAT_VALUE,
    LEAF,
    LEAVES,
    LOAD,
    OBJECT_TYPE,
    OF_EITHER,
    OF_NUMPY,
    OF_PYTHON,
    RECORDING,
    SCALAR_CHUNK,
    SCALAR_ID,
    SCALAR_KIND,
    SCALAR_VALUE,
    STATE_CHUNK,
    STATE_FLOAT_TYPE,
    STATE_NDARRAY_TYPE,
    STATE_SCALAR_TYPE,
    STATE_UNRECORDED,
    TAG_ARRAY,
    TAG_SCALAR,
    TENSOR_ARRAY,
    TENSOR_CHUNK,
    TENSOR_ID,
    WRITES,
)
from .array_operators import is_same_place, load_cell
from .number_ufuncs import kind_at, kind_of_two, not_of_python
from .rows import (
    add_operand,
    add_reference,
    bytes_of,
    count_tensor,
    first_reference,
    new_scalar,
    new_tensor,
    next_row,
    number_at,
    result_of_two,
    row_done,
    scalar_row,
    state,
    truth,
)


@helper
def row(arguments, count):
    """Append one row: `row(op, out, *operands)`, from Python.

    `out` is an array (the result is a tensor on it), a float (a scalar) or None (no result).
    Operands: tensors, scalars, arrays, floats, ints, and objects that the row keeps alive.
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
    store_i64(at, 16, 0)
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
        return new_scalar(load_f64(out, FLOAT_VALUE), id, OF_NUMPY)
    store_i64(chunk, WRITES, load_i64(chunk, WRITES) + 1)
    incref(out)
    return out


@helper
def scalars_row(arguments, count, op, value):
    """A row of scalar operands and floats."""
    _, x, row = number_at(load_i64(arguments, 16), RECORDING)
    kind = kind_at(load_i64(arguments, 16))
    if count == 3:
        return scalar_row(op, row, -1, 0.0, value, not_of_python(kind))
    _, y, other = number_at(load_i64(arguments, 24), RECORDING)
    kind = kind_of_two(load_i64(arguments, 16), load_i64(arguments, 24))
    return result_of_two(op, x, row, y, other, value, not_of_python(kind))


@helper
def view_of(arguments, count):
    """`view_of(tensor, array)`: a tensor on `array`, which lies in the buffer of `tensor`."""
    tensor, array = load_i64(arguments, 0), load_i64(arguments, 8)
    incref(array)
    return new_tensor(array, load_i64(tensor, TENSOR_ID), load_i64(tensor, TENSOR_CHUNK))


@helper
def scalar_at(arguments, count):
    """`scalar_at(value, id, chunk, kind)`: another scalar tensor on a row, or on none.

    `kind` is OF_EITHER by default.
    """
    S = state()
    before = load_i64(S, STATE_CHUNK)
    store_i64(S, STATE_CHUNK, int_as_word(load_i64(arguments, 16)))
    value = load_f64(load_i64(arguments, 0), FLOAT_VALUE)
    kind = int_as_word(load_i64(arguments, 24)) if count > 3 else OF_EITHER
    made = new_scalar(value, int_as_word(load_i64(arguments, 8)), kind)
    store_i64(S, STATE_CHUNK, before)
    return made


@helper
def as_float(arguments, count):
    """`as_float(number)`: a scalar tensor as Python's own number, another one on its row.

    Other objects stay as they are.
    """
    S = state()
    number = load_i64(arguments, 0)
    is_scalar = load_i64(number, OBJECT_TYPE) == load_i64(S, STATE_SCALAR_TYPE)
    if not is_scalar or load_i32(number, SCALAR_KIND) == OF_PYTHON:
        incref(number)
        return number
    before = load_i64(S, STATE_CHUNK)
    store_i64(S, STATE_CHUNK, load_i64(number, SCALAR_CHUNK))
    made = new_scalar(load_f64(number, SCALAR_VALUE), load_i32(number, SCALAR_ID), OF_PYTHON)
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
        return scalar_row(LOAD, load_i64(tensor, TENSOR_ID), 0, 0.0, value, OF_NUMPY)
    return made


@helper
def same_place(arguments, count):
    """`same_place(a, b)`: whether two arrays are the same elements in the same order."""
    return truth(is_same_place(load_i64(arguments, 0), load_i64(arguments, 8)))


@helper
def wrap(arguments, count):
    """`wrap(array)`: a tensor that is not recorded."""
    array = load_i64(arguments, 0)
    incref(array)
    return new_tensor(array, load_i64(state(), STATE_UNRECORDED), 0)


@helper
def attach(arguments, count):
    """`attach(tensor, id, chunk)`: make `tensor` the owner or a view of the buffer of row `id`."""
    tensor = load_i64(arguments, 0)
    chunk = int_as_word(load_i64(arguments, 16))
    count_tensor(load_i64(tensor, TENSOR_CHUNK), -1)
    store_i64(tensor, TENSOR_ID, int_as_word(load_i64(arguments, 8)))
    store_i64(tensor, TENSOR_CHUNK, chunk)
    count_tensor(chunk, 1)
    incref(tensor)
    return tensor


@helper
def hold(arguments, count):
    """`hold(tensor, array)`: let `tensor` have another array, of the same elements."""
    tensor, array = load_i64(arguments, 0), load_i64(arguments, 8)
    incref(array)
    decref(load_i64(tensor, TENSOR_ARRAY))
    store_i64(tensor, TENSOR_ARRAY, array)
    incref(tensor)
    return tensor


@helper
def scalar_leaf(arguments, count):
    """`scalar_leaf(value, kind)`: a scalar tensor that is an input.

    `kind` is OF_EITHER by default.
    """
    value = load_f64(load_i64(arguments, 0), FLOAT_VALUE)
    kind = int_as_word(load_i64(arguments, 8)) if count > 1 else OF_EITHER
    made = scalar_row(LEAF, 0, 0, 0.0, value, kind)
    if made != 0:
        chunk = load_i64(made, SCALAR_CHUNK)
        store_i64(chunk, LEAVES, load_i64(chunk, LEAVES) + 1)
    return made
