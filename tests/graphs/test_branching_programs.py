"""Functions with branches and loops, compiled: equal to eager calls at inputs of other branches."""

import os
import warnings

import numpy as np
import pytest
from branching import CASES
from compiled import numbers
from fuzz_branches import check, differs

import tapegrad as tg

RTOL = 1e-10
#: At most so many inputs of each function: all of them take minutes.
CALLS = int(os.environ.get("TAPEGRAD_BRANCHING", 8))
#: Calls of each function at which second derivatives are compared, too.
SECOND = 2


def compiled(case, **options):
    return tg.compile(case.function, argnums=case.argnums, **options)


def same(found, wanted):
    """Equal to rounding; where everything cancels, to that of numbers about 1."""
    found, wanted = numbers(found), numbers(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        largest = np.abs(b[np.isfinite(b)]).max(initial=1e-2)
        np.testing.assert_allclose(a, b, rtol=RTOL, atol=RTOL * largest)


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
        for _ in range(min(case.calls, CALLS)):
            args = case.make(rng)
            same(c.value_and_grad(*args), eager(*args))
            if rng.random() < 0.1:
                same(c(*args), case.function(*args))


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
            same(c.hvp(x, v, *others), tg.hvp(f)(x, v, *others))
            same(c.jvp(args, tangents), tg.jvp(f, args, tangents))


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    """See fuzz_branches.py for more of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        _, wrong = check(seed, native=False)
    assert not wrong


def test_differences_are_seen():
    assert not differs(np.array([1.0, np.nan]), np.array([1.0 + 1e-12, np.nan]))
    assert differs(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-7]))
    assert differs((ValueError, "no"), np.array([1.0]))
    assert not differs((ValueError, "no"), (ValueError, "never"))
