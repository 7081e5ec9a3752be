"""Equations, inverses, determinants and factors of small matrices as operations on numbers.

Functions get `numbers`, which writes operations for arrays of slots: `apply(code, *slots)`,
`constant(value)`, `refuse(op, slots)` for an operation of programs that may refuse the values in
these slots, and `known`, the operations written already. Rows are exchanged as in LAPACK, by
choices: the largest element below the diagonal decides.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from .table import PASSED, STEERING, TABLE

#: The most rows of a matrix that is written out.
MOST = 4


class PivotedFactors(NamedTuple):
    """Factors of a matrix with its rows exchanged: slots, and (row, row, whether exchanged)."""

    lu: np.ndarray
    exchanges: list[tuple[int, int, int]]


def is_small(*shapes) -> bool:
    """Whether the first shape is that of one small matrix, and the others are as small."""
    first = shapes[0]
    rows = first[0] if first else 0
    few = all(len(shape) <= 2 and math.prod(shape) <= MOST * (MOST + 1) for shape in shapes)
    return len(first) == 2 and 0 < rows <= MOST and few


def products(_out, _static, a, *others) -> int:
    """About how many products are added; 0 where a matrix is not written out."""
    return math.prod(a) * max(map(math.prod, others), default=1) if is_small(a, *others) else 0


def _names(*names: str) -> list[int]:
    return [(TABLE.get(name) or STEERING[name]).code for name in names]


def _chosen(numbers, where: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    (code,) = _names("where")
    return numbers.apply(code, np.full(x.shape, where), x, y)


def _exchanged(numbers, rows: np.ndarray, exchanges) -> np.ndarray:
    rows = rows.copy()
    for k, r, where in exchanges:
        rows[k], rows[r] = (
            _chosen(numbers, where, rows[r], rows[k]),
            _chosen(numbers, where, rows[k], rows[r]),
        )
    return rows


def _less(numbers, x: np.ndarray, factor: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x − factor y, broadcast."""
    subtract, multiply = _names("subtract", "multiply")
    factor, y = np.broadcast_arrays(factor, y)
    return numbers.apply(subtract, x, numbers.apply(multiply, factor, y))


def _over(numbers, x: np.ndarray, y) -> np.ndarray:
    (divide,) = _names("divide")
    return numbers.apply(divide, x, np.broadcast_to(y, x.shape))


def factored(numbers, a: np.ndarray) -> PivotedFactors:
    """Gaussian elimination; the same matrix is factored once."""
    key = "factors", a.shape, a.tobytes()
    if key in numbers.known:
        return numbers.known[key]
    n, lu, exchanges = len(a), a.copy(), []
    absolute, greater = _names("absolute", "greater")
    for k in range(n):
        for r in range(k + 1, n):
            sizes = numbers.apply(absolute, lu[[r, k], k])
            where = int(numbers.apply(greater, sizes[:1], sizes[1:])[0])
            lu = _exchanged(numbers, lu, [(k, r, where)])
            exchanges.append((k, r, where))
        if k + 1 < n:
            below = lu[k + 1 :, k] = _over(numbers, lu[k + 1 :, k], lu[k, k])
            rest = lu[k + 1 :, k + 1 :]
            lu[k + 1 :, k + 1 :] = _less(numbers, rest, below[:, None], lu[None, k, k + 1 :])
    numbers.known[key] = PivotedFactors(lu, exchanges)
    return numbers.known[key]


def _regular(numbers, a: np.ndarray) -> PivotedFactors:
    found = factored(numbers, a)
    numbers.refuse(PASSED["check_regular"], np.diagonal(found.lu))
    return found


def solved(numbers, static, a, b, _lu):
    """The solution of equations with a matrix, or its transpose."""
    lu, exchanges = _regular(numbers, a)
    n, x = len(lu), b.reshape(len(b), -1).copy()
    order, turned = range(n), dict(static).get("transposed", 0)
    if not turned:
        x = _exchanged(numbers, x, exchanges)
        for i in order:
            for j in range(i):
                x[i] = _less(numbers, x[i], lu[i, j], x[j])
        for i in order[::-1]:
            for j in range(i + 1, n):
                x[i] = _less(numbers, x[i], lu[i, j], x[j])
            x[i] = _over(numbers, x[i], lu[i, i])
        return x.reshape(b.shape)
    for i in order:
        for j in range(i):
            x[i] = _less(numbers, x[i], lu[j, i], x[j])
        x[i] = _over(numbers, x[i], lu[i, i])
    for i in order[::-1]:
        for j in range(i + 1, n):
            x[i] = _less(numbers, x[i], lu[j, i], x[j])
    return _exchanged(numbers, x, exchanges[::-1]).reshape(b.shape)


def inverted(numbers, _static, a, _lu):
    """The inverse: that of the upper factor, then equations with the lower one."""
    lu, exchanges = _regular(numbers, a)
    n, one = len(lu), np.full((1,), numbers.constant(1.0))
    (multiply, negative) = _names("multiply", "negative")
    zero = numbers.constant(0.0)
    x = np.full((n, n), zero)
    for j in range(n):
        x[j, j] = _over(numbers, one, lu[j, j])[0]
        for i in range(j - 1, -1, -1):  # x[i, j] = −Σ u[i, k] x[k, j] / u[i, i]
            total = None
            for k in range(i + 1, j + 1):
                pair = lu[i, k].reshape(1), x[k, j].reshape(1)
                total = _plus(numbers, total, numbers.apply(multiply, *pair))
            x[i, j] = _over(numbers, numbers.apply(negative, total), lu[i, i])[0]
    for j in range(n - 2, -1, -1):
        for k in range(j + 1, n):
            x[:, j] = _less(numbers, x[:, j], lu[k, j], x[:, k])
    return _exchanged(numbers, x.T, exchanges[::-1]).T


def _symmetric(numbers, a: np.ndarray, i: int, j: int) -> np.ndarray:
    """An element of a matrix taken for symmetric: half the derivative is to the other one."""
    x = a[i, j].reshape(1)
    if i == j:
        return x
    add, subtract, detached = _names("add", "subtract", "detached")
    kept, other = numbers.apply(detached, x), a[j, i].reshape(1)
    moved = numbers.apply(subtract, x, kept)
    moved = _plus(numbers, moved, numbers.apply(subtract, other, numbers.apply(detached, other)))
    one = np.full(1, numbers.constant(1.0))
    return numbers.apply(add, kept, _over(numbers, moved, numbers.apply(add, one, one)))


def cholesky(numbers, static, a):
    """The triangular factor of a positive definite matrix."""
    upper, n = dict(static).get("upper", False), len(a)
    (root,) = _names("sqrt")
    factor, pivots = np.full((n, n), numbers.constant(0.0)), []
    for j in range(n):
        for i in range(j, n):
            x = _symmetric(numbers, a, j, i) if upper else _symmetric(numbers, a, i, j)
            for k in range(j):
                x = _less(numbers, x, factor[i, k], factor[j, k].reshape(1))
            pivots += [int(x[0])] if i == j else []
            x = numbers.apply(root, x) if i == j else _over(numbers, x, factor[j, j])
            factor[i, j] = x[0]
    numbers.refuse(PASSED["check_definite"], np.array(pivots))
    return factor.T if upper else factor


def solved_triangular(numbers, static, a, b):
    """The solution of equations with a triangular matrix, or its transpose."""
    given = dict(static)
    turned, lower = bool(given.get("trans", 0)), bool(given.get("lower", False))
    n, x, matrix = len(a), b.reshape(len(b), -1).copy(), a.T if turned else a
    forward, unit = lower != turned, given.get("unit_diagonal", False)
    for i in range(n) if forward else range(n)[::-1]:
        for j in range(i) if forward else range(i + 1, n):
            x[i] = _less(numbers, x[i], matrix[i, j], x[j])
        if not unit:
            x[i] = _over(numbers, x[i], matrix[i, i])
    if not unit:
        numbers.refuse(PASSED["check_regular"], np.diagonal(matrix))
    return x.reshape(b.shape)


def _plus(numbers, total, x):
    (add,) = _names("add")
    return x if total is None else numbers.apply(add, total, x)


def determinant(numbers, _static, a, _lu):
    """The determinant by minors of the last rows, whose derivative needs no inverse."""
    multiply, negative = _names("multiply", "negative")
    n = len(a)
    minors = {(j,): a[n - 1, j].reshape(1) for j in range(n)}
    for i in range(n - 2, -1, -1):
        found = {}
        for columns in itertools.combinations(range(n), n - i):
            total = None
            for place, j in enumerate(columns):
                rest = minors[(*columns[:place], *columns[place + 1 :])]
                part = numbers.apply(multiply, a[i, j].reshape(1), rest)
                if place % 2:
                    part = numbers.apply(negative, part)
                total = _plus(numbers, total, part)
            found[columns] = total
        minors = found
    return minors[tuple(range(n))].reshape(())
