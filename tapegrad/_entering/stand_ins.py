"""What stands for the functions and modules of NumPy, SciPy and `math` in entered code."""

from __future__ import annotations

import functools
import importlib
import math
import sys
import types
import weakref
from typing import Any

import numpy as np

from .._core.tensor.reachable import module_of_class, outer
from .complex_numbers import OF_CMATH
from .numba_functions import of_numba
from .types_asked import OF_PYTHON

#: Modules with a counterpart of this package, whose names are those of the original.
_NUMPY = ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.polynomial")
_OF_SCIPY = (
    "cluster constants differentiate fft integrate interpolate io linalg ndimage optimize signal "
    "sparse spatial special stats cluster.vq signal.windows sparse.csgraph sparse.linalg "
    "spatial.distance spatial.transform stats.contingency"
).split()
_SCIPY = ("scipy", *[f"scipy.{name}" for name in _OF_SCIPY])
#: Libraries of which it matters what is called: such functions may call their arguments.
_LOOKED_AT = frozenset(("builtins", "functools", "_functools", "numpy"))
_PAIRED = {*_NUMPY, *_SCIPY, "math"}

#: By the identity of the original: the original, which stays alive, and its stand-in.
_table: dict[int, tuple[Any, Any]] = {
    id(one): (one, ours) for one, ours in (*OF_PYTHON.items(), *OF_CMATH.items())
}


def pair(original, ours) -> None:
    """Let an object have a stand-in."""
    _table[id(original)] = original, ours


def stand_in(value) -> Any:
    """The stand-in of a function, a class or a module; None where the object itself is used."""
    hit = _table.get(id(value))
    if hit is not None and hit[0] is value:
        return hit[1]
    if isinstance(value, types.ModuleType):
        return _module(value)
    if type(value) is np.vectorize:
        return _vectorized(value)
    if is_of_scipys_class(value):
        return _of_instance(value)
    if type(value) is types.BuiltinMethodType and is_of_scipys_class(value.__self__):
        return getattr(_of_instance(value.__self__), value.__name__)  # as `factorized` returns
    owner = _owner(value)
    if owner is None:
        return of_numba(value)
    for module in _modules_of(owner):
        own, name = _names_of(module).get(id(value), (None, ""))
        made = getattr(_module(module), name, value) if own is value else value
        if made is not value:
            _table[id(value)] = value, made
            return made
    return None


def may_count(value) -> bool:
    """Whether code depends on an object beyond its name: not on data, nor on the user's functions.

    What is found for code is kept with these objects, and serves for all others.
    """
    if isinstance(value, types.ModuleType) or stand_in(value) is not None:
        return True
    owner = getattr(value, "__module__", None) if callable(value) else None
    return isinstance(owner, str) and outer(owner) in _LOOKED_AT


def _is_numbas(value) -> bool:
    return isinstance(value, types.ModuleType) and outer(value.__name__) == "numba"


#: By objects of NumPy's `vectorize`, which users make, what stands for them.
_of_users: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _vectorized(value: np.vectorize) -> Any:
    """The stand-in of a function that NumPy calls element by element."""
    if value not in _of_users:
        kind = stand_in(np.vectorize)
        _of_users[value] = made = object.__new__(kind)
        vars(made).update(vars(value))
    return _of_users[value]


#: By packages of SciPy, the file in `tapegrad.scipy` that makes stand-ins of its instances: its
#: function `of_instance` returns that of an object, or None where the object itself is used.
_INSTANCES = {
    "scipy.interpolate": "_interpolators",
    "scipy.signal": "_linear_systems",
    "scipy.sparse.linalg": "_sparse_equations",
    "scipy.spatial": "_spatial_objects",
    "scipy.stats": "_distributions",
}
#: As `_table`, of the instances that were asked for last, with what the stand-in has been made of.
_of_instances: dict[int, tuple[Any, Any, dict[str, Any]]] = {}


def is_of_scipys_class(value) -> bool:
    """Whether an object is an instance of a class of SciPy, of a kind with stand-ins."""
    return not isinstance(value, type) and _package_of(value) in _INSTANCES


def _package_of(value) -> str:
    """The package of the class of an object, such as "scipy.stats", and of one derived from it."""
    if type(value).__name__ == "SuperLU":  # whose class does not say where it is from
        return "scipy.sparse.linalg"
    return ".".join(module_of_class(value).removeprefix("tapegrad.").split(".", 2)[:2])


def _of_instance(value) -> Any:
    """The stand-in of an object as `scipy.stats.norm`, or one that users make as splines."""
    held = _of_instances.get(id(value))
    if held is None or held[0] is not value or not _has_still(value, held[2]):
        file = importlib.import_module(f"tapegrad.scipy.{_INSTANCES[_package_of(value)]}")
        if len(_of_instances) >= 256:
            _of_instances.clear()
        made = file.of_instance(value)
        state = {**vars(value)} if getattr(type(made), "is_made_of_state", False) else {}
        held = _of_instances[id(value)] = value, made, state
    return held[1]


def _has_still(value, state: dict[str, Any]) -> bool:
    return all([vars(value).get(name) is one for name, one in state.items()])


def made_of(value) -> list[str]:
    """The attributes of an object of SciPy's of which its stand-in has copies."""
    if not is_of_scipys_class(value) or stand_in(value) is None:
        return []
    held = _of_instances.get(id(value))
    return [] if held is None else [*held[2]]


class ModuleView:
    """A module of the user's, or Numba, as it is, but for stand-ins among its attributes."""

    def __init__(self, module: types.ModuleType):
        self._module = module

    def __reduce__(self):
        return _view_of_named, (self._module.__name__,)

    def __getattr__(self, name: str):
        value = getattr(self._module, name)
        made = stand_in(value)
        if made is None and _is_numbas(value):
            return view_of(value)  # as numba.typed
        return value if made is None else made


@functools.lru_cache(maxsize=256)
def view_of(module: types.ModuleType) -> ModuleView:
    """The one view of a module."""
    return ModuleView(module)


def _view_of_named(name: str) -> ModuleView:
    return view_of(importlib.import_module(name))


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
        kind = module_of_class(value)  # as np.r_ is
        return "numpy" if kind.startswith("numpy.lib.") else None
    owner = getattr(value, "__module__", None)
    package = outer(owner) if isinstance(owner, str) else ""
    return package if package in ("numpy", "scipy", "math") else None


def _modules_of(owner: str) -> list[types.ModuleType]:
    """The modules that may have a function of a library, among those that were imported."""
    names = {"numpy": _NUMPY, "scipy": _SCIPY, "math": ("math",)}.get(
        owner, ("numpy", "scipy.special")
    )
    return [sys.modules[name] for name in names if name in sys.modules]


@functools.lru_cache(maxsize=64)
def _names_of(module: types.ModuleType) -> dict[int, tuple[Any, str]]:
    """The public names in a module, by the identities of the objects, when it is first asked for.

    What tests and others put in the place of a function later is none of these.
    """
    space = vars(module)
    held = [(space.get(name), name) for name in space.get("__all__") or [*space]]
    return {
        id(one): (one, name)
        for one, name in held
        if not name.startswith("_") and not isinstance(one, types.ModuleType)
    }


def is_replaced(module: types.ModuleType, name: str) -> bool:
    """Whether something has been put in the place of a function of a module, as tests do."""
    found = next((one for one, known in _names_of(module).values() if known == name), None)
    return found is not None and vars(module).get(name) is not found


for _early in (np, math):
    _names_of(_early)
