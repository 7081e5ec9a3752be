"""Linear equations under `scipy.linalg`, with SciPy's arguments and errors."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.triangular_factors import solve_triangular as solve_columns
from .._core.operations.without_derivative import any_zero
from .._core.tensor.complex_tensors import ComplexTensor
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import learned, steered
from .._core.tensor.values import dtype_of, is_tensor, shape_of, value_of
from ._differentiable import differentiable, finite, real_parts

#: The value of `trans=`, as a number.
_TRANSPOSES = {"N": 0, "T": 1, "C": 2}


def operands(name: str, check_finite: bool, *arrays) -> list:
    """Operands, refused if they are not finite and `check_finite` is set.

    Operands of half precision, which LAPACK lacks, become single, as in SciPy.
    """
    found = [plain_array(unlisted(x)) for x in arrays]
    for x in found:
        if dtype_of(x).kind not in "biufc":
            raise TypeError(
                f"tapegrad.scipy.{name}: an operand has dtype {dtype_of(x)}; it must hold numbers"
            )
    found = [x.astype(np.float32) if dtype_of(x) == np.float16 else x for x in found]
    return [finite(name, x) for x in found] if check_finite else found


def plain_array(x):
    """An operand that is not a tensor, as an array."""
    return x if is_tensor(x) or type(x) is ComplexTensor else np.asarray(x)


def in_double(x):
    """An operand; one of numbers that LAPACK does not take in double precision."""
    x = plain_array(unlisted(x))
    if dtype_of(x).char in "fdFD" and dtype_of(x).isnative:
        return x
    return x.astype(complex if dtype_of(x).kind == "c" else float)


def aligned(x, ndim: int):
    """An operand with axes of length 1 in front."""
    missing = ndim - len(shape_of(x))
    return x[(None,) * missing] if missing > 0 else x


def of_columns(equation, a, b):
    """The solution of an equation of `a` and matrices `b`, with as many axes, for vectors too."""
    is_vector = len(shape_of(b)) == 1
    b = b[..., None] if is_vector else b
    ndim = max(len(shape_of(a)), len(shape_of(b)))
    x = equation(aligned(a, ndim), aligned(b, ndim))
    return x[..., 0] if is_vector else x


def rows_of(b) -> int:
    """The number of equations of a right-hand side."""
    shape = shape_of(b)
    return shape[-1 if len(shape) == 1 else -2]


def transposed(a):
    return PUBLIC["swapaxes"](a, -1, -2)


# --- triangles ------------------------------------------------------------------------------------


@differentiable("linalg.solve_triangular")
def solve_triangular(
    a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=True
):
    a, b = operands("linalg.solve_triangular", check_finite, a, b)
    m, n = shape_of(a), shape_of(b)
    if len(m) < 2 or m[-1] != m[-2]:
        raise ValueError("expected square matrix")
    if not n or rows_of(b) != m[-1]:
        raise ValueError(f"shapes of a {m} and b {n} are incompatible")
    if trans not in (0, 1, 2, *_TRANSPOSES):
        raise ValueError(
            f"tapegrad.scipy.linalg.solve_triangular: trans is {trans!r}; it must be 0, 1 or 2, or "
            "'N', 'T' or 'C'"
        )
    trans = _TRANSPOSES.get(trans, trans)
    return of_columns(_triangular(trans, lower, unit_diagonal), a, b)


def _triangular(trans, lower, unit_diagonal=False):
    """The solution with a triangular matrix."""
    static = {"trans": int(trans), "lower": bool(lower), "unit_diagonal": bool(unit_diagonal)}
    return functools.partial(solve_columns, **static)


@contextlib.contextmanager
def named_singular(name: str):
    """Errors of triangular solutions under the name of what divides by a diagonal, unlike SciPy."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        error.args = (
            f"tapegrad.scipy.{name}: the factor has a 0 on its diagonal, so the matrix is "
            "singular; infinities, which SciPy gives, have no derivative",
        )
        raise


def solve_factored(c, lower, b):
    """The solution for matrices `b`, by the Cholesky factor of the matrix."""
    half = _triangular(0 if lower else 2, lower)(c, b)
    return _triangular(2 if lower else 0, lower)(c, half)


@differentiable("linalg.cho_solve")
def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True):
    c, lower = c_and_lower
    c, b = operands("linalg.cho_solve", check_finite, c, b)
    m = shape_of(c)
    if len(m) < 2 or m[-1] != m[-2]:
        raise ValueError("The factored matrix c is not square.")
    if not shape_of(b) or rows_of(b) != m[-1]:
        raise ValueError(f"incompatible dimensions ({m} and {shape_of(b)})")
    is_lower = bool(np.all(lower))
    with named_singular("linalg.cho_solve"):
        return of_columns(lambda c, b: solve_factored(c, is_lower, b), c, b)


# --- matrices of any structure --------------------------------------------------------------------


def mirrored(a, lower, is_hermitian=True):
    """The Hermitian, or symmetric, matrices of which one triangle is given."""
    triangle = PUBLIC["tril"](a) if lower else PUBLIC["triu"](a)
    rest = PUBLIC["tril"](a, -1) if lower else PUBLIC["triu"](a, 1)
    return triangle + (PUBLIC["conjugate"](transposed(rest)) if is_hermitian else transposed(rest))


def _general(a, b, lower, transpose):
    return PUBLIC["solve"](transposed(a) if transpose else a, b)


def _symmetric(a, b, lower, transpose):
    return PUBLIC["solve"](mirrored(a, lower, is_hermitian=False), b)


def _hermitian(a, b, lower, transpose):
    return PUBLIC["solve"](mirrored(a, lower), b)


def _positive(a, b, lower, transpose):
    factor = PUBLIC["cholesky"](mirrored(a, lower), upper=False)
    return solve_factored(factor, True, b)


def _diagonal(a, b, lower, transpose):
    diagonal = PUBLIC["diagonal"](a, axis1=-2, axis2=-1)
    zero = steered(any_zero, *real_parts(diagonal))
    learned(zero, "tapegrad.scipy.linalg.solve()")
    if value_of(zero):
        raise np.linalg.LinAlgError("A singular matrix detected.")
    return b / diagonal[..., None]


def _tridiagonal(a, b, lower, transpose):
    return _general(PUBLIC["tril"](PUBLIC["triu"](a, -1), 1), b, lower, transpose)


def _of_triangle(is_lower):
    return lambda a, b, lower, transpose: _triangular(int(transpose), is_lower)(a, b)


#: By the value of `assume_a`: functions of matrices and right-hand sides, lower, transposed.
_STRUCTURES: dict[str | None, Any] = {
    **dict.fromkeys((None, "gen", "general", "banded"), _general),
    **dict.fromkeys(("sym", "symmetric"), _symmetric),
    **dict.fromkeys(("her", "hermitian"), _hermitian),
    **dict.fromkeys(("pos", "positive definite"), _positive),
    "diagonal": _diagonal,
    "tridiagonal": _tridiagonal,
    "upper triangular": _of_triangle(False),
    "lower triangular": _of_triangle(True),
}


def _check_square(a) -> None:
    shape = shape_of(a)
    if len(shape) < 2:
        raise ValueError(f"Expected at least ndim=2, got a1.ndim={len(shape)}")
    if shape[-1] != shape[-2]:
        raise ValueError(f"Expected square matrix, got a1.shape={shape}")


@differentiable("linalg.solve")
def solve(
    a,
    b,
    lower=False,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    assume_a=None,
    transposed=False,
):
    if assume_a not in _STRUCTURES:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    a, b = operands("linalg.solve", check_finite, a, b)
    a, b = aligned(a, 2), aligned(b, 1)
    m, n = shape_of(a), shape_of(b)
    _check_square(a)
    if dtype_of(a).kind == "c" and transposed:
        raise NotImplementedError(
            "scipy.linalg.solve can currently not solve a^T x = b or a^H x = b for complex "
            "matrices."
        )
    if rows_of(b) != m[-1] and m[-2:] != (1, 1):
        raise ValueError(f"incompatible shapes: a1.shape={m} and b1.shape={n}")
    found = _STRUCTURES[assume_a]
    if m[-2:] == (1, 1):
        found = _diagonal
    return of_columns(lambda a, b: found(a, b, lower, transposed), a, b)


@differentiable("linalg.inv")
def inv(a, overwrite_a=False, check_finite=True, *, assume_a=None, lower=False):
    (a,) = operands("linalg.inv", check_finite, a)
    _check_square(a)
    if assume_a in (None, "gen", "general"):
        return PUBLIC["inv"](a)
    return _STRUCTURES[assume_a](a, np.eye(shape_of(a)[-1], dtype=dtype_of(a)), lower, False)


@differentiable("linalg.det")
def det(a, overwrite_a=False, check_finite=True):
    (a,) = operands("linalg.det", check_finite, a)
    m = shape_of(a)
    if len(m) < 2:
        raise ValueError("The input array must be at least two-dimensional.")
    if m[-1] != m[-2]:
        raise ValueError(f"Last 2 dimensions of the array must be square but received shape {m}.")
    return PUBLIC["det"](a.astype(np.result_type(dtype_of(a), np.float64)))
