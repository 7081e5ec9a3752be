"""The names that a function reads from outside: its globals, variables of enclosing functions.

They are found in the bytecode of the function and of the functions that it can reach, so those of
branches that have not been taken are among them. A name that one of these functions assigns is not:
its changes may be the function's own.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..._core.tensor.dependencies import Dependencies, Dependency, own_dependencies
from ..._core.tensor.reachable import functions_of, is_users_module

_MISSING = object()
#: So many times in a row, each after so few calls, is too often.
_MANY, _FEW = 16, 4


def names_read(f: Callable) -> Dependencies:
    """The names that a function reads, with their values now."""
    functions = functions_of(f)
    assigned = {(id(owner), name) for one in functions for owner, name in _assigned(one)}
    found = {(id(one.owner), one.name): one for function in functions for one in _read(function)}
    return Dependencies([one for key, one in found.items() if key not in assigned])


class Renewals:
    """How often what was made of a function was made anew, since a name had another value."""

    def __init__(self):
        self._in_a_row = 0

    def reason(self, names: Dependencies, uses: int) -> str | None:
        """Why it is not worth while once more, where it was used that often; None if it is."""
        self._in_a_row = self._in_a_row + 1 if uses < _FEW else 0
        if self._in_a_row < _MANY:
            return None
        return (
            f"{names.changed()}, which it reads, is another object at nearly every call; pass it "
            "as an argument"
        )


class _Path(NamedTuple):
    """A variable of an enclosing function or a global name, and attributes of it, as in `m.n.x`."""

    is_free: bool
    names: tuple[str, ...]


class _Uses(NamedTuple):
    """What code does with names of its surroundings."""

    read: frozenset[_Path]
    assigned: frozenset[_Path]


@functools.lru_cache(maxsize=4096)
def _uses(code: types.CodeType) -> _Uses:
    read: set[_Path] = set()
    assigned: set[_Path] = set()
    path: _Path | None = None  # of the object that has just been read
    for one in dis.get_instructions(code):
        kind, _, what = one.opname.partition("_")
        is_assigned, is_free = kind in ("STORE", "DELETE"), one.opcode in dis.hasfree
        if what in ("ATTR", "METHOD"):
            path = path and _Path(path.is_free, (*path.names, one.argval))
        elif is_free or (one.opcode in dis.hasname and kind == "LOAD") or what == "GLOBAL":
            path = _Path(is_free, (one.argval,))
        else:
            path = None
        if path is not None:
            (assigned if is_assigned else read).add(path)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            uses = _uses(inner)
            read |= uses.read
            assigned |= uses.assigned
    return _Uses(frozenset(read), frozenset(assigned))


def _read(f: types.FunctionType) -> Iterator[Dependency]:
    """What a function reads: its code, names with their values, attributes of modules."""
    yield from own_dependencies(f)
    for path in sorted(_uses(f.__code__).read):
        owner, name = _owner(f, path)
        if (value := _value(f, owner, name)) is not _MISSING:
            yield Dependency(owner, name, value)


def _assigned(f: types.FunctionType) -> Iterator[tuple[Any, str]]:
    """The names that a function assigns, each after what holds it."""
    return (_owner(f, path) for path in _uses(f.__code__).assigned)


def _owner(f: types.FunctionType, path: _Path) -> tuple[Any, str]:
    """What holds the last name of a path, and this name; None holds what is not followed."""
    first, *attributes = path.names
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    owner, name = cells.get(first) if path.is_free else f.__globals__, first
    for attribute in attributes:
        owner, name = _value(f, owner, name), attribute
        if not is_users_module(owner) or attribute not in vars(owner):
            return None, attribute
    return owner, name


def _value(f: types.FunctionType, owner, name: str) -> Any:
    """The value of a name, as the function would read it now."""
    if isinstance(owner, types.CellType):
        try:
            return owner.cell_contents
        except ValueError:  # it has none yet
            return _MISSING
    if owner is None:
        return _MISSING
    if isinstance(owner, types.ModuleType):
        return vars(owner).get(name, _MISSING)
    found = owner.get(name, _MISSING)
    if found is not _MISSING:
        return found
    return f.__builtins__.get(name, _MISSING)  # type: ignore[attr-defined]
