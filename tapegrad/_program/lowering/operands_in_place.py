"""Arrays from outside that a program reads where they lie, as operands of recorded operations."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..._core.tape.memory_order import memory_of
from ..ir.steps import View
from .tape_rows import Reference, Unsupported

#: Why an array is not read where it lies.
_READ_OTHERWISE = "an array from outside is read by something else than the steps of a program"


class Outside(Protocol):
    """The arrays in C order, `roots`, in whose memory operands may lie.

    Operands may also be what is `derived` from such memory: `function` of `operands`, which have
    `value`. None of these lies in the memory of `others`, which may hold equal numbers.
    """

    roots: Sequence[np.ndarray]
    derived: Sequence[Any]
    others: Sequence[np.ndarray]


class _None:
    roots: Sequence[np.ndarray] = ()
    derived: Sequence[Any] = ()
    others: Sequence[np.ndarray] = ()


#: Nothing is read outside.
NONE = _None()


class OperandsInPlace:
    """What rows read `outside`, and where it begins.

    `copies` are constants of rows that are copies, and what they are copies of, by id. `rows` are
    the numbers of operations by root, and by what is derived from −1 down: each takes its operand
    here.
    """

    def __init__(self, outside: Outside = NONE, copies: Mapping[int, tuple] | None = None):
        self.roots, self._outside, self._copies = outside.roots, outside, copies or {}
        self.views: list[View] = []  # of the roots
        self.rows: collections.Counter[int] = collections.Counter()
        self._taken: set[int] = set()
        self._derived: dict[int, tuple[np.ndarray, int | None]] = {}  # by id

    def _original(self, array: np.ndarray) -> np.ndarray:
        """The array of which an operand of a row is a copy, or itself."""
        return self._copies.get(id(array), (None, array))[1]

    def _root(self, array: np.ndarray) -> int | None:
        """The root in whose memory an operand of a row lies."""
        original = self._original(array)
        for k, root in enumerate(self.roots):
            if np.may_share_memory(root, original):
                return k
        return None

    def view_of(self, array: np.ndarray) -> View | None:
        """The view that an operand of a row is; None for others."""
        k = self._root(array)
        if k is None:
            return None
        self._taken.add(id(array))
        return self._view_in(k, self._original(array))

    def _view_in(self, k: int, array: np.ndarray) -> View:
        """An array in the memory of a root."""
        root, whole, item = self.roots[k], self.views[k], array.itemsize
        far = memory_of(array) - memory_of(root)
        if array.dtype != root.dtype or any([step % item for step in (far, *array.strides)]):
            raise Unsupported(_READ_OTHERWISE)
        strides = tuple([step // item for step in array.strides])
        view = View(whole.offset + far // item, array.shape, strides)
        low, high = whole.extent
        if not low <= view.extent[0] <= view.extent[1] <= high:
            raise Unsupported(_READ_OTHERWISE)
        return view

    def derived_of(self, array: np.ndarray) -> tuple[str, list[View | float]] | None:
        """The operation that gives an operand of a row, and its operands; None for others."""
        k = self._number(array)
        if k is None:
            return None
        self._taken.add(id(array))
        form, operands = self._outside.derived[k], list[View | float]()
        for one in form.operands:
            is_array = isinstance(one.value, np.ndarray)
            root = self._root(one.value) if is_array else None
            if is_array and root is None:
                raise Unsupported(_READ_OTHERWISE)
            operands.append(float(one.value) if root is None else self._view_in(root, one.value))
        return form.function.__name__, operands

    def _number(self, array: np.ndarray) -> int | None:
        """The number of what is derived that an operand of a row is."""
        if id(array) not in self._derived:
            self._derived[id(array)] = array, self._equal(array)
        return self._derived[id(array)][1]

    def _equal(self, array: np.ndarray) -> int | None:
        """The number of what is derived and equal to an array that nothing else holds."""
        original = self._original(array)
        if any([np.may_share_memory(original, one) for one in self._outside.others]):
            return None
        for k, form in enumerate(self._outside.derived):
            if form.array.shape != array.shape or form.array.dtype != array.dtype:
                continue
            made = form.function(*[one.value for one in form.operands])
            is_like = (made.shape, made.dtype) == (array.shape, array.dtype)
            if is_like and made.tobytes() == array.tobytes():
                return k
        return None

    def count(self, references: Sequence[Reference]) -> None:
        """Note the operands of a row that has been written: each must have been taken."""
        read: set[int] = set()
        for one in references:
            if one.id >= 0 or not one.is_array or one.array is None:
                continue
            number = self._root(one.array)
            if number is None and (k := self._number(one.array)) is not None:
                number = -1 - k
            if number is None:
                continue
            if id(one.array) not in self._taken:
                raise Unsupported(_READ_OTHERWISE)
            read.add(number)
        self.rows.update(read)
