"""What code that asks for the class of a number does with it."""

from __future__ import annotations

import builtins
import dis
import types

from . import callers


def decides(frame: types.FrameType, one: type, other: type) -> bool:
    """Whether it counts for a frame, which asks for a class, which of two it is.

    That is so for `x.__class__`, and for tests of `match` and of `singledispatch` that hold of one
    of them. What debuggers and other installed packages ask, they show.
    """
    code, name = frame.f_code, frame.f_globals.get("__name__")
    if name == "functools" and "dispatch" in frame.f_locals:
        dispatch = frame.f_locals["dispatch"]
        return dispatch(one) is not dispatch(other)
    if callers.is_library(frame) or callers.package_of(frame) is not None:
        return False
    every = [item for item in dis.get_instructions(code) if item.opname != "CACHE"]
    at = next((k for k, item in enumerate(every) if item.offset == frame.f_lasti), 0)
    if every[at].opname != "MATCH_CLASS":
        return every[at].argval == "__class__"
    asked = _class_before(frame, every[: at - 1])
    return not isinstance(asked, type) or issubclass(one, asked) != issubclass(other, asked)


def _class_before(frame: types.FrameType, every: list) -> object:
    """The object that the last of some instructions load: a name, with attributes."""
    names: list[str] = []
    while every and every[-1].opname in ("LOAD_ATTR", "NOP", "JUMP_FORWARD"):
        names += [every[-1].argval] if every[-1].opname == "LOAD_ATTR" else []
        every = every[:-1]
    if not every:
        return None
    found = every[-1].argval
    if every[-1].opname != "LOAD_CONST":
        scope = {**vars(builtins), **frame.f_globals, **frame.f_locals}
        found = scope.get(found)
    for name in reversed(names):
        found = getattr(found, name, None)
    return found
