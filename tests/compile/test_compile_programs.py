"""Random functions whose arithmetic is exact, compiled: equal bit for bit, for many inputs."""

import os
import warnings

import numpy as np
import pytest
import random_programs
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg

#: Half of them for each of the first tests; see CONTRIBUTING.md.
EXAMPLES = int(os.environ.get("TAPEGRAD_PROGRAMS", rounds(200, 80))) // 2
CALLS = 8
sizes = st.sampled_from([6, 12])


def inputs(n, seed):
    return [np.random.default_rng([seed, k]).normal(size=(2, n)) for k in range(CALLS)]


def compiled(f, **options):
    """The function compiled, without looking whether it agrees with itself."""
    return tg.compile(f, argnums=(0, 1), verify="never", **options)


def check_reason(c):
    """Only branches may make a function be called as it is."""
    assert c._reason is None or "at nearly every call" in c._reason, c._reason


@settings(max_examples=EXAMPLES)
@given(random_programs.programs(True, 25), sizes, st.integers(0, 100))
def test_exact_values_agree_bit_for_bit(program, n, seed):
    f = lambda x, y: random_programs.run(program, x, y, random_programs.EXACT)
    c = compiled(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for x, y in inputs(n, seed):
            for made, exact in zip(c(x, y), plain(f, x, y), strict=True):
                for a, b in zip(made, exact, strict=True):
                    np.testing.assert_array_equal(a, b)
    check_reason(c)


@settings(max_examples=EXAMPLES)
@given(random_programs.programs(True, 12), sizes, st.integers(0, 100))
def test_gradients_agree_bit_for_bit(program, n, seed):
    """Where no rounding depends on the order in which adjoints are added.

    Copies, and cells read and written, cost a program nothing: their adjoints are added straight
    to what was copied, which associates a sum of three in another way than the sweep of rows.
    """
    f = lambda x, y: random_programs.element_of(program, x, y, random_programs.DYADIC)
    c, eager = compiled(f), tg.value_and_grad(f, (0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for x, y in inputs(n, seed):
            (value, found), (right, wanted) = c.value_and_grad(x, y), eager(x, y)
            assert value == right
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(a, b)
    check_reason(c)


def plain(g, x, y):
    """The results of a function of tensors, as arrays."""
    arrays, scalars = g(tg.tensor(x), tg.tensor(y))
    return [a.numpy() for a in arrays], [s.item() for s in scalars]


@pytest.mark.parametrize("kind", random_programs.KINDS)
@pytest.mark.parametrize("n", [6, 12])
def test_every_kind_of_step_is_compiled(kind, n):
    """A step of each kind, in many variants, so that random programs are not called eagerly."""
    for k in range(8):
        program = [(kind, k, k + 1, k, k + 3, k), ("new", 0, 1, 2, k, k)]
        f = lambda x, y, p=program: random_programs.value_of(p, x, y)
        c, eager = compiled(f), tg.value_and_grad(f, (0, 1))
        for x, y in inputs(n, k)[:4]:
            (value, found), (right, wanted) = c.value_and_grad(x, y), eager(x, y)
            np.testing.assert_allclose(value, right, rtol=1e-12, atol=1e-13)
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
        assert c._reason is None
