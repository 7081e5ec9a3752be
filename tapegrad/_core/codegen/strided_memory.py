"""Strided memory in generated code: descriptors, sums, blocks and lines."""

from typing import Any, NamedTuple

from . import machine_types as types
from .intrinsics import (
    LANES,
    apart,
    f32s,
    f64s,
    helper,
    i64s,
    intrinsic,
    load,
    load_f64,
    load_i32,
    load_i64,
    memcpy,
    spread,
    store,
    store_f64,
    store_i32,
    store_i64,
    sum_of,
)
from .layout import ARRAY_FLAGS, ARRAY_NDIM, ARRAY_SHAPE, ARRAY_STRIDES, C_CONTIGUOUS, FRAME_SCRATCH

# --- Descriptors of memory that compiled helpers pass to each other: tuples of words --------------
# Compiled code holds and passes the words one by one, so that a descriptor costs nothing. C
# functions take them in the same way: see `shared_kernels`.


class Matrix(NamedTuple):
    """A matrix in memory: its address, its sizes, its strides in bytes."""

    data: int
    rows: int
    columns: int
    row_stride: int
    column_stride: int


class Line(NamedTuple):
    """Elements of an array along an axis: the first, their number, their distance in bytes."""

    data: int
    n: int
    step: int


class Strided(NamedTuple):
    """Strided memory: its address, the addresses of its strides in bytes and of its shape."""

    data: int
    strides: int
    shape: int
    ndim: int


class Triangle(NamedTuple):
    """How equations read a triangular matrix, each 0 or not.

    As its transpose; from the lower triangle; with ones on the diagonal.
    """

    trans: int
    lower: int
    unit: int


def words_of(kind: Any) -> Any:
    """The type in compiled code of a word, `int`, of a double, `float`, or of a descriptor."""
    if kind in (int, float):
        return types.int64 if kind is int else types.float64
    return kind(*[types.int64] * word_count(kind))


def word_count(kind: Any) -> int:
    """The number of words of a word, `int`, of a double, `float`, or of a descriptor."""
    return 1 if kind in (int, float) else len(kind._fields)


@helper
def row_major(data, rows, columns):
    """A matrix of doubles in C order."""
    return Matrix(data, rows, columns, 8 * columns, 8)


@helper
def turned(a):
    """The transpose of a matrix."""
    return Matrix(a.data, a.columns, a.rows, a.column_stride, a.row_stride)


@helper
def moved(a, offset):
    """A matrix like another one, some bytes on."""
    return Matrix(a.data + offset, a.rows, a.columns, a.row_stride, a.column_stride)


@helper
def part_of(a, row, column, rows, columns):
    """The part of a matrix of so many rows and columns that begins at a row and column."""
    data = a.data + row * a.row_stride + column * a.column_stride
    return Matrix(data, rows, columns, a.row_stride, a.column_stride)


# --- Lines of doubles, many at a time: strided memory whose lines are short -----------------------
# Numbers move four at a time. A line whose length is no multiple of four ends with four of which
# some have been moved before, which is right for copies only: sums end one by one.


#: The least length of a line for a call of its own.
LONG = 64


_TWO_ADDRESSES = types.none(types.int64, types.int64)


@intrinsic(_TWO_ADDRESSES)
def copy4(builder, target, source):
    """Copy four doubles."""
    store(builder, load(builder, source), target)


@intrinsic(types.none(types.int64, types.float64))
def fill4(builder, target, number):
    """Write a double four times."""
    store(builder, spread(builder, number), target)


@intrinsic(_TWO_ADDRESSES)
def add4(builder, target, source):
    """Add four doubles to four others."""
    store(builder, builder.fadd(load(builder, target), load(builder, source)), target)


@intrinsic(types.none(types.int64, types.int64, types.int64))
def add_both4(builder, target, source, distance):
    """`add4` twice, the second time at a distance in bytes: what both add is added once."""
    places = [builder.add(at, distance) for at in (target, source)]
    pairs = (target, source), places
    sums = [builder.fadd(*[load(builder, at) for at in pair]) for pair in pairs]
    for at, made in zip((target, places[0]), sums, strict=True):
        store(builder, made, at)


@intrinsic(_TWO_ADDRESSES)
def swap4(builder, one, other):
    """Exchange four doubles with four others, or as many bytes."""
    first, second = load(builder, one), load(builder, other)
    store(builder, second, one)
    store(builder, first, other)


@helper
def copy_lines(target, source, across, step, length, lines):
    """Lines that begin `across` bytes apart, written contiguously.

    The numbers of a line are `step` bytes apart.
    """
    end = 8 * length - 8 * LANES
    if length == 2 or length == 3:
        copy_tiny_lines(target, source, across, step, length, lines)
        return
    for _ in range(lines):
        if step == 8 and length >= LONG:
            memcpy(target, source, 8 * length)
        elif step == 8 and length >= LANES:
            for at in range(0, end, 8 * LANES):
                copy4(target + at, source + at)
            copy4(target + end, source + end)
        elif step == 0 and length >= LANES:
            number = load_f64(source, 0)
            for at in range(0, end, 8 * LANES):
                fill4(target + at, number)
            fill4(target + end, number)
        else:
            t = f64s(target)
            for i in range(length):
                t[i] = load_f64(source, i * step)
        target += 8 * length
        source += across


@helper
def copy_tiny_lines(target, source, across, step, length, lines):
    """`copy_lines` of two numbers each, or three, without a loop for each."""
    if length == 3 and step == 0 and lines > 0:
        for k in range(lines - 1):  # the fourth is written again
            fill4(target + 24 * k, load_f64(source, k * across))
        t, last = f64s(target + 24 * (lines - 1)), load_f64(source, (lines - 1) * across)
        t[0], t[1], t[2] = last, last, last
    elif length == 2:
        for k in range(lines):
            t, at = f64s(target + 16 * k), source + k * across
            t[0], t[1] = load_f64(at, 0), load_f64(at, step)
    else:
        for k in range(lines):
            t, at = f64s(target + 24 * k), source + k * across
            t[0], t[1], t[2] = load_f64(at, 0), load_f64(at, step), load_f64(at, 2 * step)


@helper
def sum_tiny_lines(target, across, source, length, lines):
    """Add the sum of each line of two to four numbers, as `sum_of_line` computes it."""
    if length == 2:
        for k in range(lines):
            s = f64s(source + 16 * k)
            f64s(target + k * across)[0] += s[0] + s[1]
    elif length == 3:
        for k in range(lines):
            s = f64s(source + 24 * k)
            f64s(target + k * across)[0] += (s[0] + s[2]) + s[1]
    else:
        for k in range(lines):
            s = f64s(source + 32 * k)
            f64s(target + k * across)[0] += (s[0] + s[2]) + (s[1] + s[3])


@helper
def sum_of_line(source, length):
    """The sum of a short line, of its even and odd places by turns."""
    s, even, odd, i = f64s(source), 0.0, 0.0, 0
    while i + 1 < length:
        even += s[i]
        odd += s[i + 1]
        i += 2
    if i < length:
        even += s[i]
    return even + odd


@helper
def add_short_lines(target, across, step, source, length, lines):
    """Add contiguous lines to lines that begin `across` bytes apart, numbers `step` apart."""
    apart()
    whole = length // LANES * LANES
    if step == 0 and 2 <= length <= 4:
        sum_tiny_lines(target, across, source, length, lines)
        return
    for _ in range(lines):
        if step == 0:
            store_f64(target, 0, load_f64(target, 0) + sum_of_line(source, length))
        elif step == 8:
            for at in range(0, 8 * whole, 8 * LANES):
                add4(target + at, source + at)
            for at in range(8 * whole, 8 * length, 8):
                store_f64(target, at, load_f64(target, at) + load_f64(source, at))
        else:
            for i in range(length):
                sum_ = load_f64(target, i * step) + load_f64(source, 8 * i)
                store_f64(target, i * step, sum_)
        source += 8 * length
        target += across


# --- Strided memory for adjoint kernels: sums into it, blocks and lines of it ---------------------
# An odometer counts through a shape; the inner loop runs along the last axis.


#: Groups of at most this many elements are processed together, up to this many of them.
SHORT_GROUP, SIDE_BY_SIDE = 64, 32
#: What is exchanged at once.
LANE_BYTES = 32


def _sums(floats, item):
    """The sum of a run of numbers of so many bytes, and a run of them added to another one."""

    @helper
    def sum_of_run(address, n):
        """The sum of n contiguous numbers, in float64."""
        apart()
        s, total = floats(address), 0.0
        for i in range(n):
            total = sum_of(total, s[i])
        return total

    @helper
    def add_run(target, target_stride, source, source_stride, n):
        """target[i] += source[i] for n numbers; the strides are in bytes."""
        apart()
        t, s = floats(target), floats(source)
        if target_stride == item and source_stride == item:
            for i in range(n):
                t[i] += s[i]
        elif target_stride == item and source_stride == 0:
            value = s[0]
            for i in range(n):
                t[i] += value
        elif target_stride == 0 and source_stride == item:
            t[0] += sum_of_run(source, n)
        elif target_stride == 0:
            total = 0.0
            for i in range(n):
                total += floats(source + i * source_stride)[0]
            t[0] += total
        else:
            for i in range(n):
                floats(target + i * target_stride)[0] += floats(source + i * source_stride)[0]

    return sum_of_run, add_run


(sum64, add_run64), (sum32, add_run32) = _sums(f64s, 8), _sums(f32s, 4)


@helper
def strided(array, data):
    """Memory from `data` on, laid out as an array: its own, or an adjoint buffer's."""
    shape, strides = load_i64(array, ARRAY_SHAPE), load_i64(array, ARRAY_STRIDES)
    return Strided(data, strides, shape, load_i32(array, ARRAY_NDIM))


@helper
def strided_add(frame, target, source, source_strides, width):
    """target[...] += source[...] over the target's shape, elements of `width` bytes."""
    ndim, at = target.ndim, target.data
    rows = 1
    for axis in range(ndim - 1):
        rows *= load_i64(target.shape, axis * 8)
    n, step, from_step = 1, 0, 0
    if ndim > 0:
        n = load_i64(target.shape, (ndim - 1) * 8)
        step = load_i64(target.strides, (ndim - 1) * 8)
        from_step = load_i64(source_strides, (ndim - 1) * 8)
    if n == 0:
        return
    index = i64s(load_i64(frame, FRAME_SCRATCH))
    for axis in range(ndim):
        index[axis] = 0
    for _ in range(rows):
        if width == 8:
            add_run64(at, step, source, from_step, n)
        else:
            add_run32(at, step, source, from_step, n)
        axis = ndim - 2
        while axis >= 0:
            index[axis] += 1
            at += load_i64(target.strides, axis * 8)
            source += load_i64(source_strides, axis * 8)
            size = load_i64(target.shape, axis * 8)
            if index[axis] < size:
                break
            index[axis] = 0
            at -= size * load_i64(target.strides, axis * 8)
            source -= size * load_i64(source_strides, axis * 8)
            axis -= 1


@helper
def start_of_block(index, strides, shape, ndim, start):
    """Set the odometer to linear position `start`; returns the byte offset of that element."""
    offset = 0
    for back in range(ndim):
        axis = ndim - 1 - back
        size = load_i64(shape, axis * 8)
        index[axis] = start % size
        start //= size
        offset += index[axis] * load_i64(strides, axis * 8)
    return offset


@helper
def next_line(index, strides, shape, ndim):
    """Move the odometer by one; returns the change of the byte offset."""
    offset = 0
    for axis in range(ndim - 1, -1, -1):
        index[axis] += 1
        offset += load_i64(strides, axis * 8)
        size = load_i64(shape, axis * 8)
        if index[axis] < size:
            break
        index[axis] = 0
        offset -= size * load_i64(strides, axis * 8)
    return offset


@helper
def line_in(strides, shape, ndim):
    """Equally spaced elements along the last axes: the first such axis, their number and the step.
    An array that is broadcast along its last axes is one line there."""
    if ndim == 0:
        return 0, 1, 0
    axis = ndim - 1
    n, step = load_i64(shape, axis * 8), load_i64(strides, axis * 8)
    while axis > 0 and load_i64(strides, (axis - 1) * 8) == n * step:
        axis -= 1
        n *= load_i64(shape, axis * 8)
    return axis, n, step


@helper
def lines_ahead(index, shape, outer, line, left):
    """The number of whole lines before a line along the axis; 1 where there is none."""
    if outer == 0:
        return 1
    return min(left // line, load_i64(shape, outer * 8 - 8) - index[outer - 1])


@helper
def past_lines(index, strides, shape, outer, lines):
    """Move the odometer past some lines along one axis; returns the change of the byte offset."""
    if outer == 0:
        return 0
    index[outer - 1] += lines - 1
    passed = (lines - 1) * load_i64(strides, outer * 8 - 8)
    return passed + next_line(index, strides, shape, outer)


@helper
def block_of(frame, array, start, n, block, width):
    """Copy elements start … start+n of a strided array, in C order, to a contiguous block."""
    apart()
    data, strides, shape, ndim = array
    index = i64s(load_i64(frame, FRAME_SCRATCH))
    outer, line, step = line_in(strides, shape, ndim)
    at = data + start_of_block(index, strides, shape, outer, start // line)
    skip = start % line
    done = 0
    while done < n:
        run, lines, first = min(n - done, line - skip), 1, at + skip * step
        if width == 8:
            across = 0
            if run == line and outer > 0:
                lines = lines_ahead(index, shape, outer, line, n - done)
                across = load_i64(strides, outer * 8 - 8)
            copy_lines(block + done * 8, first, across, step, run, lines)
        elif step == width:
            memcpy(block + done * width, first, run * width)
        else:
            b32 = f32s(block + done * 4)
            for i in range(run):
                b32[i] = f32s(first + i * step)[0]
        done += run * lines
        skip = 0
        if done < n:
            at += past_lines(index, strides, shape, outer, lines)


@helper
def add_block(frame, array, start, n, block, width):
    """Add a contiguous block to elements start … start+n of a strided array, in C order."""
    apart()
    data, strides, shape, ndim = array
    index = i64s(load_i64(frame, FRAME_SCRATCH))
    outer, line, step = line_in(strides, shape, ndim)
    at = data + start_of_block(index, strides, shape, outer, start // line)
    skip = start % line
    done = 0
    while done < n:
        run, lines, first = min(n - done, line - skip), 1, at + skip * step
        if width == 8 and run < LONG:
            across = 0
            if run == line and outer > 0:
                lines = lines_ahead(index, shape, outer, line, n - done)
                across = load_i64(strides, outer * 8 - 8)
            add_short_lines(first, across, step, block + done * 8, run, lines)
        elif width == 8:
            add_run64(first, step, block + done * 8, 8, run)
        else:
            add_run32(first, step, block + done * 4, 4, run)
        done += run * lines
        skip = 0
        if done < n:
            at += past_lines(index, strides, shape, outer, lines)


@helper
def swap_run(place, step, kept, n, item):
    """Exchange contiguous elements with some that are `step` bytes apart."""
    done = 0
    if step == item:
        done = n * item // LANE_BYTES * LANE_BYTES // item
        for at in range(0, done * item, LANE_BYTES):
            swap4(place + at, kept + at)
    for i in range(done, n):
        if item == 8:
            old = load_i64(place, i * step)
            store_i64(place, i * step, load_i64(kept, i * 8))
            store_i64(kept, i * 8, old)
        else:
            old32 = load_i32(place, i * step)
            store_i32(place, i * step, load_i32(kept, i * 4))
            store_i32(kept, i * 4, old32)


@helper
def lines_of(array):
    """The number of lines along the last axis of an array."""
    lines = 1
    for axis in range(load_i32(array, ARRAY_NDIM) - 1):
        lines *= load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    return lines


@helper
def line_of(array):
    """Length and stride in bytes of a line along the last axis."""
    last = load_i32(array, ARRAY_NDIM) - 1
    if last < 0:
        return 1, 0
    shape, strides = load_i64(array, ARRAY_SHAPE), load_i64(array, ARRAY_STRIDES)
    return load_i64(shape, last * 8), load_i64(strides, last * 8)


@helper
def line_offset(array, line):
    """Byte offset of the first element of a line, counted in C order."""
    shape, strides = load_i64(array, ARRAY_SHAPE), load_i64(array, ARRAY_STRIDES)
    last, offset = load_i32(array, ARRAY_NDIM) - 2, 0
    for axis in range(last, 0, -1):
        size = load_i64(shape, axis * 8)
        offset += (line % size) * load_i64(strides, axis * 8)
        line //= size
    return offset + line * load_i64(strides, 0) if last >= 0 else 0


@helper
def same_shape(a, b):
    """Whether two arrays have the same shape."""
    if load_i32(a, ARRAY_NDIM) != load_i32(b, ARRAY_NDIM):
        return False
    for axis in range(load_i32(a, ARRAY_NDIM)):
        at = axis * 8
        if load_i64(load_i64(a, ARRAY_SHAPE), at) != load_i64(load_i64(b, ARRAY_SHAPE), at):
            return False
    return True


@helper
def is_aligned(array, out):
    """Whether element i of `array` in memory corresponds to element i of `out`."""
    return (load_i32(array, ARRAY_FLAGS) & C_CONTIGUOUS) != 0 and same_shape(array, out)


@helper
def broadcast_strides(array, ndim, target):
    """Strides of `array` as seen from the full shape: 0 along axes that are broadcast."""
    own = load_i32(array, ARRAY_NDIM)
    for axis in range(ndim):
        back = own - ndim + axis
        stride = 0
        if back >= 0 and load_i64(load_i64(array, ARRAY_SHAPE), back * 8) != 1:
            stride = load_i64(load_i64(array, ARRAY_STRIDES), back * 8)
        store_i64(target, axis * 8, stride)
