"""A saddle point, by a descent of what an ascent reaches: derivatives of derivatives."""

import functools

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.descent import INNER, OUTER, argmax, argmin
from benchmarks.gradbench.timed import Timed, numbers


def height(x, y):
    """Return the function that has a saddle point at 0."""
    return np.sum(x**2) - np.sum(y**2)


def highest(x, start, gradient):
    """Return the y at which the height is largest, by an ascent from `start`."""
    return argmax(lambda y: height(x, y), gradient(lambda y: height(x, y)), start)


@functools.cache
def prepared(outer, inner, start):
    """Return the largest height over y as a compiled function of x, and its gradient."""
    begin = np.array(start)

    def largest(x):
        return height(x, highest(x, begin, INNER[inner]))

    return tg.compile(largest), OUTER[outer](largest)


def saddle(outer, inner, start):
    """Return min over x of max over y, both from `start`: x and y."""
    x = argmin(*prepared(outer, inner, tuple(start)), start)
    return np.concatenate((x, highest(x, start, INNER[inner])))


def read(given):
    """Return the arguments."""
    return (np.array(given["start"], float),)


FUNCTIONS = {
    outer + inner: Timed(read, functools.partial(saddle, outer, inner), numbers)
    for outer in OUTER
    for inner in INNER
}
