"""Singular values and vectors, and the QR factorization, under NumPy's names."""

from __future__ import annotations

import functools

import numpy as np

from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.trace import steered
from ..tensor.values import ComplexTensor, differentiates, is_complex, is_tensor, shape_of, value_of
from .declaring import adjoint, declared, packed, parts_of, size_of
from .equal_eigenvalues import (
    inverse_gaps,
    inverse_or_zero,
    learn_whether_equal,
    learn_whether_zero,
    note_basis,
    note_choice,
    tolerance,
    warn_of_basis,
    warn_of_null_vectors,
    warn_of_others,
    warn_of_zeros,
)
from .sorting import take_along_axis
from .symmetric_eigenvalues import (
    diagonal_matrix,
    eigh,
    eigvalsh,
    factor_orthogonal,
    is_finite,
    make_orthogonal,
    message_of,
    moved_apart,
    qr_forward,
    solve_singular,
    spread,
    svd_forward,
    turned_basis,
    wanted_words,
    write_identity,
    write_upper,
    write_values,
)

# --- Singular values and vectors of matrices, under NumPy's names ---------------------------------


def _shapes(a, full):
    """The shapes of u, the singular values and vᵀ of one matrix."""
    m, n = a[-2:]
    few = min(m, n)
    return ((m, m), (few,), (n, n)) if full else ((m, few), (few,), (few, n))


def _shape(a, full=False):
    """The shape of all parts stacked; raises ValueError where NumPy does."""
    if len(a) < 2:
        raise ValueError(f"svd does not accept an operand of shape {a}")
    return (*a[:-2], size_of(*_shapes(a, full)))


def _not_converged(answer):
    return np.linalg.LinAlgError("SVD did not converge")


def _factors(np, s, count):
    """1 / (sⱼ − sᵢ) and 1 / (sⱼ + sᵢ), 0 where that is not defined, where the first is 0; 1 / s."""
    inverse, equal = inverse_gaps(np, s, count)
    total, least = s[..., None, :] + s[..., :, None], tolerance(np, s, count)
    return inverse, inverse_or_zero(np, total, total <= least[..., None]), equal, least


def svd_vjp(np, g, out, _a, full=False):
    """The turns of u and v are D + E and D − E, D = F₋ ∘ sym(uᵀ ȧ v), E = F₊ ∘ skew(uᵀ ȧ v).

    F₋ and F₊ hold 1 / (sⱼ ∓ sᵢ), separately, since the latter stays where values are equal. The
    parts of u and v outside of each other's space add to that (Townsend 2016).
    """
    shapes = _shapes(_a.shape, full)
    (u, s, vh), (gu, gs, gvh) = parts_of(out, *shapes), parts_of(g, *shapes)
    s, gs = np.real(s), np.real(gs)
    return (_adjoint(np, (u, s, vh), diagonal_matrix(np, gs), gu, gvh, gs),)


def _adjoint(np, parts, inner, gu, gvh, gs):
    """The adjoint of matrices from a part inside of their bases, and those of the vectors."""
    u, s, vh = parts
    k, m, n = s.shape[-1], u.shape[-2], vh.shape[-1]
    minus, plus, equal, least = _factors(np, s, max(m, n))
    vt, gvt = vh[..., :k, :], gvh[..., :k, :]
    u1, gu1 = u[..., :, :k], gu[..., :, :k]
    left, right = np.matmul(adjoint(np, u1), gu1), np.matmul(vt, adjoint(np, gvt))
    both, apart = left + right, left - right
    turn = both - adjoint(np, both)
    warn_of_basis("svd", equal, turn, (left, right), gs)
    inner = inner + 0.5 * (minus * turn + plus * (apart - adjoint(np, apart)))
    inverse = inverse_or_zero(np, s, s <= least)
    if m == n:
        return np.matmul(np.matmul(u1, inner), vt)
    if m > n:
        outside = _outside(np, u1, gu1, left, u[..., :, k:], gu[..., :, k:])
        warn_of_null_vectors(s <= least, outside, (gu1, gvt), gs)
        return np.matmul(np.matmul(u1, inner) + outside * inverse[..., None, :], vt)
    v, gv = adjoint(np, vh), adjoint(np, gvh)
    outside = _outside(np, v[..., :, :k], gv[..., :, :k], right, v[..., :, k:], gv[..., :, k:])
    warn_of_null_vectors(s <= least, outside, (gv[..., :, :k], gu1), gs)
    return np.matmul(u1, np.matmul(inner, vt) + inverse[..., :, None] * adjoint(np, outside))


def _outside(np, u, gu, inner, rest, g_rest):
    """The part of an adjoint outside of the space of u, and the term of the other columns."""
    found = gu - np.matmul(u, inner)
    if rest.shape[-1]:
        if u.shape[-1]:
            warn_of_others("svd", rest, g_rest)
        found = found - np.matmul(rest, np.matmul(adjoint(np, g_rest), u))
    return found


def svd_jvp(np, t, out, _a, full=False):
    """The tangents of u, s and vᵀ from P = uᵀ ȧ v."""
    u, s, vh = parts_of(out, *_shapes(_a.shape, full))
    s, (m, n) = np.real(s), _a.shape[-2:]
    p, du, dvh, equal, zero = _tangents(np, t, (u, s, vh))
    note_basis(u, equal)
    note_choice(m != n and zero, full and 0 < min(m, n) < max(m, n) - 1)
    return packed(np, du, np.real(np.diagonal(p, axis1=-2, axis2=-1)), dvh, own=(2, 1, 2))


def _tangents(np, t, parts):
    """uᵀ ȧ v, the tangents of the vectors, and where values are equal and 0."""
    u, s, vh = parts
    k, m, n = s.shape[-1], u.shape[-2], vh.shape[-1]
    minus, plus, equal, least = _factors(np, s, max(m, n))
    u1, v = u[..., :, :k], adjoint(np, vh)
    inverse = inverse_or_zero(np, s, s <= least)
    along, across = np.matmul(t[0], v[..., :, :k]), np.matmul(adjoint(np, t[0]), u1)
    p = np.matmul(adjoint(np, u1), along)
    both, apart = 0.5 * minus * (p + adjoint(np, p)), 0.5 * plus * (p - adjoint(np, p))
    du, dv = np.matmul(u1, both + apart), np.matmul(v[..., :, :k], both - apart)
    if m > n:
        du = du + (along - np.matmul(u1, p)) * inverse[..., None, :]
    if m < n:
        dv = dv + (across - np.matmul(v[..., :, :k], adjoint(np, p))) * inverse[..., None, :]
    du, dvh = _completed(np, du, u, k), adjoint(np, _completed(np, dv, v, k))
    return p, du, dvh, equal, s <= least


def _completed(np, du, u, k):
    """The tangents of all columns from those of the first k; the others turn with them."""
    if u.shape[-1] == k:
        return du
    rest = u[..., :, k:]
    moved = -np.matmul(u[..., :, :k], np.matmul(adjoint(np, du), rest))
    return np.concatenate([du, moved], axis=-1)


@declared(
    vjp=svd_vjp,
    jvp=svd_jvp,
    shape=_shape,
    value_kernel=svd_forward,
    complex_kernel=svd_forward,
    helpers=(write_values, wanted_words, write_identity, is_finite, solve_singular),
    refusal=_not_converged,
    example="np.linalg.svd(np.diag(np.arange(len(x)) + 1.0) + 0.1 * x)[2] ** 2",
    examples=(
        "np.linalg.svd(0.1 * x + np.diag(np.arange(5.0) + 1.0)[:len(x), :len(x.T)], False).U ** 2",
        "np.linalg.svd(0.1 * x.T + np.eye(5)[:len(x.T), :len(x)] * (np.arange(len(x)) + 1.0))"
        ".U[:, :len(x)] ** 2",
        "np.linalg.svd(0.1 * np.stack([x, np.sin(x)])[..., :2]"
        " + np.eye(5)[:len(x), :2] * np.array([1.0, 2.0])[:len(x.T)], False)[2] ** 2",
    ),
    awkward="equal singular values: right for what does not depend on the basis of their spaces",
)
def _svd(a, *, full=False):
    """The left singular vectors of matrices, the values, and the right vectors, stacked."""
    return packed(np, *np.linalg.svd(a, full_matrices=full), own=(2, 1, 2))


# --- singular values alone ------------------------------------------------------------------------


def _shapes_of_values(a):
    """The adjoints of the parts, and of the message of `turned_basis`."""
    few = min(a[-2:])
    return (*_shapes(a, False), (few, few))


def _shape_of_values(a, full=False):
    """The shape of all parts stacked; raises ValueError where NumPy does."""
    _shape(a)
    return (*a[:-2], size_of(*_shapes_of_values(a)))


def svdvals_vjp(np, g, out, _a, full=False):
    """ā = u s̄ vᵀ; in second derivatives the bases are turned where values are equal."""
    shapes = _shapes_of_values(_a.shape)
    (u, s, vh, message), (gu, gs, gvh, told) = parts_of(out, *shapes), parts_of(g, *shapes)
    s, gs = np.real(s), np.real(gs)
    if is_tensor(out) or type(out) is ComplexTensor:  # recorded, to be differentiated again
        warn_of_zeros(s, _a.shape, is_complex(out))
    u, gu = (turned_basis(x, s, told) for x in (u, gu))
    vh, gvh = (adjoint(np, turned_basis(adjoint(np, x), s, told)) for x in (vh, gvh))
    return (_adjoint(np, (u, s, vh), spread(gs, message, s), gu, gvh, None),)


def svdvals_jvp(np, t, out, _a, full=False):
    """Equal singular values separate as the eigenvalues of sym(uᵀ ȧ v) in their space."""
    u, s, vh, message = parts_of(out, *_shapes_of_values(_a.shape))
    s = np.real(s)
    if is_tensor(out) or type(out) is ComplexTensor:
        warn_of_zeros(s, _a.shape, is_complex(out))
    p, du, dvh, _, _ = _tangents(np, t, (u, s, vh))
    p = 0.5 * (p + adjoint(np, p))
    values = np.real(moved_apart(np, p, message, s))
    return packed(np, du, values, dvh, message_of(np, p, s), own=(2, 1, 2, 2))


@declared(
    vjp=svdvals_vjp,
    jvp=svdvals_jvp,
    shape=_shape_of_values,
    value_kernel=svd_forward,
    complex_kernel=svd_forward,
    helpers=(write_values, wanted_words, write_identity, is_finite, solve_singular),
    refusal=_not_converged,
    example="np.linalg.svdvals(np.diag(np.arange(len(x)) + 1.0) + 0.1 * x)",
    examples=(
        "np.linalg.svdvals(0.1 * x + np.diag(np.arange(5.0) + 1.0)[:len(x), :len(x.T)])",
        "np.linalg.svdvals(0.1 * x.T + np.diag(np.arange(5.0) + 1.0)[:len(x.T), :len(x)])",
    ),
    awkward="equal values other than 0: right for functions that treat them alike, to second order",
)
def _svdvals(a, *, full=False):
    """The singular values of matrices between the vectors, and zeros, stacked.

    `full`, which the kernel reads, is False.
    """
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    zeros = np.zeros((*s.shape, s.shape[-1]), s.dtype)
    return packed(np, u, s, vh, zeros, own=(2, 1, 2, 2))


# --- public ---------------------------------------------------------------------------------------


@functools.cache
def _result():
    """NumPy's class of results."""
    return type(np.linalg.svd(np.ones((1, 1))))


@function("linalg.svd", complex=alike)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """Compute singular values and vectors: a = U @ (S · Vh).

    Parameters
    ----------
    a : array_like, shape (…, M, N)
        Matrices; K = min(M, N).
    full_matrices : bool, optional
        Whether U has shape (…, M, M) and Vh (…, N, N), or (…, M, K) and (…, K, N).
    compute_uv : bool, optional
        If false, S alone is returned.

    Returns
    -------
    SVDResult
        A named tuple of `U`, `S` and `Vh`; S, of shape (…, K), is in descending order.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the algorithm does not converge.

    Notes
    -----
    The signs of the vectors, the basis of the space of equal singular values, and the vectors
    beyond the K-th are LAPACK's choice. Functions that depend on none of them have the right
    derivative, as described for `eigh`.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> a = np.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> tg.grad(lambda a: np.sum(np.linalg.svd(a, full_matrices=False).S ** 2))(a)
    array([[6., 0.],
           [0., 4.],
           [0., 0.]])
    """
    a = unlisted(a)
    if not is_tensor(a) and type(a) is not ComplexTensor:
        return np.linalg.svd(a, full_matrices, compute_uv, hermitian)
    if hermitian:
        return _of_symmetric(a, compute_uv)
    if not compute_uv:
        return svdvals(a)
    full = bool(full_matrices)
    made = _svd(a, full=full)
    u, s, vh = parts_of(made, *_shapes(shape_of(a), full))
    learn_whether_equal("svd", s.real)
    learn_whether_zero("svd", s.real, *shape_of(a)[-2:])
    return _result()(u, s.real, vh)


@function("linalg.svdvals", complex=alike)
def svdvals(x):
    """Compute the singular values of matrices, in descending order.

    Parameters
    ----------
    x : array_like, shape (…, M, N)
        Matrices.

    Returns
    -------
    Tensor or ndarray, shape (…, min(M, N))
        The singular values.

    Notes
    -----
    Where singular values are equal, the first derivative, and the second unless they are 0, is
    right for every function that is symmetric in them; for the largest singular value it is a
    subgradient.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: np.linalg.svdvals(x)[0])(np.diag([2.0, 1.0]))
    array([[1., 0.],
           [0., 0.]])
    """
    x = unlisted(x)
    if not is_tensor(x) and type(x) is not ComplexTensor:
        return np.linalg.svd(x, compute_uv=False)
    return parts_of(_svdvals(x), *_shapes_of_values(shape_of(x)))[1].real


def _of_symmetric(a, compute_uv):
    """From eigenvalues: their sizes in descending order, and the signs on one side."""
    w, v = eigh(a) if compute_uv else (eigvalsh(a), None)
    s = np.absolute(w)
    order = steered(np.flip, steered(np.argsort, s, axis=-1), axis=-1)
    s = take_along_axis(s, order, axis=-1)
    if v is None:
        return s
    signs = take_along_axis(np.sign(w), order, axis=-1)
    u = take_along_axis(v, steered(np.expand_dims, order, axis=-2), axis=-1)
    return _result()(u, s, adjoint(np, u * signs[..., None, :]))


# --- The QR factorization under NumPy's name ------------------------------------------------------


#: Modes of NumPy that have no derivative here.
OTHER_MODES = ("raw", "f", "full", "e", "economic")


def _qr_shapes(a, complete):
    """The shapes of q and r of one matrix."""
    m, n = a[-2:]
    p = m if complete else min(m, n)
    return (m, p), (p, n)


def _qr_shape(a, complete=False):
    """The shape of both stacked; raises ValueError where NumPy does."""
    if len(a) < 2:
        raise ValueError(f"qr does not accept an operand of shape {a}")
    return (*a[:-2], size_of(*_qr_shapes(a, complete)))


def _dependent(np, x, r):
    """x r⁻ᴴ for an upper triangular r."""
    return adjoint(np, np.linalg.solve(r, adjoint(np, x)))


def qr_vjp(np, g, out, _a, complete=False):
    """With M = r r̄ᵀ − q̄ᵀ q: ā = (q̄ + q copyltu M) r⁻ᵀ, of tall matrices (Walter 2012).

    The columns of a wide matrix beyond the square are q r₂. Columns of q beyond those of `a` turn
    with these.
    """
    shapes, few = _qr_shapes(_a.shape, complete), min(_a.shape[-2:])
    (q, r), (gq, gr) = parts_of(out, *shapes), parts_of(g, *shapes)
    beyond = None
    if _a.shape[-1] > few:
        rest, gr_rest = r[..., few:], gr[..., few:]
        beyond = np.matmul(q, gr_rest)
        gq = gq + np.matmul(np.matmul(q, rest), adjoint(np, gr_rest))
    if q.shape[-1] > few:
        if few:
            warn_of_others("qr", q[..., few:], gq[..., few:])
        first = np.matmul(adjoint(np, gq[..., few:]), q[..., :few])
        gq = gq[..., :few] - np.matmul(q[..., few:], first)
    q, r, gr = q[..., :few], r[..., :few, :few], gr[..., :few, :few]
    m = np.matmul(r, adjoint(np, gr)) - np.matmul(adjoint(np, gq), q)
    below = m * np.tri(few, k=-1, dtype=m.dtype)
    whole = below + adjoint(np, below) + np.real(m) * np.eye(few, dtype=r.dtype)
    back = _dependent(np, gq + np.matmul(q, whole), r)
    return (back if beyond is None else np.concatenate([back, beyond], axis=-1),)


def qr_jvp(np, t, out, _a, complete=False):
    """With C = qᵀ ȧ r⁻¹ and Ω = tril C − (tril C)ᵀ: q̇ = (ȧ r⁻¹ − q C) + q Ω, ṙ = (C − Ω) r."""
    (q, r), few = parts_of(out, *_qr_shapes(_a.shape, complete)), min(_a.shape[-2:])
    q1, r1 = q[..., :few], r[..., :few, :few]
    moved = _dependent(np, t[0][..., :few], adjoint(np, r1))
    c = np.matmul(adjoint(np, q1), moved)
    below = c * np.tri(few, k=-1, dtype=c.dtype)
    turn = below - adjoint(np, below)
    if c.dtype.kind == "c":  # LAPACK's r has a real diagonal
        turn = turn + (c - np.real(c)) * np.eye(few)
    dq, dr = moved - np.matmul(q1, c - turn), np.matmul(c - turn, r1)
    if _a.shape[-1] > few:
        rest = np.matmul(adjoint(np, q), t[0][..., few:]) - np.matmul(turn, r[..., few:])
        dr = np.concatenate([dr, rest], axis=-1)
    if q.shape[-1] > few:
        note_choice(0 < few < q.shape[-1] - 1)
        others = -np.matmul(q1, np.matmul(adjoint(np, dq), q[..., few:]))
        dq = np.concatenate([dq, others], axis=-1)
        dr = np.concatenate([dr, 0.0 * np.matmul(adjoint(np, q[..., few:]), t[0])], axis=-2)
    return packed(np, dq, dr, own=(2, 2))


@declared(
    vjp=qr_vjp,
    jvp=qr_jvp,
    shape=_qr_shape,
    value_kernel=qr_forward,
    complex_kernel=qr_forward,
    helpers=(wanted_words, write_identity, factor_orthogonal, make_orthogonal, write_upper),
    example="np.linalg.qr(np.diag(x * x + 1.0) + x[:, None])[1]",
    examples=(
        "np.linalg.qr(x @ x.T + np.eye(len(x))).R",
        "np.linalg.qr(x[:, :2] + np.eye(*x[:, :2].shape)).Q",
        "np.linalg.qr(x + 2.0 * np.eye(*x.shape)).R",
        "np.linalg.qr(x + 2.0 * np.eye(*x.shape)).Q",
        "np.linalg.qr(x.T + 2.0 * np.eye(*x.T.shape), 'complete').Q[:, :3]",
        "np.linalg.qr(x[:, :2] + np.stack([np.eye(*x[:, :2].shape)] * 2)).R",
    ),
    awkward="columns that depend on those before: no derivative, LinAlgError",
)
def _qr(a, *, complete=False):
    """An orthogonal and an upper triangular factor of matrices, stacked."""
    return packed(np, *np.linalg.qr(a, "complete" if complete else "reduced"), own=(2, 2))


@functools.cache
def _qr_result():
    """NumPy's class of results."""
    return type(np.linalg.qr(np.ones((1, 1))))


@function("linalg.qr", complex=alike)
def qr(a, mode="reduced"):
    """Factor matrices, a = Q @ R, with Q orthonormal and R upper triangular.

    Parameters
    ----------
    a : array_like, shape (…, M, N)
        Matrices; K = min(M, N).
    mode : {"reduced", "complete", "r"}, optional
        Q and R of shapes (…, M, K) and (…, K, N), of shapes (…, M, M) and (…, M, N), or R alone.

    Returns
    -------
    QRResult
        A named tuple of `Q` and `R`. The signs, and the columns beyond the N-th, are LAPACK's
        choice.

    Raises
    ------
    TypeError
        If `mode` is "raw".
    numpy.linalg.LinAlgError
        In the derivative, if the first K columns of `a` are linearly dependent.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.linalg.qr(a).R[0, 0])(np.array([[3.0, 1.0], [4.0, 2.0]]))
    array([[-0.6,  0. ],
           [-0.8,  0. ]])
    """
    a = unlisted(a)
    if not is_tensor(a) and type(a) is not ComplexTensor:
        return np.linalg.qr(a, mode)
    if mode not in ("reduced", "complete", "r"):
        if mode in OTHER_MODES and differentiates(a):
            raise TypeError(
                f"tapegrad.qr: mode={mode!r} has no derivative; use 'reduced', 'complete' or 'r', "
                "or pass a.detach()"
            )
        return np.linalg.qr(value_of(a), mode)
    complete = mode == "complete"
    q, r = parts_of(_qr(a, complete=complete), *_qr_shapes(shape_of(a), complete))
    return r if mode == "r" else _qr_result()(q, r)
