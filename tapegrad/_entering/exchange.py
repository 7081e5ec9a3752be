"""The codes of functions exchanged for the time of a call, and objects that lead to others."""

from __future__ import annotations

import collections
import ctypes
import functools
import gc
import inspect
import itertools
import operator
import sys
import threading
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._core.codegen import layout, process
from .._core.tape.native_types import STATE
from .._core.tensor import runtime as rt
from .._core.tensor.plain_data import answer_all, class_lock
from .._core.tensor.pytree import (
    ABSENT,
    MOST_ITEMS,
    attribute_values,
    code_of,
    held_items,
    made_for,
    module_of_class,
    none_traced,
    outer,
    own_code,
)
from .exchanged_names import LoadedCode, Watched, rewritten
from .stand_ins import is_compiled, is_of_scipys_class, stand_in

# --- exchange -------------------------------------------------------------------------------------
# The codes of functions are exchanged for the time of a call, and put back afterwards.
#
# All codes of a call are set by one call into C, between whose steps neither a signal handler nor
# another thread runs. What is to be put back is noted before. A call whose end an interrupt
# prevents ends with the object that stands for it, or when the next one begins.

_lock = class_lock
#: What is the id of tensors that are made without a row.
_unrecorded = ctypes.c_int64.from_address(STATE.ctypes.data + layout.STATE_UNRECORDED)
_MADE_INSIDE, _UNRECORDED = layout.MADE_INSIDE, layout.UNRECORDED
_CODE = itertools.repeat("__code__")


class Need(NamedTuple):
    """A function that a call can reach, and the code that suits what else it can reach.

    The code is the user's own, that of `loaded`, where nothing is exchanged. Names that are left
    may be exchanged for another call.
    """

    function: Any  # a function of Python, not one to be bound
    loaded: LoadedCode
    kept: Watched
    made: types.CodeType
    has_left: bool


class Exchange:
    """The functions that a call can reach, and the codes of those that run with other ones."""

    __slots__ = ("_functions", "_is_needed", "_made", "_only", "_own", "_settled", "needs")

    def __init__(self, needs: Iterable[Need]):
        #: By the identity of the function, which lives as long as this object.
        self.needs = {id(one.function): one for one in needs}
        changed = [one for one in self.needs.values() if one.made is not one.loaded.code]
        self._is_needed = bool(changed) or any(one.has_left for one in self.needs.values())
        self._functions = [one.function for one in changed]
        self._own = [one.loaded.code for one in changed]
        self._made = [made_for(one.loaded.code, one.made) for one in changed]
        self._only = self._functions[0] if len(changed) == 1 else None  # for short calls
        self._settled: dict[tuple[Exchange, ...], list[tuple[Need, types.CodeType]]] = {}

    def of_another(self, function, own) -> Exchange:
        """The same with a function in the place of `own`, which has the same code."""
        made = object.__new__(Exchange)
        made.needs = dict(self.needs)
        if (need := made.needs.pop(id(own), None)) is not None:
            made.needs[id(function)] = need._replace(function=function)
        made._functions = [function if one is own else one for one in self._functions]
        made._only = function if self._only is own else self._only
        made._own, made._made, made._is_needed = self._own, self._made, self._is_needed
        made._settled = {}
        return made

    def __bool__(self) -> bool:
        """Whether calls need it."""
        return self._is_needed

    def is_current(self) -> bool:
        """Whether the functions have the codes of the time when this was made."""
        only = self._only
        if self._have(self._own) if only is None else code_of(only) is self._own[0]:
            return True
        return all(map(operator.is_, map(own_code, self._functions), self._own))

    def _have(self, codes: list[types.CodeType]) -> bool:
        return all(map(operator.is_, map(code_of, self._functions), codes))

    def watch(self) -> None:
        """Let tools that watch the user's code watch the other one, too."""
        for tool in filter(_monitoring.get_tool, range(_TOOLS)):
            for own, made in zip(self._own, self._made, strict=True):
                _copy_events(tool, own, made)

    def put(self) -> None:
        """Put the codes of this call in, the only one under way."""
        if self._only is not None:
            self._only.__code__ = self._made[0]
            return
        any(map(setattr, self._functions, _CODE, self._made))

    def take_out(self) -> None:
        """Put the user's codes back, but where the user has put others since."""
        only = self._only
        if only is not None and code_of(only) is self._made[0]:
            only.__code__ = self._own[0]
        elif not self._have(self._made):
            self.settle(())
        else:
            any(map(setattr, self._functions, _CODE, self._own))

    def settle(self, runs: tuple[Exchange, ...]) -> None:
        """Let the functions that this call can reach have the codes that suit some calls."""
        if runs not in self._settled:
            if len(self._settled) >= _MOST_SETTLED:
                self._settled.clear()
            changed = {id(one) for run in (self, *runs) for one in run._functions}
            needs = [self.needs[one] for one in changed if one in self.needs]
            self._settled[runs] = [(one, _code_for(one, runs)) for one in needs]
        wanted = []
        for one, code in self._settled[runs]:
            if (own := own_code(one.function)) is not one.loaded.code:
                code = own  # the user has put another one, perhaps that of a function entered now
            if code_of(one.function) is not code:
                wanted.append((one.function, code))
        if wanted:
            functions, codes = zip(*wanted, strict=True)
            any(map(setattr, functions, _CODE, codes))


#: The number of sets of calls under way for which an exchange keeps its codes.
_MOST_SETTLED = 8


#: For each call under way a list of its own, with what it exchanges, by the identity of the list.
_active: dict[int, list[Exchange]] = {}


class EnteredCall:
    """One call during which functions are entered. At its end, however it comes, they are left.

    Each step can be done twice: an interrupt may come between any two.
    """

    __slots__ = ("_held",)

    def __init__(self, exchange: Exchange):
        self._held = [exchange]
        if _monitoring is not None:
            exchange.watch()
        with _lock:
            if _active:
                _end_abandoned()
            _active[id(self._held)] = self._held
            if len(_active) == 1:
                _unrecorded.value = _MADE_INSIDE
                answer_all(True)
                exchange.put()
            else:
                exchange.settle(tuple([held[0] for held in _active.values()]))

    def end(self) -> None:
        with _lock:
            _end(self._held)
            self._held = []

    def __del__(self):
        if getattr(self, "_held", None):
            self.end()


def _end(held: list[Exchange]) -> None:
    if len(_active) == 1 and id(held) in _active:
        held[0].take_out()
        _nothing_is_entered()
    else:
        held[0].settle(tuple([one[0] for one in _active.values() if one is not held]))
    _active.pop(id(held), None)  # after the codes are back: until then the call has not ended


def _end_abandoned() -> None:
    """End the calls that only the table knows: an interrupt has prevented their ends."""
    for number in [*_active]:
        held = _active.get(number)
        if held is not None and sys.getrefcount(held) <= _ALONE:
            _end(held)


def _references() -> int:
    table: dict[int, list] = {0: []}
    held = table.get(0)
    return sys.getrefcount(held)


_ALONE = _references()


# --- tools ----------------------------------------------------------------------------------------

#: New in Python 3.12: debuggers and the like ask for events of single code objects.
_monitoring: Any = getattr(sys, "monitoring", None)
_TOOLS = 6
#: By the tool and the identity of code that was made, the events it has as the user's code has.
_copied: dict[tuple[int, int], int] = {}


def _copy_events(tool: int, own: types.CodeType, made: types.CodeType) -> None:
    """Let code, and the code in it, have the events of the user's, besides those of its own."""
    wanted, before = _monitoring.get_local_events(tool, own), _copied.get((tool, id(made)), 0)
    if wanted != before:
        others = _monitoring.get_local_events(tool, made) & ~before
        _monitoring.set_local_events(tool, made, others | wanted)
        _copied[tool, id(made)] = wanted
    for inner, other in zip(own.co_consts, made.co_consts, strict=False):
        if isinstance(inner, types.CodeType) and inner is not other:
            _copy_events(tool, inner, other)


# --- the child of a fork --------------------------------------------------------------------------


@process.in_child
def _leave_all() -> None:
    """In a forked child nothing is entered."""
    for held in [*_active.values()]:
        held[0].take_out()
    _active.clear()
    _nothing_is_entered()


def _nothing_is_entered() -> None:
    _unrecorded.value = _UNRECORDED
    answer_all(False)


def _code_for(need: Need, runs: tuple[Exchange, ...]) -> types.CodeType:
    """The code of a function that suits all calls which can reach it."""
    own = need.loaded.code
    needs = [run.needs[id(need.function)] for run in runs if id(need.function) in run.needs]
    needs = [one for one in needs if one.loaded.code is own]
    if not needs:
        return own
    if all(one.made is needs[0].made for one in needs):
        return needs[0].made
    values = [one.loaded.values for one in needs]

    def resolve(inner: types.CodeType, at):
        found = [each[id(inner), at.offset] for each in values]
        return found[0] if all(one is found[0] for one in found) else ABSENT

    kept = Watched.by_any([one.kept for one in needs])
    return made_for(own, rewritten(LoadedCode(own, resolve), kept).code)


# --- kinds of objects -----------------------------------------------------------------------------
# Objects in entered functions: which functions they lead to, methods of SciPy's classes.


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
                    inner = [*inner, *held_items(one)]
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
    loaded = LoadedCode(own, lambda inner, at: ABSENT)
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
