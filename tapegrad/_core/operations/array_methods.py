"""Methods and attributes of arrays that tensors have too, by the functions of the same name."""

from __future__ import annotations

import numpy as np

from ..tensor import runtime as rt
from ..tensor.copies import unlisted, view_like
from ..tensor.indexing import set_item
from ..tensor.registry import PUBLIC, function
from ..tensor.trace import named, steered, steering_tensor
from ..tensor.values import array_of, current, is_recorded, is_tensor, value_of
from .shapes import ravel, reshape


def fill(self, value):
    """fill(value): every element set to a number, in place."""
    set_item(self, ..., value)


def sort(self, axis=-1, kind=None, order=None, *, stable=None):
    """sort(axis): sorted along an axis, in place."""
    if order is not None:
        raise TypeError("tapegrad.sort: order= is for structured arrays; tensors hold numbers")
    set_item(self, ..., PUBLIC["sort"](self, axis))


def partition(self, kth, axis=-1, kind="introselect", order=None):
    """partition(kth, axis): the k-th smallest in its place, those before it smaller; in place."""
    set_item(self, ..., np.partition(self, kth, axis, kind, order))


def _compress(self, condition, axis=None, out=None):
    return np.compress(condition, self, axis, out)


class Flat:
    """The elements of a tensor in C order, to be read, written and gone through."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __len__(self):
        return self._tensor.size

    def __iter__(self):
        return iter(ravel(self._tensor))

    def __getitem__(self, key):
        return ravel(self._tensor)[key]

    def __setitem__(self, key, value):
        tensor = self._tensor
        if array_of(tensor).flags.c_contiguous:
            set_item(reshape(tensor, -1), key, value)
            return
        places = np.arange(tensor.size)[value_of(key)]
        set_item(tensor, np.unravel_index(places, tensor.shape), value)

    def __array__(self, dtype=None, copy=None):
        return ravel(self._tensor).__array__(dtype, copy)

    def copy(self):
        """The elements as a new vector."""
        return ravel(self._tensor).copy()


def _set_flat(self, values):
    count, given = self.size, ravel(PUBLIC["asarray"](values))
    self.flat[:] = given if len(given) == count else given[np.arange(count) % len(given)]


def view(self, dtype=None, type=None):
    """view(): the same elements as another tensor; other dtypes and classes are refused."""
    if type is not None or dtype not in (None, self.dtype):
        raise TypeError(
            f"tapegrad.view: bytes of {self.dtype} seen as another dtype or class have no "
            "derivative; use astype, or detach().numpy().view()"
        )
    return self if isinstance(self, rt.Scalar) else view_like(current(self), self._array.view())


def _contains(self, value):
    """Whether an element is equal to a value; a guard in programs."""
    return bool(steering_tensor(np.any, self == value))


def _is_integer(self):
    """Whether a number is a whole one; a guard in programs."""
    return bool(steered(_is_whole, self))


@named("array_methods.is_whole")
def _is_whole(x):
    return np.floor(x) == x


def _of_array(name: str, *, is_called: bool):
    """A method or attribute that takes the values: of tensors that are not recorded."""

    def found(self):
        if is_recorded(self):
            raise TypeError(
                f"tapegrad.{name}: the tensor is recorded, its derivative would be lost; use "
                f"detach().numpy().{name}"
            )
        return getattr(array_of(self), name)

    def method(self, *args, **kwargs):
        return found(self)(*args, **kwargs)

    return method if is_called else property(found)


def _refused(name: str, instead: str):
    def method(self, *args, **kwargs):
        raise TypeError(f"tapegrad.{name}: tensors cannot do this in place; use {instead}")

    return method


@function("real")
def real(val):
    """real(val): the real parts, which all are: the tensor itself."""
    val = unlisted(val)
    return val if is_tensor(val) else np.real(val)


@function("imag")
def imag(val):
    """imag(val): the imaginary parts, zeros; of a tensor they have no derivative."""
    val = unlisted(val)
    return val.imag if is_tensor(val) else np.imag(val)


_VALUES = "tobytes dump dumps __dlpack__ __dlpack_device__".split()
METHODS = {
    "fill": fill,
    "sort": sort,
    "flat": property(Flat, _set_flat),
    "view": view,
    "device": property(lambda self: "cpu"),
    "to_device": lambda self, device, /, *, stream=None: self,
    "base": property(lambda self: None),
    "__contains__": _contains,
    "is_integer": _is_integer,
    "compress": _compress,
    "partition": partition,
    **{name: _of_array(name, is_called=True) for name in _VALUES},
    **{name: _of_array(name, is_called=False) for name in ("data", "ctypes")},
    "resize": _refused("resize", "np.resize or reshape"),
    "setflags": _refused("setflags", "copy() for one that can be written"),
    "byteswap": _refused("byteswap", "detach().numpy().byteswap()"),
    "getfield": _refused("getfield", "detach().numpy().getfield()"),
    "setfield": _refused("setfield", "an index write"),
}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)
