"""Values of Fourier transforms in programs: lines of arrays through NumPy's own loops.

Complex arrays are real ones whose last axis holds real and imaginary parts. Lines with another
stride or length than the loops take are copied.
"""

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


@helper
def lines_of(array, width, along, inner):
    """An array as lines: their size; bytes between their elements, parts, and lines of a group.

    Axes are counted from the end from 1 on, without that of the parts.
    """
    first = width - 1
    part = lapack.stride_along(array, 1) if width == 2 else 8
    has_inner = load_i32(array, ARRAY_NDIM) - first >= inner
    line = lapack.stride_along(array, first + inner) if has_inner else 0
    return (
        lapack.size_along(array, first + along),
        lapack.stride_along(array, first + along),
        part,
        line,
    )


@helper
def line_groups(array, width, along, inner):
    """The number of lines along `inner` of an array, and the number of such groups."""
    first, count, groups = width - 1, 1, 1
    for back in range(1, load_i32(array, ARRAY_NDIM) - first + 1):
        if back == inner:
            count = lapack.size_along(array, first + back)
        elif back != along:
            groups *= lapack.size_along(array, first + back)
    return count, groups


@helper
def group_address(array, width, along, inner, k):
    """The address of group k of lines: of one index along all axes but `along` and `inner`."""
    at, first = load_i64(array, ARRAY_DATA), width - 1
    for back in range(1, load_i32(array, ARRAY_NDIM) - first + 1):
        if back != along and back != inner:
            size = lapack.size_along(array, first + back)
            at += k % size * lapack.stride_along(array, first + back)
            k //= size
    return at


@helper
def copy_line(to, to_step, to_part, source, step, part, n, width):
    """Copy n elements of one or two parts, with a stride in bytes."""
    for i in range(n):
        for j in range(width):
            store_f64(to, i * to_step + j * to_part, load_f64(source, i * step + j * part))


@helper
def transform_copy(room, number, whole, scale, at, x, in_width, to, y, out_width):
    """Transform one line by a copy; the first of `whole` elements are kept, or zeros follow."""
    size, step, part, _ = x
    kept, to_step, to_part, _ = y
    source = room + pocketfft.CALL_BYTES
    target = source + (size + 1) * 16
    memset(source, 0, 16)  # a line without elements is one of a zero
    copy_line(source, in_width * 8, 8, at, step, part, size, in_width)
    given = (source, max(size, 1), in_width * 8, 0)
    pocketfft.lines(room, number, 1, given, (target, whole, out_width * 8, 0), scale)
    common = min(whole, kept)
    copy_line(to, to_step, to_part, target, out_width * 8, 8, common, out_width)
    for i in range(common, kept):
        for j in range(out_width):
            store_f64(to, i * to_step + j * to_part, 0.0)


@helper
def halve_ends(to, y, n):
    """Halve the frequencies of a line that have no conjugate: the others count twice."""
    kept, step, part, _ = y
    for j in range(2):
        if kept > 0:
            store_f64(to, j * part, 0.5 * load_f64(to, j * part))
        if n % 2 == 0 and kept > n // 2:
            last = n // 2 * step + j * part
            store_f64(to, last, 0.5 * load_f64(to, last))


@helper
def add_ends(to, y, n, at, x, scale):
    """Add once more what those frequencies contribute to a line: the others count half."""
    size, step, _, _ = x
    first = scale * load_f64(at, 0) if size > 0 else 0.0
    last = scale * load_f64(at, n // 2 * step) if n % 2 == 0 and size > n // 2 else 0.0
    for i in range(min(y[0], n)):
        more = first - last if i % 2 else first + last
        store_f64(to, i * y[1], load_f64(to, i * y[1]) + more)


@helper
def transform(number, n, along, scale, weighted, array, in_width, out, out_width):
    """Transform an array of one or two parts an element along an axis, n points.

    With `weighted`, `scale` is twice that of the frequencies at the ends, or half of it.
    """
    inner = 2 if along == 1 else 1
    x, y = lines_of(array, in_width, along, inner), lines_of(out, out_width, along, inner)
    count, groups = line_groups(out, out_width, along, inner)
    whole = n // 2 + 1 if in_width < out_width else n
    room = malloc(pocketfft.CALL_BYTES + (x[0] + 1 + whole) * 16)
    is_direct = x[0] > 0 and x[2] == 8 and y[2] == 8 and y[0] == whole
    for k in range(groups if count > 0 else 0):
        at = group_address(array, in_width, along, inner, k)
        to = group_address(out, out_width, along, inner, k)
        if is_direct:
            given, made = (at, x[0], x[1], x[3]), (to, whole, y[1], y[3])
            pocketfft.lines(room, number, count, given, made, scale)
        for i in range(0 if is_direct and not weighted else count):
            line_at, line_to = at + i * x[3], to + i * y[3]
            if not is_direct:
                transform_copy(
                    room, number, whole, scale, line_at, x, in_width, line_to, y, out_width
                )
            if weighted and out_width == 2:
                halve_ends(line_to, y, n)
            elif weighted:
                add_ends(line_to, y, n, line_at, x, scale)
    free(room)


HELPERS = (
    *(lines_of, line_groups, group_address, copy_line, transform_copy),
    *(halve_ends, add_ends, transform),
)


def complex_fourier_forward(frame, id, refs, task):
    """References: n, axis, kept, power, inverse; the array; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    n, along, power = load_i64(words, 0), -load_i64(words, 8), load_i64(words, 24)
    number = pocketfft.BACKWARD if load_i64(words, 32) != 0 else pocketfft.FORWARD
    scale = pocketfft.scale_of(n, power)
    array, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    transform(number, n, along, scale, False, array, 2, out, 2)


def real_fourier_forward(frame, id, refs, task):
    """References: n, axis, kept, power, doubled; the array; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    n, along, power = load_i64(words, 0), -load_i64(words, 8), load_i64(words, 24)
    doubled = load_i64(words, 32) != 0
    number = pocketfft.REAL_ODD if n % 2 else pocketfft.REAL_EVEN
    scale = pocketfft.scale_of(n, power) * (2.0 if doubled else 1.0)
    array, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    transform(number, n, along, scale, doubled, array, 1, out, 2)


def hermitian_fourier_forward(frame, id, refs, task):
    """References: n, axis, kept, power, halved; the array; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    n, along, power = load_i64(words, 0), -load_i64(words, 8), load_i64(words, 24)
    halved = load_i64(words, 32) != 0
    scale = pocketfft.scale_of(n, power) * (0.5 if halved else 1.0)
    array, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    transform(pocketfft.HERMITIAN, n, along, scale, halved, array, 2, out, 1)
