"""Functions with branches that are timed: those of tests/branching, at the sizes of real use."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from branching import cases, dynamics, likelihoods, solvers, tables


class Branching(NamedTuple):
    """A function, a maker of its arguments, and those for a quick check."""

    function: Callable
    make: Callable
    small: Callable
    argnums: int | tuple = (0, 1)


def robust(parameters, x, y):
    """Return a loss of squares below 1 and absolute values above."""
    a, b = parameters
    loss = 0.0
    for i in range(len(x)):
        error = abs(y[i] - a * x[i] - b)
        loss += error**2 if error < 1 else 2 * error - 1
    return loss


def american_put(spot, volatility, rate):
    """Return the price by a tree of 50 steps."""
    return tables.american_put(spot, volatility, rate, steps=50)


def data(size):
    """Return a maker of two parameters and two columns of data."""
    return lambda rng: (rng.normal(0.6, 0.5, 2), *rng.normal(0.0, 1.5, (2, size)))


def heavy_tailed(rows, columns):
    """Return a maker of the weights of a regression, its matrix and its targets."""

    def make(rng):
        matrix = rng.normal(size=(rows, columns))
        targets = matrix @ np.linspace(-1, 2, columns) + rng.standard_t(2, rows)
        return rng.normal(size=columns), matrix, targets

    return make


def fixed(make):
    """Return the maker for a function that has no sizes."""
    return Branching(make[0], make[1], make[1], *make[2:])


SIZES = [6, 20, 100, 1000]

#: Workload → function and arguments.
WORKLOADS = {
    **{f"robust_{n}": Branching(robust, data(n), data(min(n, 30)), 0) for n in SIZES},
    "regimes": Branching(
        likelihoods.regimes, likelihoods.scales(2000), likelihoods.scales(30), (0, 1, 2)
    ),
    "huber": Branching(likelihoods.huber_regression, heavy_tailed(200, 5), heavy_tailed(20, 3), 0),
    "dtw": Branching(tables.dtw, tables.series(100, 100), tables.series(6, 6)),
    "dtw_of_minimum": Branching(
        tables.dtw_of_minimum, tables.series(100, 100), tables.series(6, 6)
    ),
    "american_put": fixed((american_put, tables.option, (0, 1, 2))),
    "metropolis": Branching(likelihoods.metropolis, likelihoods.draws(1000), likelihoods.draws(20)),
    "bubble_sort": Branching(tables.bubble_sort, cases.numbers(2, 30), cases.numbers(2, 8)),
    "bouncing_ball": fixed((dynamics.bouncing_ball, dynamics.ball, (0, 1, 2))),
    "discs": Branching(dynamics.discs, dynamics.box(20), dynamics.box(4)),
    "rk45": fixed((dynamics.rk45, dynamics.oscillator)),
    "newton": fixed((solvers.newton, cases.numbers(2))),
    "bisection": fixed((solvers.bisection, cases.numbers(2))),
    "value_iteration": fixed((solvers.value_iteration, solvers.decisions, (0, 1, 2))),
}
