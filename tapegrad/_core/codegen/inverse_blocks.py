"""Inverses of matrices from their factors with pivots, by halves, with products of BLAS.

OpenBLAS multiplies by triangles three times as fast as LAPACK's getri inverts. All matrices are in
Fortran order, the columns of a block n doubles apart.
"""

from .intrinsics import f64s, free, helper, load_i32, malloc, memset, store_f64, store_i64, store_u8
from .matrix_products import blas_dgemm, blas_dtrmm, blas_dtrsm

#: Most rows of a block that is computed without BLAS.
_ROWS = 16
#: Arguments of a call of BLAS: letters, three sizes, a leading dimension, two factors.
_SIDE, _TRIANGLE, _TRANSPOSED, _DIAGONAL, _M, _N, _K, _LEADING, _FACTOR, _ONE = range(0, 80, 8)
_CALL_BYTES = 80


# --- blocks on the diagonal -----------------------------------------------------------------------


@helper
def invert_small_upper(a, n, size):
    """Invert a triangle with its diagonal in place: column after column."""
    for j in range(size):
        column = f64s(a + j * n * 8)
        scale = 1.0 / column[j]
        for k in range(j):
            before, x = f64s(a + k * n * 8), column[k]
            for i in range(k):
                column[i] += before[i] * x
            column[k] = before[k] * x
        for i in range(j):
            column[i] *= -scale
        column[j] = scale


@helper
def invert_small_lower(a, n, size):
    """Invert a triangle below a diagonal of ones, which is not read, in place."""
    for j in range(size - 1, -1, -1):
        column = f64s(a + j * n * 8)
        for k in range(size - 1, j, -1):
            behind, x = f64s(a + k * n * 8), column[k]
            column[k] = -x
            for i in range(k + 1, size):
                column[i] -= behind[i] * x


@helper
def multiply_small(a, n, size, work):
    """Put the product of both triangles, the upper from the left, in their place."""
    memset(work, 0, size * size * 8)
    for j in range(size):
        column, product = f64s(a + j * n * 8), f64s(work + j * size * 8)
        for i in range(j + 1):
            product[i] = column[i]
        for k in range(j + 1, size):
            behind, x = f64s(a + k * n * 8), column[k]
            for i in range(k + 1):
                product[i] += behind[i] * x
    for j in range(size):
        column, product = f64s(a + j * n * 8), f64s(work + j * size * 8)
        for i in range(size):
            column[i] = product[i]


# --- blocks beside it -----------------------------------------------------------------------------


@helper
def by_triangle(call, operation, rows, columns, factor, operands):
    """Call an operation of BLAS with a triangle and a block; letters are numbers."""
    side, kind, diagonal, triangle, block = operands
    store_u8(call, _SIDE, side)
    store_u8(call, _TRIANGLE, kind)
    store_u8(call, _TRANSPOSED, 78)  # "N"
    store_u8(call, _DIAGONAL, diagonal)
    store_i64(call, _M, rows)
    store_i64(call, _N, columns)
    store_f64(call, _FACTOR, factor)
    operation(
        call + _SIDE,
        call + _TRIANGLE,
        call + _TRANSPOSED,
        call + _DIAGONAL,
        call + _M,
        call + _N,
        call + _FACTOR,
        triangle,
        call + _LEADING,
        block,
        call + _LEADING,
    )


@helper
def multiply_upper(call, side, rows, columns, factor, triangle, block):
    """Multiply a block by an upper triangle, from the left or, if `side` is 82, the right."""
    by_triangle(call, blas_dtrmm, rows, columns, factor, (side, 85, 78, triangle, block))


@helper
def multiply_lower(call, side, rows, columns, factor, triangle, block):
    """The same by a lower triangle with ones on its diagonal."""
    by_triangle(call, blas_dtrmm, rows, columns, factor, (side, 76, 85, triangle, block))


@helper
def divide_upper(call, rows, columns, triangle, block):
    """Multiply a block by the inverse of an upper triangle from the right."""
    by_triangle(call, blas_dtrsm, rows, columns, 1.0, (82, 85, 78, triangle, block))


@helper
def add_product(call, rows, columns, between, x, y, to):
    """Add the product of two blocks to another."""
    store_u8(call, _TRANSPOSED, 78)  # "N"
    store_i64(call, _M, rows)
    store_i64(call, _N, columns)
    store_i64(call, _K, between)
    blas_dgemm(
        call + _TRANSPOSED,
        call + _TRANSPOSED,
        call + _M,
        call + _N,
        call + _K,
        call + _ONE,
        x,
        call + _LEADING,
        y,
        call + _LEADING,
        call + _ONE,
        to,
        call + _LEADING,
    )


# --- halves ---------------------------------------------------------------------------------------


@helper
def small_rows(n):
    """The rows of the smallest blocks, of which halves of halves of n rows consist."""
    rows = n
    while rows > _ROWS:
        rows = (rows + 1) // 2
    return rows


@helper
def half_before(end, rows):
    """The number of rows of the left half, a multiple of those of blocks."""
    half = rows
    while (end // half) % 2 == 0:
        half *= 2
    return half


@helper
def invert_triangles(a, n, rows, call):
    """Invert both triangles in place, from the left half to the right one, at all levels.

    With halves, the inverse of [u, b; 0, v] has the block −u⁻¹ b v⁻¹. The product with v⁻¹ is
    computed by solving an equation: a product with the inverse would multiply the error by the
    condition number of u. The condition number of `l` is bounded by its pivots, so that `l` may be
    multiplied.
    """
    for first in range(0, n, rows):
        size, end = min(rows, n - first), first + rows
        invert_small_upper(a + (n + 1) * first * 8, n, size)
        invert_small_lower(a + (n + 1) * first * 8, n, size)
        if end < n:
            half = half_before(end, rows)
            rest, start = min(half, n - end), end - half
            u, v, b = a + (n + 1) * start * 8, a + (n + 1) * end * 8, a + (n * end + start) * 8
            multiply_upper(call, 76, half, rest, -1.0, u, b)
            divide_upper(call, half, rest, v, b)
    half = rows
    while half < n:
        for start in range(0, n - half, 2 * half):
            end = start + half
            rest = min(half, n - end)
            u, v, b = a + (n + 1) * start * 8, a + (n + 1) * end * 8, a + (n * start + end) * 8
            multiply_lower(call, 76, rest, half, -1.0, v, b)
            multiply_lower(call, 82, rest, half, 1.0, u, b)
        half *= 2


@helper
def multiply_triangles(a, n, rows, call, work):
    """Put the product of both triangles, the upper from the left, in their place."""
    for first in range(0, n, rows):
        end = first + rows
        multiply_small(a + (n + 1) * first * 8, n, min(rows, n - first), work)
        if end < n:
            half = half_before(end, rows)
            rest, start = min(half, n - end), end - half
            u, v = a + (n + 1) * start * 8, a + (n + 1) * end * 8
            above, below = a + (n * end + start) * 8, a + (n * start + end) * 8
            add_product(call, half, half, rest, above, below, u)
            multiply_lower(call, 82, half, rest, 1.0, v, above)
            multiply_upper(call, 76, rest, half, 1.0, v, below)


@helper
def invert_factors(a, pivots, n):
    """Put the inverse of a matrix in place of its factors; pivots are LAPACK's, from 1 on."""
    rows = small_rows(n)
    call = malloc(_CALL_BYTES + rows * rows * 8)
    store_i64(call, _LEADING, n)
    store_f64(call, _ONE, 1.0)
    invert_triangles(a, n, rows, call)
    multiply_triangles(a, n, rows, call, call + _CALL_BYTES)
    for j in range(n - 1, -1, -1):
        other = load_i32(pivots, j * 4) - 1
        if other != j:
            x, y = f64s(a + j * n * 8), f64s(a + other * n * 8)
            for i in range(n):
                x[i], y[i] = y[i], x[i]
    free(call)
