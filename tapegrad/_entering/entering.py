"""User functions run, during a transform, by code that calls stand-ins.

The code of every function that the differentiated one can reach is exchanged for the time of a call
and put back afterwards. Functions, classes, instances, globals and variables stay the user's.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import types
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from .._core.codegen import forks
from .._core.tensor import runtime as rt
from .._core.tensor.own_code import made_for, own_code
from .._core.tensor.plain_data import answer_all, answer_no_more
from .._core.tensor.reachable import MOST_ITEMS, Reach, held_by, items_of, outer
from .config import config
from .exchanged_names import ABSENT, Loaded, Watched, rewritten, watched_in
from .name_uses import instructions, names_imported
from .numba_functions import Checked, checked, is_compiled
from .stand_ins import imported, may_count

_lock = forks.lock()


def entering(f: Callable) -> Callable:
    """The function as transforms call it: entered for the time of each call."""
    if type(f) is Entering or not config.enter:
        return f
    return Entering(checked(f) if is_compiled(f) else f)


class Entering:
    """A user's function that is entered when it is called.

    What it can reach is found at the first call, and again when a name has another value, or when
    arguments are functions or objects of other kinds.
    """

    __slots__ = ("__wrapped__", "__weakref__", "_found")

    def __init__(self, f: Callable):
        self.__wrapped__ = f
        self._found: dict[Any, _Found] = {}

    def __call__(self, /, *args, **kwargs):
        handed = kinds_of((*args, *kwargs.values()) if kwargs else args)
        found = self._found.get(handed)
        if found is None or not found.is_current():
            if len(self._found) >= _MOST_KINDS:
                self._found.clear()
            held = [one for one in (*args, *kwargs.values()) if type(one) not in _DATA]
            found = self._found[handed] = _Found([self.__wrapped__, *held])
        if not found.entered:
            return self.__wrapped__(*args, **kwargs)
        run = _Run(found.entered)
        try:
            return self.__wrapped__(*args, **kwargs)
        except BaseException:
            self._found.pop(handed, None)  # a function that was not found may be the reason
            raise
        finally:
            run.end()


#: The number of kinds of arguments for which what is found is kept.
_MOST_KINDS = 32
#: The number of objects in containers that are looked at, and how deep.
_MOST_HELD, _DEEPEST = 256, 3
#: Types of objects through which no function is reached; those of tensors are added.
_DATA = {type(None), bool, int, float, complex, str, bytes, range, slice, np.ndarray, np.float64}
_CONTAINERS = frozenset((list, tuple, dict, set, frozenset))
_FUNCTIONS = frozenset((types.FunctionType, types.MethodType, functools.partial, type))
_LIBRARIES = frozenset(("numpy", "scipy", "tapegrad", "builtins", "datetime", "decimal", "pandas"))


def kinds_of(objects: Collection) -> tuple:
    """What of some objects decides which functions can be reached through them: () for data.

    Functions and classes are what they are; of other objects it is the class and their attributes.
    The time that it takes does not depend on the size of containers.
    """
    if _DATA.issuperset(map(type, objects)):
        return ()
    found: list = []
    held, count = [(objects, 0)], 0
    for items, depth in held:  # which grows
        count += len(items)
        if count > _MOST_HELD:
            break
        if _DATA.issuperset(map(type, items)):
            continue
        for one in items:
            kind, inner = type(one), ()  # type: Any, Collection
            if kind in _DATA:
                continue
            if kind in _CONTAINERS:
                inner = one.values() if kind is dict else one
            elif kind in _FUNCTIONS or isinstance(one, type):
                found.append(one)
            elif outer(kind.__module__ or "") not in _LIBRARIES:
                found.append(kind)
                inner = [*held_by(one).values(), *items_of(one)]
            if inner and depth < _DEEPEST and len(inner) <= MOST_ITEMS:
                held.append((inner, depth + 1))
    return tuple(found)


rt.when_started(lambda: _DATA.update((rt.Scalar, rt.Array, rt.ComplexTensor)))


# --- in and out -----------------------------------------------------------------------------------


class _Entered:
    """A function with its own code and the other one, and the calls that need that now."""

    __slots__ = ("__weakref__", "calls", "function", "made", "own")

    def __init__(self, function: types.FunctionType, own: types.CodeType, made: types.CodeType):
        self.function, self.own, self.made = function, own, made
        self.calls: set[int] = set()


#: The one entry of each function, by its identity, for as long as anything needs it.
_known: weakref.WeakValueDictionary[int, _Entered] = weakref.WeakValueDictionary()


class _Run:
    """One call during which functions are entered. At its end, however it comes, they are left.

    Each step can be done twice: an interrupt may come between any two, and then the end of this
    object's life is the end of the call.
    """

    __slots__ = ("_entered",)

    def __init__(self, entered: tuple[_Entered, ...]):
        self._entered = entered
        number = id(self)
        answer_all(number)
        with _lock:
            for one in entered:
                one.calls.add(number)
                _put(one)

    def end(self) -> None:
        number = id(self)
        answer_no_more(number)
        with _lock:
            for one in self._entered:
                one.calls.discard(number)
                _take_out(one)
            self._entered = ()

    def __del__(self):
        if self._entered:
            self.end()


def _put(one: _Entered) -> None:
    if one.function.__code__ is one.own:
        one.function.__code__ = one.made


def _take_out(one: _Entered) -> None:
    if not one.calls and one.function.__code__ is one.made:
        one.function.__code__ = one.own


@forks.in_child
def _leave_all() -> None:
    """In a forked child nothing is entered."""
    for one in [*_known.values()]:
        one.calls.clear()
        _take_out(one)


# --- what is entered ------------------------------------------------------------------------------


class _Found:
    """The functions that are entered, and the names on which that depends.

    A name is (its dict, name, value), or (a cell, None, value).
    """

    __slots__ = ("_names", "entered")

    def __init__(self, objects: list):
        functions = _functions([_function_of(one) for one in objects])
        assigned = {key for one in functions for key in _assigned(one)}
        names: dict[tuple[int, str], tuple[Any, str | None, Any]] = {}
        every = [Loaded(own_code(one), _resolver(one, assigned, names)) for one in functions]
        pairs = zip(*map(watched_in, every), strict=True)
        kept = Watched(*[frozenset().union(*one) for one in pairs])
        entered = []
        for function, loaded in zip(functions, every, strict=True):
            made = rewritten(loaded, kept)
            if made.code is not loaded.code:
                entered.append(_entry(function, loaded.code, made.code))
                names.update({(id(one[0]), one[1]): one for one in made.attributes})
        self.entered, self._names = tuple(entered), [*names.values()]

    def is_current(self) -> bool:
        """Whether names and functions are what they were when they were searched."""
        for owner, name, value in self._names:
            if (_content(owner) if name is None else owner.get(name, ABSENT)) is not value:
                return False
        for one in self.entered:
            code = one.function.__code__
            if code is not one.own and code is not one.made:
                return False
        return True


def _entry(function: types.FunctionType, own: types.CodeType, made: types.CodeType) -> _Entered:
    """The one entry of a function, which all calls share, with the code that is new to it."""
    with _lock:
        one = _known.get(id(function))
        if one is None or one.function is not function or one.own is not own:
            one = _known[id(function)] = _Entered(function, own, made_for(own, made))
        elif not one.calls:
            one.made = made_for(own, made)
        return one


def _function_of(one) -> Any:
    """The copy that is called in place of a function compiled by Numba; others as they are."""
    if is_compiled(one):
        return checked(one).function
    return one.function if type(one) is Checked else one


def _functions(objects: list) -> list[types.FunctionType]:
    """The functions that others reach, in place of those compiled by Numba their copies."""
    reach = Reach(*objects)
    every = reach.objects(is_compiled)
    copies = [checked(one).function for one in every if is_compiled(one)]
    new = [one for one in copies if not any(one is known for known in objects)]
    if new:
        return _functions([*objects, *new])
    memoized = {id(one.__wrapped__) for one in every if isinstance(one, _MEMOIZED)}
    return [
        one
        for one in reach.functions(every)
        if id(one) not in memoized  # what they hold must be data
        and getattr(one, "__builtins__", None) is vars(builtins)
    ]


_MEMOIZED = type(functools.lru_cache(lambda: 0))


def _resolver(f: types.FunctionType, assigned: set, names: dict):
    """What loads of names give in the code of a function and in the code in it."""
    code = own_code(f)
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))

    def resolve(inner: types.CodeType, one) -> Any:
        name = one.argval
        if one.opname == "IMPORT_NAME":
            return imported(name, names_imported(inner, one)) or ABSENT
        if one.opname == "LOAD_DEREF":
            if name not in cells or not _is_outer(code, inner, name):
                return ABSENT
            owner, key, value = cells[name], None, _content(cells[name])  # type: Any, Any, Any
        else:
            if one.opname == "LOAD_NAME" and name in _stored(inner):
                return ABSENT
            owner, key, value = f.__globals__, name, f.__globals__.get(name, ABSENT)
            if value is ABSENT:
                return getattr(builtins, name, ABSENT)
        if value is ABSENT or (id(owner), name) in assigned:
            return ABSENT
        if callable(value) or isinstance(value, types.ModuleType):
            names[id(owner), name] = owner, key, value
        return value if may_count(value) else ABSENT

    return resolve


def _content(cell) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name without a value
        return ABSENT


def _is_outer(code: types.CodeType, inner: types.CodeType, name: str) -> bool:
    """Whether a variable of inner code is one of the functions around `code`."""
    if inner is code:
        return True
    if name in code.co_cellvars:
        return False
    held = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return any(name in one.co_freevars and _is_outer(one, inner, name) for one in held)


@functools.lru_cache(maxsize=4096)
def _stored(code: types.CodeType) -> frozenset[str]:
    return frozenset([one.argval for one in instructions(code) if one.opname == "STORE_NAME"])


@functools.lru_cache(maxsize=4096)
def _stores(code: types.CodeType) -> tuple[tuple[bool, str], ...]:
    """The globals, and the variables of enclosing functions, that code assigns or deletes."""
    kinds = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")
    found = [one for one in instructions(code) if one.opname in kinds]
    inner = [_stores(one) for one in code.co_consts if isinstance(one, types.CodeType)]
    own = [(one.opname.endswith("GLOBAL"), one.argval) for one in found]
    return (*own, *itertools.chain.from_iterable(inner))


def _assigned(f: types.FunctionType) -> Iterator[tuple[int, str]]:
    """The names that a function assigns, each with the identity of what holds it."""
    code = own_code(f)
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    for is_global, name in _stores(code):
        owner = f.__globals__ if is_global else cells.get(name)
        if owner is not None:
            yield id(owner), name
