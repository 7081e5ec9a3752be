"""The user's code of functions, whether they are entered or not.

Python's attribute `__code__` gives it, too, once a code has been made of a user's: then the table
from which the descriptor of the attribute takes its function is another one, which calls ours.
"""

from __future__ import annotations

import atexit
import ctypes
import operator
import types
import weakref
from collections.abc import Callable

from ..codegen import compat
from ..tape.native_types import Getter

#: By the identity of code that was made: a reference to it, and the user's.
_own: dict[int, tuple[weakref.ref, types.CodeType]] = {}


def made_for(own: types.CodeType, made: types.CodeType) -> types.CodeType:
    """Note that code was made of a user's."""
    number = id(made)
    if number not in _own:
        pop = _own.pop  # names of modules are none at the end of a process
        _own[number] = weakref.ref(made, lambda _: pop(number, None)), own
        _show_own()
    return made


def own_code(function: types.FunctionType) -> types.CodeType:
    """The user's code of a function."""
    code = code_of(function)
    hit = _own.get(id(code))
    return code if hit is None or hit[0]() is not code else hit[1]


# --- the attribute --------------------------------------------------------------------------------


class _CodeGetter:
    """Is given with a function to `PyNumber_MatrixMultiply`, as which a getter is called."""

    def __rmatmul__(self, function: types.FunctionType) -> types.CodeType:
        return own_code(function)


_descriptor = vars(types.FunctionType)["__code__"]
#: Where the descriptor has the address of its table: after the head and three objects.
_HEAD = 16
_place = ctypes.c_void_p.from_address(id(_descriptor) + _HEAD + 24)
_asked = _CodeGetter()


def _table() -> Getter | None:
    """The table of the attribute, if it lies where it is looked for."""
    is_known = type(_descriptor) is types.GetSetDescriptorType and object.__basicsize__ == _HEAD
    if not is_known or not _place.value:
        return None
    found = Getter.from_address(_place.value)
    return found if found.name == b"__code__" else None


def _is_table_known() -> bool:
    return _table() is not None


def _getter() -> Callable[[types.FunctionType], types.CodeType]:
    """What gives the code by which a function runs, however the attribute is read."""
    if not compat.holds("attribute-tables", _is_table_known):
        return operator.attrgetter("__code__")
    make = ctypes.pythonapi.PyDescr_NewGetSet
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(types.FunctionType, _place.value).__get__


#: The code by which a function runs: while it is entered, that which was made.
code_of = _getter()
_shown: list[Getter] = []


def _show_own() -> None:
    """Let the attribute give the user's code from now on."""
    theirs = _table()
    if _shown or theirs is None or not compat.holds("attribute-tables", _is_table_known):
        return
    multiply = ctypes.cast(ctypes.pythonapi.PyNumber_MatrixMultiply, ctypes.c_void_p)
    ours = Getter(theirs.name, multiply.value, theirs.set, theirs.doc, id(_asked))
    for one in (ours, _asked):  # which other threads may use until the very end
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    _shown.append(ours)
    atexit.register(setattr, _place, "value", _place.value)
    _place.value = ctypes.addressof(ours)
