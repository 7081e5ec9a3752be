"""Factors of matrices under `scipy.linalg`, with SciPy's arguments and errors."""

from __future__ import annotations

import importlib
import warnings

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.declaring import parts_of
from .._core.operations.triangular_factors import (
    lower_factor,
    order_of_rows,
    permutation,
    shapes_of_factors,
    upper_factor,
)
from .._core.operations.triangular_factors import lu_factor as factor_pivoted
from .._core.operations.triangular_factors import solve_triangular as solve_triangle
from .._core.tensor.complex_tensors import real_part, value_of_complex
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import steered
from .._core.tensor.values import dtype_of, shape_of
from ._differentiable import differentiable, is_before
from ._matrix_equations import (
    aligned,
    named_singular,
    of_columns,
    operands,
    plain_array,
    rows_of,
    transposed,
)


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
    """SciPy before 1.18 leaves the other triangle unchanged; since then it is 0."""
    factor, a = _definite("linalg.cho_factor", a, lower, check_finite)
    if is_before("1.18.0"):
        factor = factor + (PUBLIC["triu"](a, 1) if lower else PUBLIC["tril"](a, -1))
    batch = shape_of(a)[:-2]
    return [factor, np.full(batch, lower)] if batch else (factor, lower)


# --- factors of any matrices ----------------------------------------------------------------------


def _pivoted(name: str, a, check_finite):
    """An operand, and its factors, exchanges and order of rows."""
    (a,) = operands(name, check_finite, a)
    if len(shape_of(a)) < 2:
        raise ValueError("The input array must be at least two-dimensional.")
    a = a.astype(np.result_type(dtype_of(a), np.float32))
    both, *places = parts_of(factor_pivoted(a), *shapes_of_factors(shape_of(a)))
    return a, (both, *map(real_part, places))


def _theirs(name: str):
    return getattr(importlib.import_module("scipy.linalg"), name)


@differentiable("linalg.lu")
def lu(a, permute_l=False, overwrite_a=False, check_finite=True, p_indices=False):
    a = plain_array(unlisted(a))
    if 0 in shape_of(a):
        return _theirs("lu")(value_of_complex(a), permute_l, p_indices=p_indices)
    a, (both, _, order) = _pivoted("linalg.lu", a, check_finite)
    lower, upper = lower_factor(np, both), upper_factor(np, both)
    if p_indices and not permute_l:
        places = PUBLIC["argsort"](order, axis=-1)
        return places.astype(np.int32), lower, upper
    rows = permutation(np, order).astype(np.zeros(0, dtype_of(a)).real.dtype)
    return (PUBLIC["matmul"](rows, lower), upper) if permute_l else (rows, lower, upper)


@differentiable("linalg.lu_factor")
def lu_factor(a, overwrite_a=False, check_finite=True):
    a = plain_array(unlisted(a))
    if 0 in shape_of(a):
        return _theirs("lu_factor")(value_of_complex(a))
    shape = shape_of(a)
    if len(shape) < 2:  # LAPACK takes a vector for a column
        a = PUBLIC["reshape"](a, (*shape, *[1] * (2 - len(shape))))
    a, (both, exchanges, _) = _pivoted("linalg.lu_factor", a, check_finite)
    diagonal = np.asarray(value_of_complex(PUBLIC["diagonal"](both, axis1=-2, axis2=-1)))
    for at in np.argwhere(diagonal == 0.0)[:1]:
        warnings.warn(
            f"Diagonal number {at[-1] + 1} is exactly zero. Singular matrix.",
            _theirs("LinAlgWarning"),
            stacklevel=3,
        )
    exchanges = exchanges.astype(np.int32)
    if len(shape) < 2:
        both = PUBLIC["reshape"](both, shape)
    return [both, exchanges] if len(shape) > 2 else (both, exchanges)


@differentiable("linalg.lu_solve")
def lu_solve(lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True):
    both, exchanges = lu_and_piv
    (b,) = operands("linalg.lu_solve", check_finite, b)
    both, exchanges = (plain_array(unlisted(x)) for x in (both, exchanges))
    n = shape_of(both)[-1]
    if not shape_of(b) or rows_of(b) != n:
        raise ValueError(
            f"tapegrad.scipy.linalg.lu_solve: shapes of lu {shape_of(both)} and b {shape_of(b)} "
            "are incompatible"
        )
    if shape_of(both)[-2:] != (n, n) or shape_of(exchanges)[-1:] != (n,):
        raise ValueError(
            f"tapegrad.scipy.linalg.lu_solve: lu has shape {shape_of(both)} and piv "
            f"{shape_of(exchanges)}; they must be (…, M, M) and (…, M), as lu_factor gives them"
        )
    order = steered(order_of_rows, real_part(exchanges), count=n)
    with named_singular("linalg.lu_solve"):
        return of_columns(lambda both, b: _solve_pivoted(both, order, b, trans), both, b)


def _solve_pivoted(both, order, b, trans):
    rows = permutation(np, order)
    if trans == 0:
        moved = PUBLIC["matmul"](transposed(rows), b)
        half = solve_triangle(both, moved, lower=True, unit_diagonal=True)
        return solve_triangle(both, half)
    half = solve_triangle(both, b, trans=int(trans))
    moved = solve_triangle(both, half, trans=int(trans), lower=True, unit_diagonal=True)
    return PUBLIC["matmul"](rows, moved)
