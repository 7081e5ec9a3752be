"""One product of matrices with any strides: BLAS, tiles where it is narrow, lines if tiny."""

from tapegrad._core.codegen.blas import (
    ALONG_COLUMNS,
    ALONG_ROWS,
    ARGUMENTS,
    FEW,
    NARROW,
    PANEL,
    blas_dgemm,
    blas_dgemv,
    blas_sgemm,
    blas_sgemv,
)
from tapegrad._core.codegen.descriptors import turned
from tapegrad._core.codegen.intrinsics import (
    f32s,
    f64s,
    helper,
    inside,
    store_f64,
    store_i32,
    store_i64,
)
from tapegrad._core.codegen.matmul_tiles import LEAST_ROWS
from tapegrad._core.codegen.shared_kernels import product_by_tiles


@helper
def suits(a, width):
    """Whether BLAS can take the columns of a matrix where they are."""
    if a.rows > 1 and a.row_stride != width:
        return False
    if a.columns <= 1:
        return True
    across = a.column_stride // width
    return a.column_stride % width == 0 and across >= a.rows and across <= 2147483647


@helper
def clear(c, width):
    """c = 0."""
    for i in range(c.rows):
        for j in range(c.columns):
            if width == 8:
                store_f64(c.data + i * c.row_stride, j * c.column_stride, 0.0)
            else:
                store_i32(c.data + i * c.row_stride, j * c.column_stride, 0)


@helper
def add_by_lines(floats, a, b, c, width):
    """c += a·b by loops along the rows of c, for the numbers of `floats`."""
    inside()
    is_plain = c.column_stride == width and b.column_stride == width
    for i in range(c.rows):
        for p in range(b.rows):
            x = floats(a.data + i * a.row_stride + p * a.column_stride)[0]
            to, of = c.data + i * c.row_stride, b.data + p * b.row_stride
            if is_plain:
                t, s = floats(to), floats(of)
                for j in range(c.columns):
                    t[j] += x * s[j]
            else:
                for j in range(c.columns):
                    floats(to + j * c.column_stride)[0] += x * floats(of + j * b.column_stride)[0]


@helper
def product_by_lines(a, b, c, width):
    """c += a·b by loops along lines."""
    inside()
    if c.columns == 1 or (c.rows > 1 and c.row_stride == width):
        # the longer or contiguous axis of c is the inner one
        a, b, c = turned(b), turned(a), turned(c)
    if width == 8:
        add_by_lines(f64s, a, b, c, 8)
    else:
        add_by_lines(f32s, a, b, c, 4)


@helper
def in_columns(a, width):
    """A matrix, or its transpose if BLAS can take only that where it is."""
    return a if suits(a, width) else turned(a)


@helper
def letter(a, width):
    """What BLAS is to take of `in_columns`: the matrix, "N", or its transpose, "T"."""
    return 78 if suits(a, width) else 84


@helper
def leading(a, width):
    """The leading dimension of `in_columns`: elements between two columns, at least 1 for BLAS."""
    seen = in_columns(a, width)
    return seen.column_stride // width if seen.columns > 1 else seen.rows


@helper
def product_with_vector(a, b, c, width, at):
    """c += a·b for a vector b; `at` is where the arguments of BLAS go."""
    seen = in_columns(a, width)
    store_i64(at, 0, letter(a, width))
    store_i64(at, 8, seen.rows)
    store_i64(at, 16, seen.columns)
    store_i64(at, 24, leading(a, width))
    store_i64(at, 32, b.row_stride // width if b.rows > 1 else 1)
    store_i64(at, 40, c.row_stride // width if c.rows > 1 else 1)
    one = at + 64
    if width == 8:
        store_f64(one, 0, 1.0)
        blas_dgemv(at, at + 8, at + 16, one, a.data, at + 24, b.data, at + 32, one, c.data, at + 40)
    else:
        f32s(one)[0] = 1.0
        blas_sgemv(at, at + 8, at + 16, one, a.data, at + 24, b.data, at + 32, one, c.data, at + 40)


@helper
def is_narrow(m, n, k):
    """Whether at most one of the sizes is large."""
    return m + n + k - min(m, n, k) - max(m, n, k) <= NARROW


@helper
def product_by_blas(a, b, c, width, at):
    """c += a·b for matrices; `at` is where the arguments of BLAS go."""
    store_i64(at, 0, letter(a, width))
    store_i64(at, 8, letter(b, width))
    store_i64(at, 16, c.rows)
    store_i64(at, 24, c.columns)
    store_i64(at, 32, a.columns)
    store_i64(at, 40, leading(a, width))
    store_i64(at, 48, leading(b, width))
    store_i64(at, 56, c.column_stride // width if c.columns > 1 else c.rows)
    x, y, z, one = a.data, b.data, c.data, at + 64
    m, n, k, to_x, to_y, to_z = at + 16, at + 24, at + 32, at + 40, at + 48, at + 56
    if width == 8:
        store_f64(one, 0, 1.0)
        blas_dgemm(at, at + 8, m, n, k, one, x, to_x, y, to_y, one, z, to_z)
    else:
        f32s(one)[0] = 1.0
        blas_sgemm(at, at + 8, m, n, k, one, x, to_x, y, to_y, one, z, to_z)


@helper
def product(a, b, c, fresh, width, work):
    """c += a·b, or c = a·b if it is fresh; `work` is working memory."""
    m, n, k = c.rows, c.columns, a.columns
    if k == 1 or m * n * k <= FEW:
        if fresh:
            clear(c, width)
        product_by_lines(a, b, c, width)
        return
    if m == 1 or (n > 1 and not suits(c, width)):
        # BLAS writes columns: where c has rows, its transpose is written
        a, b, c, m, n = turned(b), turned(a), turned(c), n, m
    least = ALONG_COLUMNS if suits(a, width) else ALONG_ROWS
    by_tiles = width == 8 and c.row_stride == 8 and m >= LEAST_ROWS and is_narrow(m, n, k)
    if by_tiles and (n > 1 or m * k < least):
        product_by_tiles(a, b, c, 1 if fresh else 0, work + PANEL)
        return
    if fresh:
        clear(c, width)
    if n == 1:
        product_with_vector(a, b, c, width, work + ARGUMENTS)
    else:
        product_by_blas(a, b, c, width, work + ARGUMENTS)


PRODUCT = (
    suits,
    clear,
    add_by_lines,
    product_by_lines,
    in_columns,
    letter,
    leading,
    product_with_vector,
    is_narrow,
    product_by_blas,
    product,
)
