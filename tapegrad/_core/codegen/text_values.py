"""Values in generated text: of which type they are, and in LLVM's words.

A tuple has a value for each of its parts, and their types as its type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .machine_types import Pointer, Type, complex128, float32, float64, int64, like


class NotCompiled(Exception):
    """A text has something that the compiler does not know."""


class TextValue(NamedTuple):
    """A value in a function: of which type, and in LLVM's words."""

    kind: Type
    ir: Any


class Handed:
    """What a variable stands for that is no value: a function that another one is given."""

    def __init__(self, known: Any):
        self.object = known

    def __repr__(self) -> str:
        return f"known({id(self.object)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handed) and other.object is self.object

    def __hash__(self) -> int:
        return id(self.object)


def values_in(given: Any) -> Iterator[TextValue]:
    """The values in a value, of which a tuple has several."""
    if isinstance(given, TextValue):
        yield given
    elif not isinstance(given, Handed):
        for one in given:
            yield from values_in(one)


def kind_of(given: Any) -> Any:
    """The type of a value; of a tuple that of each."""
    if isinstance(given, Handed):
        return given
    return given.kind if isinstance(given, TextValue) else like(given, map(kind_of, given))


def value_of(kind: Any, words: Iterator) -> Any:
    """The value of a type that consecutive words make up."""
    if isinstance(kind, Handed):
        return kind
    if isinstance(kind, tuple):
        return like(kind, [value_of(one, words) for one in kind])
    return TextValue(kind, next(words))


def common_kind(kinds: list) -> Any:
    """The type that values of some types can have; of tuples that of each of their parts."""
    first = kinds[0]
    if all(one is first for one in kinds) or kinds == [first] * len(kinds):
        return first
    if isinstance(first, tuple):
        if not all(isinstance(one, tuple) and len(one) == len(first) for one in kinds):
            raise NotCompiled("tuples of several lengths in one variable")
        return like(first, [common_kind([*parts]) for parts in zip(*kinds, strict=True)])
    if any(isinstance(one, (tuple, Pointer, Handed)) for one in kinds):
        raise NotCompiled(f"one variable of the types {kinds}")
    if complex128 in kinds:
        return complex128
    if not any(one.is_float for one in kinds):
        return int64
    return float32 if {*kinds} == {float32} else float64
