"""Parts of programs from JSON and numbers, as `encode` writes them.

What is read comes from anywhere: types are asked for one by one, and no name stands for anything
but an operation of the table or a function of the list.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.steps import (
    Computed,
    Elementwise,
    Gather,
    Kernel,
    Link,
    Pack,
    Scalars,
    Scatter,
    Step,
    View,
)
from .allowed_functions import function_named
from .archive import DTYPES, Pools
from .encode import operation_names

#: Integers are no larger, so that sums of a few are no larger than 64 bits.
_LARGEST = 2**60


def integer(item) -> int:
    if type(item) is not int or abs(item) > _LARGEST:
        raise ValueError(f"{_short(item)} is no integer")
    return item


def text(item) -> str:
    if type(item) is not str:
        raise ValueError(f"{_short(item)} is no text")
    return item


def truth(item) -> bool:
    if type(item) is not bool:
        raise ValueError(f"{_short(item)} is neither true nor false")
    return item


def items(item, count: int | None = None) -> list:
    if type(item) is not list or (count is not None and len(item) != count):
        raise ValueError(f"{_short(item)} is no list" + (f" of {count}" if count else ""))
    return item


def pairs(item) -> list[list]:
    return [items(one, 2) for one in items(item)]


def integers(item) -> tuple[int, ...]:
    return tuple(map(integer, items(item)))


def fields(item, *names: str) -> list:
    """The values of an object that has exactly these names."""
    if type(item) is not dict or set(item) != set(names):
        raise ValueError(f"{_short(item)} is no object of {', '.join(names)}")
    return [item[name] for name in names]


def _short(item) -> str:
    shown = repr(item)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def dtype_named(item) -> np.dtype:
    if item not in DTYPES:
        raise ValueError(f"{_short(item)} is no dtype")
    return DTYPES[item].newbyteorder("=")


class Reader:
    """Makes parts of programs from JSON and numbers; `names` are the operations of its columns."""

    def __init__(self, pools: Pools, names: list):
        self.pools = pools
        self.codes = {name: code for code, name in operation_names().items()}
        self.columns = np.array([self.code(name) for name in names], np.int32)

    def code(self, name) -> int:
        if type(name) is not str or name not in self.codes:
            raise ValueError(f"there is no operation {_short(name)}")
        return self.codes[name]

    def array(self, item, dtype=None) -> np.ndarray:
        name, start, shape = items(item, 3)
        found = self.pools.get(text(name), integer(start), integers(shape))
        if dtype is not None and found.dtype != dtype:
            raise ValueError(f"an array has dtype {found.dtype}, not {np.dtype(dtype)}")
        return found

    def view(self, item) -> View:
        offset, shape, strides, base = items(item, 4)
        return View(integer(offset), integers(shape), integers(strides), integer(base))

    def value(self, item) -> Any:
        if item is None or type(item) in (bool, str):
            return item
        if type(item) is int:
            return integer(item)
        if type(item) is not dict or len(item) != 1:
            raise ValueError(f"{_short(item)} is no value")
        ((name, content),) = item.items()
        if name not in _DECODED:
            raise ValueError(f"there are no values of the kind {_short(name)}")
        return _DECODED[name](self, content)

    def values(self, item, count: int | None = None) -> list:
        return [self.value(one) for one in items(item, count)]

    def function(self, item) -> Callable:
        found = function_named(item)
        if found is None:
            raise ValueError(f"it calls {_short(item)}, which programs may not")
        return found

    def operand(self, item) -> Any:
        if type(item) is dict and set(item) == {"view"}:
            return self.view(item["view"])
        return self.value(item)

    def scalars(self, item) -> Scalars:
        first, op, *columns = fields(item, "first", "op", "a", "b", "c")
        numbers = self.array(op, np.int32)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self.columns):
            raise ValueError("a column has an operation that it does not name")
        a, b, c = (self.array(column, np.int32) for column in columns)
        return Scalars(integer(first), self.columns[numbers], a, b, c)

    def elementwise(self, item) -> Elementwise:
        shape, ops, stores, sums = fields(item, "shape", "ops", "stores", "sums")

        def node(x):
            return self.view(x) if type(x) is list else integer(x)

        made = [(self.code(name), tuple(map(node, items(xs)))) for name, xs in pairs(ops)]
        results = [
            [(integer(k), self.view(view)) for k, view in pairs(found)] for found in (stores, sums)
        ]
        return Elementwise(integers(shape), made, *results)

    def link(self, item) -> Link:
        out, linked = fields(item, "out", "pairs")
        views = [(self.view(target), self.view(source)) for target, source in pairs(linked)]
        return Link(self.view(out), views)

    def gather(self, item) -> Gather:
        out, source, positions = fields(item, "out", "source", "positions")
        found = self.operand(positions)
        if not isinstance(found, (View, np.ndarray)):
            raise ValueError(f"{_short(positions)} are no positions")
        return Gather(self.view(out), self.view(source), found)

    def scatter(self, item) -> Scatter:
        return Scatter(*map(self.view, fields(item, "out", "before", "source", "positions")))

    def pack(self, item) -> Pack:
        out, slots = fields(item, "out", "slots")
        return Pack(self.view(out), self.array(slots, np.int32))

    def kernel(self, item) -> Kernel:
        out, name, operands = fields(item, "out", "operation", "operands")
        found = [self.operand(x) for x in items(operands)]
        return Kernel(self.code(name), found, self.view(out))

    def computed(self, item) -> Computed:
        out, function, keywords, operands = fields(item, "out", "function", "keywords", "operands")
        called, bound = self.value(function), self.value(keywords)
        if not callable(called) or type(bound) is not dict or not all(map(_is_text, bound)):
            raise ValueError("a function is none, or its keywords are not")
        found = [
            (self.operand(x), None if dtype is None else dtype_named(dtype))
            for x, dtype in pairs(operands)
        ]
        if bound:
            called = functools.partial(called, **bound)
        return Computed(called, found, self.view(out))

    def step(self, item) -> Step:
        if type(item) is not dict or item.get("step") not in _STEPS:
            raise ValueError(f"{_short(item)} is no step")
        return _STEPS[item["step"]](self, {k: v for k, v in item.items() if k != "step"})


def _is_text(item) -> bool:
    return type(item) is str


_STEPS = {
    kind.__name__.lower(): getattr(Reader, kind.__name__.lower())
    for kind in (Scalars, Elementwise, Link, Gather, Scatter, Pack, Kernel, Computed)
}
_DECODED: dict[str, Callable] = {
    "float": lambda reader, x: float.fromhex(text(x)),
    "bytes": lambda reader, x: bytes.fromhex(text(x)),
    "tuple": lambda reader, x: tuple(reader.values(x)),
    "list": lambda reader, x: reader.values(x),
    "dict": lambda reader, x: {reader.value(k): reader.value(v) for k, v in pairs(x)},
    "slice": lambda reader, x: slice(*reader.values(x, 3)),
    "ellipsis": lambda reader, x: Ellipsis,
    "array": lambda reader, x: reader.array(x),
    "number": lambda reader, x: reader.array(x)[()],
    "dtype": lambda reader, x: dtype_named(x),
    "function": lambda reader, x: reader.function(x),
}
