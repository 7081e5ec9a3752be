"""Products of splines of one variable: for each point the coefficients around it, times weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.interpolation import intervals
from .._core.tensor.trace import steered
from .._core.tensor.values import shape_of
from ._basis_splines import local_basis
from ._piecewise import evaluated


def _around(*both, degrees, sizes) -> np.ndarray:
    """For each point the numbers of the coefficients around it, knots and points being given."""
    found = np.zeros((len(both[0]), 1), np.intp)
    count = len(degrees)
    for points, t, k, n in zip(both[:count], both[count:], degrees, sizes, strict=True):
        place = np.maximum(intervals(t[k : n + 1], points, True), 0)
        found = found[..., None] * n + (place[:, None] + np.arange(k + 1))[:, None]
        found = found.reshape(len(points), math.prod(found.shape[1:]))
    return found


def product_at(knots, c, degrees, points, orders):
    """Products of splines at points (count, variables), with coefficients (…, others)."""
    sizes = shape_of(c)[: len(knots)]
    columns = [points[:, d] for d in range(len(knots))]
    around = steered(_around, *columns, *knots, degrees=tuple(degrees), sizes=tuple(sizes))
    count = shape_of(points)[0]
    weights: Any = np.ones((count, 1))
    for t, k, x, n, nu in zip(knots, degrees, columns, sizes, orders, strict=True):
        own = evaluated(local_basis(t, k), t[k : n + 1], x, int(nu), True)
        weights = PUBLIC["reshape"](
            weights[:, :, None] * own[:, None, :], (count, shape_of(weights)[1] * (k + 1))
        )
    rows = PUBLIC["reshape"](c, (math.prod(sizes), math.prod(shape_of(c)[len(knots) :])))
    return PUBLIC["sum"](PUBLIC["take"](rows, around, axis=0) * weights[:, :, None], axis=1)
