"""Factors of matrices under `scipy.linalg`, with SciPy's arguments and errors."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.values import shape_of
from ._differentiable import differentiable
from ._matrix_equations import aligned, operands


def _definite(name: str, a, lower, check_finite):
    """A Cholesky factor, and its operand."""
    (a,) = operands(name, check_finite, a)
    a = aligned(a, 2)
    shape = shape_of(a)
    if shape[-1] != shape[-2]:
        raise ValueError(f"Input array is expected to be square but has the shape: {shape}.")
    return PUBLIC["cholesky"](a, upper=not lower), a


@differentiable("linalg.cholesky")
def cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    return _definite("linalg.cholesky", a, lower, check_finite)[0]


@differentiable("linalg.cho_factor")
def cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
    """SciPy leaves in the other triangle what it has found there."""
    factor, a = _definite("linalg.cho_factor", a, lower, check_finite)
    factor = factor + (PUBLIC["triu"](a, 1) if lower else PUBLIC["tril"](a, -1))
    batch = shape_of(a)[:-2]
    return [factor, np.full(batch, lower)] if batch else (factor, lower)
