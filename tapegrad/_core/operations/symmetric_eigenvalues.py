"""Eigenvalues and eigenvectors of symmetric matrices, under NumPy's names."""

from __future__ import annotations

import functools

import numpy as np

from ..tensor.complex_tensors import ComplexTensor
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.values import is_tensor, shape_of
from .declaring import adjoint, declared
from .equal_values import inverse_gaps, learn_whether_equal, note_basis, warn_of_basis
from .packing import packed, parts_of
from .spectral_kernels import eigh_forward, solve_symmetric, wanted_words, write_values
from .turned_bases import message_of, moved_apart, spread, turned_basis


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
    """That of eigenvalues, vectors, and the message of `turned_bases`."""
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
