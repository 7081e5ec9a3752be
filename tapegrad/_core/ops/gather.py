"""Rows of the tape that pick elements, or rows of them, by position: gathers, and writes.

A position stands for as many elements, counted in C order, as there are to each position.
"""

from typing import NamedTuple

from tapegrad._core.codegen.elements import ITEM, add_run, load_float
from tapegrad._core.codegen.layout import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    FRAME_FLOAT32,
    FRAME_FLOAT64,
    FRAME_RETAIN,
    FRAME_SEEDS,
    FRAME_STATUS,
    MET_FREED,
    REDO,
    REFERENCE_BYTES,
    REFUSED,
    REVERSE,
    TAG_ARRAY,
)
from tapegrad._core.codegen.shared_kernels import cell
from tapegrad._core.codegen.sweep_frame import (
    add_to_cell,
    adjoint_buffer,
    adjoint_place,
    count_of,
    found_adjoint_buffer,
    item_bytes,
)

from ..codegen.intrinsics import (
    apart,
    f32s,
    f64s,
    helper,
    i64s,
    load_i32,
    load_i64,
    memset,
    store_f64,
    store_i32,
    store_i64,
)
from ..codegen.strided_memory import LONG, add_run32, add_run64, add_short_lines, line_in, swap_run
from .table import structural


class EqualRows(NamedTuple):
    """Rows of equally many elements of an array, counted in C order: how they lie in memory.

    A row is runs of `run` elements that are `step` bytes apart. So are the `line` elements along
    the axes from `outer` on; if that is 0, these are all.
    """

    array: int
    width: int
    run: int
    step: int
    line: int
    outer: int


@helper
def rows_in(array, width):
    """An array of at least one element as rows of so many."""
    shape, strides = load_i64(array, ARRAY_SHAPE), load_i64(array, ARRAY_STRIDES)
    outer, line, step = line_in(strides, shape, load_i32(array, ARRAY_NDIM))
    run = 1
    if line % width == 0:
        run = width
    elif width % line == 0:
        run = line
    return EqualRows(array, width, run, step, line, outer)


@helper
def offset_in(rows, element):
    """Byte offset of an element, counted in C order; without divisions if all are one line."""
    if rows.outer == 0:
        return element * rows.step
    shape, strides = load_i64(rows.array, ARRAY_SHAPE), load_i64(rows.array, ARRAY_STRIDES)
    line, offset = element // rows.line, element % rows.line * rows.step
    for axis in range(rows.outer - 1, 0, -1):
        size = load_i64(shape, axis * 8)
        offset += line % size * load_i64(strides, axis * 8)
        line //= size
    return offset + line * load_i64(strides, 0)


@helper
def width_of(array, picked):
    """The number of elements in each of the rows of an array that positions stand for."""
    return count_of(array) // count_of(picked)


@helper
def add_line(target, step, source, n, item):
    """Add contiguous elements, of `item` bytes, to some that are `step` bytes apart."""
    if item == 4:
        add_run32(target, step, source, 4, n)
    elif n < LONG:
        add_short_lines(target, 0, step, source, n, 1)
    else:
        add_run64(target, step, source, 8, n)


@helper
def add_elements(target, step, adjoint, picked, count, gathers):
    """`add_rows` of one element each, which are `step` bytes apart."""
    apart()
    t, g = f64s(target), f64s(adjoint)
    if gathers and step == 8:
        for k in range(count):
            t[picked[k]] += g[k]
    elif gathers:
        for k in range(count):
            f64s(target + picked[k] * step)[0] += g[k]
    else:
        for k in range(count):
            f64s(target + k * step)[0] += g[picked[k]]


@helper
def add_rows(target, rows, adjoint, picked, count, gathers, item):
    """Add contiguous rows of an adjoint to rows of another one, laid out like an array.

    The positions are in the array if the row of the tape `gathers`, else in the output; the other's
    rows are taken in order.
    """
    width, run = rows.width, rows.run
    if width == 1 and rows.outer == 0 and item == 8:
        add_elements(target, rows.step, adjoint, picked, count, gathers)
        return
    for k in range(count):
        to, of = (picked[k], k) if gathers else (k, picked[k])
        for start in range(0, width, run):
            at = target + offset_in(rows, to * width + start)
            add_line(at, rows.step, adjoint + (of * width + start) * item, run, item)


@helper
def add_moved(frame, id, refs, gathers):
    """Add adjoints of rows of the output to those of the operand that they come from.

    References: the operand, positions, the output. The positions are those of rows of as many
    elements as there are to each of them, counted in C order: in the operand if the row of the tape
    `gathers`, else in the output.
    """
    if load_i32(refs, 8) < 0:
        return  # in a program's trace the positions alone may be recorded
    array, picked = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    found = adjoint_buffer(frame, load_i32(refs, 8))
    moved = out if gathers else array
    if found == 0 or count_of(moved) == 0:
        return
    own, item, count = load_i64(cell(frame, id), 0), item_bytes(frame, array), count_of(picked)
    rows, at = rows_in(array, width_of(moved, picked)), i64s(load_i64(picked, ARRAY_DATA))
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        target = adjoint_place(found, load_i64(array, ARRAY_DATA), seed)
        adjoint = adjoint_place(own, load_i64(out, ARRAY_DATA), seed)
        add_rows(target, rows, adjoint, at, count, gathers, item)


def gather_adjoint(frame, id, refs, task):
    """References: the operand, positions of rows of it, the output."""
    add_moved(frame, id, refs, True)


@helper
def computed_position(places, at, k, size):
    """The position of row k among those that a program has computed; −1 if it is outside."""
    position = load_float(at, offset_in(places, k))
    return int(position) if 0.0 <= position < size else -1


@helper
def is_computed(frame, picked):
    """Whether positions are floats, as those are that a program computes."""
    dtype = load_i64(picked, ARRAY_DTYPE)
    return dtype == load_i64(frame, FRAME_FLOAT64) or dtype == load_i64(frame, FRAME_FLOAT32)


@helper
def add_at_computed(frame, id, refs):
    """As `add_moved` for a scatter-add in a program, at positions that are floats."""
    array, picked = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    found = adjoint_buffer(frame, load_i32(refs, 8)) if load_i32(refs, 8) >= 0 else 0
    if found == 0 or count_of(array) == 0:
        return
    adjoint = adjoint_place(load_i64(cell(frame, id), 0), load_i64(out, ARRAY_DATA), 0)
    target = adjoint_place(found, load_i64(array, ARRAY_DATA), 0)
    width = width_of(array, picked)
    rows, places = rows_in(array, width), rows_in(picked, 1)
    at, size = load_i64(picked, ARRAY_DATA), count_of(out) // width
    for k in range(count_of(picked)):
        position = computed_position(places, at, k, size)
        if position < 0:
            continue
        for start in range(0, width, rows.run):
            to = target + offset_in(rows, k * width + start)
            add_line(to, rows.step, adjoint + (position * width + start) * ITEM, rows.run, ITEM)


def scatter_add_adjoint(frame, id, refs, task):
    """References: the operand, positions of rows of the output, the output.

    The transpose of a gather.
    """
    if is_computed(frame, load_i64(refs, REFERENCE_BYTES)):
        add_at_computed(frame, id, refs)
    else:
        add_moved(frame, id, refs, False)


def scatter_add_forward(frame, id, refs, task):
    """The same references. What a program has computed as the position −1 is left out."""
    array, picked = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    sums = load_i64(out, ARRAY_DATA)
    memset(sums, 0, count_of(out) * ITEM)
    if count_of(array) == 0:
        return
    computed, width = is_computed(frame, picked), width_of(array, picked)
    rows, places = rows_in(array, width), rows_in(picked, 1)
    source, at, size = load_i64(array, ARRAY_DATA), load_i64(picked, ARRAY_DATA), count_of(out)
    whole, size = i64s(at), size // width
    for k in range(count_of(picked)):
        position = computed_position(places, at, k, size) if computed else whole[k]
        if position < 0:
            if computed and load_float(at, offset_in(places, k)) != -1.0:
                store_i64(frame, FRAME_STATUS, REFUSED)
            continue
        for start in range(0, width, rows.run):
            to = sums + (position * width + start) * ITEM
            of = source + offset_in(rows, k * width + start)
            if rows.step == ITEM:
                add_line(to, ITEM, of, rows.run, ITEM)
            else:
                add_run(to, ITEM, of, rows.step, rows.run)


@helper
def swap_picked(array, rows, kept, picked, count, task, item):
    """Exchange picked rows with kept ones; undo goes last to first, redo first to last."""
    width, run = rows.width, rows.run
    for each in range(count):
        k = each if task == REDO else count - 1 - each
        for start in range(0, width, run):
            at = array + offset_in(rows, picked[k] * width + start)
            swap_run(at, rows.step, kept + (k * width + start) * item, run, item)


@helper
def clear_run(place, step, n, item):
    if step == item:
        memset(place, 0, n * item)
        return
    for i in range(n):
        if item == 8:
            store_f64(place, i * step, 0.0)
        else:
            store_i32(place, i * step, 0)


@helper
def take_back(target, rows, source, of, picked, count, item):
    """Move adjoints of picked rows to those of what was written there, from the last row on.

    Both are laid out like arrays; a `source` of 0 takes nothing.
    """
    width = rows.width
    run = rows.run if rows.run == of.run else 1
    for each in range(count):
        k = count - 1 - each
        for start in range(0, width, run):
            at = target + offset_in(rows, picked[k] * width + start)
            if source != 0:
                to = source + offset_in(of, k * width + start)
                if rows.step == item:
                    add_line(to, of.step, at, run, item)
                elif item == 8:
                    add_run64(to, of.step, at, rows.step, run)
                else:
                    add_run32(to, of.step, at, rows.step, run)
            clear_run(at, rows.step, run, item)


@helper
def taken_back(target, rows, picked, count, item):
    """The sum of what `take_back` moves, where one number was written."""
    total = 0.0
    for each in range(count):
        for i in range(rows.width):
            at = target + offset_in(rows, picked[each] * rows.width + i)
            total += f64s(at)[0] if item == 8 else f32s(at)[0]
            clear_run(at, 0, 1, item)
    return total


@helper
def take_back_each(frame, found, array, rows, ref, picked, count):
    """Move the adjoints of picked rows to what was written there, for each seed."""
    id, item, written = load_i32(ref, 8), item_bytes(frame, array), load_i64(ref, 0)
    is_array = id >= 0 and load_i32(ref, 12) == TAG_ARRAY
    into = adjoint_buffer(frame, id) if is_array else 0  # reached also by a write of no elements
    of = rows_in(written, rows.width) if is_array and count > 0 else rows
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        target = adjoint_place(found, load_i64(array, ARRAY_DATA), seed)
        if id >= 0 and not is_array:
            add_to_cell(frame, id, seed, taken_back(target, rows, picked, count, item))
        else:
            source = adjoint_place(into, load_i64(written, ARRAY_DATA), seed) if into != 0 else 0
            take_back(target, rows, source, of, picked, count, item)


def scatter_adjoint(frame, id, refs, task):
    """References: the array written, what it held, what was written, the positions of rows."""
    array, kept = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    if array == 0:
        return
    picked = load_i64(refs, 3 * REFERENCE_BYTES)
    found = found_adjoint_buffer(frame, load_i32(refs, 8)) if task == REVERSE else 0
    ref = refs + 2 * REFERENCE_BYTES
    if found != 0 and load_i32(ref, 8) == -2:
        store_i64(frame, FRAME_STATUS, MET_FREED)
        return
    count = count_of(picked) if count_of(kept) > 0 else 0
    rows = rows_in(array, width_of(kept, picked) if count > 0 else 1)
    at, item = i64s(load_i64(picked, ARRAY_DATA)), item_bytes(frame, array)
    swap_picked(
        load_i64(array, ARRAY_DATA), rows, load_i64(kept, ARRAY_DATA), at, count, task, item
    )
    if found == 0:
        return
    take_back_each(frame, found, array, rows, ref, at, count)
    if load_i64(frame, FRAME_RETAIN) == 0 and load_i32(ref, 8) >= 0:
        store_i32(ref, 8, -2)


#: What the kernels of gather and scatter-add call.
_OF_ROWS = (EqualRows, rows_in, offset_in, width_of)
GATHER_HELPERS = (*_OF_ROWS, add_line, add_elements, add_rows, add_moved)
SCATTER_ADD_HELPERS = (*GATHER_HELPERS, is_computed, computed_position, add_at_computed)
_SCATTER_HELPERS = (
    *_OF_ROWS,
    add_line,
    swap_picked,
    clear_run,
    take_back,
    taken_back,
    take_back_each,
)

structural(
    "scatter",
    scatter_adjoint,
    helpers=_SCATTER_HELPERS,
    example="(y := np.copy(x)).__setitem__(np.arange(len(x)), x) or y",
    doc="elements written by index arrays or masks; the last write of a repeated one holds",
    graph="IndexPutBackward0",
    writes=True,
)
