"""`r_`, `c_`, `mgrid`, `ogrid` and iteration over elements, with recorded values."""

from __future__ import annotations

import numpy

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.copies import holds_tensor
from .._core.tensor.trace import lost_derivative
from .._core.tensor.values import is_recorded, is_tensor, value_of
from ._creators import array, fresh
from ._lists import REFUSED, as_tensor


class _Joined:
    """`np.r_` and `np.c_`: parts between brackets joined, recorded values among them."""

    def __init__(self, theirs):
        self._theirs = theirs
        self.__doc__ = theirs.__doc__

    def __getitem__(self, key):
        parts = key if isinstance(key, tuple) else (key,)
        if not holds_tensor([as_tensor(part) for part in parts]):
            made = self._theirs[key]
            return fresh(made) if rt.in_transform() else made
        axis, ndmin, trans1d = self._theirs.axis, self._theirs.ndmin, self._theirs.trans1d
        if isinstance(parts[0], str):
            axis, ndmin, trans1d = _directive(parts[0], ndmin, trans1d)
            parts = parts[1:]
        return PUBLIC["concatenate"]([_part(x, ndmin, trans1d) for x in parts], axis)

    def __len__(self):
        return 0


def _directive(text: str, ndmin: int, trans1d: int):
    """Axis, dimensions and place of the first axis given by a text such as "0,2,1"."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise TypeError(
            f"tapegrad.numpy.r_: {text!r} makes matrices, which hold no recorded values; use "
            "np.r_ with integers, np.concatenate or np.stack"
        ) from None
    return tuple([*numbers, *(0, ndmin, trans1d)[len(numbers) :]][:3])


def _part(x, ndmin: int, trans1d: int):
    """One part as an array with at least `ndmin` axes; its own come from place `trans1d` on."""
    if isinstance(x, slice):
        x = _range(x)
    elif not is_tensor(x):
        x = as_tensor(x)
    x = array(x) if is_tensor(x) else numpy.asarray(x)
    before = x.ndim
    made = x.reshape((1,) * (max(ndmin, 1) - before) + x.shape) if before < max(ndmin, 1) else x
    if trans1d != -1 and 0 < before < ndmin:
        new = ndmin - before
        first = trans1d + ndmin + 1 if trans1d < 0 else trans1d
        first = min(first, new)
        order = [*range(first), *range(new, ndmin), *range(first, new)]
        made = made.transpose(order)
    return made


def _range(x: slice):
    """The contents of a slice: from, to, and a step or an imaginary count."""
    if not any(map(is_recorded, (x.start, x.stop, x.step))):
        return numpy.r_[x]
    start = 0 if x.start is None else x.start
    if isinstance(x.step, complex):
        return PUBLIC["linspace"](start, x.stop, int(abs(x.step)))
    return PUBLIC["arange"](start, x.stop, 1 if x.step is None else x.step)


class _Grid:
    """`np.mgrid` and `np.ogrid`; the ends of ranges may not be recorded."""

    def __init__(self, name: str, theirs):
        self._name, self._theirs = name, theirs
        self.__doc__ = theirs.__doc__

    def __getitem__(self, key):
        for part in key if isinstance(key, tuple) else (key,):
            if any(map(is_recorded, (part.start, part.stop, part.step))):
                raise lost_derivative(
                    f"tapegrad.numpy.{self._name}: an end of a range is recorded; use "
                    "np.meshgrid of np.linspace, which keep its derivative",
                    (part.start, part.stop, part.step),
                )
        made = self._theirs[key]
        return fresh(made) if rt.in_transform() else made


def ndenumerate(arr):
    arr = as_tensor(arr)
    if not is_tensor(arr):
        return numpy.ndenumerate(arr)
    return ((index, arr[index] if index else arr) for index in numpy.ndindex(arr.shape))


def _of_values(name: str):
    """A NumPy class that works on plain arrays, which includes tensors that are not recorded."""
    found = getattr(numpy, name)

    def make(*args, **kwargs):
        for argument in (*args, *kwargs.values()):
            items = argument if isinstance(argument, (list, tuple)) else [argument]
            if any(map(is_recorded, map(as_tensor, items))):
                raise lost_derivative(
                    f"tapegrad.numpy.{name}: an argument is recorded, so its derivative would be "
                    f"lost: {REFUSED[name]}; or t.detach() if no derivative is needed",
                    args,
                    kwargs,
                )
        args = [_valued(argument) for argument in args]
        return found(*args, **{key: _valued(argument) for key, argument in kwargs.items()})

    make.__name__ = make.__qualname__ = name
    make.__doc__ = found.__doc__
    make.__module__ = "tapegrad.numpy"
    return make


def _valued(argument):
    if isinstance(argument, (list, tuple)):
        return type(argument)([value_of(item) for item in argument])
    return value_of(argument)


nditer, broadcast = _of_values("nditer"), _of_values("broadcast")
ndenumerate.__doc__ = numpy.ndenumerate.__doc__
r_, c_ = _Joined(numpy.r_), _Joined(numpy.c_)
mgrid, ogrid = _Grid("mgrid", numpy.mgrid), _Grid("ogrid", numpy.ogrid)

__all__ = ["broadcast", "c_", "mgrid", "ndenumerate", "nditer", "ogrid", "r_"]
