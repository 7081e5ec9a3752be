"""Compiled functions and recorded tensors: as arguments of every method, and read from elsewhere.

Each derivative is that of the function itself, or an error says what to do.
"""

import numpy as np
import pytest
from compiled import programs, same

import tapegrad as tg

RNG = np.random.default_rng(14)
V, W = RNG.normal(size=3), RNG.normal(size=3)
ROWS = RNG.normal(size=(7, 3))
refusing = pytest.mark.filterwarnings("ignore:tapegrad.compile.*without a program")


def f(x):
    return np.sum(np.sin(x) * x) * x[0]


def difference(g, x, v, h=1e-6):
    """The derivative of a function of NumPy's along v."""
    return (g(x + h * v) - g(x - h * v)) / (2 * h)


def check(g, x):
    """The gradient of a function that calls compiled ones, against differences of its values."""
    v = np.cos(1.0 + np.arange(x.size)).reshape(x.shape)
    wanted = difference(g, x, v)
    np.testing.assert_allclose(np.sum(tg.grad(g)(x) * v), wanted, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(tg.jvp(g, (x,), (v,))[1], wanted, rtol=1e-6, atol=1e-7)
    again = tg.compile(g)
    for _ in range(3):
        np.testing.assert_allclose(np.sum(again.grad(x) * v), wanted, rtol=1e-6, atol=1e-7)
    t = tg.tensor(x, requires_grad=True)
    g(t).backward()
    np.testing.assert_allclose(np.sum(t.grad.numpy() * v), wanted, rtol=1e-6, atol=1e-7)


# --- recorded arguments -------------------------------------------------------------------------

BATCHES = {
    "map": lambda c, x: np.sum(c.map(x)[0] * np.arange(7.0)),
    "gradients of map": lambda c, x: np.sum(c.map(x)[1] * ROWS),
    "map without": lambda c, x: np.sum(c.map(x, gradient=False) ** 2),
    "sum": lambda c, x: c.sum(x)[0],
    "gradients of sum": lambda c, x: np.sum(c.sum(x)[1] * ROWS),
    "sum without": lambda c, x: c.sum(x, gradient=False),
}


@pytest.mark.parametrize("used", [False, True], ids=["first use", "used before"])
@pytest.mark.parametrize("name", BATCHES)
def test_rows_that_are_recorded(name, used):
    c = tg.compile(f)
    if used:
        c.map(ROWS)
        c.map(ROWS)
    check(lambda x: BATCHES[name](c, x), ROWS)
    same(c.map(ROWS)[0], np.array([f(row) for row in ROWS]))


def test_shared_arguments_that_are_recorded():
    c = tg.compile(lambda w, x: np.tanh(w @ x) * x[0], argnums=(0, 1))
    check(lambda w: np.sum(c.map(w, ROWS, in_axes=(None, 0))[0]), W)
    check(lambda w: np.sum(c.sum(w, ROWS, in_axes=(None, 0))[1][0] * V), W)
    check(lambda x: np.sum(c.sum(W, x, in_axes=(None, 0))[1][0] * V), ROWS)
    check(lambda x: c.sum(W, [x[0] * ROWS[1], ROWS[2]], in_axes=(None, 0))[0], V)


def test_rows_in_float32_that_are_recorded():
    c = tg.compile(f)
    found = tg.grad(lambda x: np.sum(c.map(x)[0]))(ROWS.astype("f4"))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, c.map(ROWS)[1], rtol=2e-5, atol=1e-5)


def test_nothing_is_recorded_inside_no_grad():
    c, t = tg.compile(f), tg.tensor(ROWS, requires_grad=True)
    with tg.no_grad():
        values, gradients = c.map(t)
    same([values, gradients], list(c.map(ROWS)), 0)


METHODS = {
    "call": lambda c, x: c(x),
    "value_and_grad": lambda c, x: c.value_and_grad(x)[0] * 2.0 + np.sum(c.value_and_grad(x)[1]),
    "grad": lambda c, x: np.sum(c.grad(x) * W),
    "jacobian": lambda c, x: np.sum(c.jacobian(x) * W),
    "hessian": lambda c, x: np.sum(c.hessian(x) * np.outer(V, W)),
    "hvp": lambda c, x: np.sum(c.hvp(x, W) * V),
    "vector of hvp": lambda c, x: np.sum(c.hvp(V, x) * W),
    "jvp": lambda c, x: c.jvp((x,), (W,))[1],
    "tangent of jvp": lambda c, x: c.jvp((V,), (x,))[1],
    "vjp": lambda c, x: np.sum(c.vjp(x)[1](2.0)[0] * W),
    "adjoint of vjp": lambda c, x: np.sum(c.vjp(V)[1](x[0])[0] * W),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_with_recorded_arguments(name):
    check(lambda x: METHODS[name](tg.compile(f), x), V)
    c = tg.compile(f)
    check(lambda x: METHODS[name](c, x), V)


def test_what_takes_no_recorded_arguments_says_so():
    c, t, out = tg.compile(f), tg.tensor(V, requires_grad=True), np.zeros(3)
    for _ in range(3):
        with pytest.raises(TypeError, match="out takes plain gradients.*call it without out"):
            c.value_and_grad(t, out=out)
        with pytest.raises(TypeError, match="out takes plain gradients"):
            tg.grad(lambda x: np.sum(c.grad(x, out=out)))(V)
        with pytest.raises(TypeError, match="numba was given a recorded tensor"):
            c.numba(t)
        c.grad(V)


# --- recorded tensors read from elsewhere -------------------------------------------------------


@refusing
@pytest.mark.parametrize("name", [*METHODS, "map", "sum", "gradients of sum"])
def test_recorded_tensors_read_from_elsewhere(name):
    """From the first call on there is a derivative to them."""

    def g(t):
        c = tg.compile(lambda x: np.sum(x * x * t) * t[0] + x[0] ** 3)
        if name in BATCHES:
            return BATCHES[name](c, ROWS)
        return METHODS[name](c, V) + METHODS[name](c, V)

    check(g, W)


@refusing
@pytest.mark.parametrize("method", ["value_and_grad", "__call__"])
def test_first_and_later_calls_are_alike(method):
    t = tg.tensor(W, requires_grad=True)
    function = lambda x: np.sum(x * t * t)
    c = tg.compile(function)
    for _ in range(3):
        t.grad = None
        found = getattr(c, method)(V)
        value = found[0] if method == "value_and_grad" else found
        value.backward()
        np.testing.assert_allclose(t.grad.numpy(), 2 * V * W, rtol=1e-13)
    with pytest.raises(TypeError, match="out takes plain gradients"):
        c.grad(V, out=np.zeros(3))
    with pytest.raises(ValueError, match="from Numba: it reads a recorded tensor"):
        c.numba(V)
    with pytest.raises(ValueError, match="cannot be saved: it reads a recorded tensor"):
        c.save("nowhere.npz")


@refusing
def test_a_recorded_tensor_given_back_as_it_is():
    t = tg.tensor(W, requires_grad=True)
    c = tg.compile(lambda x: (np.sum(x), t[0] * 2.0, t))
    for _ in range(2):
        t.grad = None
        _, double, same_one = c(V)
        (double + np.sum(same_one)).backward()
        assert t.grad.tolist() == [3.0, 1.0, 1.0]


@refusing
def test_a_tensor_that_is_recorded_from_the_second_call_on():
    """The comparison of the second call sees it."""
    held = [W]
    c = tg.compile(lambda x: np.sum(x * held[0]))
    same(c(V), V @ W)

    def g(t):
        held[0] = t
        return c(V)

    for _ in range(2):
        np.testing.assert_allclose(tg.grad(g)(W), V, rtol=1e-13)
    held[0] = W
    same(c(V), V @ W)


@refusing
def test_a_recorded_tensor_read_at_some_rows_only():
    def g(t):
        c = tg.compile(lambda x: np.sum(x * t) if x[0] > 0.0 else np.sum(x * x))
        return np.sum(c.map(ROWS)[0])

    assert ROWS[:, 0].min() < 0.0 < ROWS[:, 0].max()
    np.testing.assert_allclose(tg.grad(g)(W), ROWS[ROWS[:, 0] > 0.0].sum(axis=0), rtol=1e-12)


def test_tensors_that_do_not_reach_the_result_cost_no_program():
    t = tg.tensor(W, requires_grad=True)
    c = tg.compile(lambda x: np.sum(x * x))
    (t * 2.0).sum().backward()
    same(tg.grad(lambda x: np.sum(x) * c(V))(W), np.full(3, V @ V))
    assert programs(c) == 1 and c._reason is None
