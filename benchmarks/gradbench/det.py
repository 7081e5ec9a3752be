"""The determinant of a matrix, expanded by minors."""

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.timed import Timed


def minor(a, row, columns):
    """Return the determinant of some columns of the rows from `row` on."""
    if len(columns) == 1:
        return a[row, columns[0]]
    total = 0.0
    for place, column in enumerate(columns):
        rest = columns[:place] + columns[place + 1 :]
        total = total + (-1.0) ** place * a[row, column] * minor(a, row + 1, rest)
    return total


def determinant(a):
    """Return the determinant."""
    return minor(a, 0, tuple(range(len(a))))


def read(given):
    """Return the arguments."""
    return (np.array(given["A"], float).reshape(given["ell"], given["ell"]),)


def write(gradient):
    """Return the gradient, row after row."""
    return gradient.ravel().tolist()


compiled = tg.compile(determinant)
FUNCTIONS = {
    "primal": Timed(read, compiled, float),
    "gradient": Timed(read, compiled.grad, write),
}
