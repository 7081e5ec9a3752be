"""The logarithm of matrices, and powers of any exponent by it."""

from __future__ import annotations

import math

import numpy as np

from ..tensor.values import is_tensor, shape_of
from .declaring import declared
from .matrix_functions import (
    expm,
    of_any,
    root_of,
    rules_of,
    rules_of_frechet,
    square_tensor,
)
from .sylvester import by_matrix, check_square, inexact, solve_sylvester

#: Gauss and Legendre's rule in [0, 1]: the integrals below to 1e-18 for |z| ≤ ¼.
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(9)[k] * 0.5 + 0.5 * (k == 0) for k in range(2))
#: The number of square roots that take a matrix with elements in float64 to the identity.
_MOST_ROOTS = 100
_NEAR = 0.25
_SINGULAR = "tapegrad.scipy.linalg.logm: the matrix is singular: it has no logarithm"


def _checked(a, dtype):
    check_square("logm", A=a)
    return np.asarray_chkfinite(a, np.result_type(dtype, np.float64))


def _near_identity(a):
    """Repeated square roots of a matrix, until the last is near 1."""
    found, one = [], np.eye(len(a))
    if len(a) and np.linalg.slogdet(a)[0] == 0:
        raise np.linalg.LinAlgError(_SINGULAR)
    while np.linalg.norm(a - one, 1) > _NEAR:
        if len(found) == _MOST_ROOTS:
            raise np.linalg.LinAlgError(_SINGULAR)
        a = root_of(a, "logm")
        found.append(a)
    return found


def _logm(a):
    """2ᵏ times the logarithm of the 2ᵏth root, an integral of z (1 + tz)⁻¹; not random."""
    x = _checked(a, a.dtype)
    if not a.size:
        return np.zeros(a.shape, inexact(a))
    roots, one = _near_identity(x), np.eye(len(a))
    z = (roots[-1] if roots else x) - one
    found = sum(w * np.linalg.solve(one + t * z, z) for t, w in zip(_NODES, _WEIGHTS, strict=True))
    return np.asarray(math.ldexp(1.0, len(roots)) * found, inexact(a))


@declared(
    **rules_of(lambda: logm_frechet),
    example="tg.scipy.linalg.logm((np.diag(x * x + 0.5) + 0.1).astype(float))",
    examples=(
        "tg.scipy.linalg.logm((0.2 * x @ x.T + np.eye(len(x))).astype(float))",
        "tg.scipy.linalg.logm("
        "(0.3 * x[:, None, :2] * np.cos(x[:, :2, None]) + np.eye(2)).astype(float))"
        " if len(x) and len(x.T) else tg.scipy.linalg.logm(x @ x.T + np.eye(len(x)))",
    ),
    awkward="a singular matrix raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.logm((np.diag(x * x + 1j) + 0.1j * x).astype(complex))",
)
def logm(a):
    """The principal logarithms of matrices."""
    return by_matrix(_logm, a)


def _check_branch(a) -> None:
    """Raise ValueError for a block matrix [[b, d], [0, b]] with b on the branch cut.

    Rounding would take its two blocks to different sides.
    """
    n = len(a) // 2
    is_block = np.array_equal(a[:n, :n], a[n:, n:]) and not np.any(a[n:, :n]) and 2 * n == len(a)
    if not np.iscomplexobj(a) or not n or not is_block:
        return
    values = np.linalg.eigvals(a)
    if np.any((values.real <= 0.0) & (np.abs(values.imag) <= 1e-6 * np.abs(values))):
        raise ValueError(
            "tapegrad.scipy.linalg.logm: an eigenvalue is on the branch cut, the negative numbers; "
            "there is no second derivative here"
        )


def _logm_frechet(a, e):
    """The derivative by the integral of (1 + tz)⁻¹ e (1 + tz)⁻¹ at the 2ᵏth root 1 + z.

    With a = s² the derivative at a along e is twice that at s along d, s d + d s = e.
    """
    dtype = inexact(a, e)
    _check_branch(a)
    a, e = _checked(a, dtype), np.asarray(e, np.result_type(dtype, np.float64))
    if not a.size:
        return np.zeros(a.shape, dtype)
    roots, one = _near_identity(a), np.eye(len(a))
    for root in roots:
        e = solve_sylvester(root, root, e)
    z, total = (roots[-1] if roots else a) - one, 0.0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        inverse = np.linalg.inv(one + node * z)
        total = total + weight * (inverse @ e @ inverse)
    return np.asarray(math.ldexp(1.0, len(roots)) * total, dtype)


@declared(
    **rules_of_frechet(lambda: logm_frechet),
    example="tg._core.operations.matrix_logarithm.logm_frechet("
    "np.diag(x * x + 0.5) + 0.1, x[:, None] * x)",
    takes_complex=True,
    complex_example="tg._core.operations.matrix_logarithm.logm_frechet("
    "np.diag(x * x + 0.5j), 1j * x[:, None] * x)",
)
def logm_frechet(a, e):
    """The derivatives of the logarithms of matrices a along e."""
    return by_matrix(_logm_frechet, a, e)


# --- powers ---------------------------------------------------------------------------------------


def fractional_matrix_power(a, t):
    """Powers of matrices: products for whole t, otherwise exp(t log a), which t enters too."""
    a = square_tensor("fractional_matrix_power", a)
    if shape_of(t):
        raise TypeError(
            "tapegrad.scipy.linalg.fractional_matrix_power: t has shape "
            f"{shape_of(t)}; it must be a number"
        )
    if is_tensor(t) or t != int(t):
        return expm(t * of_any(logm, a))
    return _whole_power(a, int(t))


def _whole_power(a, t: int):
    """A product of squares; that of the inverse for t < 0."""
    one = np.broadcast_to(np.eye(shape_of(a)[-1], dtype=a.dtype), shape_of(a))
    if t < 0:
        a, t = np.linalg.solve(a, one), -t
    found = None
    while t:
        if t & 1:
            found = a if found is None else np.matmul(found, a)
        t >>= 1
        a = np.matmul(a, a) if t else a
    return one + 0.0 * a if found is None else found * 1.0
