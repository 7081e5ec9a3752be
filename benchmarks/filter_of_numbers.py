"""The Kalman filter of `matrix_workloads`, written out in single numbers: no array is touched."""

import math

from benchmarks.matrix_workloads import FILTER_START, filter_data
from benchmarks.workload_definitions import Workload

ALL = range(4)


def times(a, b):
    """Return the product of two matrices, lists of rows."""
    return [[sum(row[k] * b[k][j] for k in ALL) for j in ALL] for row in a]


def applied(a, x):
    """Return the product of a matrix and a vector."""
    return [sum(row[k] * x[k] for k in ALL) for row in a]


def transposed(a):
    """Return the columns of a matrix."""
    return [list(column) for column in zip(*a, strict=True)]


def plus(a, b, sign=1.0):
    """Return the sum of two matrices, or their difference."""
    return [[x + sign * y for x, y in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)]


def scaled(a, number):
    """Return a matrix of floats times a number."""
    return [[x * number for x in row] for row in a]


def eliminated(a):
    """Return the factors of a matrix by Gauss's elimination without exchanges of rows."""
    a = [list(row) for row in a]
    for k in ALL:
        for i in range(k + 1, 4):
            a[i][k] = a[i][k] / a[k][k]
            for j in range(k + 1, 4):
                a[i][j] = a[i][j] - a[i][k] * a[k][j]
    return a


def solved(factors, b):
    """Return the solution of equations whose matrix was eliminated."""
    x = list(b)
    for i in ALL:
        for j in range(i):
            x[i] = x[i] - factors[i][j] * x[j]
    for i in reversed(ALL):
        for j in range(i + 1, 4):
            x[i] = x[i] - factors[i][j] * x[j]
        x[i] = x[i] / factors[i][i]
    return x


def kalman(steps, log=math.log):
    """The likelihood of the filter; one elimination of each matrix serves three purposes."""
    seen, step, observe, noise = (a.tolist() for a in filter_data(steps))
    one = [[float(i == j) for j in ALL] for i in ALL]

    def function(p):
        f, q, r = scaled(step, p[0]), scaled(noise, p[1]), scaled(one, p[2])
        x, spread, total = [0.0] * 4, one, 0.0
        for y in seen:
            x, spread = applied(f, x), plus(times(times(f, spread), transposed(f)), q)
            factors = eliminated(plus(times(times(observe, spread), transposed(observe)), r))
            e = [a - b for a, b in zip(y, applied(observe, x), strict=True)]
            inverse = transposed([solved(factors, row) for row in one])
            gain = times(times(spread, transposed(observe)), inverse)
            along = sum(a * b for a, b in zip(e, solved(factors, e), strict=True))
            determinant = factors[0][0] * factors[1][1] * factors[2][2] * factors[3][3]
            total = total - 0.5 * (along + log(determinant))
            x = [a + b for a, b in zip(x, applied(gain, e), strict=True)]
            spread = plus(spread, times(times(gain, observe), spread), -1.0)
        return total

    return Workload(function, (FILTER_START,))
