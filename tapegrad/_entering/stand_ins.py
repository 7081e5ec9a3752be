"""What stands for the functions and modules of NumPy, SciPy and `math` in entered code."""

from __future__ import annotations

import functools
import importlib
import math
import sys
import types
from typing import Any

import numpy as np

from .._core.tensor.reachable import outer
from .numba_functions import of_numba
from .types_asked import type_of_recorded

#: Modules with a counterpart of this package, whose names are those of the original.
_NUMPY = ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.polynomial")
_OF_SCIPY = (
    "cluster constants fft integrate interpolate io linalg ndimage optimize signal sparse spatial "
    "special stats"
).split()
_SCIPY = ("scipy", *[f"scipy.{name}" for name in _OF_SCIPY])
_PAIRED = {*_NUMPY, *_SCIPY, "math"}

#: By the identity of the original: the original, which stays alive, and its stand-in.
_table: dict[int, tuple[Any, Any]] = {id(type): (type, type_of_recorded)}
_read: set[str] = set()  # modules whose names are in the table


def stand_in(value) -> Any:
    """The stand-in of a function, a class or a module; None where the object itself is used."""
    hit = _table.get(id(value))
    if hit is not None and hit[0] is value:
        return hit[1]
    if isinstance(value, types.ModuleType):
        return _module(value)
    owner = _owner(value)
    if owner is None:
        return of_numba(value)
    for name in _modules_of(owner):
        _read_names(name)
    hit = _table.get(id(value))
    return hit[1] if hit is not None and hit[0] is value else None


class ModuleView:
    """A module of the user's, or Numba, as it is, but for stand-ins among its attributes."""

    def __init__(self, module: types.ModuleType):
        self._module = module

    def __getattr__(self, name: str):
        value = getattr(self._module, name)
        if isinstance(value, types.ModuleType):
            return value
        made = stand_in(value)
        return value if made is None else made


@functools.lru_cache(maxsize=256)
def view_of(module: types.ModuleType) -> ModuleView:
    """The one view of a module."""
    return ModuleView(module)


def imported(name: str, names) -> types.ModuleType | None:
    """What `import name` gives, for one of the modules: the package if no names are imported."""
    if name not in _PAIRED:
        return None
    importlib.import_module(name)
    return sys.modules[name if names else outer(name)]


def _module(module: types.ModuleType) -> types.ModuleType | None:
    name = module.__name__
    if name not in _PAIRED or sys.modules.get(name) is not module:
        return None
    made = importlib.import_module(f"tapegrad.{name}")
    _table[id(module)] = module, made
    return made


def _owner(value) -> str | None:
    """The library that a function or class may belong to."""
    if isinstance(value, np.ufunc):
        return "ufunc"
    if not callable(value):
        kind = type(value).__module__ or ""  # as np.r_ is
        return "numpy" if kind.startswith("numpy.lib.") else None
    owner = getattr(value, "__module__", None)
    package = outer(owner) if isinstance(owner, str) else ""
    return package if package in ("numpy", "scipy", "math") else None


def _modules_of(owner: str) -> list[str]:
    """The modules that may have a function of a library, among those that were imported."""
    names = {"numpy": _NUMPY, "scipy": _SCIPY, "math": ("math",)}.get(
        owner, ("numpy", "scipy.special")
    )
    return [name for name in names if name in sys.modules and name not in _read]


def _read_names(name: str) -> None:
    """Put the names of a module into the table."""
    original = sys.modules[name]
    made = _module(original)
    if made is None:
        return
    names = dir(math) if name == "math" else getattr(made, "__all__", None) or dir(made)
    for key in names:
        if key.startswith("_") or isinstance(vars(original).get(key), types.ModuleType):
            continue
        try:
            theirs, ours = getattr(original, key), getattr(made, key)
        except AttributeError:
            continue
        if theirs is not ours and (callable(theirs) or _owner(theirs)):
            _table.setdefault(id(theirs), (theirs, ours))
    _read.add(name)
