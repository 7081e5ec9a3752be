"""Whether iterations of a recorded loop have equal operands; constants may differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen import layout
from ..._core.codegen.layout import ARRAY, FIRST_CODE, LOAD, NUMBER, ROW_ROW, STORE
from ..._core.ops.table import TABLE, find
from ..._core.tape.memory_order import memory_of
from ..._core.tape.row_reader import object_at
from .row_columns import RowColumns

#: The most elements of an array that differs from iteration to iteration: more stay where they are.
LARGE = 1 << 14
_WRITES = [TABLE[name].code for name in ("write", "scatter")]
_LINK = TABLE["link"].code
#: The two parts of a choice, which is read as one operation.
_PARTS = [find(name).code for name in ("keep_where", "drop_where")]


class Values(NamedTuple):
    """What the array of a row was: one that it was `given`, and one that it `made` before later
    writes."""

    given: Callable[[int, np.ndarray], np.ndarray]
    made: Callable[[int, np.ndarray], np.ndarray]


class Constant(NamedTuple):
    """A constant of each iteration: the number of its row, and of the reference of that, its shape.

    The reference is −1 for the constant of an operation on numbers.
    """

    row: int
    reference: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Constants:
    """Constants of iterations: those that differ, by iteration, and those that are equal."""

    def __init__(self) -> None:
        self.varying: dict[Constant, list[Any]] = {}
        self.equal: dict[Constant, np.ndarray] = {}


class EqualOperands:
    """The operands of the rows of a loop; each has `each` references in an iteration."""

    def __init__(self, columns: RowColumns, loop: Any):
        self.columns, self.loop = columns, loop
        self.of, self.table, self.objects = columns.references(loop.start, loop.stop)
        self.each = len(self.table) // loop.count

    def ids(self) -> np.ndarray:
        """The rows that are read, by iteration; −1 for none."""
        found = [self._grid(column) for column in self.columns.operands()]
        return np.concatenate([*found, self._by_iteration(self.table["id"].astype(np.int64))], 1)

    def leave(self, count: int) -> None:
        """Leave first iterations, of which only the memory of their results is needed."""
        where = [0 if one is None else memory_of(one) for one in self.objects]
        self.where = np.array(where, np.int64)
        self.is_last = np.append(self.of[1:] != self.of[:-1], np.ones(min(len(self.of), 1), bool))
        self.results = np.zeros(len(self.columns.places), np.int64)
        self.results[self.of[self.is_last]] = self.where[self.is_last]
        left = slice(count * self.each, None)
        self.of, self.table, self.objects = self.of[left], self.table[left], self.objects[left]
        self.where, self.is_last = self.where[left], self.is_last[left]

    def _grid(self, column: np.ndarray) -> np.ndarray:
        """A column of all rows by iteration."""
        loop = self.loop
        return column[loop.start : loop.stop].reshape(loop.count, loop.length)

    def _by_iteration(self, column: np.ndarray) -> np.ndarray:
        """A column of references by iteration."""
        return column.reshape(self.loop.count, self.each)

    def are_equal(self, values: Values, dtype: np.dtype) -> bool:
        """Whether the operands are equal but for constants, which are found."""
        self.values, self.dtype = values, dtype
        return self._numbers_are() and self._references_are()

    # --- rows of numbers ----------------------------------------------------------------------

    def _numbers_are(self) -> bool:
        columns, loop = self.columns, self.loop
        own = slice(loop.start, loop.start + loop.length)
        op, is_array = columns.op[own], columns.is_array[own]
        b, c = (self._grid(columns.table[name]) for name in "bc")
        cells = (op == LOAD) | (op == STORE)
        if (b[:, cells] != b[0, cells]).any():
            return False
        # the constant of an operation lies in b and c, a number that is written in its value
        constant = ~is_array & (op >= 4 * FIRST_CODE) & (op & 3 != ROW_ROW)
        bits = np.stack([b, c], 2).view(np.int64)[:, :, 0]
        value = self._grid(columns.table["value"]).view(np.int64)
        bits = np.where(op == NUMBER, value, np.where(constant, bits, 0))
        differ = np.flatnonzero((bits != bits[0]).any(0))
        if np.isin((op[differ] >> 2) - 1, _PARTS).any():
            return False
        for row in differ.tolist():
            found = bits[:, row].copy().view(np.float64).tolist()
            self.loop.constants.varying[Constant(row, -1, ())] = found
        return True

    # --- rows of arrays -----------------------------------------------------------------------

    def _references_are(self) -> bool:
        table, by = self.table, self._by_iteration
        forms: dict[Any, int] = {}
        form = np.array(
            [
                -1 if x is None else forms.setdefault((x.shape, x.strides, x.dtype), len(forms))
                for x in self.objects
            ],
            np.int64,
        )
        for column in (table["tag"], form):
            grid = by(column)
            if (grid != grid[0]).any():
                return False
        self.tag, self.what = by(table["tag"])[0].tolist(), by(table["what"])
        self.is_row = (by(table["id"])[0] >= 0).tolist()
        targets = self.columns.targets(table["id"].astype(np.int64))
        away = by(self.where - np.where(targets >= 0, self.results[targets], 0))
        self.at, self.own = by(self.where), by(self._own())
        self.same = (away == away[0]).all(0).tolist()
        return all(map(self._is_equal, range(self.each))) and self._are_left_equal()

    def _is_equal(self, j: int) -> bool:
        """Whether reference j of an iteration is equal in all, or a constant that may differ."""
        tag = self.tag[j]
        is_same = bool((self.what[:, j] == self.what[0, j]).all())
        if self.is_row[j] and tag == layout.TAG_ARRAY:
            is_constant = self.columns.op[self.of[j]] == layout.CONSTANT
            return self.same[j] and (not is_constant or self._is_found(j))
        if self.is_row[j] and tag == layout.TAG_SCALAR:
            return True
        if tag == layout.TAG_CONSTANT:
            return is_same or self._differs(j, self.what[:, j].copy().view(np.float64).tolist())
        if tag == layout.TAG_OBJECT:
            return is_same or _say_the_same(self.what[:, j].tolist())
        if tag != layout.TAG_ARRAY or is_same:
            return is_same
        if self._is_kept(j):
            return True
        if (self.own[:, j] >= 0).any():
            return bool((self.own[:, j] == self.own[0, j]).all())
        return bool((self.at[:, j] == self.at[0, j]).all()) or self._is_found(j)

    def _place(self, j: int) -> Constant:
        """Where a reference is in an iteration."""
        of, one = self.of[: self.each], self.objects[j]
        shape = () if one is None else one.shape
        number = j - int(np.searchsorted(of, of[j]))
        return Constant(int(of[j]) - self.loop.start, number, shape)

    def _is_kept(self, j: int) -> bool:
        """Whether it names the old values of what a row writes, which no program reads."""
        return self.columns.op[self.of[j]] - ARRAY in _WRITES and self._place(j).reference == 1

    def _own(self) -> np.ndarray:
        """The distance of each array from the result of its row; −1 if it lies elsewhere."""
        at = np.flatnonzero(self.is_last)
        number = np.searchsorted(at, np.arange(len(self.of)))
        results = [self.objects[k] for k in at.tolist()]
        sizes = np.array([0 if one is None else one.nbytes for one in results], np.int64)
        away = self.where - self.where[at][number]
        return np.where((away >= 0) & (away < sizes[number]), away, -1)

    def _is_found(self, j: int) -> bool:
        """Whether constants at a place may differ; they are noted."""
        rows = self._by_iteration(self.of)[:, j].tolist()
        arrays = [
            self.values.given(self.columns.number(row), one)
            for row, one in zip(rows, self.objects[j :: self.each], strict=True)
        ]
        if _are_same(arrays):
            self.loop.constants.equal[self._place(j)] = arrays[0]
            return True
        kind = arrays[0].dtype.kind
        is_known = kind == "b" or (kind == "f" and arrays[0].dtype == self.dtype)
        return is_known and arrays[0].size < LARGE and self._differs(j, arrays)

    def _differs(self, j: int, found: list) -> bool:
        self.loop.constants.varying[self._place(j)] = found
        return True

    def _are_left_equal(self) -> bool:
        """Whether what joins leave of their results is the same: they are constants."""
        for j in range(0, self.each):
            is_link = self.columns.op[self.of[j]] == ARRAY + _LINK
            if is_link and self.is_last[j] and not self._is_left_equal(j):
                return False
        return True

    def _is_left_equal(self, j: int) -> bool:
        first = int(np.searchsorted(self.of[: self.each], self.of[j]))
        shown, out = self.objects[first + 1 : j : 2], self.objects[j]
        if sum([one.size for one in shown]) >= out.size:
            return True
        left = np.ones(out.size, bool)
        for one in shown:
            steps = [step // out.itemsize for step in one.strides]
            offset = (memory_of(one) - memory_of(out)) // out.itemsize
            np.ndarray(one.shape, bool, left, offset, steps)[...] = False
        rows = self._by_iteration(self.of)[:, j].tolist()
        values = [
            self.values.made(self.columns.number(row), one).ravel()[left]
            for row, one in zip(rows, self.objects[j :: self.each], strict=True)
        ]
        return _are_same(values)


def _are_same(arrays: list[np.ndarray]) -> bool:
    """Whether arrays have the same bits."""
    first = arrays[0].tobytes()
    return all([one.tobytes() == first for one in arrays[:0:-1]])


def _is_plain(x: Any) -> bool:
    """Whether a text of an object says everything about it."""
    if isinstance(x, (tuple, list)):
        return all(map(_is_plain, x))
    if isinstance(x, dict):
        return all(_is_plain(one) for pair in x.items() for one in pair)
    return x is None or type(x) in (bool, int, float, complex, str)


def _say_the_same(addresses: list[int]) -> bool:
    """Whether objects are equal that describe an operation."""
    objects = [object_at(address) for address in set(addresses)]
    return all(map(_is_plain, objects)) and len(set(map(repr, objects))) == 1
