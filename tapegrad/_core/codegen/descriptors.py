"""Descriptors of memory that compiled helpers pass to each other: tuples of words.

Compiled code holds and passes the words one by one, so that a descriptor costs nothing. C functions
take them in the same way: see `shared_kernels`.
"""

from typing import Any, NamedTuple

from . import machine_types as types
from .intrinsics import helper


class Matrix(NamedTuple):
    """A matrix in memory: its address, its sizes, its strides in bytes."""

    data: int
    rows: int
    columns: int
    row_stride: int
    column_stride: int


class Line(NamedTuple):
    """Elements of an array along an axis: the first, their number, their distance in bytes."""

    data: int
    n: int
    step: int


class Strided(NamedTuple):
    """Strided memory: its address, the addresses of its strides in bytes and of its shape."""

    data: int
    strides: int
    shape: int
    ndim: int


class Triangle(NamedTuple):
    """How equations read a triangular matrix, each 0 or not.

    As its transpose; from the lower triangle; with ones on the diagonal.
    """

    trans: int
    lower: int
    unit: int


def words_of(kind: Any) -> Any:
    """The type in compiled code of a word, `int`, of a double, `float`, or of a descriptor."""
    if kind in (int, float):
        return types.int64 if kind is int else types.float64
    return kind(*[types.int64] * word_count(kind))


def word_count(kind: Any) -> int:
    """The number of words of a word, `int`, of a double, `float`, or of a descriptor."""
    return 1 if kind in (int, float) else len(kind._fields)


@helper
def row_major(data, rows, columns):
    """A matrix of doubles in C order."""
    return Matrix(data, rows, columns, 8 * columns, 8)


@helper
def turned(a):
    """The transpose of a matrix."""
    return Matrix(a.data, a.columns, a.rows, a.column_stride, a.row_stride)


@helper
def moved(a, offset):
    """A matrix like another one, some bytes on."""
    return Matrix(a.data + offset, a.rows, a.columns, a.row_stride, a.column_stride)


@helper
def part_of(a, row, column, rows, columns):
    """The part of a matrix of so many rows and columns that begins at a row and column."""
    data = a.data + row * a.row_stride + column * a.column_stride
    return Matrix(data, rows, columns, a.row_stride, a.column_stride)
