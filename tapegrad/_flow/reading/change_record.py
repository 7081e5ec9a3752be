"""A record of what a function is found to change outside of itself, and of what it reads there."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import numpy as np

from ..ir.flow_graph import Line
from .errors import Outdated

BUILT_IN = (list, dict, set, collections.deque, bytearray)
CONTAINERS = (
    *(*BUILT_IN, collections.Counter, collections.defaultdict, collections.OrderedDict),
    np.ndarray,
)
#: The number of points after which readings are not begun again before their end.
_EARLY = 8
#: Whatever an object contains; how many items it has, which grows without a change of the others.
WHOLE, ORDER = object(), object()


class Change(NamedTuple):
    """A change outside: its name, the line, and whether only plain values get there."""

    name: str
    line: Line | None
    plain: bool


class Changes:
    """What a function is found to change, by owner and key, over all readings of it."""

    def __init__(self):
        self._found: dict[tuple[int, Any], Change] = {}
        self._owners: dict[int, Any] = {}
        self._names: dict[int, str] = {}
        self.refused: dict[int, str] = {}  # containers that cannot be read, and why
        self._read: set[tuple[int, Any]] = set()
        self.is_outdated = False  # something was read before a change of it was found
        self.texts: dict[Line | None, str] = {}  # lines that write a text somewhere, and by what

    def begin(self) -> None:
        """Begin another reading."""
        self._read.clear()
        self.is_outdated = False

    def check(self, followed: int) -> None:
        """Begin another reading early, where one of so many points is outdated; else at its end."""
        if self.is_outdated and followed <= _EARLY:
            raise Outdated

    def named(self, value, name: str) -> None:
        """Note a name for an object, and for what lies in it."""
        if isinstance(value, CONTAINERS):
            self._names.setdefault(id(value), name)

    def name_of(self, owner) -> str:
        return self._names.get(id(owner), f"a {type(owner).__name__}")

    def owner(self, number: int) -> Any:
        """An object by its id; None if it is not known."""
        return self._owners.get(number)

    def note_read(self, owner, key=WHOLE) -> None:
        """Note that something is read as a value."""
        self._owners[id(owner)] = owner
        self._read.add((id(owner), key))

    def note(self, owner, key, change: Change) -> None:
        """Note a change."""
        self._owners[id(owner)] = owner
        place = id(owner), key
        known = self._found.get(place)
        if known is not None and known.plain <= change.plain:
            return
        self._found[place] = known._replace(plain=False) if known else change
        self.is_outdated |= known is not None or any(
            one in self._read for one in self._places(owner, key, self._read)
        )

    def _places(self, owner, key, among) -> list[tuple[int, Any]]:
        """Places among some that overlap with one."""
        shared: set[int] = set()
        if (memory := _memory(owner)) is not None:
            others = [(one, _memory(one)) for one in self._owners.values() if one is not owner]
            shared = {
                id(one)
                for one, other in others
                if other is not None and np.may_share_memory(other, memory)
            }
        return [
            (number, other)
            for number, other in among
            if number in shared or (number == id(owner) and _overlap(key, other))
        ]

    def of(self, owner, key=WHOLE) -> Change | None:
        """A change of something, None if there is none."""
        if isinstance(owner, (np.ndarray, bytearray)):
            self._owners.setdefault(id(owner), owner)
        places = self._places(owner, key, self._found)
        return self._found[places[0]] if places else None

    def without_objects(self) -> Changes:
        """What is reported, alone."""
        made = Changes()
        made._found, made.texts = dict(self._found), dict(self.texts)
        return made

    @property
    def found(self) -> list[tuple[str, Line | None]]:
        """All that the function changes: names and lines."""
        return list(dict.fromkeys((one.name, one.line) for one in self._found.values()))


def _memory(owner) -> np.ndarray | None:
    """The memory of an array or a bytearray, which others may lie in; None for others."""
    if isinstance(owner, bytearray):
        return np.frombuffer(owner, np.uint8) if owner else None
    return owner if isinstance(owner, np.ndarray) else None


def _overlap(a, b) -> bool:
    """Whether two keys may be of the same."""
    if a is WHOLE or b is WHOLE:
        return True
    return a is b if a is ORDER or b is ORDER else bool(a == b)
