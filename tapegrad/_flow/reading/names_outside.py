"""Names from outside of a function, and the frames of calls."""

from __future__ import annotations

import builtins
import inspect
import types
from typing import Any

from ..._core.tensor.dependencies import Contents, Dependency, own_dependencies
from ..._core.tensor.reachable import own_code
from . import prelude
from .code import code_of
from .errors import Leaves, Raises
from .forms import (
    Form,
    Function,
    Known,
    Tuple,
)
from .outside_changes import name_read
from .state import Frame

#: Names by which Numba's reader marks where handlers of exceptions begin and end to hold.
_OF_TRY = ("mark_try_block", "end_try_block")


def global_(reader, frame: Frame, name: str) -> Form:
    """A global name of a frame's function."""
    if name in _OF_TRY:
        raise Leaves("it has a try statement")
    if name in frame.globals:
        value = frame.globals[name]
        if (changed := name_read(reader, frame.globals, name, value)) is not None:
            return changed
        if frame.globals is not vars(prelude):
            reader.dependencies.append(Dependency(frame.globals, name, value))
        return reader.outside(value, name)
    if hasattr(builtins, name):
        value = getattr(builtins, name)
        reader.dependencies.append(Dependency(frame.globals, name, value))
        return Known(value)
    raise Raises(f"NameError: {name}")


def cell_of(reader, frame: Frame, name: str) -> types.CellType:
    """The cell of a variable of a function that enclosed a frame's function and is over."""
    while not isinstance(frame.outside, dict):
        frame = reader.frames[frame.outside]
    return frame.outside[name]


def outside(reader, frame: Frame, name: str) -> Form:
    """A variable of a function that enclosed a frame's function and is over."""
    cell = cell_of(reader, frame, name)
    try:
        value = cell.cell_contents
    except ValueError:
        raise Raises(f"NameError: {name}") from None
    if (changed := name_read(reader, cell, name, value)) is not None:
        return changed
    reader.dependencies.append(Dependency(cell, name, value))
    return reader.outside(value, name)


def defaults_of(reader, f: types.FunctionType) -> tuple[list[Form], dict[str, Form]]:
    """The defaults of a function, of positional arguments and of others."""
    reader.dependencies += own_dependencies(f)
    if f.__kwdefaults__:  # which can be changed in place
        reader.dependencies.append(Contents.of(f.__kwdefaults__, f"{f.__name__}.__kwdefaults__"))
    keywords = {k: reader.outside(one, k) for k, one in (f.__kwdefaults__ or {}).items()}
    defaults = f.__defaults__ or ()
    names = own_code(f).co_varnames[: own_code(f).co_argcount][-len(defaults) or None :]
    return [reader.outside(*pair) for pair in zip(defaults, names, strict=False)], keywords


def framed(reader, function: Form, args: list, kwargs: dict, name) -> tuple[Frame, dict]:
    """The frame of a call, and its arguments by name."""
    if isinstance(function, Function):
        code, defaults = function.code, list(function.defaults)
        frame = Frame((name, id(code)), code_of(code), function.globals, function.frame)
        keywords: dict[str, Form] = {}
    else:
        found: Any = function.value  # type: ignore[attr-defined]
        code = own_code(found)
        defaults, keywords = defaults_of(reader, found)
        cells = dict(zip(code.co_freevars, found.__closure__ or (), strict=True))
        frame = Frame((name, id(code)), code_of(code), found.__globals__, cells)
    return frame, bound_arguments(reader, frame, args, kwargs, defaults, keywords)


def bound_arguments(
    reader, frame: Frame, args: list, kwargs: dict, defaults: list, keywords: dict
) -> dict[str, Form]:
    """The arguments of a call by name; those that ** takes are a dict of the frame's own."""
    code = frame.code.code
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = [one.replace(".", "implicit") for one in code.co_varnames]  # as Numba names them
    takes_rest = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    takes_more = bool(code.co_flags & inspect.CO_VARARGS)
    given = dict(zip(names[:count], args, strict=False))
    rest = args[count:]
    if takes_more:
        given[names[count + only]] = Tuple(tuple(rest))
    elif rest:
        raise Raises("TypeError: too many arguments")
    named, others = names[code.co_posonlyargcount : count + only], {}
    for name, form in kwargs.items():
        if name in named and name not in given:
            given[name] = form
        elif takes_rest and name not in named:
            others[name] = form
        else:
            raise Raises(f"TypeError: argument {name}")
    if takes_rest:
        site = frame.name, "keywords"
        made = reader.make(site, "dict", tuple(others), tuple(others.values()))
        given[names[count + only + takes_more]] = made
    for name, form in zip(names[count - len(defaults) : count], defaults, strict=True):
        given.setdefault(name, form)
    for name, form in keywords.items():
        given.setdefault(name, form)
    if any(name not in given for name in names[: count + only]):
        raise Raises("TypeError: missing arguments")
    return given
