"""Formulas of distributions whose own in SciPy are compiled, or write into parts of arrays.

They are NumPy and SciPy code as SciPy's, of which copies run: see `_copied_code`.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from .._core.tensor.trace import DerivativeLost, learned, steered
from .._core.tensor.values import value_of

# --- formulas of distributions --------------------------------------------------------------------


def _log_kv(order, x):
    return np.log(special.kve(order, x)) - x


def _geninvgauss_logpdf(self, x, p, b):
    return (p - 1) * np.log(x) - b * (x + 1 / x) / 2 - np.log(2.0) - _log_kv(p, b)


def _genhyperbolic_logpdf(self, x, p, a, b):
    t1 = p - 0.5
    t2 = a**2 - b**2
    t3 = p / 2 * np.log(t2) - 0.5 * np.log(2 * np.pi) - t1 * np.log(a) - _log_kv(p, np.sqrt(t2))
    root = np.sqrt(1 + x**2)
    return t3 + t1 * np.log(root) + _log_kv(t1, a * root) + b * x


def _genhyperbolic_pdf(self, x, p, a, b):
    return np.exp(_genhyperbolic_logpdf(self, x, p, a, b))


def _norm_logpdf(x):
    return -(x**2) / 2.0 - 0.5 * np.log(2 * np.pi)


def _skewnorm_logpdf(self, x, a):
    return np.log(2.0) + _norm_logpdf(x) + special.log_ndtr(a * x)


def _skewnorm_pdf(self, x, a):
    return np.exp(_skewnorm_logpdf(self, x, a))


def _genlogistic_logpdf(self, x, c):
    return np.log(c) - x - (c + 1.0) * np.logaddexp(0.0, -x)


def _genlogistic_support_mask(self, x, c):
    return np.isfinite(x)


def _genlogistic_pdf(self, x, c):
    return np.exp(_genlogistic_logpdf(self, x, c))


def _pearson3_parts(x, skew):
    beta = 2.0 / skew
    return beta**2, 1.0 * beta, beta * x + beta**2


def _pearson3_logpdf(self, x, skew):
    alpha, beta, y = _pearson3_parts(x, skew)
    inside = np.where(y >= 0, y, 1.0)
    power = special.xlogy(alpha - 1, inside)
    out = np.log(np.abs(beta)) + power - inside - special.gammaln(alpha)
    return np.where(y >= 0, out, -np.inf)


def _pearson3_pdf(self, x, skew):
    return np.exp(_pearson3_logpdf(self, x, skew))


def _pearson3_cdf(self, x, skew):
    alpha, _, y = _pearson3_parts(x, skew)
    inside = np.where(y > 0, y, 0.0)
    return np.where(skew > 0, special.gammainc(alpha, inside), special.gammaincc(alpha, inside))


def _pearson3_sf(self, x, skew):
    alpha, _, y = _pearson3_parts(x, skew)
    inside = np.where(y > 0, y, 0.0)
    return np.where(skew > 0, special.gammaincc(alpha, inside), special.gammainc(alpha, inside))


def _dpareto_lognorm_logpdf(self, x, u, s, a, b):
    z = (np.log(x) - u) / s
    near, far = a * s - z, b * s + z
    log_phi = _norm_logpdf(z)
    sum_of_ratios = np.logaddexp(
        special.log_ndtr(-near) - _norm_logpdf(near), special.log_ndtr(-far) - _norm_logpdf(far)
    )
    return np.log(a) + np.log(b) - np.log(a + b) - np.log(x) + log_phi + sum_of_ratios


def _dpareto_lognorm_support_mask(self, x, u, s, a, b):
    return (x > 0) & (x < np.inf)


def _dpareto_lognorm_pdf(self, x, u, s, a, b):
    return np.exp(_dpareto_lognorm_logpdf(self, x, u, s, a, b))


def _dpareto_lognorm_tail(x, u, s, a, b):
    """The difference of the distribution function to that of the logarithm's normal one."""
    z = (np.log(x) - u) / s
    near, far = a * s - z, b * s + z
    log_phi = _norm_logpdf(z)
    first = np.exp(log_phi + special.log_ndtr(-near) - _norm_logpdf(near))
    second = np.exp(log_phi + special.log_ndtr(-far) - _norm_logpdf(far))
    return z, (b * first - a * second) / (a + b)


def _dpareto_lognorm_cdf(self, x, u, s, a, b):
    z, tail = _dpareto_lognorm_tail(x, u, s, a, b)
    return special.ndtr(z) - tail


def _dpareto_lognorm_sf(self, x, u, s, a, b):
    z, tail = _dpareto_lognorm_tail(x, u, s, a, b)
    return special.ndtr(-z) + tail


def _dpareto_lognorm_logcdf(self, x, u, s, a, b):
    return np.log(_dpareto_lognorm_cdf(self, x, u, s, a, b))


def _dpareto_lognorm_logsf(self, x, u, s, a, b):
    return np.log(_dpareto_lognorm_sf(self, x, u, s, a, b))


def _kappa4_get_support(self, h, k):
    h_inside, k_inside = np.where(h > 0, h, 1.0), np.where(k == 0, 1.0, k)
    low = np.where(k == 0, np.log(h_inside), (1.0 - h_inside ** (-k_inside)) / k_inside)
    low = np.where(h > 0, low, np.where(k < 0, 1.0 / k_inside, -np.inf))
    return low, np.where(k > 0, 1.0 / k_inside, np.inf)


#: B_2j / (2j)! of Bernoulli's numbers.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)


def _zeta(a):
    """Riemann's function for a > 1, by the formula of Euler and Maclaurin from 12 on."""
    out = 1.0
    for j in range(2, 12):
        out = out + np.exp(-a * np.log(j))
    tail = np.exp(-a * np.log(12.0))
    out = out + 12.0 * tail / (a - 1.0) + 0.5 * tail
    rising = a / 12.0
    for j, weight in enumerate(_BERNOULLI):
        out = out + weight * rising * tail
        rising = rising * (a + 2 * j + 1) * (a + 2 * j + 2) / 144.0
    return out


def _zipf_logpmf(self, k, a):
    return -a * np.log(k) - np.log(_zeta(a))


def _zipf_pmf(self, k, a):
    return np.exp(_zipf_logpmf(self, k, a))


def _kolmogorov_series(x):
    """The distribution function, its complement and its derivative, of the limit for many data."""
    is_small = x < 1.0
    small, large = np.where(is_small, x, 0.5), np.where(is_small, 1.5, x)
    squares = [(2 * j - 1) ** 2 * np.pi**2 / 8 for j in range(1, 6)]
    root = np.sqrt(2 * np.pi)
    terms = [np.exp(-c / small**2) for c in squares]
    cdf_small = root / small * sum(terms)
    slopes = [e * (2 * c / small**4 - 1 / small**2) for e, c in zip(terms, squares, strict=True)]
    pdf_small = root * sum(slopes)
    terms = [(-1) ** (j - 1) * np.exp(-2 * j**2 * large**2) for j in range(1, 6)]
    sf_large = 2 * sum(terms)
    pdf_large = 8 * large * sum([j**2 * e for j, e in enumerate(terms, 1)])
    return (
        np.where(is_small, cdf_small, 1 - sf_large),
        np.where(is_small, 1 - cdf_small, sf_large),
        np.where(is_small, pdf_small, pdf_large),
    )


def _kstwobign_cdf(self, x):
    return _kolmogorov_series(x)[0]


def _kstwobign_sf(self, x):
    return _kolmogorov_series(x)[1]


def _kstwobign_pdf(self, x):
    return _kolmogorov_series(x)[2]


def _mixture(values, nc):
    """The logarithms of the probabilities of Poisson's distribution, one for each j of values."""
    return -nc / 2 + special.xlogy(values, nc / 2) - special.gammaln(values + 1)


#: The most components of a mixture.
_MOST = 4096


def _enough(x, nc) -> int:
    """How many components of a mixture have digits: those around the largest, a power of 2."""
    x, nc = np.broadcast_arrays(x, nc)
    at = np.flatnonzero(np.isfinite(x) & np.isfinite(nc) & (x >= 0) & (nc >= 0))
    x, nc = x.flat[at], nc.flat[at]
    largest = np.max(np.maximum(nc, np.sqrt(x) * np.sqrt(nc)), initial=0.0) / 2
    return 1 << max(int(np.ceil(np.log2(largest + 10 * np.sqrt(largest) + 50))), 7)


def _orders(x, df, nc):
    count = steered(_enough, x, nc)
    learned(count, "how many components of a mixture ncx2 has")
    if value_of(count) > _MOST:
        raise DerivativeLost(
            "the noncentrality, or the point, is so large that the density has more than "
            f"{_MOST} components; use the normal distribution of the same mean and variance"
        )
    return np.arange(float(value_of(count))).reshape(-1, *(1,) * np.ndim(x + df + nc))


def _ncx2_logpdf(self, x, df, nc):
    """A mixture of chi-squared densities, whose weights are Poisson's probabilities."""
    is_infinite = np.any(np.isinf(x))
    learned(is_infinite, "whether a point of ncx2 is infinite")
    if value_of(is_infinite):
        raise DerivativeLost("a point is infinite, where the logarithm of the density is, too")
    j = _orders(x, df, nc)
    half = df / 2 + j
    density = (half - 1) * np.log(x) - x / 2 - half * np.log(2.0) - special.gammaln(half)
    return special.logsumexp(_mixture(j, nc) + density, axis=0)


def _ncx2_pdf_of(self, x, df, nc):
    return np.exp(_ncx2_logpdf(self, x, df, nc))


def _ncx2_cdf(self, x, df, nc):
    j = _orders(x, df, nc)
    return np.sum(np.exp(_mixture(j, nc)) * special.gammainc(df / 2 + j, x / 2), axis=0)


def _ncx2_sf(self, x, df, nc):
    j = _orders(x, df, nc)
    return np.sum(np.exp(_mixture(j, nc)) * special.gammaincc(df / 2 + j, x / 2), axis=0)


def _skellam_ends(k, mu1, mu2):
    """The point, degrees and noncentrality of the chi-squared density that is the probability."""
    is_left = k < 0
    degrees = np.where(is_left, -k, k)
    return np.where(is_left, mu2, mu1) * 2, degrees * 2, np.where(is_left, mu1, mu2) * 2


def _skellam_logpmf(self, k, mu1, mu2):
    x, degrees, nc = _skellam_ends(k, mu1, mu2)
    return np.log(2.0) + _ncx2_logpdf(self, x, degrees + 2, nc)


def _skellam_pmf(self, k, mu1, mu2):
    return np.exp(_skellam_logpmf(self, k, mu1, mu2))


def _skellam_cdf(self, k, mu1, mu2):
    k = np.floor(k)
    is_left = k < 0
    x, degrees, nc = _skellam_ends(k, mu1, mu2)
    right = _ncx2_sf(self, x, degrees + 2, nc)
    return np.where(is_left, _ncx2_cdf(self, x, np.where(is_left, degrees, 2.0), nc), right)


def _skellam_sf(self, k, mu1, mu2):
    return _skellam_cdf(self, -np.floor(k) - 1, mu2, mu1)


def _bernoulli_munp(self, n, p):
    return p


def _truncexpon_munp(self, n, b):
    return special.gamma(n + 1.0) * special.gammainc(n + 1.0, b) / -special.expm1(-b)


def _dgamma_pdf(self, x, a):
    """SciPy's formula, and for large a, where its factors overflow, one relative to the mode."""
    is_large, size = a > 100.0, np.abs(x)
    small, large = np.where(is_large, 1.0, a), np.where(is_large, a, 101.0)
    direct = np.where(is_large, 1.0, size) ** (small - 1) * np.exp(-size) / special.gamma(small)
    mode = large - 1
    ratio = np.where(is_large, size, mode) / mode
    top = np.exp(mode * np.log(mode) - mode - special.gammaln(large))
    return np.where(is_large, top * (ratio * np.exp(1 - ratio)) ** mode, direct) / 2


#: By the name of the distribution and of SciPy's formula.
OWN = {
    ("dgamma", "_pdf"): _dgamma_pdf,
    ("geninvgauss", "_logpdf"): _geninvgauss_logpdf,
    ("genhyperbolic", "_logpdf"): _genhyperbolic_logpdf,
    ("skewnorm", "_logpdf"): _skewnorm_logpdf,
    ("skewnorm", "_pdf"): _skewnorm_pdf,
    ("genlogistic", "_logpdf"): _genlogistic_logpdf,
    ("genlogistic", "_pdf"): _genlogistic_pdf,
    ("genlogistic", "_support_mask"): _genlogistic_support_mask,
    ("dpareto_lognorm", "_support_mask"): _dpareto_lognorm_support_mask,
    ("pearson3", "_logpdf"): _pearson3_logpdf,
    ("pearson3", "_pdf"): _pearson3_pdf,
    ("pearson3", "_cdf"): _pearson3_cdf,
    ("pearson3", "_sf"): _pearson3_sf,
    ("dpareto_lognorm", "_logpdf"): _dpareto_lognorm_logpdf,
    ("dpareto_lognorm", "_pdf"): _dpareto_lognorm_pdf,
    ("dpareto_lognorm", "_cdf"): _dpareto_lognorm_cdf,
    ("dpareto_lognorm", "_sf"): _dpareto_lognorm_sf,
    ("dpareto_lognorm", "_logcdf"): _dpareto_lognorm_logcdf,
    ("dpareto_lognorm", "_logsf"): _dpareto_lognorm_logsf,
    ("genhyperbolic", "_pdf"): _genhyperbolic_pdf,
    ("kappa4", "_get_support"): _kappa4_get_support,
    ("zipf", "_logpmf"): _zipf_logpmf,
    ("zipf", "_pmf"): _zipf_pmf,
    ("kstwobign", "_cdf"): _kstwobign_cdf,
    ("kstwobign", "_sf"): _kstwobign_sf,
    ("kstwobign", "_pdf"): _kstwobign_pdf,
    ("ncx2", "_logpdf"): _ncx2_logpdf,
    ("ncx2", "_pdf"): _ncx2_pdf_of,
    ("ncx2", "_cdf"): _ncx2_cdf,
    ("ncx2", "_sf"): _ncx2_sf,
    ("skellam", "_logpmf"): _skellam_logpmf,
    ("skellam", "_pmf"): _skellam_pmf,
    ("skellam", "_cdf"): _skellam_cdf,
    ("skellam", "_sf"): _skellam_sf,
    ("bernoulli", "_munp"): _bernoulli_munp,
    ("truncexpon", "_munp"): _truncexpon_munp,
}


# --- partial derivatives by shapes ----------------------------------------------------------------


def _skewnorm_by_shape(x, a):
    return -np.exp(-(x**2) * (1 + a**2) / 2) / (np.pi * (1 + a**2))


def _vonmises_by_shape(x, kappa):
    """The derivative of the two formulas that SciPy has for the distribution function."""
    is_small = kappa < 50.0
    by_series = _vonmises_series(x, np.where(is_small, kappa, 1.0))
    return np.where(is_small, by_series, _vonmises_limit(x, np.where(is_small, 50.0, kappa)))


def _vonmises_limit(x, kappa):
    """The derivative of a normal distribution function of the sine of half the angle."""
    width = np.sqrt(2 / np.pi) / special.i0e(kappa)
    turns = np.floor(x / (2 * np.pi) + 0.5)
    sine = np.sin(x / 2 - np.pi * turns)
    slope = width * (1.0 - special.ive(1.0, kappa) / special.i0e(kappa))
    return np.exp(_norm_logpdf(width * sine)) * sine * slope


def _vonmises_series(x, kappa):
    """The derivative of the Fourier series, for kappa up to 50."""
    orders = np.arange(0.0, 92.0).reshape(-1, *(1,) * np.ndim(x + kappa))
    ratios = special.ive(orders, kappa) / special.ive(0.0, kappa)
    slopes = (ratios[:-2] + ratios[2:]) / 2 - ratios[1:-1] * ratios[1]
    return np.sum(slopes * np.sin(orders[1:-1] * x) / orders[1:-1], axis=0) / np.pi


#: Of distribution functions that SciPy computes by compiled code, one for each shape.
BY_SHAPE = {
    "skewnorm": (_skewnorm_by_shape,),
    "vonmises": (_vonmises_by_shape,),
    "vonmises_line": (_vonmises_by_shape,),
    # smooth functions by formulas that are not, at their centres: by themselves
    "gennorm": (),
    "dgamma": (),
    "dweibull": (),
}
