"""Convolution and correlation of vectors, as products with the matrix of sliding windows."""

from __future__ import annotations

import math

import numpy as np

from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.values import differentiates, shape_of, value_of
from .einsum import as_tensor, shown
from .joining import concatenate
from .linear_algebra import matmul
from .reductions import sum as sum_of
from .shapes import reshape, sliding_window_view, transpose
from .unrecorded import unrecorded

#: Up to this many weights each result is one product of a window with all of them.
_FEW = 32
_MODES = ("full", "same", "valid")


def _valid(a, v):
    """The sums of a[k + j] · v[j] over j, for all k for which v lies within a.

    Many weights are cut into rows of B: the products of each row with all windows of B elements are
    one product of matrices, of which shifted rows are added. It needs √m times the memory of `a`,
    not m times, and BLAS does all of the work.
    """
    n, m = shape_of(a)[0], shape_of(v)[0]
    if m <= _FEW:
        return matmul(sliding_window_view(a, m), v)
    width = math.isqrt(m)
    rows = -(-m // width)
    rest = np.zeros(rows * width - m)
    if len(rest):
        a, v = concatenate([a, _like(rest, a)]), concatenate([v, _like(rest, v)])
    windows = sliding_window_view(a, width)
    products = matmul(reshape(v, (rows, width)), transpose(windows))
    values = value_of(products)
    down, along = values.strides
    shape, strides = (rows, n - m + 1), (down + width * along, along)
    shifted = np.lib.stride_tricks.as_strided(values, shape, strides)
    return sum_of(shown(products, shifted), 0)


def _like(array, x):
    """An array in the dtype of another."""
    return array.astype(np.asarray(value_of(x)).dtype)


def _padded(a, left, right):
    ends = [_like(np.zeros(n), a) for n in (left, right)]
    return concatenate([ends[0], a, ends[1]]) if left or right else a


def _correlated(a, v, mode):
    """The correlation of `a` with v, which is not longer."""
    m = shape_of(v)[0]
    left = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    right = {"full": m - 1, "same": m - m // 2 - 1, "valid": 0}[mode]
    return _valid(_padded(a, left, right), v)


def _check(name, a, v, mode):
    if mode not in _MODES:
        raise ValueError(f"tapegrad.{name}: mode is {mode!r}; it must be 'full', 'same' or 'valid'")
    for operand in (a, v):
        if len(shape_of(operand)) != 1 or not shape_of(operand)[0]:
            raise ValueError(
                f"tapegrad.{name}: an operand has shape {shape_of(operand)}; it must be a vector "
                "of at least one element"
            )


@function("convolve")
def convolve(a, v, mode="full"):
    """Compute the discrete convolution of two vectors: the sums of a[i] · v[k − i].

    Parameters
    ----------
    mode : {"full", "same", "valid"}, optional
        Whether the result has all sums ("full"), as many as the longer vector ("same"), or those
        for which one vector lies within the other ("valid").

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda v: np.convolve([1.0, 2.0, 3.0], v)[1])(np.array([0.0, 1.0]))
    array([2., 1.])
    """
    a, v = unlisted(a), unlisted(v)
    if not differentiates(a, v):
        return unrecorded(np.convolve, a, v, mode=mode)
    a, v = (_vector("convolve", x) for x in (a, v))
    _check("convolve", a, v, mode)
    if shape_of(v)[0] > shape_of(a)[0]:
        a, v = v, a
    return _correlated(a, v[::-1], mode)


@function("correlate")
def correlate(a, v, mode="valid"):
    """Compute the cross-correlation of two vectors: the sums of a[k + i] · v[i].

    Parameters
    ----------
    mode : {"valid", "same", "full"}, optional
        Which sums the result has, as in `convolve`.
    """
    a, v = unlisted(a), unlisted(v)
    if not differentiates(a, v):
        return unrecorded(np.correlate, a, v, mode=mode)
    a, v = as_tensor("correlate", a), as_tensor("correlate", v)
    _check("correlate", a, v, mode)
    if shape_of(v)[0] > shape_of(a)[0]:
        return _correlated(v, a, mode)[::-1]
    return _correlated(a, v, mode)


def _vector(name, x):
    """A number as a vector of one element."""
    x = as_tensor(name, x)
    return x if shape_of(x) else reshape(x, (1,))
