"""The beginning and the end of a reverse sweep: seeds and results."""

from ..recorder.scalar_operators import called_by_number

_TEXT = '''
from tapegrad._core.codegen.adjoint_memory import give_back
from tapegrad._core.codegen.sweep_frame import *
from tapegrad._core.codegen.layout import *
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.codegen.cpython import (
    decref,
    float_from,
    incref,
    int_as_word,
    tuple_new,
    tuple_set,
    word_from,
)
from tapegrad._core.recorder.rows import state


@helper
def word_at(arguments, k):
    """Argument number k, an int of Python's."""
    return int_as_word(load_i64(arguments, k * 8))


@helper
def begin(arguments, count):
    """`begin(frame, length, seeds, retain)`: set the frame for a sweep over `length` chunks from
    the newest row; returns their writes."""
    frame, length = word_at(arguments, 0), word_at(arguments, 1)
    store_i64(frame, FRAME_STOP, -1)
    S = state()
    chunk = load_i64(S, STATE_CHUNK)
    rows = (load_i64(S, STATE_ROW) - chunk - HEADER_BYTES) // ROW_BYTES
    store_i64(chunk, USED_ROWS, rows)
    used = load_i64(S, STATE_REFERENCE) - chunk - HEADER_BYTES - ROWS * ROW_BYTES
    store_i64(chunk, USED_REFERENCES, used // REFERENCE_BYTES)
    store_i64(frame, FRAME_SEEDS, word_at(arguments, 2))
    store_i64(frame, FRAME_RETAIN, word_at(arguments, 3))
    store_i64(frame, FRAME_FIRST, length)
    store_i64(frame, FRAME_MET_FREED, 0)
    store_i64(frame, FRAME_ANSWERED, 0)  # a sweep may have ended behind a rule
    store_i64(frame, FRAME_AT_ORDER, length - 1)
    store_i64(frame, FRAME_AT_POSITION, rows - 1)
    store_i64(frame, FRAME_START_ORDER, length - 1)
    store_i64(frame, FRAME_START_POSITION, rows - 1)
    if load_i64(frame, FRAME_EARLIER_WRITES) < 0:
        earlier = 0
        for order in range(length - 1):
            slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
            earlier += load_i64(load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8), WRITES)
        store_i64(frame, FRAME_EARLIER_WRITES, earlier)
    writes = load_i64(frame, FRAME_EARLIER_WRITES) + load_i64(chunk, WRITES)
    store_i64(frame, FRAME_WRITES, writes)
    return word_from(writes)


@helper
def release_row(chunk, row):
    """Let go of the objects that a used-up array row refers to; returns the output's bytes."""
    given = 0
    last = load_i32(row, 8) - 1
    at = chunk + HEADER_BYTES + ROWS * ROW_BYTES + load_i32(row, 4) * REFERENCE_BYTES
    for k in range(last + 1):
        tag, what = load_i32(at, k * REFERENCE_BYTES + 12), load_i64(at, k * REFERENCE_BYTES)
        if (tag == TAG_ARRAY or tag == TAG_OBJECT) and what != 0:
            if tag == TAG_ARRAY and k == last:
                given += 8 * count_of(what)
            store_i64(at, k * REFERENCE_BYTES, 0)
            decref(what)
    return given


@helper
def use_up(chunk, row, alone):
    """Let go of what a used-up row refers to if no other sweep may read it; returns its bytes."""
    store_i32(row, 0, -abs(load_i32(row, 0)))
    return release_row(chunk, row) if alone else 0


@helper
def leave_adjoint_buffer(frame, chunk, row, address, alone):
    """Free the adjoint buffer of an array row that the sweep has left.

    One that Python owns is of an input of a transform, which is over: its array goes. The row may
    have been used up by a sweep that reads what is in the buffer.
    """
    op = abs(load_i32(row, 0))
    if op > ARRAY or op == LEAF or op == CONSTANT:
        last = load_i32(row, 4) + load_i32(row, 8) - 1
        at = chunk + HEADER_BYTES + ROWS * ROW_BYTES + last * REFERENCE_BYTES
        if load_i32(row, 8) > 0 and load_i32(at, 12) == TAG_ARRAY:
            found = load_i64(address, 0)
            if found > 0:
                if load_i64(found, 16) == 0:
                    give_back(frame, found)
                elif not load_i64(frame, FRAME_RETAIN):
                    return use_up(chunk, row, alone)
    return 0


@helper
def leave_chunk(frame, order, alone):
    """Give back the cells of a chunk and what its used-up rows keep alive; returns its bytes."""
    slot, given = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8), 0
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
    if cells == 0:
        return 0
    chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
    lowest = load_i64(load_i64(frame, FRAME_LOWEST), slot * 8)
    for position in range(lowest, load_i64(chunk, USED_ROWS)):
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        address = cells + position * 8 * load_i64(frame, FRAME_SEEDS)
        given += leave_adjoint_buffer(frame, chunk, row, address, alone)
        if load_i32(row, 0) < -ARRAY:
            given += use_up(chunk, row, alone)
    free_cells(frame, slot)
    return given


@helper
def end(arguments, count):
    """`end(frame, alone)`: give back the cells and, if no other sweep is under way, what used-up
    rows keep alive."""
    frame, alone = word_at(arguments, 0), word_at(arguments, 1)
    inputs, first = load_i64(frame, FRAME_INPUTS), load_i64(frame, FRAME_FIRST)
    given = 0
    for order in range(inputs):
        given += leave_chunk(frame, order, alone)
    for order in range(max(inputs, first), load_i64(frame, FRAME_START_ORDER) + 1):
        given += leave_chunk(frame, order, alone)
    trim_cells(frame)
    return count_given(given)


@helper
def count_given(given):
    """Note that some bytes are no longer kept alive; returns how many, for Python."""
    S = state()
    store_i64(S, STATE_BYTES, max(0, load_i64(S, STATE_BYTES) - given))
    return word_from(given)


@helper
def release(arguments, count):
    """`release(chunk, positions)`: let go of what used-up rows keep alive; `positions` is an array
    of int64."""
    chunk, positions = word_at(arguments, 0), load_i64(arguments, 8)
    given = 0
    for k in range(count_of(positions)):
        position = load_i64(load_i64(positions, ARRAY_DATA), k * 8)
        given += release_row(chunk, chunk + HEADER_BYTES + position * ROW_BYTES)
    return count_given(given)


@helper
def cell_of(arguments, count):
    """`cell_of(frame, row)`: address of a row's cell, for the seed and for reading results."""
    return word_from(cell(word_at(arguments, 0), word_at(arguments, 1)))


@helper
def adjoint_buffer_of(arguments, count):
    """`adjoint_buffer_of(frame, row)`: its address; 0 if the buffer of the row is gone."""
    return word_from(adjoint_buffer(word_at(arguments, 0), word_at(arguments, 1)))


@helper
def adjoint_at(arguments, count):
    """`adjoint_at(frame, row, array)`: address of the adjoint, for the first seed, of an array's
    first element, which lies in the buffer of a row; 0 if the buffer is gone."""
    found = adjoint_buffer(word_at(arguments, 0), word_at(arguments, 1))
    at = adjoint_place(found, load_i64(load_i64(arguments, 16), ARRAY_DATA), 0) if found != 0 else 0
    return word_from(at)


@helper
def are_alike(frame, x, y):
    """Whether arrays in C order have one shape, and float64 elements where they should be."""
    flags, count = load_i32(x, ARRAY_FLAGS) & load_i32(y, ARRAY_FLAGS), load_i32(x, ARRAY_NDIM)
    double = load_i64(frame, FRAME_FLOAT64)
    if flags & C_CONTIGUOUS == 0 or flags & ALIGNED == 0 or load_i32(y, ARRAY_NDIM) != count:
        return False
    if load_i64(x, ARRAY_DTYPE) != double or load_i64(y, ARRAY_DTYPE) != double:
        return False
    for axis in range(count):
        size = load_i64(load_i64(y, ARRAY_SHAPE), axis * 8)
        if load_i64(load_i64(x, ARRAY_SHAPE), axis * 8) != size:
            return False
    return True


@helper
def add_array(arguments, count):
    """`add_array(frame, row, array, part)`: add to the adjoint of an array in a row's buffer;
    returns 0 where that has to be done otherwise."""
    frame, id = word_at(arguments, 0), word_at(arguments, 1)
    array, part = load_i64(arguments, 16), load_i64(arguments, 24)
    if load_i64(frame, FRAME_SEEDS) != 1 or not are_alike(frame, array, part):
        return word_from(0)
    found = adjoint_buffer(frame, id)
    if found == 0:
        return word_from(0)
    to = f64s(adjoint_place(found, load_i64(array, ARRAY_DATA), 0))
    given = f64s(load_i64(part, ARRAY_DATA))
    for k in range(count_of(array)):
        to[k] += given[k]
    return word_from(1)


@helper
def references(arguments, count):
    """`references(frame, row)`: what a row refers to, a tuple of (row, array or object) tuples;
    0 where it is something else, or gone."""
    frame, id = word_at(arguments, 0), word_at(arguments, 1)
    row = row_of(frame, id)
    first, stop = load_i32(row, 4), load_i32(row, 4) + load_i32(row, 8)
    for k in range(first, stop):
        at = reference_of(frame, id, k)
        tag = load_i32(at, 12)
        is_object = tag == TAG_ARRAY or tag == TAG_OBJECT
        if not is_object or load_i64(at, 0) == 0 or load_i32(at, 8) < -1:
            return word_from(0)
    made = tuple_new(stop - first)
    for k in range(first, stop):
        at, pair = reference_of(frame, id, k), tuple_new(2)
        incref(load_i64(at, 0))
        tuple_set(pair, 0, word_from(load_i32(at, 8)))
        tuple_set(pair, 1, load_i64(at, 0))
        tuple_set(made, k - first, pair)
    return made


@helper
def plant_scalar(arguments, count):
    """`plant_scalar(frame, scalar, seed, value)`: add to one seed of a scalar row's adjoint."""
    frame, tensor, seed = word_at(arguments, 0), load_i64(arguments, 8), word_at(arguments, 2)
    value = load_f64(load_i64(arguments, 24), FLOAT_VALUE)
    id = load_i32(tensor, SCALAR_ID)
    touch_cell(frame, id)
    add_to_cell(frame, id, seed, value)
    incref(tensor)
    return tensor


@helper
def read_scalar(arguments, count):
    """`read_scalar(frame, scalar, seed)`: the adjoint of a scalar row, 0.0 if not reached."""
    frame, tensor, seed = word_at(arguments, 0), load_i64(arguments, 8), word_at(arguments, 2)
    id = load_i32(tensor, SCALAR_ID)
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), (id >> ROWS_BITS) * 8)
    value = 0.0
    if cells != 0:
        at = cells + (id & (ROWS - 1)) * 8 * load_i64(frame, FRAME_SEEDS)
        if load_i64(at, 0) != UNTOUCHED:
            value = load_f64(at, seed * 8)
    return float_from(value)


@helper
def adopt(arguments, count):
    """`adopt(frame, tensor, adjoint)`: make an array of zeros the adjoint buffer of an input; there
    is room for a header before it."""
    frame, tensor = word_at(arguments, 0), load_i64(arguments, 8)
    array, adjoint = load_i64(tensor, TENSOR_ARRAY), load_i64(arguments, 16)
    data = load_i64(adjoint, ARRAY_DATA) - ADJOINT_HEADER
    store_i64(data, 0, count_of(array) * item_bytes(frame, array))
    store_i64(data, 8, load_i64(array, ARRAY_DATA))
    store_i64(data, 16, 1)
    store_i64(cell(frame, load_i64(tensor, TENSOR_ID)), 0, data)
    incref(tensor)
    return tensor


@helper
def take(arguments, count):
    """`take(frame, row, array, out)`: move the adjoint of an input in C order to `out`, of shape
    (seeds, …), and give back its adjoint buffer; returns 0 where that has to be done otherwise."""
    frame, id = word_at(arguments, 0), word_at(arguments, 1)
    array, out = load_i64(arguments, 16), load_i64(arguments, 24)
    found = adjoint_buffer(frame, id) if load_i32(array, ARRAY_FLAGS) & C_CONTIGUOUS else 0
    if found == 0:
        return word_from(0)
    size = count_of(array) * item_bytes(frame, array)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        to = load_i64(out, ARRAY_DATA) + seed * size
        memcpy(to, adjoint_place(found, load_i64(array, ARRAY_DATA), seed), size)
    free(load_i64(found, 24))
    store_i64(cell(frame, id), 0, UNTOUCHED)
    return word_from(1)


@helper
def free_memory(arguments, count):
    """`free_memory(adjoint_buffer)`: give back that of an input that has been read."""
    free(load_i64(word_at(arguments, 0), 24))
    return word_from(0)
'''

#: Called with CPython's fast convention and the interpreter lock held, all through `call`.
BUILTINS = (
    "begin",
    "end",
    "release",
    "cell_of",
    "adjoint_buffer_of",
    "adjoint_at",
    "add_array",
    "references",
    "take",
    "free_memory",
    "plant_scalar",
    "read_scalar",
    "adopt",
)
SOURCE = _TEXT + called_by_number(list(BUILTINS))
