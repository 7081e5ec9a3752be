"""Where results lie in memory, and with what they share it: as NumPy's do, in every mode."""

import numpy as np
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_programs import ORDERS, SMOOTH, STEPS, run, total

import tapegrad as tg

NUMBERS = st.integers(0, 23)
PROGRAMS, SMOOTH_PROGRAMS = (
    st.lists(st.tuples(st.sampled_from(steps), NUMBERS, NUMBERS, NUMBERS), max_size=14)
    for steps in (STEPS, SMOOTH)
)
SHAPES = st.sampled_from([(3, 4), (2, 3, 4), (3, 3), (6,), (1, 5), (4, 1, 2), (2, 1, 3, 2)])
EXAMPLES = settings(max_examples=rounds(150, 50), deadline=None)


def point(shape, order, seed=0, dtype=np.float64):
    """Numbers in a memory order, none near another."""
    numbers = np.random.default_rng(seed).permutation(np.linspace(-1.3, 1.4, np.prod(shape)))
    return ORDERS[order](numbers.reshape(shape).astype(dtype))


def plain(made):
    return made.detach().numpy() if isinstance(made, tg.Tensor) else made


def layout(array):
    """Strides along axes of more than one element."""
    return [stride for stride, n in zip(array.strides, array.shape, strict=True) if n > 1]


def alike(found, wanted, rtol=1e-12):
    """Compare two lists of arrays: values, where they lie, with which others they share memory."""
    found = [plain(one) for one in found]
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)
        assert layout(ours) == layout(theirs)
    for k, ours in enumerate(found):
        shared = [np.shares_memory(ours, other) for other in found[:k]]
        assert shared == [np.shares_memory(wanted[k], other) for other in wanted[:k]]


def slope(function, x, direction, eps=1e-6):
    """The central difference of a function along a direction, at arrays that lie as x does."""
    ends = []
    for sign in (1, -1):
        moved = np.array(x)
        moved += sign * eps * direction
        ends.append(function(moved))
    return (ends[0] - ends[1]) / (2 * eps)


@EXAMPLES
@given(PROGRAMS, SHAPES, st.sampled_from([*ORDERS]), st.booleans())
def test_values_strides_and_sharing(steps, shape, order, single):
    dtype = np.float32 if single else np.float64
    x, rtol = point(shape, order, dtype=dtype), 2e-5 if single else 1e-12
    wanted = run(steps, x)
    alike(run(steps, tg.tensor(x, requires_grad=True)), wanted, rtol)
    alike(run(steps, tg.tensor(x)), wanted, rtol)
    with tg.no_grad():
        alike(run(steps, tg.tensor(x, requires_grad=True)), wanted, rtol)


@EXAMPLES
@given(SMOOTH_PROGRAMS, SHAPES, st.sampled_from([*ORDERS]))
def test_derivatives(steps, shape, order):
    x, v = point(shape, order), np.cos(np.arange(np.prod(shape)) + 1.0).reshape(shape)
    value, gradient = tg.value_and_grad(lambda x: total(steps, x))(x)
    np.testing.assert_allclose(value, total(steps, x), rtol=1e-11, atol=1e-11)
    assert layout(gradient) == layout(np.zeros_like(x))
    along = slope(lambda x: total(steps, x), x, v)
    np.testing.assert_allclose(np.sum(gradient * v), along, rtol=2e-6, atol=2e-6)
    tangent = tg.jvp(lambda x: total(steps, x), (x,), (v,))[1]
    np.testing.assert_allclose(tangent, along, rtol=2e-6, atol=2e-6)


@settings(max_examples=rounds(60, 20), deadline=None)
@given(SMOOTH_PROGRAMS, SHAPES, st.sampled_from([*ORDERS]))
def test_second_derivatives(steps, shape, order):
    x, v = point(shape, order), np.cos(np.arange(np.prod(shape)) + 1.0).reshape(shape)
    found = tg.hvp(lambda x: total(steps, x))(x, v)
    assert layout(found) == layout(np.zeros_like(x))
    wanted = slope(tg.grad(lambda x: total(steps, x)), x, v)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=rounds(40, 13), deadline=None)
@given(PROGRAMS, SHAPES, st.permutations([*ORDERS]))
def test_compiled(steps, shape, orders):
    """One compiled function, called with arrays in several orders one after the other."""
    steps = [step for step in steps if step[0] != ("write", "picked")]  # not all are programs
    number = tg.compile(lambda x: total(steps, x), verify="never")
    arrays = tg.compile(lambda x: tuple(a * 1.0 for a in run(steps, x)), verify="never")
    for seed, order in enumerate([*orders[:3], *orders[:3]]):
        x = point(shape, order, seed % 3)
        value, gradient = number.value_and_grad(x)
        expected, wanted = tg.value_and_grad(lambda x: total(steps, x))(x)
        np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-9, atol=1e-9)
        assert layout(gradient) == layout(wanted)
        for ours, theirs in zip(arrays(x), run(steps, x), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
            assert layout(ours) == layout(theirs * 1.0)
