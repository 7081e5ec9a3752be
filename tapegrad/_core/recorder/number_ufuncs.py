"""NumPy's ufuncs on recorded numbers, and of whom a number is where nothing is recorded."""

from ..codegen.cpython import (
    character,
    error_clear,
    error_occurred,
    int_as_word,
    tuple_size,
    vectorcall,
)
from ..codegen.intrinsics import (
    apart,
    call_address,
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    memcpy,
    store_f64,
    store_i32,
    store_i64,
    types,
)
from ..codegen.layout import (
    OBJECT_TYPE,
    OF_EITHER,
    OF_NUMPY,
    OF_OPERANDS,
    OF_PYTHON,
    SCALAR_KIND,
    STATE_FLOAT_TYPE,
    STATE_INT_TYPE,
    STATE_SCALAR_TYPE,
    STATE_UFUNC_COUNT,
    STATE_UFUNC_PYTHON,
    STATE_UFUNCS,
    UFUNC,
    UFUNC_BYTES,
    UFUNC_CALL_ADDRESSES,
    UFUNC_CALL_BYTES,
    UFUNC_CALL_OUT,
    UFUNC_CALL_SIZE,
    UFUNC_CALL_STEPS,
    UFUNC_CALL_X,
    UFUNC_CALL_Y,
    UFUNC_DATA,
    UFUNC_INPUTS,
    UFUNC_LAST_IS_TENSOR,
    UFUNC_LOOP,
    UFUNC_OP,
    WATCHED,
)
from .rows import is_fine, mode, number_at, result_of_two, scalar_row, state

# --- Of whom a number is where nothing is recorded: Python's or NumPy's, for code that asks -------


@helper
def kind_at(operand):
    """Of whom an operand is, a scalar tensor or a number, where nothing is recorded."""
    S = state()
    kind = load_i64(operand, OBJECT_TYPE)
    if kind == load_i64(S, STATE_SCALAR_TYPE):
        return load_i32(operand, SCALAR_KIND)
    is_own = kind == load_i64(S, STATE_FLOAT_TYPE) or kind == load_i64(S, STATE_INT_TYPE)
    return OF_PYTHON if is_own else OF_NUMPY


@helper
def kind_of_two(a, b):
    """The same of the result of an operator."""
    first, second = kind_at(a), kind_at(b)
    return first if first > second else second


@helper
def not_of_python(kind):
    """The kind of what Python's and NumPy's functions compute by the same row."""
    return kind if kind == OF_NUMPY else OF_EITHER


# --- NumPy's ufuncs on recorded numbers: value by the inner loop of the ufunc, and one row --------
# `np.float64(2.0) * t` and `np.log(t)` reach tensors by `__array_ufunc__`, which is compiled for
# numbers; a builtin of `native_types.calling` does not need NumPy for that. Both know the ufuncs in
# a table, each added when Python has computed it once; all else is passed on to Python.


UNDERSCORE = 95
#: Items of a tuple, as byte offsets.
FIRST, SECOND, THIRD = 24, 32, 40
#: What is no object's address, and no error.
NOT_COMPUTED = -1
loop_call = call_address(types.none(*[types.int64] * 4))


@helper
def entry_of(ufunc, inputs):
    """The entry of the table for a ufunc with so many inputs; 0 if there is none."""
    S = state()
    at = load_i64(S, STATE_UFUNCS)
    for _ in range(load_i64(S, STATE_UFUNC_COUNT)):
        if load_i64(at, UFUNC) == ufunc:
            return at if load_i64(at, UFUNC_INPUTS) == inputs else 0
        at += UFUNC_BYTES
    return 0


@helper
def fits(entry, last):
    """Whether a ufunc is computed where this is the last operand."""
    scalar = load_i64(state(), STATE_SCALAR_TYPE)
    return load_i64(entry, UFUNC_LAST_IS_TENSOR) == 0 or load_i64(last, OBJECT_TYPE) == scalar


@helper
def value_by_loop(entry, inputs, x, y):
    """The value of a ufunc for one or two numbers.

    The loop's arguments lie before the table: it has read them when it might call Python. Loops of
    SciPy change the addresses that they are given.
    """
    call = load_i64(state(), STATE_UFUNCS) - UFUNC_CALL_BYTES
    addresses = call + UFUNC_CALL_ADDRESSES
    store_f64(call, UFUNC_CALL_X, x)
    store_i64(addresses, 0, call + UFUNC_CALL_X)
    if inputs == 2:
        store_f64(call, UFUNC_CALL_Y, y)
        store_i64(addresses, 8, call + UFUNC_CALL_Y)
    store_i64(addresses, inputs * 8, call + UFUNC_CALL_OUT)
    loop, data = load_i64(entry, UFUNC_LOOP), load_i64(entry, UFUNC_DATA)
    loop_call(loop, addresses, call + UFUNC_CALL_SIZE, call + UFUNC_CALL_STEPS, data)
    return load_f64(call, UFUNC_CALL_OUT)


@helper
def by_python(self, arguments, count, names):
    """The same call of the Python function."""
    apart()
    given = count + (tuple_size(names) if names != 0 else 0)
    words = malloc((given + 1) * 8)
    store_i64(words, 0, self)
    memcpy(words + 8, arguments, given * 8)
    made = vectorcall(load_i64(state(), STATE_UFUNC_PYTHON), words, count + 1, names)
    free(words)
    return made


@helper
def is_call(method):
    """Whether a method of ufuncs is `__call__`: no other begins with an underscore."""
    first = character(method, 0)
    if first < 0:
        error_clear()
    return first == UNDERSCORE


@helper
def computed(ufunc, operands, inputs, kind):
    """The result of a ufunc where all operands are numbers, at least one of them recorded."""
    how = mode()
    if (inputs == 1 or inputs == 2) and how != WATCHED:
        entry = entry_of(ufunc, inputs)
        last = load_i64(operands, (inputs - 1) * 8)
        if entry != 0 and fits(entry, last):
            op = load_i64(entry, UFUNC_OP)
            first, x, row = number_at(load_i64(operands, 0), how)
            second, y, other = number_at(last, how)
            if first and second:
                value = value_by_loop(entry, inputs, x, y)
                if error_occurred() != 0:  # SciPy's, with special.errstate
                    return 0
                if not is_fine(value):
                    return NOT_COMPUTED
                if inputs == 1:
                    return scalar_row(op, row, -1, 0.0, value, kind)
                return result_of_two(op, x, row, y, other, value, kind)
    return NOT_COMPUTED


@helper
def of_kind(made, kind):
    """A result of Python's function, which is of a kind if it is a new number.

    What functions of users compute, as `np.frompyfunc` calls them, is of the kind that it has.
    """
    if made != 0 and kind != OF_OPERANDS and load_i32(made, 0) == 1:
        if load_i64(made, OBJECT_TYPE) == load_i64(state(), STATE_SCALAR_TYPE):
            if kind == OF_PYTHON or load_i32(made, SCALAR_KIND) == OF_EITHER:
                store_i32(made, SCALAR_KIND, kind)
    return made


@helper
def number_ufunc(self, arguments, count, names):
    """`__array_ufunc__(self, ufunc, method, *operands)` of a recorded number."""
    if names == 0 and count > 2 and is_call(load_i64(arguments, 8)):
        made = computed(load_i64(arguments, 0), arguments + 16, count - 2, OF_NUMPY)
        if made != NOT_COMPUTED:
            return made
    return of_kind(by_python(self, arguments, count, names), OF_NUMPY)


@helper
def ufunc_called(pair, arguments, count, names):
    """A call of the second of two functions, by the first, a ufunc, where a number is recorded.

    With them is the kind of the results: those of `math` are Python's, of `abs` the operand's.
    """
    kind = int_as_word(load_i64(pair, THIRD))
    if names == 0 and (count == 1 or count == 2):
        scalar = load_i64(state(), STATE_SCALAR_TYPE)
        first = load_i64(load_i64(arguments, 0), OBJECT_TYPE)
        if first == scalar or load_i64(load_i64(arguments, (count - 1) * 8), OBJECT_TYPE) == scalar:
            if kind == OF_OPERANDS:
                kind = kind_of_two(load_i64(arguments, 0), load_i64(arguments, (count - 1) * 8))
            made = computed(load_i64(pair, FIRST), arguments, count, kind)
            if made != NOT_COMPUTED:
                return made
    return of_kind(vectorcall(load_i64(pair, SECOND), arguments, count, names), kind)
