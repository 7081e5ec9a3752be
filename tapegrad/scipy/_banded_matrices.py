"""Banded, Toeplitz and circulant matrices under `scipy.linalg`: equations and factors."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.banded_equations import solve_banded as solve_band
from .._core.operations.banded_equations import solveh_banded as solve_definite
from .._core.operations.banded_equations import transposed_band
from .._core.tensor.values import dtype_of, shape_of
from ._differentiable import differentiable
from ._matrix_equations import mirrored, of_columns, operands, rows_of


def _check_rows(what: str, ab, b) -> None:
    if not shape_of(b) or shape_of(ab)[-1] != rows_of(b):
        raise ValueError(f"shapes of {what} and b are not compatible.")


def _check_band(name: str, ab) -> None:
    if len(shape_of(ab)) < 2:
        raise ValueError(
            f"tapegrad.scipy.linalg.{name}: ab has shape {shape_of(ab)}; it must be (…, K, M), a "
            "diagonal in each row"
        )


@differentiable("linalg.solve_banded")
def solve_banded(l_and_u, ab, b, overwrite_ab=False, overwrite_b=False, check_finite=True):
    lower, upper = (int(n) for n in l_and_u)
    ab, b = operands("linalg.solve_banded", check_finite, ab, b)
    _check_band("solve_banded", ab)
    _check_rows("ab", ab, b)
    if lower + upper + 1 != shape_of(ab)[-2]:
        raise ValueError(
            "invalid values for the number of lower and upper diagonals: l+u+1 "
            f"({lower + upper + 1}) does not equal ab.shape[0] ({shape_of(ab)[-2]})"
        )
    return of_columns(lambda ab, b: solve_band(ab, b, lower=lower, upper=upper), ab, b)


@differentiable("linalg.solveh_banded")
def solveh_banded(ab, b, overwrite_ab=False, overwrite_b=False, lower=False, check_finite=True):
    ab, b = operands("linalg.solveh_banded", check_finite, ab, b)
    _check_band("solveh_banded", ab)
    _check_rows("ab", ab, b)
    if 0 in shape_of(b):
        own = min(len(shape_of(b)), 2)
        batch = np.broadcast_shapes(shape_of(ab)[:-2], shape_of(b)[:-own])
        b = b.astype(np.result_type(dtype_of(ab), dtype_of(b), np.float32))
        return PUBLIC["broadcast_to"](b, (*batch, *shape_of(b)[-own:]))
    return of_columns(lambda ab, b: solve_definite(ab, b, lower=bool(lower)), ab, b)


@differentiable("linalg.cho_solve_banded")
def cho_solve_banded(cb_and_lower, b, overwrite_b=False, check_finite=True):
    cb, lower = cb_and_lower
    cb, b = operands("linalg.cho_solve_banded", check_finite, cb, b)
    _check_rows("cb", cb, b)
    return of_columns(lambda cb, b: _solve_factored(cb, bool(np.all(lower)), b), cb, b)


def _solve_factored(cb, lower, b):
    """Two equations with triangular bands."""
    width = shape_of(cb)[-2] - 1
    below, above = (width, 0) if lower else (0, width)
    turned = PUBLIC["conjugate"](transposed_band(np, cb, below, above))
    pairs = [(cb, below, above), (turned, above, below)]
    for band, down, up in pairs if lower else pairs[::-1]:
        b = solve_band(band, b, lower=down, upper=up)
    return b


@differentiable("linalg.cholesky_banded")
def cholesky_banded(ab, overwrite_ab=False, lower=False, check_finite=True):
    """By the factor of the whole matrix; where the band has no element of it, the old value."""
    (ab,) = operands("linalg.cholesky_banded", check_finite, ab)
    width, n = shape_of(ab)[-2] - 1, shape_of(ab)[-1]
    row, column = np.arange(n)[:, None], np.arange(n)
    near = (row - column if lower else column - row) * np.ones((n, n), int)
    kept = (near >= 0) & (near <= width)
    at = np.where(kept, near if lower else width - near, 0)
    full = PUBLIC["where"](kept, ab[..., at, np.broadcast_to(column, (n, n))], 0.0)
    factor = PUBLIC["cholesky"](mirrored(full, lower), upper=not lower)
    level = np.arange(width + 1)[:, None]
    places = column + level if lower else column - width + level
    inside = (places >= 0) & (places < n)
    found = factor[..., np.where(inside, places, 0), np.broadcast_to(column, places.shape)]
    return PUBLIC["where"](inside, found, ab)
