"""The user's code of functions, whether they are entered or not."""

from __future__ import annotations

import types
import weakref

#: By the identity of code that was made: a reference to it, and the user's.
_own: dict[int, tuple[weakref.ref, types.CodeType]] = {}


def made_for(own: types.CodeType, made: types.CodeType) -> types.CodeType:
    """Note that code was made of a user's."""
    number = id(made)
    if number not in _own:
        _own[number] = weakref.ref(made, lambda _: _own.pop(number, None)), own
    return made


def own_code(function: types.FunctionType) -> types.CodeType:
    """The user's code of a function."""
    code = function.__code__
    hit = _own.get(id(code))
    return code if hit is None or hit[0]() is not code else hit[1]
