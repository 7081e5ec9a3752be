"""Tensors joined, split and repeated: copies, each one row of linked views."""

from __future__ import annotations

import itertools
import operator

import numpy as np

from ..codegen.layout import ROWS
from ..tensor import runtime as rt
from ..tensor.apply import check_dtype
from ..tensor.copies import LINK, in_dtype, joined, row_on, stack_equal, unlisted, view_like
from ..tensor.indexing import gather
from ..tensor.operators import written_to
from ..tensor.registry import PUBLIC, function
from ..tensor.trace import fixed
from ..tensor.values import (
    current,
    dtype_of,
    is_recorded,
    is_tensor,
    records,
    scalar_of,
    shape_of,
    value_of,
    value_of_complex,
    wrap,
)
from .shapes import array_tensor, atleast_1d, atleast_2d, atleast_3d, numpy_call, ravel, reshape

_DOUBLE = np.dtype(np.float64)


def grid(shape) -> np.ndarray:
    """The position of every element of an array of a shape."""
    return np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(shape)


def checked_axis(name: str, axis, ndim: int) -> int:
    """An axis that exists, not negative."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(
            f"tapegrad.{name}: axis {axis} does not exist; the tensor has {ndim} axes"
        )
    return axis % ndim


def _items(name: str, xs):
    if is_tensor(xs):
        return [xs[k] for k in range(len(xs))]
    xs = [unlisted(x) for x in xs]
    if not xs:
        raise ValueError(f"tapegrad.{name}: there is nothing to join; give at least one tensor")
    return xs


def _join_error(name: str, arrays, error) -> ValueError:
    shapes = ", ".join(str(np.shape(a)) for a in arrays)
    return ValueError(
        f"tapegrad.{name}: shapes {shapes} cannot be joined: {error}; make all axes but the joined "
        "one equal"
    )


@function("concatenate")
def concatenate(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """Join operands along an existing axis.

    Raises
    ------
    ValueError
        If the other lengths of the operands differ.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.concatenate([tg.tensor([1.0]), [2.0, 3.0]])
    tensor([1., 2., 3.])
    """
    if axis == 0 and dtype is None and out is None and rt.is_recording():
        made = _vectors(arrays)
        if made is not None:
            return made
    xs = _items("concatenate", arrays)
    return _concatenate("concatenate", xs, axis, dtype, casting, out)


def _vectors(xs):
    """The most frequent case, in few steps: float64 tensors along the first axis; else None."""
    values = []
    for x in xs:
        if type(x) is not rt.Array or x._id < 0 or x._array.dtype is not _DOUBLE:
            return None
        values.append(x._array)
    if len(values) > ROWS:
        return None
    try:
        out = np.concatenate(values)
    except ValueError:
        return None
    if not out.flags.c_contiguous:
        return None
    references, end = [], 0
    for x in xs:
        start, end = end, end + len(x._array)
        references += (x, out[start:end])
    return rt.row(LINK, out, *references)


PUBLIC["concat"] = concatenate


def _leaves(name: str, out, dtype) -> bool:
    """Whether a join in a dtype that is not floating is not recorded."""
    if out.dtype.kind not in "biu":
        check_dtype(name, out)  # complex numbers, in which the derivative would be lost
    if dtype is not None and np.dtype(dtype).kind not in "iub":
        return False
    trace = rt.trace()
    if trace is not None and dtype is not None:
        trace.refuse(f"{name} converts to {dtype}")
    return trace is None or dtype is not None


def _concatenate(name, xs, axis=0, dtype=None, casting="same_kind", out=None):
    if out is not None:
        if dtype is not None:
            raise TypeError(f"tapegrad.{name}: give dtype or out, not both")
        made = _concatenate(name, xs, axis, dtype_of(out), casting)
        return written_to(name, made, out)
    values = [value_of(x) for x in xs]
    if axis is None:
        xs = [ravel(x) for x in xs]
        axis, values = 0, [value_of(x) for x in xs]
    try:
        out = np.concatenate(values, axis, dtype=dtype, casting=casting)
    except ValueError as error:
        raise _join_error(name, values, error) from error
    if not records(*xs) or (out.dtype.kind != "f" and _leaves(name, out, dtype)):
        return wrap(out) if any(map(is_tensor, xs)) else out
    pieces, end = [], 0
    for x, value in zip(xs, values, strict=True):
        start, end = end, end + value.shape[axis]
        if is_recorded(x):
            pieces.append((x if value.dtype == out.dtype else in_dtype(x, out.dtype), start, end))
    return joined(out, axis % out.ndim, pieces)


@function("stack")
def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """Join operands of one shape along a new axis.

    Parameters
    ----------
    axis : int, optional
        The position of the new axis in the result.

    Raises
    ------
    ValueError
        If the shapes of the operands differ.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.stack([tg.tensor([1.0, 2.0]), [3.0, 4.0]], axis=1)
    tensor([[1., 3.],
            [2., 4.]])
    """
    xs = _items("stack", arrays)
    if out is not None:
        if dtype is not None:
            raise TypeError("tapegrad.stack: give dtype or out, not both")
        return written_to("stack", stack(xs, axis, dtype=dtype_of(out), casting=casting), out)
    if not any(map(is_tensor, xs)):
        return np.stack(xs, axis, dtype=dtype, casting=casting)
    try:
        return _stack(xs, axis, dtype, casting)
    except (TypeError, ValueError):
        _check_items("stack", xs)
        raise


def _stack(xs: list, axis, dtype, casting):
    shape = shape_of(xs[0])
    axis = checked_axis("stack", axis, len(shape) + 1)
    if not shape and all(np.result_type(value_of(x)) != np.float32 for x in xs):
        made = stack_equal(xs)
        return made if dtype is None else _cast("stack", made, dtype, casting)
    if any(shape_of(x) != shape for x in xs):
        shapes = ", ".join(str(shape_of(x)) for x in xs)
        raise ValueError(f"tapegrad.stack: the items have shapes {shapes}; they must be equal")
    out = np.stack([value_of(x) for x in xs], axis, dtype=dtype, casting=casting)
    if not records(*xs) or (out.dtype.kind != "f" and _leaves("stack", out, dtype)):
        return wrap(out)
    xs = [in_dtype(array_tensor(x) if is_tensor(x) else x, out.dtype) for x in xs]
    return joined(out, axis, [(x, k, None) for k, x in enumerate(xs)])


def _check_items(name: str, xs: list) -> None:
    """Raise TypeError for an item that is no number and no array of numbers."""
    for x in xs:
        if not is_tensor(x) and np.asarray(value_of_complex(x)).dtype.kind not in "biufc":
            raise TypeError(
                f"tapegrad.{name}: an item has type {type(x).__name__}; it must be a tensor, an "
                "array of numbers or a number"
            ) from None


def _cast(name, x, dtype, casting):
    if not np.can_cast(dtype_of(x), dtype, casting):
        raise TypeError(
            f"tapegrad.{name}: {dtype_of(x)} cannot become {np.dtype(dtype)} with "
            f"casting={casting!r}; give casting='unsafe', or another dtype"
        )
    return x.astype(dtype)


@function("vstack", "row_stack")
def vstack(tup, *, dtype=None, casting="same_kind"):
    """Join operands along the first axis; vectors are rows."""
    xs = [atleast_2d(x) for x in _items("vstack", tup)]
    return _concatenate("vstack", xs, 0, dtype, casting)


@function("hstack")
def hstack(tup, *, dtype=None, casting="same_kind"):
    """Join operands along the second axis; vectors are joined along their only axis."""
    xs = [atleast_1d(x) for x in _items("hstack", tup)]
    return _concatenate("hstack", xs, 0 if len(shape_of(xs[0])) == 1 else 1, dtype, casting)


@function("dstack")
def dstack(tup):
    """Join operands along the third axis."""
    return _concatenate("dstack", [atleast_3d(x) for x in _items("dstack", tup)], 2)


@function("column_stack")
def column_stack(tup):
    """Join operands along the second axis; vectors are columns."""
    xs = _items("column_stack", tup)
    xs = [x if len(shape_of(x)) >= 2 else reshape(x, (-1, 1)) for x in xs]
    return _concatenate("column_stack", xs, 1)


@function("append")
def append(arr, values, axis=None):
    """Append values at the end.

    Parameters
    ----------
    axis : int, optional
        The axis; without it both operands are flattened first.
    """
    return _concatenate("append", [unlisted(arr), unlisted(values)], axis)


@function("array_split")
def array_split(x, indices_or_sections, axis=0):
    """Split into parts whose lengths differ by at most 1.

    Returns
    -------
    list of Tensor or ndarray
        Views.
    """
    return _split("array_split", np.array_split, x, indices_or_sections, axis)


@function("split")
def split(x, indices_or_sections, axis=0):
    """Split into equal parts, or at indices.

    Returns
    -------
    list of Tensor or ndarray
        Views.

    Raises
    ------
    ValueError
        If the length cannot be divided into equal parts.
    """
    return _split("split", np.split, x, indices_or_sections, axis)


@function("vsplit")
def vsplit(x, indices_or_sections):
    """Split along the first axis of an operand with at least two.

    Returns
    -------
    list of Tensor or ndarray
        Views.
    """
    return _split("vsplit", np.vsplit, x, indices_or_sections)


@function("hsplit")
def hsplit(x, indices_or_sections):
    """Split along the second axis, or along the only axis of a vector.

    Returns
    -------
    list of Tensor or ndarray
        Views.
    """
    return _split("hsplit", np.hsplit, x, indices_or_sections)


@function("dsplit")
def dsplit(x, indices_or_sections):
    """Split along the third axis.

    Returns
    -------
    list of Tensor or ndarray
        Views.
    """
    return _split("dsplit", np.dsplit, x, indices_or_sections)


def _split(name, numpy_function, x, where, *args):
    x = unlisted(x)
    if not is_tensor(x):
        return numpy_function(x, where, *args)
    x = current(x)
    return [view_like(x, a) for a in numpy_call(name, numpy_function, value_of(x), where, *args)]


@function("unstack")
def unstack(x, /, *, axis=0):
    """Split into views, one for each position along an axis.

    Returns
    -------
    tuple of Tensor or ndarray
        Views without that axis.
    """
    x = unlisted(x)
    before = (slice(None),) * checked_axis("unstack", axis, len(shape_of(x)))
    return tuple(x[(*before, k)] for k in range(shape_of(x)[len(before)]))


# --- repeats ----------------------------------------------------------------------------------


@function("repeat", method="repeat")
def repeat(x, repeats, axis=None):
    """Repeat each element.

    Parameters
    ----------
    repeats : int or array_like of ints
        The number of repetitions: one for all elements, or one for each along the axis.
    """
    x, repeats = unlisted(x), fixed(unlisted(repeats), "repeat")
    if not is_tensor(x):
        return np.repeat(x, repeats, axis)
    if axis is None:
        x, axis = ravel(x), 0
    x = array_tensor(x)
    array = x._array
    axis = checked_axis("repeat", axis, array.ndim)
    out = numpy_call("repeat", np.repeat, array, repeats, axis)
    if not records(x):
        return wrap(out)
    if np.size(repeats) != 1:
        return gather(x, out, np.repeat(grid(array.shape), repeats, axis))
    out = np.ascontiguousarray(out)
    times = int(np.reshape(repeats, ()))
    inner = (*array.shape[: axis + 1], times, *array.shape[axis + 1 :])
    spread = np.broadcast_to(np.expand_dims(array, axis + 1), inner)
    return rt.row(LINK, out, rt.view_of(x, spread), out.reshape(inner))


@function("tile")
def tile(x, reps):
    """Join copies of the operand along its axes.

    Parameters
    ----------
    reps : int or tuple of ints
        The number of copies along each axis.
    """
    x, reps = unlisted(x), fixed(unlisted(reps), "tile()")
    if not is_tensor(x):
        return np.tile(x, reps)
    x = array_tensor(x)
    out = np.tile(x._array, reps)
    if not records(x):
        return wrap(out)
    reps = tuple(reps) if isinstance(reps, (tuple, list, np.ndarray)) else (reps,)
    ndim = max(len(reps), x._array.ndim)
    reps = (1,) * (ndim - len(reps)) + tuple(int(r) for r in reps)
    shape = (1,) * (ndim - x._array.ndim) + x._array.shape
    inner = tuple(itertools.chain.from_iterable(zip(reps, shape, strict=True)))
    strides = (0,) * (ndim - x._array.ndim) + x._array.strides
    steps = tuple(itertools.chain.from_iterable((0, s) for s in strides))
    spread = np.lib.stride_tricks.as_strided(x._array, inner, steps, writeable=False)
    return scalar_of(row_on(LINK, out, rt.view_of(x, spread), out.reshape(inner)))


@function("roll")
def roll(x, shift, axis=None):
    """Shift elements along axes; those that leave at one end enter at the other.

    Parameters
    ----------
    shift : int or tuple of ints
        By how many positions.
    axis : int or tuple of ints, optional
        The axes; without it the flattened operand is shifted.
    """
    x = unlisted(x)
    if not is_tensor(x):
        return np.roll(x, shift, axis)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), shape_of(x))
    x = array_tensor(x)
    out = np.asarray(numpy_call("roll", np.roll, x._array, shift, axis))
    if not records(x):
        return wrap(out)
    shifts, axes = np.broadcast_arrays(shift, axis)
    if shifts.size and shifts.dtype.kind not in "iub":
        raise TypeError(f"tapegrad.roll: shift has dtype {shifts.dtype}; it must hold integers")
    total = [0] * out.ndim
    for one, along in zip(shifts.ravel().tolist(), axes.ravel().tolist(), strict=True):
        total[along] += one
    cuts = []
    for n, s in zip(out.shape, total, strict=True):
        s = s % n if n else 0
        whole, head, tail = slice(None), slice(None, n - s), slice(n - s, None)
        cuts.append([(head, slice(s, None)), (tail, slice(None, s))] if s else [(whole, whole)])
    references = []
    for pieces in itertools.product(*cuts):
        references.append(rt.view_of(x, x._array[(*(p[0] for p in pieces), ...)]))
        references.append(out[(*(p[1] for p in pieces), ...)])
    return row_on(LINK, out, *references)
