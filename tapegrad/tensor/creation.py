"""Making tensors, and what leaves them again as plain values."""

from __future__ import annotations

import dis
import sys
import warnings
from typing import Any

import numpy as np

from ..tape import store
from . import runtime as rt
from .aliases import Origin, is_relied_on, tell_each_other, tell_rows, told_of
from .linking import convert, copy_tensor, pack, unlisted
from .namespace import function
from .steering import is_steering, learned, named, steered, steering_tensor
from .values import (
    FLOATS,
    Leaf,
    Storage,
    array_of,
    check_recordable,
    is_recorded,
    is_tensor,
    meta_of,
    records,
    storage_of,
    value_of,
    wrap,
)

_STORE_ITEM = dis.opmap["STORE_SUBSCR"]


def _input(array: Any):
    """An input that requires grad, on an array that nobody else writes."""
    _check_dtype("tensor", array)
    made = wrap(_owner(array))
    _become_input(made)
    return made


def _check_dtype(name, array) -> None:
    if array.dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.{name}: only float64 and float32 can require grad, not {array.dtype}; "
            "pass dtype=float"
        )


def _owner(array: Any) -> np.ndarray:
    """An array on the same memory that its views name as their base."""
    return array if array.base is None else np.asarray(memoryview(array))


def _become_input(tensor) -> None:
    number, chunk = store.new_input(tensor._array)
    rt.attach(tensor, number, chunk)
    tensor._meta = Leaf()
    store.watch(tensor, number)


@function()
def tensor(data, dtype=None, requires_grad=False):
    """A tensor with a copy of `data`: numbers, nested lists, an array.

    With `requires_grad`, what is computed from it is recorded and `backward()` adds to its `grad`.
    The dtype is NumPy's for the data (float64 from Python floats). Raises TypeError when the data
    are not numbers or cannot require grad.

    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    return _new("tensor", data, dtype, requires_grad, copy_data=True)


@function()
def asarray(data, dtype=None, requires_grad=False):
    """A tensor that shares memory with the array `data`; a tensor comes back as it is."""
    if is_tensor(data) and dtype in (None, data.dtype) and not requires_grad:
        return data
    return _new("asarray", data, dtype, requires_grad, copy_data=False)


def _new(name, data, dtype, requires_grad, copy_data):
    rt.start()
    data = unlisted(data)
    if is_recorded(data):
        if requires_grad:
            _refuse_input()
            data = data.detach()
        else:
            made = copy_tensor(data)
            return made if dtype is None else astype(made, dtype)
    source = value_of(data)
    array = np.array(source, dtype=dtype, order="C" if copy_data else None, copy=copy_data or None)
    if not copy_data:
        array = array.view()  # not the caller's object, whose shape and dtype are the caller's
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"tapegrad.{name}: the data have dtype {array.dtype}; tensors hold real numbers and "
            "booleans"
        )
    if not requires_grad:
        return wrap(array)
    if copy_data or not (array.flags.c_contiguous and array.flags.aligned):
        return _input(np.array(array, array.dtype.newbyteorder("="), order="C"))
    made = _input(np.asarray(memoryview(array)))
    if is_tensor(data):
        tell_each_other(made, storage_of(data))
    return made


def _filling(name: str, number: int, argument):
    """An argument of a function that makes a tensor; of those named …_like the first is a shape."""
    trace = rt.trace()
    of_shape = name.endswith("_like") and number == 0
    if trace is not None and is_recorded(argument) and not of_shape:
        trace.refuse(f"{name} is filled from a tensor")
    return value_of(argument)


def _refuse_input() -> None:
    """In a trace the derivative with respect to a new input cannot be asked for."""
    trace = rt.trace()
    if trace is not None:
        trace.refuse("an input is made of a tensor (requires_grad=True)")


def _creator(name):
    numpy_function = getattr(np, name)

    def create(*args, requires_grad=False, **kwargs):
        rt.start()
        args = [_filling(name, k, a) for k, a in enumerate(args)]
        array = np.ascontiguousarray(numpy_function(*args, **kwargs)).reshape(
            np.shape(numpy_function(*args, **kwargs))
        )
        return _input(array) if requires_grad else wrap(array)

    create.__name__ = name
    create.__doc__ = (
        f"{name}(…, requires_grad=False): NumPy's {name}, as a tensor (float64 unless dtype says "
        "otherwise)."
    )
    return function()(create)


for _name in "zeros ones full empty arange linspace eye identity logspace geomspace".split():
    _creator(_name)
for _name in "zeros_like ones_like full_like empty_like".split():
    function(_name)(_creator(_name))


def detach(self):
    """The value as a tensor that is not recorded; it shares memory."""
    if rt.trace() is not None and is_recorded(self):
        made = steering_tensor(np.array, self)
        rt.trace().detached.add(made._id)
        made._array.flags.writeable = False  # so that compiled code leaves writes to Python
        return made
    if type(self) is not rt.Array:
        return wrap(self._value)
    made = wrap(self._array)
    if is_recorded(self):
        tell_rows(made, self)
    elif is_relied_on(self):
        storage_of(made).tensor = told_of(self)
    return made


def numpy_value(self):
    """The value as a NumPy array that shares memory; raises RuntimeError if it is recorded."""
    if learned(self, "numpy()") and (not is_recorded(self) or is_steering(self)):
        return array_of(self).view()
    if is_recorded(self):
        raise RuntimeError(
            "tapegrad.numpy: the tensor is recorded, its derivative would be lost; use "
            "detach().numpy()"
        )
    return array_of(self).view()  # whose shape and dtype may be changed: rows have the other


def as_numpy_array(self, dtype=None, copy=None):
    """What `np.asarray(t)` asks for."""
    if learned(self, "np.asarray()") and is_recorded(self) and is_steering(self):
        return np.array(array_of(self).view(), dtype=dtype, copy=copy)
    if is_recorded(self):
        raise TypeError(
            "tapegrad: a recorded tensor cannot become a plain NumPy array, its derivative would "
            "be lost; use detach().numpy(), or make the array it is written to with tg.zeros_like"
        )
    return np.array(array_of(self).view(), dtype=dtype, copy=copy)


def item(self, *index):
    """The one element as a Python number; the derivative is left behind silently."""
    learned(self[index] if index else self, "item()")
    if type(self) is rt.Scalar:
        return self._value
    return self._array.item(*index)


def tolist(self):
    """The value as nested lists of Python numbers."""
    learned(self, "tolist()")
    return array_of(self).tolist()


def astype(self, dtype, copy=True):
    """The tensor in another dtype; a conversion to integers or booleans is not recorded."""
    dtype = np.dtype(dtype)
    value = array_of(self)
    if value.dtype == dtype and not copy:
        return self
    if not records(self) or dtype.kind != "f" or value.dtype.kind != "f":
        return steering_tensor(converted, self, dtype=dtype)
    if value.dtype == dtype:
        return copy_tensor(self)
    return convert(self if type(self) is rt.Array else pack(self), dtype)


@named
def converted(value, dtype):
    return np.asarray(value).astype(dtype)


def _lossy(kind):
    """`float()` or `int()` of a tensor, which warn that the derivative is lost."""

    def method(self):
        value = value_of(self)
        if value.size != 1:
            raise TypeError(
                f"tapegrad: {kind.__name__}() of a tensor of shape {value.shape}; only one element "
                "can become a number"
            )
        learned(self, f"{kind.__name__}()")
        if is_recorded(self) and rt.is_recording() and not is_steering(self):
            _warn_of_loss(kind.__name__, sys._getframe(1))
        return kind(value.item())

    return method


def _warn_of_loss(name, frame):
    """Say that the line at which a frame is loses a derivative; refuse it if it is `y[i] = t`."""
    line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    if _writes_item(frame):
        raise TypeError(
            f"tapegrad: a recorded tensor cannot be written to a plain NumPy array ({line}), its "
            "derivative would be lost; make the array with tg.zeros_like, or write detach()"
        )
    warnings.warn(
        f"{name}() of a recorded tensor loses its derivative ({line}); use item() if that is "
        "meant, or NumPy's functions on the tensor",
        RuntimeWarning,
        stacklevel=3,
    )


def _writes_item(frame) -> bool:
    """Whether a frame is at `y[i] = t`.

    NumPy then asks `t` for float() alone, and nothing but the frame's own instruction tells that
    from `float(t)`.
    """
    return frame.f_code.co_code[frame.f_lasti] == _STORE_ITEM


def _bool(self):
    value = value_of(self)
    if value.size != 1:
        raise ValueError(
            f"tapegrad: the truth of a tensor of shape {value.shape} is ambiguous; use any() or "
            "all()"
        )
    learned(steered(np.not_equal, self, 0) if value.dtype.kind == "f" else self, "bool()")
    return bool(value.item())


def _index(self):
    value = array_of(self)
    if value.ndim or value.dtype.kind not in "iu":
        raise TypeError("tapegrad: only integer tensors without axes can be used as an index")
    learned(self, "an index")
    return int(value)


def _text(self):
    learned(self, "str()")
    body = np.array2string(array_of(self), separator=", ", prefix="tensor(")
    value = array_of(self)
    dtype = "" if value.dtype in (np.float64, np.int64, np.bool_) else f", dtype={value.dtype}"
    node = self.grad_fn
    grad = ", requires_grad=True" if is_recorded(self) else ""
    grad = grad if node is None else f", grad_fn=<{node.name()}>"
    return f"tensor({body}{dtype}{grad})"


def _iterate(self):
    shape = np.shape(value_of(self))
    if not shape:
        raise TypeError("tapegrad: a tensor without axes cannot be iterated")
    return (self[k] for k in range(shape[0]))


def _length(self):
    shape = np.shape(value_of(self))
    if not shape:
        raise TypeError("tapegrad: a tensor without axes has no length")
    return shape[0]


def _requires_grad_(self, requires_grad=True):
    """Make a tensor that is not recorded an input, or an input one that is not recorded.

    An input that stops requiring grad loses its `grad`. Raises RuntimeError for a tensor that was
    computed from inputs, and for an element read from a tensor.
    """
    if requires_grad == is_recorded(self):
        return self
    if not requires_grad:
        if not _is_input(self):
            raise RuntimeError(
                "tapegrad.requires_grad_: only inputs can stop requiring grad; detach()"
            )
        retired = Origin(self)
        store.retire_input(self._id)
        rt.attach(self, -1, 0)
        self._meta = Storage(self._array)
        told_of(self).own.append(retired)  # rows have read it
        return self
    if type(self) is rt.Scalar:
        raise RuntimeError(
            "tapegrad.requires_grad_: the tensor is an element read from another, or computed from "
            "such elements; these are numbers and keep no grad: make an input of it with "
            "tg.tensor(t, requires_grad=True)"
        )
    _check_dtype("requires_grad_", self._array)
    check_recordable("requires_grad_", self._array)
    before = meta_of(self)
    rt.hold(self, _owner(self._array))
    _become_input(self)
    if type(before) is Storage:
        tell_each_other(self, before)
    return self


def _requires_grad(self) -> bool:
    return is_recorded(self) and not is_steering(self)


METHODS = {
    "detach": detach,
    "numpy": numpy_value,
    "item": item,
    "tolist": tolist,
    "astype": astype,
    "requires_grad_": _requires_grad_,
    "__array__": as_numpy_array,
    "__float__": _lossy(float),
    "__int__": _lossy(int),
    "__bool__": _bool,
    "__index__": _index,
    "__repr__": _text,
    "__iter__": _iterate,
    "__len__": _length,
    "shape": property(lambda self: np.shape(value_of(self))),
    "ndim": property(lambda self: np.ndim(value_of(self))),
    "size": property(lambda self: int(np.size(value_of(self)))),
    "dtype": property(lambda self: np.asarray(value_of(self)).dtype),
    "nbytes": property(lambda self: array_of(self).nbytes),
    "requires_grad": property(_requires_grad, _requires_grad_),
    "is_leaf": property(lambda self: not is_recorded(self) or _is_input(self)),
    "__array_namespace__": lambda self, api_version=None: sys.modules["tapegrad"],
}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)


def _is_input(tensor) -> bool:
    return type(tensor) is rt.Array and type(meta_of(tensor)) is Leaf


@function("copy", method="copy")
def copy(x):
    """copy(x): a new tensor with the same value, recorded."""
    return copy_tensor(unlisted(x))


for _name, _method in {"clone": copy}.items():
    setattr(rt.Tensor, _name, _method)
