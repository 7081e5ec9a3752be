"""Pseudo-inverses of matrices under NumPy's name.

The derivative is that among matrices of the same rank (Golub and Pereyra 1973): singular values
that are cut off count as zero.
"""

from __future__ import annotations

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM, floats, load_float
from ..codegen.intrinsics import free, helper, load_f64, load_i32, load_i64, malloc, memset
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..tensor.complex_tensors import ComplexTensor
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.trace import lost_derivative
from ..tensor.values import differentiates, dtype_of, is_tensor, shape_of, value_of
from .declaring import adjoint, declared
from .spectral_kernels import is_finite, solve_singular, wanted_words

# --- values in programs ---------------------------------------------------------------------------


@helper
def reflect_lower(matrix, n):
    """Replace the upper triangle of a square matrix in Fortran order by the lower one."""
    a = floats(matrix)
    for j in range(n):
        for i in range(j):
            a[j * n + i] = lapack.conjugate(a[i * n + j])
        a[j * n + j] = 0.5 * (a[j * n + j] + lapack.conjugate(a[j * n + j]))


@helper
def write_inverse(to, n, u, s, v, cutoff):
    """Write v s⁻¹ uᴴ of n rows in C order, without singular values up to the cutoff."""
    m, few = u.rows, v.rows
    memset(to, 0, m * n * ITEM)
    for j in range(n):
        line = floats(to + j * m * ITEM)
        for c in range(few):
            size, column = load_f64(s, c * 8), floats(u.data + c * m * ITEM)
            if size > cutoff:
                at = (j * few + c) * ITEM
                part = lapack.conjugate(load_float(v.data, at)) * (1.0 / size)
                for i in range(m):
                    line[i] += part * lapack.conjugate(column[i])


def pinv_forward(frame, id, refs, task):
    """References: `hermitian`, the matrices, the least singular values, the output."""
    hermitian = load_i64(load_i64(load_i64(refs, 0), ARRAY_DATA), 0) != 0
    a, least = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    m, n = lapack.size_along(a, 2), lapack.size_along(a, 1)
    few = min(m, n)
    count = lapack.batch_size(out, 2) if few > 0 else 0
    fixed = (m * n + (m + n) * few + 1) * ITEM + few * 8
    matrix = malloc(fixed + 8 * few * 4 + lapack.CALL_BYTES + 24)
    u = lapack.Columns(matrix + m * n * ITEM, m)
    v = lapack.Columns(u.data + m * few * ITEM, few)
    asked, call = v.data + n * few * ITEM, matrix + fixed
    s = asked + ITEM
    counts, words = call + lapack.CALL_BYTES + 24, 4 * few * few + 7 * few + m + n
    if few > 0:
        lapack.enter_call(call, ord("S"), m, n)
        solve_singular(call, matrix, u, s, v, lapack.Workspace(asked, -1, counts))
        words = wanted_words(asked, words)
    work = malloc(words * ITEM + 8)
    for k in range(count):
        to = load_i64(out, ARRAY_DATA) + k * m * n * ITEM
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 2, k), a, 2)
        if hermitian:
            reflect_lower(matrix, n)
        lapack.enter_call(call, ord("S"), m, n)
        solve_singular(call, matrix, u, s, v, lapack.Workspace(work, words, counts))
        if load_i32(call, lapack.ANSWER) != 0:
            lapack.refuse(frame, 1)
            break
        cutoff = load_f64(lapack.batch_item(least, 0, out, 2, k), 0) * load_f64(s, 0)
        write_inverse(to, n, u, s, v, cutoff)
    free(work)
    free(matrix)


# --- the pseudo-inverse ---------------------------------------------------------------------------


def _turned_shape(a, rcond, hermitian=False):
    """The shape of a pseudo-inverse; raises ValueError where NumPy does."""
    if len(a) < 2 or (hermitian and a[-1] != a[-2]):
        raise ValueError(f"pinv does not accept an operand of shape {a}")
    if np.broadcast_shapes(rcond, stack := a[:-2] or (1,)) != stack:
        raise ValueError(f"pinv does not accept rcond of shape {rcond} for matrices of shape {a}")
    return (*a[:-2], a[-1], a[-2])


def _not_converged(answer):
    return np.linalg.LinAlgError("SVD did not converge")


def whole(np, a):
    """Symmetric matrices from their lower triangles."""
    return np.tril(a) + adjoint(np, np.tril(a, -1))


def symmetric(np, a):
    """The symmetric part of matrices."""
    return 0.5 * (a + adjoint(np, a))


def pinv_vjp(np, g, out, a, _rcond, hermitian=False):
    """With p = a⁺: ā = −pᵀ p̄ pᵀ + (1 − a p) p̄ᵀ p pᵀ + pᵀ p p̄ᵀ (1 − p a)."""
    if hermitian:
        return symmetric(np, _pinv_adjoint(np, g, out, whole(np, a))), None
    if a.shape[-2] >= a.shape[-1]:
        return _pinv_adjoint(np, g, out, a), None
    return adjoint(np, _pinv_adjoint(np, *[adjoint(np, x) for x in (g, out, a)])), None


def _pinv_adjoint(np, g, p, a):
    """For tall matrices: no product here is larger than `a`, except for (M, N) with (N, N)."""
    turned, back = adjoint(np, p), adjoint(np, g)
    outside = back - np.matmul(a, np.matmul(p, back))
    inside = back - np.matmul(back, np.matmul(p, a))
    both = np.matmul(p, inside) - np.matmul(g, turned)
    return np.matmul(outside, np.matmul(p, turned)) + np.matmul(turned, both)


def pinv_jvp(np, t, out, a, _rcond, hermitian=False):
    """ṗ = −p ȧ p + p pᵀ ȧᵀ (1 − a p) + (1 − p a) ȧᵀ pᵀ p."""
    moved, p, turned = t[0], out, adjoint(np, out)
    if hermitian:
        a, moved = whole(np, a), symmetric(np, moved)
    back = adjoint(np, moved)
    first, last = np.matmul(turned, back), np.matmul(back, turned)
    right = first - np.matmul(np.matmul(first, a), p)
    left = last - np.matmul(p, np.matmul(a, last))
    return np.matmul(p, right) + np.matmul(left, p) - np.matmul(p, np.matmul(moved, p))


@declared(
    vjp=pinv_vjp,
    jvp=pinv_jvp,
    shape=_turned_shape,
    value_kernel=pinv_forward,
    complex_kernel=pinv_forward,
    helpers=(wanted_words, is_finite, solve_singular, reflect_lower, write_inverse),
    refusal=_not_converged,
    example="np.linalg.pinv(np.diag(x * x + 1.0) + x[:, None])",
    examples=(
        "np.linalg.pinv(x + 2.0 * np.eye(*x.shape))",
        "np.linalg.pinv(x[:, :2] + 2.0 * np.eye(*x[:, :2].shape))",
        "np.linalg.pinv(x @ x.T + np.eye(len(x)), hermitian=True)",
        "np.linalg.pinv(x[:, None, :] * x[:, :, None], 1e-5)",
    ),
    domain=(0.6, 1.4),
    awkward="the derivative among matrices of the same rank",
)
def _pinv(a, rcond, *, hermitian=False):
    """The pseudo-inverse of matrices."""
    rcond = rcond.real if a.ndim > 2 else rcond.real.reshape(())
    return np.linalg.pinv(a, rcond, hermitian)


pseudo_inverse = _pinv


@function("linalg.pinv", complex=alike)
def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    """Compute the pseudo-inverses of matrices.

    Parameters
    ----------
    a : array_like, shape (…, M, N)
        Matrices.
    rtol : number, optional
        Another name of `rcond`.

    Returns
    -------
    Tensor or ndarray, shape (…, N, M)
        The pseudo-inverses.

    Notes
    -----
    The derivative is that among matrices of the same rank: singular values that count as 0 stay 0.
    Near a matrix of less than full rank there are matrices with far larger pseudo-inverses.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.sum(np.linalg.pinv(a)))(np.array([[2.0, 0.0], [0.0, 0.0]]))
    array([[-0.25,  0.25],
           [ 0.25,  0.  ]])
    """
    a = unlisted(a)
    chosen = {} if rtol is np._NoValue else {"rtol": rtol}
    if not is_tensor(a) and type(a) is not ComplexTensor:
        return np.linalg.pinv(a, rcond, hermitian, **chosen)
    if differentiates(rcond) or differentiates(rtol):
        raise lost_derivative(
            "tapegrad.pinv: rcond is recorded; the result is piecewise constant in it, so use "
            "detach()",
            (a, rcond, rtol),
        )
    if rcond is not None and chosen:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if len(shape_of(a)) < 2:
        raise np.linalg.LinAlgError(
            f"tapegrad.pinv: the operand has shape {shape_of(a)}; it must be a matrix or a stack"
        )
    return _pinv(a, _cutoff(a, rcond, rtol), hermitian=bool(hermitian))


def _cutoff(a, rcond, rtol):
    """The ratio of the least singular value to the largest, as in NumPy: an array with an axis.

    Its dtype leaves that of the result to the matrix.
    """
    if rcond is None and rtol is not np._NoValue:
        rcond = rtol if rtol is not None else max(shape_of(a)[-2:]) * np.finfo(dtype_of(a)).eps
    found = np.asarray(value_of(1e-15 if rcond is None else rcond), np.float64)
    if found.ndim > len(shape_of(a)) - 2:
        raise ValueError(
            f"tapegrad.pinv: rcond has shape {found.shape} with an operand of shape {shape_of(a)}; "
            "give a number, or one for each matrix of a stack"
        )
    is_single = dtype_of(a) in (np.float32, np.complex64)
    return np.atleast_1d(found).astype(np.float32 if is_single else np.float64)
