"""Positions of quantiles: elements and distances, without derivative, for all methods of NumPy.

The methods are those of Hyndman and Fan, Sample Quantiles in Statistical Packages, The American
Statistician 50 (1996), 361-365, and NumPy's own.
"""

from __future__ import annotations

import numpy as np

from ..tensor.runtime import silence
from ..tensor.trace import named, of_each
from .sorting import at_ranks

#: Constants α and β of the continuous methods: the position of q among n elements, from 0, is n·q +
#: α + q·(1 − α − β) − 1.
CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}
#: Methods in which a quantile is one element.
ELEMENTS = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
#: Methods in which it is an element or lies at a fixed position between two.
METHODS = (*CONTINUOUS, *ELEMENTS, "averaged_inverted_cdf", "midpoint")


def place_of(n, q, method):
    """The position of q among n elements, counted from 0: a whole number for an element."""
    if method == "linear":
        return (n - 1) * q
    if method in CONTINUOUS:
        alpha, beta = CONTINUOUS[method]
        return n * q + (alpha + q * (1 - alpha - beta)) - 1
    if method == "midpoint":
        return 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q))
    return n * q - 1


def _element(n, q, method):
    """The element, counted from 0, that is a quantile."""
    rounded = {"lower": np.floor, "higher": np.ceil, "nearest": np.around}
    if method in rounded:
        return rounded[method]((n - 1) * q)
    place = n * q - 1 - (0.5 if method == "closest_observation" else 0.0)
    below = np.floor(place)
    stays = place == below
    if method == "closest_observation":
        stays = stays & (below % 2 == 1)
    return np.where(stays, below, below + 1)


def _fraction(place, method):
    """The distance of a quantile from the element below it, relative to the next one."""
    if method == "averaged_inverted_cdf":
        return np.where(place == np.floor(place), 0.5, 1.0)
    if method == "midpoint":
        return np.where(place % 1 == 0, 0.0, 0.5)
    return place - np.floor(place)


@named("quantiles.numbers")
def numbers(values, dtype):
    """The number of elements along the first axis that are not NaN."""
    return np.sum(~np.isnan(values), axis=0, dtype=dtype)


@named("quantiles.positions")
def positions(values, q, method, skips_nan):
    """The positions along the first axis of the elements between which quantiles lie.

    For methods of one element as many as there are q; else three times as many: the ones below, the
    ones above, and the nearer ones. All are where a NaN is, if there is one and it is not skipped.
    """
    return _positions_along(values, np.asarray(q), method, skips_nan, 0)


def _positions_along(values, q, method, skips_nan, axis):
    nan = np.isnan(values)
    n = len(values) if axis == 0 else values.shape[axis]
    if skips_nan:
        n = np.sum(~nan, axis=axis, keepdims=True, dtype=q.dtype if q.dtype.kind == "f" else float)
    found = np.clip(
        _ranks(n, _column(q, values.ndim - axis), method, axis), 0, np.maximum(n - 1, 0)
    )
    shape = list(values.shape)
    shape[axis] = found.shape[found.ndim - values.ndim + axis]
    found = np.broadcast_to(found.astype(np.int64), shape)
    if values.ndim == 1:
        whole = not skips_nan and nan.any()
        return at_ranks(values, np.full(shape, n - 1) if whole else found)
    order = np.argsort(values, axis, kind="stable")
    found = np.take_along_axis(order, found, axis)
    if skips_nan:
        return found
    return np.where(np.any(nan, axis=axis, keepdims=True), np.take(order, [-1], axis), found)


def _column(q, ndim):
    """q along the first of some axes."""
    return q.reshape(-1, *[1] * (ndim - 1))


def _ranks(n, q, method, axis):
    """The elements in order, at `positions`."""
    if method in ELEMENTS:
        return np.asarray(_element(n, q, method))
    place = np.asarray(place_of(n, q, method))
    below = np.floor(place)
    parts = [below, below + 1, below + (_fraction(place, method) >= 0.5)]
    return np.concatenate(parts, place.ndim - q.ndim)


@of_each(positions, "quantiles.positions_each")
def _positions_each(values, q, method, skips_nan, mapped):
    if mapped == (True, False):
        return _positions_along(values, np.asarray(q), method, skips_nan, 1)
    each = zip(values, q, strict=True) if mapped[0] else ((values, one) for one in q)
    return np.stack([positions(*one, method, skips_nan) for one in each])


@named("quantiles.distance")
def distance(n, q, method, dtype, ndim):
    """The distance of a quantile from the nearer of its two elements, in units of their distance.

    Negative where it is below the nearer one, as NumPy computes it. `ndim` counts the axes, of
    which q are along the first; `n` is a number or has the others.
    """
    fraction = _fraction(np.asarray(place_of(n, _column(np.asarray(q), ndim), method)), method)
    return np.where(fraction >= 0.5, -(1 - fraction), fraction).astype(dtype)


@named("quantiles.nearer")
def nearer(place):
    """The nearer of the two elements around a place."""
    below = np.floor(place)
    return below + (place - below >= 0.5)


@named("quantiles.is_valid")
def is_valid(q):
    return bool(np.all((np.asarray(q) >= 0) & (np.asarray(q) <= 1)))


# --- weights ----------------------------------------------------------------------------------


@named("quantiles.spread")
def spread(weights, shape, axes):
    """Weights along axes, in any order, for every element of a shape."""
    inner = np.transpose(weights, np.argsort(axes))
    return np.broadcast_to(
        inner.reshape([n if k in axes else 1 for k, n in enumerate(shape)]), shape
    )


@named("quantiles.bad_weights")
def bad_weights(values, weights, skips_nan):
    """1 if a weight is negative, 2 if the weights along the first axis do not add up to a share."""
    if np.any(np.asarray(weights) < 0):
        return 1
    if skips_nan:
        weights = np.where(np.isnan(values), 0.0, weights)
    total = np.sum(weights, axis=0, dtype=np.float64)
    empty = np.all(np.isnan(values), axis=0) & skips_nan
    return 2 * int(np.any(~empty & (~np.isfinite(total) | (total == 0.0))))


@named("quantiles.weighted_positions")
def weighted_positions(values, weights, q, skips_nan):
    """The positions of the first elements at which the share of the weights reaches q."""
    q = np.asarray(q)
    order = np.argsort(values, 0, kind="stable")
    ordered = np.take_along_axis(values, order, 0)
    weights = np.take_along_axis(np.asarray(weights), order, 0)
    weights = np.where(np.isnan(ordered), 0.0, weights) if skips_nan else weights
    with silence():
        share = np.cumsum(weights, axis=0, dtype=np.float64)
        share /= share[-1]
    share = share.astype(q.dtype) if q.dtype.kind == "f" else share
    share = np.where(share == 0, -1.0, share)  # the elements before the first that has a weight
    last = np.sum(~np.isnan(ordered), axis=0) - 1 if skips_nan else len(values) - 1
    below = np.sum(share < q.reshape(-1, *[1] * values.ndim), axis=1)
    found = np.take_along_axis(order, np.clip(below, 0, np.maximum(last, 0)), 0)
    return found if skips_nan else np.where(np.isnan(ordered[-1:]), order[-1:], found)
