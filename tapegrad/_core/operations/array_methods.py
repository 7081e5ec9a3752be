"""Methods and attributes of arrays that tensors have, too, by functions of the same name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..tensor import runtime as rt
from ..tensor.copies import view_like
from ..tensor.indexing import set_item
from ..tensor.registry import PUBLIC
from ..tensor.trace import lost_derivative, named, steered, steering_tensor
from ..tensor.values import array_of, current, is_recorded, value_of
from .shapes import ravel, reshape


def fill(self, value):
    """Set every element to a number, in place.

    Parameters
    ----------
    value : number
        The number, which may be recorded.

    Returns
    -------
    None
    """
    set_item(self, ..., value)


def sort(self, axis=-1, kind=None, order=None, *, stable=None):
    """Sort along an axis, in place.

    Parameters
    ----------
    axis : int, optional
        The axis.
    kind : str, optional
        Has no effect: the sort is stable.
    order : None, optional
        Must be None: it applies to structured arrays only.
    stable : bool, optional
        Has no effect: the sort is stable.

    Returns
    -------
    None
    """
    set_item(self, ..., PUBLIC["sort"](self, axis, order=order))


def partition(self, kth, axis=-1, kind="introselect", order=None):
    """Move some elements to where sorting would put them, in place; see `tapegrad.partition`.

    Parameters
    ----------
    kth : int or sequence of ints
        The positions at which the elements of the sorted operand are placed.
    axis : int, optional
        The axis.
    kind : str, optional
        The algorithm; as in NumPy.
    order : None, optional
        Must be None: it applies to structured arrays only.

    Returns
    -------
    None
    """
    set_item(self, ..., np.partition(self, kth, axis, kind, order))


def _compress(self, condition, axis=None, out=None):
    """Take the slices along an axis for which a condition holds; see `tapegrad.compress`.

    Parameters
    ----------
    condition : array_like of bool
        The condition, with one axis.
    axis : int, optional
        The axis; by default the tensor is flattened.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
    """
    return np.compress(condition, self, axis, out)


class Flat:
    """The elements of a tensor in C order, which can be read, written and iterated over."""

    def __init__(self, tensor: rt.Tensor):
        self._tensor = tensor

    def __len__(self) -> int:
        return self._tensor.size

    def __iter__(self) -> Iterator[rt.Tensor]:
        return iter(ravel(self._tensor))

    def __getitem__(self, key: Any) -> rt.Tensor:
        return ravel(self._tensor)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        tensor = self._tensor
        if array_of(tensor).flags.c_contiguous:
            set_item(reshape(tensor, -1), key, value)
            return
        places = np.arange(tensor.size)[value_of(key)]
        set_item(tensor, np.unravel_index(places, tensor.shape), value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return ravel(self._tensor).__array__(dtype, copy)

    def copy(self) -> rt.Tensor:
        """Return the elements as a new vector."""
        return ravel(self._tensor).copy()


def _set_flat(self, values):
    count, given = self.size, ravel(PUBLIC["asarray"](values))
    self.flat[:] = given if len(given) == count else given[np.arange(count) % len(given)]


def view(self, dtype=None, type=None):
    """Return a view of all elements.

    Parameters
    ----------
    dtype : dtype, optional
        Must be the dtype of the tensor, if it is given.
    type : None, optional
        Must be None.

    Returns
    -------
    Tensor

    Raises
    ------
    TypeError
        If another dtype or class is asked for: bytes have no derivative.
    """
    if type is not None or dtype not in (None, self.dtype):
        raise TypeError(
            f"tapegrad.view: a view of {self.dtype} as another dtype or class has no derivative; "
            "use astype, or detach().numpy().view()"
        )
    return self if isinstance(self, rt.Scalar) else view_like(current(self), self._array.view())


def _contains(self, value):
    """Whether an element is equal to a value; a guard in programs."""
    return bool(steering_tensor(np.any, self == value))


def _is_integer(self):
    """Return whether a number is an integer; a guard in programs.

    Returns
    -------
    bool
    """
    return bool(steered(_is_whole, self))


@named("array_methods.is_whole")
def _is_whole(x):
    return np.floor(x) == x


_ARGUMENTS = """

Parameters
----------
*args, **kwargs
    The arguments of NumPy's method.

Returns
-------
"""
_AS_NUMPY = (
    "Do what `numpy.ndarray.{name}` does, with the values of a tensor that is not recorded."
    + f"{_ARGUMENTS}object\n    What NumPy's method returns."
)
_REFUSED = f"Raise TypeError: not supported in place; use {{instead}}.{_ARGUMENTS}None"


def _of_array(name: str, *, is_called: bool):
    """A method or attribute that takes the values: of tensors that are not recorded."""

    def found(self):
        if is_recorded(self):
            raise lost_derivative(
                f"tapegrad.{name}: the tensor is recorded, so its derivative would be lost; use "
                f"detach().numpy().{name}",
                self,
            )
        return getattr(array_of(self), name)

    def method(self, *args, **kwargs):
        return found(self)(*args, **kwargs)

    if not is_called:
        return property(found, doc=f"`numpy.ndarray.{name}`, of tensors that are not recorded.")
    method.__name__, method.__doc__ = name, _AS_NUMPY.format(name=name)
    return method


def _refused(name: str, instead: str):
    def method(self, *args, **kwargs):
        raise TypeError(
            f"tapegrad.{name}: tensors do not support this in-place operation; use {instead}"
        )

    method.__name__, method.__doc__ = name, _REFUSED.format(instead=instead)
    return method


def _to_device(self, device, /, *, stream=None):
    """Return the tensor itself, as the Array API standard has it for the device it is on.

    Parameters
    ----------
    device, stream : object
        Have no effect.

    Returns
    -------
    Tensor
    """
    return self


def _setflags(self, write=None, align=None, uic=None):
    """Set whether the elements can be written, as `numpy.ndarray.setflags`.

    Parameters
    ----------
    write, align, uic : bool, optional
        The flags of NumPy's arrays.

    Returns
    -------
    None
    """
    array_of(self).setflags(write=write, align=align, uic=uic)


_VALUES = "tobytes dump dumps __dlpack__ __dlpack_device__".split()
METHODS = {
    "fill": fill,
    "sort": sort,
    "flat": property(Flat, _set_flat),
    "view": view,
    "device": property(lambda self: "cpu", doc='Where the tensor is: always "cpu".'),
    "to_device": _to_device,
    "base": property(lambda self: None, doc="Always None: the owner of memory is not shown."),
    "__contains__": _contains,
    "is_integer": _is_integer,
    "compress": _compress,
    "partition": partition,
    **{name: _of_array(name, is_called=True) for name in _VALUES},
    **{name: _of_array(name, is_called=False) for name in ("data", "ctypes")},
    "resize": _refused("resize", "np.resize or reshape"),
    "setflags": _setflags,
    "byteswap": _refused("byteswap", "detach().numpy().byteswap()"),
    "getfield": _refused("getfield", "detach().numpy().getfield()"),
    "setfield": _refused("setfield", "an index write"),
}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)
