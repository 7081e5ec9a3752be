"""Matrices that `scipy.linalg` makes of a few numbers, recorded: their elements are moved."""

from __future__ import annotations

import importlib

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.without_derivative import any_zero, asked_of_matrix
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import learned, steered
from .._core.tensor.values import dtype_of, shape_of, value_of
from ._differentiable import differentiable, is_before, real_parts
from ._matrix_equations import plain_array


def _theirs(name: str):
    return getattr(importlib.import_module("scipy.linalg"), name)


def _vector(x):
    """An operand with one axis at least."""
    x = plain_array(unlisted(x))
    return x if len(shape_of(x)) else x[None]


def moved(name: str, *operands, **keywords):
    """The matrix that SciPy makes of elements of the operands and of zeros.

    SciPy's function is called with positions, from 1 on, in place of elements, and so makes a
    matrix of positions. Its errors are raised.
    """
    arrays = [unlisted(x) for x in operands]
    for x in arrays:
        if dtype_of(x).kind not in "biufc":
            raise TypeError(
                f"tapegrad.scipy.linalg.{name}: an argument is not an array of numbers: {x!r}"
            )
    sizes = [int(np.prod(shape_of(x))) for x in arrays]
    starts = 1 + np.cumsum([0, *sizes])
    places = [
        np.arange(start, start + size).reshape(shape_of(x))
        for x, start, size in zip(arrays, starts, sizes, strict=False)
    ]
    at = np.asarray(_theirs(name)(*places, **keywords)).astype(np.intp)
    flat = [PUBLIC["reshape"](x, (size,)) for x, size in zip(arrays, sizes, strict=True)]
    zero = np.zeros(1, np.result_type(*[value_of(x) for x in arrays]))
    return PUBLIC["concatenate"]([zero, *flat])[at]


@differentiable("linalg.toeplitz")
def toeplitz(c, r=None):
    c = unlisted(c)
    return moved("toeplitz", c, PUBLIC["conjugate"](c) if r is None else r)


@differentiable("linalg.circulant")
def circulant(c):
    return moved("circulant", c)


@differentiable("linalg.hankel")
def hankel(c, r=None):
    return moved("hankel", c) if r is None else moved("hankel", c, r)


@differentiable("linalg.block_diag")
def block_diag(*arrs):
    return moved("block_diag", *arrs)


@differentiable("linalg.leslie")
def leslie(f, s):
    return moved("leslie", f, s)


@differentiable("linalg.convolution_matrix")
def convolution_matrix(a, n, mode="full"):
    return moved("convolution_matrix", a, n=n, mode=mode)


# --- companions of polynomials --------------------------------------------------------------------


def _check_leading(name: str, a, message: str) -> None:
    """Raise if a polynomial has a leading coefficient 0; programs test that again."""
    zero = steered(any_zero, *real_parts(a[..., 0]))
    learned(zero, f"tapegrad.scipy.linalg.{name}()")
    if value_of(zero):
        raise ValueError(message)


def _of_monic(name: str, a):
    """The matrix that SciPy makes of −a[1:] / a[0], zeros and ones, described by integers."""
    n = shape_of(a)[-1]
    found = np.asarray(_theirs(name)(np.arange(1.0, n + 1.0))).astype(np.intp)
    quotients = -a[..., 1:] / a[..., :1]
    ends = np.broadcast_to([0.0, 1.0], (*shape_of(a)[:-1], 2)).astype(value_of(quotients).dtype)
    return PUBLIC["concatenate"]([ends, quotients], axis=-1)[
        ..., np.where(found < 0, -found, found)
    ]


@differentiable("linalg.companion")
def companion(a):
    a = _vector(a)
    if shape_of(a)[-1] < 2:
        raise ValueError("The length of `a` along the last axis must be at least 2.")
    _check_leading(
        "companion",
        a,
        "The first coefficient(s) of `a` (i.e. elements of `a[..., 0]`) must not be zero.",
    )
    return _of_monic("companion", a)


@differentiable("linalg.fiedler_companion")
def fiedler_companion(a):
    a = _vector(a)
    if shape_of(a)[-1] > 2:
        _check_leading("fiedler_companion", a, "Leading coefficient is zero.")
    return _of_monic("fiedler_companion", a)


@differentiable("linalg.fiedler")
def fiedler(a):
    a = _vector(a)
    if not shape_of(a)[-1] and is_before("1.18.0"):
        return 0.0 * a
    return PUBLIC["absolute"](a[..., :, None] - a[..., None, :])


# --- products -------------------------------------------------------------------------------------


@differentiable("linalg.khatri_rao")
def khatri_rao(a, b):
    a, b = plain_array(unlisted(a)), plain_array(unlisted(b))
    m, n = shape_of(a), shape_of(b)
    if len(m) < 2 or len(n) < 2:
        raise ValueError("The both arrays should be 2-dimensional.")
    if m[-1] != n[-1]:
        raise ValueError("The number of columns for both arrays should be equal.")
    product = a[..., :, None, :] * b[..., None, :, :]
    return PUBLIC["reshape"](product, (*shape_of(product)[:-3], m[-2] * n[-2], m[-1]))


# --- questions, which have no derivative ----------------------------------------------------------


def _asked(name: str, a, **keywords):
    """SciPy's answer for the values; a program checks that it stays the same."""
    answer = steered(asked_of_matrix, *real_parts(unlisted(a)), name=name, **keywords)
    learned(answer, f"tapegrad.scipy.linalg.{name}()")
    return value_of(answer)


@differentiable("linalg.bandwidth")
def bandwidth(a):
    found = _asked("bandwidth", a)
    if found.ndim > 1:
        return [found[0], found[1]]
    return tuple(found.tolist())


@differentiable("linalg.issymmetric")
def issymmetric(a, atol=None, rtol=None):
    found = _asked("issymmetric", a, atol=atol, rtol=rtol)
    return found if found.ndim else bool(found)


@differentiable("linalg.ishermitian")
def ishermitian(a, atol=None, rtol=None):
    found = _asked("ishermitian", a, atol=atol, rtol=rtol)
    return found if found.ndim else bool(found)
