"""Groups: the elements that an operation along axes takes together, a number of whole lines.

Kernels along axes refer to the operand through a view that has the axes in question last; how many
lines a group has is the reference after it. Groups are copied to a block of doubles, so that one
kernel serves both dtypes and all strides. Values, for programs, are of elements of ITEM bytes.
"""

from typing import NamedTuple

from tapegrad._core.codegen.elements import ITEM, floats, store_float
from tapegrad._core.codegen.layout import ARRAY_DATA, FRAME_SEEDS, REFERENCE_BYTES, TAG_SCALAR
from tapegrad._core.codegen.shared_kernels import cell
from tapegrad._core.codegen.sweep_frame import (
    adjoint_buffer,
    adjoint_place,
    count_of,
    item_bytes,
    row_of,
)

from ..codegen.intrinsics import f32s, f64s, helper, larger_of, load_f64, load_i32, load_i64
from ..codegen.strided_memory import line_of, line_offset, lines_of


class Groups(NamedTuple):
    """Groups of the elements of an array, each so many lines, elements of so many bytes.

    They lie from `data` on: where those of the array do, or in an adjoint buffer.
    """

    array: int
    data: int
    lines: int
    width: int


@helper
def groups_in(array, lines, width):
    """The groups of an array where it lies."""
    return Groups(array, load_i64(array, ARRAY_DATA), lines, width)


@helper
def buffered(groups, found, seed):
    """The same groups in the adjoint buffer of their array."""
    data = adjoint_place(found, groups.data, seed)
    return Groups(groups.array, data, groups.lines, groups.width)


@helper
def count_of_groups(groups):
    """The number of groups of an array, which has elements."""
    return lines_of(groups.array) // groups.lines


@helper
def read_line(numbers, at, stride, to, step, n):
    """to[i · step] = element i of a line of n; `numbers` is `f64s` or `f32s`."""
    for i in range(n):
        to[i * step] = numbers(at + i * stride)[0]


@helper
def add_line(numbers, at, stride, factor, of, step, n):
    """Add factor · of[i · step] to element i of a line of n; `numbers` is `f64s` or `f32s`."""
    for i in range(n):
        numbers(at + i * stride)[0] += factor * of[i * step]


@helper
def read_group(groups, group, block):
    """Copy the lines of a group to a block."""
    read_beside(groups, group, block, 1)


@helper
def read_beside(groups, group, block, step):
    """Copy the lines of a group to every `step` of the numbers of a block."""
    n, stride = line_of(groups.array)
    for line in range(groups.lines):
        at = groups.data + line_offset(groups.array, group * groups.lines + line)
        to = f64s(block + line * n * step * 8)
        if groups.width == 8:
            read_line(f64s, at, stride, to, step, n)
        else:
            read_line(f32s, at, stride, to, step, n)


@helper
def read_groups(groups, first, count, block):
    """Copy groups side by side: element i of all of them from i·step on in the block.

    The step, which is returned, is their number filled up to whole vectors, by the last group.
    """
    step = (count + 3) // 4 * 4
    for k in range(step):
        read_beside(groups, first + min(k, count - 1), block + k * 8, step)
    return step


@helper
def add_groups(groups, first, count, block, step, factors):
    """Add such a block, times the factor of each group; a factor of 0 adds nothing."""
    for k in range(count):
        factor = load_f64(factors, k * 8)
        if factor != 0.0:
            add_beside(groups, first + k, factor, block + k * 8, step)


@helper
def add_beside(groups, group, factor, block, step):
    """Add `factor` times every `step` of the numbers of a block to the lines of a group."""
    n, stride = line_of(groups.array)
    for line in range(groups.lines):
        at = groups.data + line_offset(groups.array, group * groups.lines + line)
        of = f64s(block + line * n * step * 8)
        if groups.width != 8:
            add_line(f32s, at, stride, factor, of, step, n)
        elif stride != 8 or step != 1:
            add_line(f64s, at, stride, factor, of, step, n)
        else:
            to = f64s(at)
            for i in range(n):
                to[i] += factor * of[i]


@helper
def add_group(groups, group, factor, block):
    """Add `factor` times a block to the lines of a group."""
    add_beside(groups, group, factor, block, 1)


@helper
def group_in(groups, group, block):
    """Address of the elements of a group as doubles: its own if they are and lie side by side, else
    a copy in the block."""
    if groups.width == 8 and groups.lines == 1 and line_of(groups.array)[1] == 8:
        return groups.data + line_offset(groups.array, group)
    read_group(groups, group, block)
    return block


@helper
def write_group(groups, group, block):
    """Copy a block to the lines of a group."""
    n, stride = line_of(groups.array)
    of = f64s(block)
    for line in range(groups.lines):
        at = groups.data + line_offset(groups.array, group * groups.lines + line)
        for i in range(n):
            store_float(at, i * stride, of[line * n + i])


# --- adjoints ---------------------------------------------------------------------------------


@helper
def groups_of(frame, refs):
    """The groups of the operand, elements of one, the operand's adjoint buffer.

    No elements stand for nothing to do.
    """
    array, found = load_i64(refs, 0), adjoint_buffer(frame, load_i32(refs, 8))
    groups = groups_in(array, load_i64(refs, REFERENCE_BYTES), item_bytes(frame, array))
    return groups, line_of(array)[0] * groups.lines if found != 0 else 0, found


@helper
def reduced_value(frame, id, out, group, width):
    """Value of element `group` of the output of a reduction: `out` is its reference."""
    if load_i32(out, 12) == TAG_SCALAR:
        return load_f64(row_of(frame, id), 16)
    data = load_i64(load_i64(out, 0), ARRAY_DATA)
    if width == 8:
        return load_f64(data, group * 8)
    return f32s(data)[group] * 1.0


@helper
def reduced_adjoint(frame, id, out, group, width, seed):
    """Adjoint of element `group` of the output of a reduction: `out` is its reference."""
    own = cell(frame, id)
    if load_i32(out, 12) == TAG_SCALAR:
        return load_f64(own, seed * 8)
    at = adjoint_place(load_i64(own, 0), load_i64(load_i64(out, 0), ARRAY_DATA), seed)
    return load_f64(at, group * 8) if width == 8 else f32s(at)[group] * 1.0


@helper
def add_partials(frame, id, out, groups, group, found, partials):
    """Add output adjoint × partial to the elements of a group of the operand, for every seed."""
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        g = reduced_adjoint(frame, id, out, group, groups.width, seed)
        if g != 0.0:
            add_group(buffered(groups, found, seed), group, g, partials)


@helper
def read_adjoint(frame, id, groups, group, block, seed):
    """Copy the adjoint of a group of the output to a block."""
    read_group(buffered(groups, load_i64(cell(frame, id), 0), seed), group, block)


@helper
def add_adjoint(groups, found, group, block, seed):
    """Add a block to the adjoint of a group of the operand."""
    add_group(buffered(groups, found, seed), group, 1.0, block)


# --- values -----------------------------------------------------------------------------------


@helper
def of_reduction(refs):
    """The groups of the operand, elements of one, how many there are, and their results."""
    groups = groups_in(load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES), ITEM)
    out, n = load_i64(refs, 2 * REFERENCE_BYTES), line_of(groups.array)[0] * groups.lines
    return groups, n, count_of(out), floats(load_i64(out, ARRAY_DATA))


@helper
def of_same_shape(refs):
    """The groups of the operand and of the output, elements of one, how many there are."""
    groups = groups_in(load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES), ITEM)
    out = groups_in(load_i64(refs, 2 * REFERENCE_BYTES), groups.lines, ITEM)
    n = line_of(groups.array)[0] * groups.lines
    return groups, out, n, count_of_groups(groups) if n != 0 else 0


@helper
def extreme_of(x, n, sign):
    """The largest for the sign 1, the smallest for −1; NaN if one is."""
    best = float("-inf")
    for i in range(n):
        best = larger_of(best, sign * x[i])
    return sign * best


#: What the kernels of reductions call, and of operations that keep the shape.
_COMMON = (
    *(Groups, groups_in, buffered, count_of_groups, read_line, read_beside, read_group, group_in),
    *(extreme_of, groups_of, add_line, add_beside, add_group),
)
REDUCTION_HELPERS = (*_COMMON, of_reduction, reduced_value, reduced_adjoint, add_partials)
SAME_SHAPE_HELPERS = (*_COMMON, of_same_shape, write_group, read_adjoint, add_adjoint)
