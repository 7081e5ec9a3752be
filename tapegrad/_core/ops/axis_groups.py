"""Groups: the elements that an operation along axes takes together, a number of whole lines.

Kernels along axes refer to the operand through a view that has the axes in question last; how many
lines a group has is the reference after it. Groups are copied to a block of doubles, so that one
kernel serves both dtypes and all strides. Values, for programs, are of elements of ITEM bytes.
"""

from tapegrad._core.codegen.elements import ITEM, floats, store_float
from tapegrad._core.codegen.intrinsics import (
    f32s,
    f64s,
    helper,
    larger_of,
    load_f64,
    load_i32,
    load_i64,
)
from tapegrad._core.codegen.layout import ARRAY_DATA, FRAME_SEEDS, REFERENCE_BYTES, TAG_SCALAR
from tapegrad._core.codegen.shared_kernels import cell
from tapegrad._core.codegen.strided_sums import line_of, line_offset, lines_of
from tapegrad._core.codegen.sweep_frame import count_of, item_bytes, mirror, mirrored, row_of


@helper
def read_group(array, data, group, lines, block, wide):
    """Copy the lines of a group of an array, whose elements lie from `data`, to a block."""
    n, stride = line_of(array)
    to = f64s(block)
    for line in range(lines):
        at = data + line_offset(array, group * lines + line)
        if wide:
            for i in range(n):
                to[line * n + i] = load_f64(at, i * stride)
        else:
            for i in range(n):
                to[line * n + i] = f32s(at + i * stride)[0]


@helper
def read_groups(array, data, first, groups, lines, block, wide):
    """Copy groups side by side: element i of all of them from i·width on in the block.

    The width, which is returned, is their number filled up to whole vectors, by the last group.
    """
    n, stride = line_of(array)
    width = (groups + 3) // 4 * 4
    for group in range(width):
        taken = (first + min(group, groups - 1)) * lines
        for line in range(lines):
            at, to = data + line_offset(array, taken + line), f64s(block + group * 8)
            if wide:
                for i in range(n):
                    to[(line * n + i) * width] = load_f64(at, i * stride)
            else:
                for i in range(n):
                    to[(line * n + i) * width] = f32s(at + i * stride)[0]
    return width


@helper
def add_groups(array, data, first, groups, lines, block, width, factors, wide):
    """Add such a block, times the factor of each group, to a mirror; a factor of 0 adds nothing."""
    n, stride = line_of(array)
    for group in range(groups):
        factor, of = load_f64(factors, group * 8), f64s(block + group * 8)
        if factor != 0.0:
            for line in range(lines):
                at = data + line_offset(array, (first + group) * lines + line)
                if wide:
                    for i in range(n):
                        f64s(at + i * stride)[0] += factor * of[(line * n + i) * width]
                else:
                    for i in range(n):
                        f32s(at + i * stride)[0] += factor * of[(line * n + i) * width]


@helper
def add_group(array, data, group, lines, block, factor, wide):
    """Add `factor` times a block to the lines of a group of a mirror that lies from `data`."""
    n, stride = line_of(array)
    of = f64s(block)
    for line in range(lines):
        at = data + line_offset(array, group * lines + line)
        if wide and stride == 8:
            to = f64s(at)
            for i in range(n):
                to[i] += factor * of[line * n + i]
        elif wide:
            for i in range(n):
                f64s(at + i * stride)[0] += factor * of[line * n + i]
        else:
            for i in range(n):
                f32s(at + i * stride)[0] += factor * of[line * n + i]


@helper
def group_in(array, group, lines, block):
    """Address of the elements of a group as doubles: its own if they are and lie side by side, else
    a copy in the block."""
    data = load_i64(array, ARRAY_DATA)
    if ITEM == 8 and lines == 1 and line_of(array)[1] == 8:
        return data + line_offset(array, group)
    read_group(array, data, group, lines, block, ITEM == 8)
    return block


@helper
def write_group(array, group, lines, block):
    """Copy a block to the lines of a group."""
    n, stride = line_of(array)
    of = f64s(block)
    for line in range(lines):
        at = load_i64(array, ARRAY_DATA) + line_offset(array, group * lines + line)
        for i in range(n):
            store_float(at, i * stride, of[line * n + i])


# --- adjoints ---------------------------------------------------------------------------------


@helper
def groups_of(frame, refs):
    """The operand, lines of a group, elements of one, the operand's mirror, whether it is float64.

    No elements stand for nothing to do.
    """
    array, lines = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    found = mirror(frame, load_i32(refs, 8))
    n = line_of(array)[0] * lines if found != 0 else 0
    return array, lines, n, found, item_bytes(frame, array) == 8


@helper
def reduced_value(frame, id, out, group, wide):
    """Value of element `group` of the output of a reduction: `out` is its reference."""
    if load_i32(out, 12) == TAG_SCALAR:
        return load_f64(row_of(frame, id), 16)
    data = load_i64(load_i64(out, 0), ARRAY_DATA)
    if wide:
        return load_f64(data, group * 8)
    return f32s(data)[group] * 1.0


@helper
def add_slopes(frame, id, refs, group, lines, found, slopes):
    """Add output adjoint × slope to the elements of a group of the operand, for every seed."""
    array, out = load_i64(refs, 0), refs + 2 * REFERENCE_BYTES
    own = cell(frame, id)
    wide = item_bytes(frame, array) == 8
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        if load_i32(out, 12) == TAG_SCALAR:
            g = load_f64(own, seed * 8)
        else:
            at = mirrored(load_i64(own, 0), load_i64(load_i64(out, 0), ARRAY_DATA), seed)
            g = load_f64(at, group * 8) if wide else f32s(at)[group] * 1.0
        if g != 0.0:
            data = mirrored(found, load_i64(array, ARRAY_DATA), seed)
            add_group(array, data, group, lines, slopes, g, wide)


@helper
def read_adjoint(frame, id, view, group, lines, block, seed, wide):
    """Copy the adjoint of a group of the output, given the output's view, to a block."""
    data = mirrored(load_i64(cell(frame, id), 0), load_i64(view, ARRAY_DATA), seed)
    read_group(view, data, group, lines, block, wide)


@helper
def add_adjoint(array, found, group, lines, block, seed, wide):
    """Add a block to the adjoint of a group of the operand."""
    data = mirrored(found, load_i64(array, ARRAY_DATA), seed)
    add_group(array, data, group, lines, block, 1.0, wide)


# --- values -----------------------------------------------------------------------------------


@helper
def of_reduction(refs):
    """The operand, lines of a group, elements of one, how many there are, and their results."""
    array, lines = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    return array, lines, line_of(array)[0] * lines, count_of(out), floats(load_i64(out, ARRAY_DATA))


@helper
def of_same_shape(refs):
    """The operand, the output as seen from it, lines of a group, elements, how many there are."""
    array, lines = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    n = line_of(array)[0] * lines
    groups = lines_of(array) // lines if n != 0 else 0
    return array, load_i64(refs, 2 * REFERENCE_BYTES), lines, n, groups


@helper
def extreme_of(x, n, sign):
    """The largest for the sign 1, the smallest for −1; NaN if one is."""
    best = float("-inf")
    for i in range(n):
        best = larger_of(best, sign * x[i])
    return sign * best


#: What the kernels of reductions call, and of operations that keep the shape.
REDUCTION_HELPERS = (
    read_group,
    group_in,
    of_reduction,
    extreme_of,
    groups_of,
    add_group,
    reduced_value,
    add_slopes,
)
SAME_SHAPE_HELPERS = (
    read_group,
    group_in,
    write_group,
    of_same_shape,
    extreme_of,
    groups_of,
    add_group,
    read_adjoint,
    add_adjoint,
)
