"""Dynamic time warping and its gradient as one would write them by hand in Numba: the limit."""

import numba
import numpy as np


@numba.njit
def value_and_gradient(a, b, x, y):
    """Return the cost of `branching.tables.dtw`, and its derivatives by a and b."""
    n, m = len(x), len(y)
    cost = np.full((n + 1, m + 1), 1e30)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = (x[i - 1] - a * y[j - 1] - b) ** 2
            cost[i, j] = d + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    i, j, by_a, by_b = n, m, 0.0, 0.0
    while i > 0 and j > 0:
        partial = -2 * (x[i - 1] - a * y[j - 1] - b)
        by_a, by_b = by_a + partial * y[j - 1], by_b + partial
        up, left, corner = cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1]
        if up <= left and up <= corner:
            i -= 1
        elif left <= corner:
            j -= 1
        else:
            i, j = i - 1, j - 1
    return cost[n, m], (by_a, by_b)
