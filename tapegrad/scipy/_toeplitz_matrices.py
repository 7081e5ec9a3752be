"""Toeplitz and circulant matrices under `scipy.linalg`: equations and products."""

from __future__ import annotations

import functools

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.toeplitz_equations import solve_toeplitz as solve_columns
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import learned, steered
from .._core.tensor.values import dtype_of, shape_of, value_of
from ._differentiable import differentiable
from ._matrix_equations import aligned, operands, plain_array, rows_of
from ._special_matrices import toeplitz


def _column_and_row(name, c_or_cr, b, check_finite, is_square=True):
    """The first column and row, and the vectors of an equation, as SciPy computes: in float64."""
    if b is None:
        raise ValueError("`b` must be an array, not None.")
    if isinstance(c_or_cr, tuple):
        c, r, b = operands(name, check_finite, *c_or_cr, b)
    else:
        c, b = operands(name, check_finite, c_or_cr, b)
        r = PUBLIC["conjugate"](c)
    m, n = shape_of(c)[-1], shape_of(r)[-1]
    if not shape_of(b) or rows_of(b) != n or (is_square and m != n):
        raise ValueError("Incompatible dimensions.")
    wide = np.result_type(dtype_of(c), dtype_of(r), dtype_of(b), np.float64)
    return [x.astype(wide) for x in (c, r, b)]


@differentiable("linalg.solve_toeplitz")
def solve_toeplitz(c_or_cr, b, check_finite=True):
    c, r, b = _column_and_row("linalg.solve_toeplitz", c_or_cr, b, check_finite)
    is_vector = len(shape_of(b)) == 1
    columns = c[..., None], r[..., None], b[..., None] if is_vector else b
    ndim = max(len(shape_of(x)) for x in columns)
    x = solve_columns(*[aligned(x, ndim) for x in columns])
    return x[..., 0] if is_vector else x


@differentiable("linalg.matmul_toeplitz")
def matmul_toeplitz(c_or_cr, x, check_finite=False, workers=None):
    """A vector is convolved with the elements of the diagonals; there is no Fourier transform."""
    name = "linalg.matmul_toeplitz"
    c, r, x = _column_and_row(name, c_or_cr, x, check_finite, is_square=False)
    is_vector = len(shape_of(x)) == 1
    if is_vector and len(shape_of(c)) == len(shape_of(r)) == 1 and shape_of(x)[0]:
        values = PUBLIC["concatenate"]([r[:0:-1], c])
        return PUBLIC["convolve"](values, x, mode="full")[shape_of(x)[0] - 1 :][: shape_of(c)[0]]
    return PUBLIC["matmul"](toeplitz(c, r), x)


# --- circulant matrices ---------------------------------------------------------------------------


@functools.lru_cache(4)
def _waves(n: int):
    """The matrices of cosines and sines of a Fourier transform of n elements."""
    angles = 2.0 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
    return np.cos(angles), np.sin(angles)


def _quotients(c, b, singular, tol):
    """Real and imaginary parts of the transform of `b` divided by that of `c`."""
    cosines, sines = _waves(shape_of(c)[-1])
    (re, im), (above, below) = (
        [PUBLIC["matmul"](x, cosines), -PUBLIC["matmul"](x, sines)] for x in (c, b)
    )
    size = re * re + im * im
    if tol is None:
        scale = shape_of(c)[-1] * np.finfo(np.float64).eps
        tol = scale * PUBLIC["sqrt"](PUBLIC["max"](size, axis=-1, keepdims=True))
    small = size <= tol * tol
    if singular == "raise":
        found = steered(np.any, small)
        learned(found, "tapegrad.scipy.linalg.solve_circulant()")
        if value_of(found):
            raise np.linalg.LinAlgError("near singular circulant matrix.")
    size = PUBLIC["where"](small, 1.0, size)
    parts = (above * re + below * im) / size, (below * re - above * im) / size
    return [PUBLIC["where"](small, 0.0, x) for x in parts]


@differentiable("linalg.solve_circulant")
def solve_circulant(c, b, singular="raise", tol=None, caxis=-1, baxis=0, outaxis=0):
    """By matrices of cosines and sines, which are n² numbers."""
    c, b = (aligned(plain_array(unlisted(x)), 1) for x in (c, b))
    if shape_of(c)[caxis] != shape_of(b)[baxis]:
        raise ValueError(f"Shapes of c {shape_of(c)} and b {shape_of(b)} are incompatible")
    if 0 in shape_of(b):
        return 1.0 * b
    c, b = PUBLIC["moveaxis"](c, caxis, -1), PUBLIC["moveaxis"](b, baxis, -1)
    re, im = _quotients(c, b, singular, tol)
    n = shape_of(c)[-1]
    cosines, sines = _waves(n)
    x = (PUBLIC["matmul"](re, cosines) - PUBLIC["matmul"](im, sines)) / n
    return x if outaxis == -1 else PUBLIC["moveaxis"](x, -1, outaxis)
