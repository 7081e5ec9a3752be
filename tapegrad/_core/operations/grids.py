"""Grids and blocks: `meshgrid`, `ix_`, `block`, and tensors repeated to a shape."""

from __future__ import annotations

import operator

import numpy as np

from ..tensor.copies import unlisted
from ..tensor.indexing import gather
from ..tensor.registry import function
from ..tensor.trace import fixed, steering_tensor
from ..tensor.values import dtype_of, is_tensor, records, shape_of, value_of, wrap
from .joining import concatenate, grid
from .shapes import array_tensor, atleast_1d, broadcast_arrays, ravel, reshape


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
