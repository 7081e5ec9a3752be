"""Programs of float32: every operation against float64 and eager float32, and what is refused."""

import concurrent.futures
import warnings

import numpy as np
import pytest
from compiled import is_native
from declared import EXAMPLES, example_of, objective, others, point, weights_of
from extent import some

import tapegrad as tg
from tapegrad._core.ops.sample_inputs import points
from tapegrad._core.ops.table import TABLE, Pointwise

SINGLE = np.float32
OPERATIONS = [op for op in TABLE.values() if isinstance(op, Pointwise) and op.of_numbers]
MIXED = r"while its program computes in float32|in float64 and in float32"


def leaves(tree):
    found = tree if isinstance(tree, tuple) else (tree,)
    return [np.asarray(leaf) for leaf in found]


def near(found, eager, exact, rtol=1e-4):
    """As far from the result in float64 as float32 allows, or as the eager result is."""
    for a, b, c in zip(leaves(found), leaves(eager), leaves(exact), strict=True):
        assert a.shape == b.shape and (a.dtype == b.dtype or a.ndim == 0)
        both = np.isfinite(c) & np.isfinite(b)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        away = [np.max(np.abs(x[both] - c[both]), initial=0.0) for x in (a, b)]
        assert away[0] <= 4 * away[1] + rtol * np.max(np.abs(c[both]), initial=1.0)


@pytest.mark.parametrize(
    "name,text,shape", EXAMPLES, ids=[f"{name}: {text}" for name, text, _ in EXAMPLES]
)
def test_declaration(name, text, shape, rng):
    op = TABLE[name]
    f, x = example_of(op, text), point(op, shape, rng)
    total = objective(f, weights_of(f, x, rng).astype(SINGLE))
    ways = [(lambda c, x: c(x), total), (lambda c, x: c.grad(x), tg.grad(total))]
    for call, eager in some(ways, text, 1):
        c = tg.compile(total, verify="never", native=False)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", f".*({MIXED})", RuntimeWarning)
            for one in (x, x, *others(x)):
                one = one.astype(SINGLE)
                near(call(c, one), eager(one), eager(one.astype(float)))


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("native", [False, True])
def test_elementwise(op, native, rng):
    """On arrays in pieces of several lengths, and on numbers."""
    function, whole = getattr(tg, op.name), points(op, 300, rng, SINGLE)
    numbers = tuple(range(len(whole)))

    def f(*given):
        return np.sum(function(*given))

    c = tg.compile(f, argnums=numbers, native=native)
    for count in (300, 1, 5):
        given = [x[:count] for x in whole]
        for _ in range(3):
            found = c.value_and_grad(*given)
            c.wait()
        eager = tg.value_and_grad(f, numbers)
        exact = eager(*[x.astype(float) for x in given])
        expected = eager(*given)
        near(found[0], expected[0], exact[0])
        for a, b, e in zip(found[1], expected[1], exact[1], strict=True):
            near(a, b, e)
    assert c._reason is None and is_native(c) == native


def everything(x, m, k):
    """Choices by value, positions that are computed, data of integers, writes, reductions."""
    order = np.argsort(x, kind="stable")
    y = np.where(x > 0.1, x, 0.5 * x)[order] * m.sum(axis=1)
    z = np.cumsum(y) @ m + m[k].max(axis=0)
    z[1:3] += y[np.argmax(x)]
    return np.sum(tg.softmax(z) * np.log1p(z * z)) + np.mean(y[y > 0.3])


@pytest.mark.parametrize("native", [False, True])
def test_branches_positions_and_data(native, rng):
    c = tg.compile(everything, argnums=(0, 1), native=native)
    for _ in range(6):
        x, m = rng.uniform(0.0, 1.0, 6).astype(SINGLE), rng.normal(size=(6, 4)).astype(SINGLE)
        x[0] = 0.1  # which is larger than the number 0.1 in float64, and not in float32
        k = rng.integers(0, 6, 3)
        value, gradients = c.value_and_grad(x, m, k)
        c.wait()
        expected = tg.value_and_grad(everything, (0, 1))(x, m, k)
        np.testing.assert_allclose(value, expected[0], rtol=2e-5)
        for a, b in zip(gradients, expected[1], strict=True):
            assert a.dtype == SINGLE
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert c._reason is None


@pytest.mark.parametrize("native", [False, True])
def test_long_arrays_that_stay_with_the_caller(native, rng):
    x, y = rng.uniform(0.5, 1.5, (2, 100_000)).astype(SINGLE)
    f = lambda x, y: np.sum(np.exp(-x * y) + x / (1.0 + y))
    c = tg.compile(f, argnums=(0, 1), native=native)
    for _ in range(3):
        value, gradients = c.value_and_grad(x, y)
        c.wait()
    wanted = tg.value_and_grad(f, (0, 1))(x.astype(float), y.astype(float))
    np.testing.assert_allclose(value, wanted[0], rtol=3e-6)
    for a, b in zip(gradients, wanted[1], strict=True):
        assert a.dtype == SINGLE
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    out = np.empty_like(x), np.empty_like(y)
    c.value_and_grad(x, y, out=out)
    np.testing.assert_array_equal(out[0], gradients[0])
    assert "(f4[100000]; f4[100000])" in c.explain()


def test_values_keep_their_dtype():
    x = np.linspace(0.0, 1.0, 5, dtype=SINGLE)
    c = tg.compile(lambda x, s: (np.sum(x) * s, x * 0.1, x > 0.1 + s))
    for s in (SINGLE(0.5), SINGLE(0.25)):
        for _ in range(3):
            total, tenth, mask = c(x, s)
        assert type(total) is SINGLE and total == np.sum(x) * s
        np.testing.assert_array_equal(tenth, x * 0.1, strict=True)
        np.testing.assert_array_equal(mask, x > 0.1 + s, strict=True)


@pytest.mark.parametrize(
    "f, args, reason",
    [
        (lambda x: np.sum(x * np.arange(3.0)), (), "converts to float64, while its program"),
        (lambda x: np.sum(x.astype(float)), (), "converts to float64, while its program"),
        (lambda x, s: np.sum(x) * s, (0.5,), "of float32 and of float64"),
        (lambda x, k: np.where(k > 1, x, 0), (np.array([2**24 + 1]),), "beyond ±16777216"),
    ],
)
def test_what_runs_eagerly(f, args, reason):
    c, x = tg.compile(f), np.ones(3, SINGLE)
    with pytest.warns(RuntimeWarning, match=reason):
        found = c(x, *args)
    np.testing.assert_array_equal(found, f(x, *args), strict=True)


def test_a_constant_of_float64_is_compared_as_numpy_does():
    limit = np.array([0.1, 0.2, 0.3])
    x = limit.astype(SINGLE)
    c = tg.compile(lambda x: np.sum(x[x > limit]))
    for _ in range(3):
        assert c(x) == np.sum(x[x > limit])


def test_second_derivatives(rng):
    w = rng.normal(size=(5, 5)).astype(SINGLE)
    f = lambda x: np.sum(np.tanh(w @ x) ** 2 * x) + 0.5 * np.sum(x[1:] * x[:-1] ** 2)
    c, x, v = tg.compile(f), *rng.normal(size=(2, 5)).astype(SINGLE)
    for _ in range(3):
        found = c.hvp(x, v), c.hessian(x), c.jvp((x,), (v,))[1], c.jacobian(x)
    wide, along = x.astype(float), v.astype(float)
    wanted = tg.hvp(f)(wide, along), tg.hessian(f)(wide), tg.jvp(f, (wide,), (along,))[1]
    for a, b in zip(found, (*wanted, tg.grad(f)(wide)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert not any(one._reason for one in (c, *c._derived.values()))


def test_files(tmp_path, rng):
    x = rng.uniform(0.5, 1.5, 50).astype(SINGLE)
    c = tg.compile(lambda x: np.sum(np.cumsum(x) * np.sin(x)))
    for _ in range(3):
        wanted = c.value_and_grad(x)
    c.save(tmp_path / "f.npz")
    value, gradient = tg.load(tmp_path / "f.npz").value_and_grad(x)
    assert value == wanted[0]
    np.testing.assert_array_equal(gradient, wanted[1], strict=True)


def test_threads(rng):
    c = tg.compile(lambda x: np.sum(np.sin(x) * x))
    points = rng.normal(size=(64, 300)).astype(SINGLE)
    c.grad(points[0])
    c.grad(points[0])
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(c.grad, points))
    np.testing.assert_allclose(
        found, np.sin(points) + points * np.cos(points), rtol=1e-5, atol=1e-6
    )
