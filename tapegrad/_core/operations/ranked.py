"""Positions of elements by rank, as a stable sort has them; of long vectors without one."""

from __future__ import annotations

import numpy as np

#: Shorter vectors are sorted, and so are all for many ranks.
LONG, MANY = 512, 24


def at_ranks(values: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """The positions of the elements of a vector that a stable ascending sort puts at some ranks.

    NaN is last. The result has the shape of the ranks.
    """
    wanted = np.unique(ranks)
    if values.size < LONG or wanted.size > MANY:
        return np.argsort(values, kind="stable")[ranks]
    parted = np.partition(values, wanted)
    found = np.array([_position(values, parted[rank], rank) for rank in wanted.tolist()], np.int64)
    return found[np.searchsorted(wanted, ranks)]


def _position(values, value, rank):
    """The element at a rank among those equal to a value: equal ones keep their order."""
    if np.isnan(value):
        same = np.isnan(values)
        before = values.size - np.count_nonzero(same)
    else:
        same, before = values == value, np.count_nonzero(values < value)
    return np.flatnonzero(same)[rank - before]
