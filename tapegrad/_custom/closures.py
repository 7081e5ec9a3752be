"""Closure conversion: the recorded values that functions read, and the functions with others.

A function reads recorded values that it was not given: in variables of enclosing functions, in
defaults, in globals, in attributes of the object that it is bound to, and in functions that it
calls. `Captured` finds them in what it is given, nested in any way, and makes the same of other
values. What holds no recorded value stays the very object that it is.
"""

from __future__ import annotations

import collections
import copy
import dis
import functools
import inspect
import types
import warnings
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import numpy as np

from .._core.tape.tape import Reader, needed
from .._core.tensor import runtime as rt
from .._core.tensor.operators import users_level
from .._core.tensor.pytree import (
    ABSENT,
    codes_in,
    content,
    held_by,
    module_of,
    module_of_class,
    own_code,
)
from .._core.tensor.tensor_classes import Tensor
from .._core.tensor.values import ComplexTensor, is_recorded, is_tensor, joined_parts
from .._transforms.gradients import Transformed

#: Types of objects that lead to no others.
_DATA = {
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type, np.float64, np.dtype),
    *(types.ModuleType, types.BuiltinFunctionType, types.CodeType, type(Ellipsis), np.ufunc),
}
#: The number of objects that are searched.
_MOST = 20_000
#: Packages whose functions and objects hold no values of users.
_CLOSED = (
    "tapegrad",
    "numpy",
    "scipy",
    "numba",
    "torch",
    "builtins",
    "math",
    "functools",
    "threading",
)
#: Folders of these, and of ours, whose objects do.
_OPEN = ("tapegrad.scipy", "tapegrad.nn", "tapegrad.numpy", "scipy.optimize")


class OperandPlace:
    """Stands for a recorded value in objects that are kept: its number among the operands."""

    __slots__ = ("number",)

    def __init__(self, number: int):
        self.number = number


class _Complex:
    """Stands for a complex recorded value, by what stands for its parts."""

    __slots__ = ("_im", "_re")

    def __init__(self, re, im):
        self._re, self._im = re, im


_LOST_WRITE = (
    "tapegrad.{}: the function that it calls sets the attribute {} of an instance of {}: it is "
    "called with a copy that has plain values, so the instance keeps what it had. Compute the "
    "attribute after the call, from its result"
)


class Captured:
    """Objects, and the recorded values that they lead to.

    Variables of enclosing functions keep the values that they have now, as those of a loop, unless
    the functions here assign them. `tensors` are the recorded values, each once, in the order in
    which they are found. They are in this list alone, which may be cleared: what is kept of the
    objects has places in their stead, so that no row of the tape is kept alive.
    """

    def __init__(self, *objects: Any):
        self.tensors: list = []
        found = _Search(objects)
        numbers: dict[int, OperandPlace] = {}

        def place(tensor) -> Any:
            if not is_recorded(tensor):
                return tensor
            if id(tensor) not in numbers:
                numbers[id(tensor)] = OperandPlace(len(self.tensors))
                self.tensors.append(tensor)
            return numbers[id(tensor)]

        made = _Copies(found.marked, place, found.shared)
        self.objects = tuple([made.of(one) for one in objects])
        self.marked = made.made
        #: Copies that were made first, with their attributes, until it is told what was set.
        self._first: list[tuple[Any, dict[str, Any]]] | None = []

    def filled(self, values: Iterable) -> tuple:
        """The objects with values in the places of the recorded ones.

        Functions and containers that lead to such places are copies.
        """
        given = [*values]
        if not self.marked:
            return self.objects
        made = _Copies(self.marked, lambda place: given[place.number])
        filled = tuple([made.of(one) for one in self.objects])
        if self._first is not None:
            self._first += [(one, own_attributes(one)) for one in made.of_users()]
        return filled

    def warn_of_writes(self, name: str) -> None:
        """Warn if functions have set attributes of the first copies, once: those are lost."""
        first, self._first = self._first or (), None
        for one, before in first:
            for attribute, value in own_attributes(one).items():
                is_kept = attribute in before and before[attribute] is value
                if not is_kept and not _is_cache(type(one), attribute):
                    warnings.warn(
                        _LOST_WRITE.format(name, attribute, type(one).__name__),
                        RuntimeWarning,
                        stacklevel=users_level(),
                    )
                    return


def _is_cache(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)


class CapturedCall:
    """A call with some objects, in which recorded values, `tensors`, have their places."""

    def __init__(self, name: str, *objects: Any):
        self.name, self.captured = name, Captured(*objects)
        self.tensors, self.captured.tensors = self.captured.tensors, []
        self.is_traced = rt.trace() is not None and rt.is_recording()

    def __str__(self) -> str:
        return self.name


class Strays:
    """Tells whether what a function computes depends on recorded values of outside.

    It is made before the function is called with inputs of the tape that are its own.
    """

    def __init__(self, inputs: Iterable):
        self._start = rt.scalar_leaf(0.0)
        self._inputs = {one._id for one in inputs}

    def are_in(self, results: Iterable) -> bool:
        """Whether a result depends on a value that was recorded before."""
        numbers = [one._id for one in results if is_tensor(one) and is_recorded(one)]
        reader = Reader()
        start = reader.time(self._start._id)
        every = needed(reader, numbers, self._inputs) if numbers else []
        return any(reader.time(one) < start for one in every if one not in self._inputs)


# --- what leads to recorded values ----------------------------------------------------------------


class _Search:
    """The objects that lead to recorded values, by identity: `marked`, with the objects.

    If there are any, functions with variables of enclosing ones are among them, and what calls
    these or, as a tuple or one of the dicts given, holds them; `shared` has the variables that
    functions assign.
    """

    def __init__(self, objects: tuple):
        self.marked: dict[int, Any] = {}
        self.shared: set[int] = set()
        holders: dict[int, list] = {}  # what holds an object
        waiting, ends = [*objects], []
        seen = {id(one): one for one in waiting}
        for one in waiting:  # which grows
            if len(waiting) > _MOST:  # what is not found is missed when the derivative is taken
                break
            if isinstance(one, (Tensor, ComplexTensor, OperandPlace, _Complex)):
                ends.append(one)
                continue
            for other in _held(one):
                if type(other) in _DATA or _is_plain(other):
                    continue
                holders.setdefault(id(other), []).append(one)
                if id(other) not in seen:
                    seen[id(other)] = other
                    waiting.append(other)
        self._mark([one for one in ends if _is_end(one)], holders, (object,))
        if self.marked:
            functions = [one for one in waiting if type(one) is types.FunctionType]
            for one in functions:
                cells = zip(one.__code__.co_freevars, one.__closure__ or (), strict=True)
                assigned = assigned_in(own_code(one)) if one.__closure__ else ()
                self.shared.update([id(cell) for name, cell in cells if name in assigned])
            closing = [
                one
                for one in functions
                if not self.shared.issuperset(map(id, one.__closure__ or ()))
                and _is_users(module_of(one))
            ]
            self._mark(
                closing,
                holders,
                (*_CALLING, tuple),
                [id(one) for one in objects if type(one) is dict],
            )

    def _mark(
        self, ends: list, holders: dict[int, list], kinds: tuple[type, ...], first: Container = ()
    ) -> None:
        """Mark some objects and what holds them: what is of these kinds, or has such an id."""
        for one in ends:  # which grows
            if id(one) not in self.marked:
                self.marked[id(one)] = one
                held_by_these = holders.get(id(one), [])
                ends += [
                    each for each in held_by_these if isinstance(each, kinds) or id(each) in first
                ]


_CALLING = (types.FunctionType, types.MethodType, functools.partial)


def _is_end(one) -> bool:
    if type(one) in (OperandPlace, _Complex):
        return True
    if type(one) is ComplexTensor:
        return is_recorded(one._re) or is_recorded(one._im)
    return is_recorded(one)


def _is_plain(one) -> bool:
    return type(one) is np.ndarray and not one.dtype.hasobject


def _held(one) -> Iterable:
    """What an object holds directly, of that what can be another in a copy of it."""
    kind = type(one)
    if kind is dict or kind is list or kind is tuple:
        items = one.values() if kind is dict else one
        return () if _DATA.issuperset(map(type, items)) else items
    if kind is types.FunctionType:
        return _held_by_function(one)
    if kind is types.MethodType:
        return one.__func__, one.__self__
    if isinstance(one, functools.partial):
        return one.func, one.args, one.keywords
    if kind is Transformed:
        return (one._of[1],)
    if isinstance(one, np.ndarray):
        return [*one.flat] if one.dtype.hasobject else ()
    is_closed = not _is_open(module_of_class(one)) or hasattr(kind, "__del__")  # it frees something
    if isinstance(one, type) or is_closed:
        is_container = isinstance(one, (dict, list, tuple, collections.deque))
        return [*_items(one)] if is_container else ()
    return [*_items(one), *own_attributes(one).values()]


def _is_open(module: str) -> bool:
    return module.startswith(_OPEN) or _is_users(module)


def is_users(f: types.FunctionType) -> bool:
    """Whether a function is not one of a package whose functions hold no values of users."""
    return _is_users(module_of(f))


def _is_users(module: str) -> bool:
    return module.partition(".")[0] not in _CLOSED


def _held_by_function(f: types.FunctionType) -> Iterator:
    yield from map(content, f.__closure__ or ())
    yield from f.__defaults__ or ()
    yield from (f.__kwdefaults__ or {}).values()
    yield from f.__dict__.values()
    if _is_users(module_of(f)):
        space = f.__globals__
        for name in _names(own_code(f)):
            if name in space:
                yield space[name]


@functools.lru_cache(maxsize=4096)
def assigned_in(code: types.CodeType) -> frozenset[str]:
    """The variables of enclosing functions that code assigns or deletes."""
    every = [one for inner in codes_in(code) for one in dis.get_instructions(inner)]
    return frozenset([one.argval for one in every if one.opname in ("STORE_DEREF", "DELETE_DEREF")])


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    return tuple({name for one in codes_in(code) for name in one.co_names})


def _items(one) -> Iterable:
    """What an instance of a container holds, whatever its class makes of going through it."""
    kinds: tuple[Any, ...] = (list, tuple, collections.deque)
    for kind in kinds:
        if isinstance(one, kind):
            return kind.__iter__(one)
    return dict.values(one) if isinstance(one, dict) else ()


def own_attributes(one) -> dict[str, Any]:
    """The attributes of an object by name, those of slots among them."""
    members = [pair for kind in type(one).__mro__ for pair in vars(kind).items()]
    members = [pair for pair in members if isinstance(pair[1], types.MemberDescriptorType)]
    slots = [name for name, _ in members if not name.startswith("__")]
    found = {name: getattr(one, name) for name in slots if hasattr(one, name)}
    try:
        held = object.__getattribute__(one, "__dict__")  # also of one that notes what is read
    except AttributeError:
        return found
    return {**found, **(held if type(held) is dict else held_by(one))}


# --- copies ---------------------------------------------------------------------------------------


class _Copies:
    """Copies of the marked objects with other values at their ends; others are themselves.

    `made` has what was made, by its identity: the marked objects of the copies. Variables that are
    not `shared` are those of the copies, if that is given.
    """

    def __init__(self, marked: dict[int, Any], end: Callable, shared: set[int] | None = None):
        self._marked, self._end, self._shared = marked, end, shared
        self._found: dict[int, Any] = {}
        self._cells: dict[int, types.CellType] = {}
        self.made: dict[int, Any] = {}

    def of(self, one) -> Any:
        if id(one) not in self._marked:
            return one
        if id(one) not in self._found:
            made = self._copy(one)
            self._note(one, made)
        return self._found[id(one)]

    def _note(self, one, made):
        self._found[id(one)] = made
        self.made[id(made)] = made
        return made

    def of_users(self) -> list:
        """The copies of objects of users' classes."""
        return [one for one in self.made.values() if _is_users(module_of_class(type(one)))]

    def _copy(self, one) -> Any:
        if isinstance(one, (Tensor, OperandPlace)):
            return self._end(one)
        if isinstance(one, (ComplexTensor, _Complex)):
            return self._of_complex(one)
        if isinstance(one, types.FunctionType):
            return self._of_function(one)
        if isinstance(one, types.MethodType):
            return types.MethodType(self.of(one.__func__), self.of(one.__self__))
        if isinstance(one, functools.partial):
            named = {name: self.of(value) for name, value in one.keywords.items()}
            return type(one)(self.of(one.func), *map(self.of, one.args), **named)
        if type(one) is Transformed:
            transform, f, options = one._of
            return transform(self.of(f), **options)
        if isinstance(one, np.ndarray):
            made = self._note(one, np.empty_like(one))
            for index in np.ndindex(one.shape):
                made[index] = self.of(one[index])
            return made
        if isinstance(one, tuple):
            return self._of_tuple(one)
        return self._of_object(one)

    def _of_complex(self, one) -> Any:
        parts = [self._end(part) for part in (one._re, one._im)]
        if any(isinstance(part, OperandPlace) for part in parts):
            return _Complex(*parts)
        return joined_parts(*parts)

    def _of_function(self, f: types.FunctionType) -> Any:
        """A function of the same code; one that calls itself by a variable calls the copy."""
        cells = tuple(map(self._cell, f.__closure__ or ()))
        space = f.__globals__
        if _is_users(module_of(f)):
            named = [name for name in _names(own_code(f)) if id(space.get(name)) in self._marked]
            space = {**space} if named else space
        else:
            named = []
        made = types.FunctionType(own_code(f), space, f.__name__, None, cells)
        self._note(f, made)
        for cell, own in zip(cells, f.__closure__ or (), strict=True):
            if cell is not own and content(cell) is ABSENT:
                cell.cell_contents = self.of(own.cell_contents)
        for name in named:
            space[name] = self.of(space[name])
        made.__defaults__ = f.__defaults__ and tuple(map(self.of, f.__defaults__))
        made.__kwdefaults__ = f.__kwdefaults__ and {
            name: self.of(value) for name, value in f.__kwdefaults__.items()
        }
        made.__qualname__, made.__doc__ = f.__qualname__, f.__doc__
        made.__dict__.update({name: self.of(value) for name, value in f.__dict__.items()})
        return made

    def _cell(self, cell) -> types.CellType:
        """The variable of an enclosing function in the copies, which share it as well."""
        is_own = self._shared is not None and id(cell) not in self._shared
        held = content(cell)
        if id(held) not in self._marked and (held is None or held is ABSENT or not is_own):
            return cell
        return self._cells.setdefault(id(cell), types.CellType())

    def _of_tuple(self, one: tuple) -> Any:
        if type(one) is tuple:
            return tuple([self.of(item) for item in one])
        items = [self.of(item) for item in tuple.__iter__(one)]
        made = tuple.__new__(type(one), items)
        for name, value in held_by(one).items():
            made.__dict__[name] = self.of(value)
        return made

    def _of_object(self, one) -> Any:
        """A list, a dict or another object that can change: it may lead to itself."""
        kind: Any = type(one)
        made: Any
        if kind is dict:
            made = self._note(one, {**one})
            made.update([(key, self.of(value)) for key, value in one.items()])
        elif isinstance(one, list):
            made = self._note(one, list.__new__(kind))
            list.extend(made, [self.of(item) for item in list.__iter__(one)])
        elif isinstance(one, dict):
            made = self._note(one, copy.copy(one))
            for key, value in dict.items(one):
                dict.__setitem__(made, key, self.of(value))
        elif isinstance(one, collections.deque):
            made = self._note(one, copy.copy(one))
            for k, item in enumerate(collections.deque.__iter__(one)):
                made[k] = self.of(item)
        else:
            made = self._note(one, kind.__new__(kind) if _is_bare(kind) else copy.copy(one))
        for name, value in own_attributes(one).items() if kind not in (list, dict) else ():
            object.__setattr__(made, name, self.of(value))
        return made


def _is_bare(kind: Any) -> bool:
    return kind.__new__ is object.__new__
