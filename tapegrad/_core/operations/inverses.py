"""Inverse matrices, and equations and inverses of arrays of more axes, under NumPy's names."""

from __future__ import annotations

import math

import numpy as np

from ..tensor.complex_functions import alike
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.values import differentiates, shape_of
from .declaring import adjoint, operation
from .einsum import as_tensor
from .shapes import ravel, reshape, transpose
from .solving import solve
from .unrecorded import unrecorded


def inverse_vjp(np, g, out, _a):
    """With y = a⁻¹: ā = −yᴴ ȳ yᴴ (Giles 2008, section 2.2.3)."""
    turned = adjoint(np, out)
    return (-np.matmul(np.matmul(turned, g), turned),)


def inverse_jvp(np, t, out, _a):
    """ẏ = −y ȧ y."""
    return -np.matmul(np.matmul(out, t[0]), out)


@operation(
    "linalg.inv",
    vjp=inverse_vjp,
    jvp=inverse_jvp,
    takes_complex=True,
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
def inv(a):
    """inv(a): the inverses of matrices.

    `a` has shape (…, M, M), and so has the result. Raises numpy.linalg.LinAlgError for a singular
    matrix. `solve(a, b)` costs less than `inv(a) @ b`, and rounds less.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.trace(np.linalg.inv(a)))(np.diag([1.0, 2.0]))
    array([[-1.  , -0.  ],
           [-0.  , -0.25]])
    """
    return np.linalg.inv(a)


@function("linalg.tensorsolve", complex=alike)
def tensorsolve(a, b, axes=None):
    """tensorsolve(a, b, axes): the x of `tensordot(a, x, x.ndim) == b`.

    `a` has the axes of `b`, then those of the result; `axes` are moved to its end first. Raises
    numpy.linalg.LinAlgError where both do not have as many elements, and for a singular `a`.

    >>> import tapegrad as tg
    >>> a = tg.tensor([[[2.0, 0.0], [0.0, 4.0]]])
    >>> tg.tensorsolve(a.reshape(2, 1, 2), [[2.0], [2.0]])
    tensor([[1. , 0.5]])
    """
    a, b = unlisted(a), unlisted(b)
    if not differentiates(a, b):
        return unrecorded(np.linalg.tensorsolve, a, b, axes=axes)
    a, b = as_tensor("tensorsolve", a), as_tensor("tensorsolve", b)
    if axes is not None:
        last = [k % len(shape_of(a)) for k in axes]
        a = transpose(a, [*[k for k in range(len(shape_of(a))) if k not in last], *last])
    own, whole = len(shape_of(b)), shape_of(a)
    size, kept = math.prod(shape_of(b)), whole[own:]
    if math.prod(whole[:own]) != math.prod(kept) or size != math.prod(kept):
        raise np.linalg.LinAlgError(
            f"tapegrad.tensorsolve: a has shape {whole} and b {shape_of(b)}; the first {own} axes "
            f"of a must hold as many elements as the others, and as b"
        )
    return reshape(solve(reshape(a, (size, size)), ravel(b)), kept)


@function("linalg.tensorinv", complex=alike)
def tensorinv(a, ind=2):
    """tensorinv(a, ind): the inverse y of `a` for sums over its last axes, those from `ind` on.

    `tensordot(tensorinv(a, ind), b, ind)` solves `tensordot(a, x, x.ndim) == b`. Raises
    numpy.linalg.LinAlgError where the axes before and from `ind` on do not hold as many elements.
    """
    a = unlisted(a)
    if not differentiates(a):
        return unrecorded(np.linalg.tensorinv, a, ind=ind)
    if ind <= 0:
        raise ValueError(f"tapegrad.tensorinv: ind is {ind}; it must be positive")
    a = as_tensor("tensorinv", a)
    first, last = shape_of(a)[:ind], shape_of(a)[ind:]
    if math.prod(first) != math.prod(last):
        raise np.linalg.LinAlgError(
            f"tapegrad.tensorinv: a has shape {shape_of(a)}; its first {ind} axes must hold as "
            "many elements as the others"
        )
    size = math.prod(last)
    return reshape(inv(reshape(a, (size, size))), (*last, *first))
