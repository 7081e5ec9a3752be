"""Values in programs, by LAPACK: eigenvalues of symmetric matrices, singular values, and QR.

Each output holds the parts of a factorization stacked, matrices in C order. LAPACK takes and gives
Fortran order; the matrices are transposed for it, as in NumPy, since its signs depend on it.
"""

from __future__ import annotations

from ..codegen import lapack
from ..codegen.elements import ITEM, floats, load_float
from ..codegen.intrinsics import (
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    memset,
    store_i32,
    store_u8,
)
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES


@helper
def write_values(to, values, count):
    """Write real values as elements of an output."""
    for i in range(count):
        floats(to)[i] = load_f64(values, i * 8)


@helper
def wanted_words(work, number):
    """The number of words of memory that LAPACK requests, given a size that is enough by itself."""
    asked = int(load_f64(work, 0))
    return asked if asked > number else number


# --- symmetric matrices ---------------------------------------------------------------------------


@helper
def solve_symmetric(call, matrix, n, w, work, words, counts, count):
    """Eigenvalues and vectors of a symmetric matrix, in place; with `words` −1, the need.

    Eigenvalues are real numbers, `words` a number of elements.
    """
    store_u8(call, lapack.NOT_TRANSPOSED, 86)  # "V"
    store_i32(call, lapack.CALL_BYTES, words)
    store_i32(call, lapack.CALL_BYTES + 8, count)
    rows, answer = call + lapack.ROWS, call + lapack.ANSWER
    letter, sizes = call + lapack.LETTER, call + lapack.CALL_BYTES
    job = call + lapack.NOT_TRANSPOSED
    lapack.syevd(job, letter, rows, matrix, rows, w, work, sizes, counts, sizes + 8, answer)


def eigh_forward(frame, id, refs, task):
    """References: `lower`, the matrices, the output: eigenvalues, eigenvectors, and zeros."""
    lower = load_i64(load_i64(load_i64(refs, 0), ARRAY_DATA), 0) != 0
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    n = lapack.size_along(a, 1)
    count, width = lapack.batch_size(out, 1) if n > 0 else 0, lapack.size_along(out, 1)
    fixed = (n * n + 1) * ITEM + n * 8 + (3 + 5 * n) * 4 + lapack.CALL_BYTES + 16
    matrix = malloc(fixed + 8)
    asked = matrix + n * n * ITEM
    values = asked + ITEM
    call = values + n * 8
    counts = call + lapack.CALL_BYTES + 16
    letter = lapack.LOWER if lower else lapack.UPPER
    lapack.enter_call(call, letter, n, n)
    words = 1 + 6 * n + 2 * n * n
    if n > 0:
        solve_symmetric(call, matrix, n, values, asked, -1, counts, 3 + 5 * n)
        words = wanted_words(asked, words)
    work = malloc(words * ITEM)
    for k in range(count):
        to = load_i64(out, ARRAY_DATA) + k * width * ITEM
        memset(to, 0, width * ITEM)
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 1, k), a, 2)
        lapack.enter_call(call, letter, n, n)
        solve_symmetric(call, matrix, n, values, work, words, counts, 3 + 5 * n)
        if load_i32(call, lapack.ANSWER) != 0:
            lapack.refuse(frame, 1)
            break
        write_values(to, values, n)
        lapack.write_turned(to + n * ITEM, matrix, n, n)
    free(work)
    free(matrix)


# --- singular values ------------------------------------------------------------------------------


@helper
def write_identity(to, n):
    """Write an identity matrix."""
    memset(to, 0, n * n * ITEM)
    for i in range(n):
        floats(to)[i * (n + 1)] = 1.0


@helper
def solve_singular(call, matrix, u, u_rows, s, v, v_rows, work, words, counts):
    """Singular values and vectors of a matrix; with `words` −1, the number needed."""
    store_i32(call, lapack.CALL_BYTES, words)
    store_i32(call, lapack.CALL_BYTES + 8, u_rows)
    store_i32(call, lapack.CALL_BYTES + 16, v_rows)
    rows, columns, answer = call + lapack.ROWS, call + lapack.COLUMNS, call + lapack.ANSWER
    sizes = call + lapack.CALL_BYTES
    lapack.gesdd(
        call + lapack.LETTER, rows, columns, matrix, rows, s, u, sizes + 8, v, sizes + 16,
        work, sizes, counts, answer,
    )  # fmt: skip


def svd_forward(frame, id, refs, task):
    """References: `full`, the matrices, the output: u, singular values, vᵀ, and zeros."""
    full = load_i64(load_i64(load_i64(refs, 0), ARRAY_DATA), 0) != 0
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    m, n = lapack.size_along(a, 2), lapack.size_along(a, 1)
    few, many = min(m, n), max(m, n)
    p, q = m if full else few, n if full else few
    count, width = lapack.batch_size(out, 1), lapack.size_along(out, 1) * ITEM
    letter = ord("A") if full else ord("S")
    fixed = (m * n + m * p + q * n + 1) * ITEM + few * 8
    matrix = malloc(fixed + 8 * few * 4 + lapack.CALL_BYTES + 24)
    u = matrix + m * n * ITEM
    v, asked = u + m * p * ITEM, u + (m * p + q * n) * ITEM
    values, call = asked + ITEM, matrix + fixed
    counts = call + lapack.CALL_BYTES + 24
    words = 4 * few * few + 7 * few + many
    if few > 0:
        lapack.enter_call(call, letter, m, n)
        solve_singular(call, matrix, u, m, values, v, q, asked, -1, counts)
        words = wanted_words(asked, words)
    work = malloc(words * ITEM + 8)
    for k in range(count):
        to = load_i64(out, ARRAY_DATA) + k * width
        memset(to, 0, width)
        if few == 0:
            write_identity(to, p)
            write_identity(to + m * p * ITEM, q)
            continue
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 1, k), a, 2)
        lapack.enter_call(call, letter, m, n)
        solve_singular(call, matrix, u, m, values, v, q, work, words, counts)
        if load_i32(call, lapack.ANSWER) != 0:
            lapack.refuse(frame, 1)
            break
        lapack.write_turned(to, u, m, p)
        write_values(to + m * p * ITEM, values, few)
        lapack.write_turned(to + (m * p + few) * ITEM, v, q, n)
    free(work)
    free(matrix)


# --- QR -------------------------------------------------------------------------------------------


@helper
def factor_orthogonal(call, matrix, tau, work, words):
    """The factors of a matrix in LAPACK's form; with `words` −1, the number needed."""
    store_i32(call, lapack.CALL_BYTES, words)
    rows, columns, answer = call + lapack.ROWS, call + lapack.COLUMNS, call + lapack.ANSWER
    lapack.geqrf(rows, columns, matrix, rows, tau, work, call + lapack.CALL_BYTES, answer)


@helper
def make_orthogonal(call, p, few, matrix, tau, work, words):
    """The first `p` columns of the orthogonal factor, in place; with `words` −1, the need."""
    store_i32(call, lapack.CALL_BYTES, words)
    store_i32(call, lapack.CALL_BYTES + 8, p)
    store_i32(call, lapack.CALL_BYTES + 16, few)
    rows, answer, sizes = call + lapack.ROWS, call + lapack.ANSWER, call + lapack.CALL_BYTES
    lapack.orgqr(rows, sizes + 8, sizes + 16, matrix, rows, tau, work, sizes, answer)


@helper
def write_upper(to, matrix, m, p, n):
    """Write the upper triangle of a matrix in Fortran order with `m` rows: p × n in C order."""
    for i in range(p):
        line = floats(to + i * n * ITEM)
        for j in range(n):
            line[j] = load_float(matrix, (j * m + i) * ITEM) if j >= i else 0.0


def qr_forward(frame, id, refs, task):
    """References: `complete`, the matrices, the output: q, then r."""
    complete = load_i64(load_i64(load_i64(refs, 0), ARRAY_DATA), 0) != 0
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    m, n = lapack.size_along(a, 2), lapack.size_along(a, 1)
    few = min(m, n)
    p = m if complete else few
    count, width = lapack.batch_size(out, 1), (m * p + p * n) * ITEM
    size = m * max(n, p)
    matrix = malloc((size + few + 1) * ITEM + lapack.CALL_BYTES + 24)
    tau = matrix + size * ITEM
    asked, call = tau + few * ITEM, tau + (few + 1) * ITEM
    words = max(m, n) + 1
    if few > 0:
        lapack.enter_call(call, 0, m, n)
        factor_orthogonal(call, matrix, tau, asked, -1)
        words = wanted_words(asked, words)
        make_orthogonal(call, p, few, matrix, tau, asked, -1)
        words = wanted_words(asked, words)
    work = malloc(words * ITEM)
    for k in range(count):
        to = load_i64(out, ARRAY_DATA) + k * width
        if few == 0:
            write_identity(to, p)
            continue
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 1, k), a, 2)
        lapack.enter_call(call, 0, m, n)
        factor_orthogonal(call, matrix, tau, work, words)
        write_upper(to + m * p * ITEM, matrix, m, p, n)
        make_orthogonal(call, p, few, matrix, tau, work, words)
        lapack.write_turned(to, matrix, m, p)
    free(work)
    free(matrix)
