"""Calls and inputs of every operation, made from its declaration: for tests and benchmarks."""

import operator

import numpy as np

from .table import Pointwise

#: Rows whose value or partial derivative jumps at whole numbers.
_STEPS = ("absolute", "sign", "floor", "ceil", "rint", "trunc", "copysign", "heaviside")


def points(op: Pointwise, shape, rng, dtype=np.float64) -> list[np.ndarray]:
    """Random inputs inside the row's domain, away from kinks and ties."""
    made = []
    for low, high in op.domain:
        x = np.asarray(rng.uniform(low, high, shape))
        if op.name in _STEPS:
            x = np.floor(x) + 0.25 * np.round(1 + 0.2 * (x - np.floor(x)), 2)
        made.append(np.asarray(x, dtype))
    if op.name == "where":
        made[0] = np.asarray(np.round(rng.uniform(0, 1, shape)), dtype)
    if op.name in ("remainder", "fmod", "floor_divide"):
        k = np.round(rng.uniform(-2, 2, shape))
        made[0] = np.asarray((k + rng.uniform(0.2, 0.8, shape)) * made[1], dtype)
    return made


def example(op, shape, rng, tg):
    """A function that records one row of the operation, by a tapegrad, and inputs for it."""
    if isinstance(op, Pointwise):
        name = op.numpy if op.numpy.startswith("scipy.") else op.name
        return operator.attrgetter(name)(tg), points(op, shape, rng)
    return called(op.example, tg), [rng.uniform(*op.domain, shape)]


def called(text: str, tg):
    """The function of `x` that an example of a declaration is, by a tapegrad."""
    return eval(f"lambda x: {text}", {"np": np, "tg": tg})  # the text is the table's
