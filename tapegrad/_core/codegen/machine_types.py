"""The types of values in generated code, and the signatures of its functions.

A type that several words make up, such as a descriptor of memory, is a tuple of types. Text names
types as here: "float64(int64, Matrix)".
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..remembered import remembered
from .process import ir


class Type:
    """A type: called with the types of arguments it gives the signature of a function."""

    def __init__(self, name: str, bits: int = 0, signed: bool = True):
        self.name, self.bits, self.signed = name, bits, signed

    def __call__(self, *arguments: Any) -> Signature:
        return Signature(self, arguments)

    def __repr__(self) -> str:
        return self.name

    @property
    def is_integer(self) -> bool:
        return self in (int64, int32, uint8)

    @property
    def is_float(self) -> bool:
        return self in (float64, float32)

    @remembered
    def llvm(self) -> Any:
        """The type in LLVM's words."""
        if self is none:
            return ir.VoidType()
        if self is complex128:
            return ir.LiteralStructType([ir.DoubleType()] * 2)
        if self.is_float:
            return ir.DoubleType() if self is float64 else ir.FloatType()
        return ir.IntType(self.bits)


class Pointer(Type):
    """The address of values of a type, which follow one another."""

    def __init__(self, dtype: Type):
        super().__init__(f"{dtype}*")
        self.dtype = dtype

    @remembered
    def llvm(self) -> Any:
        return self.dtype.llvm.as_pointer()


class Signature(NamedTuple):
    """The type of the result of a function, and those of its arguments."""

    return_type: Any
    args: tuple


int64, int32 = Type("int64", 64), Type("int32", 32)
uint8 = Type("uint8", 8, signed=False)
float64, float32, complex128 = Type("float64", 64), Type("float32", 32), Type("complex128")
boolean = Type("boolean", 1, signed=False)
none = void = Type("none")
pointer_to = functools.cache(Pointer)


def flat(kinds: Any) -> Iterator[Type]:
    """The types in a tuple, and in the tuples in it, one by one."""
    for one in kinds:
        if isinstance(one, tuple):
            yield from flat(one)
        elif isinstance(one, Type):
            yield one


def like(whole: tuple, parts: Any) -> Any:
    """A tuple of parts, named as those of another one are."""
    return type(whole)(*parts) if hasattr(whole, "_fields") else tuple(parts)


def signature_of(text: str) -> Signature:
    """The signature that a text describes."""
    return eval(text, globals())
