"""Data of a compiled function: recorded tensors that are plain values where nothing is traced.

What Python asks of such a value besides its digits, as a key of a dict or in a text, is answered as
NumPy's or Python's own value answers, and becomes a guard of the program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen.layout import ROWS_BITS
from ..tape import store
from ..tape.dependence import dependence_of
from . import callers
from . import runtime as rt
from .conversions import has_outlived, note_text, text_of_tensor
from .trace import is_steering, refuse
from .values import array_of, is_number, is_recorded


def origin(tensor) -> set[type] | None:
    """The types of the data that a recorded tensor is computed from; None if of anything else.

    Of an array it is the type of its elements, of a number that is an argument its own.
    """
    trace = rt.trace()
    if trace is None or not is_recorded(tensor):
        return None
    if tensor._id in trace.data:
        return {trace.data[tensor._id]}
    if not trace.data:
        return None
    marks, _ = dependence_of([tensor._id])
    if marks.rows[[*rt.differentiated()]].any() or any(map(marks.has, store.input_slots)):
        return None
    found = {kind for number, kind in trace.data.items() if marks.rows[number]}
    return found or None


def plain(tensor) -> Any:
    """The array or number that data are where nothing is traced; None for other tensors.

    A number computed from Python's floats may be one of NumPy's: then there is no program.
    """
    kinds = origin(tensor)
    if kinds is None:
        return None
    kind, array = _type_of(tensor, kinds), array_of(tensor)
    return np.array(array) if kind is np.ndarray else kind(array)


def _type_of(tensor, kinds: set[type]) -> type:
    """The type that data have where nothing is traced."""
    trace, array = rt.trace(), array_of(tensor)
    if array.ndim:
        return np.ndarray
    if not kinds.isdisjoint((float, np.ndarray)):
        if tensor._id in trace.data:
            return trace.data[tensor._id]
        trace.refuse(
            f"the type of a computed number counts at {callers.users_line()}, which may be one of "
            "Python's or of NumPy's; convert it with float(), int() or np.asarray()"
        )
    return array.dtype.type


def repeats(number) -> bool:
    """Whether the product of a tensor and a list repeats the list, or is an error, in NumPy."""
    array = array_of(number)
    if array.ndim:
        return False
    if (kinds := origin(number)) is not None:
        return _type_of(number, kinds) is not np.ndarray
    return array.dtype.kind in "iu"


def given(tensor, differentiated: bool):
    """The tensor that a function is given for an input: another for a number, see `_settle`."""
    return tensor if differentiated or array_of(tensor).ndim else _twin(tensor)


def _twin(tensor):
    """Another tensor on the row of one without axes."""
    if type(tensor) is rt.Scalar:
        return rt.scalar_at(tensor._value, tensor._id, int(store.table[tensor._id >> ROWS_BITS]))
    return rt.view_of(tensor, tensor._array)


def _hash(self):
    """Numbers are equal to plain ones, and so are their hashes; those of arrays are by identity."""
    if type(self) is rt.Array and not _is_value(self):
        if origin(self) is not None:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return object.__hash__(self)
    if is_recorded(self):
        if rt.trace() is not None and (is_steering(self) or origin(self) is not None):
            _settle(self)
        elif not has_outlived(self):
            raise _no_key()
    return _hash_of_value(self)


def _hash_of_complex(self):
    if array_of(self).ndim or (self.is_leaf and self.requires_grad and not rt.in_transform()):
        return object.__hash__(self)
    if is_recorded(self) and rt.trace() is not None:
        refuse("a complex number is a key of a dict or a member of a set")
    elif is_recorded(self) and not (has_outlived(self._re) and has_outlived(self._im)):
        raise _no_key()
    return _hash_of_value(self)


def _hash_of_value(tensor) -> int:
    value = array_of(tensor).item()
    return hash(value) if value == value else object.__hash__(tensor)


def _no_key() -> TypeError:
    return TypeError(
        f"tapegrad: a recorded number cannot be a key of a dict or a member of a set "
        f"({callers.users_line()}), which find it by its value: its derivative would be lost; use "
        "t.item() if the value is meant"
    )


def _is_value(tensor) -> bool:
    """Whether an array tensor is a number by its value: not one with a gradient of its own."""
    array = tensor._array
    if array.ndim:
        return False
    return array.dtype.kind != "f" or not is_recorded(tensor) or is_number(tensor)


def _settle(tensor) -> None:
    """Let a number be its value from now on, of which a guard is made: it may be kept for long."""
    rt.trace().learn(_twin(tensor), "hash()")
    rt.attach(tensor, -1, 0)


def _str(self) -> str:
    data = None if origin(self) is None else array_of(self)
    if data is None:
        return text_of_tensor(self)
    note_text(self, None if data.ndim else "")
    return str(data[()])


def _repr(self) -> str:
    data = plain(self)
    if data is None:
        return text_of_tensor(self)
    note_text(self, None if np.ndim(data) else "")
    return repr(data)


METHODS = {
    rt.Tensor: {"__hash__": _hash, "__str__": _str, "__repr__": _repr},
    rt.ComplexTensor: {"__hash__": _hash_of_complex},
}
for _kind, _methods in METHODS.items():
    for _name, _method in _methods.items():
        setattr(_kind, _name, _method)
