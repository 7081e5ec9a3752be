"""Contractions and sums written as operations on numbers, for arrays of slots.

`apply(code, *slots)` writes an operation for each element of arrays of slots of one shape, and
returns the slots of the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..._core.ops.table import TABLE

_ADD, _MULTIPLY = TABLE["add"].code, TABLE["multiply"].code
Apply = Callable[..., np.ndarray]


def contracted(apply: Apply, a: np.ndarray, b: np.ndarray, batch: int, inner: int) -> np.ndarray:
    """The contraction, as the operation `contract` has it: (batch, rows, columns)."""
    many, k = math.prod(a.shape[:batch]), math.prod(a.shape[a.ndim - inner :])
    a, b = a.reshape(many, -1, k), b.reshape(many, k, -1)
    total = np.empty(0, np.int64)
    for p in range(k):
        product = apply(_MULTIPLY, *np.broadcast_arrays(a[:, :, p, None], b[:, p, None, :]))
        total = apply(_ADD, total, product) if p else product
    return total


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
