"""Arrays extended: grids and blocks, elements inserted, deleted and padded."""

from __future__ import annotations

import operator

import numpy as np

from ..tensor.copies import in_dtype, link, unlisted
from ..tensor.indexing import gather
from ..tensor.registry import PUBLIC, alike, function
from ..tensor.trace import fixed, lost_derivative, named, steered, steering_tensor, tensor_like
from ..tensor.values import (
    FLOATS,
    differentiates,
    dtype_of,
    holds_tensors,
    is_recorded,
    is_tensor,
    records,
    shape_of,
    value_of,
    wrap,
)
from .creation import linspace
from .joining import concatenate, grid
from .reductions import axes_of
from .shapes import (
    array_tensor,
    atleast_1d,
    broadcast_arrays,
    broadcast_to,
    moveaxis,
    ravel,
    reshape,
)

# --- Grids and blocks: `meshgrid`, `ix_`, `block`, and tensors repeated to a shape ----------------


def _as_array_tensor(x):
    x = unlisted(x)
    return array_tensor(x) if is_tensor(x) else wrap(np.asarray(x))


@function("meshgrid")
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    """Make the coordinates of a grid from those along each axis.

    Parameters
    ----------
    *xi : array_like
        The coordinates along each axis.
    copy : bool, optional
        If false, the results are views that cannot be written.
    sparse : bool, optional
        If true, axes along which a coordinate is constant have length 1.
    indexing : {"xy", "ij"}, optional
        "ij": axes in the order of the arguments; "xy": the first two are exchanged.

    Returns
    -------
    tuple of Tensor or ndarray
        A grid for each argument.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.meshgrid(tg.tensor([1.0, 2.0]), [3.0, 4.0, 5.0])[0]
    tensor([[1., 2.],
            [1., 2.],
            [1., 2.]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"tapegrad.meshgrid: indexing is {indexing!r}; it must be 'xy' or 'ij'")
    xs = [unlisted(x) for x in xi]
    if not any(map(is_tensor, xs)):
        return np.meshgrid(*xs, copy=copy, sparse=sparse, indexing=indexing)
    places = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        places[:2] = 1, 0
    xs = [
        reshape(_as_array_tensor(x), [-1 if k == axis else 1 for k in range(len(xs))])
        for x, axis in zip(xs, places, strict=True)
    ]
    if not sparse:
        xs = broadcast_arrays(*xs)
    return tuple(x.copy() for x in xs) if copy else tuple(xs)


@function("ix_")
def ix_(*args):
    """Make indices that select a grid of elements.

    Parameters
    ----------
    *args : sequences of ints or bools
        The indices along each axis. Booleans are converted to the positions where they are true.

    Returns
    -------
    tuple of ndarray
        The indices, each along an axis of its own.
    """
    made = []
    for k, x in enumerate(args):
        x = unlisted(x)
        if len(shape_of(x)) != 1:
            raise ValueError(
                f"tapegrad.ix_: argument {k} has shape {shape_of(x)}; it must have one axis"
            )
        if dtype_of(x).kind == "b":
            (x,) = steering_tensor(np.nonzero, x)
        elif not shape_of(x)[0] and not isinstance(args[k], np.ndarray):
            x = np.asarray(value_of(x), np.intp)
        made.append(reshape(x, (1,) * k + (shape_of(x)[0],) + (1,) * (len(args) - k - 1)))
    return tuple(made)


@function("block")
def block(arrays):
    """Join nested lists of blocks; the innermost lists are joined along the last axis.

    Parameters
    ----------
    arrays : nested lists of array_like
        The blocks.

    Examples
    --------
    >>> import tapegrad as tg
    >>> a = tg.tensor([[1.0]])
    >>> tg.block([[a, 2.0 * a], [3.0 * a, 4.0 * a]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    depth, ndim = _depth(arrays), _most_axes(arrays)
    return _joined(arrays, 0, depth, max(depth, ndim))


def _depth(arrays, at=()):
    """The depth of nested lists; raises if they are not nested to the same depth."""
    if isinstance(arrays, tuple):
        raise TypeError(
            f"tapegrad.block: arrays{_place(at)} is a tuple; only lists can be blocks of blocks"
        )
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError(f"tapegrad.block: arrays{_place(at)} is an empty list; leave it out")
    depths = [_depth(item, (*at, k)) for k, item in enumerate(arrays)]
    if len(set(depths)) > 1:
        raise ValueError(
            f"tapegrad.block: the items of arrays{_place(at)} are lists of depths {depths}; they "
            "must be nested to the same depth"
        )
    return depths[0] + 1


def _place(at) -> str:
    return "".join(f"[{k}]" for k in at)


def _most_axes(arrays) -> int:
    if isinstance(arrays, list):
        return max(map(_most_axes, arrays))
    return len(shape_of(unlisted(arrays)))


def _joined(arrays, level: int, depth: int, ndim: int):
    if level < depth:
        parts = [_joined(item, level + 1, depth, ndim) for item in arrays]
        return concatenate(parts, axis=level - depth)
    x = atleast_1d(arrays)
    x = reshape(x, (1,) * (ndim - len(shape_of(x))) + shape_of(x)) if ndim else x
    if depth:
        return x
    copied = x.copy()
    return copied if ndim else reshape(copied, ())


@function("resize")
def resize(a, new_shape):
    """Repeat or truncate the elements to fill another shape.

    Parameters
    ----------
    new_shape : int or tuple of ints
        The shape.
    """
    a, new_shape = unlisted(a), fixed(unlisted(new_shape), "resize()")
    if not is_tensor(a):
        return np.resize(a, new_shape)
    a = array_tensor(a)
    lengths = [operator.index(n) for n in np.atleast_1d(new_shape).tolist()]
    out = np.resize(a._array, lengths)
    if not records(a) or not out.size or not a._array.size:
        return wrap(out)
    return gather(ravel(a), out, np.resize(grid((a._array.size,)), lengths))


# --- Elements inserted and deleted: `insert`, `delete`, `trim_zeros` ------------------------------


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


@named("padding.inserted")
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


@named("padding.bounds")
def _bounds(x):
    """Along each axis the position of the first nonzero element, and the end of the last one."""
    places = np.argwhere(x)
    if not places.size:
        return np.zeros((2, np.ndim(x)), np.int64)
    return np.stack([places.min(axis=0), places.max(axis=0) + 1])


# --- Elements added at the ends of axes: `pad`, in all modes of NumPy -----------------------------


#: Modes that give each new cell the value of one element.
_PICKING = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS = {"maximum": "max", "mean": "mean", "median": "median", "minimum": "min"}
#: The end values of a padding mode by name, or None.
_ENDS = {"constant": "constant_values", "linear_ramp": "end_values", "empty": None}


@function("pad")
def pad(array, pad_width, mode="constant", **kwargs):
    """Add elements at the ends of each axis.

    Parameters
    ----------
    array : array_like
        The operand.
    pad_width : int or sequence
        The number of elements, as in NumPy.
    mode : str or callable, optional
        One of NumPy's modes, or a function that writes to views of the padded tensor.
    **kwargs
        Arguments of the mode; `constant_values` and `end_values` may be recorded.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.pad(tg.tensor([1.0, 2.0, 3.0]), (1, 2), "reflect", reflect_type="odd")
    tensor([0., 1., 2., 3., 4., 5.])
    """
    x, pad_width = unlisted(array), fixed(unlisted(pad_width), "pad_width")
    ends = {key: unlisted(value) for key, value in kwargs.items()}
    if not is_tensor(x) and not any(map(is_tensor, ends.values())):
        return np.pad(x, pad_width, mode, **kwargs)
    x = array_tensor(x) if is_tensor(x) else wrap(np.asarray(x))
    if callable(mode):
        return _by_function(x, _widths(pad_width, x._array.ndim), mode, kwargs)
    ends = {key: value if is_recorded(value) else kwargs[key] for key, value in ends.items()}
    of_ends = _ENDS.get(mode)
    if not records(x, ends.get(of_ends)):
        plain = {key: fixed(value, f"{key} of pad()") for key, value in ends.items()}
        return wrap(np.pad(x._array, pad_width, mode, **plain))
    if mode in _PICKING and ends.get("reflect_type", "even") == "even":
        out = np.pad(x._array, pad_width, mode, **ends)
        return gather(x, out, np.pad(grid(x._array.shape), pad_width, mode, **ends))
    if mode in ("constant", "empty") and not is_recorded(ends.get(of_ends)):
        out = np.pad(x._array, pad_width, mode, **ends)
        widths = _widths(pad_width, x._array.ndim)
        inside = [slice(a, a + n) for (a, _), n in zip(widths, x._array.shape, strict=True)]
        return link(out, [(x, out[(*inside, ...)])])
    _check(x, pad_width, mode, ends, of_ends)
    if not x._array.size and mode != "constant":
        return wrap(np.pad(x._array, pad_width, mode, **{k: value_of(v) for k, v in ends.items()}))
    widths = _widths(pad_width, x._array.ndim)
    if of_ends is None and mode not in _STATISTICS:
        return _reflected(x, widths, mode)
    return _axis_by_axis(x, widths, mode, ends)


def _check(x, pad_width, mode, kwargs, of_ends) -> None:
    """Raise NumPy's own errors, and an error if the padded array cannot hold a derivative."""
    plain = {key: value for key, value in kwargs.items() if key != of_ends}
    np.pad(np.zeros((1,) * x._array.ndim), pad_width, mode, **plain)
    if not is_recorded(kwargs.get(of_ends)):
        np.pad(np.zeros((1,) * x._array.ndim), pad_width, mode, **kwargs)
    if dtype_of(x).kind != "f":
        raise lost_derivative(
            f"tapegrad.pad: {of_ends} is recorded, but the array has dtype {dtype_of(x)}, which "
            "has no derivative; convert it with astype(float)",
            kwargs,
        )


def _widths(pad_width, ndim: int) -> list[tuple[int, int]]:
    """The number of elements added before and after, for each axis."""
    if isinstance(pad_width, dict):
        pairs: list = [(0, 0)] * ndim
        for axis, pair in pad_width.items():
            pairs[axis] = pair
        pairs = [np.broadcast_to(pair, 2) for pair in pairs]
    else:
        pairs = list(np.broadcast_to(pad_width, (ndim, 2)))
    return [(int(before), int(after)) for before, after in pairs]


def _axis_by_axis(x, widths, mode, kwargs):
    """Pad each axis in turn, the result for earlier axes too: this gives NumPy's corners."""
    for axis, pair in enumerate(widths):
        if not any(pair):
            continue
        lines = moveaxis(x, axis, 0)
        ends = _ends(lines, axis, x._array.ndim, pair, mode, kwargs)
        x = moveaxis(concatenate([ends[0], lines, ends[1]]), 0, axis)
        x = x if x._array.flags.c_contiguous else x.copy()
    return x


def _ends(x, axis, ndim, pair, mode, kwargs):
    """The elements before and after along the first axis."""
    shape = shape_of(x)[1:]
    if mode in _STATISTICS:
        lengths = _of_axis(kwargs.get("stat_length"), axis, ndim)
        values = [_statistic(x, mode, lengths[side], side) for side in (0, 1)]
        return [_repeated(v, (n, *shape), x) for v, n in zip(values, pair, strict=True)]
    values = _of_axis(kwargs.get(_ENDS[mode], 0), axis, ndim)
    if mode == "constant":
        return [_repeated(v, (n, *shape), x) for v, n in zip(values, pair, strict=True)]
    before = _ramp(values[0], x[0], pair[0])
    return [_like(before, x), _like(_ramp(values[1], x[-1], pair[1])[::-1], x)]


def _ramp(end, edge, count):
    return linspace(broadcast_to(unlisted(end), shape_of(edge)), edge, count, endpoint=False)


def _like(made, x):
    return made.astype(dtype_of(x), copy=False)


def _repeated(value, shape, x):
    value = array_tensor(value) if is_tensor(value) else value
    return (
        _like(array_tensor(broadcast_to(value, shape)), x)
        if is_tensor(value)
        else (np.broadcast_to(value, shape).astype(dtype_of(x)))
    )


def _of_axis(values, axis, ndim):
    """The pair of values of an axis, from what NumPy takes: one for all, one per side, or all."""
    values = unlisted(values)
    if values is None:
        return None, None
    shape = shape_of(values)
    if not shape:
        return values, values
    pairs = broadcast_to(values, (ndim, 2))
    return pairs[axis, 0], pairs[axis, 1]


def _statistic(x, mode, length, side):
    """A statistic of the cells at an end, with the first axis left out."""
    n = shape_of(x)[0]
    length = n if length is None else min(int(length), n)
    part = x[:length] if side == 0 else x[n - length :]
    return PUBLIC[_STATISTICS[mode]](part, axis=0)


def _reflected(x, widths, mode):
    """The odd reflection: twice the edge less the reflected elements, repeatedly."""
    for axis, (before, after) in enumerate(widths):
        lines, period = moveaxis(x, axis, 0), x._array.shape[axis]
        if period == 1:
            made = broadcast_to(lines, (before + 1 + after, *shape_of(lines)[1:]))
        else:
            made = _odd(lines, before, after, period, mode == "symmetric")
        x = moveaxis(made, 0, axis)
    return x.copy()


def _odd(x, before, after, period, with_edge):
    """Lines with reflections at their ends, in whole periods at a time, as in NumPy."""
    first = int(not with_edge)
    while before or after:
        n = len(x)
        whole = n // period * period if with_edge else (n - 1) // (period - 1) * (period - 1)
        left, right = min(whole, before), min(whole, after)
        start = 2 * x[:1] - x[first : first + left][::-1]
        end = 2 * x[n - 1 :] - x[n - first - right : n - first][::-1]
        x = concatenate([start, x, end])
        before, after = before - left, after - right
    return x


def _by_function(x, widths, function, kwargs):
    """A function that writes the ends of each line along each axis, as NumPy calls it."""
    padded = pad(x, widths)
    padded = padded.copy() if not records(padded) else padded
    for axis, width in enumerate(widths):
        lines = moveaxis(padded, axis, -1)
        for at in np.ndindex(shape_of(lines)[:-1]):
            function(lines[at], width, axis, kwargs)
    return padded
