"""Native recording: the operators of tensors as compiled slots of two CPython types.

A scalar tensor is an object of 40 bytes: value, row, chunk. `a * b` calls a compiled function that
computes the value, appends a row of 24 bytes and makes the result, some 40 ns in all; arrays take
NumPy's own operator in between. What the fast road does not cover goes to a Python function.
"""

from ..codegen.factory import compile_source
from ..ops.table import TABLE

_HEAD = '''
from tapegrad.codegen import vmath as np
from tapegrad.codegen.memory import *
from tapegrad.codegen.vmath import select
from tapegrad.codegen.layout import *
from numba import types

word = types.int64
state = global_address("tapegrad_state")
object_malloc = c_function("PyObject_Malloc", word(word))
object_free = c_function("PyObject_Free", types.none(word))
gc_free = c_function("PyObject_GC_Del", types.none(word))
generic_alloc = c_function("PyType_GenericAlloc", word(word, word))
decref = c_function("Py_DecRef", types.none(word))
incref = c_function("Py_IncRef", types.none(word))
call_none = c_function("PyObject_CallNoArgs", word(word))
call_two = c_function("PyObject_CallFunctionObjArgs", word(word, word, word, word))
float_from = c_function("PyFloat_FromDouble", word(types.float64))
int_as_double = c_function("PyLong_AsDouble", types.float64(word))
int_as_word = c_function("PyLong_AsLongLong", word(word))
get_item = c_function("PyObject_GetItem", word(word, word))
error_clear = c_function("PyErr_Clear", types.none())
error_occurred = c_function("PyErr_Occurred", word())
number_add = c_function("PyNumber_Add", word(word, word))
number_subtract = c_function("PyNumber_Subtract", word(word, word))
number_multiply = c_function("PyNumber_Multiply", word(word, word))
number_divide = c_function("PyNumber_TrueDivide", word(word, word))
number_power = c_function("PyNumber_Power", word(word, word, word))
number_negative = c_function("PyNumber_Negative", word(word))


@helper
def no_room(references):
    S = state()
    left = load_i64(S, STATE_REFERENCE_END) - load_i64(S, STATE_REFERENCE)
    full = load_i64(S, STATE_ROW) == load_i64(S, STATE_ROW_END)
    return full or references * REFERENCE_BYTES > left


@helper
def next_row(references, size):
    """Address of the next row, with room for its references; `size` bytes are kept alive."""
    S = state()
    held = load_i64(S, STATE_BYTES) + size
    store_i64(S, STATE_BYTES, held)
    full = held > load_i64(S, STATE_BYTES_LIMIT)
    while full or no_room(references):  # another thread may fill the new chunk first
        made = call_none(load_i64(S, STATE_NEW_CHUNK))
        if made == 0:
            return 0
        decref(made)
        full = False
    return load_i64(S, STATE_ROW)


@helper
def row_done(row):
    """Count the row that has been written; returns its id."""
    S = state()
    store_i64(S, STATE_ROW, row + ROW_BYTES)
    id = load_i64(S, STATE_ID)
    store_i64(S, STATE_ID, id + 1)
    return id


@helper
def new_scalar(value, id):
    S = state()
    made = object_malloc(SCALAR_BYTES)
    if made == 0:
        return 0
    chunk = load_i64(S, STATE_CHUNK)
    store_i64(made, 0, 1)
    store_i64(made, OBJECT_TYPE, load_i64(S, STATE_SCALAR_TYPE))
    store_f64(made, SCALAR_VALUE, value)
    store_i64(made, SCALAR_ID, id)
    store_i64(made, SCALAR_CHUNK, chunk)
    store_i64(chunk, LIVE, load_i64(chunk, LIVE) + 1)
    return made


@helper
def new_tensor(array, id, chunk):
    """A tensor on `array`, whose reference it takes over."""
    made = generic_alloc(load_i64(state(), STATE_ARRAY_TYPE), 0)
    if made == 0:
        decref(array)
        return 0
    store_i64(made, TENSOR_ARRAY, array)
    store_i64(made, TENSOR_ID, id)
    store_i64(made, TENSOR_CHUNK, chunk)
    if chunk != 0:
        store_i64(chunk, LIVE, load_i64(chunk, LIVE) + 1)
    return made


@helper
def add_reference(what, id, tag):
    S = state()
    at = load_i64(S, STATE_REFERENCE)
    store_i64(at, 0, what)
    store_i32(at, 8, id)
    store_i32(at, 12, tag)
    store_i64(S, STATE_REFERENCE, at + REFERENCE_BYTES)


@helper
def first_reference(chunk):
    """Number in the chunk of the reference to be written next."""
    start = chunk + HEADER_BYTES + ROWS * ROW_BYTES
    return (load_i64(state(), STATE_REFERENCE) - start) // REFERENCE_BYTES


@helper
def is_number(kind):
    """Whether an object of this type holds a double at the place of a float."""
    S = state()
    return kind == load_i64(S, STATE_FLOAT_TYPE) or kind == load_i64(S, STATE_NUMPY_FLOAT_TYPE)


@helper
def is_plain(array):
    """Whether an array is float64 with at least one axis."""
    if load_i64(array, ARRAY_DTYPE) != load_i64(state(), STATE_FLOAT64):
        return False
    return load_i32(array, ARRAY_NDIM) > 0


@helper
def is_small(array):
    """Whether a result of this size is left to NumPy's own memory (see tensor.memory)."""
    return bytes_of(array) < LARGE


@helper
def bytes_of(array):
    total = 8
    for axis in range(load_i32(array, ARRAY_NDIM)):
        total *= load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    return total


def free_scalar(self):
    chunk = load_i64(self, SCALAR_CHUNK)
    store_i64(chunk, LIVE, load_i64(chunk, LIVE) - 1)
    object_free(self)


def free_tensor(self):
    kind = load_i64(self, OBJECT_TYPE)
    array, chunk = load_i64(self, TENSOR_ARRAY), load_i64(self, TENSOR_CHUNK)
    if chunk != 0:
        store_i64(chunk, LIVE, load_i64(chunk, LIVE) - 1)
    if array != 0:
        decref(array)
    gc_free(self)
    decref(kind)


# --- array operands ---------------------------------------------------------------------------


@helper
def array_operand(operand, constants):
    """What NumPy's operator gets for an operand: a borrowed array or number, 0 if not simple.

    Constant arrays are simple only if the slopes do not read them: else they have to be copied.
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
def refer(operand, value):
    """Write the reference of an operand; `value` is what NumPy's operator got for it."""
    S = state()
    kind = load_i64(operand, OBJECT_TYPE)
    if kind == load_i64(S, STATE_ARRAY_TYPE):
        incref(value)
        add_reference(value, load_i64(operand, TENSOR_ID), TAG_ARRAY)
    elif kind == load_i64(S, STATE_SCALAR_TYPE):
        add_reference(0, load_i64(operand, SCALAR_ID), TAG_SCALAR)
    elif kind == load_i64(S, STATE_NDARRAY_TYPE):
        incref(value)
        add_reference(value, -1, TAG_ARRAY)
    elif kind == load_i64(S, STATE_INT_TYPE):
        add_reference(bits_of(int_as_double(operand)), -1, TAG_CONSTANT)
    else:
        add_reference(bits_of(load_f64(operand, FLOAT_VALUE)), -1, TAG_CONSTANT)


@helper
def array_row(code, a, x, b, y, array):
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
    refer(a, x)
    if b != 0:
        refer(b, y)
    incref(array)
    id = row_done(row)
    add_reference(array, id, TAG_ARRAY)
    return new_tensor(array, id, chunk)


@helper
def is_fresh(array):
    """Whether a result of NumPy's is a plain array in C order."""
    if load_i64(array, OBJECT_TYPE) != load_i64(state(), STATE_NDARRAY_TYPE):
        return False
    return is_plain(array) and (load_i32(array, ARRAY_FLAGS) & C_CONTIGUOUS) != 0


@helper
def slow(a, b, operator):
    table = load_i64(state(), STATE_SLOW)
    return call_two(load_i64(table, operator * 8), a, b, 0)


MISS = -(1 << 62)


@helper
def along(array, axis, key):
    """Byte offset of position `key`, an int, along an axis; MISS if it is out of bounds."""
    n = load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    i = int_as_word(key)
    if i < 0:
        i += n
    if i < 0 or i >= n:
        return MISS
    return i * load_i64(load_i64(array, ARRAY_STRIDES), axis * 8)


@helper
def cell_offset(array, key):
    """Byte offset of the one cell that `key` (an int or two) picks, else MISS."""
    int_type = load_i64(state(), STATE_INT_TYPE)
    kind = load_i64(key, OBJECT_TYPE)
    ndim = load_i32(array, ARRAY_NDIM)
    if kind == int_type and ndim == 1:
        return along(array, 0, key)
    if kind == load_i64(state(), STATE_TUPLE_TYPE) and ndim == 2 and load_i64(key, 16) == 2:
        first, second = load_i64(key, 24), load_i64(key, 32)
        if load_i64(first, OBJECT_TYPE) == int_type and load_i64(second, OBJECT_TYPE) == int_type:
            x, y = along(array, 0, first), along(array, 1, second)
            if x != MISS and y != MISS:
                return x + y
    return MISS


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
    """Append the row that reads one cell and make its scalar; 0 if it has to go another way."""
    S = state()
    where = load_i64(array, ARRAY_DATA) + offset
    base = base_data(self)
    if base == 0:
        return 0
    distance = (where - base) // 4
    if distance > 2147483647 or distance < -2147483647:
        return 0
    value = load_f64(where, 0)
    row = next_row(0, 0)
    if row == 0:
        return 0
    store_i32(row, 0, LOAD)
    store_i32(row, 4, load_i64(self, TENSOR_ID))
    store_i32(row, 8, distance)
    store_f64(row, 16, value)
    return new_scalar(value, row_done(row))


@helper
def cell_scalar(operand, kind):
    """A recorded float64 tensor without axes as a new scalar; 0 for everything else."""
    if kind != load_i64(state(), STATE_ARRAY_TYPE):
        return 0
    array = load_i64(operand, TENSOR_ARRAY)
    if load_i64(operand, TENSOR_ID) < 0 or load_i32(array, ARRAY_NDIM) != 0:
        return 0
    if load_i64(array, ARRAY_DTYPE) != load_i64(state(), STATE_FLOAT64):
        return 0
    return load_cell(operand, array, 0)


@helper
def let_go(made):
    if made != 0:
        decref(made)


def tensor_item(self, key):
    """`tensor[key]`: cells and slices here, everything else in Python."""
    S = state()
    array = load_i64(self, TENSOR_ARRAY)
    kind = load_i64(key, OBJECT_TYPE)
    id = load_i64(self, TENSOR_ID)
    if id >= 0 and load_i64(S, STATE_SPECIAL) == 0 and is_plain(array):
        if kind == load_i64(S, STATE_SLICE_TYPE):
            found = get_item(array, key)
            if found == 0:
                return 0
            return new_tensor(found, id, load_i64(self, TENSOR_CHUNK))
        offset = cell_offset(array, key)
        if offset != MISS:
            made = load_cell(self, array, offset)
            if made != 0:
                return made
        error_clear()
    return slow(self, key, GET_ITEM)
'''

_BINARY = """

def binary_{name}(a, b):
    S = state()
    scalar = load_i64(S, STATE_SCALAR_TYPE)
    ta, tb = load_i64(a, OBJECT_TYPE), load_i64(b, OBJECT_TYPE)
    if load_i64(S, STATE_SPECIAL) == 0:
        if ta == scalar or tb == scalar:
            kind = -1
            first, second = a, b
            x, y = 0.0, 0.0
            if ta == scalar and tb == scalar:
                kind = ROW_ROW
                x, y = load_f64(a, SCALAR_VALUE), load_f64(b, SCALAR_VALUE)
            elif ta == scalar and is_number(tb):
                kind = ROW_CONSTANT
                x, y = load_f64(a, SCALAR_VALUE), load_f64(b, FLOAT_VALUE)
            elif tb == scalar and is_number(ta):
                kind = CONSTANT_ROW
                x, y = load_f64(a, FLOAT_VALUE), load_f64(b, SCALAR_VALUE)
                first = b
            elif ta == scalar and tb == load_i64(S, STATE_INT_TYPE):
                kind = ROW_CONSTANT
                x, y = load_f64(a, SCALAR_VALUE), int_as_double(b)
                if y == -1.0 and error_occurred() != 0:
                    error_clear()
                    kind = -1
            elif tb == scalar and ta == load_i64(S, STATE_INT_TYPE):
                kind = CONSTANT_ROW
                x, y = int_as_double(a), load_f64(b, SCALAR_VALUE)
                first = b
                if x == -1.0 and error_occurred() != 0:
                    error_clear()
                    kind = -1
            if kind >= 0:
                row = next_row(0, 0)
                if row == 0:
                    return 0
                {special}
                value = {value}
                store_i32(row, 0, {op} + kind)
                store_i32(row, 4, load_i64(first, SCALAR_ID))
                if kind == ROW_ROW:
                    store_i32(row, 8, load_i64(second, SCALAR_ID))
                elif kind == ROW_CONSTANT:
                    store_f64(row, 8, y)
                else:
                    store_f64(row, 8, x)
                store_f64(row, 16, value)
                return new_scalar(value, row_done(row))
        tensor = load_i64(S, STATE_ARRAY_TYPE)
        if ta == tensor or tb == tensor:
            x, y = 0, 0
            owned = 0
            if ta == scalar:
                x = owned = float_from(load_f64(a, SCALAR_VALUE))
            else:
                x = array_operand(a, {constants})
            if tb == scalar:
                y = owned = float_from(load_f64(b, SCALAR_VALUE))
            else:
                y = array_operand(b, {constants})
            if x != 0 and y != 0:
                {square}
                array = {number}
                if owned != 0:
                    decref(owned)
                if array == 0:
                    error_clear()
                elif is_fresh(array):
                    return array_row({code}, a, x, b, y, array)
                else:
                    decref(array)
            elif owned != 0:
                decref(owned)
            first, second = cell_scalar(a, ta), cell_scalar(b, tb)
            if first != 0 or second != 0:
                x = first if first != 0 else a
                y = second if second != 0 else b
                made = {number}
                let_go(first)
                let_go(second)
                return made
    return slow(a, b, {operator})
"""

_SPECIAL_POWER = """if kind == ROW_CONSTANT and y == 2.0:
                    value = x * x
                    store_i32(row, 0, {square_op})
                    store_i32(row, 4, load_i64(a, SCALAR_ID))
                    store_i32(row, 8, -1)
                    store_f64(row, 16, value)
                    return new_scalar(value, row_done(row))"""
_SQUARE_ARRAY = """two = False
                if tb == load_i64(S, STATE_INT_TYPE):
                    two = int_as_double(b) == 2.0
                elif is_number(tb):
                    two = load_f64(b, FLOAT_VALUE) == 2.0
                if two:
                    array = number_multiply(x, x)
                    if array == 0:
                        error_clear()
                    elif is_fresh(array):
                        return array_row({square_code}, a, x, 0, 0, array)
                    else:
                        decref(array)
                    return slow(a, b, {operator})"""

_NEGATIVE = """

def negative(a):
    S = state()
    if load_i64(S, STATE_SPECIAL) == 0:
        kind = load_i64(a, OBJECT_TYPE)
        if kind == load_i64(S, STATE_SCALAR_TYPE):
            value = -load_f64(a, SCALAR_VALUE)
            row = next_row(0, 0)
            if row == 0:
                return 0
            store_i32(row, 0, {op})
            store_i32(row, 4, load_i64(a, SCALAR_ID))
            store_i32(row, 8, -1)
            store_f64(row, 16, value)
            return new_scalar(value, row_done(row))
        x = array_operand(a, 0)
        if x != 0:
            array = number_negative(x)
            if array != 0:
                if is_fresh(array):
                    return array_row({code}, a, x, 0, 0, array)
                decref(array)
            else:
                error_clear()
    return slow(a, a, NEGATIVE)
"""

#: Operators that have a compiled slot, in the order of the table of slow functions.
BINARY = {
    "add": ("number_add(x, y)", "nb_add"),
    "subtract": ("number_subtract(x, y)", "nb_subtract"),
    "multiply": ("number_multiply(x, y)", "nb_multiply"),
    "divide": ("number_divide(x, y)", "nb_true_divide"),
    "power": ("number_power(x, y, NONE)", "nb_power"),
}
GET_ITEM, NEGATIVE = len(BINARY), len(BINARY) + 1
SLOW_COUNT = len(BINARY) + 2

_ROW = '''

def row(self, arguments, count):
    """Append one row: `row(op, out, *operands)`, from Python.

    `out` is an array (the result is a tensor on it), a float (a scalar) or None (no result).
    Operands: tensors, scalars, arrays, floats, ints.
    """
    S = state()
    op = int_as_word(load_i64(arguments, 0))
    out = load_i64(arguments, 8)
    scalar, tensor = load_i64(S, STATE_SCALAR_TYPE), load_i64(S, STATE_ARRAY_TYPE)
    ndarray = load_i64(S, STATE_NDARRAY_TYPE)
    out_type = load_i64(out, OBJECT_TYPE)
    size = 0
    if out_type == ndarray:
        size = bytes_of(out)
    at = next_row(count, size)
    if at == 0:
        return 0
    chunk = load_i64(S, STATE_CHUNK)
    if op < ARRAY and op >= 4 * FIRST_CODE:
        return scalar_row(arguments, count, at, op, load_f64(out, FLOAT_VALUE))
    references = count - 2
    store_i32(at, 0, op)
    store_i32(at, 4, first_reference(chunk))
    for k in range(2, count):
        operand = load_i64(arguments, k * 8)
        kind = load_i64(operand, OBJECT_TYPE)
        if kind == tensor:
            array = load_i64(operand, TENSOR_ARRAY)
            incref(array)
            add_reference(array, load_i64(operand, TENSOR_ID), TAG_ARRAY)
        elif kind == scalar:
            add_reference(0, load_i64(operand, SCALAR_ID), TAG_SCALAR)
        elif kind == ndarray:
            incref(operand)
            add_reference(operand, -1, TAG_ARRAY)
        elif kind == load_i64(S, STATE_INT_TYPE):
            add_reference(int_as_word(operand), -1, TAG_INT)
        else:
            add_reference(bits_of(load_f64(operand, FLOAT_VALUE)), -1, TAG_CONSTANT)
    id = row_done(at)
    if out_type == ndarray:
        incref(out)
        incref(out)
        add_reference(out, id, TAG_ARRAY)
        store_i32(at, 8, references + 1)
        return new_tensor(out, id, chunk)
    if out_type == load_i64(S, STATE_FLOAT_TYPE):
        add_reference(0, id, TAG_SCALAR)
        store_i32(at, 8, references + 1)
        value = load_f64(out, FLOAT_VALUE)
        store_f64(at, 16, value)
        return new_scalar(value, id)
    store_i32(at, 8, references)
    store_i64(chunk, WRITES, load_i64(chunk, WRITES) + 1)
    incref(out)
    return out


@helper
def scalar_row(arguments, count, at, op, value):
    """A row of scalar operands, at most one of them a constant."""
    S = state()
    scalar = load_i64(S, STATE_SCALAR_TYPE)
    a = load_i64(arguments, 16)
    kind = ROW_ROW
    store_i32(at, 8, -1)
    if count == 4:
        b = load_i64(arguments, 24)
        if load_i64(a, OBJECT_TYPE) != scalar:
            kind = CONSTANT_ROW
            store_f64(at, 8, load_f64(a, FLOAT_VALUE))
            a = b
        elif load_i64(b, OBJECT_TYPE) != scalar:
            kind = ROW_CONSTANT
            store_f64(at, 8, load_f64(b, FLOAT_VALUE))
        else:
            store_i32(at, 8, load_i64(b, SCALAR_ID))
    store_i32(at, 0, op + kind)
    store_i32(at, 4, load_i64(a, SCALAR_ID))
    store_f64(at, 16, value)
    return new_scalar(value, row_done(at))


def view(self, arguments, count):
    """`view(tensor, array)`: a tensor on `array`, which lies in the buffer of `tensor`."""
    tensor, array = load_i64(arguments, 0), load_i64(arguments, 8)
    incref(array)
    return new_tensor(array, load_i64(tensor, TENSOR_ID), load_i64(tensor, TENSOR_CHUNK))


def scalar_at(self, arguments, count):
    """`scalar_at(value, id, chunk)`: another scalar tensor on a row that is there."""
    S = state()
    before = load_i64(S, STATE_CHUNK)
    store_i64(S, STATE_CHUNK, int_as_word(load_i64(arguments, 16)))
    value = load_f64(load_i64(arguments, 0), FLOAT_VALUE)
    made = new_scalar(value, int_as_word(load_i64(arguments, 8)))
    store_i64(S, STATE_CHUNK, before)
    return made


def load(self, arguments, count):
    """`load(tensor)`: the scalar that reads the one element of a float64 tensor without axes."""
    tensor = load_i64(arguments, 0)
    array = load_i64(tensor, TENSOR_ARRAY)
    made = load_cell(tensor, array, 0)
    if made == 0 and error_occurred() == 0:
        row = next_row(0, 0)
        if row == 0:
            return 0
        value = load_f64(load_i64(array, ARRAY_DATA), 0)
        store_i32(row, 0, LOAD)
        store_i32(row, 4, load_i64(tensor, TENSOR_ID))
        store_i32(row, 8, 0)
        store_f64(row, 16, value)
        return new_scalar(value, row_done(row))
    return made


@helper
def truth(value):
    S = state()
    made = load_i64(S, STATE_TRUE) if value else load_i64(S, STATE_FALSE)
    incref(made)
    return made


def same_place(self, arguments, count):
    """`same_place(a, b)`: whether two arrays are the same elements in the same order."""
    a, b = load_i64(arguments, 0), load_i64(arguments, 8)
    same = load_i64(a, ARRAY_DATA) == load_i64(b, ARRAY_DATA)
    same = same and load_i32(a, ARRAY_NDIM) == load_i32(b, ARRAY_NDIM)
    if same:
        for axis in range(load_i32(a, ARRAY_NDIM)):
            for table in (ARRAY_SHAPE, ARRAY_STRIDES):
                first, second = load_i64(a, table), load_i64(b, table)
                same = same and load_i64(first, axis * 8) == load_i64(second, axis * 8)
    return truth(same)


def fits_whole(self, arguments, count):
    """`fits_whole(tensor, value)`: whether all of `tensor` can be written with `value` as it is.

    Both are recorded, of one shape and dtype, the first can be written, and they are apart.
    """
    t, v = load_i64(arguments, 0), load_i64(arguments, 8)
    fits = load_i64(t, TENSOR_ID) >= 0 and load_i64(v, TENSOR_ID) >= 0
    a, b = load_i64(t, TENSOR_ARRAY), load_i64(v, TENSOR_ARRAY)
    fits = fits and load_i64(t, TENSOR_ID) != load_i64(v, TENSOR_ID)
    fits = fits and load_i64(a, ARRAY_DTYPE) == load_i64(b, ARRAY_DTYPE)
    fits = fits and load_i32(a, ARRAY_NDIM) == load_i32(b, ARRAY_NDIM)
    fits = fits and (load_i32(a, ARRAY_FLAGS) & WRITEABLE) != 0
    if fits:
        for axis in range(load_i32(a, ARRAY_NDIM)):
            first, second = load_i64(a, ARRAY_SHAPE), load_i64(b, ARRAY_SHAPE)
            fits = fits and load_i64(first, axis * 8) == load_i64(second, axis * 8)
    return truth(fits)


def wrap(self, arguments, count):
    """`wrap(array)`: a tensor that is not recorded."""
    array = load_i64(arguments, 0)
    incref(array)
    return new_tensor(array, -1, 0)


def attach(self, arguments, count):
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


def scalar_leaf(self, arguments, count):
    """`scalar_leaf(value)`: a scalar tensor that is an input."""
    at = next_row(0, 0)
    if at == 0:
        return 0
    value = load_f64(load_i64(arguments, 0), FLOAT_VALUE)
    chunk = load_i64(state(), STATE_CHUNK)
    store_i64(chunk, LEAVES, load_i64(chunk, LEAVES) + 1)
    store_i32(at, 0, LEAF)
    store_i32(at, 4, 0)
    store_i32(at, 8, 0)
    store_f64(at, 16, value)
    return new_scalar(value, row_done(at))
'''

#: Functions for Python, each called as `f(*arguments)`.
FUNCTIONS = (
    "row",
    "view",
    "wrap",
    "attach",
    "scalar_leaf",
    "load",
    "same_place",
    "fits_whole",
    "scalar_at",
)


def source(none: str = "NONE") -> str:
    """The text of the recorder's module."""
    square = TABLE["square"].code
    text = _HEAD.replace("GET_ITEM", str(GET_ITEM))
    for number, (name, (call, _)) in enumerate(BINARY.items()):
        op = TABLE[name]
        power = name == "power"
        text += _BINARY.format(
            name=name,
            value=op.value,
            op=4 * (op.code + 1),
            code=op.code,
            number=call.replace("NONE", "load_i64(S, STATE_NONE)"),
            operator=number,
            constants=int(op.used == 0),
            special=_SPECIAL_POWER.format(square_op=4 * (square + 1)) if power else "",
            square=_SQUARE_ARRAY.format(square_code=square, operator=number) if power else "",
        )
    negative = TABLE["negative"].code
    text += _NEGATIVE.format(op=4 * (negative + 1), code=negative).replace(
        "NEGATIVE", str(NEGATIVE)
    )
    return text + _ROW


def compile_recorder() -> dict[str, int]:
    """Addresses of the slots and functions of the recorder."""
    exports = {f"binary_{name}": "int64(int64, int64)" for name in BINARY}
    exports["binary_power"] = "int64(int64, int64, int64)"
    exports |= {"negative": "int64(int64)", "tensor_item": "int64(int64, int64)"}
    exports |= {"free_scalar": "void(int64)", "free_tensor": "void(int64)"}
    exports |= {name: "int64(int64, int64, int64)" for name in FUNCTIONS}
    text = source().replace("def binary_power(a, b):", "def binary_power(a, b, modulus):")
    return compile_source(text, exports)
