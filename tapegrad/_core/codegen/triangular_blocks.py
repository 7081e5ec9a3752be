"""Triangular matrices by blocks, with BLAS: equations, and the reverse of a Cholesky factor.

All arrays are in C order, which is to BLAS the transpose.
"""

from .intrinsics import f64s, free, helper, load_f64, malloc, store_f64, store_i64, store_u8
from .matrix_products import blas_dgemm, blas_dtrsm, blas_dtrsv
from .strided_memory import part_of, row_major, turned

#: Rows of a diagonal block of the reverse, and of a square that is turned at once.
_ROWS, _SQUARE = 48, 16
#: Arguments of a call of BLAS: letters, three sizes, up to three leading dimensions, a factor, 1.
_SIDE, _TRIANGLE, _TRANSPOSED, _DIAGONAL = range(0, 32, 8)
_FIRST, _SECOND, _THIRD, _LEADING_A, _LEADING_B, _LEADING_C, _FACTOR, _ONE = range(32, 96, 8)
_CALL_BYTES = 96


# --- equations ------------------------------------------------------------------------------------


@helper
def zero_on_diagonal(a):
    """The first place where a diagonal is 0, counted from 1; 0 if there is none."""
    for i in range(a.rows):
        if load_f64(a.data, i * (a.row_stride + a.column_stride)) == 0.0:
            return i + 1
    return 0


@helper
def is_in_lines(a):
    """Whether the rows of a matrix are contiguous, at a distance that BLAS accepts."""
    return a.column_stride == 8 and a.row_stride >= 8 * a.columns and a.row_stride % 8 == 0


@helper
def solve_in_lines(a, is_turned, triangle, x, columns):
    """Solve with a triangular matrix whose rows, or those of its transpose, are contiguous.

    With `is_turned`, `a` is the transpose of the matrix. BLAS is given the other triangle of a
    matrix in rows, and the transpose of `x`.
    """
    call = malloc(_CALL_BYTES)
    store_u8(call, _SIDE, 82)  # "R"
    store_u8(call, _TRIANGLE, 76 if (triangle.lower != 0) == is_turned else 85)  # "L", "U"
    store_u8(call, _DIAGONAL, 85 if triangle.unit != 0 else 78)  # "U", "N"
    store_i64(call, _FIRST, columns)
    store_i64(call, _SECOND, a.rows)
    store_i64(call, _LEADING_A, a.row_stride // 8)
    store_i64(call, _LEADING_B, columns)
    store_i64(call, _THIRD, 1)
    store_f64(call, _FACTOR, 1.0)
    is_transposed = (triangle.trans == 0) == is_turned
    if columns == 1:
        is_transposed = not is_transposed
    store_u8(call, _TRANSPOSED, 84 if is_transposed else 78)  # "T", "N"
    triangle, transposed, diagonal = call + _TRIANGLE, call + _TRANSPOSED, call + _DIAGONAL
    size, leading = call + _SECOND, call + _LEADING_A
    if columns == 1:
        blas_dtrsv(triangle, transposed, diagonal, size, a.data, leading, x, call + _THIRD)
    else:
        blas_dtrsm(
            call + _SIDE,
            triangle,
            transposed,
            diagonal,
            call + _FIRST,
            size,
            call + _FACTOR,
            a.data,
            leading,
            x,
            call + _LEADING_B,
        )
    free(call)


@helper
def solve_triangle(a, triangle, x, columns):
    """Solve for right-hand sides `x`, in C order, in place.

    Returns the first place of a 0 on the diagonal, which leaves `x` as it is, counted from 1; else
    0.
    """
    n, singular = a.rows, 0 if triangle.unit != 0 else zero_on_diagonal(a)
    if singular != 0 or n == 0 or columns == 0:
        return singular
    if is_in_lines(a):
        solve_in_lines(a, False, triangle, x, columns)
    elif is_in_lines(turned(a)):
        solve_in_lines(turned(a), True, triangle, x, columns)
    else:
        copied = malloc(n * n * 8)
        for i in range(n):
            for j in range(n):
                value = load_f64(a.data, i * a.row_stride + j * a.column_stride)
                store_f64(copied, (i * n + j) * 8, value)
        solve_in_lines(row_major(copied, n, n), False, triangle, x, columns)
        free(copied)
    return 0


# --- the reverse of a Cholesky factor -------------------------------------------------------------


@helper
def subtract_product(x, y, z, call):
    """z −= x y of matrices with contiguous rows; x may be the transpose of one.

    BLAS sees the transposes of all three.
    """
    is_turned = x.column_stride != 8
    store_u8(call, _SIDE, 78)
    store_u8(call, _TRANSPOSED, 84 if is_turned else 78)
    store_i64(call, _FIRST, z.columns)
    store_i64(call, _SECOND, z.rows)
    store_i64(call, _THIRD, y.rows)
    store_i64(call, _LEADING_A, y.row_stride // 8)
    store_i64(call, _LEADING_B, (x.column_stride if is_turned else x.row_stride) // 8)
    store_i64(call, _LEADING_C, z.row_stride // 8)
    store_f64(call, _FACTOR, -1.0)
    store_f64(call, _ONE, 1.0)
    blas_dgemm(
        call + _SIDE,
        call + _TRANSPOSED,
        call + _FIRST,
        call + _SECOND,
        call + _THIRD,
        call + _FACTOR,
        y.data,
        call + _LEADING_A,
        x.data,
        call + _LEADING_B,
        call + _ONE,
        z.data,
        call + _LEADING_C,
    )


@helper
def reverse_small(factor, g, n, size):
    """The reverse of a factor of `size` rows, n doubles apart; in place of g's triangle.

    Murray 2016, "chol_unblocked_rev".
    """
    for j in range(size - 1, -1, -1):
        row, own = f64s(factor + j * n * 8), f64s(g + j * n * 8)
        diagonal = row[j]
        total = 0.0
        for i in range(j + 1, size):
            total += load_f64(factor, (i * n + j) * 8) * load_f64(g, (i * n + j) * 8)
        partial = (own[j] - total / diagonal) / diagonal
        own[j] = 0.5 * partial
        for p in range(j):
            own[p] -= partial * row[p]
        for i in range(j + 1, size):
            below, line = f64s(factor + i * n * 8), f64s(g + i * n * 8)
            partial = line[j] / diagonal
            line[j] = partial
            for p in range(j):
                own[p] -= partial * below[p]
                line[p] -= partial * row[p]


@helper
def symmetric(g, n, size, whole):
    """The sum of a lower triangle and its transpose, in `whole` in C order."""
    for i in range(size):
        for j in range(i + 1):
            x = load_f64(g, (i * n + j) * 8)
            store_f64(whole, (i * size + j) * 8, x + x if i == j else x)
            store_f64(whole, (j * size + i) * 8, x + x if i == j else x)


@helper
def make_symmetric(g, n):
    """A lower triangle, halved below its diagonal and reflected; squares stay in the cache."""
    for low in range(0, n, _SQUARE):
        for left in range(0, low + 1, _SQUARE):
            for i in range(low, min(low + _SQUARE, n)):
                for j in range(left, min(left + _SQUARE, i)):
                    x = 0.5 * load_f64(g, (i * n + j) * 8)
                    store_f64(g, (i * n + j) * 8, x)
                    store_f64(g, (j * n + i) * 8, x)


@helper
def divide_by_block(block, below, n, size, count, call):
    """Multiply rows below a diagonal block of a factor by its inverse, from the right, in place."""
    store_u8(call, _SIDE, 76)  # "L"
    store_u8(call, _TRIANGLE, 85)  # "U"
    store_u8(call, _DIAGONAL, 78)  # "N"
    store_i64(call, _FIRST, size)
    store_i64(call, _SECOND, count)
    store_i64(call, _LEADING_A, n)
    store_f64(call, _ONE, 1.0)
    plain, leading = call + _DIAGONAL, call + _LEADING_A
    first, second, one = call + _FIRST, call + _SECOND, call + _ONE
    side, triangle = call + _SIDE, call + _TRIANGLE
    blas_dtrsm(side, triangle, plain, plain, first, second, one, block, leading, below, leading)


@helper
def cholesky_reverse(factor, g, n):
    """The symmetric adjoint of a matrix from that of its factor, in place of the latter in `g`.

    The lower triangles of both are read. Blocks of rows are taken from the last on (Murray 2016,
    arXiv 1602.07527, "chol_blocked_rev"): about twice the operations of the factorization.
    """
    call = malloc(_CALL_BYTES + _ROWS * _ROWS * 8)
    sums, high = call + _CALL_BYTES, n
    a, to = row_major(factor, n, n), row_major(g, n, n)
    while high > 0:
        low = max(high - _ROWS, 0)
        size, count = high - low, n - high
        row, to_row = part_of(a, low, 0, size, low), part_of(to, low, 0, size, low)
        block, to_block = part_of(a, low, low, size, size), part_of(to, low, low, size, size)
        below, to_below = part_of(a, high, low, count, size), part_of(to, high, low, count, size)
        under, to_under = part_of(a, high, 0, count, low), part_of(to, high, 0, count, low)
        if count > 0:
            divide_by_block(block.data, to_below.data, n, size, count, call)
            subtract_product(turned(to_below), below, to_block, call)
        if count > 0 and low > 0:
            subtract_product(to_below, row, to_under, call)
            subtract_product(turned(to_below), under, to_row, call)
        reverse_small(block.data, to_block.data, n, size)
        if low > 0:
            symmetric(to_block.data, n, size, sums)
            subtract_product(row_major(sums, size, size), row, to_row, call)
        high = low
    make_symmetric(g, n)
    free(call)
