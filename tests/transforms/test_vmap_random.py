"""vmap of random programs against a loop over the elements: values and gradients."""

import warnings

import fuzz_programs
import memory_programs
import numpy as np
import pytest
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad._core.tensor.pytree import tree_leaves

ELEMENTS, AT_ONCE = 10, 8


def batch_of(program, rng):
    """Arguments of several elements, along a random axis of each, and these axes."""
    batches, axes = [], []
    for one in program.arguments:
        every = np.stack([fuzz_programs.values_of(one, rng) for _ in range(ELEMENTS)])
        every = every.astype(one.dtype)
        axes.append(int(rng.integers(every.ndim)))
        batches.append(np.moveaxis(every, 0, axes[-1]))
    return batches, tuple(axes)


def elements(batches, axes):
    """The arguments of each element, with memory of their own."""
    for k in range(ELEMENTS):
        yield [
            np.array(batch[(slice(None),) * axis + (k,)], order="K")[()]
            for batch, axis in zip(batches, axes, strict=True)
        ]


def same(found, wanted, is_single):
    """Leaves of a batch against those of the elements."""
    tolerance = 2e-3 if is_single else 1e-9
    columns = zip(*[[leaf for _, leaf in tree_leaves(one)] for one in wanted], strict=True)
    for (_, made), column in zip(tree_leaves(found), columns, strict=True):
        stacked = np.stack([np.asarray(leaf) for leaf in column])
        largest = np.max(np.abs(stacked), initial=1.0, where=np.isfinite(stacked))
        np.testing.assert_allclose(made, stacked, rtol=tolerance, atol=tolerance * largest)


def looped(f, batches, axes):
    """What each element gives, and whether they write to their arguments; None if one raises."""
    results, writes = [], False
    for given_ones in elements(batches, axes):
        before = [np.array(one) for one in given_ones]
        try:
            results.append(f(*given_ones))
        except Exception:
            return None, writes
        pairs = zip(before, given_ones, strict=True)
        writes = writes or not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
    shapes = {tuple(np.shape(leaf) for _, leaf in tree_leaves(one)) for one in results}
    return (results if len(shapes) == 1 else None), writes


@pytest.mark.parametrize("first", range(0, rounds(56, 20), AT_ONCE))
def test_programs(first):
    """None of them runs in a loop, but for those that write to their arguments."""
    for seed in range(first, first + AT_ONCE):
        program = fuzz_programs.generate(seed)
        batches, axes = batch_of(program, np.random.default_rng(seed))
        is_single = any(one.dtype == "float32" for one in program.arguments)
        f, numbers = program.functions()["f"], tuple(range(program.count))
        with np.errstate(all="ignore"):
            values, writes = looped(f, batches, axes)
            if values is None or writes:
                continue
            same(tg.vmap(f, axes)(*batches), values, is_single)
            pairs, _ = looped(tg.value_and_grad(f, numbers), batches, axes)
            if pairs is None:
                continue
            same(tg.vmap(tg.value_and_grad(f, numbers), axes)(*batches), pairs, is_single)
            whole = lambda *x, f=f, axes=axes: np.sum(tg.vmap(f, axes)(*x))
            found = tg.grad(whole, numbers)(*batches)
        moved = [np.moveaxis(one, axis, 0) for one, axis in zip(found, axes, strict=False)]
        same(moved, [list(gradients) for _, gradients in pairs], is_single)


STEPS = st.lists(
    st.tuples(st.sampled_from(memory_programs.STEPS), *[st.integers(0, 50)] * 3), max_size=8
)


@settings(max_examples=rounds(40, 13), deadline=None)
@given(
    steps=STEPS,
    shape=st.sampled_from([(4,), (2, 3), (3, 1), (2, 2, 2)]),
    axis=st.integers(0, 3),
    order=st.sampled_from(sorted(memory_programs.ORDERS)),
    seed=st.integers(0, 1000),
)
def test_views_and_writes(steps, shape, axis, order, seed):
    batch = np.random.default_rng(seed).uniform(-1.0, 1.5, (ELEMENTS, *shape))
    axis %= batch.ndim
    given_one = memory_programs.ORDERS[order](np.moveaxis(batch, 0, axis))
    f = lambda x: memory_programs.total(steps, x)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error", RuntimeWarning)
        for one in (f, tg.grad(f)):
            wanted, _ = looped(one, [given_one], [axis])
            same(tg.vmap(one, axis)(given_one), wanted, False)
