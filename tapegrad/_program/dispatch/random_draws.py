"""Whether a function draws random numbers: states of generators before and after a call.

A program would repeat the draws of its recording. The generators checked are the common ones of
Python and NumPy, and those that the function can reach: in its closure, its defaults, the globals
that it names, attributes of objects there, and functions that it names. A generator that it makes
itself with a seed draws the same at every call.
"""

from __future__ import annotations

import ctypes
import functools
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

_KINDS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_LIBRARIES = frozenset(("tapegrad", "numpy", "scipy", "numba", "math", "builtins", "torch"))
#: The number of objects that are checked, and of items of containers.
_MOST, _MOST_ITEMS = 2000, 100


class Draws:
    """The states of generators that a function can reach, when this is made."""

    def __init__(self, f: Callable):
        found: list[tuple[str, Any]] = [("np.random", np.random.mtrand._rand), ("random", random)]
        found += [(f"a {type(one).__name__}", one) for one in _generators(f)]
        self._states = [(name, one, _state(one)) for name, one in found]

    def drawn(self) -> str | None:
        """The name of a generator that has been drawn from since."""
        for name, one, before in self._states:
            if _state(one) != before:
                return name
        return None

    def reason(self) -> str | None:
        """Why there can be no program, None if nothing was drawn."""
        name = self.drawn()
        return name and (
            f"it draws random numbers from {name}, and a program would repeat those of its "
            "recording; draw outside and pass them as arguments"
        )


def _state(one):
    """The state of a generator, to be compared."""
    if one is random or isinstance(one, random.Random):
        return one.getstate()
    if isinstance(one, np.random.RandomState):
        one = one._bit_generator
    one = getattr(one, "bit_generator", one)
    if type(one) is np.random.MT19937:  # whose `state` takes long: 624 words and a position
        return ctypes.string_at(one.ctypes.state_address, 625 * 4)
    return _comparable(one.state)


def _comparable(state):
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


def _generators(f: Callable) -> list:
    found: list = []
    seen: set[int] = set()
    waiting = [f]
    while waiting and len(seen) < _MOST:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, _KINDS):
            found.append(one)
        else:
            waiting.extend(_reached(one))
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
    if isinstance(one, (types.ModuleType, np.ndarray, str, int, float)) or _is_library(one):
        return []
    if isinstance(one, type):
        return [value for value in vars(one).values() if isinstance(value, types.FunctionType)]
    return [*getattr(one, "__dict__", {}).values(), type(one)]


def _is_library(one) -> bool:
    kind = one if isinstance(one, type) else type(one)
    return _is_of_library(kind.__module__ or "")


def _is_of_library(module: str) -> bool:
    outer = module.partition(".")[0]
    return outer in _LIBRARIES or (outer in sys.stdlib_module_names and outer != "__main__")


def _of_function(f: types.FunctionType) -> list:
    """Cells and defaults of a function, and the globals it names, unless it is a library's."""
    found = [cell.cell_contents for cell in f.__closure__ or () if _is_filled(cell)]
    found += [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    wrapped = getattr(f, "__wrapped__", None)
    found += [] if wrapped is None else [wrapped]
    if _is_of_library(f.__module__ or ""):
        return found
    names = _names(f.__code__)
    named = [f.__globals__[name] for name in names if name in f.__globals__]
    for module in [one for one in named if isinstance(one, types.ModuleType)]:
        if not _is_of_library(module.__name__):
            named += [vars(module)[name] for name in names if name in vars(module)]
    return found + named


def _names(code: types.CodeType) -> set[str]:
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return {*code.co_names}.union(*map(_names, inner))


def _is_filled(cell) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # for a name without a value
        return False
    return True
