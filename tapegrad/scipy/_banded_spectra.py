"""Eigenvalues of banded and tridiagonal matrices under `scipy.linalg`, to their diagonals."""

from __future__ import annotations

import importlib

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import stop_gradient
from .._core.tensor.trace import steered
from .._core.tensor.values import dtype_of, shape_of
from ._differentiable import OURS, differentiable, unsupported
from ._matrix_equations import operands

_SUBSETS = {"v": "subset_by_value", "i": "subset_by_index"}


def _matrix(band, lower: bool):
    """The symmetric matrix of which the rows of a band are diagonals."""
    count, n = shape_of(band)
    rows = range(count) if lower else range(count - 1, -1, -1)
    parts = []
    for k, row in enumerate(rows):
        if k < n:
            off = band[row, : n - k] if lower else band[row, k:]
            parts += [PUBLIC["diag"](off, j) for j in {k, -k}]
    return sum(parts)


def _spectrum(matrix, select, select_range, *, plain, eigvals_only: bool):
    """Eigenvalues and vectors of a matrix; the vectors have SciPy's signs."""
    letter = str(select)[0].lower() if isinstance(select, str) else {0: "a", 1: "v", 2: "i"}[select]
    if letter != "a" and letter not in _SUBSETS:
        raise ValueError("invalid argument for select")
    subset = {_SUBSETS[letter]: select_range} if letter != "a" else {}
    if eigvals_only:
        return OURS["linalg.eigvalsh"](matrix, check_finite=False, **subset)
    w, v = OURS["linalg.eigh"](matrix, check_finite=False, **subset)
    theirs = plain()
    moved = v * steered(_signs, v, theirs)
    return w, theirs + (moved - stop_gradient(moved))


def _signs(v, theirs):
    return np.where(np.sum(v * theirs, axis=0) < 0.0, -1.0, 1.0)


def _real(name: str, x):
    if dtype_of(x).kind == "c":
        raise unsupported(name, "the matrix", "complex numbers")
    return x


@differentiable("linalg.eig_banded")
def eig_banded(
    a_band,
    lower=False,
    eigvals_only=False,
    overwrite_a_band=False,
    select="a",
    select_range=None,
    max_ev=0,
    check_finite=True,
):
    name = "linalg.eig_banded"
    (band,) = operands(name, check_finite, a_band)
    if len(shape_of(_real(name, band))) != 2:
        raise ValueError("expected a 2-D array")

    def plain():
        return steered(
            _vectors, band, name="eig_banded", lower=lower, select=select, select_range=select_range
        )

    matrix = _matrix(band, lower)
    return _spectrum(matrix, select, select_range, plain=plain, eigvals_only=eigvals_only)


def _vectors(*matrix, name: str, **options):
    return getattr(importlib.import_module("scipy.linalg"), name)(*matrix, **options)[1]


@differentiable("linalg.eigvals_banded")
def eigvals_banded(
    a_band, lower=False, overwrite_a_band=False, select="a", select_range=None, check_finite=True
):
    return eig_banded(
        a_band,
        lower=lower,
        eigvals_only=True,
        select=select,
        select_range=select_range,
        check_finite=check_finite,
    )


@differentiable("linalg.eigh_tridiagonal")
def eigh_tridiagonal(
    d,
    e,
    eigvals_only=False,
    select="a",
    select_range=None,
    check_finite=True,
    tol=0.0,
    lapack_driver="auto",
):
    name = "linalg.eigh_tridiagonal"
    d, e = operands(name, check_finite, d, e)
    for x in (d, e):
        if len(shape_of(_real(name, x))) != 1:
            raise ValueError("expected a 1-D array")
    if shape_of(d)[0] != shape_of(e)[0] + 1:
        raise ValueError(f"d ({shape_of(d)[0]}) must have one more element than e")

    def plain():
        return steered(
            _vectors, d, e, name="eigh_tridiagonal", select=select, select_range=select_range
        )

    matrix = PUBLIC["diag"](d) + PUBLIC["diag"](e, -1) + PUBLIC["diag"](e, 1)
    return _spectrum(matrix, select, select_range, plain=plain, eigvals_only=eigvals_only)


@differentiable("linalg.eigvalsh_tridiagonal")
def eigvalsh_tridiagonal(
    d, e, select="a", select_range=None, check_finite=True, tol=0.0, lapack_driver="auto"
):
    return eigh_tridiagonal(
        d, e, eigvals_only=True, select=select, select_range=select_range, check_finite=check_finite
    )
