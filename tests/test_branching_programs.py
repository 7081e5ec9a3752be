"""Functions with branches and loops, compiled: equal to eager calls at inputs of other branches."""

import warnings

import numpy as np
import pytest
from branching import CASES
from compiled import same

import tapegrad as tg

RTOL = 1e-10
#: Calls of each function at which second derivatives are compared, too.
SECOND = 4


def compiled(case, **options):
    return tg.compile(case.function, argnums=case.argnums, **options)


def random_like(tree, rng):
    """A float or an array of random numbers."""
    return rng.normal(size=tree.shape) if isinstance(tree, np.ndarray) else float(rng.normal())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_equal_to_eager(case):
    """Values and gradients at many inputs; a function that is refused says so, and runs eagerly."""
    rng = np.random.default_rng(7)
    c, eager = compiled(case), tg.value_and_grad(case.function, case.argnums)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(case.calls):
            args = case.make(rng)
            same(c.value_and_grad(*args), eager(*args), RTOL)
            if rng.random() < 0.1:
                same(c(*args), case.function(*args), RTOL)


@pytest.mark.parametrize("case", [c for c in CASES if c.second], ids=lambda case: case.name)
def test_derivatives_along_directions(case):
    """Second derivatives to the first argument; tangents of all arguments."""
    rng = np.random.default_rng(8)
    f, c = case.function, tg.compile(case.function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(SECOND):
            x, *others = args = case.make(rng)
            v, *_ = tangents = tuple(random_like(one, rng) for one in args)
            same(c.hvp(x, v, *others), tg.hvp(f)(x, v, *others), RTOL)
            same(c.jvp(args, tangents), tg.jvp(f, args, tangents), RTOL)
