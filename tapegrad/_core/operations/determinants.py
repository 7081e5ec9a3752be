"""Determinants, their logarithms, and cofactors, those of singular matrices too."""

from __future__ import annotations

import numpy as np

from ..codegen import lapack
from ..codegen.elements import floats
from ..codegen.intrinsics import helper, load_f64, load_i64
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..ops import small_matrices
from ..ops.table import TABLE
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.runtime import silence
from ..tensor.values import differentiates, is_complex, scalar_of
from .declaring import adjoint, by_kernel, conjugate, declared, transposed
from .inverses import inverse, inverse_jvp, inverse_shape, inverse_vjp
from .solving import diagonals, inverted, prepared, signs_and_logarithms
from .without_derivative import unrecorded

# --- Cofactors of matrices and their derivatives, those of singular matrices too ------------------
# The cofactors of a are det(a) a⁻ᵀ, the partial derivatives of the determinant. Where a is far from
# singular they are computed so. Elsewhere a = u s vᴴ, and the cofactors of the diagonal matrix s
# are products of all elements but one; their derivatives are products of all but two.


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
    example="(lambda a: tg._core.operations.determinants.regular_inverse(a, "
    "tg._core.operations.solving.lu_factors(a)))(np.diag(x * x + 1.0))",
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


# --- Determinants and their logarithms, under NumPy's names ---------------------------------------


#: The result of NumPy's slogdet: a named pair.
SlogdetResult = type(np.linalg.slogdet(np.eye(1)))


# --- values in programs ---------------------------------------------------------------------------


@helper
def sign_and_size(lu, at, n):
    """The sign of the determinant of a matrix, and the logarithm of its size."""
    step, row = lapack.stride_along(lu, 1), lapack.stride_along(lu, 2)
    sign, size, apart = 1.0, 0.0, lapack.parts_stride(lu)
    for i in range(n):
        turn, length = lapack.polar(lapack.load_number(at + i * (row + step), apart))
        if length == 0.0:
            sign, size = turn, -1e400
            break
        if load_f64(at, n * row + i * step) > i:
            turn = -turn
        sign, size = sign * turn, size + np.log(length)
    return sign, size


def determinant_forward(frame, id, refs, task):
    """References: no parameters, the matrices, their factors, the output."""
    lu, out = load_i64(refs, 2 * REFERENCE_BYTES), load_i64(refs, 3 * REFERENCE_BYTES)
    made = floats(load_i64(out, ARRAY_DATA))
    for k in range(lapack.batch_size(out, 0)):
        at = lapack.batch_item(lu, 2, out, 0, k)
        sign, size = sign_and_size(lu, at, lapack.size_along(lu, 1))
        made[k] = sign * np.exp(size)


def logarithm_forward(frame, id, refs, task):
    """References: no parameters, the matrices, their factors, the output."""
    lu, out = load_i64(refs, 2 * REFERENCE_BYTES), load_i64(refs, 3 * REFERENCE_BYTES)
    made = floats(load_i64(out, ARRAY_DATA))
    for k in range(lapack.batch_size(out, 1)):
        at = lapack.batch_item(lu, 2, out, 1, k)
        sign, size = sign_and_size(lu, at, lapack.size_along(lu, 1))
        made[2 * k], made[2 * k + 1] = sign, size


# --- determinants ---------------------------------------------------------------------------------


def _shape(a, lu):
    """The shape of determinants; raises ValueError where NumPy does."""
    return inverse_shape(a, lu)[:-2]


def determinant_vjp(np, g, _out, a, lu):
    times = np.times if a.dtype.kind == "f" else np.multiply
    return times(g[..., None, None], conjugate(np, cofactors(a, lu))), None


def determinant_jvp(np, t, _out, a, lu):
    if t[0] is None:
        return None
    times = np.times if a.dtype.kind == "f" else np.multiply
    return np.sum(times(t[0], cofactors(a, lu)), axis=(-2, -1))


@declared(
    vjp=determinant_vjp,
    jvp=determinant_jvp,
    shape=_shape,
    value_kernel=determinant_forward,
    complex_kernel=determinant_forward,
    products=small_matrices.products,
    small=small_matrices.determinant,
    helpers=(sign_and_size,),
    example="np.linalg.det(np.diag(0.5 * x * x + 0.5))",
    examples=(
        "np.linalg.det(0.2 * x @ x.T + np.eye(len(x)))",
        "np.linalg.det(x[:, None, :2] * x[:, :2, None] + np.eye(2)) if x.size else np.sum(x)",
        "np.linalg.det(x[:3, :3]) if x.size else np.sum(x)",
    ),
    complex_example="np.linalg.det(np.diag(x * x + 1j) + 0.2j * x)",
    complex_examples=("np.linalg.det((x[:, None, :2] + 1j) * x[:, :2, None] + np.eye(2))",),
    awkward="a singular matrix has first and second derivatives, but none of third order",
)
def _det(a, lu):
    """det(a): the determinants of matrices, by their factors."""
    return determinants(lu)


@function("linalg.det", complex=alike)
def det(a):
    """Compute the determinants of matrices.

    The derivative is right for singular matrices too. `slogdet` does not overflow.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Square matrices.

    Raises
    ------
    numpy.linalg.LinAlgError
        If matrices are not square.

    Notes
    -----
    The gradient is the matrix of cofactors.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(np.linalg.det)(np.array([[1.0, 2.0], [2.0, 4.0]]))
    array([[ 4., -2.],
           [-2.,  1.]])
    """
    a = unlisted(a)
    if not differentiates(a) and not is_complex(a):
        return unrecorded(np.linalg.det, a)
    return _det(*prepared("det", np.linalg.det, _shape, a))


# --- logarithms -----------------------------------------------------------------------------------


def _shape_of_both(a, lu):
    """The shape of signs and logarithms stacked; raises ValueError where NumPy does."""
    return (*inverse_shape(a, lu)[:-2], 2)


def log_determinant_vjp(np, g, out, a, lu):
    """The adjoint of the logarithm is a⁻ᴴ; a complex sign turns by Im tr(a⁻¹ ȧ)."""
    scale = g[..., 1]
    if out.dtype.kind == "c":
        scale = np.real(scale) - 1j * np.imag(np.conj(g[..., 0]) * out[..., 0])
    return scale[..., None, None] * adjoint(np, inverse(a, lu)), None


def log_determinant_jvp(np, t, out, a, lu):
    if t[0] is None:
        return None
    found = np.sum(np.swapaxes(inverse(a, lu), -1, -2) * t[0], axis=(-2, -1))
    if out.dtype.kind == "c":
        return np.stack([1j * np.imag(found) * out[..., 0], np.real(found) + 0j], axis=-1)
    return np.stack([np.zeros_like(found), found], axis=-1)


@declared(
    vjp=log_determinant_vjp,
    jvp=log_determinant_jvp,
    shape=_shape_of_both,
    value_kernel=logarithm_forward,
    complex_kernel=logarithm_forward,
    helpers=(sign_and_size,),
    example="np.linalg.slogdet(np.diag(x * x + 1.0))[1]",
    examples=(
        "np.linalg.slogdet(x @ x.T + 3.0 * np.eye(len(x)))[1]",
        "np.linalg.slogdet(x[:, None, :2] * x[:, :2, None] + np.eye(2))[1]"
        " if x.size else np.sum(x)",
    ),
    complex_example="np.linalg.slogdet(np.diag(x * x + 1j) + 0.2j * x)[1]",
    complex_examples=("np.linalg.slogdet((x[:, None, :2] + 1j) * x[:, :2, None] + np.eye(2))[0]",),
)
def _slogdet(a, lu):
    """The signs of determinants and the logarithms of their absolute values stacked, by factors."""
    return np.stack(signs_and_logarithms(lu), axis=-1)


@function("linalg.slogdet", complex=alike)
def slogdet(a):
    """Compute the signs of determinants and the logarithms of their absolute values.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Square matrices.

    Returns
    -------
    SlogdetResult
        A named tuple of `sign` and `logabsdet`. A real sign has no derivative.

    Raises
    ------
    numpy.linalg.LinAlgError
        If matrices are not square; in the derivative, if a matrix is singular (sign 0, logarithm
        −inf).

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.linalg.slogdet(a).logabsdet)(np.diag([1.0, 4.0]))
    array([[1.  , 0.  ],
           [0.  , 0.25]])
    """
    a = unlisted(a)
    if is_complex(a):
        both = _slogdet(*prepared("slogdet", np.linalg.slogdet, _shape_of_both, a))
        return SlogdetResult(both[..., 0], scalar_of(both[..., 1].real))
    if not differentiates(a):
        return SlogdetResult(*unrecorded(np.linalg.slogdet, a))
    both = _slogdet(*prepared("slogdet", np.linalg.slogdet, _shape_of_both, a))
    return SlogdetResult(scalar_of(both[..., 0]).detach(), scalar_of(both[..., 1]))
