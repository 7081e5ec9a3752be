"""What of objects and functions decides which functions can be reached through them."""

from __future__ import annotations

import collections
import functools
import gc
import types
import weakref
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.reachable import (
    MOST_ITEMS,
    attribute_values,
    items_of,
    module_of_class,
    outer,
    own_code,
)
from .exchanged_names import ABSENT
from .numba_functions import is_compiled
from .stand_ins import is_of_scipys_class

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
