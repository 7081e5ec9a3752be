"""NumPy's classes of arrays and numbers; tensors count as what they represent.

Each is a subclass of NumPy's class, equal to it as a dtype, and makes NumPy's objects. `isinstance`
takes NumPy's objects, and tensors: numbers for `float64`, `floating`, `number`, others for
`ndarray`.
"""

from __future__ import annotations

import types
from typing import Any

import numpy

from .._core.tensor import runtime as rt
from .._core.tensor.conversions import PlainAsked
from .._core.tensor.plain_data import kind_of, possible_kinds
from .._core.tensor.trace import lost_derivative
from .._core.tensor.values import AS_PLAIN, FLOATS, is_recorded, is_tensor, scalar_of, value_of
from ._creators import fresh
from ._lists import STAND_INS, as_tensor, lost

_transforming = rt.transforming


class _Class(type):
    """The metaclass of the stand-ins; users' classes derived from them are like any other.

    `_theirs` is NumPy's class, None in those of users.
    """

    _theirs: type | None

    def __new__(mcs, name, bases, fields, **kwargs):
        return type.__new__(mcs, name, bases, {"_theirs": None, **fields}, **kwargs)

    def __instancecheck__(cls, instance):
        theirs = cls._theirs
        if theirs is None:
            return type.__instancecheck__(cls, instance)
        if isinstance(instance, theirs):
            return True
        return isinstance(instance, rt.Tensor) and issubclass(kind_of(instance), theirs)

    def __subclasscheck__(cls, subclass):
        theirs = cls._theirs
        if theirs is None:
            return type.__subclasscheck__(cls, subclass)
        return issubclass(subclass, theirs)

    def __call__(cls, *args, **kwargs):
        theirs = cls._theirs
        if theirs is None:
            return type.__call__(cls, *args, **kwargs)
        try:
            made = theirs(*args, **kwargs)
        except PlainAsked:
            return _converted(theirs, as_tensor(args[0]))
        if _transforming and cls is ndarray and made.base is None:
            return fresh(made) if rt.in_transform() else made
        return made

    def __eq__(cls, other):
        if cls._theirs is None or not isinstance(other, type):
            return NotImplemented
        return other is cls or other is cls._theirs

    def __hash__(cls):
        return type.__hash__(cls._theirs or cls)

    def __repr__(cls):
        return type.__repr__(cls._theirs or cls)


def _converted(theirs: Any, tensor):
    """The conversion of a tensor by a class of numbers: its derivative stays if there is one."""
    if not is_tensor(tensor) or issubclass(theirs, numpy.ndarray):
        raise lost(theirs.__name__, tensor)
    dtype = numpy.dtype(theirs)
    if dtype.kind not in "iub" and dtype not in FLOATS:
        if is_recorded(tensor):
            raise lost_derivative(
                f"tapegrad.numpy.{theirs.__name__}: a recorded value of dtype {tensor.dtype} "
                f"cannot become {dtype}, since its derivative would be lost; use np.float64(t), or "
                "tg.stop_gradient(t)",
                tensor,
            )
        return theirs(value_of(tensor))
    made = scalar_of(tensor if tensor.dtype == dtype else tensor.astype(dtype))
    is_pythons = type(made) is rt.Scalar and possible_kinds(made) != (numpy.float64,)
    return numpy.positive(made) if is_pythons else made


def _stand_in(theirs: type) -> type:
    fields = {"_theirs": theirs, "__module__": "tapegrad.numpy", "__doc__": theirs.__doc__}
    fields |= {"__qualname__": theirs.__name__, "__slots__": ()}
    if issubclass(theirs, numpy.generic) and theirs.__name__ not in _ABSTRACT:
        fields["dtype"] = numpy.dtype(theirs)
    return _Class(theirs.__name__, (theirs,), fields)


_ABSTRACT = "generic number inexact floating integer signedinteger unsignedinteger".split()
#: Concrete classes of numbers that can be derived from; NumPy's `bool` cannot.
_NUMBERS = (
    "float16 float32 float64 longdouble complex64 complex128 clongdouble "
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
).split()
_classes = {
    getattr(numpy, name): _stand_in(getattr(numpy, name))
    for name in ("ndarray", *_ABSTRACT, *_NUMBERS)
}
ndarray = _classes[numpy.ndarray]
AS_PLAIN.add(ndarray)  # the class of array.view(np.ndarray)


class _Ufunc(type):
    def __instancecheck__(cls, instance):
        if isinstance(instance, types.FunctionType):
            instance = STAND_INS.get(instance)
        return isinstance(instance, numpy.ufunc)


class ufunc(metaclass=_Ufunc):
    __doc__ = numpy.ufunc.__doc__
    __module__ = "tapegrad.numpy"


__all__ = ["ufunc"]
for _name, _class in vars(numpy).items():
    if isinstance(_class, type) and _class in _classes:  # aliases too, as `double` and `intp`
        globals()[_name] = _classes[_class]
        __all__.append(_name)
