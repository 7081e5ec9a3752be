"""Operators and items of array tensors in compiled code; NumPy computes the values."""

from ..codegen.cpython import (
    call_one,
    decref,
    error_clear,
    error_occurred,
    float_from,
    get_item,
    incref,
    int_as_double,
    int_as_word,
    number_add,
    number_divide,
    number_multiply,
    number_negative,
    number_power,
    number_subtract,
)
from ..codegen.intrinsics import (
    apart,
    bits_of,
    helper,
    load_f64,
    load_i32,
    load_i64,
    store_f64,
    store_i32,
)
from ..codegen.layout import (
    ADD,
    ARRAY,
    ARRAY_DATA,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    C_CONTIGUOUS,
    DIVIDE,
    GET_ITEM,
    HEADER_BYTES,
    LOAD,
    MULTIPLY,
    NEGATIVE,
    OBJECT_TYPE,
    OF_NUMPY,
    POWER,
    POWER_BYTES,
    POWER_CODE,
    POWER_FUNCTION,
    POWER_MOST,
    RECORDING,
    REFERENCE_BYTES,
    ROW_BYTES,
    ROWS,
    SCALAR_ID,
    SCALAR_VALUE,
    SILENT,
    STATE_ARRAY_TYPE,
    STATE_CHUNK,
    STATE_COPY,
    STATE_INT_TYPE,
    STATE_NDARRAY_TYPE,
    STATE_NONE,
    STATE_POWERS,
    STATE_SCALAR_TYPE,
    STATE_SLICE_TYPE,
    STATE_TUPLE_TYPE,
    STATE_UNRECORDED,
    SUBTRACT,
    TAG_ARRAY,
    TAG_CONSTANT,
    TENSOR_ARRAY,
    TENSOR_CHUNK,
    TENSOR_ID,
    WATCHED,
)
from .rows import (
    add_operand,
    add_reference,
    bytes_of,
    constant_of,
    first_reference,
    is_double,
    is_number,
    is_plain,
    is_small,
    is_unrecorded,
    mode,
    new_scalar,
    new_tensor,
    next_row,
    row_done,
    scalar_row,
    slow,
    state,
)

MISS = -(1 << 62)


@helper
def array_operand(operand, constants):
    """The argument of NumPy's operator for an operand: a borrowed array or number, 0 if not simple.

    Constant arrays are simple only if the partial derivatives do not read them: otherwise they are
    copied.
    """
    S = state()
    kind = load_i64(operand, OBJECT_TYPE)
    if kind == load_i64(S, STATE_ARRAY_TYPE):
        if load_i64(operand, TENSOR_ID) < 0:
            return 0
        array = load_i64(operand, TENSOR_ARRAY)
        return array if is_plain(array) and is_small(array) else 0
    if kind == load_i64(S, STATE_NDARRAY_TYPE) and constants:
        return operand if is_plain(operand) and is_small(operand) else 0
    if is_number(kind) or kind == load_i64(S, STATE_INT_TYPE):
        return operand
    return 0


@helper
def refer(operand):
    """Write the reference of an operand; an int counts as a double in partial derivatives."""
    if load_i64(operand, OBJECT_TYPE) == load_i64(state(), STATE_INT_TYPE):
        add_reference(bits_of(int_as_double(operand)), -1, TAG_CONSTANT)
    else:
        add_operand(operand)


@helper
def array_row(code, a, b, array):
    """Append the row array = op(a, b) and make its tensor (b = 0: one operand)."""
    S = state()
    inputs = 2 if b != 0 else 1
    row = next_row(inputs + 1, bytes_of(array))
    if row == 0:
        decref(array)
        return 0
    chunk = load_i64(S, STATE_CHUNK)
    store_i32(row, 0, ARRAY + code)
    store_i32(row, 4, first_reference(chunk))
    store_i32(row, 8, inputs + 1)
    refer(a)
    if b != 0:
        refer(b)
    incref(array)
    id = row_done(row)
    add_reference(array, id, TAG_ARRAY)
    return new_tensor(array, id, chunk)


@helper
def is_fresh(array):
    """Whether a result of NumPy is a plain array in C order."""
    if load_i64(array, OBJECT_TYPE) != load_i64(state(), STATE_NDARRAY_TYPE):
        return False
    return is_plain(array) and (load_i32(array, ARRAY_FLAGS) & C_CONTIGUOUS) != 0


@helper
def along(array, axis, key):
    """Byte offset of position `key`, an int, along an axis; MISS if it is out of bounds."""
    n = load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    i = int_as_word(key)
    if i < 0:
        i = i + n if i != -1 or error_occurred() == 0 else -1
    if i < 0 or i >= n:
        return MISS
    return i * load_i64(load_i64(array, ARRAY_STRIDES), axis * 8)


@helper
def cell_offset(array, key):
    """Byte offset of the one cell that `key` (an int for each axis) picks, else MISS."""
    int_type = load_i64(state(), STATE_INT_TYPE)
    kind = load_i64(key, OBJECT_TYPE)
    ndim = load_i32(array, ARRAY_NDIM)
    if kind == int_type and ndim == 1:
        return along(array, 0, key)
    if kind != load_i64(state(), STATE_TUPLE_TYPE) or load_i64(key, 16) != ndim:
        return MISS
    offset = 0
    for axis in range(ndim):
        part = load_i64(key, 24 + 8 * axis)
        if load_i64(part, OBJECT_TYPE) != int_type:
            return MISS
        step = along(array, axis, part)
        if step == MISS:
            return MISS
        offset += step
    return offset


@helper
def base_data(tensor):
    """Address of the first element of the array that owns the buffer of a recorded tensor."""
    id = load_i64(tensor, TENSOR_ID)
    chunk = load_i64(tensor, TENSOR_CHUNK)
    row = chunk + HEADER_BYTES + (id & (ROWS - 1)) * ROW_BYTES
    number = load_i32(row, 4) + load_i32(row, 8) - 1
    reference = chunk + HEADER_BYTES + ROWS * ROW_BYTES + number * REFERENCE_BYTES
    what = load_i64(reference, 0)
    return load_i64(what, ARRAY_DATA) if what != 0 else 0


@helper
def load_cell(self, array, offset):
    """Append the row that reads one cell and make its scalar; 0 if Python must do it."""
    where = load_i64(array, ARRAY_DATA) + offset
    base = base_data(self)
    if base == 0:
        return 0
    distance = (where - base) // 4
    if distance > 2147483647 or distance < -2147483647:
        return 0
    return scalar_row(LOAD, load_i64(self, TENSOR_ID), distance, 0.0, load_f64(where, 0), OF_NUMPY)


@helper
def read_cell(self, array, offset, how):
    """The scalar of one cell, recorded if the tensor is; 0 if Python must make it."""
    if how == SILENT or is_unrecorded(self):
        return new_scalar(load_f64(load_i64(array, ARRAY_DATA), offset), -1, OF_NUMPY)
    return load_cell(self, array, offset) if load_i64(self, TENSOR_ID) >= 0 else 0


@helper
def cell_scalar(operand, how):
    """A float64 tensor without axes as a new scalar; 0 for everything else."""
    apart()
    if load_i64(operand, OBJECT_TYPE) != load_i64(state(), STATE_ARRAY_TYPE):
        return 0
    array = load_i64(operand, TENSOR_ARRAY)
    if load_i32(array, ARRAY_NDIM) != 0 or not is_double(array):
        return 0
    return read_cell(operand, array, 0, how)


@helper
def number_of(operator, x, y):
    """The result of NumPy, or of Python, for an operator."""
    if operator == ADD:
        return number_add(x, y)
    if operator == SUBTRACT:
        return number_subtract(x, y)
    if operator == MULTIPLY:
        return number_multiply(x, y)
    if operator == DIVIDE:
        return number_divide(x, y)
    if operator == POWER:
        return number_power(x, y, load_i64(state(), STATE_NONE))
    return number_negative(x)


@helper
def result_row(code, a, b, array):
    """The tensor of NumPy's result and its row; 0 if that is not a plain array, or on an error."""
    if array == 0:
        error_clear()
        return 0
    if is_fresh(array):
        return array_row(code, a, b, array)
    decref(array)
    return 0


@helper
def array_result(operator, code, a, x, b, y):
    """The same of an operator."""
    return result_row(code, a, b, number_of(operator, x, y))


@helper
def power_result(code, a, x, b, y):
    """`array_result` of a power; for many constant exponents by a function of their own.

    Python enters the function of an exponent in a table when it first meets it.
    """
    known, value = constant_of(b)
    if known and -0.5 * POWER_MOST <= value <= 0.5 * POWER_MOST:
        twice = int(2.0 * value)
        if twice == 2.0 * value and twice != 0 and twice != 2:
            table = load_i64(state(), STATE_POWERS)
            entry = table + (twice + POWER_MOST) * POWER_BYTES
            if table == 0 or load_i64(entry, POWER_FUNCTION) == 0:
                return 0
            array = call_one(load_i64(entry, POWER_FUNCTION), x)
            return result_row(load_i64(entry, POWER_CODE), a, 0, array)
    return array_result(POWER, code, a, x, b, y)


@helper
def by_arrays(operator, code, constants, a, b):
    """An operator with an array among its operands, or 0 if Python must compute it."""
    scalar = load_i64(state(), STATE_SCALAR_TYPE)
    owned = 0
    if load_i64(a, OBJECT_TYPE) == scalar:
        x = owned = float_from(load_f64(a, SCALAR_VALUE))
    else:
        x = array_operand(a, constants)
    if operator == NEGATIVE:
        y = x
    elif load_i64(b, OBJECT_TYPE) == scalar:
        y = owned = float_from(load_f64(b, SCALAR_VALUE))
    else:
        y = array_operand(b, constants)
    made = 0
    if x != 0 and y != 0:
        if operator == NEGATIVE:
            made = array_result(operator, code, a, x, 0, 0)
        elif operator == POWER:
            made = power_result(code, a, x, b, y)
        else:
            made = array_result(operator, code, a, x, b, y)
    if owned != 0:
        decref(owned)
    return made


@helper
def in_array(scalar, like):
    """A scalar that is not recorded as an array tensor, which can be written; `like` is another."""
    array = call_one(load_i64(state(), STATE_COPY), load_i64(like, TENSOR_ARRAY))
    value = load_f64(scalar, SCALAR_VALUE)
    decref(scalar)
    if array == 0:
        return 0
    store_f64(load_i64(array, ARRAY_DATA), 0, value)
    return new_tensor(array, load_i64(state(), STATE_UNRECORDED), 0)


@helper
def by_cells(operator, a, b, how):
    """An operator with a tensor without axes among its operands, read as a scalar; or 0."""
    scalar = load_i64(state(), STATE_SCALAR_TYPE)
    first = cell_scalar(a, how)
    second = 0 if operator == NEGATIVE else cell_scalar(b, how)
    made = 0
    if first != 0 or second != 0:
        made = number_of(operator, first if first != 0 else a, second if second != 0 else b)
    if made != 0 and load_i64(made, OBJECT_TYPE) == scalar and load_i32(made, SCALAR_ID) < 0:
        if load_i64(a, OBJECT_TYPE) != scalar and load_i64(b, OBJECT_TYPE) != scalar:
            made = in_array(made, a if first != 0 else b)
    if first != 0:
        decref(first)
    if second != 0:
        decref(second)
    return made


@helper
def array_operator(a, b, operator, code, constants):
    """An operator that is not one of scalars alone; `a` twice if it has one operand.

    `code` is its op; `constants` says whether partial derivatives leave constant arrays unread.
    """
    S = state()
    tensor = load_i64(S, STATE_ARRAY_TYPE)
    arrays = load_i64(a, OBJECT_TYPE) == tensor or load_i64(b, OBJECT_TYPE) == tensor
    how = mode()
    if arrays and how != WATCHED:
        made = by_arrays(operator, code, constants, a, b) if how == RECORDING else 0
        if made == 0 and error_occurred() == 0:
            made = by_cells(operator, a, b, how)
        if made != 0 or error_occurred() != 0:
            return made
    return slow(a, b, operator)


@helper
def tensor_item(self, key):
    """`tensor[key]`: cells and slices here, everything else in Python."""
    S = state()
    how = mode()
    if how == WATCHED or load_i64(self, OBJECT_TYPE) == load_i64(S, STATE_SCALAR_TYPE):
        return slow(self, key, GET_ITEM)
    array = load_i64(self, TENSOR_ARRAY)
    kind = load_i64(key, OBJECT_TYPE)
    id = load_i64(self, TENSOR_ID)
    if is_plain(array):
        if kind == load_i64(S, STATE_SLICE_TYPE) and id >= 0 and how == RECORDING:
            found = get_item(array, key)
            if found == 0:
                return 0
            return new_tensor(found, id, load_i64(self, TENSOR_CHUNK))
        offset = cell_offset(array, key)
        if offset != MISS:
            made = read_cell(self, array, offset, how)
            if made != 0:
                return made
        error_clear()
    return slow(self, key, GET_ITEM)
