"""Functions that write to their first argument: `put`, `place`, `copyto`, `fill_diagonal`."""

from __future__ import annotations

import numpy as np

from ..tensor.apply import apply
from ..tensor.conversions import written
from ..tensor.copies import unlisted
from ..tensor.indexing import set_item
from ..tensor.registry import function
from ..tensor.trace import fixed, named, steered
from ..tensor.values import differentiates, dtype_of, is_recorded, is_tensor, shape_of, value_of
from .shapes import ravel
from .sorting import take


def _plain(name: str, target, *values):
    """The values written to a plain array, or their places; a program guards them."""
    if not isinstance(target, np.ndarray):
        raise TypeError(
            f"tapegrad.{name}: the first argument is of type {type(target).__name__}; it must be a "
            "tensor, which is written in place"
        )
    if any([differentiates(x) for x in values]):
        raise written(values, f".{name}")
    return [fixed(x, f"{name}() of a plain array") for x in values]


def _write_at(target, flat, values) -> None:
    """Write to positions in C order."""
    if not shape_of(target):
        set_item(target, ..., values[-1])
        return
    found = steered(np.unravel_index, flat, shape=shape_of(target))
    set_item(target, tuple(found), values)


def _size(x) -> int:
    return int(np.prod(shape_of(x), dtype=np.int64))


@function("put", method="put")
def put(a, ind, v, mode="raise"):
    """Write values in place at positions of the flattened tensor.

    Parameters
    ----------
    a : Tensor
        The tensor that is written.
    ind : array_like of ints
        The positions. If one occurs more than once, its last value counts.
    v : array_like
        The values, which are repeated as often as needed.
    mode : {"raise", "wrap", "clip"}, optional
                How positions out of range are treated.

    Returns
    -------
    None
    """
    is_typed = isinstance(ind, np.ndarray) or is_tensor(ind)
    ind, v = unlisted(ind), unlisted(v)
    if not is_tensor(a):
        np.put(a, *_plain("put", a, ind, v), mode)
        return
    if is_typed and dtype_of(ind).kind not in "biu":
        raise TypeError(
            f"tapegrad.put: the positions have dtype {dtype_of(ind)}; they must be integers: "
            "convert them with astype(int)"
        )
    flat = steered(_positions, ind, size=_size(a), mode=mode)
    if _size(flat) and _size(v):
        _write_at(a, flat, _cycled(v, _size(flat)))


@named("inplace_functions.positions")
def _positions(ind, size, mode):
    """Positions that are not negative, each once: the last of equal ones is written."""
    return np.take(np.arange(size), np.ravel(np.asarray(ind).astype(np.intp)), mode=mode)


def _cycled(values, count: int):
    """The elements in order, repeated up to a number."""
    size = _size(values)
    flat = ravel(values) if is_tensor(values) else np.ravel(values)
    return flat if size == count else take(flat, np.arange(count) % size)


@function("place")
def place(arr, mask, vals):
    """Write the first values in place, where a mask is true.

    `copyto` instead writes the values that are at the positions of the mask.

    Parameters
    ----------
    arr : Tensor
        The tensor that is written.
    vals : array_like
        The values, which are repeated as often as needed.

    Returns
    -------
    None
    """
    mask, vals = unlisted(mask), unlisted(vals)
    if not is_tensor(arr):
        np.place(arr, *_plain("place", arr, mask, vals))
        return
    if _size(mask) != _size(arr):
        raise ValueError(
            f"tapegrad.place: the mask has {_size(mask)} elements and the tensor {_size(arr)}; "
            "they must be equal"
        )
    flat = steered(np.flatnonzero, mask)
    if not _size(flat):
        return
    if not _size(vals):
        raise ValueError("tapegrad.place: there are no values to write; give at least one")
    _write_at(arr, flat, _cycled(vals, _size(flat)))


@function("putmask")
def putmask(a, mask, values):
    """Write values in place, at the places of a mask.

    Parameters
    ----------
    a : Tensor
        The tensor that is written.
    values : array_like
        The values; if there are fewer than `a` has elements, they are repeated over all positions
        of `a`.

    Returns
    -------
    None
    """
    is_array = isinstance(values, np.ndarray) or (is_tensor(values) and shape_of(values) != ())
    mask, values = unlisted(mask), unlisted(values)
    if not is_tensor(a):
        np.putmask(a, *_plain("putmask", a, mask, values))
        return
    if _size(mask) != _size(a):
        raise ValueError(
            f"tapegrad.putmask: the mask has {_size(mask)} elements and the tensor {_size(a)}; "
            "they must be equal"
        )
    if is_array:  # NumPy converts numbers and lists
        _check_casting("putmask", values, a, "safe")
    if not _size(a) or not _size(values):
        return
    shape = shape_of(a)
    wide = _cycled(values, _size(a)).reshape(shape)
    if not is_recorded(wide):  # NumPy casts the values, of any kind
        wide = np.asarray(value_of(wide)).astype(dtype_of(a))
    _write_where(a, steered(_mask, mask, shape=shape), wide)


@named("inplace_functions.mask")
def _mask(mask, shape):
    return np.reshape(np.asarray(mask, bool), shape)


@named("inplace_functions.spread")
def _spread(mask, shape):
    return np.broadcast_to(np.asarray(mask, bool), shape)


def _write_where(target, mask, values) -> None:
    """Write where a mask holds; the rows do not depend on the mask."""
    mask = mask if is_recorded(mask) else np.asarray(value_of(mask))
    set_item(target, ..., apply("where", mask, values, target.copy()))


@function("copyto")
def copyto(dst, src, casting="same_kind", where=True):
    """Write values in place, where a mask holds.

    Parameters
    ----------
    dst : Tensor
        The tensor that is written.
    src : array_like
        The values, which broadcast to it.
    where : array_like of bool, optional
        Where values are written.

    Returns
    -------
    None

    Raises
    ------
    TypeError
        If `casting` does not allow the conversion to the dtype of `dst`.
    """
    src, where = unlisted(src), unlisted(where)
    if not is_tensor(dst):
        src, where = _plain("copyto", dst, src, where)
        np.copyto(dst, src, casting, where)
        return
    _check_casting("copyto", src, dst, casting)
    if where is True:
        set_item(dst, ..., src)
        return
    np.broadcast_to(np.empty(shape_of(src), bool), shape_of(dst))  # raises NumPy's own error
    _write_where(dst, steered(_spread, where, shape=shape_of(dst)), src)


def _check_casting(name: str, source, target, casting) -> None:
    value = value_of(source)
    if isinstance(value, (bool, int, float)):  # Python numbers fit into any dtype of their kind
        np.copyto(np.empty((), dtype_of(target)), value, casting)
    elif not np.can_cast(dtype_of(source), dtype_of(target), casting):
        raise TypeError(
            f"tapegrad.{name}: values of dtype {dtype_of(source)} cannot be written to dtype "
            f"{dtype_of(target)} with casting={casting!r}; convert one of them with astype"
        )


@function("put_along_axis")
def put_along_axis(arr, indices, values, axis):
    """Write values in place, at indices that match along an axis.

    It is the counterpart of `take_along_axis`.

    Parameters
    ----------
    arr : Tensor
        The tensor that is written.
    axis : int
        The axis.

    Returns
    -------
    None
    """
    indices, values = unlisted(indices), unlisted(values)
    if not is_tensor(arr):
        np.put_along_axis(arr, *_plain("put_along_axis", arr, indices, values), axis)
        return
    if axis is None:
        raise TypeError(
            "tapegrad.put_along_axis: with axis=None NumPy writes to a copy, and nothing is "
            "changed; use np.put(arr, indices, values)"
        )
    flat = steered(_along, indices, shape=shape_of(arr), axis=axis)
    found = steered(np.unravel_index, flat, shape=shape_of(arr))
    set_item(arr, tuple(found), values)


@named("inplace_functions.along")
def _along(indices, shape, axis):
    places = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    return np.take_along_axis(places, indices, axis)


@function("fill_diagonal")
def fill_diagonal(a, val, wrap=False):
    """Fill the main diagonal of a tensor in place.

    Parameters
    ----------
    a : Tensor
        The tensor that is written, with at least two axes.
    val : array_like
        The values, which are repeated along the diagonal.
    wrap : bool, optional
        Whether the diagonal of a tall matrix wraps around.

    Returns
    -------
    None
    """
    val = unlisted(val)
    if not is_tensor(a):
        np.fill_diagonal(a, *_plain("fill_diagonal", a, val), wrap)
        return
    shape = shape_of(a)
    if len(shape) < 2:
        raise ValueError(
            f"tapegrad.fill_diagonal: the tensor has shape {shape}; it needs two axes or more"
        )
    end, step = None, 1 + sum(int(np.prod(shape[k:], dtype=np.int64)) for k in range(1, len(shape)))
    if len(shape) == 2:
        end = None if wrap else shape[1] ** 2
    elif len(set(shape)) > 1:
        raise ValueError(
            f"tapegrad.fill_diagonal: the tensor has shape {shape}; more than two axes must be of "
            "equal length"
        )
    flat = np.arange(_size(a))[:end:step]
    if len(flat):
        _write_at(a, flat, _cycled(val, len(flat)))
