"""The logarithm of a sum of exponentials."""

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.timed import Timed, numbers


def log_sum_exp(x):
    """Return log Σ exp(x) without overflow."""
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


def read(given):
    """Return the arguments."""
    return (np.array(given["x"], float),)


compiled = tg.compile(log_sum_exp)
FUNCTIONS = {
    "primal": Timed(read, compiled, float),
    "gradient": Timed(read, compiled.grad, numbers),
}
