"""What functions are made of: whether two differ in numbers alone, and these as operands."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from .._core.codegen import process
from .._core.tensor.pytree import codes_in, content, own_code
from .._core.tensor.values import is_recorded, is_tensor, value_of
from .closures import Captured, OperandPlace, assigned_in, is_users, own_attributes
from .own_variables import with_cells

# --- equal structures -----------------------------------------------------------------------------

#: Types of objects that are compared by their contents, whatever they lead to.
_COMPARED = (types.FunctionType, types.MethodType, tuple, list, dict)
_VALUES = (int, bool, str, bytes, type(None), complex)


def structure(captured: Captured):
    """What is the same of objects that differ in recorded values alone; None if it is not known."""
    try:
        return _Key(captured.marked).of(captured.objects)
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """An object holds recorded values in a way that is not known."""


class _Key:
    """Keys of objects: of their contents, where those are functions or hold recorded values."""

    def __init__(self, marked: dict[int, Any]):
        self._marked, self._seen = marked, dict[int, int]()

    def of(self, one) -> Any:
        kind = type(one)
        if kind in _VALUES:
            return kind, one
        if isinstance(one, float):
            return kind, float(one).hex()
        if kind is OperandPlace:
            return "recorded", one.number
        if id(one) in self._seen:
            return "seen", self._seen[id(one)]
        is_marked = id(one) in self._marked
        if not is_marked and kind not in _COMPARED:
            return id(one)
        self._seen[id(one)] = len(self._seen)
        if kind is types.FunctionType:
            return self._of_function(one)
        if kind is types.MethodType:
            return kind, self.of(one.__func__), self.of(one.__self__)
        if isinstance(one, functools.partial):
            return kind, self.of(one.func), self.of(one.args), self._of_items(one.keywords)
        return kind, *self._of_contents(one)

    def _of_contents(self, one) -> tuple:
        held: tuple = ()
        if isinstance(one, (list, tuple, collections.deque)):
            held = tuple(map(self.of, one))
        elif isinstance(one, dict):
            held = self._of_items(one)
        elif isinstance(one, np.ndarray):
            return one.shape, *map(self.of, one.flat)
        elif not own_attributes(one):
            raise _UnknownError
        return *held, self._of_items(own_attributes(one))

    def _of_items(self, items) -> tuple:
        return tuple([(key, self.of(value)) for key, value in items.items()])

    def _of_function(self, f: types.FunctionType) -> tuple:
        code, space = own_code(f), f.__globals__
        named = [name for name in code.co_names if id(space.get(name)) in self._marked]
        return (
            types.FunctionType,
            id(code),
            space.get("__name__"),
            tuple([self.of(content(cell)) for cell in f.__closure__ or ()]),
            self.of(f.__defaults__ or ()),
            self._of_items(f.__kwdefaults__ or {}),
            tuple([(name, self.of(space[name])) for name in named]),
        )


_T = TypeVar("_T")


class KeptByStructure(Generic[_T]):
    """What was made for captured objects, kept for others of the same structure.

    `found` has those used last at the end.
    """

    def __init__(self, most: int = 256):
        self.found: collections.OrderedDict[tuple, tuple[_T, Captured]] = collections.OrderedDict()
        self._most, self._lock = most, process.lock()

    def get(self, kind: tuple, captured: Captured, make: Callable[[], _T]) -> _T | None:
        """What there is of a kind, or is made; None if the structure is not known."""
        if (known := structure(captured)) is None:
            return None
        with self._lock:
            hit = self.found.get((kind, known))
            if hit is None or structure(hit[1]) != known:  # as where an attribute has changed
                hit = self.found[kind, known] = make(), captured
                if len(self.found) > self._most:
                    self.found.popitem(last=False)
            self.found.move_to_end((kind, known))
            return hit[0]


# --- numbers in variables of functions ------------------------------------------------------------


def with_numbers_lifted(
    captured: Captured, first: int, of_objects: bool = False
) -> tuple[Captured, list] | None:
    """Captured objects in which further numbers have places, from `first` on; and these numbers.

    They are floats and arrays of them in variables of enclosing functions, and arrays among the
    objects, as the data of each turn of a loop: those of different turns differ in nothing else.
    Floats among the objects and in their containers are such numbers if it is asked for. None if
    there are none.
    """
    lifted = _Lifted(first, of_objects)
    objects = lifted.of(captured.objects)
    return (Captured(*objects), lifted.numbers) if lifted.numbers else None


_FLOATS = (float, np.float64)


class _Lifted:
    """Objects with places for numbers; functions and containers that lead to any are copies."""

    def __init__(self, first: int, of_objects: bool):
        self._first, self._of_objects, self.numbers = first, of_objects, list[Any]()
        self._made: dict[int, Any] = {}

    def of(self, one) -> Any:
        """A function, an array, or a tuple, list or dict that leads to one."""
        kind = type(one)
        if self._of_objects and is_tensor(one) and not is_recorded(one):
            one = value_of(one)  # as an array that a traced function makes
        if _is_floats(one) or (self._of_objects and kind in _FLOATS):
            return self._place_of(one)
        if kind is types.FunctionType and one.__closure__ and is_users(one):
            return self._made.get(id(one)) or self._of_function(one)
        if kind is tuple or kind is list:
            return kind([self.of(item) for item in one])
        if kind is dict:
            return {key: self.of(value) for key, value in one.items()}
        return one

    def _of_function(self, f: types.FunctionType) -> Any:
        fixed, code = assigned_in(own_code(f)), own_code(f)
        named = zip(code.co_freevars, f.__closure__ or (), strict=True)
        cells = tuple([cell if name in fixed else types.CellType() for name, cell in named])
        return with_cells(f, cells, self._made, self._of_content)

    def _of_content(self, value) -> Any:
        return self._place_of(value) if type(value) in _FLOATS else self.of(value)

    def _place_of(self, value) -> OperandPlace:
        """A place for a number, or for an array as it is when its numbers are read."""
        self.numbers.append(value)
        return OperandPlace(self._first + len(self.numbers) - 1)


def _is_floats(one) -> bool:
    return type(one) is np.ndarray and one.dtype == np.float64


# --- what functions read from outside -------------------------------------------------------------


#: Types of what reads nothing from outside.
_READ_NOTHING = (int, float, complex, str, bytes, type(None), np.ndarray, np.generic, OperandPlace)


def readers_of(captured: Captured) -> list | None:
    """The functions and objects among captured ones, in tuples, lists and dicts.

    What the names that they read stand for says whether they are as before. None where one is a
    copy with globals of its own, in which names never change.
    """
    found = _readers_in(captured.objects)
    return None if any([_has_own_globals(one, captured.marked) for one in found]) else found


def _readers_in(tree) -> list:
    if isinstance(tree, (tuple, list, dict)):
        items = tree.values() if isinstance(tree, dict) else tree
        return [one for item in items for one in _readers_in(item)]
    return [] if isinstance(tree, _READ_NOTHING) or is_tensor(tree) else [tree]


def _has_own_globals(f, marked: dict[int, Any]) -> bool:
    """Whether a function names globals that are marked: it has a copy of them."""
    while isinstance(f, functools.partial):
        f = f.func
    f = getattr(f, "__func__", f)
    if not isinstance(f, types.FunctionType):
        return False
    names = [name for code in codes_in(own_code(f)) for name in code.co_names]
    return any([id(f.__globals__.get(name)) in marked for name in names])
