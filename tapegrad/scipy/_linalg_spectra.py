"""Eigenvalues, singular values and functions of matrices under `scipy.linalg`."""

from __future__ import annotations

import importlib
import inspect

import numpy as np

from .._core.operations import PUBLIC, sylvester
from .._core.operations import matrix_functions as functions
from .._core.operations import matrix_functions as logarithm
from .._core.operations import sylvester as equations
from .._core.operations import sylvester as polars
from .._core.operations.declaring import transposed
from .._core.operations.einsum import as_tensor
from .._core.operations.general_eigenvalues import all_real
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import stop_gradient
from .._core.tensor.trace import fixed, named, steered
from .._core.tensor.values import dtype_of, is_complex, shape_of, value_of
from ._differentiable import (
    OURS,
    differentiable,
    finite,
    is_before,
    is_stack,
    of_stacks,
    unsupported,
)
from ._linalg_equations import in_double, mirrored, operands

# --- spectral -------------------------------------------------------------------------------------
# Eigenvalues, singular values and functions based on them, under `scipy.linalg`.


# --- symmetric matrices ---------------------------------------------------------------------------


@named("spectral.counts")
def _counts(w, ends):
    """The largest number of eigenvalues at each end."""
    return np.array([np.count_nonzero(w <= end) for end in ends])


def _subset(name: str, w, by_index, by_value) -> slice:
    """The eigenvalues that are requested."""
    if by_index is not None and by_value is not None:
        raise ValueError("Either index or value subset can be requested.")
    n = shape_of(w)[-1]
    if by_index is not None:
        low, high = (int(k) for k in by_index)
        if not 0 <= low <= high < n:
            raise ValueError(
                f"Requested eigenvalue indices are not valid. Valid range is [0, {n - 1}] and "
                f"start <= end, but start={low}, end={high} is given"
            )
        return slice(low, high + 1)
    if by_value is None:
        return slice(None)
    least, most = (float(x) for x in by_value)
    if not least < most:
        raise ValueError(
            f"Requested eigenvalue bounds are not valid. (low, high) is given as ({least}, {most})"
        )
    if len(shape_of(w)) > 1:
        raise unsupported(name, "subset_by_value", by_value)
    counts = steered(_counts, w, ends=(least, most))
    return slice(*(int(k) for k in fixed(counts, f"subset_by_value of {name}()")))


def _reduced(a, b, lower, type):
    """The symmetric matrices of a generalized problem, and what makes its vectors of theirs."""
    upper = PUBLIC["cholesky"](b if lower else transposed(np, b), upper=True)
    a = mirrored(a, lower)
    if type == 1:
        left = np.linalg.solve(transposed(np, upper), a)
        made = transposed(np, np.linalg.solve(transposed(np, upper), transposed(np, left)))
    else:
        made = np.matmul(np.matmul(upper, a), transposed(np, upper))
    if type == 3:
        return made, lambda y: np.matmul(transposed(np, upper), y)
    return made, lambda y: np.linalg.solve(upper, y)


def _problem(name, a, b, lower, type, check_finite):
    if type not in (1, 2, 3):
        raise ValueError('"type" keyword only accepts 1, 2, and 3.')
    a, *more = operands(name, check_finite, a, *([] if b is None else [b]))
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError('expected square "a" matrix')
    if not more:
        return a, lower, lambda y: y
    if shape_of(more[0])[-2:] != shape[-2:]:
        raise ValueError(
            f"tapegrad.scipy.{name}: wrong b dimensions {shape_of(more[0])}, should be {shape}",
        )
    for x in (a, more[0]):
        if dtype_of(x).char in "egG":
            raise TypeError(
                f"tapegrad.scipy.{name}: a matrix has dtype {dtype_of(x)}; convert it to float64"
            )
    made, back = _reduced(a, more[0], lower, type)
    return made, True, back


@differentiable("linalg.eigh")
def eigh(
    a,
    b=None,
    *,
    lower=True,
    eigvals_only=False,
    overwrite_a=False,
    overwrite_b=False,
    type=1,
    check_finite=True,
    subset_by_index=None,
    subset_by_value=None,
    driver=None,
):
    name = "linalg.eigh"
    a, lower, back = _problem(name, a, b, lower, type, check_finite)
    letter = "L" if lower else "U"
    if eigvals_only:
        w = PUBLIC["eigvalsh"](a, letter)
        return w[..., _subset(name, w, subset_by_index, subset_by_value)]
    w, v = PUBLIC["eigh"](a, letter)
    part = _subset(name, w, subset_by_index, subset_by_value)
    return w[..., part], back(v)[..., part]


@differentiable("linalg.eigvalsh")
def eigvalsh(
    a,
    b=None,
    *,
    lower=True,
    overwrite_a=False,
    overwrite_b=False,
    type=1,
    check_finite=True,
    subset_by_index=None,
    subset_by_value=None,
    driver=None,
):
    return eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        type=type,
        check_finite=check_finite,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )


# --- any matrices ---------------------------------------------------------------------------------


def _general(name, a, b, left, homogeneous, check_finite):
    for argument, value in (("b", b), ("left", left), ("homogeneous_eigvals", homogeneous)):
        if value is not None and value is not False:
            raise unsupported(name, argument, value)
    (a,) = operands(name, check_finite, a)
    if len(shape_of(a)) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise ValueError(f"expected square matrix, but the shape is {shape_of(a)}")
    return a


@differentiable("linalg.eig")
def eig(
    a,
    b=None,
    left=False,
    right=True,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    homogeneous_eigvals=False,
):
    a = _general("linalg.eig", a, b, left, homogeneous_eigvals, check_finite)
    w, v = PUBLIC["eig"](a)
    if not is_complex(a) and is_complex(v) and all_real(w.imag):  # unlike NumPy from 2.5 on
        v = v.real
    return (w + 0j, v) if right else w + 0j


@differentiable("linalg.eigvals")
def eigvals(*args, **kwargs):
    """With the arguments of the installed SciPy: from 1.18 on `overwrite_b` is the fourth."""
    theirs = importlib.import_module("scipy.linalg").eigvals
    given = inspect.signature(theirs).bind(*args, **kwargs)
    given.apply_defaults()
    a, b, finite = (given.arguments[name] for name in ("a", "b", "check_finite"))
    homogeneous = given.arguments["homogeneous_eigvals"]
    return PUBLIC["eigvals"](_general("linalg.eigvals", a, b, False, homogeneous, finite)) + 0j


# --- singular values ------------------------------------------------------------------------------


@differentiable("linalg.svd")
def svd(
    a,
    full_matrices=True,
    compute_uv=True,
    overwrite_a=False,
    check_finite=True,
    lapack_driver="gesdd",
):
    (a,) = operands("linalg.svd", check_finite, a)
    if not compute_uv:
        return PUBLIC["svdvals"](a)
    return tuple(PUBLIC["svd"](a, full_matrices=full_matrices))


@differentiable("linalg.svdvals")
def svdvals(a, overwrite_a=False, check_finite=True):
    (a,) = operands("linalg.svdvals", check_finite, a)
    return PUBLIC["svdvals"](a)


@named("spectral.rank")
def _rank(s, rcond):
    return np.array(np.count_nonzero(s > np.max(s, initial=0.0) * rcond))


def _spaces(name, a, rcond, check_finite, full):
    """Singular vectors, and how many values are not 0 but for rounding."""
    (a,) = operands(name, check_finite, a)
    if len(shape_of(a)) < 2:
        raise TypeError(
            f"tapegrad.scipy.{name}: the argument has shape {shape_of(a)}; give a matrix or a stack"
        )
    u, s, vh = PUBLIC["svd"](a, full_matrices=full)
    if rcond is None:
        rcond = float(np.finfo(dtype_of(s)).eps) * max(shape_of(a))
    return u, vh, int(fixed(steered(_rank, s, rcond=rcond), f"the rank in {name}()"))


@differentiable("linalg.orth")
def orth(A, rcond=None):
    A = unlisted(A)
    if is_stack(A):
        return of_stacks("orth", lambda one: orth(one, rcond), A)
    u, _, rank = _spaces("linalg.orth", A, rcond, True, False)
    return u[:, :rank]


@differentiable("linalg.null_space")
def null_space(A, rcond=None, *, overwrite_a=False, check_finite=True, lapack_driver="gesdd"):
    A = unlisted(A)
    if is_stack(A):
        return of_stacks("null_space", lambda one: null_space(one, rcond), A)
    _, vh, rank = _spaces("linalg.null_space", A, rcond, check_finite, True)
    return transposed(np, vh[rank:])


# --- QR -------------------------------------------------------------------------------------------


@named("spectral.pivots")
def _pivots(a):
    return importlib.import_module("scipy.linalg").qr(a, mode="r", pivoting=True)[1]


@differentiable("linalg.qr")
def qr(a, overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True):
    if mode not in ("full", "qr", "r", "economic", "raw"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    if mode == "raw":
        raise unsupported("linalg.qr", "mode", mode)
    (a,) = operands("linalg.qr", check_finite, a)
    if is_stack(a):
        return of_stacks("qr", lambda x: qr(x, mode=mode, pivoting=pivoting), a)
    if len(shape_of(a)) != 2:
        raise ValueError("expected a 2-D array")
    more = ()
    if pivoting:
        more = (steered(_pivots, a),)
        a = a[:, more[0]]
    q, r = PUBLIC["qr"](a, "reduced" if mode == "economic" else "complete")
    return (r, *more) if mode == "r" else (q, r, *more)


# --- pseudo-inverses and least squares ------------------------------------------------------------


def _pseudo_inverse(name, a, atol, rtol, return_rank, check_finite, hermitian):
    (a,) = operands(name, check_finite, a)
    if atol:
        raise unsupported(name, "atol", atol)
    if len(shape_of(a)) < 2:
        raise ValueError("expected a matrix")
    if rtol is None:
        rtol = 0.0 if atol is not None else max(shape_of(a)[-2:]) * np.finfo(dtype_of(a)).eps
    made = PUBLIC["pinv"](a, rtol, hermitian)
    if not return_rank:
        return made
    return made, PUBLIC["matrix_rank"](a, hermitian=hermitian, rtol=rtol)


@differentiable("linalg.pinv")
def pinv(a, *, atol=None, rtol=None, return_rank=False, check_finite=True):
    return _pseudo_inverse("linalg.pinv", a, atol, rtol, return_rank, check_finite, False)


@differentiable("linalg.pinvh")
def pinvh(a, atol=None, rtol=None, lower=True, return_rank=False, check_finite=True):
    a = unlisted(a) if lower else transposed(np, unlisted(a))
    return _pseudo_inverse("linalg.pinvh", a, atol, rtol, return_rank, check_finite, True)


@differentiable("linalg.lstsq")
def lstsq(
    a,
    b,
    cond=None,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    lapack_driver=None,
):
    if lapack_driver not in (None, "gelsd", "gelsy", "gelss"):
        raise ValueError(f'LAPACK driver "{lapack_driver}" is not found')
    a, b = map(in_double, operands("linalg.lstsq", check_finite, a, b))
    if is_stack(a) or is_stack(b):

        def of_matrices(a, b=b):
            return lstsq(a, b, cond, check_finite=False, lapack_driver=lapack_driver)

        return of_stacks("lstsq", of_matrices, a, *([b] if len(shape_of(b)) > 1 else []))
    if len(shape_of(a)) != 2 or len(shape_of(b)) not in (1, 2):
        raise ValueError("Input array a should be 2D")
    if shape_of(a)[0] != shape_of(b)[0]:
        raise ValueError(
            "Shape mismatch: a and b should have the same number of rows "
            f"({shape_of(a)[0]} != {shape_of(b)[0]})."
        )
    cond = np.finfo(np.result_type(dtype_of(a), dtype_of(b))).eps if cond is None else cond
    x, residuals, rank, s = PUBLIC["lstsq"](a, b, float(value_of(cond)))
    m, n = shape_of(a)
    if m > n and shape_of(residuals) == (0,) and not is_before("1.18.0"):  # the rank is below n
        residuals = np.full(shape_of(b)[1:], np.nan, dtype_of(x))
    elif n == 0:
        residuals = PUBLIC["sum"](PUBLIC["square"](b), axis=0)
    elif len(shape_of(b)) == 1 and shape_of(residuals) == (1,):
        residuals = residuals[0]
    if lapack_driver == "gelsy":
        return x, np.array([], dtype_of(x)), rank, None
    return x, residuals, rank, s


# --- banded spectra -------------------------------------------------------------------------------
# Eigenvalues of banded and tridiagonal matrices under `scipy.linalg`, to their diagonals.

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


# --- functions of matrices ------------------------------------------------------------------------
# SciPy's functions of matrices, and equations of matrices, for recorded values.


def _of_number(A):
    """A number as a matrix of one row, as SciPy takes it."""
    A = unlisted(A)
    return np.reshape(A, (1, 1)) if shape_of(A) == () else A


@differentiable("linalg.expm")
def expm(A):
    A = _of_number(A)
    return functions.small_complex(A) if is_complex(A) else functions.expm(A)


@differentiable("linalg.expm_frechet")
def expm_frechet(A, E, method=None, compute_expm=True, check_finite=True):
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"Unknown implementation {method}")
    if check_finite:
        A, E = finite("linalg.expm_frechet", A), finite("linalg.expm_frechet", E)
    A, E = in_double(A), in_double(E)
    if is_stack(A) or is_stack(E):

        def of_matrices(A, E):
            return expm_frechet(A, E, method, compute_expm, check_finite=False)

        return of_stacks("expm_frechet", of_matrices, A, E)
    along = functions.expm_frechet(A, E)
    return (functions.expm(A), along) if compute_expm else along


def _without_report(name: str, function):
    """A function of a matrix whose estimate of its error is not given."""

    def of_matrix(A, disp=True):
        if not isinstance(disp, (bool, np.bool_)) or not disp:
            raise unsupported(name, "disp", disp)
        return function(A)

    differentiable(name)(of_matrix)


_without_report("linalg.logm", lambda a: functions.of_any(logarithm.logm, a))
_without_report("linalg.signm", functions.signm)


@differentiable("linalg.sqrtm")
def sqrtm(A, disp=True, blocksize=64):
    if not isinstance(disp, (bool, np.bool_)) or not disp:
        raise unsupported("linalg.sqrtm", "disp", disp)
    return functions.of_any(functions.sqrtm, _of_number(A))


def _of_matrix(name: str, function):
    def of_matrix(A):
        return function(finite(name, A))

    return of_matrix


for _name in ("cosm", "sinm", "coshm", "sinhm"):
    differentiable(f"linalg.{_name}")(_of_matrix(f"linalg.{_name}", getattr(functions, _name)))


@differentiable("linalg.tanm")
def tanm(A):
    cosine, sine = functions.cosine_and_sine("tanm", finite("linalg.tanm", A))
    return np.linalg.solve(finite("linalg.tanm", cosine), finite("linalg.tanm", sine))


@differentiable("linalg.tanhm")
def tanhm(A):
    A = finite("linalg.tanhm", A)
    cosine, sine = (finite("linalg.tanhm", f(A)) for f in (functions.coshm, functions.sinhm))
    return np.linalg.solve(cosine, sine)


@differentiable("linalg.fractional_matrix_power")
def fractional_matrix_power(A, t):
    return logarithm.fractional_matrix_power(A, t)


# --- equations ------------------------------------------------------------------------------------


@differentiable("linalg.solve_sylvester")
def solve_sylvester(a, b, q):
    return equations.solve_sylvester(a, b, q)


@differentiable("linalg.solve_continuous_lyapunov")
def solve_continuous_lyapunov(a, q):
    a, q = (finite("linalg.solve_continuous_lyapunov", x) for x in (a, q))
    return equations.solve_continuous_lyapunov(a, q)


@differentiable("linalg.solve_lyapunov")
def solve_lyapunov(a, q):
    return solve_continuous_lyapunov(a, q)


@differentiable("linalg.solve_discrete_lyapunov")
def solve_discrete_lyapunov(a, q, method=None):
    n = (shape_of(unlisted(a)) or (0,))[-1]
    method = ("bilinear" if n >= 10 else "direct") if method is None else method.lower()
    if method not in ("direct", "bilinear"):
        raise ValueError(f"Unknown solver {method}")
    a, q = (finite("linalg.solve_discrete_lyapunov", x) for x in (a, q))
    return equations.solve_discrete_lyapunov(a, q, bilinear=method == "bilinear")


def _riccati(solve, balanced, *matrices):
    """The equation with its optional matrices; SciPy checks the others."""
    a, b, q, r, e, s = map(unlisted, matrices)
    generalized = e is not None or s is not None
    n, shape = (shape_of(a) or (1,))[-1], (shape_of(b) or (1, 1))[-2:]
    e = np.eye(n, dtype=np.float32) if e is None else e
    s = np.zeros(shape, np.float32) if s is None else s
    operands = [x if len(shape_of(x)) > 1 else np.atleast_2d(x) for x in (a, b, q, r, e, s)]
    operands = [finite(f"linalg.{solve.__name__}", x) for x in operands]
    return solve(*operands, generalized=generalized, balanced=bool(balanced))


@differentiable("linalg.solve_continuous_are")
def solve_continuous_are(a, b, q, r, e=None, s=None, balanced=True):
    return _riccati(sylvester.solve_continuous_are, balanced, a, b, q, r, e, s)


@differentiable("linalg.solve_discrete_are")
def solve_discrete_are(a, b, q, r, e=None, s=None, balanced=True):
    return _riccati(sylvester.solve_discrete_are, balanced, a, b, q, r, e, s)


# --- orthogonal factors ---------------------------------------------------------------------------


def _tensor(name: str, x):
    x = unlisted(x)
    return x if is_complex(x) else as_tensor(name, x)


@differentiable("linalg.polar")
def polar(a, side="right"):
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    a = finite("linalg.polar", _tensor("polar", a))
    if len(shape_of(a)) < 2:
        raise ValueError("`a` must be a 2-D array.")
    return polars.polar(a, side)


@differentiable("linalg.orthogonal_procrustes")
def orthogonal_procrustes(A, B, check_finite=True):
    A, B = (_tensor("orthogonal_procrustes", x) for x in (A, B))
    if check_finite:
        A, B = finite("linalg.orthogonal_procrustes", A), finite("linalg.orthogonal_procrustes", B)
    if len(shape_of(A)) < 2 or len(shape_of(B)) < 2:
        raise ValueError("expected A and B to be arrays of at least two axes")
    if shape_of(A)[-2:] != shape_of(B)[-2:]:
        raise ValueError(f"the shapes of A and B differ ({shape_of(A)} vs {shape_of(B)})")
    return polars.orthogonal_procrustes(A, B)


@differentiable("linalg.diagsvd")
def diagsvd(s, M, N):
    s = _tensor("diagsvd", s)
    if shape_of(s) not in ((M,), (N,)):
        raise ValueError("Length of s must be M or N.")
    part = np.diag(s)
    zeros = np.zeros((M, N - M) if shape_of(s) == (M,) else (M - N, N), np.float32)
    return np.concatenate([part, zeros], 1 if shape_of(s) == (M,) else 0)
