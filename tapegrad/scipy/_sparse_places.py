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
        self.indices, self.indptr = indices, indptr
        self.count = len(indices)

    @classmethod
    def of(cls, matrix) -> StoredPlaces:
        """Those of a matrix of SciPy's in format csr, which may be changed later."""
        return cls(matrix.shape, matrix.indices.copy(), matrix.indptr.copy())

    @remembered
    def operands(self) -> tuple[Own, Own]:
        """The columns, and where rows start, as operands of `sparse_products`."""
        return owned(self.indices), owned(self.indptr)

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


def taken(numbers, positions: np.ndarray):
    """The numbers at positions, which count from 1; 0 where a position is 0."""
    count, positions = shape_of(numbers)[0], np.asarray(positions, np.intp)
    if not count:
        return np.zeros(positions.shape, dtype_of(numbers))
    if positions.size == count and positions.ndim == 1 and positions[0] == 1:
        if (np.diff(positions) == 1).all():
            return numbers
    if positions.all():
        return numbers[positions - 1]
    found = numbers[np.maximum(positions - 1, 0)]
    return PUBLIC["where"](positions > 0, found, 0.0)


def summed(numbers, rows: np.ndarray, columns: np.ndarray, shape):
    """Numbers at any places as those of places in order: such with equal places are added."""
    rows, columns = np.asarray(rows, np.intp), np.asarray(columns, np.intp)
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (np.diff(rows) != 0) | (np.diff(columns) != 0)
    first = np.flatnonzero(is_new)
    indptr = np.searchsorted(rows[first], np.arange(shape[0] + 1))
    places = StoredPlaces(shape, columns[first], indptr)
    if len(first) == len(rows):
        return taken(numbers, order + 1), places
    ends = owned([*first, len(rows)])
    ones = owned(np.ones(len(rows)))
    made = sparse_product(ones, owned(order), ends, PUBLIC["reshape"](numbers, (-1, 1)))
    return PUBLIC["reshape"](made, (-1,)), places
