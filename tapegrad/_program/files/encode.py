"""Parts of programs as JSON and numbers: views, plain values, steps; `decode` reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import BY_CODE, COMPLEX, POWERS, STEERING, TABLE
from ..ir.steps import GUARD, Step, View
from .allowed_functions import name_of
from .archive import Pools

#: The name of guards in columns of operations.
GUARD_NAME = "guard"


def operation_names() -> dict[int, str]:
    """Names of the operations that files have, by code."""
    declared = (*TABLE.values(), *STEERING.values(), *POWERS.values(), *COMPLEX.values())
    return {GUARD: GUARD_NAME, **{op.code: op.name for op in declared}}


class Writer:
    """Converts parts of programs to JSON, and keeps their numbers."""

    def __init__(self) -> None:
        self.pools = Pools()
        self.names = operation_names()
        #: The numbers that stand for operations in columns; a file names those that it uses.
        self.columns: dict[str, int] = {}

    def operation(self, code: int) -> str:
        """The name of an operation."""
        if code not in self.names:
            raise ValueError(f"it calls {BY_CODE[code].doc}, which files have no name for")
        return self.names[code]

    def array_of_codes(self, codes: np.ndarray) -> list:
        used, places = np.unique(codes, return_inverse=True)
        names = [self.operation(int(code)) for code in used]
        numbers = [self.columns.setdefault(name, len(self.columns)) for name in names]
        return self.array(np.array(numbers, np.int32)[places.reshape(codes.shape)])

    def array(self, array: np.ndarray) -> list:
        return self.pools.add(array)

    def view(self, view: View) -> list:
        return [view.offset, list(view.shape), list(view.strides), view.base]

    def value(self, value) -> Any:
        """A plain value: anything but numbers, text and truths is an object of one name."""
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

    def step(self, step: Step) -> dict:
        return {"step": step.name, **step.encoded(self)}


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
