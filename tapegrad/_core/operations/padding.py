"""Elements added at the ends of axes: `pad`, in all modes of NumPy."""

from __future__ import annotations

import numpy as np

from ..tensor.copies import link, unlisted
from ..tensor.indexing import gather
from ..tensor.registry import PUBLIC, function
from ..tensor.trace import fixed, lost_derivative
from ..tensor.values import dtype_of, is_recorded, is_tensor, records, shape_of, value_of, wrap
from .joining import concatenate, grid
from .ranges import linspace
from .shapes import array_tensor, broadcast_to, moveaxis

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
