"""Covariances and correlation coefficients of variables with observations."""

from __future__ import annotations

import warnings

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.trace import fixed, named, steered
from ..tensor.values import differentiates, dtype_of, shape_of
from .einsum import as_tensor
from .joining import concatenate
from .linear_algebra import matmul
from .reductions import average
from .reductions import sum as sum_of
from .shapes import diagonal, reshape, squeeze, transpose
from .unrecorded import unrecorded


@function("cov")
def cov(
    m,
    y=None,
    rowvar=True,
    bias=False,
    ddof=None,
    fweights=None,
    aweights=None,
    *,
    dtype=None,
):
    """Compute the covariance matrix.

    Parameters
    ----------
    m : array_like
        Rows are variables, columns observations.
    y : array_like, optional
        More variables, like `m`.
    rowvar : bool, optional
        If false, columns are variables.
    bias : bool, optional
        If true, `ddof` is 0 by default, else 1.
    fweights : array_like of ints, optional
        The number of times that each observation is counted.
    aweights : array_like, optional
        Weights of the observations, which may be recorded.

    Examples
    --------
    >>> import tapegrad as tg
    >>> import numpy as np
    >>> tg.grad(np.cov)(np.array([1.0, 2.0, 6.0]))
    array([-2., -1.,  3.])
    """
    m, y, fweights, aweights = (unlisted(x) for x in (m, y, fweights, aweights))
    if differentiates(fweights):
        raise TypeError(
            "tapegrad.cov: fweights are recorded, but counts have no derivative; use detach(), or "
            "give aweights"
        )
    if not differentiates(m, y, aweights):
        options = dict(rowvar=rowvar, bias=bias, ddof=ddof, dtype=dtype)
        weights = dict(fweights=fweights, aweights=aweights)
        given = {k: w for k, w in weights.items() if w is not None}
        both = (m,) if y is None else (m, y)
        return unrecorded(np.cov, *both, **options, **given)
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"tapegrad.cov: ddof is {ddof}; it must be a whole number")
    x = _variables(m, y, rowvar, dtype)
    if not shape_of(x)[0]:
        return reshape(x[:, :0], (0, 0))
    ddof = (0 if bias else 1) if ddof is None else ddof
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        _check_weights(x, name, w)
    given = [w for w in (fweights, aweights) if w is not None]
    weights = apply("multiply", given[0], given[-1]) if len(given) > 1 else (given or [None])[0]
    return squeeze(_covariance(x, weights, aweights, ddof))


def _variables(m, y, rowvar, dtype):
    """The variables of both as rows, in the dtype of the result."""
    parts = []
    wide = [np.float64] if dtype is None else []
    kinds = [dtype_of(part) for part in (m, y) if part is not None]
    dtype = np.result_type(*kinds, *wide) if dtype is None else np.dtype(dtype)
    for name, part in (("m", m), ("y", y)):
        if part is None:
            continue
        part = as_tensor("cov", part)
        ndim = len(shape_of(part))
        if ndim > 2:
            raise ValueError(
                f"tapegrad.cov: {name} has shape {shape_of(part)}; it must have at most 2 axes"
            )
        flat = ndim == 1 if name == "m" else ndim < 2 or shape_of(part)[0] == 1
        part = part if ndim == 2 else reshape(part, (1, -1))
        part = part if rowvar or flat else transpose(part)
        parts.append(part.astype(dtype) if dtype_of(part) != dtype else part)
    return parts[0] if len(parts) == 1 else concatenate(parts)


def _check_weights(x, name, weights):
    """Refuse weights that NumPy refuses; a program tests them again."""
    if weights is None:
        return
    if shape_of(weights) != shape_of(x)[1:]:
        raise RuntimeError(
            f"tapegrad.cov: {name} has shape {shape_of(weights)}; it must have one entry for each "
            f"of the {shape_of(x)[1]} observations"
        )
    if fixed(steered(_holds_negative, weights), f"{name} of cov()"):
        raise ValueError(f"tapegrad.cov: {name} holds negative numbers")
    if name == "fweights" and fixed(steered(_holds_fractions, weights), "fweights of cov()"):
        raise TypeError("tapegrad.cov: fweights must be whole numbers; give others as aweights")


@named("covariance.holds_negative")
def _holds_negative(weights):
    return bool(np.any(np.asarray(weights) < 0))


@named("covariance.holds_fractions")
def _holds_fractions(weights):
    return bool(np.any(np.asarray(weights) != np.around(weights)))


def _covariance(x, weights, aweights, ddof):
    """The covariance of rows; `weights` are the products of both kinds."""
    mean, total = average(x, 1, weights, returned=True)
    total = total[0]
    if weights is None:
        divisor = float(shape_of(x)[1] - ddof)
    elif ddof == 0:
        divisor = total
    elif aweights is None:
        divisor = apply("subtract", total, float(ddof))
    else:
        squares = sum_of(apply("multiply", weights, aweights))
        divisor = total - ddof * squares / total
    if fixed(steered(_is_too_small, divisor), "the divisor of cov()"):
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=3)
        divisor = 0.0
    x = apply("subtract", x, mean[:, None])
    weighted = x if weights is None else apply("multiply", x, weights)
    return apply("multiply", matmul(x, transpose(weighted)), apply("divide", 1.0, divisor))


@named("covariance.is_too_small")
def _is_too_small(divisor):
    return bool(divisor <= 0)


@function("corrcoef")
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    """Compute the matrix of correlation coefficients.

    Parameters
    ----------
    x : array_like
        Rows are variables, columns observations.
    y : array_like, optional
        More variables, like `x`.
    rowvar : bool, optional
        If false, columns are variables.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> x = tg.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    >>> np.corrcoef(x)
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    x, y = unlisted(x), unlisted(y)
    if not differentiates(x, y):
        both = (x,) if y is None else (x, y)
        return unrecorded(np.corrcoef, *both, rowvar=rowvar, dtype=dtype)
    c = cov(x, y, rowvar, dtype=dtype)
    if not shape_of(c):
        return apply("divide", c, c)
    deviation = apply("sqrt", diagonal(c))
    c = apply("divide", apply("divide", c, deviation[:, None]), deviation[None, :])
    # Values that rounding moves beyond ±1 are clipped without a change of the derivative.
    return apply("subtract", c, steered(_excess, c))


@named("covariance.excess")
def _excess(c):
    return c - np.clip(c, -1, 1)
