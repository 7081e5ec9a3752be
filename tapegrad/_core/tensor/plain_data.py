"""Data of a compiled function: recorded tensors that are plain values where nothing is traced."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
import sys
import types
from typing import Any

import numpy as np

from ..codegen import layout, process
from ..config import config
from ..tape import native_types, store
from ..tape.workspace import dependence_of
from . import callers, conversions
from . import runtime as rt
from .callers import decides
from .conversions import has_outlived, note_text, rounded, text_of_tensor
from .pytree import reachable
from .trace import (
    is_differentiated,
    is_steering,
    learned,
    lost_derivative,
    named,
    refuse,
    steered,
    steering_tensor,
)
from .values import array_of, dtype_of, is_number, is_recorded, scalar_of

# --------------------------------------------------------------------------------------------------
# What a tensor may be where nothing is recorded: an array, a number of NumPy's or of Python's.


def kind_of_number(given: type | None) -> int:
    """Of whom numbers of a type are: OF_PYTHON, OF_NUMPY, or OF_EITHER."""
    if given is float:
        return layout.OF_PYTHON
    is_of_numpy = given is not None and issubclass(given, (np.generic, np.ndarray))
    return layout.OF_NUMPY if is_of_numpy else layout.OF_EITHER


def is_pythons_truth(tensor) -> bool:
    """Whether a row of a trace is a comparison of Python's numbers, which is True or False."""
    trace = rt.trace()
    return trace is not None and tensor._id in trace.truths


def possible_kinds(tensor) -> tuple[type, ...]:
    """The types that the plain value of a tensor may have: one, or float and np.float64.

    Inputs are what was given, results of `math` Python's, those of ufuncs and elements of arrays
    NumPy's; operators give NumPy's if an operand is. Not known are results of other functions of
    numbers, such as `abs`.
    """
    if type(tensor) is rt.ComplexTensor:
        kind = dtype_of(tensor).type
        is_array = tensor._re is not None and array_of(tensor).ndim > 0
        return (np.ndarray,) if is_array else (complex, kind) if kind is np.complex128 else (kind,)
    if is_pythons_truth(tensor):
        return (bool,)
    if type(tensor) is not rt.Scalar:
        is_array = tensor.ndim > 0 or not is_number(tensor)
        return (np.ndarray,) if is_array else (dtype_of(tensor).type,)
    if tensor._kind == layout.OF_PYTHON:
        return (float,)
    if (given := rt.given(tensor._id)) is not None:
        return (given,)
    is_of_numpy = tensor._kind == layout.OF_NUMPY or tensor._id < 0
    return (np.float64,) if is_of_numpy else (float, np.float64)


def plain_samples(tensor) -> list[Any]:
    """For each of these types the value of a tensor."""
    return [as_kind(tensor, kind) for kind in possible_kinds(tensor)]


def as_kind(tensor, kind: type) -> Any:
    """The value of a tensor as an array, or as a number of a class."""
    array = array_of(tensor)
    return array if kind is np.ndarray else kind(array[()])


# --------------------------------------------------------------------------------------------------
# Data of a compiled function: recorded tensors that are plain values where nothing is traced.
# What Python asks of such a value besides its digits, as a key of a dict or in a text, is answered
# as NumPy's or Python's own value answers, and becomes a guard of the program.


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
    trace.is_exact = True
    if is_pythons_truth(tensor):
        return bool
    if not kinds.isdisjoint((float, np.ndarray)):
        if tensor._id in trace.data:
            return trace.data[tensor._id]
        trace.refuse(
            f"the type of a computed number counts at {callers.users_line()}, which may be one of "
            "Python's or of NumPy's; convert it with float(), int() or np.asarray()"
        )
    return array.dtype.type


def class_of(tensor) -> type | None:
    """The class that data have where nothing is traced; None for other tensors."""
    kinds = origin(tensor)
    return None if kinds is None else _type_of(tensor, kinds)


def _answer(self, _) -> type:
    """`t.__class__`, for which `isinstance` and its like ask where the type says no."""
    frame, own = sys._getframe(1), type(self)
    if id(frame.f_code) in _others:  # our own code asks several times for each operation
        return own
    asked = callers.abstract_class(frame)
    if not callers.is_users(frame):
        if asked is None:
            _others[id(frame.f_code)] = frame.f_code
        return own
    if callers.is_json(frame) and is_differentiated(self):
        raise conversions.by_json(self)
    found = class_of(self)
    if found is None and _entered and rt.in_transform():
        found = _kind_asked(self, frame)
    if asked is not None and found is not None and _decides(asked, own, found):
        refuse(f"it asks at {callers.users_line()} whether data are a {asked.__name__}")
    return found or own


def _decides(asked: type, own: type, found: type) -> bool:
    """Whether a tensor is of an abstract class, and the plain value for it is not.

    A protocol with data members is not asked of classes: each object is looked at then.
    """
    try:
        return issubclass(own, asked) and not issubclass(found, asked)
    except TypeError:
        return False


def _kind_asked(tensor, frame: types.FrameType) -> type:
    """The type of the plain value for a frame; refused where it decides between two of them."""
    kinds = possible_kinds(tensor)
    if len(kinds) > 1 and decides(frame, *kinds):
        raise ambiguous("the class", tensor)
    return kinds[-1]


def ambiguous(what: str, tensor) -> TypeError:
    """The error for a question whose answer is not known of a number."""
    return lost_derivative(
        f"tapegrad: {what} of a recorded number is asked at {callers.users_line()}, where it "
        "counts whether it is Python's or NumPy's, and it may be either, as round(x, 2) of a "
        "Python float; use isinstance(x, float), which both are, or numbers.Real",
        tensor,
    )


def kind_of(tensor) -> type:
    """The class of what NumPy has for a tensor; of data, what they are where nothing is traced."""
    if (found := class_of(tensor)) is not None:
        return found
    if isinstance(tensor, rt.Array) and (tensor.ndim or not is_number(tensor)):
        return np.ndarray
    return dtype_of(tensor).type


@contextlib.contextmanager
def answering(trace):
    """Let data of a trace have the classes of plain values for the user's code."""
    if not trace.data:
        yield
        return
    with class_lock:
        _traces.add(id(trace))
        _asked.value = _ASKED
    try:
        yield
    finally:
        with class_lock:
            _traces.discard(id(trace))
            _asked.value = _ASKED if _entered or _traces else 0


def answer_all(all_tensors: bool) -> None:
    """Let all tensors have these classes in transforms, until this is called again.

    It is called with `class_lock` held.
    """
    global _entered
    _entered = all_tensors  # only meanwhile: every `isinstance` that says no of a tensor asks
    _asked.value = _ASKED if all_tensors or _traces else 0


#: The code that asks and is not the user's, by its id.
_others: dict[int, types.CodeType] = {}
#: The traces whose data answer for their classes, and whether all tensors do.
_traces: set[int] = set()
_entered = False
_ASKED = id(_answer)
#: What compiled code calls for the class of a tensor, 0 for none.
_asked = ctypes.c_int64.from_address(native_types.STATE.ctypes.data + layout.STATE_CLASS)
#: Held while that changes, and the code of functions with it.
class_lock = process.lock()


def item(self, *index):
    """Return an element as a Python number.

    In functions that a transform enters, it keeps its derivative; elsewhere it has none.

    Parameters
    ----------
    *index : int
        The position of the element; not needed for tensors with one element.

    Returns
    -------
    float, int or bool

    See Also
    --------
    detach : The values without their derivatives, everywhere.
    """
    if rt.transforming and takes_for_plain(frame := sys._getframe(1)):
        if callers.container_advice(frame) is not None:  # xarray's arrays hold tensors
            if is_differentiated(self):
                raise conversions.as_float(frame, self, "item")
        elif (kept := number_of(element_of(self, index))) is not None:
            return kept
    learned(self[index] if index else self, "item()")
    if type(self) is rt.Scalar:
        return self._value
    return self._array.item(*index)


def element_of(tensor, index):
    """The element that `item` takes: the only one, one by its place in C order, or by its index."""
    if not index or type(tensor) is rt.Scalar:
        return tensor
    return tensor[index] if len(index) == tensor.ndim else tensor.reshape(-1)[index[0]]


def tolist(self):
    """Return the values as nested lists of Python numbers.

    In functions that a transform enters, they keep their derivatives; elsewhere they have none.

    Returns
    -------
    list or number

    Raises
    ------
    TypeError
        Inside a transform that differentiates the tensor and does not enter functions. `list(t)`
        keeps derivatives, `t.detach().tolist()` gives plain numbers.
    """
    if rt.transforming and takes_for_plain(sys._getframe(1)) and _has_numbers(self):
        return _numbers(self)
    learned(self, "tolist()")
    if is_differentiated(self):
        raise lost_derivative(
            "tapegrad.tolist: the tensor is recorded, and inside a transform its derivative would "
            f"be lost ({callers.users_line()}); use list(t), whose elements keep it, or "
            "t.detach().tolist() for plain numbers",
            self,
        )
    return array_of(self).tolist()


def _numbers(tensor):
    """The recorded numbers of a tensor in nested lists, as Python's own."""
    return [_numbers(one) for one in tensor] if np.ndim(array_of(tensor)) else number_of(tensor)


def takes_for_plain(frame: types.FrameType) -> bool:
    """Whether code takes numbers out of tensors as out of arrays, with their derivatives.

    All code that a transform runs does, if it enters functions; else that of installed packages
    which do not know of this one.
    """
    if not rt.in_transform():
        return False
    return callers.is_unaware(frame) or (config.enter and not callers.is_ours(frame))


def number_of(tensor):
    """A recorded float without axes as a Python float; None for others, and for data."""
    if not _has_numbers(tensor) or (type(tensor) is not rt.Scalar and tensor.size != 1):
        return None
    if type(tensor) is not rt.Scalar:
        tensor = scalar_of(tensor.reshape(()).astype(np.float64))
    return rt.as_float(tensor)


def _has_numbers(tensor) -> bool:
    """Whether numbers taken out of a tensor may be recorded: it holds floats, and is no data."""
    if not is_recorded(tensor) or not rt.is_recording() or is_steering(tensor):
        return False
    if type(tensor) is not rt.Scalar and tensor.dtype.kind != "f":
        return False
    return rt.trace() is None or origin(tensor) is None


def repeats(number) -> bool:
    """Whether the product of a tensor and a list repeats the list, or is an error, in NumPy."""
    array = array_of(number)
    if array.ndim:
        return False
    if (kinds := origin(number)) is not None:
        return _type_of(number, kinds) is not np.ndarray
    return array.dtype.kind in "iu"


def _hash(self):
    """Numbers are equal to plain ones, and so are their hashes; those of arrays are by identity."""
    if type(self) is rt.Array and not _is_value(self):
        if origin(self) is not None or _is_entered_array(self, sys._getframe(1)):
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return object.__hash__(self)
    if is_recorded(self):
        if rt.trace() is not None and (is_steering(self) or origin(self) is not None):
            rt.trace().learn_key(self)
        elif not has_outlived(self):
            raise _no_key(self)
    return _hash_of_value(self)


def _is_entered_array(tensor, frame: types.FrameType) -> bool:
    """Whether a tensor is an array of NumPy's where nothing is differentiated: not the user's."""
    if not is_plain_text() or callers.is_ours(frame):
        return False
    if type(tensor) is rt.ComplexTensor:
        return any([_is_entered_array(one, frame) for one in (tensor._re, tensor._im)])
    is_made = tensor._id == layout.MADE_INSIDE or is_steering(tensor)
    return is_made or is_differentiated(tensor)


def _hash_of_complex(self):
    if array_of(self).ndim and _is_entered_array(self, sys._getframe(1)):
        raise TypeError("unhashable type: 'numpy.ndarray'")
    if array_of(self).ndim or (self.is_leaf and self.requires_grad and not rt.in_transform()):
        return object.__hash__(self)
    if is_recorded(self) and rt.trace() is not None:
        refuse("a complex number is a key of a dict or a member of a set")
    elif is_recorded(self) and not (has_outlived(self._re) and has_outlived(self._im)):
        raise _no_key(self)
    return _hash_of_value(self)


def _hash_of_value(tensor) -> int:
    value = array_of(tensor).item()
    return hash(value) if value == value else object.__hash__(tensor)


def _no_key(tensor) -> TypeError:
    return lost_derivative(
        f"tapegrad: a recorded number cannot be a key of a dict or a member of a set "
        f"({callers.users_line()}), which find it by its value: its derivative would be lost; use "
        "float(tg.stop_gradient(t)) if the value is meant",
        tensor,
    )


def clear_caches(f) -> None:
    """Empty `functools.lru_cache`s that a function can reach, which may hold tensors of a trace."""
    for one in reachable(f, lambda one: isinstance(one, functools._lru_cache_wrapper)):
        one.cache_clear()


def _is_value(tensor) -> bool:
    """Whether an array tensor is a number by its value: not one with a gradient of its own."""
    array = tensor._array
    if array.ndim:
        return False
    return array.dtype.kind != "f" or not is_recorded(tensor) or is_number(tensor)


def _str(self) -> str:
    if origin(self) is None and not is_plain_text():
        return text_of_tensor(self)
    data = array_of(self)
    note_text(self, None if data.ndim else "")
    return str(data[()])


def _repr(self) -> str:
    data = plain(self)
    if data is None:
        if not is_plain_text():
            return text_of_tensor(self)
        data = plain_samples(self)[-1]
    note_text(self, None if np.ndim(data) else "")
    return repr(data)


def is_plain_text() -> bool:
    """Whether texts are those of plain values: in functions that a transform enters."""
    return config.enter and rt.in_transform()


def _round(self, digits=None):
    """`round(t, digits)` of Python's floats differs from NumPy's in some last digits."""
    kinds = None if digits is None or array_of(self).ndim else origin(self)
    if kinds is None or float not in kinds:
        return rounded(self, digits)
    if self._id in rt.trace().data:
        rt.trace().is_exact = True
        return steering_tensor(_rounded_by_python, self, digits=operator.index(digits))
    alike = steered(_is_rounded_alike, self, digits=operator.index(digits))
    learned(alike, "round()")
    if not array_of(alike):
        refuse(f"NumPy and Python round a number to other digits at {callers.users_line()}")
    return rounded(self, digits)


@named("plain_data.rounded")
def _rounded_by_python(value, digits):
    return np.float64(round(float(value), digits))


@named("plain_data.is_rounded_alike")
def _is_rounded_alike(value, digits):
    return np.equal(_rounded_by_python(value, digits), np.round(value, digits))


METHODS = {
    rt.Tensor: {
        "item": item,
        "tolist": tolist,
        "__round__": _round,
        "__hash__": _hash,
        "__str__": _str,
        "__repr__": _repr,
    },
    rt.ComplexTensor: {"__hash__": _hash_of_complex},
}
for _kind, _methods in METHODS.items():
    for _name, _method in _methods.items():
        setattr(_kind, _name, _method)
