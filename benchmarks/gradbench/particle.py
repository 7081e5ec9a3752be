"""A charged particle that is led to the origin: derivatives of derivatives along its path."""

import functools

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.descent import INNER, OUTER, argmin
from benchmarks.gradbench.timed import Timed

STEP = 0.1


def potential(x, charges):
    """Return the electric potential of unit charges at `x`."""
    return sum(1.0 / np.sqrt(np.sum((x - charge) ** 2)) for charge in charges)


def miss(w, gradient):
    """Return the squared distance from the origin at which the particle crosses the first axis."""
    charges = np.array([10.0, 10.0 - w[0]]), np.array([10.0, 0.0])
    slope = gradient(lambda x: potential(x, charges))
    x, velocity = np.array([0.0, 8.0]), np.array([0.75, 0.0])
    while True:
        further = x + STEP * velocity
        if further[1] <= 0.0:
            crossed = x - x[1] / velocity[1] * velocity
            return crossed[0] ** 2
        x, velocity = further, velocity - STEP * slope(x)


@functools.cache
def prepared(outer, inner):
    """Return how far the particle misses as a compiled function of w, and its gradient."""

    def missed(w):
        return miss(w, INNER[inner])

    return tg.compile(missed), OUTER[outer](missed)


def control(outer, inner, w):
    """Return the w with which the particle meets the origin."""
    return argmin(*prepared(outer, inner), w)[0]


def read(given):
    """Return the arguments."""
    return (np.array([given["w"]], float),)


FUNCTIONS = {
    outer + inner: Timed(read, functools.partial(control, outer, inner), float)
    for outer in OUTER
    for inner in INNER
}
