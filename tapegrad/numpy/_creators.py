"""Functions that create arrays of floats: inside transforms tensors, which can be written to;
`poly1d`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy

from .._core.operations import PUBLIC
from .._core.operations.shapes import array_tensor
from .._core.tape.sweeps import has_order
from .._core.tensor import runtime as rt
from .._core.tensor.conversions import PlainAsked
from .._core.tensor.copies import copy_tensor, holds_tensor
from .._core.tensor.registry import real_dtype
from .._core.tensor.trace import lost_derivative
from .._core.tensor.values import (
    FLOATS,
    PARTS_OF,
    ComplexTensor,
    array_of,
    combined,
    imag_part,
    is_recorded,
    is_tensor,
    real_part,
    value_of,
    wrap,
)
from ._lists import CONVERTS, SERIES, again, as_tensor, creates, lost, named_like

# --- creators -------------------------------------------------------------------------------------
# Functions that create arrays of floats: inside transforms tensors, which can be written.

_transforming, _mode = rt.transforming, rt._mode

#: Functions that give arrays of their own whatever they are given; not every NumPy has all.
_FRESH = (
    "zeros ones empty eye identity tri zeros_like ones_like empty_like copy linspace logspace "
    "geomspace indices fromfunction fromstring fromfile loadtxt genfromtxt vander "
    "meshgrid repeat tile concatenate concat stack hstack vstack dstack column_stack row_stack "
    "append insert delete resize block diag diagflat bartlett blackman hamming hanning"
).split()
_FRESH = [name for name in _FRESH if name in numpy.__all__]
#: Functions that give a tensor as it is where NumPy gives an array as it is.
_CONVERSIONS = "asarray asanyarray ascontiguousarray asfortranarray asarray_chkfinite".split()


# --- results --------------------------------------------------------------------------------------


def fresh(made):
    """A newly created result inside a transform: arrays of floats as tensors."""
    if type(made) is numpy.ndarray:
        return wrap(made) if made.dtype in FLOATS or made.dtype in PARTS_OF else made
    if type(made) in (tuple, list):
        return type(made)([fresh(part) for part in made])
    return made


def _own(made, source):
    """As `fresh`, of an array that does not share memory; others are unchanged."""
    is_foreign = not isinstance(source, numpy.ndarray) and hasattr(source, "__array__")
    return made if made is source or made.base is not None or is_foreign else fresh(made)


def _is_shared(made, args) -> bool:
    """Whether an array is memory of an argument, or one of several is."""
    parts = made if type(made) in (tuple, list) else [made]
    given = [a for a in args if isinstance(a, numpy.ndarray)]
    return any([numpy.may_share_memory(part, a) for part in parts for a in given])


def _creator(name: str, found):
    """A NumPy function whose results inside transforms are tensors."""

    def function(*args, **kwargs):
        try:
            if not (_transforming and _mode.depth):
                return found(*args, **kwargs) if kwargs else found(*args)
            if is_tensor(kwargs.get("like")):
                kwargs["like"] = None
            made = found(*args, **kwargs)
            return made if _is_shared(made, args) else fresh(made)
        except PlainAsked:
            pass
        return again(found, args, kwargs)

    return named_like(function, found, note=creates(found))


#: Represents a missing argument.
_NONE = object()


def _with_recorded(name: str, found):
    """`full`, `full_like` or `arange`, on whose arguments NumPy does not dispatch.

    The last positional argument is of one of the `plain` classes where nothing is recorded.
    """
    of_shape = name != "arange"  # the first argument is
    plain: tuple[type, ...] = (int, float)
    if of_shape:
        plain = *plain, bool, numpy.float64, numpy.ndarray

    def function(first=_NONE, second=_NONE, /, *others, **kwargs):
        if not (_transforming or others or kwargs):
            try:  # calls of one or two arguments, in fewer nanoseconds
                if second is _NONE and type(first) in plain:
                    return found(first)
                if type(second) in plain:
                    return found(first, second)
            except PlainAsked:
                pass
        args = [a for a in (first, second, *others) if a is not _NONE]
        inside = _transforming and _mode.depth
        args = [a if of_shape and k == 0 else as_tensor(a) for k, a in enumerate(args)]
        kwargs = {k: a if k == "shape" else as_tensor(a) for k, a in kwargs.items()}
        fills = [*args[of_shape:], *[a for k, a in kwargs.items() if k not in ("shape", "a")]]
        if any(map(is_recorded, fills)):
            kwargs = {k: a for k, a in kwargs.items() if k not in ("like", "device")}
            return PUBLIC[name](*args, **kwargs)
        args = [*args[:of_shape], *map(value_of, args[of_shape:])]
        kwargs = {k: a if k == "a" else value_of(a) for k, a in kwargs.items()}
        return fresh(found(*args, **kwargs)) if inside else found(*args, **kwargs)

    return named_like(function, found, note=creates(found))


# --- conversions ----------------------------------------------------------------------------------


_array = numpy.array


def array(object, *args, **kwargs):
    try:
        if not (_transforming and _mode.depth):
            return _array(object, *args, **kwargs) if args or kwargs else _array(object)
        if not is_tensor(object):
            made = _array(object, *args, **kwargs)
            return fresh(made) if kwargs.get("copy", True) else _own(made, object)
    except PlainAsked:
        pass
    return _converted("array", object, *args, **{"copy": True, **kwargs})


def _conversion(name: str, found):
    """One of the functions that give arrays as they are, or as near as can be."""
    order_of = {"ascontiguousarray": "C", "asfortranarray": "F"}.get(name)

    def function(a, *args, **kwargs):
        try:
            if not (_transforming and _mode.depth):
                return found(a, *args, **kwargs) if args or kwargs else found(a)
            if not is_tensor(a):
                return _own(found(a, *args, **kwargs), a)
        except PlainAsked:
            pass
        given = {**dict(zip(("dtype", "order"), args, strict=False)), **kwargs}
        order = order_of or given.pop("order", None) or "K"
        made = _converted(name, a, **given, order=order, ndmin=1 if order_of else 0)
        if name == "asarray_chkfinite" and not PUBLIC["all"](PUBLIC["isfinite"](made)):
            raise ValueError("array must not contain infs or NaNs")
        return made

    return named_like(function, found, note=CONVERTS)


def _converted(name, source, dtype=None, *, copy=None, order="K", ndmin=0, **_ignored):
    """A tensor, or a list with recorded values, as NumPy's conversions give arrays."""
    made = as_tensor(source)
    if is_tensor(made) and is_recorded(made) and not rt.is_recording() and rt.trace() is None:
        made = made.detach()  # as NumPy's takes the values
    if type(made) is ComplexTensor or (dtype is not None and numpy.dtype(dtype) in PARTS_OF):
        return _converted_complex(name, made, dtype, copy, order, ndmin)
    if not is_tensor(made):
        raise lost(name, made)
    dtype = made.dtype if dtype is None else numpy.dtype(dtype)
    if dtype.kind not in "iub" and dtype not in FLOATS:
        if is_recorded(made):
            raise lost_derivative(
                f"tapegrad.numpy.{name}: a recorded value of dtype {made.dtype} cannot become "
                f"{dtype}, since its derivative would be lost; use dtype=float, or "
                "t.detach().numpy() if no derivative is needed",
                made,
            )
        return numpy.array(value_of(made), dtype, copy=copy, order=order, ndmin=ndmin)
    made = array_tensor(made)
    if dtype != made.dtype:
        made = made.astype(dtype, order)
    elif made is source and (copy or not has_order(array_of(made), order)):
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        made = copy_tensor(made, order)
    if copy is False and made is not source:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return made if made.ndim >= ndmin else made.reshape((1,) * (ndmin - made.ndim) + made.shape)


def _converted_complex(name, made, dtype, copy, order, ndmin):
    """A complex tensor: of both parts what `_converted` makes."""
    if type(made) is not ComplexTensor and not is_tensor(made):
        raise lost(name, made)
    part = None if dtype is None else real_dtype(name, dtype)
    options = dict(copy=copy, order=order, ndmin=ndmin)
    im = imag_part(made)
    im = im if is_tensor(im) else wrap(numpy.zeros(numpy.shape(made), part))
    return combined(*[_converted(name, x, part, **options) for x in (real_part(made), im)])


def require(a, dtype=None, requirements=None, **kwargs):
    a = as_tensor(a)
    if not is_tensor(a):
        return numpy.require(a, dtype, requirements, **kwargs)
    letters = {str(r)[0].upper() for r in requirements or ()}
    order = "F" if "F" in letters else "C" if "C" in letters else "K"
    return _converted("require", a, dtype, order=order, copy="O" in letters or None)


def fromiter(iter, dtype, count=-1, **kwargs):
    items = list(iter if count < 0 else itertools.islice(iter, count))
    if any(map(is_recorded, items)):
        if len(items) < count:
            raise ValueError(
                f"iterator too short: Expected {count} but iterator had only {len(items)} items."
            )
        return _converted("fromiter", items, dtype)
    made = numpy.fromiter(items, dtype, count, **kwargs)
    return fresh(made) if _transforming and _mode.depth else made


def kaiser(M, beta):
    recorded = is_tensor(M) or is_tensor(beta)
    made = PUBLIC["kaiser"](M, beta) if recorded else numpy.kaiser(M, beta)
    return fresh(made) if _transforming and _mode.depth else made


def _converting(name: str, found):
    """One of those above that convert recorded values."""
    return named_like(globals()[name], found, note=CONVERTS)


#: What makes the functions of this file, by their names.
MAKERS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(_FRESH, _creator),
    **dict.fromkeys(_CONVERSIONS, _conversion),
    **dict.fromkeys(("array", "require", "fromiter"), _converting),
    **dict.fromkeys(("full", "full_like", "arange"), _with_recorded),
    "kaiser": lambda _, found: named_like(kaiser, found),
}


# --- poly1d ---------------------------------------------------------------------------------------
# `poly1d` and the functions that take it, with recorded coefficients.

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


POLY1D_MAKERS = {"poly1d": lambda *_: poly1d, **dict.fromkeys(_NAMES, _function)}
