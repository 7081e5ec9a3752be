"""The QR factorization under NumPy's name."""

from __future__ import annotations

import functools

import numpy as np

from ..tensor.complex_tensors import ComplexTensor
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.values import differentiates, is_tensor, shape_of, value_of
from .declaring import adjoint, declared
from .equal_values import note_choice, warn_of_others
from .packing import packed, parts_of, size_of
from .spectral_kernels import (
    factor_orthogonal,
    make_orthogonal,
    qr_forward,
    wanted_words,
    write_identity,
    write_upper,
)

#: Modes of NumPy that have no derivative here.
OTHER_MODES = ("raw", "f", "full", "e", "economic")


def _shapes(a, complete):
    """The shapes of q and r of one matrix."""
    m, n = a[-2:]
    p = m if complete else min(m, n)
    return (m, p), (p, n)


def _shape(a, complete=False):
    """The shape of both stacked; raises ValueError where NumPy does."""
    if len(a) < 2:
        raise ValueError(f"qr does not accept an operand of shape {a}")
    return (*a[:-2], size_of(*_shapes(a, complete)))


def _dependent(np, x, r):
    """x r⁻ᴴ for an upper triangular r."""
    return adjoint(np, np.linalg.solve(r, adjoint(np, x)))


def qr_vjp(np, g, out, _a, complete=False):
    """With M = r r̄ᵀ − q̄ᵀ q: ā = (q̄ + q copyltu M) r⁻ᵀ, of tall matrices (Walter 2012).

    The columns of a wide matrix beyond the square are q r₂. Columns of q beyond those of `a` turn
    with these.
    """
    shapes, few = _shapes(_a.shape, complete), min(_a.shape[-2:])
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
    (q, r), few = parts_of(out, *_shapes(_a.shape, complete)), min(_a.shape[-2:])
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
    shape=_shape,
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
def _result():
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
    q, r = parts_of(_qr(a, complete=complete), *_shapes(shape_of(a), complete))
    return r if mode == "r" else _result()(q, r)
