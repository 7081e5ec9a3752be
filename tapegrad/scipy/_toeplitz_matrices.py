"""Toeplitz and circulant matrices under `scipy.linalg`: equations and products."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.banded_equations import solve_toeplitz as solve_columns
from .._core.tensor.trace import learned, steered
from .._core.tensor.values import dtype_of, shape_of, value_of
from ._differentiable import differentiable
from ._matrix_equations import aligned, operands, rows_of
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
    """The matrix is part of a circulant one, which Fourier transforms multiply by."""
    name = "linalg.matmul_toeplitz"
    c, r, x = _column_and_row(name, c_or_cr, x, check_finite, is_square=False)
    is_vector, (m, n) = len(shape_of(x)) == 1, (shape_of(c)[-1], shape_of(r)[-1])
    x = x[..., None] if is_vector else x
    if 0 in shape_of(x):
        product = PUBLIC["matmul"](toeplitz(c, r), x)
    else:
        column = _joined(c, r[..., :0:-1])[..., None]
        forwards, back = _transforms(column, x)
        moved = forwards(column, n=m + n - 1, axis=-2) * forwards(x, n=m + n - 1, axis=-2)
        product = back(moved, n=m + n - 1, axis=-2)[..., :m, :]
    return product[..., 0] if is_vector else product


def _joined(x, y):
    """Vectors one after the other, of a batch that is broadcast."""
    front = np.broadcast_shapes(shape_of(x)[:-1], shape_of(y)[:-1])
    x, y = (PUBLIC["broadcast_to"](z, (*front, shape_of(z)[-1])) for z in (x, y))
    return PUBLIC["concatenate"]([x, y], axis=-1)


def _transforms(*arrays):
    """The Fourier transform for operands, and its inverse."""
    if any(dtype_of(x).kind == "c" for x in arrays):
        return np.fft.fft, np.fft.ifft
    return np.fft.rfft, np.fft.irfft


# --- circulant matrices ---------------------------------------------------------------------------


def _quotient(c, b, n, singular, tol):
    """The quotient of transforms, `b` by `c`; 0 where that is near 0."""
    size = PUBLIC["absolute"](c)
    if tol is None:
        tol = n * np.finfo(np.float64).eps * PUBLIC["max"](size, axis=-1, keepdims=True)
    small = size <= tol
    if singular == "raise":
        found = steered(np.any, small)
        learned(found, "tapegrad.scipy.linalg.solve_circulant()")
        if value_of(found):
            raise np.linalg.LinAlgError("near singular circulant matrix.")
    found = b / PUBLIC["where"](small, 1.0, c)
    return PUBLIC["where"](small, 0.0, found)


@differentiable("linalg.solve_circulant")
def solve_circulant(c, b, singular="raise", tol=None, caxis=-1, baxis=0, outaxis=0):
    c, b = (aligned(x, 1) for x in operands("linalg.solve_circulant", False, c, b))
    if shape_of(c)[caxis] != shape_of(b)[baxis]:
        raise ValueError(f"Shapes of c {shape_of(c)} and b {shape_of(b)} are incompatible")
    if 0 in shape_of(b):
        return b.astype(np.result_type(dtype_of(c), dtype_of(b), np.float64))
    c, b = PUBLIC["moveaxis"](c, caxis, -1), PUBLIC["moveaxis"](b, baxis, -1)
    (forwards, back), n = _transforms(c, b), shape_of(c)[-1]
    x = back(_quotient(forwards(c), forwards(b), n, singular, tol), n=n)
    return x if outaxis == -1 else PUBLIC["moveaxis"](x, -1, outaxis)
