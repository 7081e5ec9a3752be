"""What containers and memory from outside hold, and the part of it that a call has not changed."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from ..tape.memory_order import memory_of
from .array_contents import contents
from .values import array_of, is_recorded, is_tensor

#: Types of values that are compared by value, since they may have been computed anew.
PLAIN = (int, float, str, np.float64)
#: Items of a container of which each is compared in each call.
MOST_COMPARED = 100
#: The module of SciPy's matrices that are dicts by their class, and hold their numbers in another.
_OF_KEYS = "scipy.sparse._dok"
#: Containers in long ones that are looked at where a function is recorded.
MOST_INSIDE = 2000


class Contents(NamedTuple):
    """A container, an array, a tensor or other memory, a name for it, and what it contained."""

    owner: Any
    name: str
    value: Any  # its items, or what `contents` gives for memory
    keys: list | None  # of a dict

    @classmethod
    def of(cls, owner: Any, name: str) -> Contents:
        """With what it contains now."""
        if (held := held_memory(owner)) is not None:
            return cls(owner, name, contents(held), None)
        if isinstance(owner, dict):
            if type(owner).__module__ == _OF_KEYS:
                owner = getattr(owner, "_dict", owner)
            return cls(owner, name, [*owner.values()], [*owner])
        return cls(owner, name, [*owner], None)

    @property
    def is_memory(self) -> bool:
        """Whether the elements of memory are compared, and no items."""
        return isinstance(self.value, bytes) or type(self.value) is tuple

    @property
    def is_long(self) -> bool:
        """Whether it takes too long to compare the items in each call."""
        return not self.is_memory and len(self.value) > MOST_COMPARED

    def is_there(self) -> bool:
        """Whether it contains the same."""
        now = Contents.of(self.owner, self.name)
        if self.is_memory or len(now.value) != len(self.value):
            return bool(self.is_memory and now.value == self.value)
        is_like = now.keys is None or all(map(is_same, now.keys, self.keys or ()))
        return is_like and all(map(is_same, now.value, self.value))

    def left(self) -> Part | None:
        """The items or elements that are as they were; None if there are none."""
        if self.is_memory:
            return _left_of_memory(self)
        if isinstance(self.owner, set):
            return Part(self.owner, self.name, {*self.value}, None, None).left()
        count = len(self.value)
        places, whole = (range(count), count) if self.keys is None else (self.keys, self.keys)
        return Part(self.owner, self.name, self.value, places, whole).left()


class Placement(NamedTuple):
    """An array whose elements are read in each call, and how it lies: they are not compared."""

    owner: np.ndarray
    name: str
    value: tuple  # its address, shape, strides and dtype

    @classmethod
    def of(cls, owner: np.ndarray, name: str) -> Placement:
        """How it lies now."""
        return cls(owner, name, (memory_of(owner), owner.shape, owner.strides, owner.dtype))

    def is_there(self) -> bool:
        """Whether it lies as it did."""
        return Placement.of(self.owner, self.name).value == self.value

    def left(self) -> None:
        """Nothing of it, where a call has changed how it lies."""


class Part(NamedTuple):
    """Those items of a container, or elements of memory, that a call has left as they were."""

    owner: Any
    name: str
    value: Any  # items, or the bytes of elements
    places: Any  # indices or keys of items; which elements; None for a set
    whole: Any  # keys in order, or the length, if the call has left them; None else

    @property
    def of_which(self) -> Hashable:
        """What tells it from other parts of the same container."""
        if isinstance(self.places, np.ndarray):
            return self.places.tobytes()
        places = frozenset(self.value) if self.places is None else tuple(self.places)
        whole = tuple(self.whole) if isinstance(self.whole, list) else self.whole
        return places, whole

    def left(self) -> Part | None:
        """The same after another call."""
        if self.places is None:
            return self._replace(value=self.owner.intersection(self.value))
        if isinstance(self.places, np.ndarray):
            if (now := _elements(self.owner)) is None:
                return None
            before = np.zeros((len(self.places), now.shape[1]), np.uint8)
            before[self.places] = np.frombuffer(self.value, np.uint8).reshape(-1, now.shape[1])
            return _part_of_memory(self, now, before, self.places)
        pairs = zip(self.places, self.value, strict=True)
        kept = [(k, one) for k, one in pairs if _has_item(self.owner, k, one)]
        whole = self.whole if self.whole == _outline(self.owner) else None
        return self._replace(value=[v for _, v in kept], places=[k for k, _ in kept], whole=whole)

    def is_there(self) -> bool:
        """Whether all of it is as it was."""
        owner, places = self.owner, self.places
        if places is None:
            return self.value <= owner
        if isinstance(places, np.ndarray):
            now = _elements(owner)
            return now is not None and now[: len(places)][places].tobytes() == self.value
        if self.whole is not None and _outline(owner) != self.whole:
            return False
        return all(map(is_same, [owner[k] for k in places], self.value))


def _has_item(owner, place, before) -> bool:
    """Whether a list or a dict has an item at a place."""
    try:
        return is_same(owner[place], before)
    except (KeyError, IndexError):
        return False


def _outline(owner):
    """The keys of a dict, the length of a list."""
    return [*owner] if isinstance(owner, dict) else len(owner)


# --- memory ---------------------------------------------------------------------------------------


def held_memory(owner) -> np.ndarray | None:
    """The elements of an array, a tensor, or an object that gives its memory; None for others.

    Those of an object are copied, since it could not grow while its memory is shown.
    """
    if isinstance(owner, np.ndarray) or is_tensor(owner):
        return array_of(owner)
    try:
        held = memoryview(owner)
    except TypeError:
        return None
    try:
        return np.array(held)
    except ValueError:  # in a format that NumPy does not know
        return np.frombuffer(held.tobytes(), np.uint8)


def contains(owner, before) -> bool:
    """Whether an array, a tensor that is not recorded, or other memory has contents as before."""
    held = None if _is_recorded(owner) else held_memory(owner)
    return held is not None and contents(held) == before


def _left_of_memory(one: Contents) -> Part | None:
    """The elements that are as they were; None where too many were there to keep them."""
    if not isinstance(one.value, bytes) or (now := _elements(one.owner)) is None:
        return None
    before = np.frombuffer(one.value, np.uint8).reshape(-1, now.shape[1])
    return _part_of_memory(one, now, before, np.ones(len(before), bool))


def _part_of_memory(one: Contents | Part, now, before, among) -> Part:
    """Of the elements `among` all those that are as before; others may have been added."""
    count = min(len(now), len(before))
    places = (now[:count] == before[:count]).all(axis=1) & among[:count]
    return Part(one.owner, one.name, now[:count][places].tobytes(), places, None)


def _elements(owner) -> np.ndarray | None:
    """The bytes of each element in the order of memory; None for a tensor recorded by now."""
    if _is_recorded(owner) or (held := held_memory(owner)) is None:
        return None
    return np.frombuffer(held.tobytes("A"), np.uint8).reshape(held.size, held.itemsize)


def _is_recorded(owner) -> bool:
    return is_tensor(owner) and is_recorded(owner)


# --- items ----------------------------------------------------------------------------------------


def is_same(now, before) -> bool:
    """Whether an item is the one that was there, or a plain value that is alike."""
    return now is before or (type(before) in PLAIN and is_equal(now, before))


def is_equal(now, before) -> bool:
    """Whether two plain values are alike in every use: 0.0 and -0.0 are not."""
    return type(now) is type(before) and now == before and bool(now or not isinstance(now, float))


#: Functions that checks call, by what they are called there.
FUNCTIONS = dict(len=len, all=all, map=map, is_same=is_same, is_equal=is_equal) | {
    "is": operator.is_
}
