"""Rows of the tape read as operations on tensors, for derivatives written as rows.

Common parts of traversals of the tape in either direction: the operands of a row, the buffer that
it owns, and the partial derivatives of the table evaluated on tensors.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.codegen.vector_math import refuse
from .._core.operations import PUBLIC
from .._core.ops.elementwise_text import ElementwiseText
from .._core.ops.table import Pointwise, find
from .._core.tape import store
from .._core.tape.memory_order import covering
from .._core.tape.row_reader import (
    USED_UP,
    Reader,
    array_at,
    constant_of,
    name_of_row,
    object_at,
    operation_of,
)
from .._core.tape.tape import bounds, cell_of
from .._core.tape.workspace import UnknownError
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.runtime import silence


def _select(condition, x, y):
    """The rule's `select`: by value where the condition is one, else recorded."""
    if isinstance(condition, (bool, np.bool_)):
        return x if condition else y
    return PUBLIC["where"](condition, x, y)


class _Functions(types.SimpleNamespace):
    """Functions by name: those that are public, and other declared ones."""

    def __getattr__(self, name: str):
        refuse(f"np.{name}()")
        if not isinstance(find(name), Pointwise):
            raise AttributeError(name)
        vars(self)[name] = made = functools.partial(apply, name)
        return made


_FUNCTIONS = {name: PUBLIC[name] for name in PUBLIC.early()}  # element-wise ones among them
_NAMES = {"np": _Functions(**_FUNCTIONS), "select": _select}


@functools.lru_cache(4096)
def _compiled(declaration: Pointwise, wanted: tuple[int, ...] | None, form: Callable[[str], str]):
    lines: list[str] = []
    text = ElementwiseText(declaration, lines.append)
    found = [text.value()] if wanted is None else text.formed(wanted, form).values()
    made = f"[{', '.join(found)}]"
    return compile("\n".join(lines), made, "exec"), compile(made, made, "eval")


def beside(dtype: np.dtype, operand):
    """An operand as it was computed with: a number of Python's took the dtype of the result."""
    return dtype.type(operand) if type(operand) is np.float64 else operand


def evaluate(declaration, values, wanted=None, form=str) -> list:
    """The partial derivatives by some inputs, or the value, with the values of names in a mapping.

    `form` is applied to partial derivatives, as in `ElementwiseText.formed`. The mapping gets the
    values of the steps that they read.
    """
    steps, made = _compiled(declaration, wanted, form)
    with silence():
        exec(steps, _NAMES, values)  # the texts are the table's
        return eval(made, _NAMES, values)


def tensor_at(number: int, array=None, value: float = 0.0):
    """A tensor on a recorded row: its scalar, or a view of its buffer."""
    chunk = int(store.table[number >> layout.ROWS_BITS])
    if array is None:
        return rt.scalar_at(value, number, chunk)
    return rt.attach(rt.wrap(array), number, chunk)


def placed(memory: np.ndarray, base: np.ndarray, view: np.ndarray, *lead: int) -> np.ndarray:
    """The part of `memory` that `view` is of `base`.

    `memory` has the layout of `base`, `lead` times consecutively if that is given; then the result
    has that axis first.
    """
    low, high = bounds(base)
    alike = memory.flags.c_contiguous or (not lead and memory.strides == base.strides)
    fits = alike and memory.dtype == base.dtype == view.dtype
    if not fits or (base.size and memory.nbytes != math.prod(lead) * (high - low)):
        raise AssertionError("memory that is not laid out as the buffer whose view is wanted")
    shape = (*lead, *view.shape)
    if not view.size:
        return np.ndarray(shape, memory.dtype, covering(memory))
    offset = view.__array_interface__["data"][0] - low
    strides = (*[high - low for _ in lead], *view.strides)
    return np.ndarray(shape, memory.dtype, covering(memory), offset, strides)


class Traversal:
    """Rows, by number, with the arrays and operands that they have."""

    def __init__(self, stops):
        self.reader = Reader()
        self.stops = set(stops)

    def base(self, number: int):
        """The array of a row, None where its value is a scalar, such as that of a sum."""
        return self.reader.base(number)

    def shape(self, number: int) -> tuple[int, ...]:
        base = self.base(number)
        return () if base is None else base.shape

    def number(self, number: int) -> np.float64:
        """The value of a scalar row."""
        return np.float64(self.reader.row(number)["value"])

    def operation(self, number: int) -> tuple[str, Any]:
        """The name of a row's operation and its declaration, if it has one."""
        return name_of_row(self.reader, number), operation_of(int(self.reader.row(number)["op"]))

    def read(self, number: int) -> list:
        """Operands of a row, then its output, as (row, what).

        A view of the row's array, or None for a scalar row; the row of a constant is −1.
        """
        row = self.reader.row(number)
        op = abs(int(row["op"]))  # another thread's pass may use it up meanwhile
        if op > layout.ARRAY:
            return [self.referred(*reference) for reference in self.reader.references(number)]
        if op == layout.LOAD:
            return [self._cell(row), (number, None)]
        if op == layout.STORE:
            return [self._cell(row), (-1, np.float64(row["value"])), self._stored(int(row["c"]))]
        kind = op & 3
        operands: list = [(int(row["a"]), None)]
        if kind == layout.ROW_ROW and row["b"] >= 0:
            operands.append((int(row["b"]), None))
        elif kind == layout.ROW_CONSTANT:
            operands.append((-1, np.float64(constant_of(row))))
        elif kind == layout.CONSTANT_ROW:
            operands.insert(0, (-1, np.float64(constant_of(row))))
        return [*operands, (number, None)]

    def _cell(self, row) -> tuple[int, np.ndarray]:
        """The cell that a LOAD or STORE names."""
        source = int(row["a"])
        return source, cell_of(self.base(source), int(row["b"]))

    def _stored(self, source: int) -> tuple[int, Any]:
        """The value of a STORE."""
        if source < -1:
            raise RuntimeError(USED_UP)
        number = int(self.reader.row(source)["op"]) == layout.NUMBER
        return (-1, self.number(source)) if number else (source, None)

    @staticmethod
    def referred(what, source, tag):
        source, tag = int(source), int(tag)
        if source < -1:  # the value of a write, once a sweep has passed it
            raise UnknownError if source == layout.UNKNOWN else RuntimeError(USED_UP)
        if tag == layout.TAG_ARRAY:
            return source, array_at(int(what))
        if tag == layout.TAG_SCALAR:
            return source, None
        if tag == layout.TAG_CONSTANT:
            return -1, np.int64(what).view(np.float64)
        if tag == layout.TAG_OBJECT:
            return -1, object_at(int(what))
        return -1, int(what)

    def tensor(self, source: int, what):
        """A result of `read` as a tensor on its row; constants unchanged."""
        if source < 0:
            return what
        return tensor_at(source, what, 0.0 if what is not None else float(self.number(source)))

    def value(self, number: int, source: int, what):
        """The operand that a row has read from another, as a tensor."""
        return self.tensor(source, what)

    def operands(self, number: int) -> list:
        """Operands and output of a row as (row, tensor), (−1, constant) for what has none."""
        return [(source, self.tensor(source, what)) for source, what in self.read(number)]

    def output(self, number: int):
        """The value of a row as a tensor on it."""
        return self.tensor(number, self.base(number))
