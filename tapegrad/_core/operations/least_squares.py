"""Least squares, under NumPy's name."""

from __future__ import annotations

import operator

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import (
    f64s,
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
from ..tensor.conversions import detach
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.trace import learned, named, steered
from ..tensor.values import differentiates, dtype_of, is_tensor, shape_of, value_of
from .declaring import adjoint, declared, packed, parts_of
from .inverses import pseudo_inverse
from .linear_algebra import matmul
from .reductions import sum as sum_of
from .shapes import reshape
from .singular_values import svdvals
from .symmetric_eigenvalues import is_finite, wanted_words

# --- values in programs ---------------------------------------------------------------------------


@helper
def solve_least(call, matrix, x, s, work, counts):
    """Least squares in place; with −1 for the size of `work`, the number of words needed.

    In addition to what `enter_call` writes, a call holds that size, the number of right-hand sides,
    the length of each, the rank that LAPACK finds, and the ratio of the least singular value to the
    largest.
    """
    rows, columns, answer = call + lapack.ROWS, call + lapack.COLUMNS, call + lapack.ANSWER
    more = call + lapack.CALL_BYTES
    sides, high, rank, least = more + 8, more + 16, more + 24, more + 32
    lapack.gelsd(
        rows, columns, sides, matrix, rows, x, high, s, least, rank, work, more, counts, answer
    )


@helper
def copy_sides(to, source, array, high):
    """Copy right-hand sides to Fortran order, in columns that are longer than they are."""
    down, along = lapack.stride_along(array, 2), lapack.stride_along(array, 1)
    for j in range(lapack.size_along(array, 1)):
        line = f64s(to + j * high * 8)
        for i in range(lapack.size_along(array, 2)):
            line[i] = load_f64(source, i * down + j * along)


def lstsq_forward(frame, id, refs, task):
    """References: no parameters, matrices, right-hand sides, the least singular value, output."""
    a, b = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    least, out = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    m, n, columns = lapack.size_along(a, 2), lapack.size_along(a, 1), lapack.size_along(b, 1)
    few, high = min(m, n), max(m, n)
    width, count = (n * columns + few) * 8, lapack.batch_size(out, 1)
    if few == 0 or columns == 0:
        memset(load_i64(out, ARRAY_DATA), 0, count * width)
        count = 0
    numbers = (m * n + high * columns + 1) * 8
    matrix = malloc(numbers + lapack.CALL_BYTES + 40 + (few * 128 + 16) * 4)
    x, call = matrix + m * n * 8, matrix + numbers
    asked, counts = call - 8, call + lapack.CALL_BYTES + 40
    work, words = 0, 0
    for k in range(count):
        to = load_i64(out, ARRAY_DATA) + k * width
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 1, k), a, 2)
        copy_sides(x, lapack.batch_item(b, 2, out, 1, k), b, high)
        lapack.enter_call(call, 0, m, n)
        store_i32(call, lapack.CALL_BYTES + 8, columns)
        store_i32(call, lapack.CALL_BYTES + 16, high)
        store_f64(call, lapack.CALL_BYTES + 32, load_f64(lapack.batch_item(least, 0, out, 1, k), 0))
        if work == 0:
            store_i32(call, lapack.CALL_BYTES, -1)
            solve_least(call, matrix, x, to, asked, counts)
            words = wanted_words(asked, 400 * few + few * columns + 4 * high + 1000)
            work = malloc(words * 8)
        store_i32(call, lapack.CALL_BYTES, words)
        is_answered = is_finite(matrix, m * n)
        if is_answered:
            solve_least(call, matrix, x, to + n * columns * 8, work, counts)
        if not is_answered or load_i32(call, lapack.ANSWER) != 0:
            lapack.refuse(frame, 1)
            break
        for i in range(n):
            for j in range(columns):
                store_f64(to, (i * columns + j) * 8, load_f64(x, (j * high + i) * 8))
    free(work)
    free(matrix)


# --- least squares --------------------------------------------------------------------------------


def _shape(a, b, rcond):
    """The shape of solutions and singular values; raises ValueError where the value does."""
    if len(a) < 2 or len(b) < 2 or a[-2] != b[-2]:
        raise ValueError(f"lstsq does not accept operands of shapes {a} and {b}")
    own = a[-1] * b[-1] + min(a[-2:])
    return (*np.broadcast_shapes(a[:-2], b[:-2]), own)


def _not_converged(answer):
    return np.linalg.LinAlgError("SVD did not converge in Linear Least Squares")


def _solution(x, a, b):
    return parts_of(x, (a.shape[-1], b.shape[-1]), (min(a.shape[-2:]),))[0]


def lstsq_vjp(np, g, out, a, b, rcond):
    """With p = a⁺, b̄ = pᵀ x̄ and r = b − a x: ā = −b̄ xᵀ + r (p b̄)ᵀ + pᵀ x (x̄ − aᵀ b̄)ᵀ."""
    x, g = _solution(out, a, b), _solution(g, a, b)
    p = pseudo_inverse(a, rcond)
    back = np.matmul(adjoint(np, p), g)

    def into_a():
        rest = np.matmul(b - np.matmul(a, x), adjoint(np, np.matmul(p, back)))
        unseen = adjoint(np, g - np.matmul(adjoint(np, a), back))
        more = np.matmul(np.matmul(adjoint(np, p), x), unseen)
        return rest + more - np.matmul(back, adjoint(np, x))

    return into_a, back, None


@declared(
    vjp=lstsq_vjp,
    takes_complex=False,
    shape=_shape,
    value_kernel=lstsq_forward,
    helpers=(wanted_words, is_finite, solve_least, copy_sides),
    refusal=_not_converged,
    example="np.linalg.lstsq(np.diag(x * x + 1.0) + x[:, None], x)[0]",
    examples=(
        "np.linalg.lstsq(x + 2.0 * np.eye(*x.shape), x[:, 0])[0]",
        "np.linalg.lstsq(x[:, :2] + 2.0 * np.eye(*x[:, :2].shape), x)[0]",
        "np.linalg.lstsq(x.T[:, :1] * x[:1, :2], x.T, 1e-5)[0]",
    ),
    awkward="the derivative among matrices of the same rank",
)
def _lstsq(a, b, rcond):
    """The least-squares solutions of least norm and the singular values, stacked."""
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    n, columns, few = a.shape[-1], b.shape[-1], min(a.shape[-2:])
    out = np.empty((*outer, n * columns + few), a.dtype)
    wide = [np.broadcast_to(x, (*outer, *x.shape[-2:])) for x in (a, b)]
    least = np.broadcast_to(rcond if outer else rcond.reshape(()), outer)
    for at in np.ndindex(outer):
        x, _, _, s = np.linalg.lstsq(wide[0][at], wide[1][at], float(least[at]))
        out[at] = packed(np, x, s, own=(2, 1))
    return out


@named("lstsq.rank")
def rank_of(s, rcond):
    """How many singular values are not negligible."""
    return np.int32(np.count_nonzero(s > rcond * np.max(s, initial=0.0)))


@function("linalg.lstsq")
def lstsq(a, b, rcond=None):
    """Solve least-squares problems: find the shortest x that minimises the norm of b − a @ x.

    Parameters
    ----------
    a : array_like, shape (M, N)
        The matrix.
    b : array_like, shape (M,) or (M, K)
        The right-hand sides.
    rcond : number, optional
        Singular values of at most `rcond` times the largest count as 0; by default max(M, N) times
        the machine epsilon.

    Returns
    -------
    x : Tensor or ndarray, shape (N,) or (N, K)
        The solution.
    residuals : Tensor or ndarray
        Sums of squares of b − a @ x; empty if M ≤ N or the rank is below N.
    rank : int
        The rank of `a`.
    s : Tensor or ndarray
        The singular values of `a`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the shapes do not fit.

    Notes
    -----
    The derivative is that among matrices of the same rank, as for `pinv`.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> a = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> tg.jacobian(lambda b: np.linalg.lstsq(a, b)[0])(np.zeros(3)).round(3) + 0.0
    array([[ 0.833,  0.333, -0.167],
           [-0.5  ,  0.   ,  0.5  ]])
    """
    a, b = unlisted(a), unlisted(b)
    if not is_tensor(a) and not is_tensor(b):
        return np.linalg.lstsq(a, b, rcond)
    shapes = shape_of(a), shape_of(b)
    fitting = len(shapes[0]) == 2 and len(shapes[1]) in (1, 2) and shapes[0][0] == shapes[1][0]
    if not fitting or np.float16 in (dtype_of(a), dtype_of(b)):
        return np.linalg.lstsq(value_of(a), value_of(b), rcond)  # raises
    (m, n), columns = shapes[0], reshape(b, (-1, 1)) if len(shapes[1]) == 1 else b
    eps = float(np.finfo(np.float64).eps)  # in which NumPy solves those of float32, too
    least = eps * max(m, n) if rcond is None else float(rcond)
    least = least if 0.0 < least < 1.0 else 0.5 * eps  # as in LAPACK
    is_single = dtype_of(a) == dtype_of(b) == np.float32
    made = _lstsq(a, columns, np.full(1, least, np.float32 if is_single else np.float64))
    x, s = parts_of(made, (n, shape_of(columns)[1]), (min(m, n),))
    if shape_of(columns)[1] == 0:  # LAPACK is not called
        s = svdvals(a)
    residuals = np.array([], dtype_of(x))
    if m > n and _is_full(s, least):
        residuals = sum_of((columns - matmul(a, x)) ** 2, axis=0)
    rank = steered(rank_of, s, rcond=least)
    values = svdvals(a) if differentiates(a) else detach(s) if is_tensor(s) else s
    return x[:, 0] if len(shapes[1]) == 1 else x, residuals, rank, values


def _is_full(s, least) -> bool:
    """Whether no singular value counts as zero; programs test that again."""
    if not shape_of(s)[0]:
        return True
    full = steered(operator.gt, s[-1], least * s[0])
    learned(full, "the rank in lstsq()")
    return bool(value_of(full))
