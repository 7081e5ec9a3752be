"""Functions of the user's applied to parts of arrays: `apply_along_axis`, `vectorize`."""

from __future__ import annotations

import numpy as np

from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.values import differentiates, dtype_of, is_tensor, shape_of, tensor_of
from .joining import checked_axis, stack
from .shapes import array_tensor, expand_dims, moveaxis, reshape


@function("apply_along_axis")
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """Apply a function to each line along an axis.

    Parameters
    ----------
    func1d : callable
        A function of a line. The axes of its result take the place of `axis`.
    axis : int
        The axis.
    *args, **kwargs
        Further arguments of the function.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.apply_along_axis(lambda line: line.sum(), 1, tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([3., 7.])
    """
    arr = unlisted(arr)
    if not is_tensor(arr):
        return np.apply_along_axis(func1d, axis, arr, *args, **kwargs)
    arr = array_tensor(arr)
    axis = checked_axis("apply_along_axis", axis, len(shape_of(arr)))
    lines = moveaxis(arr, axis, -1)
    outer = shape_of(lines)[:-1]
    if 0 in outer:
        raise ValueError(
            f"tapegrad.apply_along_axis: the tensor has shape {shape_of(arr)}, so that there is no "
            "line to apply the function to"
        )
    found = [unlisted(func1d(lines[at], *args, **kwargs)) for at in np.ndindex(outer)]
    _check_alike(found)
    inner = shape_of(found[0])
    made = stack(found).astype(dtype_of(found[0]), copy=False)
    made = tensor_of(made)
    made = reshape(made, (*outer, *inner))
    places = [len(outer) + k for k in range(len(inner))]
    return moveaxis(made, places, [axis + k for k in range(len(inner))])


def _check_alike(found) -> None:
    """Raise where NumPy would truncate recorded values to the dtype of the first result."""
    first = dtype_of(found[0])
    if first.kind != "f" and any([differentiates(x) and dtype_of(x).kind == "f" for x in found]):
        raise TypeError(
            f"tapegrad.apply_along_axis: the function returns {first} for the first line, which "
            "sets the dtype of the result, but recorded floats for others; return floats"
        )


@function("apply_over_axes")
def apply_over_axes(func, a, axes):
    """Apply a function of an operand and an axis for one axis after the other.

    Parameters
    ----------
    func : callable
        The function. An axis that the function removes is restored with length 1.
    axes : int or tuple of ints
        The axes.
    """
    value = unlisted(a)
    if not is_tensor(value):
        return np.apply_over_axes(func, value, axes)
    ndim = len(shape_of(value))
    for axis in np.atleast_1d(axes).tolist():
        axis = axis + ndim if axis < 0 else axis
        found = func(value, axis)
        if len(shape_of(found)) != len(shape_of(value)):
            found = expand_dims(found, axis)
        if len(shape_of(found)) != len(shape_of(value)):
            raise ValueError(
                f"tapegrad.apply_over_axes: the function returns shape {shape_of(found)} for an "
                f"operand of shape {shape_of(value)}; it must remove the axis, or keep it"
            )
        value = found
    return value
