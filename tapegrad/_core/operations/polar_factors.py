"""The polar decomposition, and the rotation that takes one set of points nearest to another."""

from __future__ import annotations

import numpy as np

from .declaring import adjoint, declared
from .sylvester import by_matrix, inexact, of_scipy, solve_sylvester


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
