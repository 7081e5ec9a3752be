"""Operators, methods and attributes of complex tensors."""

from __future__ import annotations

import copy
import sys

import numpy as np

from ..tensor import callers, conversions
from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.conversions import has_outlived
from ..tensor.copies import copy_tensor, unlisted
from ..tensor.plain_data import element_of, is_plain_text, takes_for_plain
from ..tensor.registry import PUBLIC, conjugate, own_memory, real_dtype
from ..tensor.trace import is_differentiated, lost_derivative, refuse
from ..tensor.values import (
    OF_PARTS,
    PARTS_OF,
    ComplexTensor,
    array_of,
    combined,
    dtype_of,
    imag_part,
    is_container,
    is_recorded,
    is_recorded_complex,
    real_part,
    shape_of,
    value_of_complex,
)
from .complex_operations import compared, power
from .creation import _namespace

# --- operators ------------------------------------------------------------------------------------

_OPERANDS = (rt.Tensor, ComplexTensor, np.ndarray, np.generic, int, float, complex, list, tuple)


def _understands(other) -> bool:
    return isinstance(other, _OPERANDS) or is_container(other)


def _binary(name: str, function):
    def method(self, other):
        if type(other) is ComplexTensor:
            return function(self, other)
        if not _understands(other):
            return conversions.by_operator(name, self, other)
        return function(self, unlisted(other))

    def reflected(self, other):
        if not _understands(other):
            return conversions.by_operator(name, other, self)
        return function(unlisted(other), self)

    return method, reflected


def _elementwise(name: str):
    return lambda x, y: apply(name, x, y)


_BINARY = {
    "add": _elementwise("add"),
    "sub": _elementwise("subtract"),
    "mul": _elementwise("multiply"),
    "truediv": _elementwise("divide"),
    "pow": lambda x, y: power(None, x, y),
    "matmul": lambda x, y: PUBLIC["matmul"](x, y),
}


def _in_place(function):
    def method(self, other):
        if not _understands(other):
            return NotImplemented
        made = function(self, unlisted(other))
        if not self.ndim:  # a number
            return made
        self[...] = made
        return self

    return method


def _compare(name: str):
    def method(self, other):
        return compared(name, self, other) if _understands(other) else NotImplemented

    return method


_COMPARISONS = dict(
    lt="less", le="less_equal", gt="greater", ge="greater_equal", eq="equal", ne="not_equal"
)

# --- elements -------------------------------------------------------------------------------------


def _get_item(self, key):
    return combined(self._re[key], self._im[key])


def _set_item(self, key, value):
    """Both parts are written; the values are read before."""
    value = unlisted(value)
    re, im = real_part(value), imag_part(value)
    if isinstance(im, rt.Tensor) and np.may_share_memory(array_of(im), array_of(self._re)):
        im = copy_tensor(im)
    self._re[key] = re
    self._im[key] = im


def _length(self):
    return len(self._re)


def _iterate(self):
    return (combined(re, im) for re, im in zip(self._re, self._im, strict=True))


# --- leaving --------------------------------------------------------------------------------------


def _as_array(self, dtype=None, copy=None):
    """The array for `np.asarray(z)`."""
    frame = sys._getframe(1)
    parts = (self._re, self._im) if rt.is_recording() else ()
    recorded = [part for part in parts if is_recorded(part)]
    shown = callers.compares(frame) or callers.shows(
        frame, lambda: any(map(is_differentiated, recorded))
    )
    if recorded and not shown and not all(map(has_outlived, recorded)):
        if conversions.left_by(frame):
            return conversions.left(self)
        raise conversions.as_array(frame, self)
    if recorded:
        refuse("np.asarray() reads complex numbers")
    return np.asarray(value_of_complex(self), dtype)


def _numpy(self):
    """Return the values as a NumPy array.

    Returns
    -------
    ndarray

    Raises
    ------
    RuntimeError
        If the tensor is recorded; use `detach().numpy()`.
    """
    if is_recorded_complex(self):
        raise RuntimeError(
            "tapegrad.numpy: the tensor is recorded, so its derivative would be lost; use "
            "detach().numpy()"
        )
    return np.asarray(value_of_complex(self))


def _item(self, *index):
    """Return an element as a Python complex number.

    In functions that a transform enters, it keeps its derivative; elsewhere it has none.

    Parameters
    ----------
    *index : int
        The position of the element; not needed for tensors with one element.

    Returns
    -------
    complex
    """
    if rt.transforming and takes_for_plain(sys._getframe(1)) and is_recorded_complex(self):
        number = element_of(self, index).reshape(())
        return number if number.dtype == np.complex128 else number.astype(complex)
    return complex(real_part(self).item(*index), imag_part(self).item(*index))


def _tolist(self):
    """Return the values as nested lists of Python complex numbers.

    In functions that a transform enters, they keep their derivatives; elsewhere they have none.

    Returns
    -------
    list or complex

    Raises
    ------
    TypeError
        Inside a transform that differentiates the tensor and does not enter functions.
    """
    if rt.transforming and takes_for_plain(sys._getframe(1)) and is_recorded_complex(self):
        whole = self if self.dtype == np.complex128 else self.astype(complex)
        return _numbers(whole)
    if any(is_recorded(part) and is_differentiated(part) for part in (self._re, self._im)):
        raise lost_derivative(
            "tapegrad.tolist: the tensor is recorded, and inside a transform its derivative would "
            f"be lost ({callers.users_line()}); use list(z), whose elements keep it, or "
            "z.detach().tolist() for plain numbers",
            self,
        )
    refuse("tolist() reads complex numbers")
    return np.asarray(value_of_complex(self)).tolist()


def _numbers(tensor):
    return [_numbers(one) for one in tensor] if tensor.ndim else tensor


def _complex(self):
    if self.size != 1:
        raise TypeError(
            "tapegrad: complex() needs a tensor with one element; the tensor has shape "
            f"{self.shape}"
        )
    if any(is_recorded(part) and is_differentiated(part) for part in (self._re, self._im)):
        raise conversions.as_float(sys._getframe(1), self, "complex")
    return complex(self._re.item(), self._im.item())


def _real_only(kind):
    def method(self):
        raise TypeError(
            f"tapegrad: {kind}() of a complex tensor; take z.real or abs(z), or use complex()"
        )

    return method


def _truth(self):
    if self.size != 1:
        raise ValueError(
            f"tapegrad: the truth of a tensor of shape {self.shape} is ambiguous; use any() or "
            "all()"
        )
    return bool(self != 0)


def _text(self, plainly):
    value = np.asarray(value_of_complex(self))
    refuse("a format reads complex numbers")
    if is_plain_text():
        return plainly(value[()])
    body = np.array2string(value, separator=", ", prefix="tensor(")
    dtype = "" if value.dtype == np.complex128 else f", dtype={value.dtype}"
    grad = ", requires_grad=True" if is_recorded_complex(self) else ""
    return f"tensor({body}{dtype}{grad})"


def _formatted(self, layout):
    if not layout:
        return str(self)
    if self.ndim:
        raise TypeError(
            f"tapegrad: the format {layout!r} applies to numbers, but the tensor has shape "
            f"{self.shape}; use np.array2string(z.detach().numpy(), precision=…)"
        )
    refuse("a format reads complex numbers")
    return format(complex(np.asarray(value_of_complex(self)).item()), layout)


# --- attributes and methods -----------------------------------------------------------------------


def _astype(self, dtype, order="K", *, copy=True):
    """Convert to another complex dtype.

    Parameters
    ----------
    dtype : dtype
        complex128 or complex64.
    order : {"C", "F", "A", "K"}, optional
        The memory order of the result.
    copy : bool, optional
        If false, a tensor that has the dtype is returned itself.

    Returns
    -------
    ComplexTensor
    """
    part = real_dtype("astype", dtype)
    return combined(
        self._re.astype(part, order, copy=copy), self._im.astype(part, order, copy=copy)
    )


_AS = """Do what {what}

Parameters
----------
*args, **kwargs
    Its arguments.

Returns
-------
ComplexTensor or Tensor
"""


def _by_parts(name: str):
    def method(self, *args, **kwargs):
        re, im = (getattr(part, name)(*args, **kwargs) for part in (self._re, self._im))
        return combined(re, im)

    method.__name__ = name
    method.__doc__ = _AS.format(what=f"`Tensor.{name}` does, for both parts.")
    return method


def _public(name: str):
    def method(self, *args, **kwargs):
        return PUBLIC[name](self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = _AS.format(what=f"`tapegrad.{name}` does.")
    return method


def _sort(self, axis=-1, kind=None, order=None, *, stable=None):
    """Sort along an axis, in place; what `tapegrad.sort` refuses is refused.

    Parameters
    ----------
    axis : int, optional
        The axis.
    kind, order, stable : optional
        Have no effect.

    Returns
    -------
    None
    """
    _set_item(self, ..., PUBLIC["sort"](self, axis))


def _grad(self):
    """The sum of backward passes: ∂L/∂x + i ∂L/∂y of z = x + iy; None before."""
    parts = [part.grad for part in (self._re, self._im)]
    if parts == [None, None]:
        return None
    zeros = np.zeros(self.shape, PARTS_OF[self.dtype])
    return combined(*[zeros if part is None else part for part in parts])


def _set_grad(self, value):
    self._re.grad = None if value is None else real_part(value)
    self._im.grad = None if value is None else imag_part(value)


def _requires_grad_(self, requires_grad=True):
    """Make the tensor an input that requires grad, in place, or one that does not.

    Parameters
    ----------
    requires_grad : bool, optional
        Whether operations with the tensor are recorded.

    Returns
    -------
    ComplexTensor
        The tensor itself.
    """
    for part in (self._re, self._im):
        part.requires_grad_(requires_grad)
    return self


def _backward(self, gradient=None, *args, **kwargs):
    """Raise RuntimeError: a gradient is of a real number; use z.real, z.imag or abs(z).

    Parameters
    ----------
    gradient, *args, **kwargs
        As in `Tensor.backward`.

    Returns
    -------
    None
    """
    raise RuntimeError(
        "tapegrad.backward: the tensor is complex, but only real numbers have a gradient; use "
        "z.real, z.imag or abs(z)"
    )


def _set_real(self, value):
    self._re[...] = value


def _set_imag(self, value):
    self._im[...] = value


METHODS = {
    "__getitem__": _get_item,
    "__setitem__": _set_item,
    "__len__": _length,
    "__iter__": _iterate,
    "__reversed__": lambda self: (self[k] for k in reversed(range(len(self)))),
    "__neg__": lambda self: apply("negative", self),
    "__pos__": own_memory,
    "__abs__": lambda self: apply("absolute", self),
    "__bool__": _truth,
    "__complex__": _complex,
    "__float__": _real_only("float"),
    "__int__": _real_only("int"),
    "__array__": _as_array,
    "__array_namespace__": _namespace,
    "__repr__": lambda self: _text(self, repr),
    "__str__": lambda self: _text(self, str),
    "__format__": _formatted,
    "__reduce__": lambda self: (combined, (self._re, self._im)),
    "__copy__": lambda self: combined(copy.copy(self._re), copy.copy(self._im)),
    "__deepcopy__": lambda self, memo: combined(
        copy.deepcopy(self._re, memo), copy.deepcopy(self._im, memo)
    ),
    "shape": property(lambda self: shape_of(self._re), doc="The length of each axis."),
    "ndim": property(lambda self: len(shape_of(self._re)), doc="The number of axes."),
    "size": property(lambda self: array_of(self._re).size, doc="The number of elements."),
    "dtype": property(lambda self: OF_PARTS[dtype_of(self._re)], doc="The complex dtype."),
    "itemsize": property(lambda self: self.dtype.itemsize, doc="The bytes of an element."),
    "nbytes": property(
        lambda self: self.dtype.itemsize * self.size, doc="The bytes of all elements."
    ),
    "device": property(lambda self: "cpu", doc='Where the tensor is: always "cpu".'),
    "real": property(lambda self: self._re, _set_real, doc="The real part."),
    "imag": property(lambda self: self._im, _set_imag, doc="The imaginary part."),
    "T": property(
        lambda self: combined(self._re.T, self._im.T), doc="The tensor with its axes reversed."
    ),
    "mT": property(
        lambda self: combined(self._re.mT, self._im.mT),
        doc="The tensor with its last two axes exchanged.",
    ),
    "grad": property(_grad, _set_grad),
    "requires_grad": property(is_recorded_complex, _requires_grad_),
    "requires_grad_": _requires_grad_,
    "is_leaf": property(
        lambda self: self._re.is_leaf and self._im.is_leaf,
        doc="Whether the parts are inputs, or are not recorded.",
    ),
    "backward": _backward,
    "conj": conjugate,
    "conjugate": conjugate,
    "astype": _astype,
    "numpy": _numpy,
    "item": _item,
    "sort": _sort,
    "tolist": _tolist,
}
_PARTWISE = "reshape ravel flatten transpose squeeze swapaxes copy clone detach view"
METHODS |= {name: _by_parts(name) for name in _PARTWISE.split()}
_PUBLIC = "sum mean prod cumsum take repeat diagonal trace dot round all any std var choose"
METHODS |= {name: _public(name) for name in _PUBLIC.split()}
METHODS |= {f"__{short}__": _compare(name) for short, name in _COMPARISONS.items()}
for _name, _function in _BINARY.items():
    METHODS[f"__{_name}__"], METHODS[f"__r{_name}__"] = _binary(_name, _function)
    METHODS[f"__i{_name}__"] = _in_place(_function)
for _name, _method in METHODS.items():
    setattr(ComplexTensor, _name, _method)
