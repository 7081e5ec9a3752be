"""Correlation with weights along an axis, and its transpose, in the language of kernels.

An axis is seen as rows: elements that are side by side in memory, or, for the last axis, parts of
one line with its extension. A sum over weights is one sum of rows for each weight, or for each two
that are equal, or opposite, in the order in which SciPy adds. Modes are numbers, see `MODES`.
"""

from __future__ import annotations

from ..codegen import lapack
from ..codegen.intrinsics import (
    f64s,
    free,
    helper,
    load_f64,
    load_i64,
    malloc,
    memset,
    store_f64,
    store_i64,
    unaliased,
)
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES

#: SciPy's modes by number, as kernels have them.
MODES = ("nearest", "wrap", "reflect", "mirror", "constant")


@helper
def source_of(i, n, mode):
    """The element of an axis that one of the extended axis is; −1 for a constant."""
    if 0 <= i < n:
        return i
    if mode == 0:
        return 0 if i < 0 else n - 1
    if mode == 1:
        return i % n
    if mode == 4:
        return -1
    if mode == 2:
        i %= 2 * n
        return i if i < n else 2 * n - 1 - i
    if n == 1:
        return 0
    i %= 2 * n - 2
    return i if i < n else 2 * n - 2 - i


@helper
def parity_of(w, m):
    """1 if the weights are equal from both ends, −1 if they are opposite, else 0.

    SciPy takes weights for equal that differ by one unit in the last place of 1.
    """
    even, odd = m % 2 == 1, m % 2 == 1
    for k in range(m // 2):
        even &= abs(w[k] - w[m - 1 - k]) <= 2.0**-52
        odd &= abs(w[k] + w[m - 1 - k]) <= 2.0**-52
    return 1 if even else -1 if odd else 0


@helper
def begin(to, x, w, n):
    """to = w x"""
    unaliased()
    for j in range(n):
        to[j] = w * x[j]


@helper
def add(to, x, w, n):
    """to += w x"""
    unaliased()
    for j in range(n):
        to[j] += x[j] * w


@helper
def add_both(to, x, y, sign, w, n):
    """to += w (x ± y)"""
    unaliased()
    for j in range(n):
        to[j] += (x[j] + sign * y[j]) * w


@helper
def row(table, p):
    return f64s(load_i64(table, p * 8))


@helper
def correlate_rows(to, table, first, w, m, parity, n):
    """The sum of m rows from number `first` of a table of addresses on, with weights."""
    middle = m // 2
    if parity != 0:
        begin(to, row(table, first + middle), w[middle], n)
        for k in range(middle):
            x, y = row(table, first + k), row(table, first + m - 1 - k)
            add_both(to, x, y, float(parity), w[k], n)
    else:
        begin(to, row(table, first + m - 1), w[m - 1], n)
        for k in range(m - 1):
            add(to, row(table, first + k), w[k], n)


@helper
def shape_of_axis(out, back):
    """The numbers of elements before an axis, along it, and behind it, of one image."""
    inner = 1
    for k in range(1, back):
        inner *= lapack.size_along(out, k)
    return lapack.size_along(out, back), inner


@helper
def copy_axes(to, array, at, ndim):
    """Copy the last axes of an array, from an address on, to memory in C order."""
    count = 1
    for back in range(1, ndim + 1):
        count *= lapack.size_along(array, back)
    inner = lapack.size_along(array, 1)
    step = lapack.stride_along(array, 1)
    for first in range(0, count, max(inner, 1)):
        rest, source = first // inner, at
        for back in range(2, ndim + 1):
            size = lapack.size_along(array, back)
            source += rest % size * lapack.stride_along(array, back)
            rest //= size
        for j in range(inner):
            store_f64(to, (first + j) * 8, load_f64(source, j * step))
    return count


@helper
def is_whole_image(array, ndim):
    """Whether the last axes of an array are in C order."""
    step = 8
    for back in range(1, ndim + 1):
        if lapack.stride_along(array, back) != step:
            return False
        step *= lapack.size_along(array, back)
    return True


@helper
def extend(line, x, n, before, total, mode, cval):
    """Write a line of n elements with its extension."""
    for p in range(total):
        s = p - before
        if not 0 <= s < n:
            s = source_of(s, n, mode)
        line[p] = x[s] if s >= 0 else cval


@helper
def correlate_image(to, x, size, axis, weights, beyond):
    """Of one image, in C order; `axis` is length, elements behind it, and number of weights."""
    n, inner, m = axis
    w, parity, before = weights
    mode, cval = beyond
    total = n + m - 1
    table = malloc((total + 1) * 8 + (inner + total) * 8)
    spare = table + (total + 1) * 8
    for j in range(inner):
        store_f64(spare, j * 8, cval)
    for first in range(0, size, n * inner):
        if inner == 1:
            line = spare + 8
            extend(f64s(line), f64s(x + first * 8), n, before, total, mode, cval)
            for p in range(m):
                store_i64(table, p * 8, line + p * 8)
            correlate_rows(f64s(to + first * 8), table, 0, w, m, parity, n)
        else:
            for p in range(total):
                s = source_of(p - before, n, mode)
                store_i64(table, p * 8, x + (first + s * inner) * 8 if s >= 0 else spare)
            for i in range(n):
                at = f64s(to + (first + i * inner) * 8)
                correlate_rows(at, table, i, w, m, parity, inner)
    free(table)


@helper
def spread_rows(to, g, p, axis, weights):
    """Add to a row what the extended row p contributes to all rows of a result."""
    n, inner, m = axis
    w, parity, _ = weights
    for k in range(m):
        i, other = p - k, p - (m - 1 - k)
        if parity != 0 and 0 <= i < n and 0 <= other < n:
            if k < m // 2:
                x, y = f64s(g + i * inner * 8), f64s(g + other * inner * 8)
                add_both(to, x, y, float(parity), w[k], inner)
            elif k == m // 2:
                add(to, f64s(g + i * inner * 8), w[k], inner)
        elif 0 <= i < n:
            add(to, f64s(g + i * inner * 8), w[k], inner)


@helper
def spread_line(spare, g, axis, weights):
    """The contributions of a line to its extension, which are left in the first part of memory."""
    n, _, m = axis
    w, parity, _ = weights
    total = n + m - 1
    wide = spare + total * 8
    memset(wide, 0, (total + m - 1) * 8)
    for i in range(n):
        store_f64(wide, (m - 1 + i) * 8, load_f64(g, i * 8))
    to = f64s(spare)
    begin(to, f64s(wide + (m - 1 - m // 2) * 8), w[m // 2], total)
    for k in range(m // 2):
        x, y = f64s(wide + (m - 1 - k) * 8), f64s(wide + k * 8)
        if parity != 0:
            add_both(to, x, y, float(parity), w[k], total)
        else:
            add(to, x, w[k], total)
            if m - 1 - k != m // 2:
                add(to, y, w[m - 1 - k], total)


@helper
def spread_image(to, g, size, axis, weights, mode):
    """The transpose of `correlate_image`."""
    n, inner, m = axis
    _, _, before = weights
    total = n + m - 1
    spare = malloc((2 * total + m) * 8)
    memset(to, 0, size * 8)
    for first in range(0, size, n * inner):
        at, from_ = to + first * 8, g + first * 8
        if inner == 1:
            spread_line(spare, from_, axis, weights)
        for p in range(total):
            s = source_of(p - before, n, mode)
            if s >= 0 and inner == 1:
                store_f64(at, s * 8, load_f64(at, s * 8) + load_f64(spare, p * 8))
            elif s >= 0:
                spread_rows(f64s(at + s * inner * 8), from_, p, axis, weights)
    free(spare)


@helper
def each_image(refs, x, w, out, cval, is_turned):
    """All images of a batch; references: axis, ndim, mode, origin; the operands; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    back, ndim, mode, origin = (
        -load_i64(words, 0),
        load_i64(words, 8),
        load_i64(words, 16),
        load_i64(words, 24),
    )
    n, inner = shape_of_axis(out, back)
    m, size = lapack.size_along(w, 1), 1
    for k in range(1, ndim + 1):
        size *= lapack.size_along(out, k)
    if size == 0:
        return
    is_direct = is_whole_image(x, ndim)
    line = malloc((m + (0 if is_direct else size)) * 8)
    room = line + m * 8
    for b in range(lapack.batch_size(out, ndim)):
        at = lapack.batch_item(x, ndim, out, ndim, b)
        if not is_direct:
            copy_axes(room, x, at, ndim)
            at = room
        copy_axes(line, w, lapack.batch_item(w, 1, out, ndim, b), 1)
        weights = f64s(line), parity_of(f64s(line), m), m // 2 + origin
        to = load_i64(out, ARRAY_DATA) + b * size * 8
        if is_turned:
            spread_image(to, at, size, (n, inner, m), weights, mode)
        else:
            beyond = load_f64(lapack.batch_item(cval, 0, out, ndim, b), 0)
            correlate_image(to, at, size, (n, inner, m), weights, (mode, beyond))
    free(line)


def line_correlation_forward(frame, id, refs, task):
    """References: parameters; the image, the weights, the value beyond the ends; the output."""
    x, w = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    cval, out = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    each_image(refs, x, w, out, cval, False)


def line_correlation_transposed_forward(frame, id, refs, task):
    """References: parameters; the adjoint of a result, the weights; the output."""
    g, w = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    each_image(refs, g, w, load_i64(refs, 3 * REFERENCE_BYTES), w, True)


HELPERS = (
    *(source_of, parity_of, begin, add, add_both, row, correlate_rows, shape_of_axis, copy_axes),
    *(is_whole_image, extend, correlate_image, spread_rows, spread_line, spread_image, each_image),
)
