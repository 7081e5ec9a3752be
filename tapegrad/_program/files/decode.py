"""Parts of programs from JSON and numbers, as `encode` writes them.

The input may come from anywhere: types are checked one by one, and no name stands for anything but
an operation of the table or a function of the list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.json_values import integer, integers, items, label, pairs, short, text
from ..ir.steps import Step, View
from .allowed_functions import function_named
from .archive import DTYPES, Pools
from .encode import operation_names


def dtype_named(item) -> np.dtype:
    if item not in DTYPES:
        raise ValueError(f"{short(item)} is no dtype")
    return DTYPES[item].newbyteorder("=")


class Reader:
    """Makes parts of programs from JSON and numbers; `names` are the operations of its columns."""

    def __init__(self, pools: Pools, names: list):
        self.pools = pools
        self.codes = {name: code for code, name in operation_names().items()}
        self.columns = np.array([self.code(name) for name in names], np.int32)

    def code(self, name) -> int:
        if type(name) is not str or name not in self.codes:
            raise ValueError(f"there is no operation {short(name)}")
        return self.codes[name]

    def array_of_codes(self, item) -> np.ndarray:
        numbers = self.array(item, np.int32)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self.columns):
            raise ValueError("a column has an operation that it does not name")
        return self.columns[numbers]

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
            raise ValueError(f"{short(item)} is no value")
        ((name, content),) = item.items()
        if name not in _DECODED:
            raise ValueError(f"there are no values of the kind {short(name)}")
        return _DECODED[name](self, content)

    def values(self, item, count: int | None = None) -> list:
        return [self.value(one) for one in items(item, count)]

    def function(self, item) -> Callable:
        found = function_named(item)
        if found is None:
            raise ValueError(f"it calls {short(item)}, which programs may not")
        return found

    def operand(self, item) -> Any:
        if type(item) is dict and set(item) == {"view"}:
            return self.view(item["view"])
        return self.value(item)

    def frame(self, item) -> tuple[str, int, str]:
        """A line of the user's code: file, number, function."""
        file, line, function = items(item, 3)
        return label(file), integer(line), label(function)

    def dtype(self, item) -> np.dtype:
        return dtype_named(item)

    def step(self, item) -> Step:
        if type(item) is not dict or item.get("step") not in Step.kinds:
            raise ValueError(f"{short(item)} is no step")
        found = {name: content for name, content in item.items() if name != "step"}
        return Step.kinds[item["step"]].decoded(self, found)


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
