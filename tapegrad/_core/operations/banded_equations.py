"""Equations with banded and Toeplitz matrices."""

from __future__ import annotations

import importlib

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import (
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    memset,
    store_f64,
    store_i32,
)
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from .declaring import adjoint, conjugate, declared, transposed

# --- Equations with banded matrices, of which the diagonals are kept ------------------------------


def in_scipy(name: str):
    return getattr(importlib.import_module("scipy.linalg"), name)


def each(solve, ab, b):
    """The solutions of a batch of equations given by several arrays."""
    front = np.broadcast_shapes(*[x.shape[:-2] for x in (*ab, b)])
    ab = [np.broadcast_to(x, (*front, *x.shape[-2:])) for x in ab]
    b = np.broadcast_to(b, (*front, *b.shape[-2:]))
    dtype = np.result_type(*ab, b)
    out = np.empty(b.shape, dtype if dtype.kind in "fc" else np.float64)
    for at in np.ndindex(front if b.size else (0,)):
        out[at] = solve(*[x[at] for x in ab], b[at])
    return out


# --- bands ----------------------------------------------------------------------------------------


def _banded_shape(ab, b, lower, upper):
    """The shape of a solution; raises ValueError where the value does."""
    fits = len(ab) > 1 and len(b) > 1 and ab[-1] == b[-2] and ab[-2] == lower + upper + 1
    if not fits or lower < 0 or upper < 0:
        raise ValueError(f"solve_banded does not accept operands of shapes {ab} and {b}")
    return (*np.broadcast_shapes(ab[:-2], b[:-2]), *b[-2:])


def _singular(answer):
    return np.linalg.LinAlgError("singular matrix")


@helper
def enter_band(call, n, lower, upper, columns, leading):
    """Write the arguments of `dgbsv`: numbers, 8 bytes apart, and the result."""
    store_i32(call, 0, n)
    store_i32(call, 8, lower)
    store_i32(call, 16, upper)
    store_i32(call, 24, columns)
    store_i32(call, 32, leading)
    store_i32(call, 40, 0)


def solve_banded_forward(frame, id, refs, task):
    """References: the numbers of diagonals, the bands, the right-hand sides, the output.

    LAPACK takes columns of a band, with room above them for what pivoting adds.
    """
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    lower, upper = load_i64(words, 0), load_i64(words, 8)
    ab, b = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    n, columns = lapack.size_along(out, 2), lapack.size_along(out, 1)
    leading, down, along = (
        2 * lower + upper + 1,
        lapack.stride_along(ab, 2),
        lapack.stride_along(ab, 1),
    )
    band = malloc((leading * n + n * columns) * 8 + n * 8 + 48)
    x = band + leading * n * 8
    pivots, call = x + n * columns * 8, x + n * columns * 8 + n * 8
    for k in range(lapack.batch_size(out, 2) if n * columns > 0 else 0):
        at = lapack.batch_item(ab, 2, out, 2, k)
        memset(band, 0, leading * n * 8)
        for j in range(n):
            for i in range(max(upper - j, 0), min(upper + n - j, lower + upper + 1)):
                value = load_f64(at, i * down + j * along)
                store_f64(band, (j * leading + lower + i) * 8, value)
        lapack.copy_turned(x, lapack.batch_item(b, 2, out, 2, k), b, 2)
        enter_band(call, n, lower, upper, columns, leading)
        lapack.gbsv(
            call, call + 8, call + 16, call + 24, band, call + 32, pivots, x, call, call + 40
        )
        if load_i32(call, 40) != 0:
            lapack.refuse(frame, 1)
            break
        lapack.write_turned(load_i64(out, ARRAY_DATA) + k * n * columns * 8, x, n, columns)
    free(band)


def padded(np, x):
    """An array with a zero after the last element along the last axis."""
    return np.concatenate([x, np.zeros((*x.shape[:-1], 1), x.dtype)], axis=-1)


def _places(numpy, n, places):
    """Places along an axis of n elements; those outside are that of the zero after them."""
    return numpy.where((places >= 0) & (places < n), places, n)


def _diagonals(n, lower, upper):
    """For each diagonal in a band, from the highest on: how far its rows are below its columns."""
    return np.arange(-upper, lower + 1)[:, None], np.arange(n)


def transposed_band(namespace, ab, lower, upper):
    """The bands of the transposes."""
    n = ab.shape[-1]
    below, at = _diagonals(n, lower, upper)
    rows = np.broadcast_to((below + upper), (lower + upper + 1, n))
    places = _places(np, n, at - below)
    return padded(namespace, ab)[..., rows, places][..., ::-1, :]


def _from_rows(namespace, x, lower, upper):
    """The element of a vector in the row of each element of a band, along a new axis; 0 outside."""
    n = x.shape[-2]
    below, at = _diagonals(n, lower, upper)
    columns = padded(namespace, transposed(namespace, x))
    return columns[..., _places(np, n, at + below)]


def band_of_product(np, x, y, lower, upper):
    """The band of x yᵀ."""
    rows = _from_rows(np, x, lower, upper)
    return np.sum(rows * transposed(np, y)[..., :, None, :], axis=-3)


def band_times(np, ab, x, lower, upper):
    """The products of banded matrices and others."""
    turned = transposed_band(np, ab, lower, upper)
    rows = _from_rows(np, x, upper, lower)
    return transposed(np, np.sum(turned[..., None, :, :] * rows, axis=-2))


def solve_banded_vjp(np, g, out, ab, _b, lower, upper):
    """With a x = b: b̄ = a⁻ᴴ x̄, and the band of −b̄ xᴴ."""
    turned = conjugate(np, transposed_band(np, ab, lower, upper))
    back = solve_banded(turned, g, lower=upper, upper=lower)
    return (lambda: -band_of_product(np, back, conjugate(np, out), lower, upper)), back


def solve_banded_jvp(np, t, out, ab, _b, lower, upper):
    """a ẋ = ḃ − ȧ x."""
    right = t[1]
    if t[0] is not None:
        product = band_times(np, t[0], out, lower, upper)
        right = -product if right is None else right - product
    return solve_banded(ab, right, lower=lower, upper=upper)


_BANDED = "tg.scipy.linalg.solve_banded"


@declared(
    vjp=solve_banded_vjp,
    jvp=solve_banded_jvp,
    shape=_banded_shape,
    value_kernel=solve_banded_forward,
    helpers=(enter_band,),
    refusal=_singular,
    example=f"{_BANDED}((1, 1), np.stack([x, 0.0 * x + 5.0, x]), x)",
    examples=(
        f"{_BANDED}((2, 0), x + np.array([[4.0], [0.0], [0.0]]), x.T) if len(x) == 3 else x",
        f"{_BANDED}((0, 2), x - np.array([[0.0], [0.0], [4.0]]), x[0]) if len(x) == 3 else x",
        f"{_BANDED}((1, 1), x + np.array([[0.0], [6.0], [0.0]]), x.T) if len(x) == 3 else x",
    ),
    complex_example=f"{_BANDED}((1, 1), np.stack([x, 1j * x + 5.0, x]), x)",
    complex_examples=(
        f"{_BANDED}((2, 0), 1j * x + np.array([[4.0], [0.0], [0.0]]), x.T) if len(x) == 3 else x",
    ),
)
def _solve_banded(ab, b, *, lower, upper):
    """solve_banded(ab, b, lower, upper): x of a @ x = b for matrices with few diagonals.

    `ab` has shape (…, lower + upper + 1, M), the diagonals from the highest on, where element
    (i, j) is ab[upper + i − j, j]; `b` has (…, M, K), with as many axes. Raises
    numpy.linalg.LinAlgError for a singular matrix.
    """
    _banded_shape(ab.shape, b.shape, lower, upper)
    solve = in_scipy("solve_banded")
    return each(lambda ab, b: solve((lower, upper), ab, b, check_finite=False), [ab], b)


solve_banded = _solve_banded


# --- bands of symmetric matrices ------------------------------------------------------------------


def _definite_shape(ab, b, lower=False):
    """The shape of a solution; raises ValueError where the value does."""
    if len(ab) < 2 or len(b) < 2 or ab[-1] != b[-2] or ab[-2] < 1:
        raise ValueError(f"solveh_banded does not accept operands of shapes {ab} and {b}")
    return (*np.broadcast_shapes(ab[:-2], b[:-2]), *b[-2:])


def _not_definite(answer):
    return np.linalg.LinAlgError(f"{answer}th leading minor not positive definite")


def solveh_banded_forward(frame, id, refs, task):
    """References: `lower`, the bands, the right-hand sides, the output."""
    is_lower = load_i64(load_i64(load_i64(refs, 0), ARRAY_DATA), 0) != 0
    ab, b = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    n, columns, leading = (
        lapack.size_along(out, 2),
        lapack.size_along(out, 1),
        lapack.size_along(ab, 2),
    )
    band = malloc((leading * n + n * columns) * 8 + lapack.CALL_BYTES + 16)
    x = band + leading * n * 8
    call = x + n * columns * 8
    rows, width, high = call + lapack.ROWS, call + lapack.CALL_BYTES, call + lapack.CALL_BYTES + 8
    for k in range(lapack.batch_size(out, 2) if n * columns > 0 else 0):
        lapack.copy_turned(band, lapack.batch_item(ab, 2, out, 2, k), ab, 2)
        lapack.copy_turned(x, lapack.batch_item(b, 2, out, 2, k), b, 2)
        lapack.enter_call(call, lapack.LOWER if is_lower else lapack.UPPER, n, columns)
        store_i32(width, 0, leading - 1)
        store_i32(high, 0, leading)
        lapack.pbsv(
            call + lapack.LETTER,
            rows,
            width,
            call + lapack.COLUMNS,
            band,
            high,
            x,
            rows,
            call + lapack.ANSWER,
        )
        if load_i32(call, lapack.ANSWER) != 0:
            lapack.refuse(frame, load_i32(call, lapack.ANSWER))
            break
        lapack.write_turned(load_i64(out, ARRAY_DATA) + k * n * columns * 8, x, n, columns)
    free(band)


def general_band(np, ab, lower):
    """All diagonals of Hermitian matrices of which those of one triangle are given."""
    width = ab.shape[-2] - 1
    if lower:
        above = conjugate(np, transposed_band(np, ab, width, 0)) if width else ab
        return np.concatenate([above[..., :width, :], ab], axis=-2)
    below = conjugate(np, transposed_band(np, ab, 0, width)) if width else ab
    return np.concatenate([ab, below[..., 1:, :]], axis=-2)


def _folded(np, band, lower):
    """The adjoint of one triangle's diagonals from that of all."""
    width = band.shape[-2] // 2
    turned = conjugate(np, transposed_band(np, band, width, width))
    both = band + turned
    middle = 0.5 * both[..., width : width + 1, :]
    if lower:
        return np.concatenate([middle, both[..., width + 1 :, :]], axis=-2)
    return np.concatenate([both[..., :width, :], middle], axis=-2)


def solveh_banded_vjp(np, g, out, ab, _b, lower=False):
    """With a x = b: b̄ = a⁻¹ x̄, and the band of −b̄ xᴴ, both triangles of it."""
    back, width = solveh_banded(ab, g, lower=lower), ab.shape[-2] - 1

    def into_band():
        product = band_of_product(np, back, conjugate(np, out), width, width)
        return -_folded(np, product, lower)

    return into_band, back


def solveh_banded_jvp(np, t, out, ab, _b, lower=False):
    """a ẋ = ḃ − ȧ x."""
    right, width = t[1], ab.shape[-2] - 1
    if t[0] is not None:
        product = band_times(np, general_band(np, t[0], lower), out, width, width)
        right = -product if right is None else right - product
    return solveh_banded(ab, right, lower=lower)


_DEFINITE = "tg.scipy.linalg.solveh_banded"


@declared(
    vjp=solveh_banded_vjp,
    jvp=solveh_banded_jvp,
    shape=_definite_shape,
    value_kernel=solveh_banded_forward,
    refusal=_not_definite,
    example=f"{_DEFINITE}(np.stack([x, x * x + 5.0]), x)",
    examples=(
        f"{_DEFINITE}(x + np.array([[9.0], [0.0], [0.0]]), x.T, lower=True) if len(x) == 3 else x",
        f"{_DEFINITE}(x + np.array([[0.0], [0.0], [9.0]]), x[0]) if len(x) == 3 else x",
    ),
    complex_example=f"{_DEFINITE}(np.stack([(1.0 + 0.5j) * x, x * x + 5.0]), x + 1j)",
    complex_examples=(
        f"{_DEFINITE}(x * np.array([[1.0], [1j], [-0.5j]]) + np.array([[9.0], [0.0], [0.0]]), x.T,"
        " lower=True) if len(x) == 3 else x",
    ),
)
def _solveh_banded(ab, b, *, lower=False):
    """solveh_banded(ab, b, lower): x of a @ x = b for positive definite matrices of few diagonals.

    `ab` has shape (…, U + 1, M): the diagonals of one triangle, from the highest on. Raises
    numpy.linalg.LinAlgError for a matrix that is not positive definite.
    """
    _definite_shape(ab.shape, b.shape)
    solve = in_scipy("solveh_banded")
    return each(lambda ab, b: solve(ab, b, lower=lower, check_finite=False), [ab], b)


solveh_banded = _solveh_banded


# --- Equations with Toeplitz matrices, of which the first column and row are kept -----------------


def _turned(np, c, r):
    """The first column and row of the transposes; the diagonal is that of `c`."""
    return np.concatenate([c[..., :1, :], r[..., 1:, :]], axis=-2), c


def _sums_along(namespace, product):
    """The sums of the diagonals of matrices, from the main one downwards, as columns."""
    n = product.shape[-1]
    flat = padded(namespace, namespace.reshape(product, (*product.shape[:-2], n * n)))
    row, column = np.arange(n)[:, None] + np.arange(n), np.arange(n)
    places = np.where(row < n, row * n + column, n * n)
    return namespace.sum(flat[..., places], axis=-1)[..., None]


def solve_toeplitz_vjp(np, g, out, c, r, _b):
    """With a x = b: b̄ = a⁻ᴴ x̄, and the sums of −b̄ xᴴ along diagonals."""
    column, row = _turned(np, c, r)
    if c.dtype.kind == "c":
        column, row = np.conj(column), np.conj(row)
    back = solve_toeplitz(column, row, g)
    product = -np.matmul(back, adjoint(np, out))

    def into_row():
        sums = _sums_along(np, np.swapaxes(product, -1, -2))
        return np.concatenate([0.0 * sums[..., :1, :], sums[..., 1:, :]], axis=-2)

    return (lambda: _sums_along(np, product)), into_row, back


_TOEPLITZ = "tg.scipy.linalg.solve_toeplitz"


@declared(
    vjp=solve_toeplitz_vjp,
    takes_complex=True,
    example=f"{_TOEPLITZ}(x + 5.0 * (np.arange(len(x)) == 0), x * x)",
    examples=(
        f"{_TOEPLITZ}((x[0] + 5.0 * (np.arange(len(x.T)) == 0), x[-1]), x.T) if x.size else x",
        f"{_TOEPLITZ}((x[0] + 5.0 * (np.arange(len(x.T)) == 0), x[0]), x[-1]) if x.size else x",
    ),
    complex_example=f"{_TOEPLITZ}((1.0 + 0.5j) * x + 5.0 * (np.arange(len(x)) == 0), x * x)",
    complex_examples=(
        f"{_TOEPLITZ}((x[0] + 5.0 * (np.arange(len(x.T)) == 0), 1j * x[-1]), x.T) if x.size else x",
    ),
    awkward="the first element of the row is not read: that of the column counts",
)
def _solve_toeplitz(c, r, b):
    """solve_toeplitz(c, r, b): x of a @ x = b for matrices with equal elements on each diagonal.

    `c` and `r` have shape (…, M, 1), the first column and row; `b` has (…, M, K), all as many axes.
    Levinson's recursion: M² operations. Raises numpy.linalg.LinAlgError where a leading minor is 0.
    """
    solve = in_scipy("solve_toeplitz")
    return each(lambda c, r, b: solve((c[:, 0], r[:, 0]), b, check_finite=False), [c, r], b)


solve_toeplitz = _solve_toeplitz
