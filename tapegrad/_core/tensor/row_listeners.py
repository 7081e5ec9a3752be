"""Listeners to rows, with the user's lines that record them; NumPy's look at loud operations."""

from __future__ import annotations

import functools
import operator
import os
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import PACKAGE
from ..codegen import layout, process
from ..tape import native_types, store
from . import runtime
from . import runtime as rt
from .complex_tensors import ComplexTensor
from .trace import refuse
from .values import array_of, is_tensor, value_of

# --- Listeners to rows, with the user's lines that record them ------------------------------------
# The recorder's fast paths test one word. While it is not zero every operator goes through Python,
# which appends rows by `rt.row` and `rt.load` only; these two are replaced while there is a
# listener.


_PACKAGE = str(PACKAGE) + os.sep
_lock = process.lock()

#: A place in the user's code: file, line, function.
Place = tuple[str, int, str]


class Wrapped:
    """A function in its place, with others put around it and taken off in any order."""

    def __init__(self, owner: Any, name: str):
        self.owner, self.name = owner, name
        self.wrappers: list[Callable] = []
        self.original: Any = None

    def add(self, wrapper: Callable) -> None:
        """Call `wrapper(function)` instead of the function from now on."""
        if not self.wrappers:
            self.original = vars(self.owner)[self.name]
        self.wrappers.append(wrapper)
        self._place()

    def remove(self, wrapper: Callable) -> None:
        self.wrappers.remove(wrapper)
        self._place()

    def _place(self) -> None:
        function = self.original
        for wrapper in self.wrappers:
            function = wrapper(function)
        setattr(self.owner, self.name, function)


# --- listeners --------------------------------------------------------------------------------

#: Called with (row, op, output, operands) of every new row.
_listeners: list[Callable] = []


def _reporting(function, read):
    """`function`, which appends a row, telling the listeners; `read` finds its op and operands."""

    def reporting(*arguments):
        with _lock:  # with two threads each finds its own row
            before = native_types.get_word(layout.STATE_ID)
            made = function(*arguments)
            after = native_types.get_word(layout.STATE_ID)
        if after != before:
            for listener in _listeners:
                listener(after - 1, *read(arguments))
        return made

    return reporting


def _row(function):
    return _reporting(function, lambda given: (given[0], given[1], given[2:]))


def _load(function):
    return _reporting(function, lambda given: (layout.LOAD, 0.0, given))


_WRAPPED = {_row: Wrapped(rt, "row"), _load: Wrapped(rt, "load")}


def listen(listener: Callable) -> None:
    """Call `listener(row, op, output, operands)` for every row that any thread records."""
    rt.start()
    with _lock:
        if not _listeners:
            rt.add_special(1)
            for wrapper, wrapped in _WRAPPED.items():
                wrapped.add(wrapper)
        _listeners.append(listener)


def stop_listening(listener: Callable) -> None:
    with _lock:
        _listeners.remove(listener)
        if not _listeners:
            rt.add_special(-1)
            for wrapper, wrapped in _WRAPPED.items():
                wrapped.remove(wrapper)


# --- places -----------------------------------------------------------------------------------


def places(most: int | None = None) -> tuple[Place, ...]:
    """The user's frames around this call, innermost first, up to a number."""
    found: list[Place] = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and len(found) != most:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(found)


def users_level() -> int:
    """The `stacklevel` with which a warning of the caller's names the user's line."""
    frame: types.FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def shown(frames: tuple[Place, ...]) -> str:
    """Frames as Python prints a traceback, outermost first."""
    return "".join(
        traceback.format_list([traceback.FrameSummary(*place) for place in frames[::-1]])
    )


class Places:
    """The operations of rows and the frames that recorded them, for as long as the rows are there.

    Numbers of rows are used again; each chunk's places are kept with the time at which the store
    began the chunk.
    """

    def __init__(self):
        self._chunks: dict[int, tuple[int, dict]] = {}
        self._same: dict = {}  # equal frames are kept once

    def note(self, number: int, op: int, *_) -> None:
        """Remember op and place of row `number`, which is being recorded; a listener."""
        slot, frames = number >> layout.ROWS_BITS, places()
        begun, rows = self._chunks.get(slot, (-1, {}))
        if begun != store.begun[slot]:
            rows = {}
            self._chunks[slot] = store.begun[slot], rows
        rows[number] = op, self._same.setdefault(frames, frames)

    def find(self, number: int) -> tuple[int | None, tuple[Place, ...]]:
        """Op and frames of row `number`; None and no frames if there was no listener then."""
        slot = number >> layout.ROWS_BITS
        begun, rows = self._chunks.get(slot, (-1, {}))
        return rows.get(number, (None, ())) if begun == store.begun[slot] else (None, ())


# --- Operations at which NumPy looks while its error state is loud (see `runtime`) ----------------
# Each one is computed by NumPy first, with plain values, which raises and warns as it would without
# derivatives. The result is dropped.


#: Functions that call functions of users, write, or give text: NumPy is not asked.
_NOT_ASKED = frozenset(
    "apply_along_axis apply_over_axes piecewise copyto put place putmask put_along_axis "
    "fill_diagonal save savez savez_compressed savetxt array2string array_repr array_str "
    "mask_indices may_share_memory shares_memory".split()
)
#: Methods and operators that may compute.
_METHODS = (
    "all any argmax argmin astype choose clip compress conj cumprod cumsum diagonal dot max mean "
    "min prod round std sum take trace var __abs__ __mod__ __rmod__ __floordiv__ __rfloordiv__ "
    "__divmod__ __rdivmod__ __matmul__ __rmatmul__".split()
)
_ARITHMETIC = ("add", "sub", "mul", "truediv", "pow")
#: Operators of complex tensors; those of others call Python while the state is loud.
_OF_COMPLEX = [f"__{r}{name}__" for name in _ARITHMETIC for r in ("", "r")]
_REASON = (
    "it computes while NumPy's error state (np.errstate, np.seterr) asks for errors or more than "
    "its default warnings, which a program does not give"
)


def observed(theirs: Callable, ours: Callable, args: tuple, kwargs: dict):
    """The result of our function, after NumPy's has looked at the values."""
    if rt.trace() is not None and not runtime.state_is_loud():  # only warnings are errors
        return ours(*args, **kwargs)
    refuse(_REASON)
    _ask(theirs, args, kwargs)
    with runtime.silent():
        return ours(*args, **kwargs)


def _ask(theirs: Callable, args: tuple, kwargs: dict) -> None:
    """Let NumPy compute with plain values, and pass on what it raises and warns of."""
    given = [_plain(one) for one in args]
    named = {name: _plain(one) for name, one in kwargs.items() if name != "out"}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            theirs(*given, **named)
        except FloatingPointError:
            raise
        except Exception:  # ours raises it, unless it is that of a function given to np.seterrcall
            if "call" in np.geterr().values():
                raise
    for one in seen:
        if issubclass(one.category, RuntimeWarning):
            warnings.warn(one.message, one.category, stacklevel=users_level())


def _plain(value):
    """An argument for NumPy, with arrays of its own: theirs may be written."""
    if type(value) in (list, tuple):
        return type(value)([_plain(one) for one in value])
    if type(value) is ComplexTensor:
        return array_of(value)[()]
    value = value_of(value) if is_tensor(value) else value
    return value.copy() if type(value) is np.ndarray else value


def _of_ufunc(ours):
    @functools.wraps(ours)
    def array_ufunc(self, ufunc, method, *inputs, **kwargs):
        calls_users = not any(set(types) - {*"O->"} for types in ufunc.types)  # np.frompyfunc
        if not runtime.is_loud() or calls_users:
            return ours(self, ufunc, method, *inputs, **kwargs)
        made = functools.partial(ours, self, ufunc, method)
        return observed(getattr(ufunc, method), made, inputs, kwargs)

    return array_ufunc


def _of_function(ours):
    @functools.wraps(ours)
    def array_function(self, function, types, args, kwargs):
        if not runtime.is_loud() or function.__name__ in _NOT_ASKED:
            return ours(self, function, types, args, kwargs)
        made = lambda *a, **k: ours(self, function, types, a, k)  # noqa: E731
        return observed(function, made, tuple(args), kwargs)

    return array_function


def _of_method(name: str, ours):
    theirs = getattr(operator, name, None) or (lambda x, *a, **k: getattr(x, name)(*a, **k))

    @functools.wraps(ours)
    def method(*args, **kwargs):
        if not runtime.is_loud():
            return ours(*args, **kwargs)
        return observed(theirs, ours, args, kwargs)

    return method


def _begin() -> None:
    """Put what observes around the functions of the classes: not before a state is loud."""
    for kind in (rt.Tensor, ComplexTensor):
        names = {*_METHODS, *(_OF_COMPLEX if kind is ComplexTensor else ())}
        made = {name: _of_method(name, one) for name, one in vars(kind).items() if name in names}
        made["__array_ufunc__"] = _of_ufunc(vars(kind)["__array_ufunc__"])
        made["__array_function__"] = _of_function(vars(kind)["__array_function__"])
        for name, one in made.items():
            setattr(kind, name, one)


runtime.on_first.append(_begin)
