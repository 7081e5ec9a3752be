"""Equations and factors of matrices under `scipy.linalg`, with SciPy's arguments and errors.

Banded, Toeplitz and circulant matrices, and matrices that are made of a few numbers.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import warnings
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.declaring import parts_of
from .._core.operations.sylvester import solve_banded as solve_band
from .._core.operations.sylvester import solve_toeplitz as solve_toeplitz_columns
from .._core.operations.sylvester import solveh_banded as solve_definite
from .._core.operations.sylvester import transposed_band
from .._core.operations.triangular_factors import (
    lower_factor,
    order_of_rows,
    permutation,
    shapes_of_factors,
    upper_factor,
)
from .._core.operations.triangular_factors import lu_factor as factor_pivoted
from .._core.operations.triangular_factors import solve_triangular as solve_columns
from .._core.operations.triangular_factors import solve_triangular as solve_triangle
from .._core.operations.without_derivative import any_zero, asked_of_matrix
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import learned, steered
from .._core.tensor.values import (
    ComplexTensor,
    dtype_of,
    is_tensor,
    real_part,
    shape_of,
    value_of,
    value_of_complex,
)
from ._differentiable import differentiable, finite, is_before, real_parts

# --- matrix equations -----------------------------------------------------------------------------
# Linear equations under `scipy.linalg`, with SciPy's arguments and errors.

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


# --- matrix factors -------------------------------------------------------------------------------
# Factors of matrices under `scipy.linalg`, with SciPy's arguments and errors.


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


# --- banded matrices ------------------------------------------------------------------------------
# Banded, Toeplitz and circulant matrices under `scipy.linalg`: equations and factors.


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


# --- special matrices -----------------------------------------------------------------------------
# Matrices that `scipy.linalg` makes of a few numbers, recorded: their elements are moved.


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


# --- toeplitz matrices ----------------------------------------------------------------------------
# Toeplitz and circulant matrices under `scipy.linalg`: equations and products.


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
    x = solve_toeplitz_columns(*[aligned(x, ndim) for x in columns])
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
