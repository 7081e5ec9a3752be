"""User functions run, during a transform, by code that calls stand-ins.

The code of every function that the differentiated one can reach is exchanged for the time of a call
and put back afterwards. Functions, classes, instances, globals and variables stay the user's.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

from .._core.config import config
from .._core.tensor import runtime as rt
from .._core.tensor.callers import Packages
from .._core.tensor.lost_derivatives import compiled_by_numba
from .._core.tensor.reachable import Reach, own_code
from .exchange import EnteredCall, Exchange, Need
from .exchanged_names import (
    ABSENT,
    Loaded,
    Watched,
    instructions,
    names_imported,
    rewritten,
    watched_in,
)
from .kinds_of_objects import DATA, attributes_of, is_of_kinds, kinds_of, likeness, methods_of
from .left_behind import alive, left
from .numba_functions import Compared, called, checked, is_compiled, refused_by_numba
from .stand_ins import imported, may_count, stand_in


def entering(f: Callable, enter=None) -> Callable:
    """The function as transforms call it: entered for the time of each call.

    `enter` is their option of this name, see `Packages`.
    """
    packages = Packages(enter)
    if type(f) is Entering or not config.enter:
        return f
    ours = stand_in(f) if type(f) is types.BuiltinFunctionType else None  # such as math.exp
    return Entering(called(f) if ours is None else ours, packages)


class Entering:
    """A user's function that is entered when it is called.

    What it can reach is found at the first call, and again when a name has another value, or when
    arguments are functions or objects of other kinds.
    """

    def __init__(self, f: Callable, packages: Packages):
        self.__wrapped__, self._packages = f, packages
        self._found: dict[Any, _Found] = {}

    def __call__(self, /, *args, **kwargs):
        handed = kinds_of((*args, *kwargs.values()) if kwargs else args)
        found = self._found.get(handed)
        if found is None or not found.is_current():
            if len(self._found) >= _MOST_KINDS:
                self._found.clear()
            held = [one for one in (*args, *kwargs.values()) if type(one) not in DATA]
            found = _search(self.__wrapped__, handed, held, self._packages)
            self._found[handed] = found
        if rt.found_equal:
            rt.found_equal.clear()
        before = alive(args)
        run = EnteredCall(found.entered) if found.entered else None
        try:
            return left(self.__wrapped__(*args, **kwargs), before, self.__wrapped__, args, kwargs)
        except BaseException as error:
            self._found.pop(handed, None)  # a function that was not found may be the reason
            _alike.pop(found.key, None)
            left(None, before, self.__wrapped__, (*args, error), kwargs)
            if refused_by_numba(error):
                raise compiled_by_numba(None) from error
            raise
        finally:
            if run is not None:
                run.end()


#: The number of kinds of arguments for which what is found is kept.
_MOST_KINDS = 32
#: By the likeness of functions: None after the first one, then what was found for the second one,
#: with a function that holds nothing in its place.
_alike: dict[tuple, tuple[types.FunctionType, _Found] | None] = {}
_MOST_ALIKE = 64


def _search(f: Any, handed: tuple, held: list, packages: Packages) -> _Found:
    """What a call can reach; for functions that differ in data alone what the second one could."""
    key = None if handed else likeness(f)
    if key is None:
        return _Found([f, *held], packages)
    key = (packages.named, *key)
    own, known = getattr(f, "__func__", f), _alike.get(key)
    if known is not None and (found := known[1].of_another(own, known[0], key)).is_current():
        found.owners = _owners([f])
        return found
    found = _Found([f, *held], packages)
    if len(_alike) >= _MOST_ALIKE:
        _alike.clear()
    if key in _alike:
        empty = _without_data(own) if own is f else own
        _alike[key] = empty, found.of_another(empty, own, key)
    else:
        _alike[key] = None
    return found


def _without_data(f: types.FunctionType) -> types.FunctionType:
    """A function of the same code whose variables of enclosing functions have no values."""
    cells = tuple([types.CellType() for _ in f.__closure__ or ()])
    return types.FunctionType(own_code(f), f.__globals__, f.__name__, None, cells)


# --- what is entered ------------------------------------------------------------------------------


class _Found:
    """The functions that are entered, and the names on which that depends.

    A name is (its dict, name, value), or (a cell, None, value); `kinds` are those of objects that
    are no functions.
    """

    __slots__ = ("_kinds", "_names", "entered", "key", "owners")

    key: tuple | None

    def __init__(self, objects: list, packages: Packages):
        functions, reached = _reached([_function_of(one) for one in objects], packages)
        assigned = {key for one in functions for key in _assigned(one)}
        names: dict[tuple[int, str], tuple[Any, str | None, Any]] = {}
        kinds: dict[tuple[int, str], tuple[Any, str | None, Any]] = {}
        every = [Loaded(own_code(one), _resolver(one, assigned, names, kinds)) for one in functions]
        kept = Watched.by_any(map(watched_in, every))
        needs = []
        for function, loaded in zip(functions, every, strict=True):
            made = rewritten(loaded, kept)
            has_left = bool(made.left or assigned)
            needs.append(Need(function, loaded, kept, made.code, has_left))
            names.update({(id(one[0]), one[1]): one for one in made.attributes})
        codes = [own_code(one) for one in functions]
        needs += methods_of(reached, codes)
        self.entered, self._names = Exchange(needs), [*names.values()]
        self._kinds, self.key, self.owners = [*kinds.values()], None, _owners(objects)
        for kind in self._classes(objects):
            self._names += attributes_of(kind, codes)

    def _classes(self, objects: list) -> set[type]:
        """The user's classes that are named, and those of objects that are named or given."""
        owners = [one.__self__ for one in objects if type(one) is types.MethodType]
        named = [value for _, _, value in self._names]
        kinds = [kinds for _, _, kinds in self._kinds]
        every = itertools.chain(named, *kinds, kinds_of(objects), kinds_of(owners))
        return {one for one in every if isinstance(one, type)}

    def of_another(self, f: types.FunctionType, own: types.FunctionType, key: tuple) -> _Found:
        """The same for a function like `own`, in its place."""
        cells = dict(zip(map(id, own.__closure__ or ()), f.__closure__ or (), strict=True))
        made = object.__new__(_Found)
        made._names, made._kinds = (
            [(cells.get(id(owner), owner), name, value) for owner, name, value in pairs]
            for pairs in (self._names, self._kinds)
        )
        made.entered, made.key, made.owners = self.entered.of_another(f, own), key, []
        return made

    def is_current(self) -> bool:
        """Whether names and functions are what they were when they were searched."""
        for owner, name, value in self._names:
            if (_content(owner) if name is None else owner.get(name, ABSENT)) is not value:
                return False
        for owner, name, kinds in self._kinds:
            value = _content(owner) if name is None else owner.get(name, ABSENT)
            if not is_of_kinds(value, kinds):
                return False
        for owner, kinds in self.owners:
            if not is_of_kinds(owner, kinds):
                return False
        return self.entered.is_current()


def _owners(objects: list) -> list[tuple[Any, tuple]]:
    """The objects of bound methods, with their kinds."""
    owners = [one.__self__ for one in objects if type(one) is types.MethodType]
    return [(one, kinds_of((one,))) for one in owners]


def _function_of(one) -> Any:
    """The copy that is called in place of a function compiled by Numba; others as they are."""
    if is_compiled(one):
        return checked(one).function
    return one.function if type(one) is Compared else one


def _reached(objects: list, packages: Packages) -> tuple[list[types.FunctionType], list]:
    """The functions that others reach, in place of those compiled by Numba their copies.

    With them is all that they reach.
    """
    reach = Reach(*objects, packages=packages)
    every = reach.objects(_is_on_its_own)
    copies = [checked(one).function for one in every if is_compiled(one)]
    new = [one for one in copies if not any(one is known for known in objects)]
    if new:
        return _reached([*objects, *new], packages)
    memoized = {id(one.__wrapped__) for one in every if isinstance(one, _MEMOIZED)}
    functions = [
        one
        for one in reach.functions(every)
        if id(one) not in memoized  # what they hold must be data
        and one.__name__ != "__array__"  # of which NumPy takes its own arrays alone
        and getattr(one, "__builtins__", None) is vars(builtins)
    ]
    return functions, every


def _is_on_its_own(one) -> bool:
    """Whether others than what holds an object enter its function, or not, as it was asked for."""
    return is_compiled(one) or type(one) is Entering


_MEMOIZED = type(functools.lru_cache(lambda: 0))


def _resolver(f: types.FunctionType, assigned: set, names: dict, kinds: dict):
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
                value = getattr(builtins, name, ABSENT)
                if value is not ABSENT and stand_in(value) is not None:
                    names[id(owner), name] = owner, key, ABSENT  # until a global hides it
                return value
        if value is ABSENT or (id(owner), name) in assigned:
            return ABSENT
        found = kinds_of((value,))
        if found and found[0] is not value:
            kinds[id(owner), name] = owner, key, found
        counts = may_count(value)
        if counts or (callable(value) and not (found and found[0] is not value)):
            names[id(owner), name] = owner, key, value
        return value if counts else ABSENT

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
