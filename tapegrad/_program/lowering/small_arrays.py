"""Products and sums of few elements, written as operations on numbers: a step costs more."""

from __future__ import annotations

import numpy as np

from ..ir.scalar_expansion import summed
from .builder import Writer

#: The most products of numbers in an operation that is written out as such.
PRODUCTS = 16
#: The most elements that are added to others, and the most to one: NumPy adds so few in turn.
ADDED, TERMS = 16, 7


def sums(writer: Writer, out: np.ndarray, pairs: list) -> np.ndarray | None:
    """The slots of sums, from pairs of a source and the view of `out` that it is added to.

    None where they are not few; `pairs` name the source as a reference of a row.
    """
    if sum(shown.size for _, shown in pairs) > ADDED:
        return None
    places = np.arange(out.size)
    targets = [shown.of(places).ravel() for _, shown in pairs]
    counts = np.bincount(np.concatenate([*targets, places[:0]]), minlength=len(places))
    if counts.max(initial=0) > TERMS:
        return None
    sources = [np.broadcast_to(writer.slots_of(x), shown.shape).ravel() for x, shown in pairs]
    flat = [np.concatenate([*slots, places[:0]]) for slots in (targets, sources)]
    found, totals = summed(writer.numbers.each, *flat)
    made = np.full(len(places), -1, np.int64)
    made[found] = totals
    if (made < 0).any():
        made[made < 0] = writer.rows.constant(0.0)
    return made.reshape(out.shape)
