"""Eigenvalues and eigenvectors of matrices that need not be symmetric, under NumPy's names."""

from __future__ import annotations

import functools
import operator

import numpy as np

from ..tensor import runtime as rt
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.trace import learned, steered
from ..tensor.values import (
    ComplexTensor,
    is_complex,
    is_tensor,
    shape_of,
    value_of,
    value_of_complex,
)
from .declaring import adjoint, declared, packed, parted, parts_of, whole
from .equal_eigenvalues import (
    CLOSE,
    inverse_or_zero,
    learn_equality,
    note_basis,
    note_choice,
    warn_of_phases,
    warn_of_values,
)


def _parts(x, n):
    return parts_of(x, (n,), (n, n))


def _inverse_gaps(np, w):
    """1 / (wⱼ − wᵢ), 0 where the values are equal, and where they are."""
    gap = w[..., None, :] - w[..., :, None]
    slack = np.sum(np.abs(w), axis=-1)[..., None, None] * (CLOSE * float(np.finfo(w.dtype).eps))
    equal = np.abs(gap) <= slack
    return inverse_or_zero(np, gap, equal), equal


def _check_basis(v, equal) -> None:
    """Raise LinAlgError where vectors of equal values depend on each other; programs have none."""
    if rt.trace() is not None:
        return
    v, equal = (np.asarray(value_of_complex(x)) for x in (v, equal))
    if np.count_nonzero(equal) > equal.size // max(equal.shape[-1], 1):
        s = np.linalg.svd(v, compute_uv=False)
        if np.any(s[..., -1] <= CLOSE * v.shape[-1] * np.finfo(s.dtype).eps * s[..., 0]):
            raise np.linalg.LinAlgError(
                "tapegrad.eig: the matrix has fewer independent eigenvectors than rows, so the "
                "derivatives of its eigenvalues do not exist; use functions of the matrix, such as "
                "np.trace(a @ a) for the sum of their squares"
            )


def eig_vjp(np, g, out, _a, real=False):
    """With F = 1 / (wⱼ − wᵢ): ā = v⁻ᴴ (w̄ + conj(F) ∘ (vᴴ v̄ − vᴴ v diag(Re vᴴ v̄))) vᴴ.

    The vectors have norm 1 (Boeddeker et al. 2017, section 4.4).
    """
    n = _a.shape[-2]
    (w, v), (gw, gv) = _parts(whole(out), n), _parts(whole(g), n)
    eye, turned = np.eye(n), adjoint(np, v)
    m = np.matmul(turned, gv)
    along = np.sum(m * eye, axis=-2)
    inverse, equal = _inverse_gaps(np, w)
    _check_basis(v, equal)
    _warn_of_phase(along, m)
    norms = -np.matmul(turned, v) * np.real(along)[..., None, :]
    warn_of_values("eig", equal, (m, norms), gw)
    inner = gw[..., None] * eye + np.conj(inverse) * (m + norms)
    return (parted(np.matmul(np.linalg.solve(turned, inner), turned)),)


def eig_jvp(np, t, out, _a, real=False):
    """With P = v⁻¹ ȧ v: ẇ is its diagonal, v̇ = v (F ∘ P) less what changes the norms."""
    w, v = _parts(whole(out), _a.shape[-2])
    inverse, equal = _inverse_gaps(np, w)
    _check_basis(v, equal)
    note_basis(np.imag(v), equal)
    note_choice(np.imag(v))
    p, eye = np.linalg.solve(v, np.matmul(whole(t[0]), v)), np.eye(w.shape[-1])
    moved = np.matmul(v, inverse * p)
    along = np.real(np.sum(np.conj(v) * moved, axis=-2))
    values = np.sum(p * eye, axis=-2)
    return parted(packed(np, values, moved - v * along[..., None, :], own=(1, 2)))


def _warn_of_phase(along, derivatives) -> None:
    """Warn where a derivative depends on the phases of eigenvectors; programs do not."""
    if rt.trace() is not None:
        return
    along, derivatives = (
        np.asarray(value_of(np.imag(along))),
        np.asarray(value_of(np.abs(derivatives))),
    )
    size = np.max(derivatives, initial=0.0)
    if np.any(np.abs(along) > 1e-7 * size):
        warn_of_phases("eig")


_MATRIX = "(np.diag(np.arange(len(x)) + 1.0) + 0.1 * x * (x[:, None] + 1.0))"


@declared(
    vjp=eig_vjp,
    jvp=eig_jvp,
    takes_complex=False,
    example=f"np.real(np.linalg.eig({_MATRIX})[1])",
    examples=(
        "np.real(np.linalg.eigvals(x[:, :1] * x[:, 0] + np.diag(np.arange(len(x)) + 1.0)))",
        "np.abs(np.linalg.eig(0.3j * x[:, :1] * x[:, 0] + np.diag(np.arange(len(x)) + 1.0))[1])",
    ),
    awkward="equal eigenvalues: right for functions of the values that treat them alike",
)
def _eig(a, *, real=False):
    """The eigenvalues of matrices and their eigenvectors, stacked; parts on a last axis."""
    a = whole(a)
    w, v = np.linalg.eig(a.real if real else a)
    return parted(packed(np, w, v, own=(1, 2)))


@functools.cache
def _result():
    """NumPy's class of results."""
    return type(np.linalg.eig(np.ones((1, 1))))


def _decomposed(a):
    """Eigenvalues and vectors of a tensor; real ones where NumPy's are."""
    is_real, n = not is_complex(a), shape_of(a)[-1:]
    w, v = parts_of(whole(_eig(parted(a), real=is_real)), n, 2 * n)
    if rt.trace() is not None:
        _, equal = _inverse_gaps(np, w)
        learn_equality("eig", np.sum(equal) > np.size(value_of(w.real)))
    return (w.real, v.real) if is_real and _may_be_real() and all_real(w.imag) else (w, v)


@functools.cache
def _may_be_real() -> bool:
    """Whether NumPy gives real matrices real eigenvalues: before 2.5, where all of them are."""
    return np.linalg.eigvals(np.ones((1, 1))).dtype.kind == "f"


def all_real(imaginary) -> bool:
    """Whether all eigenvalues are real; programs test that again."""
    if not np.size(value_of(imaginary)):
        return True
    zero = steered(operator.eq, np.max(np.absolute(imaginary)), 0.0)
    learned(zero, "whether eigenvalues are real")
    return bool(value_of(zero))


@function("linalg.eig", complex=alike)
def eig(a):
    """Compute the eigenvalues and eigenvectors of square matrices.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Square matrices.

    Returns
    -------
    EigResult
        A named tuple of `eigenvalues`, of shape (…, M), in no order, and `eigenvectors`, of shape
        (…, M, M): columns of norm 1. Both are complex; with NumPy before 2.5 they are real where
        all eigenvalues of a real matrix are.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not square or not finite.

    Notes
    -----
    The signs, or phases, of the eigenvectors are LAPACK's choice. A derivative that depends on them
    ignores this part, and eager calls warn. Where eigenvalues are equal, the derivative is right
    for functions that are symmetric in them. A matrix without M independent eigenvectors has no
    derivative.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> a = np.array([[0.0, -2.0], [2.0, 0.0]])
    >>> tg.grad(lambda a: np.sum(np.abs(np.linalg.eig(a).eigenvalues)))(a)
    array([[ 0., -1.],
           [ 1.,  0.]])
    """
    a = unlisted(a)
    if not is_tensor(a) and type(a) is not ComplexTensor:
        return np.linalg.eig(a)
    return _result()(*_decomposed(a))


@function("linalg.eigvals", complex=alike)
def eigvals(a):
    """Compute the eigenvalues of square matrices.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Square matrices.

    Returns
    -------
    Tensor, ComplexTensor or ndarray, shape (…, M)
        The eigenvalues, in no order; complex, with NumPy before 2.5 real where all eigenvalues of
        a real matrix are.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.max(np.real(np.linalg.eigvals(a))))(np.array([[2.0, 1.0], [0.0, 1.0]]))
    array([[1., 0.],
           [1., 0.]])
    """
    a = unlisted(a)
    if not is_tensor(a) and type(a) is not ComplexTensor:
        return np.linalg.eigvals(a)
    return _decomposed(a)[0]
