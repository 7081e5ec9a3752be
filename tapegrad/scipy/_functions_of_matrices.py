"""SciPy's functions of matrices, and equations of matrices, for recorded values."""

from __future__ import annotations

import numpy as np

from .._core.operations import matrix_functions as functions
from .._core.operations import matrix_functions as logarithm
from .._core.operations import sylvester
from .._core.operations import sylvester as equations
from .._core.operations import sylvester as polars
from .._core.operations.einsum import as_tensor
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.copies import unlisted
from .._core.tensor.values import shape_of
from ._differentiable import differentiable, finite, unsupported
from ._matrix_equations import in_double
from ._stacks import is_stack, of_stacks


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
