"""Whether two results are equal but for rounding, and how far rounding alone moves a program's.

Where terms cancel a result says nothing of their size: a gradient that is 0 comes out as -6e-16 or
as 5e-17, by the order of sums. So a program is run some times more, with inputs a few units in the
last place away and with seeds that are no powers of two: it has neither state nor random numbers,
and what it gives then differs by rounding alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..inputs import tree_leaves
from ..replay.computed import raised
from ..replay.layout import FINISHED, RAISED
from ..tensor.values import value_of
from .program import Program

#: Results that are compared may differ by so much of the largest.
ROUNDING = 1e-7
#: Runs up and down that are compared. By how many times more two ways of computing may differ: one
#: adds up by pairs and the other in order, or computes exp by vectors.
_RUNS, _MARGIN = 6, 1000.0
_ULP = 2.0**-52
_APART = 4  # units in the last place that inputs are moved by at most


def agree(a, b, noise: float = 0.0) -> bool:
    """Whether two results are equal but for rounding, which moves them by `noise` at least."""
    a, b = np.asarray(value_of(a)), np.asarray(value_of(b))
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    if a.dtype.kind != "f":
        return bool(np.all(a == b))
    largest = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
    allowed = ROUNDING * largest + noise
    return bool(np.allclose(a, b, rtol=ROUNDING, atol=allowed, equal_nan=True))


def first_difference(found, expected, noise: Callable[[], Any]) -> tuple | None:
    """The first leaves of two results that are not equal but for rounding; None if all are.

    `noise` gives a result of what rounding moves each leaf by. Only where they seem to differ is it
    called.
    """
    leaves = itertools.zip_longest(tree_leaves(found), tree_leaves(expected), fillvalue=("", None))
    pairs = [(a, b) for (_, a), (_, b) in leaves]
    if all(agree(a, b) for a, b in pairs):
        return None
    moved = itertools.chain([m for _, m in tree_leaves(noise())], itertools.repeat(0.0))
    differing = [(a, b) for (a, b), m in zip(pairs, moved, strict=False) if not agree(a, b, m)]
    return differing[0] if differing else None


def noise_of(program: Program, objects: list, reverse: bool) -> tuple[list[float], list[float]]:
    """How far rounding may move each result of a program, and each adjoint of its inputs.

    Those of data are 0, and so are all adjoints unless `reverse` asks for them. A result may jump
    at these inputs, which is more than rounding: what counts are inputs moved up or moved down, by
    which it moves less, and no more than a small part of the largest number met.
    """
    rng = np.random.default_rng(0)
    first, largest = _run(program, objects, 1.0, reverse)
    moved = np.zeros((2, len(first)))
    for way, sign in enumerate((1.0, -1.0)):
        for _ in range(_RUNS):
            pairs = zip(objects, program.code.inputs, strict=True)
            given = [_moved(x, sign, one.dtype, rng) for x, one in pairs]
            found, _ = _run(program, given, rng.uniform(1.0, 2.0), reverse)
            if len(found) == len(first):
                apart = [_distance(a, b) for a, b in zip(found, first, strict=True)]
                moved[way] = np.maximum(moved[way], apart)
    noise = np.minimum(_MARGIN * moved.min(axis=0), ROUNDING * largest).tolist()
    count = len(program.code.outputs)
    return noise[:count], noise[count:]


def _moved(value, sign: float, dtype: np.dtype, rng):
    """A number or an array some units in the last place away; integers and truths stay."""
    if dtype.kind != "f":
        return value
    steps = sign * rng.integers(0, _APART + 1, np.shape(value))
    made = value + np.absolute(value) * (steps * _ULP)
    return made if isinstance(value, np.ndarray) else float(made)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.max(np.abs(a - b), initial=0.0, where=both))


def _run(program: Program, objects: list, seed: float, reverse: bool) -> tuple[list, float]:
    """Results, then adjoints for a seed divided by it; and the largest number met on the way.

    Nothing where the program takes another way.
    """
    memory = program.begin()
    try:
        status = program.forward(memory, objects)
        if status != FINISHED:
            if status == RAISED:
                raised(memory.address)
            return [], 0.0
        found = [np.array(result) for result in program.results(memory)]
        met = [memory.values, *map(np.asarray, objects)]
        if reverse:
            seeds = [np.full(one.view.shape, seed) for one in program.code.outputs]
            adjoints = program.reverse(memory, seeds)
            found += [np.zeros(()) if a is None else np.asarray(a) / seed for a in adjoints]
            met.append(memory.adjoints)
        return found, max(_largest(numbers) for numbers in met)
    finally:
        program.end(memory)


def _largest(numbers: np.ndarray) -> float:
    return float(np.max(np.abs(numbers), initial=0.0, where=np.isfinite(numbers)))
