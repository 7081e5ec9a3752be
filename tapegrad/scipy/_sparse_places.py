"""Where the stored numbers of sparse matrices are, and functions of SciPy that only move them.

Such a function is called with matrices that hold, instead of numbers, the positions of the numbers,
counted from 1: what it returns says where each number goes.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.declaring import Own
from .._core.operations.sparse_products import sparse_product
from .._core.remembered import remembered
from .._core.tensor.values import dtype_of, shape_of


def in_sparse(name: str):
    return getattr(importlib.import_module("scipy.sparse"), name)


def owned(array, dtype: Any = np.float64) -> Own:
    """A copy of an array as an operand that is not copied again."""
    return np.array(array, dtype, order="C").view(Own)


class StoredPlaces:
    """Where stored numbers are: row by row, as in SciPy's format csr. They never change."""

    def __init__(self, shape, indices, indptr):
        self.shape = tuple(map(int, shape))
        self.indices, self.indptr = indices.view(), indptr.view()
        for one in (self.indices, self.indptr):  # other matrices may have the same places
            one.flags.writeable = False
        self.count = len(indices)

    @classmethod
    def of(cls, matrix) -> StoredPlaces:
        """Those of a matrix of SciPy's in format csr, which may be changed later."""
        return cls(matrix.shape, matrix.indices.copy(), matrix.indptr.copy())

    @remembered
    def operands(self) -> tuple[Own, Own]:
        """The row and the column of each number, as operands of `sparse_products`."""
        return owned(self.rows), owned(self.indices)

    @remembered
    def rows(self) -> np.ndarray:
        """The row of each number."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @remembered
    def is_canonical(self) -> bool:
        """Whether the numbers are in order, and no two of them in one place."""
        keys = self.rows.astype(np.int64) * self.shape[1] + self.indices
        return bool((np.diff(keys) > 0).all())

    def positions(self, kind: str = "csr_array"):
        """The matrix of positions of the numbers, from 1 on, of one of SciPy's classes."""
        places = (np.arange(1, self.count + 1), self.indices.copy(), self.indptr.copy())
        return in_sparse(f"csr_{kind[4:]}")(places, shape=self.shape).asformat(kind[:3])


def taking(positions: np.ndarray, count: int):
    """What takes numbers at positions, which count from 1, of `count`; 0 where a position is 0."""
    positions = np.asarray(positions, np.intp)
    if not count:
        return lambda numbers: np.zeros(positions.shape, dtype_of(numbers))
    if positions.size == count and positions.ndim == 1 and positions[0] == 1:
        if (np.diff(positions) == 1).all():
            return lambda numbers: numbers
    if positions.all():
        places = positions - 1
        return lambda numbers: numbers[places]
    places, is_one = np.maximum(positions - 1, 0), positions > 0
    return lambda numbers: PUBLIC["where"](is_one, numbers[places], 0.0)


def taken(numbers, positions):
    """The numbers at positions, which count from 1; 0 where a position is 0."""
    return taking(positions, shape_of(numbers)[0])(numbers)


def merging(rows: np.ndarray, columns: np.ndarray, shape):
    """Places in order for numbers at any places; what brings numbers there, and adds equal ones."""
    rows, columns = np.asarray(rows, np.intp), np.asarray(columns, np.intp)
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (np.diff(rows) != 0) | (np.diff(columns) != 0)
    first = np.flatnonzero(is_new)
    indptr = np.searchsorted(rows[first], np.arange(shape[0] + 1))
    places = StoredPlaces(shape, columns[first], indptr)
    if len(first) == len(rows):
        return taking(order + 1, len(rows)), places
    operands = owned(np.ones(len(rows))), owned(np.cumsum(is_new) - 1), owned(order)

    def merge(numbers):
        wide = PUBLIC["reshape"](numbers, (-1, 1))
        made = sparse_product(*operands, wide, count=len(first))
        return PUBLIC["reshape"](made, (-1,))

    return merge, places


def summed(numbers, rows: np.ndarray, columns: np.ndarray, shape):
    """Numbers at any places as those of places in order: such with equal places are added."""
    merge, places = merging(rows, columns, shape)
    return merge(numbers), places


class RecentPatterns:
    """What was made for the last index arrays: these are compared, since anyone may write them."""

    def __init__(self, most: int = 4):
        self._most = most
        self._held: list[tuple] = []

    def of(self, key, arrays, make):
        """What `make()` returned for an equal key and equal arrays."""
        for held, copies, found in self._held:
            if held == key and all(map(np.array_equal, copies, arrays)):
                return found
        made = make()
        copies = [x.copy() for x in arrays]
        self._held = [(key, copies, made), *self._held[: self._most - 1]]
        return made
