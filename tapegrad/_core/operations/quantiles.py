"""Quantiles and percentiles in all methods of NumPy, with and without NaN; and `partition`.

The elements between which a quantile lies are found by their positions, at each call of a program
again; the quantile is computed from them by subtraction, multiplication and addition.
"""

from __future__ import annotations

import warnings

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.operators import written_to
from ..tensor.registry import function
from ..tensor.trace import fixed, named, steered
from ..tensor.values import differentiates, dtype_of, is_tensor, shape_of, value_of
from . import quantile_places as places
from .joining import checked_axis
from .nan_reductions import lines_first
from .reductions import axes_of, kept_shape
from .shapes import ravel, reshape
from .sorting import refuse_order, take_along_axis
from .without_derivative import unrecorded


def _quantile(name, a, q, *, axis, out, method, keepdims, weights):
    """One of the four functions; the name says whether NaN is skipped and q is in percent."""
    x, given, weights = unlisted(a), unlisted(q), unlisted(weights)
    weak, percent = type(q) in (int, float), name.endswith("percentile")
    by_q = method in places.CONTINUOUS and weights is None and differentiates(given)
    if not (differentiates(x) or by_q) or 0 in shape_of(x):
        options = dict(axis=axis, method=method, keepdims=keepdims)
        options |= {} if weights is None else {"weights": weights}
        return written_to(name, unrecorded(getattr(np, name), x, given, **options), out)
    _check(name, method, given, weights)
    q = given if is_tensor(given) else np.asarray(given)
    q = apply("divide", q, 100.0) if percent else q
    if not fixed(steered(places.is_valid, q), f"q of {name}()"):
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
    if method not in places.METHODS:
        raise ValueError(
            f"tapegrad.{name}: method is {method!r}; it must be one of {', '.join(places.METHODS)}"
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
    picked = steered(places.positions, flat, q, method=method, skips_nan=skips_nan)
    picked = take_along_axis(flat, picked, 0)
    if method in places.ELEMENTS:
        return picked
    count = int(np.size(value_of(q)))
    below, above, nearer = (picked[k * count : (k + 1) * count] for k in range(3))
    kind = kind if kind.kind == "f" else np.dtype(np.float64)
    n = steered(places.numbers, flat, dtype=kind) if skips_nan else shape_of(flat)[0]
    if method in places.CONTINUOUS and differentiates(q):
        place = places.place_of(n, reshape(q, (-1, *[1] * (ndim - 1))), method)
        distance = apply("subtract", place, steered(places.nearer, place))
        step = apply("multiply", apply("subtract", above, below), distance)
    else:
        kind = dtype_of(flat) if weak else kind
        distance = steered(places.distance, n, q, method=method, dtype=kind, ndim=ndim)
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
    return steered(places.spread, weights, shape=shape, axes=axes)


def _weighted(name, flat, weights, q, skips_nan):
    """Elements at which the share of the weights reaches q; weights and q have derivative 0."""
    bad = fixed(steered(places.bad_weights, flat, weights, skips_nan=skips_nan), f"{name}()")
    if bad:
        what = "a weight is negative" if bad == 1 else "weights include NaN, inf or are all zero"
        raise ValueError(f"tapegrad.{name}: {what}; give weights with a positive sum")
    found = steered(places.weighted_positions, flat, weights, q, skips_nan=skips_nan)
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
