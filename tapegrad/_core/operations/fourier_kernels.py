"""Values of Fourier transforms in programs: lines of arrays through NumPy's own loops.

Complex arrays are real ones whose last axis holds real and imaginary parts. Lines with another
stride or length than the loops take are copied.
"""

from typing import NamedTuple

from ..codegen import lapack, pocketfft
from ..codegen.intrinsics import (
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    memset,
    store_f64,
)
from ..codegen.layout import ARRAY_DATA, ARRAY_NDIM, REFERENCE_BYTES


class Lines(NamedTuple):
    """Lines of an array, of one or two parts an element, which have consecutive places.

    The address of the first, elements of one; bytes between elements, parts, and lines.
    """

    data: int
    size: int
    step: int
    part: int
    across: int
    parts: int


class Transform(NamedTuple):
    """The number of NumPy's loop, the number of points, and a factor.

    With `weighted`, it is twice that of the frequencies at the ends, or half of it.
    """

    loop: int
    n: int
    scale: float
    weighted: bool


@helper
def lines_of(array, parts, along, inner):
    """An array as lines.

    Axes are counted from the end from 1 on, without that of the parts.
    """
    first = parts - 1
    part = lapack.stride_along(array, 1) if parts == 2 else 8
    has_inner = load_i32(array, ARRAY_NDIM) - first >= inner
    across = lapack.stride_along(array, first + inner) if has_inner else 0
    size, step = lapack.size_along(array, first + along), lapack.stride_along(array, first + along)
    return Lines(load_i64(array, ARRAY_DATA), size, step, part, across, parts)


@helper
def lines_from(lines, data):
    """Such lines from another address on."""
    return Lines(data, lines.size, lines.step, lines.part, lines.across, lines.parts)


@helper
def line_groups(array, parts, along, inner):
    """The number of lines along `inner` of an array, and the number of such groups."""
    first, count, groups = parts - 1, 1, 1
    for back in range(1, load_i32(array, ARRAY_NDIM) - first + 1):
        if back == inner:
            count = lapack.size_along(array, first + back)
        elif back != along:
            groups *= lapack.size_along(array, first + back)
    return count, groups


@helper
def group_address(array, parts, along, inner, k):
    """The address of group k of lines: of one index along all axes but `along` and `inner`."""
    at, first = load_i64(array, ARRAY_DATA), parts - 1
    for back in range(1, load_i32(array, ARRAY_NDIM) - first + 1):
        if back != along and back != inner:
            size = lapack.size_along(array, first + back)
            at += k % size * lapack.stride_along(array, first + back)
            k //= size
    return at


@helper
def copy_line(to, source, n):
    """Copy the first n elements of a line."""
    for i in range(n):
        for j in range(source.parts):
            value = load_f64(source.data, i * source.step + j * source.part)
            store_f64(to.data, i * to.step + j * to.part, value)


@helper
def transform_copy(room, how, whole, x, y):
    """Transform one line by a copy; the first of `whole` elements are kept, or zeros follow."""
    source = Lines(room + pocketfft.CALL_BYTES, max(x.size, 1), 8 * x.parts, 8, 0, x.parts)
    target = Lines(source.data + (x.size + 1) * 16, whole, 8 * y.parts, 8, 0, y.parts)
    memset(source.data, 0, 16)  # a line without elements is one of a zero
    copy_line(source, x, x.size)
    transform_lines(room, how, 1, source, target)
    common = min(whole, y.size)
    copy_line(y, target, common)
    for i in range(common, y.size):
        for j in range(y.parts):
            store_f64(y.data, i * y.step + j * y.part, 0.0)


@helper
def transform_lines(room, how, count, x, y):
    """Transform lines by NumPy's loop, which takes parts that are contiguous."""
    given, made = (x.data, x.size, x.step, x.across), (y.data, y.size, y.step, y.across)
    pocketfft.lines(room, how.loop, count, given, made, how.scale)


@helper
def halve_ends(y, n):
    """Halve the frequencies of a line that have no conjugate: the others count twice."""
    for j in range(2):
        if y.size > 0:
            store_f64(y.data, j * y.part, 0.5 * load_f64(y.data, j * y.part))
        if n % 2 == 0 and y.size > n // 2:
            last = n // 2 * y.step + j * y.part
            store_f64(y.data, last, 0.5 * load_f64(y.data, last))


@helper
def add_ends(y, x, n, scale):
    """Add once more what those frequencies contribute to a line: the others count half."""
    is_last = n % 2 == 0 and x.size > n // 2
    first = scale * load_f64(x.data, 0) if x.size > 0 else 0.0
    last = scale * load_f64(x.data, n // 2 * x.step) if is_last else 0.0
    for i in range(min(y.size, n)):
        more = first - last if i % 2 else first + last
        store_f64(y.data, i * y.step, load_f64(y.data, i * y.step) + more)


@helper
def transform(how, along, array, in_parts, out, out_parts):
    """Transform an array of one or two parts an element along an axis."""
    n, inner = how.n, 2 if along == 1 else 1
    x, y = lines_of(array, in_parts, along, inner), lines_of(out, out_parts, along, inner)
    count, groups = line_groups(out, out_parts, along, inner)
    whole = n // 2 + 1 if in_parts < out_parts else n
    room = malloc(pocketfft.CALL_BYTES + (x.size + 1 + whole) * 16)
    is_direct = x.size > 0 and x.part == 8 and y.part == 8 and y.size == whole
    for k in range(groups if count > 0 else 0):
        at = lines_from(x, group_address(array, in_parts, along, inner, k))
        to = lines_from(y, group_address(out, out_parts, along, inner, k))
        if is_direct:
            transform_lines(room, how, count, at, to)
        for i in range(0 if is_direct and not how.weighted else count):
            one, made = (
                lines_from(at, at.data + i * x.across),
                lines_from(to, to.data + i * y.across),
            )
            if not is_direct:
                transform_copy(room, how, whole, one, made)
            if how.weighted and out_parts == 2:
                halve_ends(made, n)
            elif how.weighted:
                add_ends(made, one, n, how.scale)
    free(room)


HELPERS = (
    *(Lines, Transform, lines_of, lines_from, line_groups, group_address, copy_line),
    *(transform_lines, transform_copy, halve_ends, add_ends, transform),
)


def complex_fourier_forward(frame, id, refs, task):
    """References: n, axis, kept, power, inverse; the array; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    n, along, power = load_i64(words, 0), -load_i64(words, 8), load_i64(words, 24)
    number = pocketfft.BACKWARD if load_i64(words, 32) != 0 else pocketfft.FORWARD
    scale = pocketfft.scale_of(n, power)
    array, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    transform(Transform(number, n, scale, False), along, array, 2, out, 2)


def real_fourier_forward(frame, id, refs, task):
    """References: n, axis, kept, power, doubled; the array; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    n, along, power = load_i64(words, 0), -load_i64(words, 8), load_i64(words, 24)
    doubled = load_i64(words, 32) != 0
    number = pocketfft.REAL_ODD if n % 2 else pocketfft.REAL_EVEN
    scale = pocketfft.scale_of(n, power) * (2.0 if doubled else 1.0)
    array, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    transform(Transform(number, n, scale, doubled), along, array, 1, out, 2)


def hermitian_fourier_forward(frame, id, refs, task):
    """References: n, axis, kept, power, halved; the array; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    n, along, power = load_i64(words, 0), -load_i64(words, 8), load_i64(words, 24)
    halved = load_i64(words, 32) != 0
    scale = pocketfft.scale_of(n, power) * (0.5 if halved else 1.0)
    array, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    transform(Transform(pocketfft.HERMITIAN, n, scale, halved), along, array, 2, out, 1)
