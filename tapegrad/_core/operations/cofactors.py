"""Cofactors of matrices and their derivatives, those of singular matrices too.

The cofactors of a are det(a) a⁻ᵀ, the partial derivatives of the determinant. Where a is far from
singular they are computed so. Elsewhere a = u s vᴴ, and the cofactors of the diagonal matrix s are
products of all elements but one; their derivatives are products of all but two.
"""

from __future__ import annotations

import numpy as np

from ..ops.table import TABLE
from ..tensor.runtime import silence
from .declaring import adjoint, conjugate, declared, transposed
from .inverses import inverse_jvp, inverse_vjp
from .kernel_values import by_kernel
from .lu_factors import diagonals, inverted, signs_and_logarithms

#: Matrices of greater condition than this power of the precision are taken for singular: the error
#: of the inverse grows with the condition, that of a difference of its products with the square.
OF_COFACTORS, OF_TANGENTS, OF_THIRD = -0.4, -0.2, -0.5


def _one_norm(a):
    return np.maximum.reduce(np.add.reduce(np.abs(a), axis=-2), axis=-1, initial=0.0)


def inverse_unless_singular(a, lu, power: float):
    """The inverses of matrices, and which of them are too close to singular for use."""
    made = _regular_inverse(a, lu)
    if made is not None:
        with silence():
            condition = _one_norm(a) * _one_norm(made)
        regular = condition <= np.finfo(lu.dtype).eps ** power
        if regular.all():
            return made, ~regular
    finite = np.all(np.isfinite(a), axis=(-2, -1))
    zero = ~np.all(diagonals(lu), axis=-1)
    if np.any(zero):
        lu = np.where(zero[..., None, None], np.eye(*lu.shape[-2:], dtype=lu.dtype), lu)
    with silence():
        made = inverted(lu)
        condition = _one_norm(a) * _one_norm(made)
    return made, zero | (finite & ~(condition <= np.finfo(lu.dtype).eps ** power))


def _regular_inverse(a, lu):
    """The inverses of matrices by their kernel; None where it takes none, or one is singular."""
    try:
        return by_kernel(TABLE["inv"], (a, lu), {})
    except np.linalg.LinAlgError:
        return None


def determinants(lu):
    """The determinants of matrices by their factors."""
    sign, logarithm = signs_and_logarithms(lu)
    return sign * np.exp(logarithm)


def _determinants(a, lu):
    """The same by their kernel, if it takes the matrices."""
    found = by_kernel(TABLE["det"], (a, lu), {})
    return determinants(lu) if found is None else found


def _products_but_one(s):
    """For each element the product of the others."""
    one = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([one, s[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([one, s[..., :0:-1]], axis=-1), axis=-1)
    return before * after[..., ::-1]


def _products_but_two(s):
    """For each pair of elements the product of the others; 0 for an element with itself."""
    n = s.shape[-1]
    found = np.zeros((*s.shape, n), s.dtype)
    for k in range(n):
        others = np.delete(np.arange(n), k)
        found[..., k, others] = _products_but_one(s[..., others])
    return found


def _decomposed(a):
    """u, s, vᴴ, and the determinant of u vᴴ."""
    u, s, v = np.linalg.svd(a)
    return u, s, v, (np.linalg.det(u) * np.linalg.det(v))[..., None, None]


def _singular_cofactors(a):
    u, s, v, sign = _decomposed(a)
    return sign * np.matmul(np.conj(u) * _products_but_one(s)[..., None, :], np.conj(v))


def _singular_tangent(a, h):
    u, s, v, sign = _decomposed(a)
    along = np.matmul(np.matmul(adjoint(np, u), h), adjoint(np, v))
    others = _products_but_two(s)
    diagonal = np.matmul(others, np.diagonal(along, axis1=-2, axis2=-1)[..., None])
    inner = diagonal * np.eye(a.shape[-1]) - others * transposed(np, along)
    return sign * np.matmul(np.matmul(np.conj(u), inner), np.conj(v))


def _chosen(singular, regular, of_singular, a, *rest):
    """The regular results; for singular matrices those of the function."""
    if not singular.any():
        return regular
    whole = np.broadcast_shapes(singular.shape, *[x.shape[:-2] for x in rest])
    where = np.broadcast_to(singular, whole)
    parts = [np.broadcast_to(x, (*whole, *x.shape[-2:]))[where] for x in (a, *rest)]
    regular[where] = of_singular(*parts)
    return regular


# --- cofactors ------------------------------------------------------------------------------------


def cofactors_vjp(np, g, _out, a, lu):
    """The derivative of the cofactors is symmetric: a second derivative."""
    return conjugate(np, cofactor_tangent(a, conjugate(np, g), lu)), None


def cofactors_jvp(np, t, _out, a, lu):
    return None if t[0] is None else cofactor_tangent(a, t[0], lu)


@declared(
    vjp=cofactors_vjp,
    jvp=cofactors_jvp,
    takes_complex=True,
    example="tg.grad(np.linalg.det)(np.diag(x * x + 1.0))",
    examples=("tg.grad(np.linalg.det)(x @ x.T + np.eye(len(x)))",),
)
def cofactors(a, lu):
    """The cofactors of matrices: det(a) a⁻ᵀ where they are regular."""
    inverse, singular = inverse_unless_singular(a, lu, OF_COFACTORS)
    with silence():
        made = _determinants(a, lu)[..., None, None] * transposed(np, inverse)
    return _chosen(singular, made, _singular_cofactors, a)


# --- their derivative -----------------------------------------------------------------------------


def _trace(np, x):
    return np.trace(x, axis1=-2, axis2=-1)[..., None, None]


def third_derivative(np, a, lu, h, k):
    """The derivative of `cofactor_tangent(a, h)` along k, which is symmetric in h and k."""
    y = regular_inverse(a, lu)
    one, two = np.matmul(y, h), np.matmul(y, k)
    both = np.matmul(one, two)
    scale = _trace(np, one) * _trace(np, two) - _trace(np, both)
    inner = both + np.matmul(two, one) - _trace(np, two) * one - _trace(np, one) * two
    turned = scale * y + np.matmul(inner, y)
    return np.linalg.det(a)[..., None, None] * transposed(np, turned)


def tangent_vjp(np, g, _out, a, h, lu):
    turned = conjugate(np, g)
    return (
        lambda: conjugate(np, third_derivative(np, a, lu, h, turned)),
        lambda: conjugate(np, cofactor_tangent(a, turned, lu)),
        None,
    )


def tangent_jvp(np, t, _out, a, h, lu):
    found = None if t[1] is None else cofactor_tangent(a, t[1], lu)
    if t[0] is None:
        return found
    other = third_derivative(np, a, lu, h, t[0])
    return other if found is None else found + other


@declared(
    vjp=tangent_vjp,
    jvp=tangent_jvp,
    takes_complex=True,
    example="tg.hvp(np.linalg.det)(np.diag(x * x + 1.0), np.ones((len(x), len(x))))",
    examples=("tg.hvp(np.linalg.det)(x @ x.T + np.eye(len(x)), np.ones((len(x), len(x))))",),
)
def cofactor_tangent(a, h, lu):
    """The derivative of the cofactors of matrices along h: det(a) (tr(y h) yᵀ − (y h y)ᵀ)."""
    y, singular = inverse_unless_singular(a, lu, OF_TANGENTS)
    with silence():
        along = np.matmul(y, h)
        turned = _trace(np, along) * y - np.matmul(along, y)
        made = _determinants(a, lu)[..., None, None] * transposed(np, turned)
    return _chosen(singular, made, _singular_tangent, a, h)


@declared(
    vjp=inverse_vjp,
    jvp=inverse_jvp,
    takes_complex=True,
    example="(lambda a: tg._core.operations.cofactors.regular_inverse(a, "
    "tg._core.operations.lu_factors.lu_factors(a)))(np.diag(x * x + 1.0))",
)
def regular_inverse(a, lu):
    """The inverses of matrices for third derivatives of determinants, which singular ones lack."""
    made, singular = inverse_unless_singular(a, lu, OF_THIRD)
    if np.any(singular):
        raise np.linalg.LinAlgError(
            "tapegrad.det: the third derivative at a singular matrix is not implemented; only "
            "values, first and second derivatives are"
        )
    return made
