"""Formulas of SciPy's distributions, and which of their methods have derivatives."""

from __future__ import annotations

import re

import numpy as np
from scipy import special

from .._core.tensor.trace import DerivativeLost, learned, steered
from .._core.tensor.values import is_recorded, value_of
from ._differentiable import is_before

# --- distribution table ---------------------------------------------------------------------------
# Which methods of SciPy's distributions have derivatives, a line for each distribution.
#
# A method is in the table if all its partial derivatives agree with differences of SciPy's values
# in `tests/scipy/test_scipy_distributions.py`, which follows it.

#: Methods by a letter: density, distribution function, quantiles, moments, entropy.
_GROUPS = {
    "D": "pdf logpdf nnlf",
    "F": "cdf sf logcdf logsf",
    "Q": "ppf isf median interval",
    "M": "mean var std stats",
    "E": "entropy",
}
_OF_DISCRETE = _GROUPS | {"D": "pmf logpmf"}
#: The method's first argument in SciPy, by its name.
POINTS = {
    **dict.fromkeys("pdf logpdf cdf sf logcdf logsf".split(), "x"),
    **dict.fromkeys("pmf logpmf".split(), "k"),
    **dict.fromkeys("ppf isf".split(), "q"),
    "interval": "confidence",
}
METHODS = (*" ".join(_GROUPS.values()).split(), "pmf", "logpmf", "support", "rvs")
_LINES = """
alpha D F Q
anglit D F Q M E
arcsine D F Q M E
argus D F Q M
beta D F Q M E
betaprime D F Q M
bradford D F Q M E
burr D F Q M
burr12 D F Q M
cauchy D F Q E
chi D F Q M E
chi2 D F Q M E
cosine D F Q M E
crystalball D F Q
dgamma D F M E
dpareto_lognorm D F Q
dweibull D F Q M E
erlang D F Q M E
expon D F Q M E
exponnorm D F Q M
exponpow D F Q
exponweib D F Q
f D F Q M E
fatiguelife D F Q M
fisk D F Q M E
foldcauchy D F Q
foldnorm D F Q M
gamma D F Q M E
genexpon D F Q
genextreme D F Q M E
gengamma D F Q M E
genhalflogistic D F Q E
genhyperbolic D M
geninvgauss D M
genlogistic D F Q M E
gennorm D F Q M E
halfgennorm D F Q E
genpareto D F Q M E
gibrat D F Q M E
gompertz D F Q
gumbel_l D F Q M E
gumbel_r D F Q M E
halfcauchy D F Q E
halflogistic D F Q M E
halfnorm D F Q M E
hypsecant D F Q M E
invgamma D F Q M E
invgauss D F Q M
invweibull D F Q M E
jf_skew_t D F Q M
johnsonsb D F Q
johnsonsu D F Q M
kappa4 D F
kappa3 D F Q
kstwobign F Q
laplace D F Q M E
laplace_asymmetric D F Q M E
levy D F Q
irwinhall D F Q
levy_l D F Q
loggamma D F Q M E
logistic D F Q M E
loglaplace D F Q M E
lognorm D F Q M E
loguniform D F Q M E
lomax D F Q M E
maxwell D F Q M E
mielke D F Q M
moyal D F Q M
nakagami D F Q M E
ncf D F Q
ncx2 D F Q M
norm D F Q M E
norminvgauss D M
pareto D F Q M E
pearson3 D F Q M
powerlaw D F Q M E
powerlognorm D F Q
powernorm D F Q
rayleigh D F Q M E
rdist D F Q M
recipinvgauss D F Q
reciprocal D F Q M E
rel_breitwigner D F Q M
rice D F Q M
semicircular D F Q M E
skewcauchy D F Q
skewnorm D F Q M
t D F Q M E
trapezoid D F Q M E
triang D F Q M E
truncexpon D F Q M E
truncnorm D F Q M E
truncpareto D F Q E
truncweibull_min D F Q M
tukeylambda D F Q M
uniform D F Q M E
vonmises D F Q E
vonmises_line D F Q E
wald D F Q M E
weibull_max D F Q M E
weibull_min D F Q M E
wrapcauchy D F Q E
"""
_DISCRETE_LINES = """
bernoulli D F Q M E
betabinom D F Q M
betanbinom D F Q M
binom D F Q M E
boltzmann D F Q M
dlaplace D F Q M E
geom D F Q M E
hypergeom D F Q M
logser D F Q M
nbinom D F Q M
planck D F Q M E
poisson D F Q M
randint D F Q M E
skellam D F Q M
zipf D F Q
zipfian D F Q
yulesimon D F Q M
nhypergeom D F Q M
"""
#: Groups that a version of SciPy has no formulas for, by the versions from and before which.
_MISSING = {
    ("1.15.0", "1.17.0"): {"tukeylambda": "ME", "logser": "F"},
    ("1.15.0", "1.16.0"): {"truncnorm": "ME"},
    ("1.18.0", "2.0.0"): {"binom": "E"},
}


def _released() -> dict[str, frozenset[str]]:
    """The methods that have derivatives, by the name of the distribution."""
    missing: dict[str, str] = {}
    for (first, last), names in _MISSING.items():
        if not is_before(first) and is_before(last):
            missing |= names
    found = {}
    for lines, groups in ((_LINES, _GROUPS), (_DISCRETE_LINES, _OF_DISCRETE)):
        for name, *letters in map(str.split, lines.strip().splitlines()):
            kept = [groups[one] for one in letters if one not in missing.get(name, "")]
            found[name] = frozenset(" ".join(kept).split()) | {"support", "rvs"}
    return found


RELEASED = _released()
#: Discrete distributions whose distribution function is the sum of the probabilities.
SUMMED = frozenset(("betabinom", "betanbinom", "hypergeom", "nhypergeom", "zipf"))
#: Shapes where SciPy takes another formula, so that the derivative by them is that of a constant,
#: or nearly so, where it has no digits: the distance from 0 within which it is refused.
ZERO_SHAPES: dict[str, tuple[float, ...]] = {
    "kappa4": (1e-3, 1e-3),
    "genpareto": (1e-5,),
    "genextreme": (1e-3,),
    "tukeylambda": (1e-5,),
    "ncf": (0.0, 0.0, 1e-12),
    "ncx2": (0.0, 1e-12),
    "pearson3": (1e-2,),
    "rice": (1e-12,),
    "triang": (1e-300,),
    "vonmises": (1e-12,),
    "vonmises_line": (1e-12,),
}
#: Distributions of which some formulas have a number for NaN.
ANSWER_NAN = SUMMED | {
    "zipfian",
    *("bernoulli", "binom", "nbinom", "pearson3", "recipinvgauss", "trapezoid"),
    *("triang", "tukeylambda", "uniform"),
}
#: By distributions, a shape from which on SciPy's distribution function is an approximation, of
#: which the density is not the derivative.
APPROXIMATE = {"vonmises": 50.0, "vonmises_line": 50.0}
#: Reasons why a method has no derivative, by distribution or by method.
REFUSED = {
    "fit": "it searches for parameters; minimize the negative log likelihood, with its gradient",
    "expect": "it is a quadrature of a function",
    "others": "SciPy computes it by compiled code, by a quadrature or by a search",
}


# --- distribution parts ---------------------------------------------------------------------------
# Functions that SciPy's formulas of distributions call, in place of compiled ones.
#
# They are NumPy and SciPy code as SciPy's, of which copies run: see `_copied_code`.


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


# --- distribution formulas ------------------------------------------------------------------------
# Formulas of distributions whose own in SciPy are compiled, or write into parts of arrays.
#
# They are NumPy and SciPy code as SciPy's, of which copies run: see `_copied_code`.


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


def _enough_ncx2(x, nc) -> int:
    """How many components of a mixture have digits: those around the largest, a power of 2."""
    x, nc = np.broadcast_arrays(x, nc)
    at = np.flatnonzero(np.isfinite(x) & np.isfinite(nc) & (x >= 0) & (nc >= 0))
    x, nc = x.flat[at], nc.flat[at]
    largest = np.max(np.maximum(nc, np.sqrt(x) * np.sqrt(nc)), initial=0.0) / 2
    return 1 << max(int(np.ceil(np.log2(largest + 10 * np.sqrt(largest) + 50))), 7)


def _orders(x, df, nc):
    count = steered(_enough_ncx2, x, nc)
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


def _ncx2_pdf(self, x, df, nc):
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


# --- distribution sums ----------------------------------------------------------------------------
# Formulas of distributions that are finite sums: mixtures, generalized harmonic numbers, splines.
#
# They are NumPy and SciPy code as SciPy's, of which copies run: see `_copied_code`.


def _counted(count, name: str, axes: int):
    """The numbers of the terms of a sum, along a new first axis."""
    learned(count, f"how many terms a formula of {name} has")
    if value_of(count) > _MOST:
        raise DerivativeLost(
            f"with these arguments the formula of {name} is a sum of more than {_MOST} terms"
        )
    return np.arange(float(value_of(count))).reshape(-1, *(1,) * axes)


# --- F distribution with a noncentrality ----------------------------------------------------------


def _enough_ncf(x, dfn, dfd, nc) -> int:
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
    count = steered(_enough_ncf, x, dfn, dfd, nc)
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


#: By the name of the distribution and of SciPy's formula: the functions here that take `self`.
OWN = {
    found.groups(): one
    for name, one in [*globals().items()]
    if getattr(one, "__code__", None) and one.__code__.co_varnames[:1] == ("self",)
    if (found := re.fullmatch("_([a-z0-9_]+?)(_get_support|_support_mask|_[a-z]+)", name))
}
