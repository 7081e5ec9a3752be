"""Other shapes of the same elements. A view costs no row; where NumPy copies, one row does."""

from __future__ import annotations

import numpy as np

from ..tensor import runtime as rt
from ..tensor.copies import link, pack, unlisted, view_like
from ..tensor.memory_layouts import order_of
from ..tensor.registry import function
from ..tensor.values import array_of, current, is_tensor, records, scalar_of, shape_of, wrap


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
    """A function of NumPy's that moves no element, on anything."""
    x = unlisted(x)
    if not is_tensor(x):
        return numpy_call(name, numpy_function, np.asarray(x), *args, **kwargs)
    tensor = array_tensor(x)
    array = numpy_call(name, numpy_function, tensor._array, *args, **kwargs)
    if not isinstance(array, np.ndarray):  # as np.flip gives for an array without axes
        array = tensor._array[...]
    return shown(tensor, array)


@function("reshape", public="reshape")
def reshape(x, shape, order="C"):
    """reshape(x, shape, order): the same elements in another shape; one length may be −1.

    A view where NumPy gives one, else a copy. `order` is "C", "F", or "A": F if x is in it alone.

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
    """ravel(x, order): all elements along one axis; a view where they lie side by side in order.

    `order` is "C", "F", "A" (F if x is in it alone) or "K", the order in memory.
    """
    x = unlisted(x)
    if not is_tensor(x):
        return numpy_call("ravel", np.ravel, np.asarray(x), order)
    tensor = array_tensor(x)
    return _flat(tensor, numpy_call("ravel", np.ravel, tensor._array, order), order)


def flatten(x, order="C"):
    """flatten(order): a copy of all elements along one axis; `order` as in tapegrad.ravel."""
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
    return link(flat, [(rt.view(tensor, array), flat.reshape(array.shape))])


@function("transpose", "permute_dims")
def transpose(x, axes=None):
    """transpose(x, axes): the axes in another order, reversed by default; a view."""
    return view("transpose", np.transpose, x, axes)


@function("matrix_transpose")
def matrix_transpose(x):
    """matrix_transpose(x): the last two axes exchanged; a view. Needs two axes."""
    return view("matrix_transpose", lambda a: np.swapaxes(a, -1, -2), x)


@function("swapaxes", method="swapaxes")
def swapaxes(x, axis1, axis2):
    """swapaxes(x, axis1, axis2): two axes exchanged; a view."""
    return view("swapaxes", np.swapaxes, x, axis1, axis2)


@function("moveaxis")
def moveaxis(x, source, destination):
    """moveaxis(x, source, destination): axes moved to other places; a view."""
    return view("moveaxis", np.moveaxis, x, source, destination)


@function("rollaxis")
def rollaxis(x, axis, start=0):
    """rollaxis(x, axis, start): an axis moved before another; a view."""
    return view("rollaxis", np.rollaxis, x, axis, start)


@function("squeeze", method="squeeze")
def squeeze(x, axis=None):
    """squeeze(x, axis): without axes of length 1, all or those given; a view."""
    return view("squeeze", np.squeeze, x, axis)


@function("expand_dims")
def expand_dims(x, axis):
    """expand_dims(x, axis): with new axes of length 1 at the places given; a view."""
    return view("expand_dims", np.expand_dims, x, axis)


@function("broadcast_to")
def broadcast_to(x, shape, subok=False):
    """broadcast_to(x, shape): repeated to a shape by broadcasting; a view that is read-only."""
    return view("broadcast_to", np.broadcast_to, x, shape)


@function("broadcast_arrays")
def broadcast_arrays(*xs, subok=False):
    """broadcast_arrays(*xs): all broadcast to their common shape; read-only views."""
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
        f"{name}(*xs): each with at least {name[8]} axes, new ones of length 1 added; views.\n\n"
        "One argument gives one result, several a tuple."
    )
    return function(name)(at_least)


atleast_1d, atleast_2d, atleast_3d = (_at_least(f"atleast_{n}d") for n in (1, 2, 3))


@function("flip")
def flip(x, axis=None):
    """flip(x, axis): the order of elements reversed along axes, all by default; a view."""
    return view("flip", np.flip, x, axis)


@function("fliplr")
def fliplr(x):
    """fliplr(x): reversed along the second axis; a view."""
    return view("fliplr", np.fliplr, x)


@function("flipud")
def flipud(x):
    """flipud(x): reversed along the first axis; a view."""
    return view("flipud", np.flipud, x)


@function("rot90")
def rot90(x, k=1, axes=(0, 1)):
    """rot90(x, k, axes): turned k times by 90 degrees in the plane of two axes; a view."""
    return view("rot90", np.rot90, x, k, axes)


def _diagonal(array, offset, axis1, axis2):
    """NumPy's diagonal, writable where the array is."""
    made = np.diagonal(array, offset, axis1, axis2)
    if array.flags.writeable:
        made.flags.writeable = True
    return made


@function("diagonal", method="diagonal")
def diagonal(x, offset=0, axis1=0, axis2=1):
    """diagonal(x, offset, axis1, axis2): the diagonals of a plane of two axes, as the last axis.

    A view; other than NumPy's, it may be written to.
    """
    x = unlisted(x)
    if not is_tensor(x):
        return np.diagonal(x, offset, axis1, axis2)
    return view("diagonal", _diagonal, x, offset, axis1, axis2)


@function("diag")
def diag(x, k=0):
    """diag(x, k): of a matrix the k-th diagonal, a view; of a vector the matrix that has it."""
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
    """diagflat(x, k): a matrix with all elements of x along its k-th diagonal."""
    return diag(ravel(x), k)


@function("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    """sliding_window_view(x, window_shape, axis): all windows of a shape, as last axes; a view.

    An element that lies in several windows gets the sum of their derivatives. The view cannot be
    written: `writeable=True` raises TypeError.

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
    """reshape(*shape, order): see tapegrad.reshape; the shape as one tuple or as numbers."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    return reshape(self, shape, order)


def _method_transpose(self, *axes):
    """transpose(*axes): see tapegrad.transpose; the axes as one tuple or as numbers."""
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
