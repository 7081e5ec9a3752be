"""Few elements in compiled functions: operations on numbers; and many numbers that never change."""

import numpy as np
import pytest
from compiled import check
from hypothesis import given
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad._program.ir.scalars_step import Scalars

MANY = [1.25 * k + 0.1 for k in range(3000)]


def stacked(x):
    return (tg.stack([x, *MANY]) ** 2).sum()


def joined(x):
    pieces = [np.array(MANY[k : k + 16]) for k in range(0, 3000, 16)]
    y = np.concatenate([np.reshape(x, (1,)), *pieces])
    return (y * y).sum() + y[5] * x


def written(x):
    y = tg.zeros(len(MANY) + 1)
    y[-1] = x
    for k, number in enumerate(MANY):
        y[k] = number
    return (y * x * 0.5).sum()


@pytest.mark.parametrize("f", [stacked, joined, written])
def test_many_constants(f):
    check(f, [(2.0,), (2.0,), (-0.5,)])


def steps_of(c):
    return next(iter(c._families.found.values())).found[0].program.code.steps


def only_numbers(f, *args, **options):
    c = check(f, [args, args, [a * 0.75 for a in args]], argnums=tuple(range(len(args))), **options)
    assert all(isinstance(step, Scalars) for step in steps_of(c))


F, G = np.array([[1.0, 0.1], [-0.2, 0.9]]), np.array([[0.3, 0.0, 1.0], [2.0, -1.0, 0.5]])
PRODUCTS = {
    "matrices": lambda a, b: a @ F @ b.T,
    "vector": lambda a, b: G.T @ a[0] * (b[1] @ F)[0],
    "inner": lambda a, b: np.dot(a[0], b[1]) * a,
    "outer": lambda a, b: np.einsum("i,j->ji", a[0], b[0]),
    "batch": lambda a, b: np.einsum("ij,ik->ijk", a, b),
    "transposed": lambda a, b: np.einsum("ij,jk->ki", a.T, b[::-1]),
    "trace": lambda a, b: np.einsum("ij,ji->", a, b),
    "tensordot": lambda a, b: np.tensordot(a, b, axes=([1], [0])),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_small_products_are_numbers(name):
    rng = np.random.default_rng(3)

    def f(a, b):
        made = np.ravel(PRODUCTS[name](a, b))
        return sum(np.cos(k) * made[k] for k in range(len(made)))

    only_numbers(f, rng.normal(size=(2, 2)), rng.normal(size=(2, 2)))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.integers(0, 99),
)
def test_small_sums_are_numpys(shape, chosen, seed):
    """Few terms along neighbouring axes are added in NumPy's order, to the bit."""
    x = np.random.default_rng(seed).normal(size=shape)
    axes = tuple(k for k, one in enumerate(chosen[: len(shape)]) if one)
    made = tg.compile(lambda x: x.sum(axis=axes) * 1.0, verify="never")
    made(x)
    terms = int(np.prod([shape[k] for k in axes], initial=1))
    together = axes == tuple(range(min(axes, default=0), max(axes, default=-1) + 1))
    if terms <= 7 and x.size <= 16 and together:
        np.testing.assert_array_equal(made(x), x.sum(axis=axes))
    else:
        np.testing.assert_allclose(made(x), x.sum(axis=axes), rtol=1e-13, atol=1e-14)


def test_elements_that_nothing_is_added_to_are_zero():
    def f(x):
        y = tg.zeros((3, 2))
        y[0] += x
        y[0] += x * x
        return (y * np.arange(6.0).reshape(3, 2)).sum() + y[2, 1]

    check(f, [(np.array([1.5, -0.5]),), (np.array([2.0, 0.25]),)])


def test_a_loop_of_small_matrices_is_one_step():
    def f(x):
        v = x[0] * 1.0
        for _ in range(50):
            v = F @ v + 0.01 * (x * x).sum(axis=0)
        return (v * v).sum()

    only_numbers(f, np.array([[0.5, 0.2], [0.1, -0.3]]))
