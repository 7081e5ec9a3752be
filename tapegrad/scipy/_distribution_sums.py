"""Formulas of distributions that are finite sums: mixtures, generalized harmonic numbers, splines.

They are NumPy and SciPy code as SciPy's, of which copies run: see `_copied_code`.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from .._core.tensor.trace import DerivativeLost, learned, steered
from .._core.tensor.values import is_recorded, value_of

#: The most terms of a sum.
_MOST = 4096


def _counted(count, name: str, axes: int):
    """The numbers of the terms of a sum, along a new first axis."""
    learned(count, f"how many terms a formula of {name} has")
    if value_of(count) > _MOST:
        raise DerivativeLost(
            f"with these arguments the formula of {name} is a sum of more than {_MOST} terms"
        )
    return np.arange(float(value_of(count))).reshape(-1, *(1,) * axes)


# --- F distribution with a noncentrality ----------------------------------------------------------


def _enough(x, dfn, dfd, nc) -> int:
    """How many components have digits: those around the largest, a power of 2."""
    x, dfn, dfd, nc = np.broadcast_arrays(x, dfn, dfd, nc)
    kept = np.isfinite(x + dfn + dfd + nc) & (x >= 0) & (nc >= 0) & (dfn > 0) & (dfd > 0)
    x, dfn, dfd, nc = (one[kept] for one in (x, dfn, dfd, nc))
    mean = nc / 2 * (dfn * x / (dfn * x + dfd))
    free = mean - dfn / 2 - 1
    largest = (free + np.sqrt(free**2 + 2 * mean * (dfn + dfd))) / 2
    most = np.max(np.maximum(largest, nc / 2), initial=0.0)
    return 1 << max(int(np.ceil(np.log2(most + 12 * np.sqrt(most) + 60))), 7)


def _mixture_of_f(x, dfn, dfd, nc):
    count = steered(_enough, x, dfn, dfd, nc)
    j = _counted(count, "ncf", np.ndim(x + dfn + dfd + nc))
    weights = -nc / 2 + special.xlogy(j, nc / 2) - special.gammaln(j + 1)
    return weights, dfn / 2 + j, dfd / 2


def _ncf_logpdf(self, x, dfn, dfd, nc):
    weights, a, b = _mixture_of_f(x, dfn, dfd, nc)
    ratio = dfn / dfd
    density = a * np.log(ratio) + (a - 1) * np.log(x) - (a + b) * np.log1p(ratio * x)
    return special.logsumexp(weights + density - special.betaln(a, b), axis=0)


def _ncf_pdf(self, x, dfn, dfd, nc):
    return np.exp(_ncf_logpdf(self, x, dfn, dfd, nc))


def _ncf_cdf(self, x, dfn, dfd, nc):
    weights, a, b = _mixture_of_f(x, dfn, dfd, nc)
    return np.sum(np.exp(weights) * special.betainc(a, b, dfn * x / (dfn * x + dfd)), axis=0)


def _ncf_sf(self, x, dfn, dfd, nc):
    weights, a, b = _mixture_of_f(x, dfn, dfd, nc)
    return np.sum(np.exp(weights) * special.betaincc(a, b, dfn * x / (dfn * x + dfd)), axis=0)


# --- Zipf's distribution up to n ------------------------------------------------------------------


def _largest(n) -> float:
    return float(np.max(np.where(np.isfinite(n), n, 0.0), initial=0.0))


def _harmonic(k, a, n):
    """The sums of powers −a of whole numbers up to k."""
    j = 1.0 + _counted(steered(_largest, n), "zipfian", np.ndim(k + a + n))
    return np.sum(np.where(j <= k, np.exp(-a * np.log(j)), 0.0), axis=0)


def _zipfian_logpmf(self, k, a, n):
    return -a * np.log(k) - np.log(_harmonic(n, a, n))


def _zipfian_pmf(self, k, a, n):
    return np.exp(_zipfian_logpmf(self, k, a, n))


def _zipfian_cdf(self, k, a, n):
    return _harmonic(k, a, n) / _harmonic(n, a, n)


def _zipfian_sf(self, k, a, n):
    return 1.0 - _zipfian_cdf(self, k, a, n)


# --- sums of uniform numbers ----------------------------------------------------------------------

#: With more numbers the terms of the formula, of both signs, hide its digits.
_NUMBERS = 12


def _of_uniform_sum(x, n, power: int):
    """The spline of degree n − 1 on its left half, or of degree n its integral."""
    if is_recorded(n) or np.max(n) > _NUMBERS:
        raise DerivativeLost(f"n must be a plain number up to {_NUMBERS}")
    total = 0.0
    for k in range(_NUMBERS + 1):
        weight = (-1) ** k * special.binom(n, k)
        total = total + weight * np.maximum(x - k, 0.0) ** (n - 1 + power)
    return total / special.gamma(n + power)


def _irwinhall_pdf(self, x, n):
    return _of_uniform_sum(np.minimum(x, n - x), n, 0)


def _irwinhall_cdf(self, x, n):
    is_left = x < n / 2
    part = _of_uniform_sum(np.where(is_left, x, n - x), n, 1)
    return np.where(is_left, part, 1.0 - part)


def _irwinhall_sf(self, x, n):
    is_left = x < n / 2
    part = _of_uniform_sum(np.where(is_left, x, n - x), n, 1)
    return np.where(is_left, 1.0 - part, part)


#: By the name of the distribution and of SciPy's formula.
OWN_SUMS = {
    ("ncf", "_logpdf"): _ncf_logpdf,
    ("ncf", "_pdf"): _ncf_pdf,
    ("ncf", "_cdf"): _ncf_cdf,
    ("ncf", "_sf"): _ncf_sf,
    ("zipfian", "_logpmf"): _zipfian_logpmf,
    ("zipfian", "_pmf"): _zipfian_pmf,
    ("zipfian", "_cdf"): _zipfian_cdf,
    ("zipfian", "_sf"): _zipfian_sf,
    ("irwinhall", "_pdf"): _irwinhall_pdf,
    ("irwinhall", "_cdf"): _irwinhall_cdf,
    ("irwinhall", "_sf"): _irwinhall_sf,
}
