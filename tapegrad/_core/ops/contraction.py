"""The contraction: a batched matrix product of strided operands, with its adjoints and tangents."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tapegrad._core.codegen.elements import ITEM
from tapegrad._core.codegen.layout import (
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    FRAME_SEEDS,
    FRAME_TANGENTS,
    REFERENCE_BYTES,
    TAG_SCALAR,
)
from tapegrad._core.codegen.shared_kernels import add_block, block_of, cell, product_by_tiles
from tapegrad._core.codegen.sweep_frame import (
    adjoint_buffer,
    adjoint_place,
    count_of,
    item_bytes,
    tangent_data,
    touch_cell,
)

from ..codegen.intrinsics import (
    calloc,
    f32s,
    f64s,
    free,
    helper,
    inside,
    load_i32,
    load_i64,
    malloc,
    memset,
    store_f64,
    store_i32,
    store_i64,
)
from ..codegen.matrix_products import (
    ADDRESS,
    ALONG_COLUMNS,
    ALONG_K,
    ALONG_M,
    ALONG_N,
    ALONG_ROWS,
    ARGUMENTS,
    BLOCK_BYTES,
    COLUMN_COUNT,
    COLUMN_STRIDE,
    FEW,
    LEAST_BLOCK,
    LEAST_ROWS,
    LEFT,
    MATRIX_BYTES,
    NARROW,
    OUT,
    PACKED,
    PANEL,
    RIGHT,
    ROW_COUNT,
    ROW_STRIDE,
    TILE_ROWS,
    WORK_BYTES,
    blas_dgemm,
    blas_dgemv,
    blas_sgemm,
    blas_sgemv,
)
from ..codegen.strided_memory import Matrix, moved, part_of, strided, turned
from .table import TABLE, Layout, Site

# --- One product of matrices with any strides: BLAS, tiles where it is narrow, lines if tiny ------


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


# --------------------------------------------------------------------------------------------------
# The contraction: a batched matrix product of strided operands, reversed by two more by BLAS.
# References: A seen as (batch, m, k), B as (batch, k, n), the output as (batch, m, n), how many
# axes are batch, how many are k, the output. Each of batch, m, k, n is a group of any number of
# axes. A matrix with contiguous rows or columns is passed to BLAS where it lies, and its adjoint
# buffer accumulates in place; any other matrix is packed first.


class Contraction(NamedTuple):
    """The arrays of the operands and of the output as matrices, how many axes are batch, the bytes
    of an element, working memory, in which the matrices are described."""

    left: int
    right: int
    whole: int
    batch: int
    width: int
    work: int


@helper
def group_size(array, first, end):
    """Number of elements of a group of axes."""
    total = 1
    for axis in range(first, end):
        total *= load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    return total


@helper
def group_stride(array, first, end):
    """Stride in bytes of a group of axes as a single axis, −1 if there is none."""
    stride, size = 0, 1
    for axis in range(end - 1, first - 1, -1):
        n = load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
        step = load_i64(load_i64(array, ARRAY_STRIDES), axis * 8)
        if n != 1:
            if size == 1:
                stride = step
            elif step != stride * size:
                return -1
            size *= n
    return stride


@helper
def see_matrix(matrix, array, batch, split, width):
    """Describe the matrices of an array: axes batch … split are rows, the rest columns."""
    last = load_i32(array, ARRAY_NDIM)
    rows, columns = group_size(array, batch, split), group_size(array, split, last)
    down, along = group_stride(array, batch, split), group_stride(array, split, last)
    seen = Matrix(0, rows, columns, down, along)
    packed = not (suits(seen, width) or suits(turned(seen), width))
    if packed or rows * columns == 0:
        down, along = columns * width, width
    store_i64(matrix, ROW_COUNT, rows)
    store_i64(matrix, COLUMN_COUNT, columns)
    store_i64(matrix, ROW_STRIDE, down)
    store_i64(matrix, COLUMN_STRIDE, along)
    store_i64(matrix, PACKED, 1 if packed else 0)


@helper
def described(matrix):
    """What `see_matrix` has described, but for its address."""
    return Matrix(
        0,
        load_i64(matrix, ROW_COUNT),
        load_i64(matrix, COLUMN_COUNT),
        load_i64(matrix, ROW_STRIDE),
        load_i64(matrix, COLUMN_STRIDE),
    )


@helper
def matrix_at(matrix, array, batch, number, width):
    """Address of one matrix of the batch."""
    at = load_i64(matrix, ADDRESS)
    if load_i64(matrix, PACKED) != 0:
        size = load_i64(matrix, ROW_COUNT) * load_i64(matrix, COLUMN_COUNT)
        return at + number * size * width
    for axis in range(batch - 1, 0, -1):
        n = load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
        at += (number % n) * load_i64(load_i64(array, ARRAY_STRIDES), axis * 8)
        number //= n
    return at + number * load_i64(load_i64(array, ARRAY_STRIDES), 0) if batch > 0 else at


@helper
def load_matrix(frame, matrix, array, data, width):
    """Set the address of a matrix that is read: its own, or that of a packed copy."""
    if load_i64(matrix, PACKED) == 0:
        store_i64(matrix, ADDRESS, data)
        return
    count = count_of(array)
    copy = malloc(count * width)
    block_of(frame, strided(array, data), 0, count, copy, width)
    store_i64(matrix, ADDRESS, copy)


@helper
def drop_matrix(matrix):
    """Give back a packed copy."""
    if load_i64(matrix, PACKED) != 0:
        free(load_i64(matrix, ADDRESS))


@helper
def operands_of(refs):
    """Both operands and the output, as matrices."""
    right, whole = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    return load_i64(refs, 0), right, whole


@helper
def contraction_of(refs, width):
    """The contraction of a row, with working memory, which the caller gives back."""
    left, right, whole = operands_of(refs)
    batch, inner = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    work, rows = malloc(WORK_BYTES), load_i32(left, ARRAY_NDIM) - inner
    see_matrix(work, left, batch, rows, width)
    see_matrix(work + MATRIX_BYTES, right, batch, batch + inner, width)
    see_matrix(work + 2 * MATRIX_BYTES, whole, batch, rows, width)
    return Contraction(left, right, whole, batch, width, work)


@helper
def interleaved(matrix, array, batch, stride):
    """Whether other matrices of the batch are interleaved with the lines."""
    if load_i64(matrix, PACKED) != 0:
        return False
    for axis in range(batch - 1, -1, -1):
        if load_i64(load_i64(array, ARRAY_SHAPE), axis * 8) > 1:
            return 0 < abs(load_i64(load_i64(array, ARRAY_STRIDES), axis * 8)) < abs(stride)
    return False


@helper
def longest(m, n, k):
    """The largest size."""
    if m >= n and m >= k:
        return ALONG_M
    return ALONG_N if n >= k else ALONG_K


@helper
def narrow(m, n, k):
    """Whether a product of these sizes uses tiles: BLAS has blocks, and clears, of its own."""
    return min(m, n, k) >= LEAST_ROWS and is_narrow(m, n, k)


@helper
def mixed_along(contraction, along):
    """Whether matrices that have the size `along` are interleaved along it."""
    left, right, whole, batch, _, one = contraction
    two, out = one + MATRIX_BYTES, one + 2 * MATRIX_BYTES
    if along == ALONG_M:
        return interleaved(one, left, batch, load_i64(one, ROW_STRIDE)) or interleaved(
            out, whole, batch, load_i64(out, ROW_STRIDE)
        )
    if along == ALONG_N:
        return interleaved(two, right, batch, load_i64(two, COLUMN_STRIDE)) or interleaved(
            out, whole, batch, load_i64(out, COLUMN_STRIDE)
        )
    return interleaved(one, left, batch, load_i64(one, COLUMN_STRIDE)) or interleaved(
        two, right, batch, load_i64(two, ROW_STRIDE)
    )


@helper
def block_along(contraction, along, m, n, k):
    """The part of the longest size that is taken through the whole batch at a time.

    If matrices are interleaved, one alone is a little of every page of the array. A block of all of
    them stays in the cache, and so do the matrices without that size.
    """
    size, width = max(m, n, k), contraction.width
    count = group_size(contraction.whole, 0, contraction.batch)
    area, others = m * n * k // size, m + n + k - size
    if not narrow(m, n, k) or area * count * width > BLOCK_BYTES:
        return size
    if not mixed_along(contraction, along):
        return size
    most = max(BLOCK_BYTES // (others * count * width), LEAST_BLOCK)
    blocks = (size + most - 1) // most
    return ((size + blocks - 1) // blocks + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS


@helper
def add_products(contraction, target, fresh):
    """For every matrix of the batch: left += out·rightᵀ, right += leftᵀ·out, out += left·right.

    A fresh output is set instead.
    """
    left, right, whole, batch, width, work = contraction
    one, two, out = work, work + MATRIX_BYTES, work + 2 * MATRIX_BYTES
    m, n, k = load_i64(out, ROW_COUNT), load_i64(out, COLUMN_COUNT), load_i64(one, COLUMN_COUNT)
    count, along, size = group_size(whole, 0, batch), longest(m, n, k), max(m, n, k)
    step = block_along(contraction, along, m, n, k)
    for start in range(0, size, step):
        taken = min(step, size - start)
        in_m = start if along == ALONG_M else 0
        in_n = start if along == ALONG_N else 0
        in_k = start if along == ALONG_K else 0
        m = taken if along == ALONG_M else m
        n = taken if along == ALONG_N else n
        k = taken if along == ALONG_K else k
        of_left = part_of(described(one), in_m, in_k, m, k)
        of_right = part_of(described(two), in_k, in_n, k, n)
        of_out = part_of(described(out), in_m, in_n, m, n)
        for number in range(count):
            a = moved(of_left, matrix_at(one, left, batch, number, width))
            b = moved(of_right, matrix_at(two, right, batch, number, width))
            g = moved(of_out, matrix_at(out, whole, batch, number, width))
            if target == LEFT:
                product(g, turned(b), a, False, width, work)
            elif target == RIGHT:
                product(turned(a), g, b, False, width, work)
            else:
                product(a, b, g, fresh and in_k == 0, width, work)


@helper
def begin_sums(matrix, array, data, width):
    """Prepare the matrices at `data` for sums, in separate memory if they must be packed."""
    packed = load_i64(matrix, PACKED) != 0
    store_i64(matrix, ADDRESS, calloc(count_of(array), width) if packed else data)


@helper
def end_sums(frame, matrix, array, data, width):
    """Add sums from separate memory."""
    if load_i64(matrix, PACKED) != 0:
        sums = load_i64(matrix, ADDRESS)
        add_block(frame, strided(array, data), 0, count_of(array), sums, width)
        free(sums)


@helper
def roles(contraction, side):
    """The operand that is added to and its matrix, then the other operand and its matrix."""
    left, right, one = contraction.left, contraction.right, contraction.work
    two = one + MATRIX_BYTES
    return (left, one, right, two) if side == LEFT else (right, two, left, one)


@helper
def pass_one(frame, contraction, side, data, own):
    """Add to adjoints at `data` of one operand; the output's are at `own`, the other is loaded."""
    target, matrix, _, _ = roles(contraction, side)
    out, width = contraction.work + 2 * MATRIX_BYTES, contraction.width
    begin_sums(matrix, target, data, width)
    load_matrix(frame, out, contraction.whole, own, width)
    add_products(contraction, side, False)
    drop_matrix(out)
    end_sums(frame, matrix, target, data, width)


@helper
def pass_back(frame, contraction, side, found, own, step):
    """Add to the adjoint buffer `found` of an operand; output adjoints lie at own + seed · step."""
    target, _, factor, other = roles(contraction, side)
    load_matrix(frame, other, factor, load_i64(factor, ARRAY_DATA), contraction.width)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        data = adjoint_place(found, load_i64(target, ARRAY_DATA), seed)
        pass_one(frame, contraction, side, data, own + seed * step)
    drop_matrix(other)


@helper
def memory_of_output(frame, id, refs, whole):
    """Addresses of the output's adjoints, or tangents, in a sweep, and the step between seeds."""
    own = cell(frame, id)
    if load_i32(refs, 5 * REFERENCE_BYTES + 12) == TAG_SCALAR:
        return own, 8
    return adjoint_place(load_i64(own, 0), load_i64(whole, ARRAY_DATA), 0), load_i64(
        load_i64(own, 0), 0
    )


@helper
def sweep_product(frame, id, refs):
    """The reverse of a row, for all seeds."""
    left, right, whole = operands_of(refs)
    own, step = memory_of_output(frame, id, refs, whole)
    to_left, to_right = load_i32(refs, 8), load_i32(refs, REFERENCE_BYTES + 8)
    found_left = adjoint_buffer(frame, to_left) if to_left >= 0 else 0
    found_right = adjoint_buffer(frame, to_right) if to_right >= 0 else 0
    if count_of(left) == 0 or count_of(right) == 0:
        return
    contraction = contraction_of(refs, item_bytes(frame, whole))
    if found_left != 0:
        pass_back(frame, contraction, LEFT, found_left, own, step)
    if found_right != 0:
        pass_back(frame, contraction, RIGHT, found_right, own, step)
    free(contraction.work)


def contract_adjoint(frame, id, refs, task):
    """References: A, B, the output as a matrix, number of batch axes, of k axes, the output."""
    sweep_product(frame, id, refs)


def contract_forward(frame, id, refs, task):
    """The same references; packed matrices lie elsewhere until they are complete."""
    contraction = contraction_of(refs, ITEM)
    left, right, whole, _, _, one = contraction
    two, out = one + MATRIX_BYTES, one + 2 * MATRIX_BYTES
    data, empty = load_i64(whole, ARRAY_DATA), count_of(left) == 0 or count_of(right) == 0
    m, n = load_i64(out, ROW_COUNT), load_i64(out, COLUMN_COUNT)
    fresh = narrow(m, n, load_i64(one, COLUMN_COUNT)) and load_i64(out, PACKED) == 0
    if empty or not fresh:
        to = load_i64(load_i64(refs, 5 * REFERENCE_BYTES), ARRAY_DATA)
        memset(to, 0, count_of(whole) * ITEM)
    if not empty:
        load_matrix(frame, one, left, load_i64(left, ARRAY_DATA), ITEM)
        load_matrix(frame, two, right, load_i64(right, ARRAY_DATA), ITEM)
        begin_sums(out, whole, data, ITEM)
        add_products(contraction, OUT, fresh)
        end_sums(frame, out, whole, data, ITEM)
        drop_matrix(two)
        drop_matrix(one)
    free(one)


#: What the adjoint kernel needs.
CONTRACT_HELPERS = (
    Contraction,
    group_size,
    group_stride,
    *PRODUCT,
    see_matrix,
    described,
    matrix_at,
    load_matrix,
    drop_matrix,
    operands_of,
    contraction_of,
    interleaved,
    longest,
    narrow,
    mixed_along,
    block_along,
    add_products,
    begin_sums,
    end_sums,
    roles,
    pass_one,
    pass_back,
    memory_of_output,
    sweep_product,
)


# --- References of a row of the contraction, and its properties for programs: cost, small form ----
# References are as in `contraction`. Shapes are those of the operands as the row shows them.


def site(found) -> Site:
    """Two operands, the output as they give its axes, numbers of batch and of summed axes."""
    left, right, (_, whole), (_, batch), (_, inner), (_, out) = found
    static = {"batch": batch, "inner": inner}
    return Site([left, right], static, None if out is None else whole, whole.shape)


def check_axes(_out, left, right, whole, batch: int, inner: int) -> None:
    """Raise ValueError unless the axes match: (batch, m, k) times (batch, k, n)."""
    rows = len(left) - inner
    if not (0 <= batch <= rows and 0 <= inner <= len(right) - batch):
        raise ValueError(f"{batch} and {inner} axes of operands")
    if left[rows:] != right[batch : batch + inner] or left[:batch] != right[:batch]:
        raise ValueError("axes do not meet")
    if whole != left[:rows] + right[batch + inner :]:
        raise ValueError("a result of another shape")


LAYOUT = Layout(site, ("array", "array", "output", "number", "number"), check_axes)


def products(_out, left, _right, whole, _batch: int, inner: int) -> int:
    """The number of products that are added."""
    return math.prod(whole) * math.prod(left[len(left) - inner :])


def expanded(apply, a, b, _whole, batch: int, inner: int):
    """The products, each added to the sum of those before: as the kernel adds few of them."""
    add, multiply = TABLE["add"].code, TABLE["multiply"].code
    many, k = math.prod(a.shape[:batch]), math.prod(a.shape[a.ndim - inner :])
    a, b = a.reshape(many, -1, k), b.reshape(many, k, -1)
    total = np.empty(0, np.int64)
    for p in range(k):
        product = apply(multiply, *np.broadcast_arrays(a[:, :, p, None], b[:, p, None, :]))
        total = apply(add, total, product) if p else product
    return total


# --------------------------------------------------------------------------------------------------
# Tangents of contractions, and their adjoints of second order. References as in `contraction`.


@helper
def pass_curved(frame, contraction, side, found, own, tangent):
    """Add to the tangents in the adjoint buffer `found` of one operand the product of the output's
    adjoint, at `own`, with the tangent of the other operand."""
    target, _, factor, other = roles(contraction, side)
    if found != 0 and tangent != 0:
        load_matrix(frame, other, factor, tangent, contraction.width)
        data = adjoint_place(found, load_i64(target, ARRAY_DATA), 1)
        pass_one(frame, contraction, side, data, own)
        drop_matrix(other)


def contract_second_order(frame, id, refs, task):
    """Both seeds: the part that is linear in them, and that of the tangents of the operands."""
    sweep_product(frame, id, refs)
    left, right, whole = operands_of(refs)
    to_left, to_right = load_i32(refs, 8), load_i32(refs, REFERENCE_BYTES + 8)
    if count_of(left) == 0 or count_of(right) == 0 or to_left < 0 or to_right < 0:
        return
    tangents = load_i64(frame, FRAME_TANGENTS)
    own, _ = memory_of_output(frame, id, refs, whole)
    along_left = tangent_data(tangents, refs, 0)
    along_right = tangent_data(tangents, refs + REFERENCE_BYTES, 0)
    contraction = contraction_of(refs, item_bytes(frame, whole))
    pass_curved(frame, contraction, LEFT, adjoint_buffer(frame, to_left), own, along_right)
    pass_curved(frame, contraction, RIGHT, adjoint_buffer(frame, to_right), own, along_left)
    free(contraction.work)


@helper
def carry_product(frame, contraction, side, tangent, data):
    """Add to the output's tangents at `data` the product with one operand's in its place."""
    target, matrix, factor, other = roles(contraction, side)
    out, width = contraction.work + 2 * MATRIX_BYTES, contraction.width
    load_matrix(frame, matrix, target, tangent, width)
    load_matrix(frame, other, factor, load_i64(factor, ARRAY_DATA), width)
    begin_sums(out, contraction.whole, data, width)
    add_products(contraction, OUT, False)
    end_sums(frame, out, contraction.whole, data, width)
    drop_matrix(other)
    drop_matrix(matrix)


def contract_tangent(frame, id, refs, task):
    """The same references; the sum of the products with the tangent of one operand each."""
    left, right, whole = operands_of(refs)
    if load_i32(refs, 5 * REFERENCE_BYTES + 12) == TAG_SCALAR:
        touch_cell(frame, id)
    elif adjoint_buffer(frame, id) == 0:
        return
    own, step = memory_of_output(frame, id, refs, whole)
    if count_of(left) == 0 or count_of(right) == 0:
        return
    contraction = contraction_of(refs, item_bytes(frame, whole))
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        along_left = tangent_data(frame, refs, seed)
        along_right = tangent_data(frame, refs + REFERENCE_BYTES, seed)
        data = own + seed * step
        if along_left != 0:
            carry_product(frame, contraction, LEFT, along_left, data)
        if along_right != 0:
            carry_product(frame, contraction, RIGHT, along_right, data)
    free(contraction.work)


#: What the kernels need.
HELPERS = (*CONTRACT_HELPERS, pass_curved, carry_product)
