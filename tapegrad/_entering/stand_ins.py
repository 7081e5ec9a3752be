"""What stands for names of NumPy, SciPy, `math`, and for questions about types, in entered code."""

from __future__ import annotations

import cmath
import functools
import importlib
import math
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.complex_tensors import imag_part, joined_parts, real_part
from .._core.tensor.plain_data import (
    ambiguous,
    as_kind,
    class_of,
    number_of,
    plain_samples,
    possible_kinds,
)
from .._core.tensor.reachable import module_of_class, outer
from .._core.tensor.trace import learned, steered
from .._core.tensor.values import value_of
from .numba_functions import of_numba

# --- `complex()` and the functions of `cmath` in entered code: recorded numbers stay recorded -----


_TENSORS = rt.Tensor, rt.ComplexTensor


def _are_plain(given) -> bool:
    return not any([isinstance(one, _TENSORS) for one in given])


def _parts(one) -> tuple:
    """The real and the imaginary part of a number as it is."""
    if isinstance(one, rt.ComplexTensor):
        return real_part(one), imag_part(one)
    if isinstance(one, rt.Tensor):
        kept = number_of(one)
        return (float(one) if kept is None else kept), 0.0  # an array has its own error
    made = complex(one)
    return made.real, made.imag


def _plain(one) -> complex:
    return complex(*[float(value_of(part)) for part in _parts(one)])


def complex_of_recorded(*given, **named):
    """Python's `complex`; of recorded numbers a recorded one."""
    if len(given) + len(named) > 2 or _are_plain((*given, *named.values())):
        return complex(*given, **named)
    every = [*given, *[named.get(name, 0.0) for name in ("real", "imag")][len(given) :]]
    real, imag = every[0], every[1]
    (a, b), (c, d) = _parts(real), _parts(imag)
    if isinstance(imag, (complex, rt.ComplexTensor)):
        a = a - d
    if isinstance(real, (complex, rt.ComplexTensor)):
        c = b + c
    return joined_parts(a, c)


def _of_python(made):
    """A result whose numbers are Python's."""
    if isinstance(made, rt.ComplexTensor):
        return joined_parts(*map(_of_python, (real_part(made), imag_part(made))))
    kept = number_of(made) if isinstance(made, rt.Tensor) else None
    return made if kept is None else kept


def _checked(theirs: Callable, made, given: tuple):
    """A result that is finite; else what Python's function raises there.

    Programs serve only operands for which it is so again.
    """
    name = f"cmath.{theirs.__name__}()"
    parts = _parts(made)
    if all([math.isfinite(float(value_of(part))) for part in parts]):
        if rt.trace() is not None:
            for part in parts:
                learned(steered(np.isfinite, part), name)
        return _of_python(made)
    for one in given:
        for part in _parts(one):
            learned(part, name)
    theirs(*map(_plain, given))
    return _of_python(made)


def _unary(theirs: Callable, ours: str) -> Callable:
    """A function of one number by an operation."""

    @functools.wraps(theirs)
    def function(z, /):
        if not isinstance(z, _TENSORS):
            return theirs(z)
        return _checked(theirs, PUBLIC[ours](joined_parts(*_parts(z))), (z,))

    return function


def _recorded(theirs: Callable) -> Callable[[Callable], Callable]:
    """A decorator: Python's function of plain numbers, another one of recorded ones."""

    def decorate(ours: Callable) -> Callable:
        @functools.wraps(theirs)
        def function(*given, **named):
            return theirs(*given, **named) if _are_plain(given) else ours(*given, **named)

        return function

    return decorate


@_recorded(cmath.log)
def _log(z, *base):
    found = [PUBLIC["log"](joined_parts(*_parts(one))) for one in (z, *base)]
    return _checked(cmath.log, found[0] / found[1] if base else found[0], (z, *base))


@_recorded(cmath.phase)
def _phase(z):
    real, imag = _parts(z)
    return _of_python(PUBLIC["arctan2"](imag, real))


@_recorded(cmath.polar)
def _polar(z):
    return _of_python(PUBLIC["absolute"](joined_parts(*_parts(z)))), _phase(z)


@_recorded(cmath.rect)
def _rect(r, phi):
    made = joined_parts(r * PUBLIC["cos"](phi), r * PUBLIC["sin"](phi))
    return _checked(cmath.rect, made, (r, phi))


@_recorded(cmath.isclose)
def _isclose(a, b, *, rel_tol=1e-9, abs_tol=0.0):
    off, sizes = abs(a - b), (abs(a), abs(b))
    return bool(off <= abs_tol) or any([bool(off <= rel_tol * size) for size in sizes])


def _truth(theirs: Callable, ours: Callable, of_both: Callable) -> Callable:
    """A function of the parts that answers yes or no."""
    return _recorded(theirs)(lambda z: of_both([bool(ours(part)) for part in _parts(z)]))


_OPERATIONS = {
    **{
        name: name for name in ("exp", "sqrt", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
#: What stands for the functions of `cmath`.
OF_CMATH: dict[Any, Callable] = {
    **{getattr(cmath, name): _unary(getattr(cmath, name), op) for name, op in _OPERATIONS.items()},
    **{cmath.log: _log, cmath.phase: _phase, cmath.polar: _polar, cmath.rect: _rect},
    cmath.isclose: _isclose,
    cmath.isnan: _truth(cmath.isnan, np.isnan, any),
    cmath.isinf: _truth(cmath.isinf, np.isinf, any),
    cmath.isfinite: _truth(cmath.isfinite, np.isfinite, all),
}


# --------------------------------------------------------------------------------------------------
# `type`, `isinstance`, `hasattr`, `float` in entered code: recorded values are as plain ones.


#: Modules of Python's classes of classes.
_ASKING = frozenset(("builtins", "abc", "typing", "types"))


def _is_asked(one) -> bool:
    """Whether the answer for an object is that for its plain value."""
    return issubclass(type(one), _TENSORS) and rt.in_transform()


def type_of_recorded(one, *more, **named):
    """Python's `type`; refused for numbers that may be Python's or NumPy's."""
    if more or named or not issubclass(type(one), _TENSORS):
        return type(one, *more, **named)
    if (found := _class_of(one)) is not None:
        return found
    if not _is_asked(one):
        return type(one)
    found = possible_kinds(one)
    if len(found) > 1:
        raise ambiguous("the type", one)
    return found[0]


def is_instance(one, kinds):
    """Python's `isinstance`; refused where the answer is another one for Python and NumPy.

    What stands for an object of SciPy's names its class, `stands_for`.
    """
    if hasattr(type(one), "stands_for"):
        return isinstance(one, kinds) or issubclass(one.stands_for, kinds)
    if not _is_asked(one) or _reads(kinds):
        return isinstance(one, kinds)
    return _is_of_ours(type(one), kinds) or _agreed(
        "isinstance()", one, lambda plain: isinstance(plain, kinds)
    )


def has_attribute(one, name):
    """Python's `hasattr`; refused where the answer is another one for Python and NumPy."""
    if not _is_asked(one):
        return hasattr(one, name)
    return _agreed("hasattr()", one, lambda plain: hasattr(plain, name))


def _is_of_ours(kind: type, kinds) -> bool:
    """Whether a class of tensors is asked for."""
    if isinstance(kinds, tuple):
        return any([_is_of_ours(kind, each) for each in kinds])
    return isinstance(kinds, type) and issubclass(kinds, _TENSORS) and issubclass(kind, kinds)


def _reads(kinds) -> bool:
    """Whether a class of the user's may read the value of what it is asked for."""
    if isinstance(kinds, tuple):
        return any(map(_reads, kinds))
    check = getattr(type(kinds), "__instancecheck__", None)
    return outer(getattr(check, "__module__", None) or "builtins") not in _ASKING


def _class_of(one) -> type | None:
    """The class of data, of which it is known."""
    return class_of(one) if issubclass(type(one), rt.Tensor) else None


def _agreed(what: str, one, ask):
    known = _class_of(one)
    samples = plain_samples(one) if known is None else [as_kind(one, known)]
    found = [ask(plain) for plain in samples]
    if any([answer is not found[0] for answer in found]):
        raise ambiguous(what, one)
    return found[0]


def float_of_recorded(*given):
    """Python's `float`; a recorded number stays one, with its derivative."""
    if len(given) != 1 or not isinstance(given[0], rt.Tensor):
        return float(*given)
    kept = number_of(given[0])
    return float(given[0]) if kept is None else kept


#: What stands for Python's own functions and classes.
OF_PYTHON = {
    type: type_of_recorded,
    isinstance: is_instance,
    hasattr: has_attribute,
    float: float_of_recorded,
    complex: complex_of_recorded,
}


# --- What stands for the functions and modules of NumPy, SciPy and `math` in entered code ---------


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
    "scipy.interpolate": "_interpolate_polynomials",
    "scipy.signal": "_signal_systems",
    "scipy.sparse.linalg": "_sparse_linalg",
    "scipy.spatial": "_spatial_rotations",
    "scipy.stats": "_stats_distributions",
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
