"""Functions that SciPy's formulas of distributions call, in place of compiled ones.

They are NumPy and SciPy code as SciPy's, of which copies run: see `_copied_code`.
"""

from __future__ import annotations

import numpy as np
from scipy import special


def _log_complement(log_p):
    """log(1 - p) of log p."""
    return np.where(
        log_p < -0.7,
        np.log1p(-np.exp(np.where(log_p < -0.7, log_p, -1.0))),
        np.log(-np.expm1(np.where(log_p < -0.7, -1.0, log_p))),
    )


def _log_sum(log_p, log_q):
    return np.logaddexp(log_p, log_q)


def _log_diff(log_p, log_q):
    return log_p + _log_complement(log_q - log_p)


def _log_gauss_mass(a, b):
    """The logarithm of the normal probability between two points, without cancellation."""
    is_right = a > 0
    low, high = np.where(is_right, -b, a), np.where(is_right, -a, b)
    is_left = high <= 0
    log_high = special.log_ndtr(np.where(is_left, high, -1.0))
    log_low = special.log_ndtr(np.where(is_left, low, -2.0))
    low, high = np.where(is_left, -1.0, low), np.where(is_left, 1.0, high)
    across = np.log1p(-special.ndtr(low) - special.ndtr(-high))
    return np.where(is_left, _log_diff(log_high, log_low), across)


def _log1mexp(x):
    return _log_complement(x)


def _beta_pdf(x, a, b):
    return np.exp(special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b))


def _log_of_choices(n, k):
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def _binom_pmf(k, n, p):
    return np.exp(_log_of_choices(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p))


def _binom_cdf(k, n, p):
    return np.where(k < n, special.betaincc(k + 1, np.where(k < n, n - k, 1.0), p), 1.0)


def _binom_sf(k, n, p):
    return np.where(k < n, special.betainc(k + 1, np.where(k < n, n - k, 1.0), p), 0.0)


def _nbinom_pmf(k, n, p):
    choices = special.gammaln(n + k) - special.gammaln(k + 1) - special.gammaln(n)
    return np.exp(choices + n * np.log(p) + special.xlog1py(k, -p))


def _nbinom_cdf(k, n, p):
    return special.betainc(n, k + 1, p)


def _nbinom_sf(k, n, p):
    return special.betaincc(n, k + 1, p)


def _nbinom_mean(n, p):
    return n * (1 - p) / p


def _nbinom_variance(n, p):
    return n * (1 - p) / p**2


def _nbinom_skewness(n, p):
    return (2 - p) / np.sqrt(n * (1 - p))


def _nbinom_kurtosis_excess(n, p):
    return 6 / n + p**2 / (n * (1 - p))


def _hypergeom_pmf(k, n, N, M):
    chosen = _log_of_choices(n, k) + _log_of_choices(M - n, N - k)
    return np.exp(chosen - _log_of_choices(M, N))


def _hypergeom_mean(n, N, M):
    return N * n / M


def _hypergeom_variance(n, N, M):
    return N * n * (M - n) * (M - N) / (M * M * (M - 1))


def _hypergeom_skewness(n, N, M):
    width = np.sqrt((M - 1) / (n * N * (M - n) * (M - N)))
    return (M - 2 * n) * (M - 2 * N) / (M - 2) * width


def _cosine_cdf(x):
    return 0.5 + (x + np.sin(x)) / (2 * np.pi)


def _beta_ppf(q, a, b):
    return special.betaincinv(a, b, q)


def _cauchy_ppf(q, loc, scale):
    return loc - scale / np.tan(np.pi * q)


def _cauchy_isf(q, loc, scale):
    return loc + scale / np.tan(np.pi * q)


#: By the names of SciPy's functions of the same arguments.
CALLED = {
    one.__name__: one
    for one in (
        *(_log_sum, _log_diff, _log_gauss_mass, _log1mexp, _beta_pdf, _cosine_cdf),
        *(_binom_pmf, _binom_cdf, _binom_sf, _nbinom_pmf, _nbinom_cdf, _nbinom_sf),
        *(_beta_ppf, _cauchy_ppf, _cauchy_isf),
        *(_nbinom_mean, _nbinom_variance, _nbinom_skewness, _nbinom_kurtosis_excess),
        *(_hypergeom_pmf, _hypergeom_mean, _hypergeom_variance, _hypergeom_skewness),
    )
}
