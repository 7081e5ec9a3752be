"""Other shapes of the same elements. A view costs no row; where NumPy copies, one row does."""

from __future__ import annotations

import numpy as np

from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.copies import link, order_of, pack, unlisted, view_like
from ..tensor.registry import function
from ..tensor.values import (
    array_of,
    current,
    is_tensor,
    records,
    scalar_of,
    shape_of,
    value_of,
    wrap,
)


def numpy_call(name: str, numpy_function, array, *args, **kwargs):
    """NumPy's function, its errors under our name and with the shape."""
    try:
        return numpy_function(array, *args, **kwargs)
    except (ValueError, IndexError) as error:
        kind = type(error) if type(error) in (ValueError, IndexError) else np.exceptions.AxisError
        raise kind(f"tapegrad.{name}: {error} (the tensor has shape {array.shape})") from error


def array_tensor(x):
    """A tensor as one with a buffer: a scalar is packed."""
    if type(x) is rt.Scalar:
        return pack(x) if rt.is_recording() else wrap(x._value)
    return current(x)


def shown(tensor, array: np.ndarray):
    """The result on `array`, a view of a tensor's value; one recorded element is a scalar."""
    made = view_like(tensor, array)
    return scalar_of(made) if array.ndim == 0 and rt.is_recording() else made


def view(name: str, numpy_function, x, *args, **kwargs):
    """A NumPy function that moves no element, on any operand."""
    x = unlisted(x)
    if not is_tensor(x):
        return numpy_call(name, numpy_function, np.asarray(x), *args, **kwargs)
    tensor = array_tensor(x)
    array = numpy_call(name, numpy_function, tensor._array, *args, **kwargs)
    if not isinstance(array, np.ndarray):  # as the result of np.flip for an array without axes
        array = tensor._array[...]
    return shown(tensor, array)


@function("reshape", public="reshape")
def reshape(x, shape, order="C"):
    """Give the elements a new shape. The result is a view if NumPy returns a view, else a copy.

    Parameters
    ----------
    shape : int or tuple of ints
        The shape. One length may be −1; it is computed from the others.
    order : {"C", "F", "A"}, optional
        The order of elements; "A" means "F" for an operand that is only Fortran-contiguous, else
        "C".

    Raises
    ------
    ValueError
        If the shape does not have as many elements.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.reshape(tg.tensor([1.0, 2.0, 3.0, 4.0]), (2, -1))
    tensor([[1., 2.],
            [3., 4.]])
    """
    x = unlisted(x)
    if not is_tensor(x):
        return numpy_call("reshape", np.reshape, np.asarray(x), shape, order=order)
    if order not in ("C", "F", "A"):
        raise ValueError(f"tapegrad.reshape: order is {order!r}; it must be 'C', 'F' or 'A'")
    if order == "F" or (order == "A" and array_of(x).flags.fnc):
        lengths = shape if isinstance(shape, (tuple, list)) else (shape,)
        return transpose(reshape(transpose(x), tuple(lengths)[::-1]))
    tensor = array_tensor(x)
    array = numpy_call("reshape", np.reshape, tensor._array, shape)
    if np.may_share_memory(array, tensor._array) or not array.size:
        return shown(tensor, array)
    if not records(tensor):
        return wrap(array)
    return link(array, [(tensor, array.reshape(tensor._array.shape))])


@function("ravel", method="ravel")
def ravel(x, order="C"):
    """Return all elements along one axis: a view if they are contiguous in this order."""
    x = unlisted(x)
    if not is_tensor(x):
        return numpy_call("ravel", np.ravel, np.asarray(x), order)
    tensor = array_tensor(x)
    return _flat(tensor, numpy_call("ravel", np.ravel, tensor._array, order), order)


def flatten(x, order="C"):
    """Return a copy of all elements along one axis.

    Parameters
    ----------
    order : {"C", "F", "A", "K"}, optional
        The order of elements, as in `tapegrad.ravel`.

    Returns
    -------
    Tensor
    """
    tensor = array_tensor(x)
    return _flat(tensor, tensor._array.flatten(order), order)


def _flat(tensor, flat: np.ndarray, order: str):
    """The tensor of all elements along one axis: a view if `flat` is one, else a copy."""
    array = tensor._array
    if np.may_share_memory(flat, array):
        return shown(tensor, flat)
    if not records(tensor):
        return wrap(flat)
    if order == "F" or (order == "A" and array.flags.fnc):
        array = array.T
    elif order == "K":
        array = array.transpose(order_of([array]) or range(array.ndim))
    return link(flat, [(rt.view_of(tensor, array), flat.reshape(array.shape))])


@function("transpose", "permute_dims")
def transpose(x, axes=None):
    """Return a view with the axes in another order.

    Parameters
    ----------
    axes : tuple of ints, optional
        The axes in their new order; by default they are reversed.
    """
    return view("transpose", np.transpose, x, axes)


@function("matrix_transpose")
def matrix_transpose(x):
    """Return a view with the last two axes exchanged. The operand has at least two axes."""
    return view("matrix_transpose", lambda a: np.swapaxes(a, -1, -2), x)


@function("swapaxes", method="swapaxes")
def swapaxes(x, axis1, axis2):
    """Return a view with two axes exchanged."""
    return view("swapaxes", np.swapaxes, x, axis1, axis2)


@function("moveaxis")
def moveaxis(x, source, destination):
    """Return a view with axes moved to other positions.

    Parameters
    ----------
    source, destination : int or sequence of ints
        The axes, and their new positions.
    """
    return view("moveaxis", np.moveaxis, x, source, destination)


@function("rollaxis")
def rollaxis(x, axis, start=0):
    """Return a view with an axis moved before another.

    Parameters
    ----------
    axis : int
        The axis that is moved.
    start : int, optional
        The axis before which it is moved.
    """
    return view("rollaxis", np.rollaxis, x, axis, start)


@function("squeeze", method="squeeze")
def squeeze(x, axis=None):
    """Return a view without axes of length 1.

    Parameters
    ----------
    axis : int or tuple of ints, optional
        The axes, which must have length 1; by default all such axes.
    """
    return view("squeeze", np.squeeze, x, axis)


@function("expand_dims")
def expand_dims(x, axis):
    """Return a view with new axes of length 1.

    Parameters
    ----------
    axis : int or tuple of ints
        Their positions in the result.
    """
    return view("expand_dims", np.expand_dims, x, axis)


@function("broadcast_to")
def broadcast_to(x, shape, subok=False):
    """Broadcast to a shape. The result is a read-only view.

    Parameters
    ----------
    shape : int or tuple of ints
        The shape of the result.
    """
    return view("broadcast_to", np.broadcast_to, x, shape)


@function("broadcast_arrays")
def broadcast_arrays(*xs, subok=False):
    """Broadcast operands to their common shape.

    Returns
    -------
    tuple of Tensor or ndarray
        Read-only views.
    """
    xs = [unlisted(x) for x in xs]
    shape = np.broadcast_shapes(*[shape_of(x) for x in xs])
    return tuple(broadcast_to(x, shape) for x in xs)


def _at_least(name: str):
    numpy_function = getattr(np, name)

    def at_least(*xs):
        made = tuple(view(name, numpy_function, x) for x in xs)
        return made[0] if len(made) == 1 else made

    at_least.__name__ = name
    at_least.__doc__ = (
        f"Return views with at least {name[8]} axes; new axes have length 1.\n\nReturns\n-------\n"
        "Tensor or ndarray, or tuple of them\n    A tuple for several operands."
    )
    return function(name)(at_least)


atleast_1d, atleast_2d, atleast_3d = (_at_least(f"atleast_{n}d") for n in (1, 2, 3))


@function("flip")
def flip(x, axis=None):
    """Return a view with the order of elements reversed along axes.

    Parameters
    ----------
    axis : int or tuple of ints, optional
        The axes; by default all.
    """
    return view("flip", np.flip, x, axis)


@function("fliplr")
def fliplr(x):
    """Return a view with the order of elements reversed along the second axis."""
    return view("fliplr", np.fliplr, x)


@function("flipud")
def flipud(x):
    """Return a view with the order of elements reversed along the first axis."""
    return view("flipud", np.flipud, x)


@function("rot90")
def rot90(x, k=1, axes=(0, 1)):
    """Return a view rotated by 90 degrees in the plane of two axes.

    Parameters
    ----------
    k : int, optional
        The number of rotations by 90 degrees.
    axes : pair of ints, optional
        The plane; rotation is from the first axis towards the second.
    """
    return view("rot90", np.rot90, x, k, axes)


def _diagonal(array, offset, axis1, axis2):
    """NumPy's diagonal, writable where the array is."""
    made = np.diagonal(array, offset, axis1, axis2)
    if array.flags.writeable:
        made.flags.writeable = True
    return made


@function("diagonal", method="diagonal")
def diagonal(x, offset=0, axis1=0, axis2=1):
    """Return a view of the diagonals of a plane of two axes, along the last axis.

    Unlike NumPy's, the view of a tensor may be written to.
    """
    x = unlisted(x)
    if not is_tensor(x):
        return np.diagonal(x, offset, axis1, axis2)
    return view("diagonal", _diagonal, x, offset, axis1, axis2)


@function("diag")
def diag(x, k=0):
    """Return the diagonal of a matrix, as a view, or a matrix with a given diagonal.

    Parameters
    ----------
    x : array_like
        A matrix, whose diagonal is returned, or a vector, which becomes the diagonal of a matrix.
    """
    x = unlisted(x)
    if not is_tensor(x):
        return np.diag(x, k)
    shape = shape_of(x)
    if len(shape) == 2:
        return diagonal(x, k)
    if len(shape) != 1:
        raise ValueError(f"tapegrad.diag: the tensor has shape {shape}; it must have 1 or 2 axes")
    x = current(x)
    out = np.diag(x._array, k)
    return link(out, [(x, np.diagonal(out, k))]) if records(x) else wrap(out)


@function("diagflat")
def diagflat(x, k=0):
    """Return a matrix with all elements of `x` along its diagonal."""
    return diag(ravel(x), k)


@function("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    """Return a view of all windows of a shape.

    An element that lies in several windows gets the sum of their derivatives.

    Parameters
    ----------
    window_shape : int or tuple of ints
        The sizes of a window along the axes.
    axis : int or tuple of ints, optional
        The axes along which windows slide; by default all.
    writeable : bool, optional
        Must be false.

    Returns
    -------
    Tensor or ndarray
        A read-only view; the axes of a window are the last ones.

    Raises
    ------
    TypeError
        If `writeable` is true.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.sliding_window_view(tg.tensor([1.0, 2.0, 3.0]), 2)
    tensor([[1., 2.],
            [2., 3.]])
    """
    if writeable:
        raise TypeError(
            "tapegrad.sliding_window_view: the argument writeable is not supported on tensors; "
            "write to the tensor itself"
        )
    windows = np.lib.stride_tricks.sliding_window_view
    return view("sliding_window_view", windows, x, window_shape, axis)


def _method_reshape(self, *shape, order="C"):
    """Give the same elements another shape; see `tapegrad.reshape`.

    Parameters
    ----------
    *shape : ints or tuple of ints
        The shape. One length may be −1; it is computed from the others.
    order : {"C", "F", "A"}, optional
        The order of elements.

    Returns
    -------
    Tensor
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list, np.ndarray)):
        shape = tuple(shape[0]) if np.ndim(shape[0]) else shape[0]
    return reshape(self, shape, order)


def _method_transpose(self, *axes):
    """Return a view with the axes in another order; see `tapegrad.transpose`.

    Parameters
    ----------
    *axes : ints or tuple of ints
        The axes in their new order; by default they are reversed.

    Returns
    -------
    Tensor
    """
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        axes = axes[0]
    return transpose(self, axes or None)


METHODS = {
    "reshape": _method_reshape,
    "transpose": _method_transpose,
    "flatten": flatten,
    "T": property(transpose, doc="The tensor with its axes reversed; a view."),
    "mT": property(matrix_transpose, doc="The tensor with its last two axes exchanged; a view."),
}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)


# --- Triangles of matrices: `tril`, `triu` --------------------------------------------------------


def _triangle(name: str, keeps: str):
    def triangle(x, k=0):
        x = unlisted(x)
        if not is_tensor(x):
            return getattr(np, name)(x, k)
        shape = shape_of(x)
        if not shape:
            raise ValueError(f"tapegrad.{name}: the tensor has no axes; pass a vector or matrices")
        if not records(x):
            return wrap(getattr(np, name)(value_of(x), k))
        mask = np.tri(*shape[-2:], k=k if name == "tril" else k - 1, dtype=bool)
        mask = mask if name == "tril" else ~mask
        keep = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, shape))
        return apply("where", keep, x, 0.0)

    triangle.__name__ = name
    triangle.__doc__ = (
        f"Keep the elements {keeps} a diagonal of matrices; the others are 0.\n\n"
        "    A vector of n elements stands for n equal rows, as in NumPy.\n    "
    )
    return function(name)(triangle)


tril, triu = _triangle("tril", "on and below"), _triangle("triu", "on and above")
