"""Objects in entered functions: which functions they lead to, methods of SciPy's classes."""

from __future__ import annotations

import collections
import functools
import gc
import inspect
import sys
import threading
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.pytree import none_traced
from .._core.tensor.reachable import (
    MOST_ITEMS,
    attribute_values,
    items_of,
    module_of_class,
    outer,
    own_code,
)
from .exchange import Need
from .exchanged_names import ABSENT, Loaded, Watched
from .numba_functions import is_compiled
from .stand_ins import is_of_scipys_class, stand_in

# --- What of objects and functions decides which functions can be reached through them ------------


#: The number of objects in containers that are looked at, and how deep.
_MOST_HELD, _DEEPEST = 256, 3
#: Types of objects through which no function is reached; those of tensors are added.
DATA = {type(None), bool, int, float, complex, str, bytes, range, slice, np.ndarray, np.float64}
_CONTAINERS = frozenset((list, tuple, dict, set, frozenset))
_DERIVED = (*_CONTAINERS, collections.deque)
_FUNCTIONS = frozenset((types.FunctionType, types.MethodType, functools.partial, type))
_LIBRARIES = frozenset(("numpy", "scipy", "tapegrad", "builtins", "datetime", "decimal", "pandas"))
#: Types of objects that are compared by identity, those of libraries and the user's.
_KNOWN = (types.BuiltinFunctionType, np.ufunc)
_COMPARED = frozenset((types.FunctionType, type))

rt.when_started(lambda: DATA.update((rt.Scalar, rt.Array, rt.ComplexTensor)))


def kinds_of(objects: Collection) -> tuple:
    """What of some objects decides which functions can be reached through them: () for data.

    Functions and classes are what they are; of other objects it is the class and their attributes.
    The time that it takes does not depend on the size of containers.
    """
    return () if DATA.issuperset(map(type, objects)) else _kinds(objects)[0]


def is_of_kinds(one, kinds: tuple) -> bool:
    """Whether this is what `kinds_of` gives of one object."""
    if len(kinds) == 1 and kinds[0] is type(one):  # most objects hold data alone, without a dict
        held = gc.get_referents(one)
        if held and held[-1] is kinds[0]:
            held.pop()
        if DATA.issuperset(map(type, held)):
            return True
    return kinds_of((one,)) == kinds


def _kinds(objects: Collection) -> tuple[tuple, bool]:
    """The same, and whether nothing has been left out."""
    found: list = []
    held, count, is_complete = [(objects, 0)], 0, True
    for items, depth in held:  # which grows
        count += len(items)
        if count > _MOST_HELD:
            return tuple(found), False
        if DATA.issuperset(map(type, items)):
            continue
        for one in items:
            kind, inner = type(one), ()  # type: Any, Collection
            if kind in DATA:
                continue
            if kind in _CONTAINERS:
                inner = one.values() if kind is dict else one
            elif kind in _FUNCTIONS or isinstance(one, type) or is_compiled(one):
                found.append(one)
            elif outer(module_of_class(kind)) not in _LIBRARIES:
                found.append(kind)
                inner = attribute_values(one)
                if isinstance(one, _DERIVED):
                    inner = [*inner, *items_of(one)]
            else:
                is_complete = is_complete and isinstance(one, np.generic)
                if is_of_scipys_class(one):
                    found.append(kind)
            if inner and len(inner) <= MOST_ITEMS:
                is_complete = is_complete and depth < _DEEPEST
                if depth < _DEEPEST:
                    held.append((inner, depth + 1))
    return tuple(found), is_complete


def attributes_of(kind: type, codes: Iterable[types.CodeType]) -> Iterator[tuple]:
    """What a user's class and its bases have by names in some code: (its dict, name, value).

    The value is ABSENT for classes before the one from which an attribute is inherited.
    """
    bases = [one for one in kind.__mro__ if outer(module_of_class(one)) not in _LIBRARIES]
    held = set[str]().union(*map(vars, bases))
    for name in held.intersection(frozenset(("__call__",)).union(*map(names_asked, codes))):
        for base in bases:
            yield vars(base), name, vars(base).get(name, ABSENT)
            if name in vars(base):
                break


@functools.lru_cache(maxsize=4096)
def names_asked(code: types.CodeType) -> frozenset[str]:
    """The names of attributes in code, and in the code in it."""
    inner = [names_asked(one) for one in code.co_consts if isinstance(one, types.CodeType)]
    return frozenset(code.co_names).union(*inner)


def likeness(f) -> tuple | None:
    """What of a function or a method decides what it reaches, equal where only data differ.

    None where too much would have to be compared.
    """
    own = f.__func__ if type(f) is types.MethodType else f
    if type(own) is not types.FunctionType or own.__dict__:
        return None
    try:
        held = [cell.cell_contents for cell in own.__closure__ or ()]
    except ValueError:  # a name without a value
        return None
    named = own.__kwdefaults__ or {}
    held += [*(own.__defaults__ or ()), *named.values()]
    parts = [_part(one) for one in held]
    if own is not f:
        parts.append(_part(f.__self__))
    if None in parts:
        return None
    return id(own_code(own)), id(own.__globals__), *named, *parts


def _part(one) -> Any:
    """A function or a class that a function holds, or the kinds of another object; None if it may
    have to be the very same one.

    Nothing of the user's is kept alive.
    """
    if isinstance(one, _KNOWN):
        return one
    if type(one) in _COMPARED or type(one) is types.ModuleType:
        return weakref.ref(one)
    kinds, is_complete = _kinds((one,))
    is_plain = type(one) is not np.ndarray or not one.dtype.hasobject
    if not (is_complete and is_plain and _COMPARED.issuperset(map(type, kinds))):
        return None
    bases = [base for kind in kinds if isinstance(kind, type) for base in kind.__mro__]
    has_slots = any([vars(base).get("__slots__") for base in bases])
    return None if has_slots else tuple(map(weakref.ref, kinds))


# --- Methods of SciPy's classes while a function is entered that reaches objects of theirs --------
# Such an object is in an attribute, a list, a default argument, or is passed: no name says that it
# is one. The methods of its class run by code which hands recorded arguments to the object's stand-
# in.


#: Methods that Python calls with arguments for what the user's code does with an object.
_SPECIAL = frozenset(("__call__", "__pow__"))
#: Functions that read attributes of any name.
_ANY = frozenset(("getattr", "methodcaller", "attrgetter"))
#: In code that is made, what is a constant of it later.
_CALLED = "tapegrad"


def methods_of(objects: list, codes: Iterable[types.CodeType]) -> list[Need]:
    """The methods of the classes of SciPy's objects among some, with the codes they run by.

    They are those that code names, and those among the objects, as bound ones lead to them: each
    takes time in every call.
    """
    kinds: set[Any] = {type(one) for one in objects if is_of_scipys_class(one)}
    found = {id(one): (name, one) for kind in kinds for name, one in _methods(kind)}
    asked = _SPECIAL.union(*map(names_asked, codes)) if found else _SPECIAL
    is_any = not _ANY.isdisjoint(asked)
    bound = set(map(id, objects))
    return [
        _need(name, one, own_code(one))
        for name, one in found.values()
        if is_any or name in asked or id(one) in bound
    ]


@functools.lru_cache(maxsize=256)
def _methods(kind: Any) -> tuple[tuple[str, types.FunctionType], ...]:
    """The public methods of a class, and of those in the modules from which it inherits.

    Some methods return an object of another class, which is in the same module.
    """
    bases = [one for one in kind.__mro__ if one.__module__.startswith("scipy.")]
    spaces = [vars(sys.modules[one.__module__]) for one in bases[1:] or bases]
    near = [one for space in spaces for one in space.values() if isinstance(one, type)]
    every = [*bases, *[one for one in near if one.__module__.startswith("scipy.")]]
    found = [(name, one) for base in every for name, one in vars(base).items()]
    return tuple([(name, one) for name, one in found if _is_method(name, one)])


def _is_method(name: str, one) -> bool:
    if not isinstance(one, types.FunctionType) or (name[0] == "_" and name not in _SPECIAL):
        return False
    return own_code(one).co_argcount > 0 and not inspect.isgeneratorfunction(one)


@functools.lru_cache(maxsize=4096)
def _need(name: str, method: types.FunctionType, own: types.CodeType) -> Need:
    loaded = Loaded(own, lambda inner, at: ABSENT)
    return Need(method, loaded, Watched(), _handing(own, _called(name, method, own)), False)


def _handing(own: types.CodeType, called: Callable) -> types.CodeType:
    """Code with the parameters of a method that hands them to a function."""
    count, named = own.co_argcount, own.co_kwonlyargcount
    first, *others = own.co_varnames[:count]
    only, rest = own.co_varnames[count : count + named], own.co_varnames[count + named :]
    given, handed = [first, *others], [first, *others]
    if own.co_posonlyargcount:
        given.insert(own.co_posonlyargcount, "/")
    if own.co_flags & inspect.CO_VARARGS:
        given.append(f"*{rest[0]}")
        handed.append(f"*{rest[0]}")
        rest = rest[1:]
    elif only:
        given.append("*")
    given += only
    handed += [f"{one}={one}" for one in only]
    if own.co_flags & inspect.CO_VARKEYWORDS:
        given.append(f"**{rest[0]}")
        handed.append(f"**{rest[0]}")
    # as many variables of enclosing functions as the method has, which nothing reads
    outer = [f"_{number}_of_outer" for number in range(len(own.co_freevars))]
    text = (
        f"def outer({', '.join(outer)}):\n def made({', '.join(given)}):\n"
        f"  _called_ = {_CALLED!r}\n  return _called_({', '.join(handed)})\n"
        f"  ({', '.join(outer)})\n"
    )
    made = _inner(_inner(compile(text, own.co_filename, "exec"), "outer"), "made")
    constants = tuple([called if one == _CALLED else one for one in made.co_consts])
    names: dict[str, Any] = {"co_name": own.co_name, "co_firstlineno": own.co_firstlineno}
    if sys.version_info >= (3, 11):
        names["co_qualname"] = own.co_qualname
    return made.replace(co_consts=constants, **names)


def _inner(code: types.CodeType, name: str) -> types.CodeType:
    held = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return next(one for one in held if one.co_name == name)


# --- calls ----------------------------------------------------------------------------------------

#: The calls that stand-ins have been handed, by thread, object and method: what they call
#: of the same object is SciPy's own.
_handed: set[tuple[int, int, str]] = set()


def _called(name: str, method: types.FunctionType, own: types.CodeType) -> Callable:
    """What a method does for the time: that of the stand-in for recorded arguments."""
    plain = types.FunctionType(own, method.__globals__, method.__name__, None, method.__closure__)
    defaults, named = method.__defaults__ or (), method.__kwdefaults__ or {}
    count = own.co_argcount - 1

    def called(self, /, *args, **kwargs):
        if none_traced(args) and none_traced(kwargs.values()):
            return plain(self, *args, **kwargs)
        key, ours = (threading.get_ident(), id(self), name), _method_of(stand_in(self), name)
        if ours is None or key in _handed:
            return plain(self, *args, **kwargs)
        given = _without(defaults, [*args[:count]]) if len(args) <= count else args
        kwargs = {one: x for one, x in kwargs.items() if one not in named or named[one] is not x}
        _handed.add(key)
        try:
            return ours(*given, **kwargs)
        finally:
            _handed.discard(key)

    return called


def _method_of(ours, name: str) -> Any:
    return None if ours is None else getattr(ours, name, None)


def _without(defaults: tuple, args: list) -> list:
    """Arguments without those at the end that are defaults."""
    first = len(args) - len(defaults)
    while len(args) > max(first, 0) and args[-1] is defaults[len(args) - 1 - first]:
        args.pop()
    return args
