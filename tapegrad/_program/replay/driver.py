"""Programs called: their parts one after the other, inputs in, value and gradient out."""

from __future__ import annotations

import functools

from ..._core.codegen import elements
from ..._core.codegen import machine_types as types
from ..._core.codegen.factory import functions
from ..._core.codegen.intrinsics import call_address, exchange, helper, load_i64, store_i64
from .run_layout import FINISHED

# --- driver ---------------------------------------------------------------------------------------
# Programs called: their parts one after the other, inputs in, value and gradient out.
#
# One entry into compiled code is one evaluation. It needs neither Python nor the interpreter lock.
# A plan is a list of calls of parts. Inputs and gradients are given as tables of addresses: of
# data, or of objects of Python's (floats, arrays of the program's dtype in C order).

#: Words of a program, byte offsets.
(
    VALUE_PLAN,  # address of rows of two words: a function of a part, its data
    VALUE_COUNT,
    REVERSE_PLAN,  # adjoints after values
    REVERSE_COUNT,
    AHEAD_PLAN,  # values, before adjoints
    AHEAD_COUNT,
    GRADIENT_PLAN,  # values and adjoints
    GRADIENT_COUNT,
    CLEARS,  # address of rows of two words: where adjoints are set to 0 first, and how many bytes
    CLEARS_COUNT,
    INPUTS,  # address of rows of words, see below
    INPUTS_COUNT,
    RESULT,  # slot of the first result
    POOL,  # address of runs that nobody uses, with room for POOL_SIZE
    POOL_COUNT,
    POOL_LOCK,
    NEW_RUN,  # a C function that makes a run, of no arguments
) = range(0, 136, 8)
WORDS = 17
POOL_SIZE = 1024
#: Words of an input: slot, how many, whether it is an array, its base, whether the memory of its
#: adjoint is set to 0 first, whether it is differentiated.
#: Last come its number of axes and the address of its shape.
SLOT, SIZE, IS_ARRAY, BASE, ZEROED, WANTED, AXES, SHAPE = range(0, 64, 8)
INPUT_WORDS = 8
#: Bytes of an input in the table that `rows` takes.
ROW_BYTES = 48
#: What `fast` returns where objects are not what the program takes.
OTHERS = -1

SOURCE = '''
from tapegrad._core.codegen.layout import (
    ARRAY_DATA, ARRAY_DTYPE, ARRAY_FLAGS, ARRAY_NDIM, ARRAY_SHAPE, C_CONTIGUOUS, FLOAT_VALUE,
    OBJECT_TYPE, STATE_FLOAT32, STATE_FLOAT64, STATE_FLOAT_TYPE, STATE_NDARRAY_TYPE,
    STATE_NUMPY_FLOAT_TYPE,
)
from tapegrad._core.codegen.intrinsics import (
    global_address, helper, load_f64, load_i32, load_i64, memcpy, memset, store_f64, store_i64,
)
from tapegrad._program.replay.driver import *
from tapegrad._program.replay.run_layout import (
    FINISHED, RUN_ADJOINT_BASES, RUN_ADJOINTS, RUN_POINTERS, RUN_VALUE_BASES, RUN_VALUES,
)
from tapegrad._program.replay.driver import follow, return_run, take_run

state = global_address("tapegrad_state")


@helper
def input_row(program, k):
    return load_i64(program, INPUTS) + k * INPUT_WORDS * 8


@helper
def is_array(given):
    return load_i64(given, OBJECT_TYPE) == load_i64(state(), STATE_NDARRAY_TYPE)


@helper
def data_of(program, objects, pointers):
    """Addresses of the data of objects; 0 stays."""
    for k in range(load_i64(program, INPUTS_COUNT)):
        given = load_i64(objects, k * 8)
        if given != 0:
            given = load_i64(given, ARRAY_DATA) if is_array(given) else given + FLOAT_VALUE
        store_i64(pointers, k * 8, given)
    return pointers


@helper
def arrays_of(program, objects, pointers):
    """Addresses of the data of arrays; 0 stays."""
    for k in range(load_i64(program, INPUTS_COUNT)):
        given = load_i64(objects, k * 8)
        store_i64(pointers, k * 8, load_i64(given, ARRAY_DATA) if given != 0 else 0)
    return pointers


@helper
def do_enter(run, program, pointers):
    """Take inputs."""
    V, bases = load_i64(run, RUN_VALUES), load_i64(run, RUN_VALUE_BASES)
    for k in range(load_i64(program, INPUTS_COUNT)):
        row, given = input_row(program, k), load_i64(pointers, k * 8)
        if load_i64(row, BASE) != 0:
            store_i64(bases, load_i64(row, BASE) * 8, given)
        else:
            to = V + load_i64(row, SLOT) * ITEM
            if ITEM != 8 and load_i64(row, IS_ARRAY) == 0:
                store_float(to, 0, load_f64(given, 0))
            else:
                memcpy(to, given, load_i64(row, SIZE) * ITEM)
    return FINISHED


@helper
def do_clear(run, program, gradients):
    """Set adjoints to 0; those of large inputs are the memory of gradients."""
    G, clears = load_i64(run, RUN_ADJOINTS), load_i64(program, CLEARS)
    for k in range(load_i64(program, CLEARS_COUNT)):
        memset(G + load_i64(clears, k * 16), 0, load_i64(clears, k * 16 + 8))
    for k in range(load_i64(program, INPUTS_COUNT)):
        row, to = input_row(program, k), load_i64(gradients, k * 8)
        if load_i64(row, BASE) != 0 and to != 0:
            store_i64(load_i64(run, RUN_ADJOINT_BASES), load_i64(row, BASE) * 8, to)
            if load_i64(row, ZEROED) != 0:
                memset(to, 0, load_i64(row, SIZE) * ITEM)
    return FINISHED


@helper
def do_give(run, program, gradients):
    """Copy adjoints of inputs out."""
    G = load_i64(run, RUN_ADJOINTS)
    for k in range(load_i64(program, INPUTS_COUNT)):
        row, to = input_row(program, k), load_i64(gradients, k * 8)
        if load_i64(row, BASE) == 0 and to != 0:
            memcpy(to, G + load_i64(row, SLOT) * ITEM, load_i64(row, SIZE) * ITEM)
    return FINISHED


@helper
def evaluate(run, program, pointers, gradients):
    """Values, and gradients unless their table is 0."""
    do_enter(run, program, pointers)
    if gradients == 0:
        return follow(run, load_i64(program, VALUE_PLAN), load_i64(program, VALUE_COUNT))
    do_clear(run, program, gradients)
    store_float(load_i64(run, RUN_ADJOINTS), load_i64(program, RESULT) * ITEM, 1.0)
    status = follow(run, load_i64(program, GRADIENT_PLAN), load_i64(program, GRADIENT_COUNT))
    do_give(run, program, gradients)
    return status


@helper
def fits(row, given):
    """Whether an object is what an input takes: a float, or an array of floats in C order.

    Of a number that is differentiated it does not matter whether it is Python's or NumPy's, or an
    array without axes.
    """
    S, kind = state(), load_i64(given, OBJECT_TYPE)
    if load_i64(row, IS_ARRAY) == 0:
        if kind == load_i64(S, STATE_FLOAT_TYPE):
            return True
        if ITEM != 8 or load_i64(row, WANTED) == 0:
            return False
        if kind == load_i64(S, STATE_NUMPY_FLOAT_TYPE):
            return True
    if kind != load_i64(S, STATE_NDARRAY_TYPE):
        return False
    axes = load_i64(row, AXES)
    if load_i64(given, ARRAY_DTYPE) != load_i64(S, STATE_FLOAT64 if ITEM == 8 else STATE_FLOAT32):
        return False
    if load_i32(given, ARRAY_NDIM) != axes or load_i32(given, ARRAY_FLAGS) & C_CONTIGUOUS == 0:
        return False
    for axis in range(axes):
        own, wanted = load_i64(given, ARRAY_SHAPE), load_i64(row, SHAPE)
        if load_i64(own, axis * 8) != load_i64(wanted, axis * 8):
            return False
    return True


@helper
def is_as_recorded(program, objects, k, apart):
    """Whether an array among the inputs is one of those before it exactly if it was then."""
    count = load_i64(program, INPUTS_COUNT)
    gradients, firsts = objects + count * 8, objects + count * 16
    given = load_i64(objects, k * 8)
    for j in range(k):
        is_one = load_i64(objects, j * 8) == given and is_array(given)
        was_one = load_i64(firsts, j * 8) == load_i64(firsts, k * 8)
        if is_one != was_one and not (apart and load_i64(gradients, j * 8) != 0):
            return False
    return True


@helper
def inputs_of(table, apart):
    """Addresses of the data of any objects. 0: they do not fit.

    The table has the run, the program, the inputs, the gradients, and for each input the number of
    the first that was the same object, or −1 where Python has compared them. Those with gradients
    are taken for others if they are `apart`.
    """
    run, program, objects = load_i64(table, 0), load_i64(table, 8), table + 16
    count = load_i64(program, INPUTS_COUNT)
    for k in range(count):
        row = input_row(program, k)
        if not fits(row, load_i64(objects, k * 8)):
            return 0
        first = load_i64(objects, (2 * count + k) * 8)
        is_compared = first >= 0 and (first != k or is_array(load_i64(objects, k * 8)))
        if is_compared and not (apart and load_i64(objects, (count + k) * 8) != 0):
            if not is_as_recorded(program, objects, k, apart):
                return 0
    return data_of(program, objects, load_i64(run, RUN_POINTERS))


def fast(table):
    """One evaluation with its gradient, of such a table."""
    run, program, pointers = load_i64(table, 0), load_i64(table, 8), inputs_of(table, True)
    if pointers == 0:
        return OTHERS
    size = load_i64(program, INPUTS_COUNT) * 8
    gradients = arrays_of(program, table + 16 + size, pointers + size)
    return evaluate(run, program, pointers, gradients)


def fast_value(table):
    """The same without its gradient."""
    run, program, pointers = load_i64(table, 0), load_i64(table, 8), inputs_of(table, False)
    return evaluate(run, program, pointers, 0) if pointers != 0 else OTHERS


def value(run, program, objects, ahead):
    """One evaluation, of objects; `ahead` if adjoints are to follow."""
    do_enter(run, program, data_of(program, objects, load_i64(run, RUN_POINTERS)))
    plan = AHEAD_PLAN if ahead else VALUE_PLAN
    return follow(run, load_i64(program, plan), load_i64(program, plan + 8))


def adjoints(run, program, gradients):
    """Adjoints after values, from those that are in the arena on; `clear` comes before."""
    status = follow(run, load_i64(program, REVERSE_PLAN), load_i64(program, REVERSE_COUNT))
    do_give(run, program, arrays_of(program, gradients, load_i64(run, RUN_POINTERS)))
    return status


def clear(run, program, gradients):
    return do_clear(run, program, arrays_of(program, gradients, load_i64(run, RUN_POINTERS)))


@helper
def add_to(row):
    """Add a gradient to the sum of those of all evaluations, if there is one."""
    total, given = load_i64(row, 32), load_i64(row, 16)
    if total != 0:
        t, g = floats(total), floats(given)
        for i in range(load_i64(row, 40)):
            t[i] += g[i]


def rows(run, program, table, count):
    """Evaluations one after the other; returns how many have been made before one stopped.

    The table holds the address of the values, and whether gradients are wanted; then by input where
    its rows lie, how far apart, the same of the gradients (0: none), where their sum is (0: none)
    and how many numbers they have.
    """
    inputs = load_i64(program, INPUTS_COUNT)
    pointers = load_i64(run, RUN_POINTERS)
    gradients = pointers + inputs * 8
    values, result = load_i64(table, 0), load_i64(program, RESULT) * ITEM
    wanted = load_i64(table, 8)
    for row in range(count):
        for k in range(inputs):
            at = table + 16 + k * ROW_BYTES
            store_i64(pointers, k * 8, load_i64(at, 0) + row * load_i64(at, 8))
            to = load_i64(at, 16)
            store_i64(gradients, k * 8, to + row * load_i64(at, 24) if to != 0 else 0)
        if evaluate(run, program, pointers, gradients if wanted else 0) != FINISHED:
            return row
        for k in range(inputs):
            add_to(table + 16 + k * ROW_BYTES)
        store_float(values, row * ITEM, load_float(load_i64(run, RUN_VALUES), result))
    return count


def call(program, pointers, gradients, result):
    """One evaluation by any thread: the value goes to an address. For compiled code."""
    run = take_run(program)
    status = evaluate(run, program, pointers, gradients)
    at = load_i64(program, RESULT) * ITEM
    store_float(result, 0, load_float(load_i64(run, RUN_VALUES), at))
    return_run(program, run)
    return status
'''
EXPORTS = {
    "value": 4,
    "fast": 1,
    "fast_value": 1,
    "clear": 3,
    "adjoints": 3,
    "rows": 4,
    "call": 4,
}


@functools.cache
def compiled(item: int) -> dict:
    """The functions as Python calls them, without the interpreter lock.

    They are for programs whose slots have so many bytes.
    """
    return functions(elements.head(item) + SOURCE, EXPORTS, keep_lock=False)


# --- run pool -------------------------------------------------------------------------------------
# Runs that compiled code takes from a program, uses, and returns.

part = call_address(types.int64(types.int64, types.int64))
make_run = call_address(types.int64())


@helper
def follow(run, at, count):
    """Call parts; returns why it stopped."""
    for k in range(count):
        status = part(load_i64(at, k * 16), run, load_i64(at, k * 16 + 8))
        if status != FINISHED:
            return status
    return FINISHED


@helper
def take_run(program):
    """An unused run."""
    while exchange(program + POOL_LOCK, 1) != 0:
        pass
    count = load_i64(program, POOL_COUNT)
    found = 0
    if count > 0:
        store_i64(program, POOL_COUNT, count - 1)
        found = load_i64(load_i64(program, POOL), (count - 1) * 8)
    exchange(program + POOL_LOCK, 0)
    return found if found != 0 else make_run(load_i64(program, NEW_RUN))


@helper
def return_run(program, run):
    while exchange(program + POOL_LOCK, 1) != 0:
        pass
    count = load_i64(program, POOL_COUNT)
    if count < POOL_SIZE:
        store_i64(load_i64(program, POOL), count * 8, run)
        store_i64(program, POOL_COUNT, count + 1)
    exchange(program + POOL_LOCK, 0)
