"""One product of matrices with any strides: BLAS, tiles where it is narrow, lines if tiny."""

from tapegrad._core.codegen.blas import (
    ARGUMENTS,
    FEW,
    NARROW,
    PANEL,
    blas_dgemm,
    blas_dgemv,
    blas_sgemm,
    blas_sgemv,
)
from tapegrad._core.codegen.intrinsics import f32s, f64s, helper, store_f64, store_i32, store_i64
from tapegrad._core.codegen.matmul_tiles import LEAST_ROWS
from tapegrad._core.codegen.shared_kernels import product_by_tiles


@helper
def suits(n, stride, n_across, stride_across, width):
    """Whether BLAS can take lines along the first stride, `stride_across` apart."""
    if n > 1 and stride != width:
        return False
    if n_across <= 1:
        return True
    across = stride_across // width
    return stride_across % width == 0 and across >= n and across <= 2147483647


@helper
def add_scaled64(c, cc, x, b, bc, n):
    """c += x·b for lines of n elements."""
    if cc == 8 and bc == 8:
        t, s = f64s(c), f64s(b)
        for j in range(n):
            t[j] += x * s[j]
    else:
        for j in range(n):
            f64s(c + j * cc)[0] += x * f64s(b + j * bc)[0]


@helper
def add_scaled32(c, cc, x, b, bc, n):
    """c += x·b for lines of n elements."""
    if cc == 4 and bc == 4:
        t, s = f32s(c), f32s(b)
        for j in range(n):
            t[j] += x * s[j]
    else:
        for j in range(n):
            f32s(c + j * cc)[0] += x * f32s(b + j * bc)[0]


@helper
def clear(c, cr, cc, m, n, width):
    """c = 0."""
    for i in range(m):
        for j in range(n):
            if width == 8:
                store_f64(c + i * cr, j * cc, 0.0)
            else:
                store_i32(c + i * cr, j * cc, 0)


@helper
def product_by_lines(a, ar, ac, b, br, bc, c, cr, cc, m, n, k, width):
    """c += a·b by loops along lines; the strides are in bytes."""
    if n == 1 or (m > 1 and cr == width):
        # the longer or contiguous axis of c is the inner one
        a, ar, ac, b, br, bc = b, bc, br, a, ac, ar
        cr, cc, m, n = cc, cr, n, m
    for i in range(m):
        for p in range(k):
            at = a + i * ar + p * ac
            if width == 8:
                add_scaled64(c + i * cr, cc, f64s(at)[0], b + p * br, bc, n)
            else:
                add_scaled32(c + i * cr, cc, f32s(at)[0], b + p * br, bc, n)


@helper
def leading(n, n_across, stride_across, width):
    """The leading dimension: elements between two lines of n, at least 1 for BLAS."""
    return stride_across // width if n_across > 1 else n


@helper
def product_with_vector(a, ar, ac, b, br, c, cr, m, k, width, at):
    """c += a·b for a vector b; `at` is where the arguments of BLAS go."""
    plain = suits(m, ar, k, ac, width)
    store_i64(at, 0, 78 if plain else 84)  # "N" or "T"
    store_i64(at, 8, m if plain else k)
    store_i64(at, 16, k if plain else m)
    store_i64(at, 24, leading(m, k, ac, width) if plain else leading(k, m, ar, width))
    store_i64(at, 32, leading(1, k, br, width))
    store_i64(at, 40, leading(1, m, cr, width))
    one = at + 64
    if width == 8:
        store_f64(one, 0, 1.0)
        blas_dgemv(at, at + 8, at + 16, one, a, at + 24, b, at + 32, one, c, at + 40)
    else:
        f32s(one)[0] = 1.0
        blas_sgemv(at, at + 8, at + 16, one, a, at + 24, b, at + 32, one, c, at + 40)


@helper
def is_narrow(m, n, k):
    """Whether at most one of the sizes is large."""
    return m + n + k - min(m, n, k) - max(m, n, k) <= NARROW


@helper
def product(a, ar, ac, b, br, bc, c, cr, cc, m, n, k, fresh, width, work):
    """c += a·b, or c = a·b, for matrices of m × k, k × n and m × n elements; strides in bytes."""
    if k == 1 or m * n * k <= FEW:
        if fresh:
            clear(c, cr, cc, m, n, width)
        product_by_lines(a, ar, ac, b, br, bc, c, cr, cc, m, n, k, width)
        return
    if m == 1 or (n > 1 and not suits(m, cr, n, cc, width)):
        # BLAS writes columns: where c has rows, its transpose is written
        a, ar, ac, b, br, bc = b, bc, br, a, ac, ar
        cr, cc, m, n = cc, cr, n, m
    if width == 8 and cr == 8 and m >= LEAST_ROWS and is_narrow(m, n, k):
        product_by_tiles(a, ar, ac, b, br, bc, c, cc, m, n, k, 1 if fresh else 0, work + PANEL)
        return
    if fresh:
        clear(c, cr, cc, m, n, width)
    at = work + ARGUMENTS
    if n == 1:
        product_with_vector(a, ar, ac, b, br, c, cr, m, k, width, at)
        return
    plain_a, plain_b = suits(m, ar, k, ac, width), suits(k, br, n, bc, width)
    store_i64(at, 0, 78 if plain_a else 84)
    store_i64(at, 8, 78 if plain_b else 84)
    store_i64(at, 16, m)
    store_i64(at, 24, n)
    store_i64(at, 32, k)
    store_i64(at, 40, leading(m, k, ac, width) if plain_a else leading(k, m, ar, width))
    store_i64(at, 48, leading(k, n, bc, width) if plain_b else leading(n, k, br, width))
    store_i64(at, 56, leading(m, n, cc, width))
    one = at + 64
    if width == 8:
        store_f64(one, 0, 1.0)
        blas_dgemm(
            at, at + 8, at + 16, at + 24, at + 32, one, a, at + 40, b, at + 48, one, c, at + 56
        )
    else:
        f32s(one)[0] = 1.0
        blas_sgemm(
            at, at + 8, at + 16, at + 24, at + 32, one, a, at + 40, b, at + 48, one, c, at + 56
        )


PRODUCT = (
    suits,
    add_scaled64,
    add_scaled32,
    clear,
    product_by_lines,
    leading,
    product_with_vector,
    is_narrow,
    product,
)
