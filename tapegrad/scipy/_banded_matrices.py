"""Banded, Toeplitz and circulant matrices under `scipy.linalg`: equations and factors."""

from __future__ import annotations

from .._core.operations.banded_equations import solve_banded as solve_band
from .._core.tensor.values import shape_of
from ._differentiable import differentiable
from ._matrix_equations import of_columns, operands, rows_of


def _check_rows(what: str, ab, b) -> None:
    if not shape_of(b) or shape_of(ab)[-1] != rows_of(b):
        raise ValueError(f"shapes of {what} and b are not compatible.")


@differentiable("linalg.solve_banded")
def solve_banded(l_and_u, ab, b, overwrite_ab=False, overwrite_b=False, check_finite=True):
    lower, upper = (int(n) for n in l_and_u)
    ab, b = operands("linalg.solve_banded", check_finite, ab, b)
    _check_rows("ab", ab, b)
    if lower + upper + 1 != shape_of(ab)[-2]:
        raise ValueError(
            "invalid values for the number of lower and upper diagonals: l+u+1 "
            f"({lower + upper + 1}) does not equal ab.shape[0] ({shape_of(ab)[-2]})"
        )
    return of_columns(lambda ab, b: solve_band(ab, b, lower=lower, upper=upper), ab, b)
