"""Determinants and their logarithms, under NumPy's names."""

from __future__ import annotations

import numpy as np

from ..tensor.complex_functions import alike
from ..tensor.complex_tensors import is_complex
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.values import differentiates
from .cofactors import cofactors, conjugate
from .declaring import adjoint, declared, operation
from .unrecorded import unrecorded

#: What NumPy's slogdet gives: a pair with names.
SlogdetResult = type(np.linalg.slogdet(np.eye(1)))


def determinant_vjp(np, g, _out, a):
    return (np.times(g[..., None, None], conjugate(np, cofactors(a))),)


def determinant_jvp(np, t, _out, a):
    return np.sum(np.times(t[0], cofactors(a)), axis=(-2, -1))


@operation(
    "linalg.det",
    vjp=determinant_vjp,
    jvp=determinant_jvp,
    takes_complex=True,
    complex_example="np.linalg.det(np.diag(x * x + 1j) + 0.3j * x)",
    complex_examples=("np.linalg.det(x[:, None, :2] * (x[:, :2, None] + 1j) + np.eye(2))",),
    example="np.linalg.det(np.diag(x * x + 1.0))",
    examples=(
        "np.linalg.det(0.2 * x @ x.T + np.eye(len(x)))",
        "np.linalg.det(x[:, None, :2] * x[:, :2, None] + np.eye(2)) if x.size else np.sum(x)",
        "np.linalg.det(x[:3, :3]) if x.size else np.sum(x)",
    ),
    awkward="a singular matrix has first and second derivatives, but none of third order",
)
def det(a):
    """det(a): the determinants of matrices.

    `a` has shape (…, M, M), the result the axes before. The derivative at a singular matrix is
    right: the cofactors. `slogdet` does not overflow. Raises numpy.linalg.LinAlgError for matrices
    that are not square.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(np.linalg.det)(np.array([[1.0, 2.0], [2.0, 4.0]]))
    array([[ 4., -2.],
           [-2.,  1.]])
    """
    return np.linalg.det(a)


def log_determinant_vjp(np, g, out, a):
    """Of the logarithm a⁻ᴴ; a complex sign turns by the imaginary part of tr(a⁻¹ ȧ)."""
    scale = g[..., 1]
    if out.dtype.kind == "c":
        scale = np.real(scale) - 1j * np.imag(np.conj(g[..., 0]) * out[..., 0])
    return (scale[..., None, None] * adjoint(np, np.linalg.inv(a)),)


def log_determinant_jvp(np, t, out, a):
    found = np.trace(np.linalg.solve(a, t[0]), axis1=-2, axis2=-1)
    if out.dtype.kind == "c":
        return np.stack([1j * np.imag(found) * out[..., 0], np.real(found) + 0j], axis=-1)
    return np.stack([np.zeros_like(found), found], axis=-1)


@declared(
    vjp=log_determinant_vjp,
    jvp=log_determinant_jvp,
    takes_complex=True,
    complex_example="(lambda s, l: s * l)(*np.linalg.slogdet(np.diag(x * x + 1j) + 0.3j * x))",
    complex_examples=(
        "np.linalg.slogdet(x[:, None, :2] * (x[:, :2, None] + 1j) + np.eye(2))[0]",
        "np.linalg.slogdet(x[:, None, :2] * (x[:, :2, None] + 1j) + np.eye(2))[1]",
    ),
    example="np.linalg.slogdet(np.diag(x * x + 1.0))[1]",
    examples=(
        "np.linalg.slogdet(x @ x.T + 3.0 * np.eye(len(x)))[1]",
        "np.linalg.slogdet(x[:, None, :2] * x[:, :2, None] + np.eye(2))[1]"
        " if x.size else np.sum(x)",
    ),
)
def sign_and_logarithm(a):
    """The signs of the determinants of matrices and the logarithms of their size, side by side."""
    return np.stack(np.linalg.slogdet(a), axis=-1)


@function("linalg.slogdet", complex=alike)
def slogdet(a):
    """slogdet(a): the signs of determinants, and the logarithms of their absolute values.

    `a` has shape (…, M, M), both results have the axes before, and the names `sign` and
    `logabsdet`. The sign has no derivative, but that of complex matrices. A singular matrix has
    sign 0 and logarithm −inf; its derivative raises numpy.linalg.LinAlgError, as do matrices that
    are not square.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.linalg.slogdet(a).logabsdet)(np.diag([1.0, 4.0]))
    array([[1.  , 0.  ],
           [0.  , 0.25]])
    """
    a = unlisted(a)
    if not differentiates(a):
        return SlogdetResult(*unrecorded(np.linalg.slogdet, a))
    both = sign_and_logarithm(a)
    if is_complex(a):
        return SlogdetResult(both[..., 0], both[..., 1].real)
    return SlogdetResult(both[..., 0].detach(), both[..., 1])
