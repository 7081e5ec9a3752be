"""Conversions of tensors to plain values: detach, arrays, Python's numbers, text.

A number that Python converts, as in `math.sin(t)`, loses its derivative. Inside a transform that
would be a wrong gradient, and is refused; for a tensor of the user it warns.
"""

from __future__ import annotations

import hashlib
import math
import sys
import warnings

import numpy as np

from ..config import config
from ..tape import store
from ..tape.workspace import dependence_of
from . import callers, lost_derivatives
from . import runtime as rt
from .registry import PUBLIC
from .trace import is_differentiated, is_steering, learned, named, refuse, steered, steering_tensor
from .values import (
    Origin,
    Storage,
    Told,
    array_of,
    is_recorded,
    is_relied_on,
    storage_of,
    told_of,
    value_of,
    wrap,
)


def detach(self):
    """Return a tensor with the same values and memory that is not recorded.

    Returns
    -------
    Tensor

    See Also
    --------
    item : One element as a Python number.
    """
    trace = rt.trace()
    if trace is not None and is_recorded(self):
        made = steering_tensor(np.array, self)
        if type(self) is rt.Array:
            trace.share(self._array, made._id)
        trace.detached.add(made._id)
        made._array.flags.writeable = False  # so that compiled code leaves writes to Python
        return made
    if type(self) is not rt.Array:
        return wrap(self._value)
    if trace is not None:
        trace.share(self._array, None)
    made = rt.wrap(self._array)
    if is_recorded(self):
        made._meta = Storage(self._array, Told(Origin(self)))
    elif is_relied_on(self):
        storage_of(made).tensor = told_of(self)
    return made


def numpy_value(self):
    """Return the values as a NumPy array, which shares memory.

    Returns
    -------
    ndarray

    Raises
    ------
    RuntimeError
        If the tensor is recorded; use `detach().numpy()`.
    """
    if learned(self, "numpy()") and (not is_recorded(self) or is_steering(self)):
        return array_of(self).view()
    if is_recorded(self):
        raise RuntimeError(
            "tapegrad.numpy: the tensor is recorded, so its derivative would be lost; use "
            "detach().numpy()"
        )
    return array_of(self).view()  # whose shape and dtype may be changed: rows have the other


def as_numpy_array(self, dtype=None, copy=None):
    """Convert to an array, for `np.asarray(t)`."""
    if is_recorded(self) and rt.is_recording():
        frame = sys._getframe(1)
        if callers.compares(frame):
            learned(self, "np.array_equal()")
            return np.array(array_of(self), dtype=dtype)
        if callers.is_stand_in(frame):
            raise lost_derivatives.as_array(frame, self)
        if callers.shows(frame, lambda: is_differentiated(self)):
            refuse("np.testing or Matplotlib reads values")
            return np.array(array_of(self), dtype=dtype)
        if not is_steering(self) and not has_outlived(self):
            if lost_derivatives.left_by(frame):
                return lost_derivatives.left(self)
            raise lost_derivatives.as_array(frame, self)
        learned(self, "np.asarray()")
    return np.array(array_of(self).view(), dtype=dtype, copy=copy)


def to_numpy(self):
    """Return the values as a NumPy array, for Matplotlib and pandas.

    Matplotlib also draws the values of recorded tensors, unless a transform differentiates them.

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError
        If the tensor is recorded; use `detach().numpy()`.
    """
    if is_recorded(self) and callers.shows(sys._getframe(1), lambda: is_differentiated(self)):
        refuse("Matplotlib reads values")
        return np.array(array_of(self))
    return as_numpy_array(self)


#: The guard of a number that Python converts to an integer.
_ROUNDING = {int: np.trunc, math.trunc: np.trunc, math.floor: np.floor, math.ceil: np.ceil}


def has_outlived(tensor) -> bool:
    """Whether the transforms are over whose inputs a tensor depends on, and it on nothing else.

    If so, it is treated as its value. This is not tested while a transform is active in any thread.
    """
    if rt.transforming:
        return False
    inputs = list(store.input_slots)
    found, _ = dependence_of([tensor._id])
    return not any(map(found.has, inputs))


def _lossy(kind):
    """`float()`, `int()` or another of a tensor, which leave the derivative behind."""

    def method(self):
        value = value_of(self)
        if value.size != 1:
            raise TypeError(
                f"tapegrad: {kind.__name__}() needs a tensor with one element; the tensor has "
                f"shape {value.shape}"
            )
        frame = sys._getframe(1)
        recorded = is_recorded(self) and rt.is_recording() and not is_steering(self)
        compared = recorded and callers.compares(frame)
        if recorded and kind is float and not compared and callers.asks_for_stand_in(frame):
            raise lost_derivatives.as_float(frame, self)
        formatted = callers.formats(frame) or (
            recorded and callers.shows(frame, lambda: is_differentiated(self))
        )
        if recorded and not compared and not formatted and not has_outlived(self):
            _lose(self, kind, frame)
        whole = rt.trace() is not None and kind in _ROUNDING and value.dtype.kind == "f"
        seen = steered(_ROUNDING[kind], self) if whole else self
        learned(seen, "a format" if formatted else f"{kind.__name__}()")
        return kind(value.item())

    return method


def as_integer_ratio(number) -> tuple[int, int]:
    """Return the exact ratio of two integers that a number is.

    Returns
    -------
    tuple of int

    Raises
    ------
    TypeError
        Inside a transform that differentiates the number, as for `float()`.
    """
    return float(number).as_integer_ratio()


_integer_ratio = _lossy(as_integer_ratio)  # by it `statistics` reads numbers
_integer_ratio.__doc__ = as_integer_ratio.__doc__


def _hex(number) -> str:
    """Return the hexadecimal digits of a number.

    Returns
    -------
    str

    Raises
    ------
    TypeError
        Inside a transform that differentiates the number, as for `float()`.
    """
    return float(number).hex()


_hex.__name__ = "hex"
_hexadecimal = _lossy(_hex)
_hexadecimal.__doc__ = _hex.__doc__


def _lose(tensor, kind, frame) -> None:
    """Refuse a loss of a derivative at a frame, or warn of it."""
    if callers.writes_item(frame) and callers.function_of_scipy(frame) is None:
        raise lost_derivatives.written(tensor)
    differentiated = is_differentiated(tensor)
    if differentiated and array_of(tensor).ndim:
        kind(array_of(tensor))  # of an array with axes NumPy may refuse it, too
    if kind is not int and differentiated:
        raise lost_derivatives.as_float(frame, tensor, kind.__name__)
    if differentiated or rt.trace() is None:
        warnings.warn(
            f"{kind.__name__}() of a recorded tensor loses its derivative "
            f"({callers.users_line()}); use tg.stop_gradient() if this is intended, or NumPy's "
            "functions on the tensor",
            RuntimeWarning,
            stacklevel=3,
        )


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


def text_of_tensor(self) -> str:
    """The text of a tensor that is shown as one."""
    value = array_of(self)
    body = _shown(self, None)
    dtype = "" if value.dtype in (np.float64, np.int64, np.bool_) else f", dtype={value.dtype}"
    if not is_recorded(self) or has_outlived(self):
        return f"tensor({body}{dtype})"
    node = self.grad_fn
    grad = ", requires_grad=True" if node is None else f", grad_fn=<{node.name()}>"
    return f"tensor({body}{dtype}{grad})"


def _formatted(self, layout):
    if not layout:
        return str(self)
    if type(self) is rt.Array and self._array.ndim:
        raise TypeError(
            f"tapegrad: the format {layout!r} applies to numbers, but the tensor has shape "
            f"{array_of(self).shape}; use np.array2string(t, precision=…)"
        )
    return _shown(self, layout)


def note_text(tensor, layout) -> None:
    """Note that Python reads the text of a value, not all digits: programs round otherwise."""
    if rt.trace() is not None:
        learned(steered(_digest, tensor, layout=layout), "a format")


def _shown(tensor, layout) -> str:
    note_text(tensor, layout)
    return _text_of(array_of(tensor), layout)


def _text_of(value: np.ndarray, layout) -> str:
    if layout is None:
        return np.array2string(value, separator=", ", prefix="tensor(")
    return format(value[()], layout)


@named("conversions.digest")
def _digest(value, layout):
    """Two integers below 2^48 that no other text has."""
    found = hashlib.blake2b(_text_of(value, layout).encode(), digest_size=12).digest()
    return np.array([int.from_bytes(found[:6], "big"), int.from_bytes(found[6:], "big")])


def rounded(self, digits=None):
    """`round(t)`, an int, and `round(t, digits)`, whose derivative is zero."""
    if type(self) is rt.Array and self._array.ndim:
        raise TypeError(
            "tapegrad: round() needs a tensor with one element; the tensor has shape "
            f"{array_of(self).shape}: use np.round(t, digits)"
        )
    if digits is not None:
        return PUBLIC["round"](self, digits)
    if rt.trace() is not None:
        learned(steered(np.rint, self), "round()")
    return round(self._value if type(self) is rt.Scalar else self._array.item())


def _numba_type(self):
    """What Numba asks for when a compiled function is called.

    In functions that are entered it is a type that no function takes: Numba asks to compile for it.
    """
    if config.enter and rt.in_transform():
        return sys.modules["numba"].types.Opaque(lost_derivatives.OPAQUE)
    if not is_recorded(self) or not rt.is_recording():
        raise AttributeError("_numba_type_")
    raise lost_derivatives.compiled_by_numba(self)


METHODS = {
    "_numba_type_": property(_numba_type),
    "detach": detach,
    "numpy": numpy_value,
    "to_numpy": to_numpy,
    "__array__": as_numpy_array,
    "__float__": _lossy(float),
    "__int__": _lossy(int),
    "__complex__": _lossy(complex),
    "__floor__": _lossy(math.floor),
    "__ceil__": _lossy(math.ceil),
    "__trunc__": _lossy(math.trunc),
    "as_integer_ratio": _integer_ratio,
    "hex": _hexadecimal,
    "__bool__": _bool,
    "__index__": _index,
    "__format__": _formatted,
}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)
