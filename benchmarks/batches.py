"""vmap of functions of 20 variables over 10 000 elements, beside the loop over them."""

import numpy as np

import tapegrad as tg
from benchmarks import figures

ELEMENTS, VARIABLES = 10_000, 20


def rosenbrock(x):
    """Return a chained function of vectors, by slices."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def numbers(x):
    """Return a function of single numbers, one after the other."""
    total = 0.0
    for k in range(VARIABLES - 1):
        total = total + x[k] * np.sin(x[k + 1]) / (1.5 + np.cos(x[k]))
    return total


FUNCTIONS = {"slices": rosenbrock, "numbers": numbers}


def calls(name, what):
    """Return the function of one element, and a batch."""
    f = FUNCTIONS[name]
    one = tg.value_and_grad(f) if what == "gradient" else f
    return one, np.random.default_rng(3).normal(size=(ELEMENTS, VARIABLES))


def seconds(name, what, form, times=7):
    """Return the least seconds for the whole batch; a loop is timed on a part of it."""
    one, batch = calls(name, what)
    if form == "loop":
        part = batch[: ELEMENTS // 20]
        return 20.0 * figures.best(lambda: [one(x) for x in part], 3)
    whole = tg.vmap(one)
    if form == "compiled":
        whole = tg.compile(whole)
    whole(batch), whole(batch)
    return figures.best(lambda: whole(batch), times)


def track_batch(name, what, form):
    """All values, or values and gradients."""
    return 1e3 * seconds(name, what, form)


track_batch.unit = "ms"
track_batch.params = [list(FUNCTIONS), ["value", "gradient"], ["vmap", "compiled", "loop"]]
track_batch.param_names = ["function", "what", "form"]
track_batch.timeout = 300.0
