"""User functions run, during a transform, by code that calls stand-ins; what they leave behind."""

from __future__ import annotations

import builtins
import collections
import ctypes
import functools
import itertools
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.config import config
from .._core.tape import store
from .._core.tape.native_types import STATE, put_item
from .._core.tensor import runtime as rt
from .._core.tensor.callers import Packages
from .._core.tensor.conversions import compiled_by_numba, has_outlived
from .._core.tensor.operators import users_level
from .._core.tensor.pytree import ABSENT, Reach, content, held_by, is_numerical, module_of, own_code
from .._core.tensor.values import array_of, is_number, is_recorded
from .exchange import (
    DATA,
    EnteredCall,
    Exchange,
    Need,
    attributes_of,
    is_of_kinds,
    kinds_of,
    likeness,
    methods_of,
    names_asked,
)
from .exchanged_names import (
    LoadedCode,
    Watched,
    instructions,
    names_imported,
    rewritten,
    watched_in,
)
from .stand_ins import (
    Compared,
    called,
    checked,
    imported,
    is_compiled,
    is_of_scipys_class,
    may_count,
    refused_by_numba,
    stand_in,
)

# --- left behind ----------------------------------------------------------------------------------
# What functions leave behind in the user's objects becomes plain when the transform is over.
#
# Compiled code counts the tensors that are alive. Where a call leaves some, they are looked for in
# what the function can reach, nearest first, until all of them have been found: of long containers
# only the ends are searched, where items are added.

#: The number of objects that are searched, and of items of containers that are searched wholly; of
#: others, how many at each end, besides the number of tensors.
_MOST, _MOST_ITEMS, _AT_ENDS = 2000, 1000, 16
_TENSORS = (rt.Tensor, rt.ComplexTensor)
_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None), np.float64, types.CodeType))


# --- whether --------------------------------------------------------------------------------------


#: The number of tensors that are alive.
_alive = ctypes.c_int64.from_address(STATE.ctypes.data + layout.STATE_TENSORS)


def alive(args: tuple) -> int:
    """The number of tensors that are alive, and of references to those among arguments."""
    count = _alive.value
    for one in args:
        if type(one) is rt.Array or type(one) is rt.Scalar:
            count += sys.getrefcount(one)
    return count


def left(out, before: int, f, args: tuple, kwargs: dict) -> Any:
    """The result of a call of a function, before which `alive` was so many.

    A number that others hold, too, is replaced by another one on the same row.
    """
    if rt.found_equal:
        _warn_of_kept(out)
    more, kind = alive(args) - before, type(out)
    if more <= 0:
        return out
    is_alone = sys.getrefcount(out) <= _OF_ARGUMENT
    if more == 1 and is_alone and (kind is rt.Scalar or kind is rt.Array):
        return out
    if kind is rt.Scalar and out._id >= 0 and not is_alone:
        chunk = int(store.table[out._id >> layout.ROWS_BITS])
        out, more = rt.scalar_at(out._value, out._id, chunk, out._kind), more + 1
    if (more := more - _only_in(out, _OF_ARGUMENT + 1)) > 0:
        if not _left:
            rt.outlived.append(_make_plain)
        _left.append(([f, *args, *kwargs.values()], more))
    return out


def _warn_of_kept(out) -> None:
    """Warn where a function may have returned what it kept from an earlier call."""
    line = rt.found_equal.pop(threading.get_ident(), None)
    if line is not None and isinstance(out, (float, np.ndarray)):
        warnings.warn(
            f"tapegrad: the result does not depend on the arguments, after one of them was found "
            f"equal to an array ({line}). If it was kept from an earlier call, its derivative is "
            "lost: compute it in the call that is differentiated, as tg.value_and_grad does once "
            "for both",
            RuntimeWarning,
            stacklevel=users_level(),
        )


#: Objects in which calls have left tensors, and how many.
_left: list[tuple[list, int]] = []


def _references(one) -> int:
    return sys.getrefcount(one)


#: The references to an argument that nothing else refers to, and to such an item of a container.
_OF_ARGUMENT = _references(object())
_OF_ITEM = [_references(item) for item in [object()]][0]


def _only_in(out, alone: int) -> int:
    """The number of tensors in a result that nothing else refers to."""
    kind = type(out)
    if sys.getrefcount(out) > alone:
        return 0
    if kind is rt.Scalar or kind is rt.Array:
        return 1
    if kind is rt.ComplexTensor:
        return 2
    if kind is tuple or kind is list:
        return sum([_only_in(item, _OF_ITEM) for item in out])
    return sum([_only_in(item, _OF_ITEM) for item in out.values()]) if kind is dict else 0


def _make_plain() -> None:
    """Search what calls have left tensors in."""
    every = [*_left]
    _left.clear()
    if not every:  # another thread has searched
        return
    _Leftovers([one for objects, _ in every for one in objects]).run(sum(more for _, more in every))


# --- where ----------------------------------------------------------------------------------------


class _Leftovers:
    """A search of objects, in which tensors are replaced by plain values."""

    def __init__(self, objects: list):
        self._objects: list = []
        self._reach = Reach(*objects)
        self._seen: set[int] = set()
        self._at_ends, self._most = _AT_ENDS, _MOST
        self._names: set[str] = set()  # in the code of functions so far
        self._found: dict[int, tuple[Any, Any]] = {}  # tensors and their values, by identity
        self._copies: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._push(*[one for one in objects if not issubclass(type(one), _TENSORS)])

    def run(self, count: int) -> None:
        """Search for so many tensors."""
        self._at_ends, self._most, modules = _AT_ENDS + count, _MOST + 4 * count, []
        for one in self._objects:  # which grows
            found = len(self._found)
            if isinstance(one, types.ModuleType):
                modules.append(one)
            else:
                self._visit(one)
            if one is self._objects[-1]:
                for module in modules:
                    if not self._reach.is_of_library(module.__name__):
                        self._in_dict(vars(module), self._names)
            if len(self._found) >= max(found + 1, count) and self._count_done() >= count:
                return

    def _count_done(self) -> int:
        """The number of tensors that only this search refers to."""
        done = [one for one, _ in self._found.values() if sys.getrefcount(one) <= _IN_PAIR]
        return len(done) + sum([type(one) is rt.ComplexTensor for one in done])

    def _visit(self, one) -> None:
        if isinstance(one, (list, tuple, collections.deque)):
            self._in_sequence(one)
        elif isinstance(one, dict):
            self._in_dict(one)
        elif isinstance(one, set):
            for _, value in _not_plain([*itertools.islice(one, _MOST_ITEMS)]):
                self._at(value, functools.partial(_exchange, one, value))
        elif isinstance(one, np.ndarray):
            if one.dtype.hasobject and one.size <= _MOST_ITEMS:
                for k, value in enumerate(one.flat):
                    self._at(value, functools.partial(one.flat.__setitem__, k))
        elif isinstance(one, types.CellType):
            if (value := content(one, None)) is not None:
                self._at(value, functools.partial(setattr, one, "cell_contents"))
        elif isinstance(one, types.FunctionType):
            self._in_function(one)
        elif isinstance(one, types.MethodType):
            self._push(one.__func__, one.__self__)
        elif isinstance(one, functools.partial):
            self._push(one.func, one.args, one.keywords)
        elif isinstance(one, type):
            self._in_class(one)
        elif isinstance(one, BaseException):
            self._push(one.args)
        if not isinstance(one, type) and type(one).__module__ != "builtins":
            if not is_numerical(one) or is_of_scipys_class(one):  # of which some are ours
                self._in_instance(one)

    def _in_sequence(self, one) -> None:
        kind: Any = next(kind for kind in (list, tuple, collections.deque) if isinstance(one, kind))
        put = put_item if kind is tuple else kind.__setitem__
        count = kind.__len__(one)
        for first, stop in _parts(count, self._at_ends):
            items = [kind.__getitem__(one, k) for k in range(first, stop)]
            for k, value in _not_plain(items, first):
                self._at(value, functools.partial(put, one, k))

    def _in_dict(self, held: dict, names: Iterable | None = None) -> None:
        """The values of a dict, of all keys or of some."""
        if names is not None:
            keys = [name for name in names if name in held]
        elif dict.__len__(held) <= _MOST_ITEMS:
            keys = [*dict.keys(held)] if _not_plain([*dict.values(held)]) else []
        else:
            last = itertools.islice(dict.__reversed__(held), self._at_ends)
            keys = [*last, *itertools.islice(dict.keys(held), self._at_ends)]
        for key in keys:
            value = dict.get(held, key)
            if type(value) not in _PLAIN:
                self._at(value, functools.partial(dict.__setitem__, held, key))

    def _in_instance(self, one) -> None:
        if held := held_by(one):
            self._in_dict(held)  # type: ignore[arg-type]
        for base in type(one).__mro__[:-1]:
            for name, member in vars(base).items():
                if isinstance(member, types.MemberDescriptorType) and hasattr(one, name):
                    self._at(getattr(one, name), functools.partial(member.__set__, one))
        self._push(type(one))

    def _in_function(self, f: types.FunctionType) -> None:
        self._push(*(f.__closure__ or ()), f.__defaults__, f.__kwdefaults__, vars(f))
        if not self._reach.is_of_library(module_of(f)):
            names = names_asked(own_code(f))
            self._names |= names
            self._in_dict(f.__globals__, names)

    def _in_class(self, kind: type) -> None:
        if self._reach.is_library(kind):
            return
        for name, value in [*vars(kind).items()]:
            if isinstance(value, property):
                self._push(value.fget, value.fset, value.fdel)
            elif isinstance(value, (staticmethod, classmethod)):
                self._push(value.__func__)
            elif not name.startswith("__"):
                self._at(value, functools.partial(setattr, kind, name))
        self._push(*kind.__bases__)

    def _push(self, *values) -> None:
        for value in values:
            if type(value) not in _PLAIN and id(value) not in self._seen:
                if len(self._objects) < self._most:
                    self._seen.add(id(value))
                    self._objects.append(value)

    def _at(self, value, put) -> None:
        """A value that can be replaced by a function of another."""
        if not issubclass(type(value), _TENSORS):
            self._push(value)
            return
        if id(value) not in self._found:
            self._found[id(value)] = value, self._plain(value) if _is_left(value) else value
        plain = self._found[id(value)][1]
        if plain is not value:
            put(plain)

    # --- values -----------------------------------------------------------------------------------

    def _plain(self, tensor):
        if type(tensor) is rt.Scalar:
            return tensor._value if tensor._kind == layout.OF_PYTHON else np.float64(tensor._value)
        array = array_of(tensor)
        if type(tensor) is rt.ComplexTensor:
            return np.array(array) if array.ndim else array[()]
        if not array.ndim and is_number(tensor):
            return array[()]
        return self._copied(array) if is_recorded(tensor) else array

    def _copied(self, array: np.ndarray) -> np.ndarray:
        """A copy, since rows may rely on the values; copies of views share memory as they do."""
        base = array.base if type(array.base) is np.ndarray else array
        if base.nbytes >= layout.LARGE or not base.flags.forc:
            return np.array(array)
        if id(base) not in self._copies:
            self._copies[id(base)] = base, np.array(base)
        copy = self._copies[id(base)][1]
        offset = array.ctypes.data - base.ctypes.data
        memory = copy.ravel(order="K")
        return np.ndarray(array.shape, array.dtype, memory, offset, array.strides)


def _is_left(tensor) -> bool:
    """Whether a tensor is one that a call has made, and nothing depends on any more."""
    if is_recorded(tensor):
        if type(tensor) is rt.ComplexTensor:
            return _is_left(tensor._re) and _is_left(tensor._im)
        return not store.leaves or has_outlived(tensor)
    if type(tensor) is rt.ComplexTensor:
        return layout.MADE_INSIDE in (tensor._re._id, tensor._im._id)
    return tensor._id == layout.MADE_INSIDE


_IN_PAIR = [sys.getrefcount(one) for one, _ in {0: (object(), None)}.values()][0]


def _exchange(held: set, old, new) -> None:
    held.discard(old)
    held.add(new)


def _parts(count: int, at_ends: int) -> list[tuple[int, int]]:
    """The parts of a sequence that are searched: all of it, or the ends, the last one first."""
    if count <= max(_MOST_ITEMS, 2 * at_ends):
        return [(0, count)]
    return [(count - at_ends, count), (0, at_ends)]


def _not_plain(items: list, first: int = 0) -> list[tuple[int, Any]]:
    """Those of some objects that may hold others, with their numbers from the first on."""
    if _PLAIN.issuperset(map(type, items)):
        return []
    return [(k, one) for k, one in enumerate(items, first) if type(one) not in _PLAIN]


# --- entering -------------------------------------------------------------------------------------
# User functions run, during a transform, by code that calls stand-ins.
#
# The code of every function that the differentiated one can reach is exchanged for the time of a
# call and put back afterwards. Functions, classes, instances, globals and variables stay the
# user's.


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
        every = [
            LoadedCode(own_code(one), _resolver(one, assigned, names, kinds)) for one in functions
        ]
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
            if (content(owner) if name is None else owner.get(name, ABSENT)) is not value:
                return False
        for owner, name, kinds in self._kinds:
            value = content(owner) if name is None else owner.get(name, ABSENT)
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
            owner, key, value = cells[name], None, content(cells[name])  # type: Any, Any, Any
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
