"""Parts of programs as JSON and numbers: views, plain values, steps; `decode` reads them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import COMPLEX, STEERING, TABLE
from ..ir.steps import (
    GUARD,
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
from .allowed_functions import name_of
from .archive import Pools

#: What guards are called in columns of operations.
GUARD_NAME = "guard"


def operation_names() -> dict[int, str]:
    """Names of the operations that files have, by code."""
    declared = (*TABLE.values(), *STEERING.values(), *COMPLEX.values())
    return {GUARD: GUARD_NAME, **{op.code: op.name for op in declared}}


class Writer:
    """Makes JSON of parts of programs, and keeps their numbers."""

    def __init__(self) -> None:
        self.pools = Pools()
        self.names = operation_names()
        self.numbers = np.full(1 + max(self.names), -1, np.int32)
        for number, code in enumerate(self.names):
            self.numbers[code] = number

    def array(self, array: np.ndarray) -> list:
        return self.pools.add(array)

    def view(self, view: View) -> list:
        return [view.offset, list(view.shape), list(view.strides), view.base]

    def value(self, value) -> Any:
        """A plain value: whatever is no number, text or truth is an object of one name."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) in (tuple, list):
            return {type(value).__name__: [self.value(item) for item in value]}
        for kind, (name, encode) in _ENCODED.items():
            if isinstance(value, kind):
                return {name: encode(self, value)}
        if isinstance(value, type) and issubclass(value, (bool, int, float, np.generic)):
            return {"dtype": np.dtype(value).name}
        named = name_of(value) if callable(value) else None
        if named is None:
            raise ValueError(f"it holds {value!r:.60}, which files have no name for")
        return {"function": named}

    def operand(self, item) -> Any:
        """A view, or a plain value."""
        return {"view": self.view(item)} if isinstance(item, View) else self.value(item)

    def scalars(self, step: Scalars) -> dict:
        columns = {"a": step.a, "b": step.b, "c": step.c}
        return {
            "first": step.first,
            "op": self.array(self.numbers[step.op]),
            **{name: self.array(column) for name, column in columns.items()},
        }

    def elementwise(self, step: Elementwise) -> dict:
        def node(x):
            return self.view(x) if isinstance(x, View) else x

        return {
            "shape": list(step.shape),
            "ops": [[self.names[code], [node(x) for x in xs]] for code, xs in step.ops],
            "stores": [[k, self.view(view)] for k, view in step.stores],
            "sums": [[k, self.view(view)] for k, view in step.sums],
        }

    def link(self, step: Link) -> dict:
        pairs = [[self.view(target), self.view(source)] for target, source in step.pairs]
        return {"out": self.view(step.out), "pairs": pairs}

    def gather(self, step: Gather) -> dict:
        positions = self.operand(step.positions)
        return {
            "out": self.view(step.out),
            "source": self.view(step.source),
            "positions": positions,
        }

    def scatter(self, step: Scatter) -> dict:
        views = (step.out, step.before, step.source, step.positions)
        names = ("out", "before", "source", "positions")
        return dict(zip(names, map(self.view, views), strict=True))

    def pack(self, step: Pack) -> dict:
        return {"out": self.view(step.out), "slots": self.array(np.asarray(step.slots, np.int32))}

    def kernel(self, step: Kernel) -> dict:
        operands = [self.operand(x) for x in step.operands]
        return {
            "out": self.view(step.out),
            "operation": self.names[step.code],
            "operands": operands,
        }

    def computed(self, step: Computed) -> dict:
        bound = functools.partial(step.function)  # of a partial: the same once more
        operands = [
            [self.operand(x), None if dtype is None else dtype.name] for x, dtype in step.operands
        ]
        return {
            "out": self.view(step.out),
            "function": self.value(bound.func),
            "keywords": self.value(bound.keywords),
            "operands": operands,
        }

    def step(self, step: Step) -> dict:
        name = type(step).__name__.lower()
        return {"step": name, **getattr(self, name)(step)}


#: Values that are objects of one name, by type.
_ENCODED: dict[type, tuple[str, Callable]] = {
    np.generic: ("number", lambda writer, x: writer.array(np.asarray(x))),
    float: ("float", lambda writer, x: x.hex()),
    bytes: ("bytes", lambda writer, x: x.hex()),
    dict: ("dict", lambda writer, x: [[writer.value(k), writer.value(v)] for k, v in x.items()]),
    slice: ("slice", lambda writer, x: [writer.value(v) for v in (x.start, x.stop, x.step)]),
    type(Ellipsis): ("ellipsis", lambda writer, x: True),
    np.ndarray: ("array", lambda writer, x: writer.array(x)),
    np.dtype: ("dtype", lambda writer, x: x.name),
}
