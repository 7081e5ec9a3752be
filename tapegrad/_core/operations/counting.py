"""Elements counted, added up by number, and taken once: `bincount`, `histogram`, `unique`."""

from __future__ import annotations

import numpy as np

from ..tensor.copies import in_dtype, unlisted
from ..tensor.gathering import deposit
from ..tensor.registry import function
from ..tensor.trace import fixed, named, steered, tensor_like
from ..tensor.values import differentiates, value_of
from .shapes import array_tensor, ravel


@function("bincount")
def bincount(x, weights=None, minlength=0):
    """bincount(x, weights, minlength): how often each integer is there, or the sums of weights.

    Recorded weights have the derivative of the sum that they are in; integers have none.

    >>> import tapegrad as tg
    >>> tg.bincount([0, 2, 2], tg.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 5.])
    """
    x, weights = unlisted(x), unlisted(weights)
    if weights is None or not differentiates(weights):
        kwargs = {} if weights is None else {"weights": fixed(weights, "bincount()")}
        made = steered(np.bincount, x, minlength=fixed(minlength, "bincount()"), **kwargs)
        return tensor_like(made, x, weights)
    np.bincount(value_of(x), value_of(weights), value_of(minlength))  # raises NumPy's own errors
    size = int(fixed(steered(_bins, x, minlength), "the length of bincount()"))
    picked = steered(_whole, x)
    return deposit(array_tensor(in_dtype(weights, np.dtype(np.float64))), picked, size)


@named("counting.bins")
def _bins(x, minlength):
    """The length of bincount's result."""
    return max(int(np.max(x, initial=-1)) + 1, int(minlength))


@named("counting.whole")
def _whole(x):
    return np.asarray(x, np.int64)


@function("histogram")
def histogram(a, bins=10, range=None, density=None, weights=None):
    """histogram(a, bins, range, density): how many elements lie between edges; and the edges.

    Counts have no derivative. Edges that would depend on a recorded tensor, and recorded weights,
    raise TypeError: give the edges as `bins`; sums of weights are those of `bincount`.

    >>> import tapegrad as tg
    >>> tg.histogram(tg.tensor([0.1, 0.6, 0.7]), [0.0, 0.5, 1.0])[0]
    tensor([1, 2])
    """
    a, bins, weights = unlisted(a), unlisted(bins), unlisted(weights)
    if differentiates(weights) or differentiates(bins) or differentiates(*_unpacked(range)):
        raise TypeError(
            "tapegrad.histogram: weights, bins or range are recorded, their derivative would be "
            "lost; detach() them, or add weights up with np.bincount(np.digitize(a, bins), weights)"
        )
    if differentiates(a) and range is None and np.ndim(value_of(bins)) == 0:
        raise TypeError(
            "tapegrad.histogram: the edges depend on a recorded tensor, their derivative would be "
            "lost; give the edges as bins, a range, or a.detach()"
        )
    bins, range, weights = (fixed(x, "histogram()") for x in (bins, range, weights))
    made = steered(np.histogram, a, bins=bins, range=range, density=density, weights=weights)
    return tuple([tensor_like(part, a) for part in made])


def _unpacked(range):
    return () if range is None else range


@function("unique")
def unique(
    ar,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    *,
    equal_nan=True,
):
    """unique(ar, return_index, return_inverse, return_counts, axis): each element once, in order.

    Of equal elements the first one has the derivative.

    >>> import tapegrad as tg
    >>> tg.unique(tg.tensor([3.0, 1.0, 3.0]))
    tensor([1., 3.])
    """
    x = unlisted(ar)
    wanted = dict(return_inverse=return_inverse, return_counts=return_counts)
    options = dict(axis=axis, equal_nan=equal_nan)
    if not differentiates(x):
        made = steered(np.unique, x, return_index=return_index, **wanted, **options)
        parts = [tensor_like(part, x) for part in (made if isinstance(made, tuple) else (made,))]
        return tuple(parts) if len(parts) > 1 else parts[0]
    _, index, *others = steered(np.unique, x, return_index=True, **wanted, **options)
    others = [index, *others] if return_index else others
    x = ravel(x) if axis is None else array_tensor(x)
    values = x[index] if axis is None else x[(*[slice(None)] * (axis % x.ndim), index)]
    return (values, *[tensor_like(part, x) for part in others]) if others else values
