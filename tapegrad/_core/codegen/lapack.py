"""LAPACK for structural kernels: SciPy's factors and solutions; all arguments are addresses.

Matrices of a batch are copied before LAPACK overwrites them. It takes Fortran order: a matrix in C
order is its transpose there.
"""

from typing import NamedTuple

from numba import types

from .external_symbols import fortran_function
from .intrinsics import (
    c_function,
    f64s,
    helper,
    load_f64,
    load_i32,
    load_i64,
    memcpy,
    store_f64,
    store_i32,
    store_i64,
    store_u8,
)
from .layout import (
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    FRAME_STATUS,
    FRAME_WANTED_MASK,
    REFUSED,
)


def _named(name: str, arity: int):
    fortran_function(f"lapack.{name}", f"tapegrad_{name}", "lapack", name, arity)
    return c_function(f"tapegrad_{name}", types.none(*[types.int64] * arity))


#: A Cholesky factor; a factorization with pivots; solutions by it, or by a triangular matrix; and
#: inverses of that.
dpotrf, dgetrf = _named("dpotrf", 5), _named("dgetrf", 6)
dgetrs, dtrtrs = _named("dgetrs", 9), _named("dtrtrs", 10)
dtrtri = _named("dtrtri", 6)
#: Eigenvalues of symmetric matrices; singular values, and least squares by them; an orthogonal
#: factor, and it as a matrix.
dsyevd, dgesdd, dgelsd = _named("dsyevd", 11), _named("dgesdd", 14), _named("dgelsd", 14)
dgeqrf, dorgqr = _named("dgeqrf", 8), _named("dorgqr", 9)
#: Solutions with a matrix of few diagonals.
dgbsv, dpbsv = _named("dgbsv", 10), _named("dpbsv", 9)

#: Arguments of a call: letters, rows, columns, and LAPACK's result; byte offsets. `TURN` says
#: whether a matrix is transposed, and is written by the caller.
LETTER, NOT_TRANSPOSED, ROWS, COLUMNS, ANSWER, TURN = range(0, 48, 8)
CALL_BYTES = 48
#: Matrices are transposed by this many lines at a time, which fit into a cache.
LINES = 16
#: Kinds of a matrix: with elements on both sides of the diagonal, or letters for LAPACK.
FULL, LOWER, UPPER = 0, ord("L"), ord("U")


class Workspace(NamedTuple):
    """Working memory of a routine: numbers and how many, −1 to ask for that; integers."""

    work: int
    words: int
    counts: int


@helper
def enter_call(call, letter, rows, columns):
    """Write the arguments of a call."""
    store_u8(call, LETTER, letter)
    store_u8(call, NOT_TRANSPOSED, 78)  # "N"
    store_i32(call, ROWS, rows)
    store_i32(call, COLUMNS, columns)
    store_i32(call, ANSWER, 0)


@helper
def size_along(array, back):
    """The size of an axis, counted from the end from 1 on."""
    axis = load_i32(array, ARRAY_NDIM) - back
    return load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)


@helper
def stride_along(array, back):
    """The same of its stride, in bytes."""
    axis = load_i32(array, ARRAY_NDIM) - back
    return load_i64(load_i64(array, ARRAY_STRIDES), axis * 8)


@helper
def batch_size(array, own):
    """The number of matrices, or of blocks of the last `own` axes, in an array."""
    count = 1
    for back in range(own + 1, load_i32(array, ARRAY_NDIM) + 1):
        count *= size_along(array, back)
    return count


@helper
def batch_item(array, own, out, out_own, k):
    """The address in an array of element k of the output's batch, in C order.

    The axes before the last `own` are broadcast to those of the output before its last `out_own`.
    """
    at, batch = load_i64(array, ARRAY_DATA), load_i32(array, ARRAY_NDIM) - own
    for back in range(1, load_i32(out, ARRAY_NDIM) - out_own + 1):
        size = size_along(out, out_own + back)
        if back <= batch and size_along(array, own + back) != 1:
            at += k % size * stride_along(array, own + back)
        k //= size
    return at


@helper
def copy_turned(to, source, array, own):
    """Copy a matrix of an array, or a vector if `own` is 1, to Fortran order."""
    rows, row_stride, columns, column_stride = (
        size_along(array, own),
        stride_along(array, own),
        1,
        0,
    )
    if own == 2:
        columns, column_stride = size_along(array, 1), stride_along(array, 1)
    for first in range(0, rows, LINES):
        for j in range(columns):
            line = f64s(to + j * rows * 8)
            for i in range(first, min(first + LINES, rows)):
                line[i] = load_f64(source, i * row_stride + j * column_stride)


@helper
def copy_matrix(to, source, array):
    """Copy a matrix of an array to C order."""
    rows, columns = size_along(array, 2), size_along(array, 1)
    row_stride, column_stride = stride_along(array, 2), stride_along(array, 1)
    if column_stride == 8:
        for i in range(rows):
            memcpy(to + i * columns * 8, source + i * row_stride, columns * 8)
        return
    for i in range(rows):
        line = f64s(to + i * columns * 8)
        for j in range(columns):
            line[j] = load_f64(source, i * row_stride + j * column_stride)


@helper
def triangle_of(matrix, n):
    """Whether a matrix in Fortran order is triangular, and then which triangle is not 0.

    One that has infinities or NaN counts as full.
    """
    a, below, above, odd = f64s(matrix), False, False, 0.0
    for j in range(n):
        for i in range(j):
            above = above or a[j * n + i] != 0.0
        for i in range(j + 1, n):
            below = below or a[j * n + i] != 0.0
        if below and above:
            return FULL
    for i in range(n * n):
        odd += a[i] * 0.0
    if odd != 0.0:
        return FULL
    return LOWER if below else UPPER


@helper
def refuse(frame, answer):
    """End with the error that the operation has for an answer of LAPACK's."""
    store_i64(frame, FRAME_STATUS, REFUSED)
    store_i64(frame, FRAME_WANTED_MASK, answer)


@helper
def write_turned(to, source, rows, columns):
    """Copy a matrix in Fortran order to C order."""
    for first in range(0, columns, LINES):
        for i in range(rows):
            for j in range(first, min(first + LINES, columns)):
                store_f64(to, (i * columns + j) * 8, load_f64(source, (j * rows + i) * 8))


@helper
def turn(matrix, n):
    """Transpose a square matrix in place."""
    a = f64s(matrix)
    for first in range(0, n, LINES):
        for i in range(first, n):
            for j in range(first, min(first + LINES, i)):
                a[i * n + j], a[j * n + i] = a[j * n + i], a[i * n + j]
