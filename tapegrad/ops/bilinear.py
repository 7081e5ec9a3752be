"""The contraction: a batched matrix product of strided operands, reversed by two more by BLAS.

References: A seen as (batch, m, k), B as (batch, k, n), the output as (batch, m, n), how many
axes are batch, how many are k, the output. Each of batch, m, k, n is a group of any number of
axes. A matrix whose rows or columns lie next to each other is given to BLAS where it is, and its
mirror accumulates in place; any other is packed first.
"""

from tapegrad.codegen.blas import (
    ADDRESS,
    ARGUMENTS,
    COLUMN_COUNT,
    COLUMN_STRIDE,
    FEW,
    LEFT,
    MATRIX_BYTES,
    OUT,
    PACKED,
    RIGHT,
    ROW_COUNT,
    ROW_STRIDE,
    WORK_BYTES,
    blas_dgemm,
    blas_dgemv,
    blas_sgemm,
    blas_sgemv,
)
from tapegrad.codegen.frame import count_of, item_bytes, mirror, mirrored
from tapegrad.codegen.layout import (
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    FRAME_SEEDS,
    REFERENCE_BYTES,
    TAG_SCALAR,
)
from tapegrad.codegen.memory import (
    calloc,
    f32s,
    f64s,
    free,
    helper,
    load_i32,
    load_i64,
    malloc,
    memset,
    store_f64,
    store_i64,
)
from tapegrad.codegen.shared import add_block, block_of, cell

from .table import structural


@helper
def group_size(array, first, end):
    """Number of elements of a group of axes."""
    total = 1
    for axis in range(first, end):
        total *= load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    return total


@helper
def group_stride(array, first, end):
    """Stride in bytes of a group of axes seen as one, −1 if it is not one."""
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
def suits(n, stride, n_across, stride_across, width):
    """Whether BLAS can take lines along the first stride, `stride_across` apart."""
    if n > 1 and stride != width:
        return False
    if n_across <= 1:
        return True
    across = stride_across // width
    return stride_across % width == 0 and across >= n and across <= 2147483647


@helper
def see_matrix(matrix, array, batch, split, width):
    """Describe the matrices of an array: axes batch … split are rows, the rest columns."""
    last = load_i32(array, ARRAY_NDIM)
    rows, columns = group_size(array, batch, split), group_size(array, split, last)
    down, along = group_stride(array, batch, split), group_stride(array, split, last)
    packed = not (
        suits(rows, down, columns, along, width) or suits(columns, along, rows, down, width)
    )
    if packed or rows * columns == 0:
        down, along = columns * width, width
    store_i64(matrix, ROW_COUNT, rows)
    store_i64(matrix, COLUMN_COUNT, columns)
    store_i64(matrix, ROW_STRIDE, down)
    store_i64(matrix, COLUMN_STRIDE, along)
    store_i64(matrix, PACKED, 1 if packed else 0)


@helper
def matrix_at(matrix, array, batch, number, width):
    """Address of one matrix of the batch."""
    at = load_i64(matrix, ADDRESS)
    if load_i64(matrix, PACKED) != 0:
        size = load_i64(matrix, ROW_COUNT) * load_i64(matrix, COLUMN_COUNT)
        return at + number * size * width
    for axis in range(batch - 1, -1, -1):
        n = load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
        at += (number % n) * load_i64(load_i64(array, ARRAY_STRIDES), axis * 8)
        number //= n
    return at


@helper
def load_matrix(frame, matrix, array, data, width):
    """Set the address of a matrix that is read: its own, or that of a packed copy."""
    if load_i64(matrix, PACKED) == 0:
        store_i64(matrix, ADDRESS, data)
        return
    count = count_of(array)
    copy = malloc(count * width)
    shape, strides = load_i64(array, ARRAY_SHAPE), load_i64(array, ARRAY_STRIDES)
    block_of(frame, data, strides, shape, load_i32(array, ARRAY_NDIM), 0, count, copy, width)
    store_i64(matrix, ADDRESS, copy)


@helper
def drop_matrix(matrix):
    """Give back a packed copy."""
    if load_i64(matrix, PACKED) != 0:
        free(load_i64(matrix, ADDRESS))


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
    """Elements between two lines of n, as BLAS wants it told."""
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
def product(a, ar, ac, b, br, bc, c, cr, cc, m, n, k, width, work):
    """c += a·b for matrices of m × k, k × n and m × n elements; the strides are in bytes."""
    if k == 1 or m * n * k <= FEW:
        product_by_lines(a, ar, ac, b, br, bc, c, cr, cc, m, n, k, width)
        return
    if m == 1 or (n > 1 and not suits(m, cr, n, cc, width)):
        # BLAS writes columns: where c has rows, its transpose is written
        a, ar, ac, b, br, bc = b, bc, br, a, ac, ar
        cr, cc, m, n = cc, cr, n, m
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


@helper
def see_matrices(work, arrays, batch, inner, width):
    """Describe the matrices of the operands and of the output."""
    left, right, whole = arrays
    rows = load_i32(left, ARRAY_NDIM) - inner
    see_matrix(work, left, batch, rows, width)
    see_matrix(work + MATRIX_BYTES, right, batch, batch + inner, width)
    see_matrix(work + 2 * MATRIX_BYTES, whole, batch, rows, width)


@helper
def add_products(work, target, arrays, batch, width):
    """For every matrix of the batch: left += out·rightᵀ, right += leftᵀ·out, out += left·right."""
    one, two, out = work, work + MATRIX_BYTES, work + 2 * MATRIX_BYTES
    left, right, whole = arrays
    m, n = load_i64(out, ROW_COUNT), load_i64(out, COLUMN_COUNT)
    k = load_i64(one, COLUMN_COUNT)
    ar, ac = load_i64(one, ROW_STRIDE), load_i64(one, COLUMN_STRIDE)
    br, bc = load_i64(two, ROW_STRIDE), load_i64(two, COLUMN_STRIDE)
    gr, gc = load_i64(out, ROW_STRIDE), load_i64(out, COLUMN_STRIDE)
    for number in range(group_size(whole, 0, batch)):
        a = matrix_at(one, left, batch, number, width)
        b = matrix_at(two, right, batch, number, width)
        g = matrix_at(out, whole, batch, number, width)
        if target == LEFT:
            product(g, gr, gc, b, bc, br, a, ar, ac, m, k, n, width, work)
        elif target == RIGHT:
            product(a, ac, ar, g, gr, gc, b, br, bc, k, n, m, width, work)
        else:
            product(a, ar, ac, b, br, bc, g, gr, gc, m, n, k, width, work)


@helper
def begin_sums(matrix, array, data, width):
    """Let the matrices at `data` be added to, in memory of their own if they have to be packed."""
    packed = load_i64(matrix, PACKED) != 0
    store_i64(matrix, ADDRESS, calloc(count_of(array), width) if packed else data)


@helper
def end_sums(frame, matrix, array, data, width):
    """Add what was summed in other memory."""
    if load_i64(matrix, PACKED) != 0:
        count, ndim, sums = count_of(array), load_i32(array, ARRAY_NDIM), load_i64(matrix, ADDRESS)
        shape, strides = load_i64(array, ARRAY_SHAPE), load_i64(array, ARRAY_STRIDES)
        add_block(frame, data, strides, shape, ndim, 0, count, sums, width)
        free(sums)


@helper
def pass_back(frame, work, side, found, own, step, arrays, batch, width):
    """Add to the mirror `found` of one operand; the output's adjoints are at own + seed · step."""
    left, right, whole = arrays
    one, two, out = work, work + MATRIX_BYTES, work + 2 * MATRIX_BYTES
    to_left = side == LEFT
    target, matrix, factor, other = (left, one, right, two) if to_left else (right, two, left, one)
    load_matrix(frame, other, factor, load_i64(factor, ARRAY_DATA), width)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        data = mirrored(found, load_i64(target, ARRAY_DATA), seed)
        begin_sums(matrix, target, data, width)
        load_matrix(frame, out, whole, own + seed * step, width)
        add_products(work, side, arrays, batch, width)
        drop_matrix(out)
        end_sums(frame, matrix, target, data, width)
    drop_matrix(other)


def contract_adjoint(frame, id, refs, task):
    """References: A, B, the output as a matrix, number of batch axes, of k axes, the output."""
    arrays = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    left, right, whole = arrays
    batch = load_i64(refs, 3 * REFERENCE_BYTES)
    inner = load_i64(refs, 4 * REFERENCE_BYTES)
    width = item_bytes(frame, whole)
    own, step = cell(frame, id), 8
    if load_i32(refs, 5 * REFERENCE_BYTES + 12) != TAG_SCALAR:
        adjoints = load_i64(own, 0)
        own, step = mirrored(adjoints, load_i64(whole, ARRAY_DATA), 0), load_i64(adjoints, 0)
    to_left, to_right = load_i32(refs, 8), load_i32(refs, REFERENCE_BYTES + 8)
    found_left = mirror(frame, to_left) if to_left >= 0 else 0
    found_right = mirror(frame, to_right) if to_right >= 0 else 0
    if count_of(left) == 0 or count_of(right) == 0:
        return
    work = malloc(WORK_BYTES)
    see_matrices(work, arrays, batch, inner, width)
    if found_left != 0:
        pass_back(frame, work, LEFT, found_left, own, step, arrays, batch, width)
    if found_right != 0:
        pass_back(frame, work, RIGHT, found_right, own, step, arrays, batch, width)
    free(work)


def contract_forward(frame, id, refs, task):
    """The same references; what is packed lies elsewhere until it is complete."""
    arrays = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    left, right, whole = arrays
    batch = load_i64(refs, 3 * REFERENCE_BYTES)
    data = load_i64(whole, ARRAY_DATA)
    memset(load_i64(load_i64(refs, 5 * REFERENCE_BYTES), ARRAY_DATA), 0, count_of(whole) * 8)
    if count_of(left) == 0 or count_of(right) == 0:
        return
    work = malloc(WORK_BYTES)
    see_matrices(work, arrays, batch, load_i64(refs, 4 * REFERENCE_BYTES), 8)
    load_matrix(frame, work, left, load_i64(left, ARRAY_DATA), 8)
    load_matrix(frame, work + MATRIX_BYTES, right, load_i64(right, ARRAY_DATA), 8)
    begin_sums(work + 2 * MATRIX_BYTES, whole, data, 8)
    add_products(work, OUT, arrays, batch, 8)
    end_sums(frame, work + 2 * MATRIX_BYTES, whole, data, 8)
    drop_matrix(work + MATRIX_BYTES)
    drop_matrix(work)
    free(work)


structural(
    "contract",
    contract_adjoint,
    forward=contract_forward,
    helpers=(
        group_size,
        group_stride,
        suits,
        see_matrix,
        matrix_at,
        load_matrix,
        drop_matrix,
        add_scaled64,
        add_scaled32,
        product_by_lines,
        leading,
        product_with_vector,
        product,
        see_matrices,
        add_products,
        begin_sums,
        end_sums,
        pass_back,
    ),
    example="np.dot(x, x)",
    doc="batched matrix product of axes in groups: matmul, dot, tensordot, einsum",
)
