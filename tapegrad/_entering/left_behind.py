"""What functions leave behind in the user's objects becomes plain when the transform is over.

Compiled code counts the tensors that are alive. Where a call leaves some, they are looked for in
what the function can reach, nearest first, until all of them have been found: of long containers
only the ends are searched, where items are added.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import itertools
import sys
import threading
import types
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.tape import store
from .._core.tape.native_types import STATE, put_item
from .._core.tensor import runtime as rt
from .._core.tensor.conversions import has_outlived
from .._core.tensor.reachable import Reach, held_by, is_numerical, module_of, own_code
from .._core.tensor.row_listeners import users_level
from .._core.tensor.values import array_of, is_number, is_recorded
from .kinds_of_objects import names_asked
from .stand_ins import is_of_scipys_class

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
            if (value := _content(one)) is not None:
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


def _content(cell) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name without a value
        return None
