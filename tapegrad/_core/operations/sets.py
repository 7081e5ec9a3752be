"""Arrays as sets, histograms, counts, covariances and correlation coefficients."""

from __future__ import annotations

import operator
import warnings
from typing import Any, NamedTuple

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import in_dtype, unlisted
from ..tensor.indexing import elements, scatter_add
from ..tensor.registry import function
from ..tensor.trace import fixed, lost_derivative, named, of_own_shape, steered, tensor_like
from ..tensor.values import (
    FLOATS,
    differentiates,
    dtype_of,
    is_recorded,
    is_tensor,
    shape_of,
    tensor_of,
    value_of,
)
from .creation import linspace
from .cumulative import diff
from .einsum import as_tensor
from .joining import concatenate
from .linear_algebra import matmul
from .reductions import average, sum
from .reductions import sum as sum_of
from .shapes import array_tensor, diagonal, ravel, reshape, squeeze, transpose
from .sorting import max as largest_of
from .sorting import min as smallest_of
from .without_derivative import unrecorded

# --- sets -----------------------------------------------------------------------------------------
# Arrays as sets: elements once, those of both arrays, of one or the other.


@function("unique")
def unique(
    ar,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    *,
    equal_nan=True,
    sorted=True,
):
    """Return each element once, in ascending order.

    The derivative belongs to the first of equal elements.

    Parameters
    ----------
    ar : array_like
        The operand.
    return_index, return_inverse, return_counts : bool, optional
        Whether the indices of these elements, the indices that reconstruct the operand, and the
        numbers of equal elements are returned, too.
    axis : int, optional
        The axis whose slices are compared; by default elements are.
    equal_nan : bool, optional
        Whether NaNs count as equal.
    sorted : bool, optional
        As in NumPy.

    Examples
    --------
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


class UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


@function("unique_all")
def unique_all(x):
    """Return each element once, with indices, inverse indices and counts.

    Returns
    -------
    UniqueAllResult
        A named tuple of `values`, `indices`, `inverse_indices` and `counts`.
    """
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


@function("unique_counts")
def unique_counts(x):
    """Return each element once, and how often it occurs.

    Returns
    -------
    UniqueCountsResult
        A named tuple of `values` and `counts`.
    """
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


@function("unique_inverse")
def unique_inverse(x):
    """Return each element once, and the indices that give the operand back.

    Returns
    -------
    UniqueInverseResult
        A named tuple of `values` and `inverse_indices`.
    """
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


@function("unique_values")
def unique_values(x):
    """Return each element once, in ascending order."""
    return unique(x, equal_nan=False)


# --- two arrays -------------------------------------------------------------------------------


def _flat(*arrays):
    return [ravel(unlisted(x)) for x in arrays]


def _picked(x, places):
    """The elements of an array with one axis at places."""
    return elements(array_tensor(x) if is_tensor(x) else x, places)


def _once(values, assume_unique):
    """Places of values, each once, in ascending order."""
    return np.arange(len(values)) if assume_unique else np.unique(values, return_index=True)[1]


@of_own_shape
@named("sets.union")
def _union_places(a, b):
    return _once(np.concatenate([a, b]), False)


@function("union1d")
def union1d(ar1, ar2):
    """Return the elements of either operand, each once, in ascending order.

    The derivative belongs to the first of equal elements.
    """
    ar1, ar2 = _flat(ar1, ar2)
    if not is_tensor(ar1) and not is_tensor(ar2):
        return np.union1d(ar1, ar2)
    return _picked(concatenate([ar1, ar2]), steered(_union_places, ar1, ar2))


@of_own_shape
@named("sets.difference_of_both")
def _either_places(a, b, assume_unique):
    places = np.append(_once(a, assume_unique), len(a) + _once(b, assume_unique))
    values = np.concatenate([a, b])[places]
    order = np.argsort(values, kind="stable")
    values = values[order]
    new = values[1:] != values[:-1]
    alone = np.append(True, new) & np.append(new, True) if len(values) else np.zeros(0, bool)
    return places[order[alone]]


@function("setxor1d")
def setxor1d(ar1, ar2, assume_unique=False):
    """Return the elements of exactly one operand, in ascending order."""
    ar1, ar2 = _flat(ar1, ar2)
    if not is_tensor(ar1) and not is_tensor(ar2):
        return np.setxor1d(ar1, ar2, assume_unique)
    places = steered(_either_places, ar1, ar2, assume_unique=assume_unique)
    return _picked(concatenate([ar1, ar2]), places)


@of_own_shape
@named("sets.difference")
def _other_places(a, b, assume_unique):
    places = _once(a, assume_unique)
    return places[~np.isin(a[places], b, assume_unique=assume_unique)]


@function("setdiff1d")
def setdiff1d(ar1, ar2, assume_unique=False):
    """Return the elements of `ar1` that are not in `ar2`, each once."""
    ar1, ar2 = _flat(ar1, ar2)
    if not is_tensor(ar1) and not is_tensor(ar2):
        return np.setdiff1d(ar1, ar2, assume_unique)
    return tensor_of(_picked(ar1, steered(_other_places, ar1, ar2, assume_unique=assume_unique)))


@of_own_shape
@named("sets.common")
def _common_places(a, b, assume_unique):
    """Places in the first array, and in the second."""
    first, second = _once(a, assume_unique), _once(b, assume_unique)
    _, at, other = np.intersect1d(a[first], b[second], True, return_indices=True)
    return first[at], second[other]


@function("intersect1d")
def intersect1d(ar1, ar2, assume_unique=False, return_indices=False):
    """Return the elements of both operands, in ascending order.

    The derivative belongs to the elements of the first operand, or to those of the second if only
    that is recorded.

    Parameters
    ----------
    return_indices : bool, optional
        Whether the indices of these elements in each operand are returned too.
    """
    ar1, ar2 = _flat(ar1, ar2)
    if not is_tensor(ar1) and not is_tensor(ar2):
        return np.intersect1d(ar1, ar2, assume_unique, return_indices)
    first, second = steered(_common_places, ar1, ar2, assume_unique=assume_unique)
    from_second = differentiates(ar2) and not differentiates(ar1)
    made = _picked(ar2, second) if from_second else _picked(ar1, first)
    dtype = np.result_type(dtype_of(ar1), dtype_of(ar2))
    made = tensor_of(made).astype(dtype, copy=False)
    return (made, tensor_of(first), tensor_of(second)) if return_indices else made


# --- histograms -----------------------------------------------------------------------------------
# Histograms, counts, covariances and correlation coefficients.


# --- Integers counted, and weights summed by integer: `bincount` ----------------------------------


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
    size = int(fixed(steered(_count_of_bins, x, minlength), "the length of bincount()"))
    picked = steered(_whole, x)
    return scatter_add(array_tensor(in_dtype(weights, np.dtype(np.float64))), picked, size)


@named("histograms.count_of_bins")
def _count_of_bins(x, minlength):
    """The length of bincount's result."""
    x = np.asarray(x)
    if x.min(initial=0) < 0:
        np.bincount(x)  # raises NumPy's own error
    return max(int(x.max(initial=-1)) + 1, int(minlength))


@named("histograms.whole")
def _whole(x):
    return np.asarray(x, np.int64)


# --- Histograms: counts have no derivative, sums of weights and edges do --------------------------


# --- edges ------------------------------------------------------------------------------------


def _edges(name: str, x, bins, limits):
    """The edges of bins of numbers without axes of their own; recorded if they depend on values.

    The range as in NumPy: from the least to the largest element, or half a unit around them if
    those are equal.
    """
    if isinstance(bins, str):
        if differentiates(x, *_parts(limits)):
            raise lost_derivative(
                f"tapegrad.{name}: bins={bins!r} chooses edges by the values of a recorded tensor; "
                "give their number or the edges, or x.detach()",
                (x, _parts(limits)),
            )
        return np.histogram_bin_edges(fixed(x, f"{name}()"), bins, _fixed(limits))
    if shape_of(bins):
        return _increasing(name, bins)
    count = operator.index(bins)
    dtype = dtype_of(x) if name != "histogramdd" else np.float64
    sample = x if limits is None else np.empty(0, dtype)
    given = [x] if limits is None else limits
    plain = np.histogram_bin_edges(value_of(sample), count, _plain(limits))  # raises its errors
    if not differentiates(*given) or not value_of(x).size and limits is None:
        return steered(_linear_edges, sample, *_parts(limits), count=count)
    first, last = (smallest_of(x), largest_of(x)) if limits is None else limits
    fixed(steered(_are_ends, first, last), f"the ends of {name}()")  # else NumPy raises
    half = steered(_half_if, steered(operator.eq, first, last))
    first, last = apply("subtract", first, half), apply("add", last, half)
    return linspace(first, last, count + 1, dtype=plain.dtype)


@named("histograms.are_ends")
def _are_ends(first, last):
    return np.isfinite(first) & np.isfinite(last) & (first <= last)


def _parts(limits):
    return () if limits is None else limits


def _fixed(limits):
    return None if limits is None else tuple([fixed(end, "range=") for end in limits])


def _plain(limits):
    return None if limits is None else tuple([value_of(end) for end in limits])


@named("histograms.linear_edges")
def _linear_edges(x, *limits, count):
    return np.histogram_bin_edges(x, count, limits or None)


@named("histograms.half_if")
def _half_if(same):
    return np.where(same, 0.5, 0.0)


def _increasing(name: str, edges):
    np.histogram([], value_of(edges))  # raises NumPy's own errors
    if is_recorded(edges):
        fixed(steered(_is_increasing, edges), f"the order of the edges of {name}()")
    return edges


@named("histograms.is_increasing")
def _is_increasing(edges):
    return not np.any(edges[:-1] > edges[1:])


# --- sums of bins -----------------------------------------------------------------------------


@named("histograms.bins")
def _bins(*arrays):
    """The bin of each point, as one number; points outside of all bins come after the last."""
    half = len(arrays) // 2
    number, outside, count = 0, False, 1
    for x, edges in zip(arrays[:half], arrays[half:], strict=True):
        n = len(edges) - 1
        place = np.searchsorted(edges, x, side="right") - 1
        place = np.where(x == edges[-1], n - 1, place)
        outside |= (place < 0) | (place >= n) | (x != x)
        number, count = number * n + place, count * n
    return np.where(outside, count, number)


@named("histograms.counts")
def _counts(bins, size):
    return np.bincount(bins, minlength=size + 1)[:-1]


def _totals(name: str, samples, edges, weights):
    """The number of points in each bin, or the sums of their weights; bins along one axis."""
    size = int(np.prod([shape_of(e)[0] - 1 for e in edges]))
    bins = steered(_bins, *samples, *edges)
    if weights is None:
        return steered(_counts, bins, size=size)
    if shape_of(weights) != shape_of(samples[0]):
        raise ValueError(
            f"tapegrad.{name}: weights have shape {shape_of(weights)} and the points "
            f"{shape_of(samples[0])}; they must be equal"
        )
    if not differentiates(weights):
        return steered(_weight_sums, bins, weights, size=size)
    return scatter_add(array_tensor(weights), bins, size + 1)[:-1]


@named("histograms.weight_sums")
def _weight_sums(bins, weights, size):
    sums = np.bincount(bins, weights, size + 1)[:-1]
    return sums.astype(np.result_type(weights)) if np.result_type(weights).kind != "b" else sums


def _density(totals, edges):
    """Totals per size of the bins, which sum up to 1."""
    whole = sum(totals)
    for k, one in enumerate(edges):
        shape = [-1 if k == axis else 1 for axis in range(len(edges))]
        totals = apply("divide", totals, reshape(_in_float(diff(one)), shape))
    return apply("divide", totals, whole)


def _in_float(x):
    return x if dtype_of(x) in FLOATS else in_dtype(x, np.dtype(np.float64))


def _none_recorded(*operands) -> bool:
    return not any([is_tensor(x) for x in operands])


@function("histogram")
def histogram(a, bins=10, range=None, density=None, weights=None):
    """Count how many elements lie in each bin, or sum their weights.

    Counts have no derivative. Sums of recorded weights, edges that depend on a recorded operand,
    and densities computed from such edges have one.

    Returns
    -------
    tuple of Tensor or ndarray
        The counts, or sums, and the edges of the bins.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.histogram(tg.tensor([0.1, 0.6, 0.7]), [0.0, 0.5, 1.0])[0]
    tensor([1, 2])
    """
    a, bins, weights = unlisted(a), unlisted(bins), unlisted(weights)
    if _none_recorded(a, bins, weights, *_parts(range)):
        return np.histogram(a, bins, range, density, weights)
    if isinstance(bins, str) and weights is not None:
        raise TypeError(
            f"tapegrad.histogram: bins={bins!r} does not support weights; give the number of bins"
        )
    flat = ravel(a)
    edges = _edges("histogram", flat, bins, range)
    weights = None if weights is None else ravel(weights)
    totals = _totals("histogram", [flat], [edges], weights)
    if density:
        totals = _density(totals, [edges])
    return tensor_of(totals), tensor_of(edges)


@function("histogram_bin_edges")
def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """Compute the edges of the bins of `histogram`.

    They have the derivatives of the extremes of the operand, or of `range`.
    """
    a, bins = unlisted(a), unlisted(bins)
    if _none_recorded(a, bins, *_parts(range)):
        return np.histogram_bin_edges(a, bins, range, value_of(weights))
    return tensor_of(_edges("histogram_bin_edges", ravel(a), bins, range))


@function("histogramdd")
def histogramdd(sample, bins=10, range=None, density=None, weights=None):
    """Count points with several coordinates in bins.

    Derivatives are as those of `histogram`.

    Parameters
    ----------
    sample : array_like or list of array_like
        A row for each point, or a list of coordinates.

    Returns
    -------
    tuple
        The counts, with an axis for each coordinate, and a tuple of the edges along each axis.
    """
    columns = _columns(sample)
    bins = [unlisted(b) for b in bins] if _has_length(bins) else [bins] * len(columns)
    limits = [None] * len(columns) if range is None else range
    if len(bins) != len(columns) or len(limits) != len(columns):
        raise ValueError(
            f"tapegrad.histogramdd: there are {len(columns)} coordinates, {len(bins)} bins and "
            f"{len(limits)} ranges; give one for each"
        )
    given = zip(columns, bins, limits, strict=True)
    edges = [_edges("histogramdd", x, one, ends) for x, one, ends in given]
    weights = None if weights is None else in_dtype(ravel(weights), np.dtype(np.float64))
    totals = _totals("histogramdd", columns, edges, weights)
    totals = reshape(totals, [shape_of(one)[0] - 1 for one in edges])
    made = _density(totals, edges) if density else _in_float(totals)
    return tensor_of(made), tuple([tensor_of(one) for one in edges])


def _has_length(bins) -> bool:
    return isinstance(bins, (list, tuple)) or bool(shape_of(bins))


def _columns(sample):
    if isinstance(sample, (list, tuple)):
        columns = [unlisted(x) for x in sample]
        shapes = {shape_of(x) for x in columns}
        if len(shapes) != 1 or len(shapes.pop()) > 1:
            raise ValueError("tapegrad.histogramdd: the coordinates must have one axis of a length")
        return [ravel(x) for x in columns]
    sample = sample if is_tensor(sample) else np.asarray(sample)
    if len(shape_of(sample)) == 1:
        return [sample]
    return [sample[:, k] for k in np.arange(shape_of(sample)[1])]


@function("histogram2d")
def histogram2d(x, y, bins=10, range=None, density=None, weights=None):
    """Count points of a plane in rectangular bins.

    Derivatives are as those of `histogram`.

    Parameters
    ----------
    x, y : array_like
        The coordinates of the points.

    Returns
    -------
    tuple of Tensor or ndarray
        The counts, and the edges along x and y.
    """
    if len(x) != len(y):
        raise ValueError(
            f"tapegrad.histogram2d: x has length {len(x)} and y {len(y)}; they must be equal"
        )
    if _has_length(bins) and len(bins) not in (1, 2):
        bins = [unlisted(bins)] * 2
    totals, (along_x, along_y) = histogramdd([x, y], bins, range, density, weights)
    return totals, along_x, along_y


# --- Covariances and correlation coefficients of variables with observations ----------------------


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


@named("histograms.holds_negative")
def _holds_negative(weights):
    return bool(np.any(np.asarray(weights) < 0))


@named("histograms.holds_fractions")
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


@named("histograms.is_too_small")
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


@named("histograms.excess")
def _excess(c):
    return c - np.clip(c, -1, 1)
