"""SciPy's multivariate distributions, `Covariance` and `gaussian_kde` for recorded values."""

from __future__ import annotations

import functools
import importlib
import math
import warnings
from typing import Any

from .. import numpy as np
from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import stop_gradient
from .._core.tensor.registry import into
from . import linalg, special
from ._copied_code import OWN, converted, copied_class, copied_classes, copy_of, made_once
from ._differentiable import is_before

_PLACES = ("scipy.stats._multivariate", "scipy.stats._covariance", "scipy.stats._kde")


@functools.cache
def _prepare() -> None:
    for place in _PLACES:
        copied_classes(place)


def of_instance(theirs):
    """What stands for a distribution of several variables, or another object of these classes."""
    if type(theirs).__module__ not in _PLACES:
        return None
    _prepare()
    made = _of_module(theirs) if type(theirs).__name__.endswith("_gen") else converted(theirs)
    return None if made is theirs else made


@made_once
def _of_module(theirs):
    """The one object for one of SciPy's that has a name."""
    return converted(theirs)


def of_class(theirs: type) -> type | None:
    """What stands for a class whose instances users make."""
    if theirs.__module__ not in _PLACES:
        return None
    _prepare()
    return copied_class(theirs)


#: A decorator: a function stands for a method of SciPy's.
_own = into(OWN)


# --- gaussian_kde ---------------------------------------------------------------------------------


def _exponents(kde, points):
    """Logarithms of the kernels without weights, for each element of the data and each point."""
    points = np.atleast_2d(np.asarray(points))
    d, m = points.shape
    if d != kde.d:
        if d != 1 or m != kde.d:
            raise ValueError(f"points have dimension {d}, dataset has dimension {kde.d}")
        points = np.reshape(points, (kde.d, 1))
    data, points = (
        linalg.solve_triangular(kde.cho_cov, x, lower=True) for x in (kde.dataset, points)
    )
    squares = np.sum((data[:, :, None] - points[:, None]) ** 2, axis=0)
    widths = np.sum(np.log(np.diag(kde.cho_cov)))
    return -0.5 * squares - widths - 0.5 * kde.d * math.log(2 * math.pi)


@_own("gaussian_kde.evaluate")
def _density(self, points):
    return np.sum(self.weights[:, None] * np.exp(_exponents(self, points)), axis=0)


@_own("gaussian_kde.logpdf")
def _log_density(self, x):
    return PUBLIC["logsumexp"](_exponents(self, x), axis=0, b=self.weights[:, None])


@_own("gaussian_kde.neff")
def _effective_count(self):
    if not hasattr(self, "_neff"):
        self._neff = 1.0 / np.sum(self.weights**2)[()]  # a number, if nothing is recorded, too
    return self._neff


# --- distributions --------------------------------------------------------------------------------


def _factor_if_definite(M):
    """The Cholesky factor; None if there is none, which what is recorded then finds by itself."""
    trace: Any = rt.trace()
    before = None if trace is None else (trace.refusal, trace.is_faithful)
    try:
        return linalg.cholesky(M, lower=True)
    except np.linalg.LinAlgError:
        if before is not None:
            rt.take_refusal()
            trace.refusal, trace.is_faithful = before
        return None


def _factor_for_sure(M, cond, rcond, lower):
    """What `_PSD` keeps of a matrix that clearly has no eigenvalue near 0; None for others.

    The largest is at most the trace, the least at least 1 by the trace of the inverse. So programs
    of small matrices compute no eigenvalues.
    """
    theirs = importlib.import_module("scipy.stats._multivariate")
    factor = _factor_if_definite(M if lower else M.T)
    if factor is None:
        return None
    U = linalg.solve_triangular(factor, np.eye(len(M)), lower=True).T
    eps = theirs._eigvalsh_to_eps(np.ones(1), cond, rcond) * np.trace(M)
    if not np.sum(U**2) * eps < 1.0:
        return None
    return 1e3 * eps, np.zeros((len(M), 0)), U


@_own("_PSD.__init__")
def _factored(self, M, cond=None, rcond=None, lower=True, check_finite=True, allow_singular=True):
    """SciPy's, but by a Cholesky factor where no eigenvalue is 0: vectors of equal ones are any."""
    theirs = importlib.import_module("scipy.stats._multivariate")
    M = np.asarray(M)
    if (factor := _factor_for_sure(M, cond, rcond, lower)) is not None:
        self.eps, self.V, self.U = factor
        self._M, self._pinv, self.rank = M, None, len(M)
        self.log_pdet = -2.0 * np.sum(np.log(np.diag(self.U)))
        return
    s = linalg.eigvalsh(M, lower=lower, check_finite=check_finite)
    eps = copy_of(theirs._eigvalsh_to_eps)(s, cond, rcond)
    if np.min(s) < -eps:
        raise ValueError("The input matrix must be symmetric positive semidefinite.")
    is_kept = s > eps
    if np.all(is_kept):
        factor = linalg.cholesky(M if lower else M.T, lower=True)
        d, V = np.diag(factor) ** 2, np.zeros((len(s), 0))
        U = linalg.solve_triangular(factor, np.eye(len(s)), lower=True).T
    elif allow_singular:
        s, u = linalg.eigh(M, lower=lower, check_finite=check_finite)
        d, V = s[is_kept], u[:, ~is_kept]
        U = np.where(is_kept, u / np.sqrt(np.where(is_kept, s, 1.0)), 0.0)
    else:
        raise np.linalg.LinAlgError(
            "When `allow_singular is False`, the input matrix must be symmetric positive definite."
        )
    self._M, self.eps, self.V, self.U, self._pinv = M, 1e3 * eps, V, U, None
    self.rank, self.log_pdet = len(d), np.sum(np.log(d))


@_own("invwishart_gen._logpdf")
def _inverse_wishart(self, x, dim, df, log_det_scale, C):
    factors, logs = zip(
        *[self._cholesky_logdet(x[:, :, k]) for k in range(x.shape[-1])], strict=True
    )
    parts = [linalg.solve_triangular(one, C, lower=True) for one in factors]
    traces = np.array([np.sum(one**2) for one in parts])
    norm = 0.5 * df * dim * math.log(2.0) + special.multigammaln(0.5 * df, dim)
    return 0.5 * df * log_det_scale - 0.5 * traces - 0.5 * (df + dim + 1) * np.array(logs) - norm


def _multinomial_parameters(self, n, p):
    """The last probability is 1 less the others: SciPy's value, and the derivatives of that."""
    p = np.asarray(p, dtype=float)
    last, rest = p[..., -1], 1.0 - np.sum(p[..., :-1], axis=-1)
    eps = 10 * np.finfo(np.result_type(p, np.float32)).eps
    is_far = np.abs(1.0 - np.sum(p, axis=-1)) > eps
    if not is_before("1.16.0") and np.any(is_far):
        text = "Some rows of `p` do not sum to 1.0; their last elements are adjusted"
        warnings.warn(text, FutureWarning, stacklevel=3)
    last = np.where(is_far, rest, stop_gradient(last) + (rest - stop_gradient(rest)))
    p = np.concatenate((p[..., :-1], last[..., None]), axis=-1)
    n = np.array(n, dtype=int, copy=True)
    return n, p, (n < 0) | np.any((p < 0) | (p > 1), axis=-1)


if is_before("1.18.0"):  # later versions have no result for others
    OWN["multinomial_gen._process_parameters"] = _multinomial_parameters
