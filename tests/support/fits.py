"""Functions and partitions for sums in other processes, which import them from here."""

import os

import numpy as np

import tapegrad as tg


def misfit(w, x, y):
    """The negative log-likelihood of a logistic regression."""
    z = x @ w
    return np.sum(np.logaddexp(0.0, z) - y * z)


def branching(w, x):
    """Another branch for each sign of the first number of a partition."""
    return np.sum(w * x) ** 2 if x[0] > 0.0 else np.sum(np.exp(w)) * x[1]


def halved(w, x):
    """As many rounds as the numbers ask for."""
    s = w[0] * x[0]
    while s > 1.0:
        s = 0.5 * s + 0.01 * w[1]
    return s * s


def named(p, x):
    """A function of a dict, of which all is differentiated."""
    return np.sum((p["scale"] * x + p["at"]) ** 2)


compiled_misfit = tg.compile(misfit)


def rows(number, count=50):
    """A partition of rows; the last ones are shorter."""
    rng = np.random.default_rng(number)
    x = rng.normal(size=(count - number, 3))
    return x, (x[:, 0] + rng.normal(size=len(x)) > 0.0) * 1.0


def broken(number):
    """The same, where the third one cannot be read."""
    if number == 2:
        raise OSError("file 2 is damaged")
    return rows(number)


def ends_processes():
    """A partition that ends each process that asks for it."""
    os._exit(1)
