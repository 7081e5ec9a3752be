"""Rows and tensors made by compiled code: room on the tape, references, two kinds of objects."""

from ..codegen.cpython import (
    call_one,
    call_two,
    decref,
    error_clear,
    error_occurred,
    gc_free,
    generic_alloc,
    incref,
    int_as_double,
    int_as_word,
    object_free,
    object_malloc,
    thread_value,
    word_from,
)
from ..codegen.intrinsics import (
    apart,
    bits_of,
    global_address,
    helper,
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    store_f64,
    store_i32,
    store_i64,
)
from ..codegen.layout import (
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    CONSTANT_ROW,
    FIRST_CODE,
    FLOAT_VALUE,
    HEADER_BYTES,
    LARGE,
    LIVE,
    MADE_INSIDE,
    OBJECT_TYPE,
    RECORDING,
    REFERENCE_BYTES,
    ROW_BYTES,
    ROW_CONSTANT,
    ROW_ROW,
    ROWS,
    SCALAR_BYTES,
    SCALAR_CHUNK,
    SCALAR_ID,
    SCALAR_KIND,
    SCALAR_VALUE,
    SILENT,
    STATE_ARRAY_TYPE,
    STATE_BYTES,
    STATE_BYTES_LIMIT,
    STATE_CAREFUL,
    STATE_CHUNK,
    STATE_CLASS,
    STATE_FALSE,
    STATE_FLOAT64,
    STATE_FLOAT_TYPE,
    STATE_ID,
    STATE_INT_TYPE,
    STATE_NDARRAY_TYPE,
    STATE_NEW_CHUNK,
    STATE_NONE,
    STATE_NUMPY_FLOAT_TYPE,
    STATE_NUMPY_INT_TYPE,
    STATE_NUMPY_SINGLE_TYPE,
    STATE_REFERENCE,
    STATE_REFERENCE_END,
    STATE_ROW,
    STATE_ROW_END,
    STATE_SCALAR_TYPE,
    STATE_SILENT,
    STATE_SILENT_KEY,
    STATE_SLOW,
    STATE_SPECIAL,
    STATE_TENSORS,
    STATE_TRUE,
    STATE_UNRECORDED,
    STORAGE_TENSOR,
    TAG_ARRAY,
    TAG_CONSTANT,
    TAG_INT,
    TAG_OBJECT,
    TAG_SCALAR,
    TENSOR_ARRAY,
    TENSOR_CHUNK,
    TENSOR_ID,
    TENSOR_META,
    UNRECORDED,
    WATCHED,
)

state = global_address("tapegrad_state")


@helper
def mode():
    """The mode of compiled operators in this thread: RECORDING, SILENT or WATCHED."""
    S = state()
    if load_i64(S, STATE_SPECIAL) != 0:
        return WATCHED
    if load_i64(S, STATE_SILENT) == 0 or thread_value(load_i64(S, STATE_SILENT_KEY)) == 0:
        return RECORDING
    return SILENT


@helper
def is_fine(value):
    """Whether a result may be made here: Python may have to look at one that is not finite."""
    return load_i64(state(), STATE_CAREFUL) == 0 or value - value == 0.0


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
        count = word_from(references)
        made = call_one(load_i64(S, STATE_NEW_CHUNK), count)
        decref(count)
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
def count_tensor(chunk, step):
    """Count the tensors that refer to a chunk; 0 stands for none."""
    if chunk != 0:
        store_i64(chunk, LIVE, load_i64(chunk, LIVE) + step)


@helper
def count_object(step):
    """Count the tensors that are alive."""
    S = state()
    store_i64(S, STATE_TENSORS, load_i64(S, STATE_TENSORS) + step)


@helper
def new_scalar(value, id, kind):
    """A scalar tensor on row `id` of the current chunk; -1: one that is not recorded.

    `kind` is OF_PYTHON, OF_EITHER or OF_NUMPY.
    """
    S = state()
    made = object_malloc(SCALAR_BYTES)
    if made == 0:
        return 0
    count_object(1)
    chunk = load_i64(S, STATE_CHUNK)
    if id < 0:
        id, chunk = load_i64(S, STATE_UNRECORDED), 0
    store_i64(made, 0, 1)
    store_i64(made, OBJECT_TYPE, load_i64(S, STATE_SCALAR_TYPE))
    store_f64(made, SCALAR_VALUE, value)
    store_i32(made, SCALAR_ID, id)
    store_i32(made, SCALAR_KIND, kind)
    store_i64(made, SCALAR_CHUNK, chunk)
    count_tensor(chunk, 1)
    return made


@helper
def append_scalar(op, a, b, constant, value):
    """Append a row of scalars: the other operand is row `b` or a constant; -1 in an error."""
    row = next_row(0, 0)
    if row == 0:
        return -1
    store_i32(row, 0, op)
    store_i32(row, 4, a)
    if op & 3 == ROW_ROW or op < 4 * FIRST_CODE:
        store_i32(row, 8, b)
    else:
        store_f64(row, 8, constant)
    store_f64(row, 16, value)
    return row_done(row)


@helper
def scalar_row(op, a, b, constant, value, kind):
    """Append a row of scalars and make its tensor; where `a` is -1, no row: nothing to record."""
    if a < 0:
        return new_scalar(value, -1, kind)
    id = append_scalar(op, a, b, constant, value)
    return new_scalar(value, id, kind) if id >= 0 else 0


@helper
def result_of_two(op, x, row, y, other, value, kind):
    """The scalar op(x, y) of two numbers; their rows are -1 where they have no derivative."""
    constant = 0.0
    if other < 0:
        op, constant = op + ROW_CONSTANT, y
    elif row < 0:
        op, constant, row = op + CONSTANT_ROW, x, other
    return scalar_row(op, row, other, constant, value, kind)


@helper
def new_tensor(array, id, chunk):
    """A tensor on `array`, whose reference it takes over."""
    count_tensor(chunk, 1)  # first: making an object may run the garbage collector
    made = generic_alloc(load_i64(state(), STATE_ARRAY_TYPE), 0)
    if made == 0:
        count_tensor(chunk, -1)
        decref(array)
        return 0
    count_object(1)
    store_i64(made, TENSOR_ARRAY, array)
    store_i64(made, TENSOR_ID, id)
    store_i64(made, TENSOR_CHUNK, chunk)
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
def add_operand(operand):
    """Write the reference of an operand: a tensor, a scalar, an array, an int, a float; any other
    object is kept alive."""
    S = state()
    kind = load_i64(operand, OBJECT_TYPE)
    if kind == load_i64(S, STATE_ARRAY_TYPE):
        array = load_i64(operand, TENSOR_ARRAY)
        incref(array)
        id = load_i64(operand, TENSOR_ID)
        add_reference(array, UNRECORDED if id == MADE_INSIDE else id, TAG_ARRAY)
    elif kind == load_i64(S, STATE_SCALAR_TYPE):
        id = load_i32(operand, SCALAR_ID)
        if id >= 0:
            add_reference(0, id, TAG_SCALAR)
        else:
            add_reference(bits_of(load_f64(operand, SCALAR_VALUE)), -1, TAG_CONSTANT)
    elif kind == load_i64(S, STATE_NDARRAY_TYPE):
        incref(operand)
        add_reference(operand, -1, TAG_ARRAY)
    elif kind == load_i64(S, STATE_INT_TYPE):
        add_reference(int_as_word(operand), -1, TAG_INT)
    elif is_number(kind):
        add_reference(bits_of(load_f64(operand, FLOAT_VALUE)), -1, TAG_CONSTANT)
    else:
        incref(operand)
        add_reference(operand, -1, TAG_OBJECT)


@helper
def truth(value):
    S = state()
    made = load_i64(S, STATE_TRUE) if value else load_i64(S, STATE_FALSE)
    incref(made)
    return made


@helper
def first_reference(chunk):
    """Number in the chunk of the reference to be written next."""
    start = chunk + HEADER_BYTES + ROWS * ROW_BYTES
    return (load_i64(state(), STATE_REFERENCE) - start) // REFERENCE_BYTES


@helper
def is_number(kind):
    """Whether an object of this type holds a double where a float does."""
    S = state()
    return kind == load_i64(S, STATE_FLOAT_TYPE) or kind == load_i64(S, STATE_NUMPY_FLOAT_TYPE)


@helper
def constant_of(operand):
    """Whether an operand is a float, int or number of NumPy's that a double holds; its value."""
    if is_number(load_i64(operand, OBJECT_TYPE)):
        return True, load_f64(operand, FLOAT_VALUE)
    return other_constant_of(operand)


@helper
def other_constant_of(operand):
    """The same of an operand that does not hold a double."""
    apart()
    S = state()
    kind = load_i64(operand, OBJECT_TYPE)
    if kind == load_i64(S, STATE_NUMPY_INT_TYPE):
        return True, float(load_i64(operand, FLOAT_VALUE))
    if kind == load_i64(S, STATE_NUMPY_SINGLE_TYPE):
        return True, float(load_f32(operand, FLOAT_VALUE))
    if kind == load_i64(S, STATE_INT_TYPE):
        value = int_as_double(operand)
        if value != -1.0 or error_occurred() == 0:
            return True, value
        error_clear()
    return False, 0.0


@helper
def number_at(operand, how):
    """Whether an operand is a scalar tensor or a number; its value, its row (-1: no derivative)."""
    if load_i64(operand, OBJECT_TYPE) == load_i64(state(), STATE_SCALAR_TYPE):
        id = load_i32(operand, SCALAR_ID) if how == RECORDING else -1
        return True, load_f64(operand, SCALAR_VALUE), id
    simple, value = constant_of(operand)
    return simple, value, -1


@helper
def is_double(array):
    """Whether an array is float64."""
    return load_i64(array, ARRAY_DTYPE) == load_i64(state(), STATE_FLOAT64)


@helper
def is_plain(array):
    """Whether an array is float64 with at least one axis."""
    return is_double(array) and load_i32(array, ARRAY_NDIM) > 0


@helper
def is_apart(tensor):
    """Whether a tensor has no derivative and no other object relies on its values (`values`)."""
    if load_i64(tensor, TENSOR_ID) >= 0:
        return False
    storage = load_i64(tensor, TENSOR_META)
    return storage == 0 or load_i64(storage, STORAGE_TENSOR) == load_i64(state(), STATE_NONE)


@helper
def is_unrecorded(tensor):
    """Whether a tensor has no derivative; its buffer may have become a row (`values.current`)."""
    if is_apart(tensor):
        return True
    if load_i64(tensor, TENSOR_ID) >= 0:
        return False
    owner = load_i64(load_i64(tensor, TENSOR_META), STORAGE_TENSOR)
    return load_i64(owner, OBJECT_TYPE) != load_i64(state(), STATE_ARRAY_TYPE)


@helper
def bytes_of(array):
    total = 8
    for axis in range(load_i32(array, ARRAY_NDIM)):
        total *= load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    return total


@helper
def is_small(array):
    """Whether a result of this size uses NumPy's own memory (see tensor.buffer_pool)."""
    return bytes_of(array) < LARGE


@helper
def slow(a, b, operator):
    table = load_i64(state(), STATE_SLOW)
    return call_two(load_i64(table, operator * 8), a, b)


@helper
def class_of(self):
    """The attribute `__class__` of a tensor: its type, unless a function of Python says it."""
    function = load_i64(state(), STATE_CLASS)
    if function != 0:
        return call_two(function, self, load_i64(state(), STATE_NONE))
    kind = load_i64(self, OBJECT_TYPE)
    incref(kind)
    return kind


@helper
def release_scalar(self):
    """The deallocation of a scalar tensor."""
    count_object(-1)
    count_tensor(load_i64(self, SCALAR_CHUNK), -1)
    object_free(self)


@helper
def release_tensor(self):
    """The deallocation of an array tensor."""
    kind = load_i64(self, OBJECT_TYPE)
    array = load_i64(self, TENSOR_ARRAY)
    count_object(-1)
    count_tensor(load_i64(self, TENSOR_CHUNK), -1)
    if array != 0:
        decref(array)
    gc_free(self)
    decref(kind)
