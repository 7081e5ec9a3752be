"""Products and sums of few elements, written as operations on numbers: a step costs more."""

from __future__ import annotations

import math

import numpy as np

from ..ops.table import TABLE
from .targets import Target
from .writer import Writer

_ADD, _MULTIPLY = TABLE["add"].code, TABLE["multiply"].code
#: The most products of numbers in a product of matrices.
PRODUCTS = 16
#: The most elements that are added to others, and the most to one: NumPy adds so few in turn.
ADDED, TERMS = 16, 7


def are_few_products(left: np.ndarray, whole: np.ndarray, inner: int) -> bool:
    """Whether a contraction, as the operation `contract` has it, is small."""
    k = math.prod(left.shape[left.ndim - inner :])
    return 0 < whole.size * k <= PRODUCTS


def products(writer: Writer, a: np.ndarray, b: np.ndarray, batch: int, inner: int) -> np.ndarray:
    """The slots of the contraction of two arrays of slots: (batch, rows, columns)."""
    many, k = math.prod(a.shape[:batch]), math.prod(a.shape[a.ndim - inner :])
    a, b = a.reshape(many, -1, k), b.reshape(many, k, -1)
    made = np.empty((many, a.shape[1], b.shape[2]), np.int64)
    for n, i, j in np.ndindex(*made.shape):
        pairs = zip(a[n, i].tolist(), b[n, :, j].tolist(), strict=True)
        terms = [writer.emit(_MULTIPLY, x, y) for x, y in pairs]
        made[n, i, j] = added(writer, terms)
    return made


def added(writer: Writer, slots: list[int]) -> int:
    """The slot of the sum of some numbers, added in turn."""
    total = slots[0]
    for slot in slots[1:]:
        total = writer.emit(_ADD, total, slot)
    return total


def sums(writer: Writer, target: Target, pairs: list) -> np.ndarray | None:
    """The slots of sums, from pairs of a source and the view of the output that it is added to.

    None where they are not few; `pairs` name the source as a reference of a row.
    """
    if sum(shown.size for _, shown in pairs) > ADDED:
        return None
    places = np.arange(target.out.size)
    terms: list[list[int]] = [[] for _ in range(target.out.size)]
    for source, shown in pairs:
        slots = np.broadcast_to(writer.slots_of(source), shown.shape)
        at = target.part(places, shown)
        for place, slot in zip(at.ravel().tolist(), slots.ravel().tolist(), strict=True):
            terms[place].append(slot)
    if max(map(len, terms), default=0) > TERMS:
        return None
    made = [added(writer, one) if one else writer.rows.constant(0.0) for one in terms]
    return np.array(made, np.int64).reshape(target.out.shape)
