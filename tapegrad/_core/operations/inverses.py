"""Inverse matrices, and equations and inverses of arrays of more axes, under NumPy's names."""

from __future__ import annotations

import math

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM
from ..codegen.intrinsics import free, helper, load_i64, malloc, memcpy
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.shared_kernels import invert_factors
from ..ops import small_matrices
from ..tensor.complex_tensors import is_complex
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.values import differentiates, shape_of
from .declaring import adjoint, declared
from .einsum import as_tensor
from .lu_factors import Factored, check_regular, inverted, prepared, read_factors, singular, square
from .shapes import ravel, reshape, transpose
from .solving import solve
from .unrecorded import unrecorded

# --- values in programs ---------------------------------------------------------------------------


@helper
def invert_lu(to, factors, call):
    """Write to `to`, where the factors may be, the inverse in C order."""
    matrix, pivots, n, kind = factors
    if matrix != to:
        memcpy(to, matrix, n * n * ITEM)
    lapack.enter_call(call, kind, n, n)
    rows, answer = call + lapack.ROWS, call + lapack.ANSWER
    if kind == lapack.FULL:
        invert_factors(to, pivots, n)
    else:
        none = call + lapack.NOT_TRANSPOSED
        lapack.trtri(call + lapack.LETTER, none, rows, to, rows, answer)
    lapack.turn(to, n)


def inverse_forward(frame, id, refs, task):
    """References: no parameters, the matrices, their factors, the output."""
    lu, out = load_i64(refs, 2 * REFERENCE_BYTES), load_i64(refs, 3 * REFERENCE_BYTES)
    n = lapack.size_along(out, 1)
    call = malloc(lapack.CALL_BYTES + n * 4)
    pivots = call + lapack.CALL_BYTES
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = load_i64(out, ARRAY_DATA) + k * n * n * ITEM
        at = lapack.batch_item(lu, 2, out, 2, k)
        factors, is_singular = read_factors(lu, at, n, to, pivots)
        if is_singular:
            lapack.refuse(frame, 1)
            break
        invert_lu(to, factors, call)
    free(call)


# --- inverses -------------------------------------------------------------------------------------


def inverse_shape(a, lu):
    """The shape of inverses; raises ValueError where NumPy does."""
    square("inv", a)
    if lu != (*a[:-2], a[-1] + 1, a[-1]):
        raise ValueError(f"inv does not accept matrices of shape {a} with factors of shape {lu}")
    return a


def inverse_vjp(np, g, out, _a, _lu):
    """With y = a⁻¹: ā = −yᴴ ȳ yᴴ (Giles 2008, section 2.2.3)."""
    turned = adjoint(np, out)
    return -np.matmul(np.matmul(turned, g), turned), None


def inverse_jvp(np, t, out, _a, _lu):
    """ẏ = −y ȧ y."""
    return None if t[0] is None else -np.matmul(np.matmul(out, t[0]), out)


@declared(
    vjp=inverse_vjp,
    jvp=inverse_jvp,
    shape=inverse_shape,
    value_kernel=inverse_forward,
    complex_kernel=inverse_forward,
    products=small_matrices.products,
    small=small_matrices.inverted,
    helpers=(Factored, read_factors, invert_lu),
    refusal=singular,
    complex_example="np.linalg.inv(np.diag(x * x + 1j) + 0.2j * x)",
    complex_examples=(
        "np.linalg.inv((x[:, None, :2] + 1j) * x[:, :2, None] + np.eye(len(x[0, :2])))",
    ),
    example="np.linalg.inv(np.diag(x * x + 1.0))",
    examples=(
        "np.linalg.inv(x @ x.T + 3.0 * np.eye(len(x)))",
        "np.linalg.inv(x[:, None, :2] * x[:, :2, None] + np.eye(len(x[0, :2])))"
        " if len(x) else np.linalg.inv(x @ x.T)",
    ),
)
def _inv(a, lu):
    """inv(a): the inverses of matrices, by their factors."""
    check_regular(lu)
    return inverted(lu)


inverse = _inv


@function("linalg.inv", complex=alike)
def inv(a):
    """Invert matrices.

    `solve(a, b)` costs less than `inv(a) @ b`, and rounds less.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Square matrices.

    Returns
    -------
    Tensor or ndarray, shape (…, M, M)
        The inverses.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is singular or not square.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.trace(np.linalg.inv(a)))(
    ...     np.array([[2.0, 1.0], [1.0, 1.0]])
    ... ).round(6)
    array([[-2.,  3.],
           [ 3., -5.]])
    """
    a = unlisted(a)
    if not differentiates(a) and not is_complex(a):
        return unrecorded(np.linalg.inv, a)
    return inverse(*prepared("inv", np.linalg.inv, inverse_shape, a))


# --- arrays of more axes --------------------------------------------------------------------------


@function("linalg.tensorsolve", complex=alike)
def tensorsolve(a, b, axes=None):
    """Solve `tensordot(a, x, x.ndim) == b` for x.

    Parameters
    ----------
    a : array_like
        It has the axes of `b`, followed by those of the result.
    axes : tuple of ints, optional
        Axes of `a` that are moved to its end first.

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is singular, or its axes do not match the number of elements of `b`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> a = tg.tensor([[[2.0, 0.0], [0.0, 4.0]]])
    >>> tg.tensorsolve(a.reshape(2, 1, 2), [[2.0], [2.0]])
    tensor([1. , 0.5])
    """
    a, b = unlisted(a), unlisted(b)
    if not differentiates(a, b) and not (is_complex(a) or is_complex(b)):
        return unrecorded(np.linalg.tensorsolve, a, b, axes=axes)
    a, b = (x if is_complex(x) else as_tensor("tensorsolve", x) for x in (a, b))
    if axes is not None:
        last = [k % len(shape_of(a)) for k in axes]
        a = transpose(a, [*[k for k in range(len(shape_of(a))) if k not in last], *last])
    own, whole = len(shape_of(b)), shape_of(a)
    # NumPy counts from the end: for an `a` with as many axes as `b` the result has its own shape.
    size, kept = math.prod(shape_of(b)), whole[-(len(whole) - own) :]
    if math.prod(whole) != size * size or size != math.prod(kept):
        raise np.linalg.LinAlgError(
            f"tapegrad.tensorsolve: a has shape {whole} and b {shape_of(b)}; the first {own} axes "
            f"of a must hold as many elements as the others, and as b"
        )
    return reshape(solve(reshape(a, (size, size)), ravel(b)), kept)


@function("linalg.tensorinv", complex=alike)
def tensorinv(a, ind=2):
    """Compute the inverse of `a` with respect to sums over its last axes.

    `tensordot(tensorinv(a, ind), b, ind)` solves `tensordot(a, x, x.ndim) == b`.

    Parameters
    ----------
    ind : int, optional
        The number of axes of `b`: the first axes of `a`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the first `ind` axes and the others do not have the same number of elements.
    """
    a = unlisted(a)
    if not differentiates(a) and not is_complex(a):
        return unrecorded(np.linalg.tensorinv, a, ind=ind)
    if ind <= 0:
        raise ValueError(f"tapegrad.tensorinv: ind is {ind}; it must be positive")
    a = a if is_complex(a) else as_tensor("tensorinv", a)
    first, last = shape_of(a)[:ind], shape_of(a)[ind:]
    if math.prod(first) != math.prod(last):
        raise np.linalg.LinAlgError(
            f"tapegrad.tensorinv: a has shape {shape_of(a)}; its first {ind} axes must hold as "
            "many elements as the others"
        )
    size = math.prod(last)
    return reshape(inv(reshape(a, (size, size))), (*last, *first))
