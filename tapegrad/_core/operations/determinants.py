"""Determinants and their logarithms, under NumPy's names."""

from __future__ import annotations

import numpy as np

from ..codegen import lapack
from ..codegen.elements import floats
from ..codegen.intrinsics import helper, load_f64, load_i64
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..ops import small_matrices
from ..tensor.complex_tensors import is_complex
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.values import differentiates, scalar_of
from .cofactors import cofactors, determinants
from .declaring import adjoint, conjugate, declared
from .inverses import inverse, inverse_shape
from .lu_factors import prepared, signs_and_logarithms
from .unrecorded import unrecorded

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
