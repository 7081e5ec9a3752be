"""Ten operations as one operation of a user's, and as calls of NumPy's functions."""

import math

import numpy as np

import tapegrad as tg
from benchmarks import figures

SIZE = 10**6


def body(x, y):
    """Return what ten operations make of two numbers."""
    a = math.exp(-x * x)
    return a * math.sin(y) / (1.0 + a) + math.sqrt(x * x + y * y)


def body_of_arrays(x, y):
    """Return the same of two arrays, one NumPy call after the other."""
    a = np.exp(-x * x)
    return a * np.sin(y) / (1.0 + a) + np.sqrt(x * x + y * y)


FORMS = {"elementwise": tg.elementwise(body), "NumPy": body_of_arrays}


def inputs(size):
    """Return two arrays of normal numbers."""
    return tuple(np.random.default_rng(7).normal(size=(2, size)))


def seconds(form, what, size=SIZE, times=9):
    """Return the least seconds of the value alone, or of value and gradient."""
    f, given = FORMS[form], inputs(size)
    if what == "gradient":
        f = tg.value_and_grad(lambda x, y: np.sum(FORMS[form](x, y)), (0, 1))
    f(*given)
    return figures.best(lambda: f(*given), times)


def track_body(form, what):
    """The body on 10⁶ pairs of numbers."""
    return 1e3 * seconds(form, what)


track_body.unit = "ms"
track_body.params = [list(FORMS), ["value", "gradient"]]
track_body.param_names = ["form", "what"]
