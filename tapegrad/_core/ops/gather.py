"""Rows that pick elements by position: gathers, and their writing counterpart."""

from tapegrad._core.codegen.elements import ITEM, floats, load_float
from tapegrad._core.codegen.intrinsics import (
    f32s,
    f64s,
    helper,
    i64s,
    load_f64,
    load_i32,
    load_i64,
    store_f64,
    store_i32,
    store_i64,
)
from tapegrad._core.codegen.layout import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_STRIDES,
    FRAME_FLOAT32,
    FRAME_FLOAT64,
    FRAME_RETAIN,
    FRAME_SEEDS,
    FRAME_STATUS,
    MET_FREED,
    REDO,
    REFERENCE_BYTES,
    REVERSE,
    TAG_ARRAY,
)
from tapegrad._core.codegen.shared_kernels import cell
from tapegrad._core.codegen.strided_sums import line_of, line_offset
from tapegrad._core.codegen.sweep_frame import (
    add_to_cell,
    adjoint_buffer,
    adjoint_place,
    count_of,
    found_adjoint_buffer,
    item_bytes,
    touch_cell,
)

from .table import structural


@helper
def element_offset(array, position):
    """Byte offset of the element at a position in C order; without divisions along one axis."""
    if load_i32(array, ARRAY_NDIM) == 1:
        return position * load_i64(load_i64(array, ARRAY_STRIDES), 0)
    n, stride = line_of(array)
    return line_offset(array, position // n) + position % n * stride


@helper
def add_moved(frame, id, refs, gathers):
    """Add adjoints of elements of the output to those of the operand that they come from.

    References: the operand, positions, the output. The positions are in the operand if the row
    `gathers`, else in the output; the other's elements are taken in C order.
    """
    if load_i32(refs, 8) < 0:
        return  # in a program's trace the positions alone may be recorded
    array, out = load_i64(refs, 0), load_i64(refs, 2 * REFERENCE_BYTES)
    picked = i64s(load_i64(load_i64(refs, REFERENCE_BYTES), ARRAY_DATA))
    found = adjoint_buffer(frame, load_i32(refs, 8))
    if found == 0:
        return
    own = load_i64(cell(frame, id), 0)
    wide = item_bytes(frame, array) == 8
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        target = adjoint_place(found, load_i64(array, ARRAY_DATA), seed)
        adjoint = adjoint_place(own, load_i64(out, ARRAY_DATA), seed)
        for k in range(count_of(out if gathers else array)):
            at = target + element_offset(array, picked[k] if gathers else k)
            origin = k if gathers else picked[k]
            if wide:
                f64s(at)[0] += load_f64(adjoint, origin * 8)
            else:
                f32s(at)[0] += f32s(adjoint)[origin]


def gather_adjoint(frame, id, refs, task):
    """References: the operand, positions in it, the output."""
    add_moved(frame, id, refs, True)


@helper
def computed_position(picked, k, size):
    """The position of element k among those that a program has computed; −1 if it is outside."""
    position = load_float(load_i64(picked, ARRAY_DATA), element_offset(picked, k))
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
    if found == 0:
        return
    adjoint = adjoint_place(load_i64(cell(frame, id), 0), load_i64(out, ARRAY_DATA), 0)
    target = adjoint_place(found, load_i64(array, ARRAY_DATA), 0)
    for k in range(count_of(array)):
        position = computed_position(picked, k, count_of(out))
        if position >= 0:
            floats(target + element_offset(array, k))[0] += load_float(adjoint, position * ITEM)


def scatter_add_adjoint(frame, id, refs, task):
    """References: the operand, positions in the output, the output; the transpose of a gather."""
    if is_computed(frame, load_i64(refs, REFERENCE_BYTES)):
        add_at_computed(frame, id, refs)
    else:
        add_moved(frame, id, refs, False)


def scatter_add_forward(frame, id, refs, task):
    """The same references. What a program has computed as a position outside is left out."""
    array, picked = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    computed = is_computed(frame, picked)
    whole = i64s(load_i64(picked, ARRAY_DATA))
    source, sums = load_i64(array, ARRAY_DATA), floats(load_i64(out, ARRAY_DATA))
    for k in range(count_of(out)):
        sums[k] = 0.0
    for k in range(count_of(array)):
        at = computed_position(picked, k, count_of(out)) if computed else whole[k]
        if at >= 0:
            sums[at] += load_float(source, element_offset(array, k))


@helper
def swap_picked(frame, array, kept, picked, task):
    """Exchange picked elements with kept ones; undo goes last to first, redo first to last."""
    data, store = load_i64(array, ARRAY_DATA), load_i64(kept, ARRAY_DATA)
    count = count_of(kept)
    wide = item_bytes(frame, array) == 8
    for step in range(count):
        k = step if task == REDO else count - 1 - step
        offset = element_offset(array, picked[k])
        if wide:
            old = load_i64(data, offset)
            store_i64(data, offset, load_i64(store, k * 8))
            store_i64(store, k * 8, old)
        else:
            old32 = load_i32(data, offset)
            store_i32(data, offset, load_i32(store, k * 4))
            store_i32(store, k * 4, old32)


@helper
def take_back(frame, ref, k, value, seed):
    """Add to the adjoint of element k of what was written."""
    source = load_i32(ref, 8)
    if source < 0:
        return
    if load_i32(ref, 12) != TAG_ARRAY:
        add_to_cell(frame, source, seed, value)
        return
    array = load_i64(ref, 0)
    into = adjoint_buffer(frame, source)
    if into != 0:
        at = adjoint_place(into, load_i64(array, ARRAY_DATA), seed) + element_offset(array, k)
        if item_bytes(frame, array) == 8:
            f64s(at)[0] += value
        else:
            f32s(at)[0] += value


def scatter_adjoint(frame, id, refs, task):
    """References: the array written, what it held, what was written, the positions."""
    array, kept = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    if array == 0:
        return
    picked = i64s(load_i64(load_i64(refs, 3 * REFERENCE_BYTES), ARRAY_DATA))
    found = found_adjoint_buffer(frame, load_i32(refs, 8)) if task == REVERSE else 0
    ref = refs + 2 * REFERENCE_BYTES
    if found != 0 and load_i32(ref, 8) == -2:
        store_i64(frame, FRAME_STATUS, MET_FREED)
        return
    swap_picked(frame, array, kept, picked, task)
    if found == 0:
        return
    if load_i32(ref, 8) >= 0 and load_i32(ref, 12) != TAG_ARRAY:
        touch_cell(frame, load_i32(ref, 8))
    elif load_i32(ref, 8) >= 0:
        adjoint_buffer(frame, load_i32(ref, 8))  # reached also by a write of no elements
    count = count_of(kept)
    wide = item_bytes(frame, array) == 8
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        target = adjoint_place(found, load_i64(array, ARRAY_DATA), seed)
        for step in range(count):
            k = count - 1 - step
            at = target + element_offset(array, picked[k])
            if wide:
                take_back(frame, ref, k, load_f64(at, 0), seed)
                store_f64(at, 0, 0.0)
            else:
                take_back(frame, ref, k, f32s(at)[0], seed)
                store_i32(at, 0, 0)
    if load_i64(frame, FRAME_RETAIN) == 0 and load_i32(ref, 8) >= 0:
        store_i32(ref, 8, -2)


#: What the kernels of gather and scatter-add call.
GATHER_HELPERS = (element_offset, add_moved)
SCATTER_ADD_HELPERS = (*GATHER_HELPERS, is_computed, computed_position, add_at_computed)

structural(
    "scatter",
    scatter_adjoint,
    helpers=(element_offset, swap_picked, take_back),
    example="(y := np.copy(x)).__setitem__(np.arange(len(x)), x) or y",
    doc="elements written by index arrays or masks; the last write of a repeated one holds",
    graph="IndexPutBackward0",
    writes=True,
)
