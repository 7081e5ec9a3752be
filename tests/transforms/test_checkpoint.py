"""`tg.checkpoint`: derivatives are those of the function; its intermediate values are not kept."""

import tracemalloc

import numpy as np
import pytest

import tapegrad as tg

P = np.array([0.3, 1.2, 0.7])
SCALE = 2.0


class Layer:
    def __init__(self, weights):
        self.weights = {"first": [weights]}

    def __call__(self, x):
        return np.tanh(self.weights["first"][0] * x)


def structured(q, s=1.0):
    return q * s, (np.sum(q), 3), {"product": q[0] * q[1], "name": "x", "mask": q > 0.5}


def by_structure(f):
    def total(p):
        a, (b, n), held = f(p, s=p[2])
        assert held["name"] == "x" and n == 3
        return np.sum(a[held["mask"]]) + n * b + held["product"]

    return total


def in_a_loop(wrap):
    def total(p):
        y = p
        for k in range(4):
            y = wrap(lambda y: np.sin(y * p[0] + k) + y)(y)
        return np.sum(y**2)

    return total


#: The function with `checkpoint`, or without, as it is given.
FUNCTIONS = {
    "an argument": lambda wrap: lambda p: wrap(lambda q: np.sum(np.sin(q) ** 2))(p),
    "a closure": lambda wrap: lambda p: np.sum(wrap(lambda y: np.exp(p * y))(p**2)),
    "a closure alone": lambda wrap: lambda p: wrap(lambda: np.prod(p))(),
    "in a loop": in_a_loop,
    "structures": lambda wrap: by_structure(wrap(structured)),
    "an object": lambda wrap: lambda p: np.sum(wrap(Layer(p))(p + 1.0)),
    "a global": lambda wrap: lambda p: wrap(lambda q: SCALE * np.sum(q**3))(p),
    "numbers": lambda wrap: lambda p: wrap(lambda a, b: a * b + a)(p[0], p[1]),
    "itself": lambda wrap: lambda p: np.sum(wrap(lambda q: q)(p) * p),
    "a branch": lambda wrap: lambda p: wrap(lambda q: q[0] ** 2 if q[1] > 1.0 else q[2])(p),
    "nested": lambda wrap: lambda p: wrap(lambda q: wrap(lambda r: np.sum(r**3))(q * p))(p),
    "a gradient inside": lambda wrap: lambda p: wrap(lambda q: tg.grad(np.prod)(q)[0] * q[0])(p),
    "complex": lambda wrap: lambda p: np.sum(np.abs(wrap(lambda z: z * z)(p + 1j * p[0])) ** 2),
}


def plain(f):
    return f


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_the_function(name):
    f, wanted = FUNCTIONS[name](tg.checkpoint), FUNCTIONS[name](plain)
    assert f(P) == wanted(P)
    for transform in (tg.value_and_grad, tg.hessian):
        for found, one in zip(transform(f)(P), transform(wanted)(P), strict=True):
            np.testing.assert_allclose(found, one, rtol=1e-13, atol=1e-14)
    direction = np.array([1.0, -2.0, 0.5])
    found = tg.jvp(f, (P,), (direction,))[1]
    np.testing.assert_allclose(found, tg.jvp(wanted, (P,), (direction,))[1], rtol=1e-13)
    third = tg.grad(lambda p: np.sum(tg.hessian(f)(p)))(P)
    np.testing.assert_allclose(
        third, tg.grad(lambda p: np.sum(tg.hessian(wanted)(p)))(P), rtol=1e-12
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_functions_call_it(name):
    c, wanted = tg.compile(FUNCTIONS[name](tg.checkpoint)), FUNCTIONS[name](plain)
    for k in range(4):
        p = P + 0.1 * k - 0.3 * (k == 2)
        np.testing.assert_allclose(c.grad(p), tg.grad(wanted)(p), rtol=1e-12)


def test_layers_and_dropout():
    layer, drop = tg.nn.Linear(3, 2), tg.nn.Dropout(0.5)
    x = tg.tensor(np.ones((4, 3)))
    found = []
    for f in (lambda x: drop(layer(x)), tg.checkpoint(lambda x: drop(layer(x)))):
        tg.manual_seed(3)
        layer.zero_grad()
        f(x).sum().backward()
        found.append((layer.weight.grad.numpy().copy(), layer.bias.grad.numpy().copy()))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other) and np.any(one)


def test_random_numbers_of_numpy_are_drawn_once():
    def f(p, wrap):
        np.random.seed(5)
        y = wrap(lambda q: q * np.random.normal(size=3))(p)
        return np.sum(y * np.random.normal(size=3))

    found = tg.grad(lambda p: f(p, tg.checkpoint))(P)
    assert np.array_equal(found, tg.grad(lambda p: f(p, plain))(P))
    after = np.random.normal()
    np.random.seed(5)
    np.random.normal(size=6)
    assert np.random.normal() == after


def test_arrays_are_not_kept():
    def step(y, w):
        for _ in range(20):
            y = np.tanh(y * w)
        return y

    def peak(wrap):
        f = wrap(step)

        def total(w):
            y = np.ones(20000)
            for _ in range(20):
                y = f(y, w)
            return np.sum(y)

        w = np.full(20000, 1.1)
        tg.grad(total)(w)
        tracemalloc.start()
        gradient = tg.grad(total)(w)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most, gradient

    (kept, wanted), (again, found) = peak(plain), peak(tg.checkpoint)
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    assert again < kept / 4


def test_nothing_recorded_is_a_plain_call():
    calls = []

    @tg.checkpoint
    def f(x):
        """The text."""
        calls.append(x)
        return 2.0 * x

    assert f(1.5) == 3.0 and type(f(1.5)) is float and f.__doc__ == "The text."
    with tg.no_grad():
        f(tg.tensor(1.0, requires_grad=True))
    assert len(calls) == 3


class Held:
    value = None


def test_values_that_are_not_found_are_refused():
    def f(p):
        Held.value = p
        made = tg.checkpoint(lambda q: np.sum(q * Held.value))(p)
        return made

    with pytest.raises(tg.DerivativeLost, match="checkpoint: <lambda> reads .* as an argument"):
        tg.grad(f)(P)
    Held.value = None


def test_functions_that_change_are_noticed():
    rng, scale = np.random.default_rng(0), np.ones(3)

    def changed(p):
        y = tg.checkpoint(lambda q: q * scale)(p)
        scale[0] += 1.0
        return np.sum(y)

    for f in (changed, lambda p: np.sum(tg.checkpoint(lambda q: q * rng.normal())(p))):
        with pytest.raises(RuntimeError, match="checkpoint: .* gives something else"):
            tg.grad(f)(P)
        with pytest.raises(RuntimeError, match="checkpoint: .* gives something else"):
            tg.jvp(f, (P,), (P,))


def test_writes_to_what_it_is_given_are_refused():
    def f(p):
        y = p * 1.0

        def double(y):
            y *= 2.0
            return y

        return np.sum(tg.checkpoint(double)(y))

    with pytest.raises(RuntimeError, match="checkpoint: double writes .* y.copy"):
        tg.grad(f)(P)


def test_errors_are_those_of_the_function():
    def fails(q):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tg.grad(lambda p: tg.checkpoint(fails)(p))(P)
