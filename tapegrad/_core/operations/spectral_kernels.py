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
def solve_symmetric(call, matrix, n, w, space):
    """Eigenvalues and vectors of a symmetric matrix, in place, or the need of working memory.

    Eigenvalues are real numbers; the words of the memory are elements.
    """
    work, words, counts = space
    store_u8(call, lapack.NOT_TRANSPOSED, 86)  # "V"
    store_i32(call, lapack.CALL_BYTES, words)
    store_i32(call, lapack.CALL_BYTES + 8, 3 + 5 * n)
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
        solve_symmetric(call, matrix, n, values, lapack.Workspace(asked, -1, counts))
        words = wanted_words(asked, words)
    work = malloc(words * ITEM)
    space = lapack.Workspace(work, words, counts)
    for k in range(count):
        to = load_i64(out, ARRAY_DATA) + k * width * ITEM
        memset(to, 0, width * ITEM)
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 1, k), a, 2)
        lapack.enter_call(call, letter, n, n)
        solve_symmetric(call, matrix, n, values, space)
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
def is_finite(matrix, count):
    """Whether all elements are numbers; LAPACK finds singular values of others, or never ends."""
    for i in range(count):
        x = floats(matrix)[i]
        if x - x != 0.0:
            return False
    return True


@helper
def solve_singular(call, matrix, u, s, v, space):
    """Singular values and vectors of a matrix, or the need of working memory.

    The matrices `u` and `v`, which is transposed, are in Fortran order.
    """
    work, words, counts = space
    store_i32(call, lapack.CALL_BYTES, words)
    store_i32(call, lapack.CALL_BYTES + 8, u.rows)
    store_i32(call, lapack.CALL_BYTES + 16, v.rows)
    rows, columns, answer = call + lapack.ROWS, call + lapack.COLUMNS, call + lapack.ANSWER
    sizes = call + lapack.CALL_BYTES
    if words != -1 and not is_finite(matrix, load_i32(rows, 0) * load_i32(columns, 0)):
        store_i32(answer, 0, 1)
        return
    lapack.gesdd(
        call + lapack.LETTER, rows, columns, matrix, rows, s, u.data, sizes + 8, v.data, sizes + 16,
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
    u = lapack.Columns(matrix + m * n * ITEM, m)
    v = lapack.Columns(u.data + m * p * ITEM, q)
    asked, call = v.data + q * n * ITEM, matrix + fixed
    values = asked + ITEM
    counts = call + lapack.CALL_BYTES + 24
    words = 4 * few * few + 7 * few + many
    if few > 0:
        lapack.enter_call(call, letter, m, n)
        solve_singular(call, matrix, u, values, v, lapack.Workspace(asked, -1, counts))
        words = wanted_words(asked, words)
    work = malloc(words * ITEM + 8)
    space = lapack.Workspace(work, words, counts)
    for k in range(count):
        to = load_i64(out, ARRAY_DATA) + k * width
        memset(to, 0, width)
        if few == 0:
            write_identity(to, p)
            write_identity(to + m * p * ITEM, q)
            continue
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 1, k), a, 2)
        lapack.enter_call(call, letter, m, n)
        solve_singular(call, matrix, u, values, v, space)
        if load_i32(call, lapack.ANSWER) != 0:
            lapack.refuse(frame, 1)
            break
        lapack.write_turned(to, u.data, m, p)
        write_values(to + m * p * ITEM, values, few)
        lapack.write_turned(to + (m * p + few) * ITEM, v.data, q, n)
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
