"""Quantiles and percentiles in all methods of NumPy, and the positions that they are made of."""

from __future__ import annotations

import warnings

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.operators import written_to
from ..tensor.registry import function
from ..tensor.runtime import silence
from ..tensor.trace import fixed, named, of_each, steered
from ..tensor.values import differentiates, dtype_of, is_tensor, shape_of, value_of
from .joining import checked_axis
from .nan_reductions import lines_first
from .reductions import axes_of, kept_shape
from .shapes import ravel, reshape
from .sorting import at_ranks, refuse_order, take_along_axis
from .without_derivative import unrecorded

# --- quantile places ------------------------------------------------------------------------------
# Positions of quantiles: elements and distances, without derivative, for all methods of NumPy.
#
# The methods are those of Hyndman and Fan, Sample Quantiles in Statistical Packages, The American
# Statistician 50 (1996), 361-365, and NumPy's own.

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
def distance_between(n, q, method, dtype, ndim):
    """The distance of a quantile from the nearer of its two elements, in units of their distance.

    Negative where it is below the nearer one, as NumPy computes it. `ndim` counts the axes, of
    which q are along the first; `n` is a number or has the others.
    """
    fraction = _fraction(np.asarray(place_of(n, _column(np.asarray(q), ndim), method)), method)
    return np.where(fraction >= 0.5, -(1 - fraction), fraction).astype(dtype)


@named("quantiles.nearer")
def nearer_place(place):
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


# --- quantiles ------------------------------------------------------------------------------------
# Quantiles and percentiles in all methods of NumPy, with and without NaN; and `partition`.
#
# The elements between which a quantile lies are found by their positions, at each call of a program
# again; the quantile is computed from them by subtraction, multiplication and addition.


def _quantile(name, a, q, *, axis, out, method, keepdims, weights):
    """One of the four functions; the name says whether NaN is skipped and q is in percent."""
    x, given, weights = unlisted(a), unlisted(q), unlisted(weights)
    weak, percent = type(q) in (int, float), name.endswith("percentile")
    by_q = method in CONTINUOUS and weights is None and differentiates(given)
    if not (differentiates(x) or by_q) or 0 in shape_of(x):
        options = dict(axis=axis, method=method, keepdims=keepdims)
        options |= {} if weights is None else {"weights": weights}
        return written_to(name, unrecorded(getattr(np, name), x, given, **options), out)
    _check(name, method, given, weights)
    q = given if is_tensor(given) else np.asarray(given)
    q = apply("divide", q, 100.0) if percent else q
    if not fixed(steered(is_valid, q), f"q of {name}()"):
        raise ValueError(
            f"tapegrad.{name}: q is {value_of(given)}; it must lie in [0, {100 if percent else 1}]"
        )
    axes = axes_of(name, axis, len(shape_of(x)))
    flat, rest = _lines(x, axes)
    skips_nan = name.startswith("nan")
    if weights is None:
        made = _between(flat, q, method, skips_nan, weak)
    else:
        wide = _lines(_weights_like(name, x, weights, axis), axes)[0]
        made = _weighted(name, flat, wide, q, skips_nan)
    made = _without_empty(flat, made) if skips_nan else made
    kept = kept_shape(shape_of(x), axes) if keepdims else rest
    return written_to(name, reshape(made, (*shape_of(q), *kept)), out)


def _lines(x, axes):
    """x with `axes` together as its first axis, and the shape of the others."""
    if not axes:
        return reshape(x, (1, *shape_of(x))), shape_of(x)
    return lines_first(x, axes)


def _check(name, method, q, weights):
    if method not in METHODS:
        raise ValueError(
            f"tapegrad.{name}: method is {method!r}; it must be one of {', '.join(METHODS)}"
        )
    if len(shape_of(q)) > 2:
        raise ValueError(f"tapegrad.{name}: q has shape {shape_of(q)}; it must be a number or 1d")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"tapegrad.{name}: method {method!r} takes no weights; use inverted_cdf")


def _between(flat, q, method, skips_nan, weak):
    """Quantiles along the first axis, of shape (size of q, …)."""
    kind, ndim = dtype_of(q), len(shape_of(flat))
    if method == "linear" and kind.kind in "biu":
        method = "nearest"  # the first or the last element, never a value between infinities
    picked = steered(positions, flat, q, method=method, skips_nan=skips_nan)
    picked = take_along_axis(flat, picked, 0)
    if method in ELEMENTS:
        return picked
    count = int(np.size(value_of(q)))
    below, above, nearer = (picked[k * count : (k + 1) * count] for k in range(3))
    kind = kind if kind.kind == "f" else np.dtype(np.float64)
    n = steered(numbers, flat, dtype=kind) if skips_nan else shape_of(flat)[0]
    if method in CONTINUOUS and differentiates(q):
        place = place_of(n, reshape(q, (-1, *[1] * (ndim - 1))), method)
        distance = apply("subtract", place, steered(nearer_place, place))
        step = apply("multiply", apply("subtract", above, below), distance)
    else:
        kind = dtype_of(flat) if weak else kind
        distance = steered(distance_between, n, q, method=method, dtype=kind, ndim=ndim)
        step = apply("masked", apply("subtract", above, below), distance)
    return apply("add", nearer, step)


def _weights_like(name, x, weights, axis):
    """Weights in the shape of x."""
    shape, given = shape_of(x), shape_of(weights)
    if given == shape:
        return weights
    if axis is None:
        raise TypeError(
            f"tapegrad.{name}: weights have shape {given}, but the tensor {shape}; pass axis="
        )
    axes = tuple(k % len(shape) for k in (axis if isinstance(axis, tuple) else (axis,)))
    if given != tuple(shape[k] for k in axes):
        raise ValueError(
            f"tapegrad.{name}: weights have shape {given} and the reduced axes "
            f"{tuple(shape[k] for k in axes)}; they must be equal"
        )
    return steered(spread, weights, shape=shape, axes=axes)


def _weighted(name, flat, weights, q, skips_nan):
    """Elements at which the share of the weights reaches q; weights and q have derivative 0."""
    bad = fixed(steered(bad_weights, flat, weights, skips_nan=skips_nan), f"{name}()")
    if bad:
        what = "a weight is negative" if bad == 1 else "weights include NaN, inf or are all zero"
        raise ValueError(f"tapegrad.{name}: {what}; give weights with a positive sum")
    found = steered(weighted_positions, flat, weights, q, skips_nan=skips_nan)
    return take_along_axis(flat, found, 0)


def _without_empty(flat, made):
    """NaN, without derivative and with NumPy's warning, where all elements are NaN."""
    empty = steered(_is_empty, flat)
    if np.any(value_of(empty)):
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=4)
    return apply("where", empty, np.nan, made)


@named("quantiles.is_empty")
def _is_empty(values):
    return np.all(np.isnan(values), axis=0)


def _function(name: str, doc: str):
    """One of the four, which differ in how `q` is counted and whether NaN is left out."""

    def of_order(
        a,
        q,
        axis=None,
        out=None,
        overwrite_input=False,
        method="linear",
        keepdims=False,
        *,
        weights=None,
    ):
        options = dict(axis=axis, method=method, keepdims=keepdims, weights=weights)
        return _quantile(name, a, q, out=out, **options)

    of_order.__name__ = name
    of_order.__doc__ = doc
    return function(name)(of_order)


quantile = _function(
    "quantile",
    """Compute quantiles.

    Where an element is NaN the quantile is NaN.

    Parameters
    ----------
    q : array_like
        The order of the quantile, one number or several, in [0, 1]. It may be recorded.
    weights : array_like, optional
        Weights of the elements, for the method "inverted_cdf". They have derivative 0.

    Notes
    -----
    The first of equal elements have the derivative. The derivative with respect to `q` is the slope
    between two elements for methods that interpolate ("linear", "hazen", "weibull", …), else 0.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: np.quantile(x, 0.25))(np.array([3.0, 1.0, 2.0]))
    array([0. , 0.5, 0.5])
    """,
)
percentile = _function("percentile", "Compute quantiles of orders `q` in percent; see `quantile`.")
nanquantile = _function(
    "nanquantile",
    """Compute quantiles of the elements that are not NaN; see `quantile`.

    If there are no such elements, the result is NaN, with NumPy's RuntimeWarning.
    """,
)
nanpercentile = _function(
    "nanpercentile",
    "Compute quantiles of the elements that are not NaN, of orders `q` in percent; see `quantile`.",
)


@function("partition")
def partition(a, kth, axis=-1, kind="introselect", order=None):
    """Return a copy in which some elements are where sorting would put them.

    Smaller elements are before them and larger ones after them, as in NumPy. The derivative of each
    element of the result is passed to the corresponding element of the operand.

    Parameters
    ----------
    kth : int or sequence of ints
        The positions at which the elements of the sorted operand are placed.
    order : None, optional
        Must be None: it applies to structured arrays only.
    """
    refuse_order("partition", order)
    x = unlisted(a)
    kth = fixed(unlisted(kth), "kth of partition()")
    if not differentiates(x):
        return unrecorded(np.partition, x, kth=kth, axis=axis)
    if axis is None:
        x, axis = ravel(x), -1
    axis = checked_axis("partition", axis, len(shape_of(x)))
    found = steered(np.argpartition, x, kth, axis)
    return take_along_axis(x, found, axis)
