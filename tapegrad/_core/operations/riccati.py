"""Algebraic Riccati equations, SciPy's `solve_continuous_are` and `solve_discrete_are`.

With the gain k the left side is that of a Lyapunov equation of a − b k, and k makes it stationary:
so its derivatives are those at fixed k, and the adjoint y of the left side solves one Lyapunov
equation of (a − b k)ᴴ.
"""

from __future__ import annotations

import numpy as np

from .declaring import adjoint, declared
from .sylvester import (
    by_matrix,
    inexact,
    of_scipy,
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
)


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
    along = lambda: 2.0 * _product(np, x, closed[0], y)  # noqa: E731
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
