"""Second derivatives of functions of eigenvalues where these are equal.

The gradient of such a function is v diag(w̄) vᵀ. Along H the equal values of a space separate as
the eigenvalues of vᵀ H v inside the space do, in the basis of its eigenvectors, and so do the
derivatives w̄. Therefore the derivative of diag(w̄) passes the eigenvalues on to w̄, and vᵀ H v as
a message to the row of the eigenvalues: an output of that row that is zero and has no other reader.
The adjoint that comes back to that row is in the basis that the message gives.
"""

from __future__ import annotations

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM, floats, load_float, store_float
from ..codegen.intrinsics import free, helper, load_f64, load_i64, malloc, memset
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from .declaring import adjoint, declared
from .equal_values import inverse_gaps, tolerance
from .spectral_kernels import solve_symmetric

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
    example="tg._core.operations.turned_bases.turned_basis("
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
    example="tg._core.operations.turned_bases.spread("
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
    example="tg._core.operations.turned_bases.told("
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
