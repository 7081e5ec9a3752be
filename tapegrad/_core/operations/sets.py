"""Arrays as sets: elements once, those of both arrays, of one or the other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..tensor.copies import unlisted
from ..tensor.indexing import elements
from ..tensor.registry import function
from ..tensor.trace import named, of_own_shape, steered, tensor_like
from ..tensor.values import differentiates, dtype_of, is_tensor, tensor_of
from .joining import concatenate
from .shapes import array_tensor, ravel


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
