"""Groups: the elements that an operation along axes takes together, a number of whole lines.

They are copied to a block of doubles, so that one kernel serves both dtypes and all strides.
"""

from tapegrad._core.codegen.intrinsics import f32s, f64s, helper, load_f64, load_i64, store_f64
from tapegrad._core.codegen.layout import ARRAY_DATA
from tapegrad._core.codegen.strided_sums import line_of, line_offset


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
    """Address of the elements of a group of doubles: its own if they lie side by side, else a copy
    in the block."""
    data = load_i64(array, ARRAY_DATA)
    if lines == 1 and line_of(array)[1] == 8:
        return data + line_offset(array, group)
    read_group(array, data, group, lines, block, True)
    return block


@helper
def write_group(array, group, lines, block):
    """Copy a block to the lines of a group of doubles."""
    n, stride = line_of(array)
    of = f64s(block)
    for line in range(lines):
        at = load_i64(array, ARRAY_DATA) + line_offset(array, group * lines + line)
        for i in range(n):
            store_f64(at, i * stride, of[line * n + i])
