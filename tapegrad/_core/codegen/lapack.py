"""LAPACK for structural kernels: SciPy's factors and solutions; all arguments are addresses.

Matrices of a batch are copied before LAPACK overwrites them. It takes Fortran order: a matrix in C
order is its transpose there. What differs for complex matrices is in `complex_lapack`.
"""

from typing import NamedTuple

from . import machine_types as types
from .elements import ITEM, floats, load_float, store_float
from .intrinsics import (
    c_function,
    helper,
    load_i32,
    load_i64,
    memcpy,
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
from .machine_code import fortran_function
from .vector_math import absolute, sign


def _named(name: str, arity: int):
    fortran_function(f"tapegrad_d{name}", "lapack", f"d{name}", arity)
    return c_function(f"tapegrad_d{name}", types.none(*[types.int64] * arity))


#: A Cholesky factor; a factorization with pivots; solutions by it, or by a triangular matrix; and
#: inverses of that.
potrf, getrf = _named("potrf", 5), _named("getrf", 6)
getrs, trtrs = _named("getrs", 9), _named("trtrs", 10)
trtri = _named("trtri", 6)
#: Eigenvalues of symmetric matrices; singular values, and least squares by them; an orthogonal
#: factor, and it as a matrix.
syevd, gesdd, gelsd = _named("syevd", 11), _named("gesdd", 14), _named("gelsd", 14)
geqrf, orgqr = _named("geqrf", 8), _named("orgqr", 9)
#: Solutions with a matrix of few diagonals.
gbsv, pbsv = _named("gbsv", 10), _named("pbsv", 9)

#: Arguments of a call: letters, rows, columns, and LAPACK's result; byte offsets. `TURN` says
#: whether a matrix is transposed, and is written by the caller.
LETTER, NOT_TRANSPOSED, ROWS, COLUMNS, ANSWER, TURN = range(0, 48, 8)
CALL_BYTES = 48
#: Matrices are transposed by this many lines at a time, which fit into a cache.
LINES = 16
#: Kinds of a matrix: with elements on both sides of the diagonal, or letters for LAPACK.
FULL, LOWER, UPPER = 0, ord("L"), ord("U")
#: Axes of an array behind those of its numbers: complex ones have one, of real and imaginary parts.
PARTS = 0


class Columns(NamedTuple):
    """A matrix in Fortran order: its address, and the elements of a column."""

    data: int
    rows: int


class Workspace(NamedTuple):
    """Working memory of a routine: elements and how many, −1 to ask for that; integers."""

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
def parts_stride(array):
    """The distance of imaginary from real parts, in bytes; 0 where there are none."""
    return 0


@helper
def load_number(address, apart):
    """A number of an operand, whose imaginary part is so many bytes away."""
    return load_float(address, 0)


@helper
def conjugate(x):
    """The complex conjugate."""
    return x


@helper
def polar(x):
    """The sign, of complex numbers one of size 1, and the size; 0 has the sign 0."""
    return sign(x), absolute(x)


@helper
def axes(array):
    """The number of axes of an array of numbers."""
    return load_i32(array, ARRAY_NDIM) - PARTS


@helper
def size_along(array, back):
    """The size of an axis, counted from the end from 1 on."""
    axis = axes(array) - back
    return load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)


@helper
def stride_along(array, back):
    """The same of its stride, in bytes."""
    axis = axes(array) - back
    return load_i64(load_i64(array, ARRAY_STRIDES), axis * 8)


@helper
def batch_size(array, own):
    """The number of matrices, or of blocks of the last `own` axes, in an array."""
    count = 1
    for back in range(own + 1, axes(array) + 1):
        count *= size_along(array, back)
    return count


@helper
def batch_item(array, own, out, out_own, k):
    """The address in an array of element k of the output's batch, in C order.

    The axes before the last `own` are broadcast to those of the output before its last `out_own`.
    """
    at, batch = load_i64(array, ARRAY_DATA), axes(array) - own
    for back in range(1, axes(out) - out_own + 1):
        size = size_along(out, out_own + back)
        if back <= batch and size_along(array, own + back) != 1:
            at += k % size * stride_along(array, own + back)
        k //= size
    return at


@helper
def is_whole(apart):
    """Whether the parts of numbers are side by side."""
    return apart == PARTS * 8


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
    apart = parts_stride(array)
    for first in range(0, rows, LINES):
        for j in range(columns):
            line = floats(to + j * rows * ITEM)
            for i in range(first, min(first + LINES, rows)):
                line[i] = load_number(source + i * row_stride + j * column_stride, apart)


@helper
def copy_matrix(to, source, array):
    """Copy a matrix of an array to C order."""
    rows, columns = size_along(array, 2), size_along(array, 1)
    row_stride, column_stride = stride_along(array, 2), stride_along(array, 1)
    apart = parts_stride(array)
    if column_stride == ITEM and is_whole(apart):
        for i in range(rows):
            memcpy(to + i * columns * ITEM, source + i * row_stride, columns * ITEM)
        return
    for i in range(rows):
        line = floats(to + i * columns * ITEM)
        for j in range(columns):
            line[j] = load_number(source + i * row_stride + j * column_stride, apart)


@helper
def triangle_of(matrix, n):
    """Whether a matrix in Fortran order is triangular, and then which triangle is not 0.

    One that has infinities or NaN counts as full.
    """
    a, below, above, odd = floats(matrix), False, False, 0.0
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
                store_float(to, (i * columns + j) * ITEM, load_float(source, (j * rows + i) * ITEM))


@helper
def turn(matrix, n):
    """Transpose a square matrix in place."""
    a = floats(matrix)
    for first in range(0, n, LINES):
        for i in range(first, n):
            for j in range(first, min(first + LINES, i)):
                a[i * n + j], a[j * n + i] = a[j * n + i], a[i * n + j]
