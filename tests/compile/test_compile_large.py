"""Large arguments of compiled functions, which are read where the caller has them."""

import numpy as np
import pytest
from compiled import programs, same

import tapegrad as tg
from tapegrad._program.passes.memory_reuse import LARGE

N = 130
WEIGHTS = np.cos(np.arange(N * N, dtype=float)).reshape(N, N)
assert N * N >= LARGE

#: Functions of a large matrix and of a vector, and whether the matrix stays with the caller.
FUNCTIONS = {
    "product": (lambda x, w: ((x @ w) ** 2).sum(), True),
    "two sides": (lambda x, w: ((w @ x) * (x @ w)).sum(), True),
    "with itself": (lambda x, w: ((x.T @ x) * WEIGHTS).sum() * w[0], True),
    "einsum": (lambda x, w: np.einsum("ij,kj,k->i", x, x, w).sum(), True),
    "element by element": (lambda x, w: (np.exp(0.1 * x) * w).sum(), True),
    "slices": (lambda x, w: (x[1:, ::2] * x[:-1, 1::2]).sum() + (x[::-1] * w).sum(), True),
    "both": (lambda x, w: (np.sin(x) @ w).sum() + (x @ w)[3], True),
    "sorted": (lambda x, w: (np.sort(x, axis=1) @ w).sum(), True),
    "largest": (lambda x, w: (np.max(x, axis=0) * w).sum(), True),
    "running": (lambda x, w: (np.cumsum(x, axis=0) * WEIGHTS).sum() * w[1], True),
    "lines": (lambda x, w: (tg.logsumexp(x, axis=1) * w).sum(), True),
    "picked": (lambda x, w: (x.ravel()[np.argsort(w)] * w).sum(), True),
    "one number": (lambda x, w: x[3, 4] * w[2] + x[-1, 0] ** 2, False),
    "some and numbers": (lambda x, w: (x @ w).sum() * x[5, 5], False),
}


def at_positions(x, w):
    y = x + 0.0 * w  # recorded, whichever is differentiated
    y[np.argmax(w)] = w
    return (y * x * WEIGHTS).sum()


FUNCTIONS["written"] = (at_positions, True)


def arguments(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, N)), rng.normal(size=N)


@pytest.mark.parametrize("argnums", [(0, 1), (1,)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_large_arguments(name, argnums, tmp_path):
    f, stays = FUNCTIONS[name]
    compiled = tg.compile(f, argnums=argnums)
    for seed in (0, 0, 1, 2):
        x, w = arguments(seed)
        before = x.copy(), w.copy()
        found = compiled.value_and_grad(x, w)
        same(found, tg.value_and_grad(f, argnums=argnums)(x, w))
        assert (x == before[0]).all() and (w == before[1]).all()
    (family,) = compiled._families.found.values()
    assert programs(compiled) == 1
    assert (family.found[0].program.code.inputs[0].view.base > 0) == stays
    if name == "sorted":  # calls of functions are not saved
        return
    compiled.save(tmp_path / "program")
    same(tg.load(tmp_path / "program").value_and_grad(x, w), found, rtol=0)


@pytest.mark.parametrize("axis", [0, -1])
def test_large_arguments_that_one_view_sees_together(axis, rng):
    """They lie side by side in the arena: nothing is copied to stack them, and they stay there."""

    def total(x, y):
        return np.sum(np.cumsum(np.stack([x, y], axis), 1) ** 2)

    x, y = rng.normal(size=(2, N, N))
    c = tg.compile(total, argnums=(0, 1), native=False)
    for point in ((x, y), (y, -x)):
        np.testing.assert_allclose(c(*point), total(*point), rtol=1e-12)
        for found, wanted in zip(c.grad(*point), tg.grad(total, (0, 1))(*point), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


LARGE_JOINS = {
    "a constant and a product": lambda x: np.sum(np.stack([DATA, DATA * x[0]]) ** 2),
    "a constant between": lambda x: np.sum(np.concatenate([DATA * x[1], DATA, DATA * x[0]]) ** 3),
    "with numbers between": lambda x: np.sum(np.stack([x, 0.5 * x + 0.2 * x[0]]).sum(0) * 0.4),
    "the largest": lambda x: np.max(np.stack([x, np.sin(x) + np.cos(x[0])]).sum(0) * 0.4),
}
DATA = np.random.default_rng(3).normal(size=3000)


@pytest.mark.parametrize("what", LARGE_JOINS)
def test_joins_of_large_arrays(what):
    """Constants have no places yet where joins are views; numbers may lie between the parts."""
    f, x = LARGE_JOINS[what], np.random.default_rng(0).normal(size=(12, 3)).ravel()
    c = tg.compile(f, verify="never")
    for point in (x, x, 2.0 * x[::-1]):
        value, gradient = c.value_and_grad(point)
        wanted, slopes = tg.value_and_grad(f)(point)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-10, atol=1e-10)
