"""Eigenvalues and eigenvectors of symmetric matrices, equal ones too, and LAPACK's kernels."""

from __future__ import annotations

import functools

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM, floats, load_float, store_float
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
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.values import ComplexTensor, is_tensor, shape_of
from .declaring import adjoint, declared, packed, parts_of
from .equal_eigenvalues import (
    inverse_gaps,
    learn_whether_equal,
    note_basis,
    tolerance,
    warn_of_basis,
)

# --- Values in programs, by LAPACK: eigenvalues of symmetric matrices, singular values, and QR ----
# Each output holds the parts of a factorization stacked, matrices in C order. LAPACK takes and
# gives Fortran order; the matrices are transposed for it, as in NumPy, since its signs depend on
# it.


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


# --- Second derivatives of functions of eigenvalues where these are equal -------------------------
# The gradient of such a function is v diag(w̄) vᵀ. Along H the equal values of a space separate as
# the eigenvalues of vᵀ H v inside the space do, in the basis of its eigenvectors, and so do the
# derivatives w̄. Therefore the derivative of diag(w̄) passes the eigenvalues on to w̄, and vᵀ H v
# as a message to the row of the eigenvalues: an output of that row that is zero and has no other
# reader. The adjoint that comes back to that row is in the basis that the message gives.


# --- values ---------------------------------------------------------------------------------------


@helper
def block_end(w, step, start, n, slack):
    """The end of the equal values that begin at `start`."""
    stop = start + 1
    while stop < n:
        gap = load_f64(w, stop * step) - load_f64(w, (stop - 1) * step)
        if not (gap <= slack and -gap <= slack):
            break
        stop += 1
    return stop


@helper
def read_block(matrix, source, array, start, size):
    """Copy the symmetric part of a block to Fortran order; whether an element is not 0."""
    down, along = lapack.stride_along(array, 2), lapack.stride_along(array, 1)
    apart, found = lapack.parts_stride(array), False
    for i in range(start, start + size):
        for j in range(start, start + size):
            one = lapack.load_number(source + i * down + j * along, apart)
            other = lapack.load_number(source + j * down + i * along, apart)
            at = ((j - start) * size + i - start) * ITEM
            store_float(matrix, at, 0.5 * (one + lapack.conjugate(other)))
            found = found or one != 0.0
    return found


@helper
def turn_block(to, rows, n, matrix, start, size, values):
    """Replace columns of a basis by those turned with the eigenvectors of a block."""
    words, numbers = 1 + 6 * size + 2 * size * size, 3 + 5 * size
    call = malloc(lapack.CALL_BYTES + 16 + words * ITEM + numbers * 4)
    work = call + lapack.CALL_BYTES + 16
    lapack.enter_call(call, lapack.LOWER, size, size)
    space = lapack.Workspace(work, words, work + words * ITEM)
    solve_symmetric(call, matrix, size, values, space)
    line = floats(work)
    for i in range(rows):
        at = floats(to + (i * n + start) * ITEM)
        for j in range(size):
            total = 0.0
            for k in range(size):
                total += at[k] * load_float(matrix, (j * size + k) * ITEM)
            line[j] = total
        for j in range(size):
            at[j] = line[j]
    free(call)


def turned_basis_forward(frame, id, refs, task):
    """References: no parameters, the basis, the values, the message, the output."""
    v, w = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    message, out = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    rows, n = lapack.size_along(out, 2), lapack.size_along(out, 1)
    step, matrix = lapack.stride_along(w, 1), 0
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = load_i64(out, ARRAY_DATA) + k * rows * n * ITEM
        lapack.copy_matrix(to, lapack.batch_item(v, 2, out, 2, k), v)
        values, told = lapack.batch_item(w, 1, out, 2, k), lapack.batch_item(message, 2, out, 2, k)
        first, last = load_f64(values, 0), load_f64(values, (n - 1) * step)
        slack = max(abs(first), abs(last)) * 8.0 * n * 2.220446049250313e-16  # CLOSE · n · eps
        start = 0
        while start < n:
            stop = block_end(values, step, start, n, slack)
            size = stop - start
            if size > 1:
                matrix = malloc(n * n * ITEM + n * 8) if matrix == 0 else matrix
                if read_block(matrix, told, message, start, size):
                    turn_block(to, rows, n, matrix, start, size, matrix + n * n * ITEM)
            start = stop
    free(matrix)


def _turned_shape(v, w, message):
    """The shape of a turned basis; raises ValueError for shapes that do not fit."""
    if v[-1:] != w[-1:] or v[-1:] != message[-1:]:
        raise ValueError(f"turned_basis does not accept operands of shapes {v}, {w} and {message}")
    return (*np.broadcast_shapes(v[:-2], w[:-1], message[:-2]), *v[-2:])


def turned_vjp(np, g, out, _v, w, message):
    """Linear in the basis; what turns it has no further derivative."""
    n = w.shape[-1]
    turn = turned_basis(np.eye(n, dtype=w.dtype), w, message)
    return np.matmul(g, adjoint(np, turn)), None, None


def turned_batched(np, t, _out, v, w, message):
    """Operands of fewer axes than the result get theirs after that of the batch."""
    ndim = _out.ndim
    given = [
        x if one is None else np.aligned(one, n)
        for one, x, n in zip(t, (v, w, message), (ndim, ndim - 1, ndim), strict=True)
    ]
    return turned_basis(*given)


def first_batched(function):
    """The batching rule of what depends on its first operand alone."""

    def batched(np, t, _out, *operands):
        count = next(len(one) for one in t if one is not None)
        first = t[0]
        if first is None:
            first = np.broadcast_to(operands[0], (count, *operands[0].shape))
        given = [x if one is None else one for one, x in zip(t, operands, strict=True)]
        return function(first, *given[1:])

    return batched


@declared(
    vjp=turned_vjp,
    shape=_turned_shape,
    batched=turned_batched,
    value_kernel=turned_basis_forward,
    complex_kernel=turned_basis_forward,
    helpers=(solve_symmetric, block_end, read_block, turn_block),
    example="tg._core.operations.symmetric_eigenvalues.turned_basis("
    "x[:, None] * x, np.arange(len(x)) // 2.0, np.sin(np.arange(len(x)) * np.ones((len(x), 1))))",
)
def _turned_basis(v, w, message):
    """A basis whose columns of equal values are turned to the eigenvectors of a matrix."""
    shape = _turned_shape(v.shape, w.shape, message.shape)
    out = np.array(np.broadcast_to(v, shape), np.result_type(v, message), order="C")
    if w.shape[-1] < 2 or not np.any(np.abs(np.diff(w)) <= tolerance(np, w, w.shape[-1])):
        return out
    w = np.broadcast_to(w, (*shape[:-2], shape[-1]))
    message = np.broadcast_to(message, (*shape[:-2], shape[-1], shape[-1]))
    for at in np.ndindex(shape[:-2]):
        apart = np.abs(np.diff(w[at])) > tolerance(np, w[at], shape[-1])
        edges = [0, *(np.flatnonzero(apart) + 1), shape[-1]]
        for start, stop in zip(edges, edges[1:], strict=False):
            block = message[at][start:stop, start:stop]
            if stop - start > 1 and np.any(block):
                vectors = np.linalg.eigh(0.5 * (block + adjoint(np, block)))[1]
                out[at][:, start:stop] = out[at][:, start:stop] @ vectors
    return out


turned_basis = _turned_basis


def _own(np, p, turn):
    """The diagonals of turnᴴ p turn."""
    kept = np.conj(turn) if turn.dtype.kind == "c" else turn
    return np.sum(np.matmul(p, turn) * kept, axis=-2)


def message_of(np, p, w):
    """The description of a matrix: its blocks of values that are equal to others."""
    _, equal = inverse_gaps(np, w, w.shape[-1])
    shared = np.sum(np.where(equal, 1.0, 0.0), axis=-1, keepdims=True) > 1.0
    return np.where(np.logical_and(equal, shared), p, 0.0)


# --- the derivative with respect to the values ----------------------------------------------------


def spread_vjp(np, g, out, _values, _message, w):
    """The eigenvalues of vᵀ H v in each space of equal values, else the diagonal; the message."""
    symmetric = 0.5 * (g + adjoint(np, g))
    turn = turned_basis(np.eye(w.shape[-1], dtype=w.dtype), w, symmetric)
    moved = _own(np, symmetric, turn)
    return moved, message_of(np, symmetric, w), None


def spread_jvp(np, t, out, _values, _message, w):
    """The same forwards: the message about the basis in which derivatives separate."""
    if t[0] is None:
        return None
    if t[1] is None:
        return t[0][..., None] * np.eye(w.shape[-1], dtype=w.dtype)
    turn = turned_basis(np.eye(w.shape[-1], dtype=w.dtype), w, t[1])
    return np.matmul(turn * t[0][..., None, :], adjoint(np, turn))


def spread_forward(frame, id, refs, task):
    """References: no parameters, the diagonals, the message, the values, the output."""
    given, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    n, step = lapack.size_along(out, 1), lapack.stride_along(given, 1)
    apart = lapack.parts_stride(given)
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to, at = load_i64(out, ARRAY_DATA), lapack.batch_item(given, 1, out, 2, k)
        to += k * n * n * ITEM
        memset(to, 0, n * n * ITEM)
        for i in range(n):
            floats(to)[i * (n + 1)] = lapack.load_number(at + i * step, apart)


def _spread_shape(values, message, w):
    """The shape of the matrices; raises ValueError for shapes that do not fit."""
    if values[-1:] != w[-1:]:
        raise ValueError(f"spread does not accept operands of shapes {values}, {message} and {w}")
    return (*values, values[-1])


@declared(
    vjp=spread_vjp,
    jvp=spread_jvp,
    shape=_spread_shape,
    batched=first_batched(lambda *given: _spread(*given)),
    value_kernel=spread_forward,
    complex_kernel=spread_forward,
    example="tg._core.operations.symmetric_eigenvalues.spread("
    "x * x, np.zeros((len(x), len(x))), np.arange(len(x)) + 0.0)",
)
def _spread(values, message, w):
    """Diagonal matrices of derivatives, which in turned bases are none."""
    return values[..., None] * np.eye(values.shape[-1], dtype=values.dtype)


# --- how values move apart ------------------------------------------------------------------------


def told_vjp(np, g, out, _moved, _message, p, w):
    """The message for any adjoint that comes back."""
    return g, message_of(np, p, w) * np.ones_like(g)[..., None], None, None


def told_forward(frame, id, refs, task):
    """References: no parameters, what moves, the message, vᵀ H v, the values, the output."""
    moved, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 5 * REFERENCE_BYTES)
    n, step = lapack.size_along(out, 1), lapack.stride_along(moved, 1)
    apart = lapack.parts_stride(moved)
    for k in range(lapack.batch_size(out, 1) if n > 0 else 0):
        to, at = load_i64(out, ARRAY_DATA) + k * n * ITEM, lapack.batch_item(moved, 1, out, 1, k)
        for i in range(n):
            floats(to)[i] = lapack.load_number(at + i * step, apart)


def _told_shape(moved, message, p, w):
    """The shape of what moves; raises ValueError for shapes that do not fit."""
    if moved[-1:] != w[-1:]:
        raise ValueError(f"told does not accept operands of shapes {moved} and {w}")
    return moved


@declared(
    vjp=told_vjp,
    shape=_told_shape,
    batched=first_batched(lambda *given: _told(*given)),
    value_kernel=told_forward,
    complex_kernel=told_forward,
    example="tg._core.operations.symmetric_eigenvalues.told("
    "x * x, np.zeros((len(x), len(x))), np.ones((len(x), len(x))), np.arange(len(x)) + 0.0)",
)
def _told(moved, message, p, w):
    """The tangents of values, in the basis in which equal values separate."""
    return np.array(moved)


def moved_apart(np, p, message, w):
    """Tangents of values along H, given vᵀ H v: for equal ones its eigenvalues in their space."""
    turn = turned_basis(np.eye(w.shape[-1], dtype=w.dtype), w, p)
    return _told(_own(np, p, turn), message, p, w)


spread = _spread
told = _told


# --- Eigenvalues and eigenvectors of symmetric matrices, under NumPy's names ----------------------


def _shape(a, lower=True):
    """The shape of eigenvalues and vectors stacked; raises ValueError where NumPy does."""
    if len(a) < 2 or a[-1] != a[-2]:
        raise ValueError(f"eigh does not accept an operand of shape {a}")
    return (*a[:-2], a[-1] + a[-1] * a[-1])


def _not_converged(answer):
    return np.linalg.LinAlgError("Eigenvalues did not converge")


def _parts(x, a):
    n = a.shape[-1]
    w, v = parts_of(x, (n,), (n, n))
    return np.real(w), v


def diagonal_matrix(np, x):
    """Matrices with these diagonals."""
    return x[..., None] * np.eye(x.shape[-1], dtype=x.dtype)


def eigh_vjp(np, g, out, _a, lower=True):
    """With F = 1 / (wⱼ − wᵢ): ā = v (w̄ + F ∘ (vᵀ v̄ − v̄ᵀ v) / 2) vᵀ (Giles 2008, section 3.1)."""
    (w, v), (gw, gv) = _parts(out, _a), _parts(g, _a)
    return (_adjoint(np, w, v, diagonal_matrix(np, gw), gv, gw),)


def _adjoint(np, w, v, inner, gv, gw):
    """The adjoint of matrices from a part inside of their bases, and that of the vectors."""
    inverse, equal = inverse_gaps(np, w, w.shape[-1])
    turned = adjoint(np, v)
    m = np.matmul(turned, gv)
    turn = m - adjoint(np, m)
    warn_of_basis("eigh", equal, turn, (m,), gw)
    return np.matmul(np.matmul(v, inner + 0.5 * inverse * turn), turned)


def _tangents(np, t, w, v):
    """vᵀ ȧ v, the tangents of the vectors, v (F ∘ that), and where values are equal."""
    p = np.matmul(np.matmul(adjoint(np, v), 0.5 * (t[0] + adjoint(np, t[0]))), v)
    inverse, equal = inverse_gaps(np, w, w.shape[-1])
    return p, np.matmul(v, inverse * p), equal


def eigh_jvp(np, t, out, _a, lower=True):
    """With P = vᵀ ȧ v: ẇ is its diagonal, v̇ = v (F ∘ P)."""
    w, v = _parts(out, _a)
    p, moved, equal = _tangents(np, t, w, v)
    note_basis(v, equal)
    return packed(np, np.real(np.diagonal(p, axis1=-2, axis2=-1)), moved, own=(1, 2))


@declared(
    vjp=eigh_vjp,
    jvp=eigh_jvp,
    shape=_shape,
    value_kernel=eigh_forward,
    complex_kernel=eigh_forward,
    helpers=(write_values, wanted_words, solve_symmetric),
    refusal=_not_converged,
    example="np.linalg.eigh(np.diag(np.arange(len(x)) + 1.0) + 0.1 * x * x[:, None])[1] ** 2",
    examples=(
        "np.linalg.eigh(x @ x.T + np.diag(np.arange(len(x)) + 1.0))[0]",
        "np.linalg.eigh(x @ x.T + np.diag(np.arange(len(x)) + 1.0), 'U')[1] ** 2",
        "np.linalg.eigh(x[:, None, :] * x[:, :, None] + np.diag(np.arange(len(x.T)) + 1.0))[1]**2",
    ),
    awkward="equal eigenvalues: right for what does not depend on the basis of their space",
)
def _eigh(a, *, lower=True):
    """The eigenvalues of symmetric matrices and their eigenvectors, stacked."""
    w, v = np.linalg.eigh(a, UPLO="L" if lower else "U")
    return packed(np, w, v, own=(1, 2))


# --- eigenvalues alone ----------------------------------------------------------------------------


def _shape_of_values(a, lower=True):
    """That of eigenvalues, vectors, and the message of `turned_basis`."""
    shape = _shape(a)
    return (*a[:-2], shape[-1] + a[-1] * a[-1])


def _parts_of_values(x, a):
    n = a.shape[-1]
    w, v, message = parts_of(x, (n,), (n, n), (n, n))
    return np.real(w), v, message


def eigvalsh_vjp(np, g, out, _a, lower=True):
    """ā = v w̄ vᵀ; in second derivatives the basis is turned where values are equal."""
    (w, v, message), (gw, gv, told) = _parts_of_values(out, _a), _parts_of_values(g, _a)
    v, gv = (turned_basis(x, w, told) for x in (v, gv))
    return (_adjoint(np, w, v, spread(gw, message, w), gv, None),)


def eigvalsh_jvp(np, t, out, _a, lower=True):
    """Equal eigenvalues separate as those of vᵀ ȧ v in their space."""
    w, v, message = _parts_of_values(out, _a)
    p, moved, _ = _tangents(np, t, w, v)
    parts = np.real(moved_apart(np, p, message, w)), moved, message_of(np, p, w)
    return packed(np, *parts, own=(1, 2, 2))


@declared(
    vjp=eigvalsh_vjp,
    jvp=eigvalsh_jvp,
    shape=_shape_of_values,
    value_kernel=eigh_forward,
    complex_kernel=eigh_forward,
    helpers=(write_values, wanted_words, solve_symmetric),
    refusal=_not_converged,
    example="np.linalg.eigvalsh(np.diag(np.arange(len(x)) + 1.0) + 0.1 * x * x[:, None])",
    examples=(
        "np.linalg.eigvalsh(x @ x.T)",
        "np.linalg.eigvalsh(x[:, None, :] * x[:, :, None] + np.diag(np.arange(len(x.T)) + 1.0))",
    ),
    awkward="equal eigenvalues: right for functions that treat them alike, to the second order",
)
def _eigvalsh(a, *, lower=True):
    """The eigenvalues of symmetric matrices, the eigenvectors and zeros, stacked."""
    w, v = np.linalg.eigh(a, UPLO="L" if lower else "U")
    return packed(np, w, v, np.zeros_like(v), own=(1, 2, 2))


# --- public ---------------------------------------------------------------------------------------


@functools.cache
def _result():
    """NumPy's class of results."""
    return type(np.linalg.eigh(np.ones((1, 1))))


def _is_lower(UPLO) -> bool:
    letter = UPLO.upper()
    if letter not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return letter == "L"


@function("linalg.eigh", complex=alike)
def eigh(a, UPLO="L"):
    """Compute the eigenvalues and eigenvectors of symmetric (Hermitian) matrices.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Symmetric matrices.

    Returns
    -------
    EighResult
        A named tuple of `eigenvalues`, of shape (…, M), in ascending order, and `eigenvectors`, of
        shape (…, M, M): columns of norm 1.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not square, or the algorithm does not converge.

    Notes
    -----
    The derivative treats `a` as symmetric, and the gradient is symmetric.

    The signs of the eigenvectors, and the basis of the space of equal eigenvalues, are LAPACK's
    choice. A function that depends on neither, and is symmetric in equal eigenvalues, has the right
    derivative. For other functions eager calls warn: the derivative ignores how a change of the
    matrix mixes these vectors.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> a = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> tg.grad(lambda a: np.linalg.eigh(a).eigenvalues[0])(a)
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    a, lower = unlisted(a), _is_lower(UPLO)
    if not is_tensor(a) and type(a) is not ComplexTensor:
        return np.linalg.eigh(a, UPLO=UPLO)
    n = shape_of(a)[-1:]
    w, v = parts_of(_eigh(a, lower=lower), n, 2 * n)
    learn_whether_equal("eigh", w.real)
    return _result()(w.real, v)


@function("linalg.eigvalsh", complex=alike)
def eigvalsh(a, UPLO="L"):
    """Compute the eigenvalues of symmetric (Hermitian) matrices, in ascending order.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Symmetric matrices.

    Returns
    -------
    Tensor or ndarray, shape (…, M)
        The eigenvalues.

    Notes
    -----
    The gradient is v diag(w̄) vᵀ with the eigenvectors v and the adjoint w̄. Where eigenvalues are
    equal it is right for every function that is symmetric in them, to second order, and a
    subgradient of the largest one.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2))(np.diag([1.0, 1.0, 2.0]))
    array([[2., 0., 0.],
           [0., 2., 0.],
           [0., 0., 4.]])
    """
    a, lower = unlisted(a), _is_lower(UPLO)
    if not is_tensor(a) and type(a) is not ComplexTensor:
        return np.linalg.eigvalsh(a, UPLO=UPLO)
    n = shape_of(a)[-1:]
    return parts_of(_eigvalsh(a, lower=lower), n, 2 * n, 2 * n)[0].real
