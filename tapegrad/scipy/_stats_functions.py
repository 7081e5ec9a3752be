"""Functions in SciPy's `stats` for recorded values: statistics, and discrepancies of points."""

from __future__ import annotations

import importlib
import warnings

import numpy

from .. import numpy as np
from .._core.tensor.pytree import stop_gradient
from .._core.tensor.trace import DerivativeLost, steered
from . import stats
from ._copied_code import OWN, copied_result, copy_of
from ._differentiable import OURS, differentiable, is_before

# --- statistics -----------------------------------------------------------------------------------
# Functions in SciPy's `stats` that copies of its code call in place of SciPy's own.
#
# SciPy's are compiled, write into plain arrays, or take another formula at one value of a
# parameter, where the derivative to the parameter would be lost.

_DRAWN = "it draws samples; give another method"


def _own(function):
    """Let a function stand for SciPy's of its name, as that is without decorators."""
    OWN[function.__name__] = function
    return function


# --- transformations ------------------------------------------------------------------------------


def _boxcox_llf(data, axis=0, *, lmb):
    """The log-likelihood of the Box-Cox transformation.

    The variance is that of x^λ − c^λ over λ, where c is the element with the largest power: nothing
    overflows, and no other formula is needed where λ is 0.
    """
    data = np.asarray(data, dtype=np.result_type(data, lmb, np.float32))
    logs, n = np.log(data), data.shape[axis]
    if n == 0:
        return np.nan * np.sum(data, axis=axis)
    largest = [pick(logs, axis=axis, keepdims=True) for pick in (np.max, np.min)]
    at = stop_gradient(np.where(lmb >= 0, *largest))
    powers = (logs - at) * OURS["special.exprel"](lmb * (logs - at))
    variance = np.log(np.var(powers, axis=axis)) + 2 * lmb * np.squeeze(at, axis=axis)
    return (lmb - 1) * np.sum(logs, axis=axis) - n / 2 * variance


def _yeojohnson_llf(data, *, lmb, axis=0):
    """The log-likelihood of the transformation of Yeo and Johnson."""
    variance = np.var(_yeojohnson_transform(data, lmb), axis=axis)
    is_tiny = variance < np.finfo(variance.dtype).tiny
    logarithm = np.where(is_tiny, -np.inf, np.log(np.where(is_tiny, 1.0, variance)))
    slopes = np.sum(np.sign(data) * np.log1p(np.abs(data)), axis=axis)
    return -data.shape[axis] / 2 * logarithm + (lmb - 1) * slopes


OWN["_boxcox_llf"] = _boxcox_llf
if is_before("1.16.0"):
    OWN["boxcox_llf"] = lambda lmb, data: _boxcox_llf(data, lmb=lmb)
if is_before("1.17.0"):
    OWN["yeojohnson_llf"] = lambda lmb, data: _yeojohnson_llf(np.asarray(data), lmb=lmb)


@_own
def _yeojohnson_transform(x, lmbda, xp=None):
    power, is_low = OURS["special.boxcox1p"], x < 0
    high = power(np.where(is_low, 0, x), lmbda)
    low = power(np.where(is_low, -x, 0), 2 - lmbda)
    return np.where(is_low, -low, high)


# --- distances ------------------------------------------------------------------------------------


def _distribution_function(values, weights, points):
    """The sum of the normed weights of the values up to each point."""
    order = np.argsort(values)
    counts = np.searchsorted(values[order], points, "right")
    if weights is None:
        return counts / values.size
    sums = np.concatenate(([0.0], np.cumsum(weights[order])))
    return sums[counts] / sums[-1]


@_own
def _cdf_distance(p, u_values, v_values, u_weights=None, v_weights=None):
    checked = copy_of(importlib.import_module("scipy.stats._stats_py")._validate_distribution)
    u_values, u_weights = checked(u_values, u_weights)
    v_values, v_weights = checked(v_values, v_weights)
    every = np.sort(np.concatenate((u_values, v_values)))
    of_u = _distribution_function(u_values, u_weights, every[:-1])
    of_v = _distribution_function(v_values, v_weights, every[:-1])
    apart = np.abs(of_u - of_v) if p == 1 else (of_u - of_v) ** 2
    total = np.sum(apart * np.diff(every))
    if p == 1:
        return total
    is_none = total == 0.0  # of equal distributions, where the derivative is taken for 0
    return np.where(is_none, 0.0, np.sqrt(np.where(is_none, 1.0, total)))


# --- tests ----------------------------------------------------------------------------------------


@_own
def _calculate_winsorized_variance(a, g, axis, **_):
    a = np.moveaxis(a, axis, -1)
    if g == 0:
        return np.var(a, ddof=1, axis=-1)
    n = a.shape[-1]
    inner = a[..., [*[g] * g, *range(g, n - g), *[n - g - 1] * g]]
    variance = np.var(inner, ddof=2 * g + 1, axis=-1)
    return np.where(np.any(np.isnan(a), axis=-1), np.nan, variance)


@_own
def siegelslopes(y, x=None, method="hierarchical"):
    place = importlib.import_module("scipy.stats._stats_mstats_common")
    if method not in ("hierarchical", "separate"):
        raise ValueError("method can only be 'hierarchical' or 'separate'")
    y = np.ravel(y)
    x = np.arange(len(y), dtype=float) if x is None else np.ravel(x)
    if len(x) != len(y):
        raise ValueError("Array shapes are incompatible for broadcasting.")
    if len(x) < 2:
        raise ValueError("`x` and `y` must have length at least 2.")
    return place.SiegelslopesResult(*_repeated_medians(x, y, method))


def _repeated_medians(x, y, method: str):
    """The median of the medians of the slopes from each point to those with another x."""
    across = x[:, None] - x
    run = np.where(across == 0, 1.0, across)
    slopes = np.where(across == 0, np.nan, (y[:, None] - y) / run)
    slope = np.median(np.nanmedian(slopes, axis=1))
    slope = np.where(np.isnan(np.sum(across)) | np.isnan(np.sum(y)), np.nan, slope)
    if method == "hierarchical":
        return slope, np.median(y - slope * x)
    offsets = np.where(across == 0, np.nan, (y * x[:, None] - y[:, None] * x) / run)
    return slope, np.median(np.nanmedian(offsets, axis=1))


# --- correlations of ranks, which are constant between equal values -------------------------------


def _test(*samples, of: str, keywords: dict):
    found = getattr(importlib.import_module("scipy.stats"), of)(*samples, **keywords)
    more = (found.zstatistic,) if hasattr(found, "zstatistic") else ()
    return found.statistic, found.pvalue, *more


def _of_ranks(of: str, kind: str, samples, **keywords):
    """The result of one of SciPy's, without a derivative, which programs compute again."""
    if not isinstance(keywords.get("method", ""), str):
        raise DerivativeLost(f"method {keywords['method']}: {_DRAWN}")
    parts = steered(_test, *samples, of=of, keywords=keywords)
    place, _, name = kind.rpartition(".")
    found = getattr(importlib.import_module(f"scipy.stats.{place}"), name)(
        statistic=parts[0], pvalue=parts[1]
    )
    if len(parts) > 2:
        found.zstatistic = parts[2]
    return found


def _correlation(of: str, samples, **keywords):
    found = _of_ranks(of, "_stats_py.SignificanceResult", samples, **keywords)
    found.correlation = found.statistic
    return found


@_own
def kendalltau(
    x, y, *, nan_policy="propagate", method="auto", variant="b", alternative="two-sided"
):
    how = {"method": method, "variant": variant, "alternative": alternative}
    return _correlation("kendalltau", (x, y), nan_policy=nan_policy, **how)


@_own
def weightedtau(x, y, rank=True, weigher=None, additive=True):
    return _correlation("weightedtau", (x, y), rank=rank, weigher=weigher, additive=additive)


@_own
def wilcoxon(
    x,
    y=None,
    zero_method="wilcox",
    correction=False,
    alternative="two-sided",
    method="auto",
    *,
    axis=0,
):
    how = {"zero_method": zero_method, "correction": correction, "alternative": alternative}
    samples = (x,) if y is None else (x, y)
    kind = "_morestats.WilcoxonResult"
    return _of_ranks("wilcoxon", kind, samples, method=method, axis=axis, **how)


@_own
def mannwhitneyu(x, y, use_continuity=True, alternative="two-sided", axis=0, method="auto"):
    how = {"use_continuity": use_continuity, "alternative": alternative, "axis": axis}
    kind = "_mannwhitneyu.MannwhitneyuResult"
    return _of_ranks("mannwhitneyu", kind, (x, y), method=method, **how)


@_own
def chatterjeexi(x, y, *, axis=0, y_continuous=False, method="asymptotic"):
    how = {"y_continuous": y_continuous, "axis": axis}
    return _of_ranks("chatterjeexi", "_stats_py.SignificanceResult", (x, y), method=method, **how)


@_own
def mood(x, y, axis=0, alternative="two-sided"):
    kind = "_stats_py.SignificanceResult"
    return _of_ranks("mood", kind, (x, y), axis=axis, alternative=alternative)


@_own
def cramervonmises_2samp(x, y, method="auto", *, axis=0):
    kind = "_hypotests.CramerVonMisesResult"
    return _of_ranks("cramervonmises_2samp", kind, (x, y), method=method, axis=axis)


# --- statistics -----------------------------------------------------------------------------------


@_own
def expectile(a, alpha=0.5, *, weights=None, axis=None):
    """SciPy's value, which is the mean with weights that depend on it.

    They are constant between elements, so that the mean has the derivatives of the value.
    """
    if not 0 <= alpha <= 1:
        raise ValueError("The expectile level alpha must be in range [0, 1].")
    a = np.asarray(a)
    samples = (a, alpha) if weights is None else (a, alpha, weights)
    along = {} if axis is None else {"axis": axis}
    found = steered(_expectile, *samples, **along)
    sides = np.where(
        a <= (found if axis is None else np.expand_dims(found, axis)), 1 - alpha, alpha
    )
    sides = sides if weights is None else sides * np.asarray(weights)
    mean = np.sum(sides * a, axis=axis) / np.sum(sides, axis=axis)
    return found + (mean - stop_gradient(mean)).astype(np.result_type(found))


def _expectile(a, alpha, weights=None, **along):
    place = importlib.import_module("scipy.stats")
    return place.expectile(a, float(alpha), weights=weights, **along)


#: Polynomials of Royston (Applied Statistics 44, 1995, R94) for the p-value.
_SHIFT = (0.459, -2.273)
_FEW = ((-6.714e-4, 0.025054, -0.39978, 0.544), (-0.0020322, 0.062767, -0.77857, 1.3822))
_MANY = ((0.0038915, -0.083751, -0.31082, -1.5861), (0.0030302, -0.082676, -0.4803))


def shapiro(x):
    """Shapiro's and Wilk's test of a vector, which is compiled code of SciPy's."""
    x = np.ravel(x).astype(float)
    n = len(x)
    if n < 3:
        raise ValueError("Data must be at least length 3.")
    if n > 5000:
        warnings.warn(
            f"scipy.stats.shapiro: For N > 5000, computed p-value may not be accurate. "
            f"Current N is {n}.",
            stacklevel=2,
        )
    place = importlib.import_module("scipy.stats._morestats")
    weights = numpy.zeros(n // 2)
    place.swilk(numpy.arange(float(n)), weights, 0)  # which fills them
    ordered, half = np.sort(x - x[n // 2]), n // 2
    spread = np.sum(weights * (ordered[: n - half - 1 : -1] - ordered[:half])) ** 2
    scale = 2.0 * np.sum(weights**2) * np.sum((ordered - np.mean(ordered)) ** 2)
    w = np.where(scale == 0.0, 1.0, spread / np.where(scale == 0.0, 1.0, scale))
    return place.ShapiroResult(w, _probability_of_w(w, n))


def _probability_of_w(w, n: int):
    """How often the statistic of n elements of a normal distribution is below w."""
    if n == 3:
        return np.maximum(6.0 / np.pi * (np.arcsin(np.sqrt(w)) - np.arcsin(np.sqrt(0.75))), 0.0)
    y, is_beyond = np.log1p(-w), False
    if n <= 11:
        shift = numpy.polyval(_SHIFT, n)
        is_beyond = y >= shift
        y = -np.log(np.where(is_beyond, 1.0, shift - y))
        mean, logarithm = (numpy.polyval(one, n) for one in _FEW)
    else:
        mean, logarithm = (numpy.polyval(one, numpy.log(n)) for one in _MANY)
    found = OURS["special.ndtr"]((mean - y) / numpy.exp(logarithm))
    return np.where(is_beyond, 1e-99, found)


if is_before("1.18.0"):
    _own(shapiro)


def _chi2_sf(self, x):
    """The survival function, with the derivative 0 at 0 of one degree of freedom.

    It is infinite there, but the squares of which x is the sum have the derivative 0.
    """
    is_infinite = (x == 0) & (np.asarray(self.df) < 2)
    found = OURS["special.chdtrc"](self.df, np.where(is_infinite, 1.0, x))
    return np.where(is_infinite, 1.0, found)


OWN["_SimpleChi2.sf"] = _chi2_sf
#: Results that compute with what they hold.
_RESULTS = ("TtestResult", "PearsonRResult", "_SimpleChi2")


def pair_results() -> None:
    """Let classes whose methods are copies stand for those of results."""
    place = importlib.import_module("scipy.stats._stats_py")
    for name in _RESULTS:
        if hasattr(place, name):
            copied_result(getattr(place, name))


@_own
def _parse_kstest_args(data1, data2, args, N):
    """The sample, the other one, and the distribution function, of a distribution that is named."""
    if isinstance(data2, str):
        data2 = getattr(stats, data2).cdf
    data1 = np.sort(data1)
    return (data1, None, data2) if callable(data2) else (data1, data2, None)


# --- order ----------------------------------------------------------------------------------------


def _percentile(sorted_, per, interpolation_method, axis):
    """The percentiles of sorted elements, as SciPy computes them before 1.17."""
    if not numpy.isscalar(per):
        return np.stack([_percentile(sorted_, one, interpolation_method, axis) for one in per])
    if not 0 <= per <= 100:
        raise ValueError("percentile must be in the range [0, 100]")
    place = per / 100.0 * (sorted_.shape[axis] - 1)
    if place % 1 and interpolation_method not in ("lower", "higher", "fraction"):
        raise ValueError("interpolation_method can only be 'fraction', 'lower' or 'higher'")
    low, high = int(numpy.floor(place)), int(numpy.ceil(place))
    share = {"lower": 0.0, "higher": 1.0}.get(interpolation_method, place - low)
    found = np.take(sorted_, low, axis=axis)
    return found if high == low else found * (1 - share) + np.take(sorted_, high, axis=axis) * share


if is_before("1.17.0"):
    OWN["_compute_qth_percentile"] = _percentile


# --- bins -----------------------------------------------------------------------------------------


def _numbers_of_bins(sample, *edges, nbin):
    place = importlib.import_module("scipy.stats._binned_statistic")
    return place._bin_numbers(sample, nbin, edges, [*map(numpy.diff, edges)])


@_own
def _bin_numbers(sample, nbin, edges, dedges):
    return steered(_numbers_of_bins, sample, *edges, nbin=nbin)


# --- what has no derivative -----------------------------------------------------------------------

_SOLVED = "it searches for the best value; give {}"
_REFUSED = {
    "boxcox_normmax": _SOLVED.format("lmbda, as found with plain values"),
    "yeojohnson_normmax": _SOLVED.format("lmbda, as found with plain values"),
    "_boxcox_conf_interval": _SOLVED.format("alpha=None"),
    **dict.fromkeys(("permutation_test", "monte_carlo_test", "bootstrap"), _DRAWN),
}


def _refusing(name: str, reason: str):
    def refuse(*_, **__):
        raise DerivativeLost(f"of {name}: {reason}")

    return refuse


OWN |= {name: _refusing(name, reason) for name, reason in _REFUSED.items()}


# --- discrepancies --------------------------------------------------------------------------------
# Discrepancies of points in a unit cube, for recorded values (Zhou 2013).


def _pairs(x):
    return x[:, None], x[None, :]


def _both(one_of_each, of_pairs, n: int):
    """What all formulas have: a sum over the points, and one over all pairs of them."""
    single = np.sum(np.prod(one_of_each, axis=1))
    return np.sum(np.prod(of_pairs, axis=-1)) / n**2 - 2.0 * single / n


def _centered(sample, n: int, d: int):
    off = np.abs(sample - 0.5)
    (a, b), (x, y) = _pairs(off), _pairs(sample)
    pairs = 1.0 + 0.5 * a + 0.5 * b - 0.5 * np.abs(x - y)
    return (13.0 / 12.0) ** d + _both(1.0 + 0.5 * off - 0.5 * off**2, pairs, n)


def _wrap_around(sample, n: int, d: int):
    x, y = _pairs(sample)
    apart = np.abs(x - y)
    return np.sum(np.prod(1.5 - apart * (1.0 - apart), axis=-1)) / n**2 - (4.0 / 3.0) ** d


def _mixture(sample, n: int, d: int):
    off = np.abs(sample - 0.5)
    (a, b), (x, y) = _pairs(off), _pairs(sample)
    apart = np.abs(x - y)
    pairs = 15.0 / 8.0 - 0.25 * a - 0.25 * b - 0.75 * apart + 0.5 * apart**2
    return (19.0 / 12.0) ** d + _both(5.0 / 3.0 - 0.25 * off - 0.25 * off**2, pairs, n)


def _l2_star(sample, n: int, d: int):
    pairs = 1.0 - np.maximum(*_pairs(sample))
    single = np.sum(np.prod(1.0 - sample**2, axis=1))
    return np.sqrt(3.0**-d - 2.0 ** (1 - d) * single / n + np.sum(np.prod(pairs, axis=-1)) / n**2)


_METHODS = {"CD": _centered, "WD": _wrap_around, "MD": _mixture, "L2-star": _l2_star}


@differentiable("stats.qmc.discrepancy")
def discrepancy(sample, *, iterative=False, method="CD", workers=1):
    theirs = importlib.import_module("scipy.stats._qmc")
    sample = copy_of(theirs._ensure_in_unit_hypercube)(sample)
    theirs._validate_workers(workers)
    if method not in _METHODS:
        raise ValueError(f"{method!r} is not a valid method. It must be one of {set(_METHODS)!r}")
    return _METHODS[method](sample, len(sample) + bool(iterative), sample.shape[1])
