"""Operators, items and in-place writes of array tensors in compiled code."""

from ..codegen.cpython import (
    call_one,
    call_three,
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
    set_object,
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
    store_i64,
)
from ..codegen.layout import (
    ADD,
    ARRAY,
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    C_CONTIGUOUS,
    DELETE_ITEM,
    DIVIDE,
    GET_ITEM,
    HEADER_BYTES,
    LEAF,
    LOAD,
    MULTIPLY,
    NEGATIVE,
    NUMBER,
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
    SET_ITEM,
    SILENT,
    STATE_ARRAY_TYPE,
    STATE_CHUNK,
    STATE_COPY,
    STATE_ELLIPSIS,
    STATE_ID,
    STATE_INT_TYPE,
    STATE_NDARRAY_TYPE,
    STATE_NONE,
    STATE_POWERS,
    STATE_SCALAR_TYPE,
    STATE_SLICE_TYPE,
    STATE_SLOW,
    STATE_TUPLE_TYPE,
    STATE_UNRECORDED,
    STATE_VERSION,
    STORE,
    SUBTRACT,
    TAG_ARRAY,
    TAG_CONSTANT,
    TENSOR_ARRAY,
    TENSOR_CHUNK,
    TENSOR_ID,
    WATCHED,
    WRITEABLE,
    WRITES,
)
from .rows import (
    add_operand,
    add_reference,
    append_scalar,
    bytes_of,
    constant_of,
    count_tensor,
    first_reference,
    is_apart,
    is_double,
    is_number,
    is_plain,
    is_small,
    is_unrecorded,
    mode,
    new_scalar,
    new_tensor,
    next_row,
    number_at,
    row_done,
    scalar_row,
    slow,
    state,
    truth,
)

# --- Operators and items of array tensors in compiled code; NumPy computes the values -------------


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


# --- In-place writes recorded in compiled code: of one cell, and of a whole tensor or view --------


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
