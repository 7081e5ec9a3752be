"""A function as it would be with other objects in place of some that it reads from outside.

The user's objects stay as they are: other threads use them. What lies on the way to those that are
replaced is copied: functions with their cells and globals, containers, plain instances, modules.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

from ..._core.tensor.reachable import MOST, MOST_ITEMS, Reach, held_by
from .names_read import uses_of

_NAMESPACE = types.SimpleNamespace


class Replaced:
    """A `function` that is a copy of another one, with `others` for objects by their ids.

    What it writes to copies of containers and instances is lost until `write_back`.
    """

    def __init__(self, f: Callable, others: dict[int, Any]):
        self._reach, self._made = Reach(f), dict(others)
        self._names: dict[int, frozenset[str]] = {}  # that are read of globals
        self._attributes: frozenset[str] = frozenset()
        self._assigned: set[int] = set()  # cells and globals that functions assign
        self._read_names()
        self.objects = [f]  # all of them, which are known by id
        self.holders: dict[int, list] = {}  # what holds each of them
        seen = {id(f)}
        for one in self.objects:  # which grows
            for held in self._held(one):
                self.holders.setdefault(id(held), []).append(one)
                if id(held) not in seen and len(self.objects) < MOST:
                    seen.add(id(held))
                    self.objects.append(held)
        self._leading = _leading(self.holders, others)
        #: Copies that are to be filled, and those whose items a call may change.
        self._empty: list[tuple[Any, Any]] = []
        self._written: list[tuple[Any, Any, list]] = []
        self.function = self._of(f)
        for old, new in self._empty:  # which grows
            self._fill(old, new)

    def _read_names(self) -> None:
        for one in self._reach.functions():
            uses = uses_of(one.__code__)
            key = id(one.__globals__)
            self._names[key] = self._names.get(key, frozenset()) | uses.names
            self._attributes |= uses.attributes
            cells = zip(one.__code__.co_freevars, one.__closure__ or (), strict=True)
            self._assigned |= {id(cell) for name, cell in cells if name in uses.assigned_variables}
            self._assigned |= {key} if uses.assigned_names else set()

    def _held(self, one) -> list:
        """What an object holds that a copy of it could hold another object for."""
        if id(one) in self._assigned:
            return []
        if isinstance(one, types.FunctionType):
            return self._held_by_function(one)
        if isinstance(one, types.CellType):
            return [held.cell_contents for held in [one] if _is_filled(held)]
        if id(one) in self._names:
            return [one[name] for name in self._names[id(one)] if name in one]
        if isinstance(one, types.MethodType):
            return [one.__func__, one.__self__]
        if type(one) is functools.partial:
            return [one.func, *one.args, *one.keywords.values()]
        if type(one) in (list, dict, tuple) or hasattr(type(one), "_make"):
            items = one.values() if isinstance(one, dict) else one
            return [*items] if len(one) <= MOST_ITEMS else []
        if isinstance(one, types.ModuleType):
            is_users = not self._reach.is_of_library(one.__name__)
            return [vars(one)[x] for x in self._attributes if x in vars(one) and is_users]
        is_known = type(one) is _NAMESPACE or not self._reach.is_library(one)
        return [*held_by(one).values()] if is_known and _is_plain(one) else []

    def _held_by_function(self, f: types.FunctionType) -> list:
        found = [*(f.__closure__ or ()), *(f.__defaults__ or ())]
        found += [*(f.__kwdefaults__ or {}).values(), *vars(f).values()]
        return [*found, f.__globals__] if id(f.__globals__) in self._names else found

    def _of(self, one):
        """What stands for an object: itself, unless it leads to one that is replaced."""
        if (key := id(one)) in self._made or key not in self._leading:
            return self._made.get(key, one)
        if isinstance(one, types.MethodType):
            made: Any = types.MethodType(self._of(one.__func__), self._of(one.__self__))
        elif isinstance(one, functools.partial):
            named = {name: self._of(held) for name, held in one.keywords.items()}
            made = functools.partial(self._of(one.func), *map(self._of, one.args), **named)
        elif isinstance(one, tuple):
            items = [*map(self._of, one)]
            made = tuple(items) if type(one) is tuple else type(one)._make(items)
        elif isinstance(one, types.FunctionType):
            cells = tuple(map(self._of, one.__closure__ or ()))
            made = types.FunctionType(
                one.__code__, self._of(one.__globals__), one.__name__, None, cells
            )
            self._empty.append((one, made))
        else:
            made = _empty(one)
            self._empty.append((one, made))
        self._made[key] = made
        return made

    def _fill(self, old, new) -> None:
        """Let a copy hold what the object holds, or what stands for that."""
        if isinstance(old, types.CellType):
            new.cell_contents = self._of(old.cell_contents)
        elif isinstance(old, types.FunctionType):
            new.__defaults__ = old.__defaults__ and tuple(map(self._of, old.__defaults__))
            keywords = old.__kwdefaults__ or {}
            new.__kwdefaults__ = {name: self._of(held) for name, held in keywords.items()} or None
            vars(new).update({name: self._of(held) for name, held in vars(old).items()})
            new.__qualname__, new.__module__ = old.__qualname__, old.__module__
        elif id(old) in self._names:
            new.update(old)
            new.update({x: self._of(old[x]) for x in self._names[id(old)] if x in old})
        else:
            if isinstance(old, list):
                new.extend(map(self._of, old))
            else:
                held = _dict_of(old)
                _dict_of(new).update({name: self._of(value) for name, value in held.items()})
            self._written.append((old, new, _contents(new)))

    def write_back(self, plain: Callable[[Any], Any]) -> None:
        """Let objects hold what the call has written to copies of them.

        For new objects they hold what `plain` gives.
        """
        before = {id(self._made[id(one)]): one for one in self.objects if id(one) in self._made}

        def back(held):
            return before[id(held)] if id(held) in before else plain(held)

        for old, new, held in self._written:
            now = _contents(new)
            if len(now) == len(held) and all(map(operator.is_, now, held)):
                continue
            if isinstance(old, list):
                old[:] = map(back, new)
                continue
            items, to = {name: back(value) for name, value in _dict_of(new).items()}, _dict_of(old)
            to.update({name: value for name, value in items.items() if to.get(name) is not value})
            for name in to.keys() - items.keys():
                del to[name]


def _leading(holders: dict[int, list], others: dict[int, Any]) -> set[int]:
    """The objects that lead to some, by what holds each of them."""
    found: set[int] = set()
    waiting = [*others]
    for key in waiting:  # which grows
        new = {id(one) for one in holders.get(key, ())} - found
        found |= new
        waiting += new
    return found


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # it has no value yet
        return False
    return True


def _is_plain(one) -> bool:
    """Whether an instance has its state in a dict alone, which its class does not hide.

    One with a finalizer is not copied: that would run for the copy.
    """
    if (kind := type(one)) is _NAMESPACE:
        return True
    if isinstance(one, type):
        return False
    slots = [x for base in kind.__mro__ for x in vars(base).values()]
    if any(isinstance(x, types.MemberDescriptorType) for x in slots):
        return False
    if kind.__getattribute__ is not object.__getattribute__ or hasattr(kind, "__del__"):
        return False
    try:
        _empty(one)
    except TypeError:  # of a class with memory of its own
        return False
    return type(held_by(one)) is dict


def _empty(one):
    """An object of the same type that holds nothing yet."""
    if isinstance(one, types.ModuleType):
        return types.ModuleType(one.__name__)
    is_builtin = isinstance(one, (list, dict, types.CellType, _NAMESPACE))
    return type(one)() if is_builtin else object.__new__(type(one))


def _dict_of(one) -> dict:
    return one if isinstance(one, dict) else vars(one)


def _contents(one) -> list:
    if isinstance(one, list):
        return [*one]
    held = _dict_of(one)
    return [*held, *held.values()]
