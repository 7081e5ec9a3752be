"""Elements inserted and deleted: `insert`, `delete`, `trim_zeros`."""

from __future__ import annotations

import numpy as np

from ..tensor.complex_tensors import holds_tensors
from ..tensor.copies import in_dtype, unlisted
from ..tensor.indexing import gather
from ..tensor.registry import alike, function
from ..tensor.trace import fixed, named, steered, tensor_like
from ..tensor.values import (
    FLOATS,
    differentiates,
    dtype_of,
    is_tensor,
    records,
    shape_of,
    value_of,
    wrap,
)
from .joining import concatenate, grid
from .reductions import axes_of
from .shapes import array_tensor, ravel


def _places(obj, what: str):
    """The places of insertion or deletion; a program keeps them constant."""
    if isinstance(obj, slice):
        parts = (obj.start, obj.stop, obj.step)
        return slice(*[None if p is None else int(fixed(p, what)) for p in parts])
    if type(obj) is int:
        return obj
    found = unlisted(obj)
    return fixed(found, what) if is_tensor(found) else obj


@function("insert")
def insert(arr, obj, values, axis=None):
    """Return a copy with values inserted.

    Parameters
    ----------
    obj : int, slice or array_like of ints or bools
        The positions before which values are inserted.
    values : array_like
        The values, which broadcast and take the dtype of `arr`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.insert(tg.tensor([1.0, 2.0, 3.0]), [1, 2], [10.0, 20.0])
    tensor([ 1., 10.,  2., 20.,  3.])
    """
    arr, values = unlisted(arr), unlisted(values)
    obj = _places(obj, "where insert() puts elements")
    if not differentiates(arr, values):
        return tensor_like(steered(_inserted, arr, values, obj=obj, axis=axis), arr, values)
    dtype = dtype_of(arr)
    if dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.insert: the values are recorded, but the array has dtype {dtype}, which has "
            "no derivative; convert it with astype(float)"
        )
    out = np.insert(value_of(arr), obj, value_of(values), axis)
    count, shape = int(np.prod(shape_of(arr), dtype=np.int64)), shape_of(values)
    picked = np.insert(grid(shape_of(arr)), obj, count + grid(shape), axis)
    elements = concatenate([ravel(arr), in_dtype(_flat(values), dtype)])
    return gather(elements, out, picked)


@named("inserting.inserted")
def _inserted(arr, values, obj, axis):
    return np.insert(arr, obj, values, axis)


def _flat(x):
    return ravel(array_tensor(x) if is_tensor(x) else np.asarray(x))


@function("delete")
def delete(arr, obj, axis=None):
    """Return a copy without some elements or slices.

    Parameters
    ----------
    obj : int, slice or array_like of ints or bools
        What is left out.
    """
    arr = unlisted(arr)
    obj = _places(obj, "what delete() leaves out")
    if not is_tensor(arr):
        return np.delete(arr, obj, axis)
    arr = array_tensor(arr)
    out = np.delete(arr._array, obj, axis)
    if not records(arr):
        return wrap(out)
    return gather(arr, out, np.delete(grid(arr._array.shape), obj, axis))


@function("trim_zeros", complex=alike)
def trim_zeros(filt, trim="fb", axis=None):
    """Return a view without leading and trailing zeros.

    In compiled functions, the number of zeros is a guard.

    Parameters
    ----------
    filt : array_like
        The operand.
    trim : {"f", "b", "fb"}, optional
        Whether zeros are removed at the front, at the back, or both.
    axis : int or tuple of ints, optional
        The axes; by default all.
    """
    filt = unlisted(filt)
    if not holds_tensors(filt):
        return np.trim_zeros(filt, trim, **({} if axis is None else {"axis": axis}))
    letters = trim.lower()
    if letters not in ("fb", "bf", "f", "b"):
        raise ValueError(f"tapegrad.trim_zeros: trim is {trim!r}; it must be 'f', 'b' or 'fb'")
    axes = axes_of("trim_zeros", axis, len(shape_of(filt)))
    if not axes:
        return filt
    bounds = fixed(steered(_bounds, filt != 0.0), "the zeros that trim_zeros() leaves out").tolist()
    if bounds[0][0] >= bounds[1][0]:
        bounds = [[0] * len(shape_of(filt))] * 2
    else:
        bounds[0] = bounds[0] if "f" in letters else [None] * len(bounds[0])
        bounds[1] = bounds[1] if "b" in letters else [None] * len(bounds[1])
    key = [
        slice(*ends) if k in axes else slice(None)
        for k, ends in enumerate(zip(*bounds, strict=True))
    ]
    return filt[tuple(key)]


@named("inserting.bounds")
def _bounds(x):
    """Along each axis the position of the first nonzero element, and the end of the last one."""
    places = np.argwhere(x)
    if not places.size:
        return np.zeros((2, np.ndim(x)), np.int64)
    return np.stack([places.min(axis=0), places.max(axis=0) + 1])
