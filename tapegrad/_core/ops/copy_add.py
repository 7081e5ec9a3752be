"""Rows that move values without changing them: copies, sums, joins, and in-place writes.

A link pairs views of operands with views of the output over the same shape; the value of each cell
is the sum of its links, so that the adjoint of each operand is the output's adjoint through the
same views. An output view that is broadcast makes a sum of it; a transposed, sliced or diagonal one
a copy, a join, a pad.
"""

from tapegrad._core.codegen.layout import (
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    FRAME_RETAIN,
    FRAME_SCRATCH,
    FRAME_SEEDS,
    FRAME_STATUS,
    MET_FREED,
    MET_UNKNOWN,
    PASSED,
    REFERENCE_BYTES,
    REVERSE,
    TAG_ARRAY,
    TAG_SCALAR,
    UNKNOWN,
    UNTOUCHED,
)
from tapegrad._core.codegen.shared_kernels import adjoint_buffer_memory, cell, strided_add
from tapegrad._core.codegen.sweep_frame import (
    add_to_cell,
    adjoint_buffer,
    adjoint_place,
    base_of,
    count_of,
    found_adjoint_buffer,
    item_bytes,
    row_of,
    tangent_data,
    tangent_of,
    touch_cell,
)

from ..codegen.intrinsics import (
    f32s,
    f64s,
    helper,
    load_f64,
    load_i32,
    load_i64,
    store_f64,
    store_i32,
    store_i64,
)
from ..codegen.strided_memory import Strided, line_of, line_offset, lines_of, strided, sum64
from .table import structural


def link_adjoint(frame, id, refs, task):
    """Operand views and output views in turn; the output last."""
    count = load_i32(row_of(frame, id), 8) // 2
    own = load_i64(cell(frame, id), 0)
    for k in range(count):
        ref = refs + 2 * k * REFERENCE_BYTES
        source, target = load_i32(ref, 8), load_i64(ref, REFERENCE_BYTES)
        if source < 0:
            continue
        array = load_i64(ref, 0)
        found = adjoint_buffer(frame, source)
        if found == 0:
            continue
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            into = strided(array, adjoint_place(found, load_i64(array, ARRAY_DATA), seed))
            of = adjoint_place(own, load_i64(target, ARRAY_DATA), seed)
            strided_add(frame, into, of, load_i64(target, ARRAY_STRIDES), item_bytes(frame, array))


def link_tangent(frame, id, refs, task):
    """The tangents of the operands through the same views."""
    count = load_i32(row_of(frame, id), 8) // 2
    own = adjoint_buffer(frame, id)
    for k in range(count):
        ref = refs + 2 * k * REFERENCE_BYTES
        array, target = load_i64(ref, 0), load_i64(ref, REFERENCE_BYTES)
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            data = tangent_data(frame, ref, seed)
            if data != 0:
                into = strided(target, adjoint_place(own, load_i64(target, ARRAY_DATA), seed))
                strides, width = load_i64(array, ARRAY_STRIDES), item_bytes(frame, array)
                strided_add(frame, into, data, strides, width)


def sum_adjoint(frame, id, refs, task):
    """One array operand in C order, a scalar output: every element gets the output's adjoint."""
    source, array = load_i32(refs, 8), load_i64(refs, 0)
    untouched = load_i64(cell(frame, source), 0) == UNTOUCHED
    first = untouched and base_of(frame, source) == array
    found = adjoint_buffer_memory(frame, source, 0 if first else 1)
    if found == 0:
        return
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        target = f64s(adjoint_place(found, load_i64(array, ARRAY_DATA), seed))
        value = load_f64(cell(frame, id), seed * 8)
        for i in range(count_of(array)):
            target[i] = value if first else target[i] + value


def sum_tangent(frame, id, refs, task):
    """The sum of the operand's tangents."""
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        data = tangent_data(frame, refs, seed)
        store_f64(cell(frame, id), seed * 8, sum64(data, count_of(load_i64(refs, 0))) + 0.0)


def pack_adjoint(frame, id, refs, task):
    """Scalars in a new array: each gets the adjoint of its element."""
    count = load_i32(row_of(frame, id), 8) - 1
    array = load_i64(refs, count * REFERENCE_BYTES)
    own = load_i64(cell(frame, id), 0)
    for k in range(count):
        ref = refs + k * REFERENCE_BYTES
        if load_i32(ref, 12) == TAG_SCALAR:
            for seed in range(load_i64(frame, FRAME_SEEDS)):
                at = adjoint_place(own, load_i64(array, ARRAY_DATA), seed) + 8 * k
                add_to_cell(frame, load_i32(ref, 8), seed, load_f64(at, 0))


def pack_tangent(frame, id, refs, task):
    """The tangents of the scalars as an array."""
    count = load_i32(row_of(frame, id), 8) - 1
    data, own = (
        load_i64(load_i64(refs, count * REFERENCE_BYTES), ARRAY_DATA),
        adjoint_buffer(frame, id),
    )
    for k in range(count):
        ref = refs + k * REFERENCE_BYTES
        at = tangent_of(frame, load_i32(ref, 8)) if load_i32(ref, 12) == TAG_SCALAR else 0
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            if at != 0:
                store_f64(adjoint_place(own, data, seed), 8 * k, load_f64(at, seed * 8))


def convert_adjoint(frame, id, refs, task):
    """The same values in another floating dtype: the adjoint is converted back."""
    source, array, out = load_i32(refs, 8), load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    found = adjoint_buffer(frame, source)
    if found == 0:
        return
    own = load_i64(cell(frame, id), 0)
    wide = item_bytes(frame, out) == 8
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        convert_add(
            adjoint_place(found, load_i64(array, ARRAY_DATA), seed),
            adjoint_place(own, load_i64(out, ARRAY_DATA), seed),
            array,
            wide,
        )


@helper
def convert_add(target, source, array, wide):
    """Add the elements at `source`, in C order, to the view of the adjoint buffer at `target`."""
    n, stride = line_of(array)
    for line in range(lines_of(array)):
        at = target + line_offset(array, line)
        for i in range(n):
            if wide:
                f32s(at + i * stride)[0] += load_f64(source, (line * n + i) * 8)
            else:
                f64s(at + i * stride)[0] += f32s(source + (line * n + i) * 4)[0]


@helper
def swap_views(frame, array, kept):
    """Exchange the elements of a view with those of a contiguous array of the same shape."""
    width = item_bytes(frame, array)
    store = load_i64(kept, ARRAY_DATA)
    n, stride = line_of(array)
    for line in range(lines_of(array)):
        at = load_i64(array, ARRAY_DATA) + line_offset(array, line)
        if width == 8:
            for i in range(n):
                old = load_i64(at, i * stride)
                store_i64(at, i * stride, load_i64(store, i * 8))
                store_i64(store, i * 8, old)
        else:
            for i in range(n):
                old32 = load_i32(at, i * stride)
                store_i32(at, i * stride, load_i32(store, i * 4))
                store_i32(store, i * 4, old32)
        store += n * width


@helper
def clear_view(target, array, width):
    """Set the elements of a view of an adjoint buffer to zero."""
    n, stride = line_of(array)
    for line in range(lines_of(array)):
        at = target + line_offset(array, line)
        if width == 8:
            for i in range(n):
                store_f64(at, i * stride, 0.0)
        else:
            for i in range(n):
                store_i32(at, i * stride, 0)


@helper
def is_before_reads(frame, view, kept, found):
    """Whether the sweep has passed a read after a write outside of the tape.

    The adjoint buffer of a function's input exists before the sweep begins: it shows where an
    adjoint has reached an element that was changed.
    """
    if load_i64(found, 16) == 0:
        return True
    data, store = load_i64(view, ARRAY_DATA), load_i64(kept, ARRAY_DATA)
    wide = item_bytes(frame, view) == 8
    n, stride = line_of(view)
    for k in range(lines_of(view) * n):
        offset = line_offset(view, k // n) + k % n * stride
        before = load_i64(store, k * 8) if wide else load_i32(store, k * 4)
        after = load_i64(data, offset) if wide else load_i32(data, offset)
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            at = adjoint_place(found, data, seed) + offset
            adjoint = load_f64(at, 0) if wide else f32s(at)[0]
            if before != after and adjoint != 0.0:
                return True
    return False


def write_adjoint(frame, id, refs, task):
    """References: the view written, its old values, the new values (as seen from the view)."""
    view, kept = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    if view == 0:
        return
    found = found_adjoint_buffer(frame, load_i32(refs, 8)) if task == REVERSE else 0
    ref = refs + 2 * REFERENCE_BYTES
    source = load_i32(ref, 8)
    if found != 0 and source == PASSED:
        store_i64(frame, FRAME_STATUS, MET_FREED)
        return
    if found != 0 and source == UNKNOWN and is_before_reads(frame, view, kept, found):
        store_i64(frame, FRAME_STATUS, MET_UNKNOWN)
        return
    swap_views(frame, view, kept)
    if found == 0:
        return
    width, strides = item_bytes(frame, view), load_i64(view, ARRAY_STRIDES)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        target = adjoint_place(found, load_i64(view, ARRAY_DATA), seed)
        if source >= 0:
            if load_i32(ref, 12) == TAG_ARRAY:
                array = load_i64(ref, 0)
                buffer = adjoint_buffer(frame, source)
                if buffer != 0:
                    into = strided(array, adjoint_place(buffer, load_i64(array, ARRAY_DATA), seed))
                    strided_add(frame, into, target, strides, width)
            else:
                shape, ndim = load_i64(view, ARRAY_SHAPE), load_i32(view, ARRAY_NDIM)
                zeros = load_i64(frame, FRAME_SCRATCH) + 8 * ndim
                for axis in range(ndim):
                    store_i64(zeros, axis * 8, 0)
                touch_cell(frame, source)
                into = Strided(cell(frame, source) + seed * 8, zeros, shape, ndim)
                strided_add(frame, into, target, strides, width)
        clear_view(target, view, width)
    if load_i64(frame, FRAME_RETAIN) == 0 and source >= 0:
        store_i32(ref, 8, -2)


structural(
    "write",
    write_adjoint,
    helpers=(swap_views, clear_view, is_before_reads),
    example="(y := np.copy(x)).__setitem__(slice(None), x) or y",
    doc="a view written in place; its old values are kept",
    graph="CopySlices",
    writes=True,
)
