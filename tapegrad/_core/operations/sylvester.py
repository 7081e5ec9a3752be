"""Equations of matrices: banded and Toeplitz ones, Sylvester's, Lyapunov's, Riccati's."""

from __future__ import annotations

import functools
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

# --- banded equations -----------------------------------------------------------------------------
# Equations with banded and Toeplitz matrices.


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


# --- sylvester ------------------------------------------------------------------------------------
# Equations of matrices: Sylvester's, Lyapunov's, Riccati's; the polar decomposition.


# --- Linear equations of matrices: of Sylvester, of Lyapunov --------------------------------------


@functools.cache
def of_scipy(name: str):
    """A function of scipy.linalg, which is imported when one is first needed."""
    return getattr(importlib.import_module("scipy.linalg"), name)


def by_matrix(function, *operands):
    """The result of a function for each matrix of a batch; the axes before the last two broadcast.

    A batch of none has the shape and dtype of the last operand.
    """
    operands = tuple([np.asarray(x) for x in operands])
    batch = np.broadcast_shapes(*[x.shape[:-2] for x in operands])
    if not batch:
        return function(*operands)
    wide = [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in operands]
    made = [function(*[x[at] for x in wide]) for at in np.ndindex(batch)]
    if not made:
        return np.zeros(wide[-1].shape, inexact(*operands))
    return np.stack(made).reshape(*batch, *made[0].shape)


def inexact(*operands):
    """The dtype of a result of floats or complex numbers."""
    return np.result_type(np.float32, *operands)


def check_square(name: str, **matrices) -> None:
    """Raise ValueError for a matrix that is not square."""
    for argument, x in matrices.items():
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(
                f"tapegrad.scipy.linalg.{name}: {argument} has shape {x.shape}; it must be a "
                "square matrix"
            )


# --- Sylvester ------------------------------------------------------------------------------------


def _solved_by_factors(name, r, s, f):
    """y of r @ y + y @ sᴴ = f, for Schur factors."""
    (trsyl,) = of_scipy("get_lapack_funcs")(("trsyl",), (r, s, f))
    y, scale, answer = trsyl(r, s, f, tranb="C")
    if answer:
        raise np.linalg.LinAlgError(
            f"tapegrad.scipy.linalg.{name}: the equation is singular: an eigenvalue of the one "
            "side is minus one of the other, or nearly so"
        )
    return scale * y


def _sylvester(a, b, q):
    """The algorithm of Bartels and Stewart, which SciPy has too; all in one dtype."""
    check_square("solve_sylvester", a=a, b=b)
    if q.shape != (len(a), len(b)):
        raise ValueError(
            f"tapegrad.scipy.linalg.solve_sylvester: q has shape {q.shape}; with a of {a.shape} "
            f"and b of {b.shape} it must be {(len(a), len(b))}"
        )
    a, b, q = (np.asarray(x, inexact(a, b, q)) for x in (a, b, q))
    if not q.size:
        return np.zeros_like(q)
    (r, u), (s, v) = of_scipy("schur")(a), of_scipy("schur")(np.conj(b.T))
    y = _solved_by_factors("solve_sylvester", r, s, np.conj(u.T) @ q @ v)
    return u @ y @ np.conj(v.T)


def solve_sylvester_vjp(np, g, out, a, b, _q):
    """y of aᴴ y + y bᴴ = x̄ is q̄; ā = −y xᴴ, b̄ = −xᴴ y."""
    y = solve_sylvester(adjoint(np, a), adjoint(np, b), g)
    return (
        lambda: -np.matmul(y, adjoint(np, out)),
        lambda: -np.matmul(adjoint(np, out), y),
        y,
    )


def solve_sylvester_jvp(np, t, out, a, b, _q):
    """The same equation, with q̇ − ȧ x − x ḃ."""
    right = [
        t[2],
        None if t[0] is None else -np.matmul(t[0], out),
        None if t[1] is None else -np.matmul(out, t[1]),
    ]
    first, *others = [x for x in right if x is not None]
    return solve_sylvester(a, b, sum(others, first))


@declared(
    vjp=solve_sylvester_vjp,
    jvp=solve_sylvester_jvp,
    example="tg.scipy.linalg.solve_sylvester("
    "np.diag(x * x + 1.0), np.diag(x * x), np.cos(x[:, None] * x))",
    examples=(
        "tg.scipy.linalg.solve_sylvester(x @ x.T + np.eye(len(x)), x.T @ x + np.eye(len(x.T)), x)",
        "tg.scipy.linalg.solve_sylvester(4.0 * np.eye(len(x)), np.diag(np.arange(len(x.T))), x)"
        " if x.size else tg.scipy.linalg.solve_sylvester(x @ x.T, x.T @ x, x)",
        "tg.scipy.linalg.solve_sylvester(np.stack([x @ x.T, 0.5 * x @ x.T]), np.eye(2), x[:, :2])"
        " if x.size else tg.scipy.linalg.solve_sylvester(x @ x.T, x.T @ x, x)",
    ),
    awkward="an equation without a unique solution raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.solve_sylvester("
    "np.diag(x * x + 1.0), np.diag(1j * x * x), np.exp(1j * x[:, None] * x))",
    complex_examples=(
        "tg.scipy.linalg.solve_sylvester("
        "x @ x.T + 1j * np.eye(len(x)), x.T @ x + np.eye(len(x.T)), x)",
    ),
)
def solve_sylvester(a, b, q):
    """The solution x of a @ x + x @ b = q."""
    return by_matrix(_sylvester, a, b, q)


# --- Lyapunov -------------------------------------------------------------------------------------


def _check_alike(name, a, q) -> None:
    check_square(name, a=a, q=q)
    if a.shape != q.shape:
        raise ValueError(
            f"tapegrad.scipy.linalg.{name}: a has shape {a.shape} and q {q.shape}; they must be "
            "equal"
        )


def _continuous(a, q):
    """One Schur factor serves both sides."""
    _check_alike("solve_continuous_lyapunov", a, q)
    a, q = (np.asarray(x, inexact(a, q)) for x in (a, q))
    if not q.size:
        return np.zeros_like(q)
    r, u = of_scipy("schur")(a)
    y = _solved_by_factors("solve_continuous_lyapunov", r, r, np.conj(u.T) @ q @ u)
    return u @ y @ np.conj(u.T)


def solve_continuous_lyapunov_vjp(np, g, out, a, _q):
    """y of aᴴ y + y a = x̄ is q̄; ā = −y xᴴ − yᴴ x."""
    y = solve_continuous_lyapunov(adjoint(np, a), g)
    return (
        lambda: -np.matmul(y, adjoint(np, out)) - np.matmul(adjoint(np, y), out),
        y,
    )


def solve_continuous_lyapunov_jvp(np, t, out, a, _q):
    """The same equation, with q̇ − ȧ x − x ȧᴴ."""
    if t[0] is None:
        return solve_continuous_lyapunov(a, t[1])
    moved = np.matmul(t[0], out) + np.matmul(out, adjoint(np, t[0]))
    return solve_continuous_lyapunov(a, -moved if t[1] is None else t[1] - moved)


@declared(
    vjp=solve_continuous_lyapunov_vjp,
    jvp=solve_continuous_lyapunov_jvp,
    example="tg.scipy.linalg.solve_continuous_lyapunov("
    "np.diag(x * x + 1.0), x[:, None] * (x - 1.0))",
    examples=(
        "tg.scipy.linalg.solve_continuous_lyapunov(x @ x.T + np.eye(len(x)), np.cos(x @ x.T))",
        "tg.scipy.linalg.solve_continuous_lyapunov("
        "x[:, None, :] * x[:, :, None] + np.triu(np.ones((len(x.T),) * 2)), np.cos(x.T @ x))",
    ),
    awkward="an equation without a unique solution raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.solve_continuous_lyapunov("
    "np.diag(x * x + 1.0 + 1j) + 0.2j * x, np.exp(1j * x[:, None] * x))",
)
def solve_continuous_lyapunov(a, q):
    """The solution x of a @ x + x @ aᴴ = q."""
    return by_matrix(_continuous, a, q)


def _discrete(a, q, bilinear):
    """By one system of all elements, or by the bilinear transformation to `_continuous`."""
    _check_alike("solve_discrete_lyapunov", a, q)
    a, q = (np.asarray(x, inexact(a, q)) for x in (a, q))
    if not q.size:
        return np.zeros_like(q)
    if not bilinear:
        system = np.eye(a.size, dtype=a.dtype) - np.kron(a, np.conj(a))
        if not np.all(np.isfinite(system)):
            raise ValueError(
                "tapegrad.scipy.linalg.solve_discrete_lyapunov: products of elements of a are not "
                "finite; scale a, or give method='bilinear'"
            )
        return np.linalg.solve(system, q.reshape(-1)).reshape(q.shape)
    one = np.eye(len(a), dtype=a.dtype)
    half = np.linalg.inv(a + one)
    c = 2.0 * half @ q @ np.conj(half.T)
    return _continuous(half @ (a - one), -c)


def solve_discrete_lyapunov_vjp(np, g, out, a, _q, bilinear):
    """y of aᴴ y a − y + x̄ = 0 is q̄; ā = y a xᴴ + yᴴ a x."""
    y = solve_discrete_lyapunov(adjoint(np, a), g, bilinear=bilinear)
    return (
        lambda: (
            np.matmul(np.matmul(y, a), adjoint(np, out))
            + np.matmul(np.matmul(adjoint(np, y), a), out)
        ),
        y,
    )


def solve_discrete_lyapunov_jvp(np, t, out, a, _q, bilinear):
    """The same equation, with q̇ + ȧ x aᴴ + a x ȧᴴ."""
    right = t[1]
    if t[0] is not None:
        moved = np.matmul(np.matmul(t[0], out), adjoint(np, a))
        moved = moved + np.matmul(np.matmul(a, out), adjoint(np, t[0]))
        right = moved if right is None else right + moved
    return solve_discrete_lyapunov(a, right, bilinear=bilinear)


@declared(
    vjp=solve_discrete_lyapunov_vjp,
    jvp=solve_discrete_lyapunov_jvp,
    example="tg.scipy.linalg.solve_discrete_lyapunov(0.3 * x[:, None] * np.cos(x), np.diag(x))",
    examples=(
        "tg.scipy.linalg.solve_discrete_lyapunov("
        "0.05 * x @ x.T + np.eye(len(x), k=1), np.cos(x @ x.T), 'bilinear')",
        "tg.scipy.linalg.solve_discrete_lyapunov("
        "np.stack([0.2 * np.cos(x @ x.T), 0.1 * x @ x.T]), np.cos(x @ x.T))"
        " if x.size else tg.scipy.linalg.solve_discrete_lyapunov(x @ x.T, x @ x.T)",
    ),
    awkward="an equation without a unique solution raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.solve_discrete_lyapunov("
    "0.2 * np.exp(1j * x[:, None] * x), np.diag(x) + 1j)",
)
def solve_discrete_lyapunov(a, q, *, bilinear):
    """The solution x of a @ x @ aᴴ − x + q = 0."""
    return by_matrix(lambda a, q: _discrete(a, q, bilinear), a, q)


# --- Algebraic Riccati equations, SciPy's `solve_continuous_are` and `solve_discrete_are` ---------
# With the gain k the left side is that of a Lyapunov equation of a − b k, and k makes it
# stationary: so its derivatives are those at fixed k, and the adjoint y of the left side solves one
# Lyapunov equation of (a − b k)ᴴ.


def _product(np, *factors):
    """The product of several matrices."""
    found, *others = factors
    for one in others:
        found = np.matmul(found, one)
    return found


def _half_sum(np, g):
    """The part of an adjoint that a symmetric solution has; Hermitian for complex numbers."""
    return 0.5 * (g + adjoint(np, g))


def _divided(np, e, x):
    """e⁻¹ x e⁻ᴴ"""
    half = np.linalg.solve(e, x)
    return adjoint(np, np.linalg.solve(e, adjoint(np, half)))


def _of_arguments(np, y, x, k, closed, other):
    """Adjoints of a, b, q, r, e, s, given that of the left side; `other` enters that of e."""
    back = adjoint(np, k)
    along = lambda: 2.0 * _product(np, x, closed[0], y)
    return (
        along,
        lambda: -np.matmul(along(), back),
        y,
        lambda: _product(np, k, y, back),
        lambda: 2.0 * _product(np, x, other, y),
        lambda: -2.0 * np.matmul(y, back),
    )


def _solved(name, generalized, balanced, *matrices):
    """SciPy's solution; terms that the simple equation lacks are left out."""

    def solve(q, a, b, r, *added):
        if not a.size:
            return np.zeros(a.shape, inexact(a, b, q, r))
        if generalized:  # SciPy 1.17 balances e by the wrong factors: the solution is none
            return of_scipy(name)(a, b, q, r, *added, balanced=False)
        return of_scipy(name)(a, b, q, r, balanced=balanced)

    a, b, q, *others = matrices
    batch = np.broadcast_shapes(*[x.shape[:-2] for x in matrices])
    wide = np.broadcast_to(q, (*batch, *q.shape[-2:]))
    if not batch or not wide.size:
        return np.zeros(wide.shape, inexact(*matrices)) if batch else solve(q, a, b, *others)
    return by_matrix(solve, wide, a, b, *others)


# --- continuous -----------------------------------------------------------------------------------


def solve_continuous_are_vjp(np, g, out, *matrices, generalized, balanced):
    """y of c y eᴴ + e y cᴴ = −x̄, c = a − b k; then ā = 2 x e y and ē = 2 x c y.

    The gain k is r⁻¹ (bᴴ x e + sᴴ).
    """
    a, b, _, r, e, s = matrices
    k = np.linalg.solve(r, _product(np, adjoint(np, b), out, e) + adjoint(np, s))
    c = a - np.matmul(b, k)
    y = solve_continuous_lyapunov(np.linalg.solve(e, c), -_divided(np, e, _half_sum(np, g)))
    return _of_arguments(np, y, out, k, (e, c), c)


_SMALL = (
    "0.1 * x[:, None] * np.cos(x) - 0.5 * np.eye(len(x)), np.eye(len(x)), "
    "np.diag(x * x), np.eye(len(x)), 0.1 * x[:, None] * np.sin(x) + np.eye(len(x)), balanced=False"
)
_COMPLEX = (
    "0.1j * x[:, None] * np.cos(x) - 0.5 * np.eye(len(x)), np.diag(1j * x), "
    "np.diag(x * x), np.eye(len(x))"
)
_SYSTEM = (
    "0.2 * np.cos(x @ x.T) - 0.7 * np.eye(len(x)), x, "
    "x[:, :1] * x[:, 0] + np.eye(len(x)), x[:1].T * x[0] + np.eye(len(x.T))) if x.size else (x"
)


@declared(
    vjp=solve_continuous_are_vjp,
    example=f"tg.scipy.linalg.solve_continuous_are({_SMALL})",
    examples=(f"tg.scipy.linalg.solve_continuous_are({_SYSTEM})",),
    awkward="q and r are taken for symmetric: their adjoints are, and that of the solution",
    takes_complex=True,
    complex_example=f"tg.scipy.linalg.solve_continuous_are({_COMPLEX})",
)
def solve_continuous_are(a, b, q, r, e, s, *, generalized, balanced):
    """The solution x of aᴴ x e + eᴴ x a − (eᴴ x b + s) r⁻¹ (bᴴ x e + sᴴ) + q = 0."""
    return _solved("solve_continuous_are", generalized, balanced, a, b, q, r, e, s)


# --- discrete -------------------------------------------------------------------------------------


def solve_discrete_are_vjp(np, g, out, *matrices, generalized, balanced):
    """y of c y cᴴ − e y eᴴ = −x̄, c = a − b k; then ā = 2 x c y and ē = −2 x e y."""
    a, b, _, r, e, s = matrices
    xb = np.matmul(adjoint(np, b), out)
    k = np.linalg.solve(r + np.matmul(xb, b), np.matmul(xb, a) + adjoint(np, s))
    c = a - np.matmul(b, k)
    right = _divided(np, e, _half_sum(np, g))
    bilinear = a.shape[-1] >= 10
    y = solve_discrete_lyapunov(np.linalg.solve(e, c), right, bilinear=bilinear)
    return _of_arguments(np, y, out, k, (c, c), -e)


@declared(
    vjp=solve_discrete_are_vjp,
    example=f"tg.scipy.linalg.solve_discrete_are({_SMALL})",
    examples=(f"tg.scipy.linalg.solve_discrete_are({_SYSTEM})",),
    awkward="q and r are taken for symmetric: their adjoints are, and that of the solution",
    takes_complex=True,
    complex_example=f"tg.scipy.linalg.solve_discrete_are({_COMPLEX})",
)
def solve_discrete_are(a, b, q, r, e, s, *, generalized, balanced):
    """The solution x of aᴴ x a − eᴴ x e − (aᴴ x b + s) (r + bᴴ x b)⁻¹ (bᴴ x a + sᴴ) + q = 0."""
    return _solved("solve_discrete_are", generalized, balanced, a, b, q, r, e, s)


# --- The polar decomposition, and the rotation that takes one set of points nearest to another ----


def _nearest(a):
    """By singular values, as in SciPy."""
    if not a.size:
        return np.zeros(a.shape, inexact(a))
    w, _, v = of_scipy("svd")(a, full_matrices=False)
    return w @ v


def _turning(np, u, p, x):
    """z of p z + z p = uᴴ x − xᴴ u: how u turns within its own columns as u p changes along x."""
    inner = np.matmul(adjoint(np, u), x)
    return solve_sylvester(p, p, inner - adjoint(np, inner))


def _outside(np, u, x):
    """The part of columns that those of u do not span."""
    return x - np.matmul(u, np.matmul(adjoint(np, u), x))


def _stretch(np, u, a):
    """p = uᴴ a"""
    p = np.matmul(adjoint(np, u), a)
    return 0.5 * (p + adjoint(np, p))


def polar_factor_vjp(np, g, out, a):
    """ā = u z + (1 − u uᴴ) ū p⁻¹, z of p z + z p = uᴴ ū − ūᴴ u."""
    p = _stretch(np, out, a)
    found = np.matmul(out, _turning(np, out, p, g))
    if a.shape[-1] == a.shape[-2]:
        return (found,)
    divided = adjoint(np, np.linalg.solve(p, adjoint(np, g)))
    return (found + _outside(np, out, divided),)


def polar_factor_jvp(np, t, out, a):
    """The same: the derivative of a projection onto a surface is symmetric."""
    return polar_factor_vjp(np, t[0], out, a)[0]


@declared(
    vjp=polar_factor_vjp,
    jvp=polar_factor_jvp,
    example="tg.scipy.linalg.polar(np.diag(x + 1.0) + 0.1 * x[:, None])[0]",
    examples=(
        "tg.scipy.linalg.polar(np.concatenate([x[:, :2], np.eye(2)]))[0]"
        " if len(x.T) else tg.scipy.linalg.polar(x.T @ x)[0]",
        "tg.scipy.linalg.polar(x[:, None, :] * x[:, :, None] + 2.0 * np.eye(len(x.T)))[0]",
    ),
    awkward="for a matrix that has not full rank the derivative raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.polar(np.diag(x + 1.0) + 0.1j * x[:, None])[0]",
    complex_examples=(
        "tg.scipy.linalg.polar(np.concatenate([x[:, :2], 1j * np.eye(2)]))[0]"
        " if len(x.T) else tg.scipy.linalg.polar(x.T @ x + 0j)[0]",
    ),
)
def polar_factor(a):
    """The matrix with orthonormal columns nearest to a, which has no more columns than rows."""
    return by_matrix(_nearest, a)


def polar(a, side):
    """Factors (u, p) of a = u @ p, on the side "left" of a = p @ u; p is positive semidefinite."""
    wide = a.shape[-2] < a.shape[-1]
    u = adjoint(np, polar_factor(adjoint(np, a))) if wide else polar_factor(a)
    p = np.matmul(adjoint(np, u), a) if side == "right" else np.matmul(a, adjoint(np, u))
    return u, 0.5 * (p + adjoint(np, p))


def orthogonal_procrustes(a, b):
    """The orthogonal r that makes ‖a @ r − b‖ least, and the sum of singular values of aᴴ b."""
    product = np.matmul(adjoint(np, a), b)
    r = polar_factor(product)
    return r, np.sum(np.real(np.conj(r) * product), axis=(-2, -1))
