"""Sums written as operations on numbers, for arrays of slots.

`apply(code, *slots)` writes an operation for each element of arrays of slots of one shape, and
returns the slots of the results.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.ops.table import TABLE

_ADD = TABLE["add"].code
Apply = Callable[..., np.ndarray]


def summed(apply: Apply, targets: np.ndarray, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The targets, each once, and the sum of the sources at its places, added in their order."""
    order = np.argsort(targets, kind="stable")
    places, begins = np.unique(targets[order], return_index=True)
    sources, counts = sources[order], np.diff([*begins, len(order)])
    totals = sources[begins]
    for number in range(1, int(counts.max(initial=0))):
        more = counts > number
        totals[more] = apply(_ADD, totals[more], sources[begins[more] + number])
    return places, totals
