"""Exponentials of matrices in programs: scaling, Padé's approximant of degree 13, and squaring.

The algorithm is that of Al-Mohy and Higham, A New Scaling and Squaring Algorithm for the Matrix
Exponential (2009), with the highest of its degrees alone. Everything is a polynomial of one matrix,
so that products commute, and C order does for LAPACK as well as Fortran order.
"""

from __future__ import annotations

import numpy as np

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
    unaliased,
)
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.matrix_products import blas_dgemm
from .lu_factors import Factored, factor_lu
from .solving import solve_lu


@helper
def few_products(a, b, to, n):
    """to = a @ b, rows of numbers."""
    unaliased()
    for i in range(n):
        for j in range(n):
            to[i * n + j] = 0.0
        for k in range(n):
            factor = a[i * n + k]
            for j in range(n):
                to[i * n + j] += factor * b[k * n + j]


@helper
def multiply(a, b, to, n, call):
    """to = a @ b, of matrices that commute; BLAS computes products of more rows."""
    if n <= 24:
        few_products(f64s(a), f64s(b), f64s(to), n)
        return
    lapack.enter_call(call, 0, n, n)
    one, none = call + lapack.CALL_BYTES, call + lapack.CALL_BYTES + 8
    store_f64(one, 0, 1.0)
    store_f64(none, 0, 0.0)
    size, kept = call + lapack.ROWS, call + lapack.NOT_TRANSPOSED
    blas_dgemm(kept, kept, size, size, size, one, a, size, b, size, none, to, size)


@helper
def norm_of(matrix, n):
    """The largest sum of magnitudes of a row; NaN if an element is."""
    a, largest = f64s(matrix), 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += np.absolute(a[i * n + j])
        if not total <= largest:
            largest = total
    return largest


@helper
def norm_of_power(matrix, n, power, x, y, factor):
    """That of a power of the matrix of magnitudes times a factor, by products with vectors."""
    a, largest = f64s(matrix), 0.0
    for i in range(n):
        x[i] = 1.0
    for _ in range(power):
        for i in range(n):
            y[i] = 0.0
            for j in range(n):
                y[i] += factor * np.absolute(a[i * n + j]) * x[j]
        for i in range(n):
            x[i] = y[i]
    for i in range(n):
        if not x[i] <= largest:
            largest = x[i]
    return largest


@helper
def halvings(a, fourth, sixth, n, vectors):
    """How often a is halved: by norms of powers, and more if it is far from normal; or −1.

    The approximant is exact where the roots of those norms are at most 5.37, and its leading error,
    |a|²⁷ / 1.13e35, is less than 2⁻⁵³ |a|.
    """
    norm, four, six = norm_of(a, n), norm_of(fourth, n), norm_of(sixth, n)
    if not norm < 1e300 or not four < 1e300 or not six < 1e300:
        return -1
    count, square = 0, 28.857528259079682
    while four > square * square or six > square * square * square:
        four, six, count = four / 16.0, six / 64.0, count + 1
    if norm == 0.0:
        return count
    half = np.power(0.5, count)
    left_out = norm_of_power(a, n, 27, f64s(vectors), f64s(vectors + n * 8), half) / (norm * half)
    while left_out > 1.2573361863446166e19 and left_out < 1e300:
        left_out, count = left_out / 67108864.0, count + 1
    return count


@helper
def scale(matrix, n, factor):
    a = f64s(matrix)
    for i in range(n * n):
        a[i] *= factor


@helper
def combine(to, a, n, coefficients):
    """to += c6 a⁶ + c4 a⁴ + c2 a² + c0; the powers follow a."""
    c6, c4, c2, c0 = coefficients
    size = n * n * 8
    t, x, y, z = f64s(to), f64s(a + size), f64s(a + 2 * size), f64s(a + 3 * size)
    for i in range(n * n):
        t[i] += c6 * z[i] + c4 * y[i] + c2 * x[i]
    for i in range(n):
        t[i * n + i] += c0


@helper
def enter_fraction(a, n, call):
    """The odd part u and the even part v of the numerator: they are left in matrices 4 and 5."""
    size = n * n * 8
    a6 = a + 3 * size
    u, v, spare = a + 4 * size, a + 5 * size, a + 6 * size
    memset(u, 0, size)
    memset(spare, 0, size)
    combine(u, a, n, (1.0, 16380.0, 40840800.0, 0.0))
    multiply(u, a6, spare, n, call)
    combine(spare, a, n, (33522128640.0, 10559470521600.0, 1187353796428800.0, 3.238237626624e16))
    multiply(a, spare, u, n, call)
    memset(spare, 0, size)
    combine(spare, a, n, (182.0, 960960.0, 1323241920.0, 0.0))
    multiply(spare, a6, v, n, call)
    combine(v, a, n, (670442572800.0, 129060195264000.0, 7771770303897600.0, 6.476475253248e16))


@helper
def exponentiate(a, n, call, pivots):
    """Replace the matrix at `a` by its exponential; returns whether that was possible."""
    size = n * n * 8
    a2, a4, a6 = a + size, a + 2 * size, a + 3 * size
    multiply(a, a, a2, n, call)
    multiply(a2, a2, a4, n, call)
    multiply(a2, a4, a6, n, call)
    count = halvings(a, a4, a6, n, a + 4 * size)
    if count < 0:
        return False
    half = np.power(0.5, count)
    scale(a, n, half)
    scale(a2, n, half * half)
    fourth = half * half * (half * half)
    scale(a4, n, fourth)
    scale(a6, n, fourth * half * half)
    enter_fraction(a, n, call)
    u, v = f64s(a + 4 * size), f64s(a + 5 * size)
    for i in range(n * n):
        odd, even = u[i], v[i]
        u[i], v[i] = even + odd, even - odd
    factors = Factored(a + 5 * size, pivots, n, factor_lu(a + 5 * size, pivots, n, call))
    solve_lu(factors, a + 4 * size, n, False, call)
    found, other = a + 4 * size, a
    for _ in range(count):
        multiply(found, found, other, n, call)
        found, other = other, found
    copy_numbers(found, a, n * n)
    return True


@helper
def copy_numbers(source, to, count):
    if source != to:
        x, y = f64s(source), f64s(to)
        for i in range(count):
            y[i] = x[i]


@helper
def copy_rows(array, at, to, n, width, factor):
    """A matrix of an array, times a number, to where a row has a width in numbers."""
    down, along = lapack.stride_along(array, 2), lapack.stride_along(array, 1)
    for i in range(n):
        line = f64s(to + i * width * 8)
        for j in range(n):
            line[j] = factor * load_f64(at, i * down + j * along)


@helper
def work_bytes(n):
    """Memory of a call: powers 1, 2, 4, 6, numerator, denominator, scratch; vectors, pivots."""
    return (7 * n * n + 2 * n) * 8 + lapack.CALL_BYTES + 16 + n * 4


def expm_forward(frame, id, refs, task):
    """References: no parameters, the matrices, the output."""
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    n = lapack.size_along(out, 1)
    work = malloc(work_bytes(n))
    call = work + (7 * n * n + 2 * n) * 8
    pivots = call + lapack.CALL_BYTES + 16
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = load_i64(out, ARRAY_DATA) + k * n * n * 8
        copy_rows(a, lapack.batch_item(a, 2, out, 2, k), work, n, n, 1.0)
        if not exponentiate(work, n, call, pivots):
            fill(work, n * n)
        copy_numbers(work, to, n * n)
    free(work)


@helper
def fill(to, count):
    """NaN everywhere."""
    x = f64s(to)
    for i in range(count):
        x[i] = float("nan")


@helper
def enter_block(work, a, e, at_a, at_e, n):
    """[[a, 0], [c·e, a]] with c so that both are of one size; c, 0 where e is.

    LAPACK, for which the order is Fortran's, exchanges no rows of the one block with the other's.
    """
    memset(work, 0, 4 * n * n * 8)
    spare = work + 4 * n * n * 8
    copy_rows(a, at_a, spare, n, n, 1.0)
    norm = norm_of(spare, n)
    copy_rows(e, at_e, spare, n, n, 1.0)
    other = norm_of(spare, n)
    if other == 0.0:
        return 0.0
    factor = (norm if norm > 0.0 else 1.0) / other
    copy_rows(a, at_a, work, n, 2 * n, 1.0)
    copy_rows(a, at_a, work + (2 * n * n + n) * 8, n, 2 * n, 1.0)
    copy_rows(e, at_e, work + 2 * n * n * 8, n, 2 * n, factor)
    return factor


def expm_frechet_forward(frame, id, refs, task):
    """References: no parameters, the matrices, the directions, the output."""
    a, e = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    n = lapack.size_along(out, 1)
    wide = 2 * n
    work = malloc(work_bytes(wide))
    call = work + (7 * wide * wide + 2 * wide) * 8
    pivots = call + lapack.CALL_BYTES + 16
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = f64s(load_i64(out, ARRAY_DATA) + k * n * n * 8)
        at_a, at_e = lapack.batch_item(a, 2, out, 2, k), lapack.batch_item(e, 2, out, 2, k)
        factor = enter_block(work, a, e, at_a, at_e, n)
        if factor != 0.0 and not exponentiate(work, wide, call, pivots):
            fill(work, wide * wide)
        found = f64s(work)
        for i in range(n):
            for j in range(n):
                to[i * n + j] = found[(n + i) * wide + j] / factor if factor != 0.0 else 0.0
    free(work)


HELPERS = (
    *(Factored, factor_lu, solve_lu),
    *(few_products, multiply, norm_of, norm_of_power, halvings, scale, combine, enter_fraction),
    *(exponentiate, copy_numbers, copy_rows, work_bytes, fill, enter_block),
)
