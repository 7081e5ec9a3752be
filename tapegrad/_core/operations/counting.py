"""Integers counted, and weights summed by integer: `bincount`."""

from __future__ import annotations

import numpy as np

from ..tensor.copies import in_dtype, unlisted
from ..tensor.indexing import scatter_add
from ..tensor.registry import function
from ..tensor.trace import fixed, named, steered, tensor_like
from ..tensor.values import differentiates, value_of
from .shapes import array_tensor


@function("bincount")
def bincount(x, weights=None, minlength=0):
    """Count the occurrences of each integer, or sum weights by integer.

    Parameters
    ----------
    x : array_like of ints
        The integers.
    minlength : int, optional
        The smallest length of the result.

    Examples
    --------
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
    return scatter_add(array_tensor(in_dtype(weights, np.dtype(np.float64))), picked, size)


@named("counting.bins")
def _bins(x, minlength):
    """The length of bincount's result."""
    x = np.asarray(x)
    if x.min(initial=0) < 0:
        np.bincount(x)  # raises NumPy's own error
    return max(int(x.max(initial=-1)) + 1, int(minlength))


@named("counting.whole")
def _whole(x):
    return np.asarray(x, np.int64)
