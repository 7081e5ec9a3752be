"""What is known of values where the uses of arrays from outside are followed."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

#: Types of arrays that do what NumPy's do.
ARRAYS = (np.ndarray, np.memmap)
#: Types of numbers, texts and indices that never change.
PLAIN = (int, float, bool, str, type(None), type(Ellipsis), slice, range)


class Unknown(Exception):
    """Something that a function does is not known here."""


@dataclasses.dataclass(frozen=True)
class Known:
    """An object from outside, or one that follows from such objects and constants."""

    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Derived:
    """What an element-wise function of NumPy's gives of an array from outside and of numbers."""

    function: np.ufunc
    operands: tuple[Known, ...]

    @property
    def array(self) -> np.ndarray:
        """The array."""
        (found,) = [one.value for one in self.operands if isinstance(one.value, np.ndarray)]
        return found


@dataclasses.dataclass(frozen=True)
class Other:
    """Numbers and arrays that are computed; `recorded` of arguments, else of plain data.

    `sure` says that they are recorded floats, so that an operation of one is recorded.
    """

    recorded: bool
    sure: bool = False


@dataclasses.dataclass(frozen=True)
class Items:
    """A tuple or a list that the function makes."""

    items: tuple
    is_list: bool = False


@dataclasses.dataclass(frozen=True)
class Method:
    """A method of something that is computed, or of an array."""

    owner: Any
    name: str


@dataclasses.dataclass(frozen=True)
class Iterator:
    """An iterator; where it stands is in the state of a way."""

    key: int


RECORDED, UNSURE, DATA = Other(True, True), Other(True), Other(False)
#: What is not followed: whatever reads it ends this.
NOTHING = None


@dataclasses.dataclass
class Way:
    """A way through a function so far: which operands operations read, and iterators."""

    uses: list[tuple]
    iterators: dict[int, tuple[tuple, int]]

    def copy(self) -> Way:
        return Way([*self.uses], dict(self.iterators))

    def iterator(self, items: list) -> Iterator:
        """A new iterator over some items."""
        found = Iterator(len(self.iterators))
        self.iterators[found.key] = tuple(items), 0
        return found


def is_plain(value) -> bool:
    """Whether an object is a number or a text, or a tuple of such."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    if type(value) is slice:
        return all(map(is_plain, (value.start, value.stop, value.step)))
    return type(value) in PLAIN or isinstance(value, np.dtype)


def is_operand(form) -> bool:
    """Whether a form is a number or an array."""
    if isinstance(form, Known):
        return is_plain(form.value) or isinstance(form.value, np.number) or is_array(form.value)
    return isinstance(form, (Other, Derived))


def is_number(value) -> bool:
    """Whether an object is a number of Python's."""
    return type(value) in (int, float)


def is_array(value) -> bool:
    """Whether an object is an array of numbers."""
    return type(value) in ARRAYS and not value.dtype.hasobject


def is_recorded(form) -> bool:
    if isinstance(form, Items):
        return any(map(is_recorded, form.items))
    return isinstance(form, Other) and form.recorded


def value_of(form):
    """The object that a form is."""
    if not isinstance(form, Known):
        raise Unknown("something computed")
    return form.value


def key_of(form) -> tuple | None:
    """An index that gives views, in a tuple; None for others."""
    if isinstance(form, Items):
        if form.is_list:
            return None  # as an index a list is an array
        found = [key_of(one) for one in form.items]
        return None if None in found else (tuple([one[0] for one in found if one]),)
    return (form.value,) if isinstance(form, Known) and is_plain(form.value) else None
