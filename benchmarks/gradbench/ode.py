"""A chain of ordinary differential equations, by Runge and Kutta's method of fourth order."""

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.timed import Timed, numbers


def solution(x, steps):
    """Return y(2) of y₀' = x₀, yᵢ' = xᵢ yᵢ₋₁, y(0) = 0."""

    def slope(y):
        return np.concatenate((x[:1], x[1:] * y[:-1]))

    h = 2.0 / steps
    y = np.zeros(len(x))
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + 0.5 * h * k1)
        k3 = slope(y + 0.5 * h * k2)
        k4 = slope(y + h * k3)
        y = y + h * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0
    return y


def last(x, steps):
    """Return the last element of the solution."""
    return solution(x, steps)[-1]


def read(given):
    """Return the arguments."""
    return np.array(given["x"], float), given["s"]


FUNCTIONS = {
    "primal": Timed(read, tg.compile(solution), numbers),
    "gradient": Timed(read, tg.compile(last).grad, numbers),
}
