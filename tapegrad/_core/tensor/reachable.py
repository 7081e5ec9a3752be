"""Objects that a user's function can reach, whose changes a program would not detect."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

_LIBRARIES = frozenset(("tapegrad", "numpy", "scipy", "numba", "math", "builtins", "torch"))
#: The number of objects that are checked, and of items of containers.
_MOST, _MOST_ITEMS = 2000, 100


def reachable(f: Callable, is_wanted: Callable[[Any], bool]) -> list:
    """The objects of a kind in the closure of a function, its defaults, the globals that it names.

    And in attributes of objects there, and functions that it names.
    """
    return [one for one in _walk(f, is_wanted) if is_wanted(one)]


def functions_of(f: Callable) -> list[types.FunctionType]:
    """The functions that a function can reach in this way, and itself; not those of libraries."""
    every = _walk(f, lambda one: False)
    functions = [one for one in every if isinstance(one, types.FunctionType)]
    return [one for one in functions if not _is_of_library(_module(one))]


def _walk(f: Callable, is_end: Callable[[Any], bool]) -> list:
    """The objects that a function can reach, nearest first, without those beyond an end."""
    found: list = [f]
    seen = {id(f)}
    for one in found:  # which grows
        if is_end(one):
            continue
        for other in _reached(one):
            if id(other) not in seen and len(found) < _MOST:
                seen.add(id(other))
                found.append(other)
    return found


def _reached(one) -> list:
    """The objects that an object refers to."""
    if isinstance(one, types.FunctionType):
        return _of_function(one)
    if isinstance(one, types.MethodType):
        return [one.__func__, one.__self__]
    if isinstance(one, functools.partial):
        return [one.func, *one.args, *one.keywords.values()]
    if isinstance(one, (list, tuple, set, frozenset)):
        return list(one) if len(one) <= _MOST_ITEMS else []
    if isinstance(one, dict):
        return list(one.values()) if len(one) <= _MOST_ITEMS else []
    if isinstance(one, (types.ModuleType, np.ndarray, str, int, float)):
        return []
    if is_library(one):
        return _wrapped(one)  # as a compiled function's
    if isinstance(one, type):
        return [*one.__bases__, *filter(None, map(_function, vars(one).values()))]
    return [*getattr(one, "__dict__", {}).values(), type(one)]


def _function(value) -> types.FunctionType | None:
    """The function behind what a class holds: a method, of any kind, or a property."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    return value if isinstance(value, types.FunctionType) else None


def is_library(one) -> bool:
    """Whether an object is a class, or an instance of a class, of a library."""
    return is_numerical(one) or _is_of_library(_module_of_class(one))


def is_numerical(one) -> bool:
    """The same for a library of arrays, whose objects have state of their own."""
    return _module_of_class(one).partition(".")[0] in _LIBRARIES


def _module_of_class(one) -> str:
    return (one if isinstance(one, type) else type(one)).__module__ or ""


def _is_of_library(module: str) -> bool:
    outer = module.partition(".")[0]
    return outer in _LIBRARIES or (outer in sys.stdlib_module_names and outer != "__main__")


def is_library_module(one: types.ModuleType) -> bool:
    """Whether a module is one of a library whose names do not change."""
    return _is_of_library(one.__name__)


def _of_function(f: types.FunctionType) -> list:
    """Cells and defaults of a function, and the globals it names, unless it is a library's."""
    found = [cell.cell_contents for cell in f.__closure__ or () if _is_filled(cell)]
    found += [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    found += _wrapped(f)
    if _is_of_library(_module(f)):
        return found
    names = _names(f.__code__)
    named = [f.__globals__[name] for name in names if name in f.__globals__]
    for module in [one for one in named if isinstance(one, types.ModuleType)]:
        if not is_library_module(module):
            named += [vars(module)[name] for name in names if name in vars(module)]
    return found + named


def _module(f: types.FunctionType) -> str:
    """The name of the module in which a function looks up names; a wrapper has another's name."""
    return f.__globals__.get("__name__") or ""


def _wrapped(one) -> list:
    own = getattr(one, "__dict__", {})
    return [own["__wrapped__"]] if "__wrapped__" in own else []


def _names(code: types.CodeType) -> set[str]:
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return {*code.co_names}.union(*map(_names, inner))


def _is_filled(cell) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # for a name without a value
        return False
    return True
