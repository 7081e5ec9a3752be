"""NumPy's own code of series on tensors: its functions with other names in their globals.

NumPy's functions of polynomials convert their arguments to plain arrays, without dispatch, and
continue in Python. Here the same code runs with an `np` whose arrays are tensors, if an argument
holds one; otherwise NumPy's function is called. So values, trimming of zeros, errors and further
functions are those of NumPy.
"""

from __future__ import annotations

import inspect
import types

import numpy

import tapegrad.numpy as stand_in

from ..._core.tensor.copies import holds_tensor
from ..._core.tensor.values import FLOATS, is_tensor, value_of, wrap
from .._creators import _converted
from .._lists import SERIES, as_tensor, named_like


class _Arrays:
    """The `np` of rebuilt functions: the stand-in, except that new arrays are tensors."""

    def __getattr__(self, name: str):
        return getattr(stand_in, name)

    @staticmethod
    def array(object, dtype=None, *, copy=True, ndmin=0):
        made = as_tensor(object)
        if not is_tensor(made):
            return _tensor(numpy.array(made, dtype, copy=copy, ndmin=ndmin))
        return _converted("array", made, dtype, copy=copy, ndmin=ndmin)

    @staticmethod
    def asarray(a, dtype=None):
        return _Arrays.array(a, dtype, copy=None)

    asanyarray = asarray
    hstack = staticmethod(numpy.hstack)  # for constants, which stay plain


def _tensor(made: numpy.ndarray):
    return wrap(made) if made.dtype in FLOATS or made.dtype.kind in "iub" else made


def _making(name: str):
    found = getattr(numpy, name)
    return staticmethod(lambda *args, **kwargs: _tensor(found(*args, **kwargs)))


for _name in ("empty", "zeros", "ones", "full"):
    setattr(_Arrays, _name, _making(_name))
ARRAYS = _Arrays()


def rebuilt(found, space: dict):
    """A NumPy function with other globals."""
    found = inspect.unwrap(getattr(found, "_implementation", found))
    code, closure = found.__code__, found.__closure__
    made = types.FunctionType(code, space, found.__name__, found.__defaults__, closure)
    made.__kwdefaults__ = found.__kwdefaults__
    return made


def of_tensors(found, made, module: str):
    """A NumPy function, or another where an argument holds a tensor."""

    def function(*args, **kwargs):
        if holds_tensor((*args, *kwargs.values())):
            return made(*args, **kwargs)
        return found(*args, **kwargs)

    return named_like(function, found, module, SERIES)


def space_of(theirs: types.ModuleType, name: str, **others) -> dict:
    """The globals of a NumPy module with its functions rebuilt; `others` replace names."""
    space = {**vars(theirs), "__name__": name, "__package__": name.rpartition(".")[0]}
    space |= {"np": ARRAYS, **others}
    for key, found in vars(theirs).items():
        is_function = inspect.isfunction(inspect.unwrap(getattr(found, "_implementation", found)))
        if not is_function or key in others or key.startswith("__"):
            continue
        if found.__module__ == theirs.__name__:
            space[key] = of_tensors(found, rebuilt(found, space), name)
    return space


def rebuilt_class(theirs: type, space: dict, base: type, base_space: dict, **others) -> type:
    """A NumPy class whose methods take tensors, those of its base included."""
    fields = {"__module__": space["__name__"], "__doc__": theirs.__doc__}
    for one, names in ((base, base_space), (theirs, space)):
        for key, found in vars(one).items():
            if getattr(found, "__isabstractmethod__", False):
                continue
            if isinstance(found, staticmethod):
                ours = space.get(found.__func__.__name__)
                fields[key] = staticmethod(ours or rebuilt(found.__func__, names))
            elif isinstance(found, classmethod):
                fields[key] = classmethod(rebuilt(found.__func__, names))
            elif isinstance(found, types.FunctionType):
                fields[key] = rebuilt(found, names)
    return type(theirs)(theirs.__name__, (theirs,), fields | others)


def plain(x) -> numpy.ndarray:
    """The value of coefficients as NumPy prints it."""
    return numpy.asarray(value_of(x.detach() if is_tensor(x) else x))
