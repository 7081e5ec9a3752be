"""Objects that a user's function can reach, and its own code."""

from __future__ import annotations

import atexit
import collections
import ctypes
import functools
import gc
import operator
import sys
import types
import weakref
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from typing import Any

import numpy as np

from ..codegen import compat
from ..tape.native_types import Getter
from .callers import ANY, is_installed, outer

# --- The user's code of functions, whether they are entered or not --------------------------------
# Python's attribute `__code__` gives it, too, once a code has been made of a user's: then the table
# from which the descriptor of the attribute takes its function is another one, which calls ours.


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


# --- Objects that a user's function can reach: functions that it calls, state that it reads -------


#: Libraries whose functions are recorded where they are called.
COMPUTING = frozenset(("numpy", "scipy", "math"))
LIBRARIES = frozenset(("tapegrad", "numpy", "scipy", "numba", "math", "builtins", "torch"))
#: The number of objects that are searched, and of items of containers.
MOST, MOST_ITEMS = 2000, 100
#: Containers with items, and objects of the standard library that hold nothing but others.
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)
_CONTAINERS = (*_SEQUENCES, dict, functools.partial)
HOLDERS = (collections.UserDict, collections.UserList, collections.ChainMap)
_REFERRING: tuple[type, ...] = (
    *(types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items())),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller),
)
#: What classes hold of their functions.
_MEMBERS = (
    *(property, functools.cached_property, functools.partialmethod, staticmethod, classmethod),
    functools.singledispatchmethod,
)
_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))


def reachable(f: Callable, is_wanted: Callable[[Any], bool]) -> list:
    """The objects of a kind that a function can reach."""
    return [one for one in Reach(f).objects(is_wanted) if is_wanted(one)]


class Reach:
    """What a function can reach.

    It is in the closure of the function, in its defaults and the globals that it names, in
    attributes of objects there, and behind functions that it names. Of modules, of classes of
    installed packages, and of objects of the standard library, such as namespaces, it is in the
    attributes that code names. The standard library is not searched itself, nor are installed
    packages, except for `packages` and those to which the function belongs.
    """

    def __init__(self, f: Callable, *others: Any, packages: Container[str] = ANY):
        self._first, self._packages = [f, *others], packages
        self._own = {outer(module_of(one)) for one in _behind(f)}

    def objects(self, is_end: Callable[[Any], bool]) -> list:
        """The objects, nearest first, without those beyond an end."""
        found: list = [*self._first]
        seen, names, holders = set(map(id, found)), set[str](), list[Mapping]()
        for one in found:  # which grows
            others: list = []
            if not is_end(one):
                others += self._reached(one)
                if isinstance(one, types.FunctionType) and not self.is_of_library(module_of(one)):
                    names |= _names(own_code(one))
                elif self._is_read_by_name(one):
                    holders.append(held_by(one))
            if one is found[-1]:
                others += [held[name] for held in holders for name in names.intersection(held)]
            for other in others:
                if id(other) not in seen and len(found) < MOST:
                    seen.add(id(other))
                    found.append(other)
        return found

    def functions(self, every: list | None = None) -> list[types.FunctionType]:
        """The functions among objects, by default all; not those of libraries."""
        every = self.objects(lambda one: False) if every is None else every
        functions = [one for one in every if isinstance(one, types.FunctionType)]
        return [one for one in functions if not self.is_of_library(module_of(one))]

    def is_library(self, one) -> bool:
        """Whether an object is a class, or an instance of a class, of a library."""
        return self.is_of_library(module_of_class(one))

    def is_of_library(self, module: str) -> bool:
        """Whether a module is one of a library."""
        package = outer(module)
        if package == "__main__":  # which is among the names of the standard library
            return False
        if package in LIBRARIES or package in sys.stdlib_module_names:
            return True
        return self._is_installed(package) and package not in self._packages

    def is_of_package(self, module: str) -> bool:
        """Whether a module is one of an installed package that is searched by names."""
        return self._is_installed(outer(module)) and not self.is_of_library(module)

    def _is_installed(self, package: str) -> bool:
        return package not in self._own and is_installed(package)

    def _reached(self, one) -> list:
        """The objects that an object refers to."""
        if isinstance(one, types.FunctionType):
            return self._of_function(one)
        if isinstance(one, types.MethodType):
            return [one.__func__, one.__self__]
        if isinstance(one, functools.partial):
            return [one.func, *one.args, *one.keywords.values()]
        if type(one) in _PLAIN or isinstance(one, types.ModuleType):
            return []
        if isinstance(one, _MEMBERS):
            return _of_member(one)
        if type(one) is np.vectorize:
            return [one.pyfunc]
        if self.is_library(one):
            return items_of(one) + _wrapped(one)  # as a compiled function's
        if isinstance(one, type):
            every = not self.is_of_package(module_of_class(one))
            return [*one.__bases__, *_held_by_class(one, every)]
        return [*items_of(one), *attribute_values(one), *_slots(one), type(one)]

    def _is_read_by_name(self, one) -> bool:
        """Whether an object may hold much that is read of it by name alone."""
        if isinstance(one, types.ModuleType):
            return not self.is_of_library(one.__name__)
        return type(one) not in _PLAIN and isinstance(one, type) != self.is_library(one)

    def _of_function(self, f: types.FunctionType) -> list:
        """Cells and defaults of a function, and the globals it names, unless it is a library's."""
        found = [*_cells(f), *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
        found += _wrapped(f)
        if self.is_of_library(module_of(f)):
            return found
        names = _names(own_code(f))
        found += [f.__globals__[name] for name in names if name in f.__globals__]
        return found + _imported(f, names)


def items_of(one) -> list:
    """What a container holds, whatever its class makes of going through it; [] for others."""
    if isinstance(one, _REFERRING):
        return gc.get_referents(one)
    if isinstance(one, HOLDERS) or module_of_class(one).startswith("tapegrad.nn"):
        return [*held_by(one).values()]
    if isinstance(one, weakref.ref):
        return [one()]
    if type(one) in weakref.ProxyTypes:
        return [one.__repr__.__self__]
    if isinstance(one, np.ndarray):
        return [*one.flat] if one.dtype.hasobject and one.size <= MOST_ITEMS else []
    if isinstance(one, dict):
        few = dict.__len__(one) <= MOST_ITEMS
        keys = [key for key in dict.keys(one) if type(key) not in _PLAIN] if few else []
        return [*dict.values(one), *keys] if few else []
    kind = next((kind for kind in _SEQUENCES if isinstance(one, kind)), None)
    if kind is None or kind.__len__(one) > MOST_ITEMS:
        return []
    return [*kind.__iter__(one)]


def is_namespace(one) -> bool:
    """Whether an object is there for its attributes alone: a module, a namespace."""
    kind = type(one)
    is_of_options = (kind.__module__, kind.__name__) == ("argparse", "Namespace")
    return is_of_options or isinstance(one, (types.ModuleType, types.SimpleNamespace))


def is_numerical(one) -> bool:
    """Whether an object is of a library of arrays, whose objects have state of their own."""
    return outer(module_of_class(one)) in LIBRARIES


def _behind(f: Callable) -> list[types.FunctionType]:
    """The functions that a callable consists of: those that it wraps, binds or encloses."""
    found: list = [f]
    for one in found:  # which grows
        others: list = _wrapped(one)
        if isinstance(one, types.FunctionType):
            others += [held for held in _cells(one) if callable(held)]
        elif isinstance(one, types.MethodType):
            others.append(one.__func__)
        elif isinstance(one, functools.partial):
            others.append(one.func)
        found += [other for other in others if not any(other is known for known in found)]
    return [one for one in found if isinstance(one, types.FunctionType)]


def _held_by_class(kind: type, every: bool) -> list:
    """The functions that a class holds, in methods and properties, and its containers.

    If not `every`, only methods that Python calls: others are called by their names.
    """
    found: list = []
    for name, value in vars(kind).items():
        is_special = name.startswith("__")
        is_function = isinstance(value, (types.FunctionType, *_MEMBERS))
        if (every or is_special) and (is_function or hasattr(value, "__wrapped__")):
            found.append(value)
        elif every and isinstance(value, _CONTAINERS) and not is_special:  # as annotations are
            found.append(value)
    return found


def _of_member(one) -> list:
    """The functions of a property or another member of a class."""
    if isinstance(one, property):
        return [each for each in (one.fget, one.fset, one.fdel) if each is not None]
    if isinstance(one, (functools.cached_property, functools.partialmethod)):
        return [one.func]
    if isinstance(one, functools.singledispatchmethod):
        return [one.func, one.dispatcher]
    return [one.__func__]


def module_of(f: types.FunctionType) -> str:
    """The name of the module in which a function looks up names; a wrapper has another's name."""
    return f.__globals__.get("__name__") or ""


def module_of_class(one) -> str:
    module = (one if isinstance(one, type) else type(one)).__module__
    return module if isinstance(module, str) else ""  # Cython's functions have a descriptor


def held_by(one) -> Mapping[str, Any]:
    """The attributes in the dict of an object; none if it has no dict, or a proxy gives none."""
    try:
        found = vars(one)
    except Exception:  # a user's own __dict__ may raise anything
        return {}
    is_known = type(found) is dict or isinstance(found, Mapping)  # as one that loads a library's
    return found if is_known else {}


#: The words before an object that hold its attributes or, in 3.12 without a 1, their dict.
_PLACE = {(3, 11): -32, (3, 12): -24}.get(sys.version_info[:2])
_MANAGED = 1 << 4  # the flag of classes whose objects have such words


def attribute_values(one) -> Collection:
    """The values of the attributes of an object, and of its slots if the dict is not made yet.

    It is not made for that: Python 3.11 and 3.12 read attributes more slowly afterwards.
    """
    if _PLACE is not None and compat.holds("inline-attributes", _is_place_known):
        if _is_inline(one):
            return [value for value in gc.get_referents(one) if value is not type(one)]
    return held_by(one).values()


def _is_inline(one) -> bool:
    """Whether an object has attributes, and no dict."""
    if not type(one).__flags__ & _MANAGED:
        return False
    word = ctypes.c_size_t.from_address(id(one) + (_PLACE or 0)).value
    return word != 0 if sys.version_info[:2] == (3, 11) else word & 1 == 1


def _is_place_known() -> bool:
    class Probed:
        def __init__(self):
            self.attribute = self

    one = Probed()
    before = _is_inline(one)
    is_dict_made = bool(vars(one))
    found = before and is_dict_made and not _is_inline(one)
    del one.attribute
    return found


def _slots(one) -> list:
    """The values in the slots of an object."""
    members = [raw for kind in type(one).__mro__ for raw in vars(kind).values()]
    slots = [raw.__name__ for raw in members if isinstance(raw, types.MemberDescriptorType)]
    return [getattr(one, name) for name in slots if hasattr(one, name)]


def _wrapped(one) -> list:
    own = held_by(one)
    return [own["__wrapped__"]] if "__wrapped__" in own else []


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code, and that of the functions and classes in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from codes_in(one)


def _names(code: types.CodeType) -> set[str]:
    return {name for one in codes_in(code) for name in one.co_names}


def _imported(f: types.FunctionType, names: set[str]) -> list:
    """The modules among the names of a function's code, which imports them in its body."""
    parents = [f"{f.__globals__.get('__package__') or ''}."]
    while parents[-1].count(".") > 1:  # `from ..x import y`
        parents.append(parents[-1][:-1].rpartition(".")[0] + ".")
    wanted = [f"{parent}{name}" for name in names for parent in ("", *parents)]
    return [sys.modules[one] for one in wanted if one in sys.modules]


def _cells(f: types.FunctionType) -> list:
    """The values of the variables of enclosing functions."""
    return [cell.cell_contents for cell in f.__closure__ or () if _is_filled(cell)]


def _is_filled(cell) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # for a name without a value
        return False
    return True
