"""`poly1d` and the functions that take it, with recorded coefficients."""

from __future__ import annotations

import numpy

from .._core.operations import PUBLIC
from .._core.tensor.copies import holds_tensor
from .._core.tensor.values import is_tensor
from ._lists import as_tensor, named_like
from ._notes import SERIES

_NAMES = "polyval polyadd polysub polymul polydiv polyder polyint polyfit poly roots".split()


class poly1d(numpy.poly1d):
    __doc__ = numpy.poly1d.__doc__
    __module__ = "tapegrad.numpy"
    __hash__ = None

    def __init__(self, c_or_r, r=False, variable=None):
        c_or_r = as_tensor(c_or_r)
        super().__init__(PUBLIC["poly"](c_or_r) if r else c_or_r, False, variable)

    def __truediv__(self, other):
        if _is_scalar(other):
            return poly1d(self.coeffs / other)
        return PUBLIC["polydiv"](self, poly1d(other))

    def __rtruediv__(self, other):
        if _is_scalar(other):
            return poly1d(other / self.coeffs)
        return PUBLIC["polydiv"](poly1d(other), self)


def _is_scalar(x) -> bool:
    return numpy.isscalar(x) or (is_tensor(x) and not x.ndim)


def _ours(name: str):
    """A method whose results are of this class, as those of NumPy's method are of NumPy's class."""
    theirs = getattr(numpy.poly1d, name)

    def method(self, *args, **kwargs):
        made = theirs(self, *[_plain_list(a) for a in args], **kwargs)
        return poly1d(made) if isinstance(made, numpy.poly1d) else made

    method.__name__, method.__doc__ = name, theirs.__doc__
    return method


def _plain_list(argument):
    """A list with recorded values as a tensor: NumPy's methods make a `poly1d` of it."""
    return as_tensor(argument) if isinstance(argument, (list, tuple)) else argument


for _name in (
    "__neg__ __mul__ __rmul__ __add__ __radd__ __sub__ __rsub__ __pow__ __call__ integ deriv"
).split():
    setattr(poly1d, _name, _ours(_name))


def _holds(argument) -> bool:
    if isinstance(argument, numpy.poly1d):
        return is_tensor(argument.coeffs)
    return holds_tensor((argument,))


def _function(name: str, found):
    """NumPy's function, or ours if an argument is recorded or a `poly1d` holds a tensor."""

    def function(*args, **kwargs):
        if any(map(_holds, (*args, *kwargs.values()))):
            return PUBLIC[name](*args, **kwargs)
        return found(*args, **kwargs)

    return named_like(function, found, note=SERIES)


MAKERS = {"poly1d": lambda *_: poly1d, **dict.fromkeys(_NAMES, _function)}
