"""tg.stop_gradient and `detach`: constants for every derivative, recorded, compiled, in graphs."""

import dataclasses

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg

V, W = np.array([0.7, -1.2, 1.9]), np.array([1.0, -2.0, 0.5])
AT = [V, -V, np.array([1.1, 2.2, 3.3]), np.array([-1.0, -2.0, 0.4])]


def weighted(x):
    return np.sum(tg.stop_gradient(x * x) * x)


def branching(x):
    total = 0.0
    for i in range(len(x)):
        weight = tg.stop_gradient(x[i])
        total = total + (weight * x[i] ** 2 if x[i] > 0 else weight * x[i])
    return total


def detaching(x):
    total = 0.0
    for i in range(len(x)):
        total = total + (x[i].detach() * x[i] ** 2 if x[i] > 0 else x[i].detach() * x[i])
    return total


def test_values_and_derivatives():
    assert weighted(V) == np.sum(V**3)
    np.testing.assert_allclose(tg.grad(weighted)(V), V * V, rtol=1e-15)
    np.testing.assert_array_equal(tg.hessian(weighted)(V), np.zeros((3, 3)))
    np.testing.assert_allclose(tg.jvp(weighted, (V,), (W,))[1], V * V @ W, rtol=1e-15)
    batch = tg.vmap(tg.grad(weighted))(np.stack([V, W]))
    np.testing.assert_allclose(batch, [V * V, W * W], rtol=1e-15)


def test_derivatives_inside_others():
    """The inner derivative has a constant in it, and so has the outer one."""
    inner = lambda x: np.sum(tg.grad(weighted)(x) * x)
    np.testing.assert_allclose(tg.grad(inner)(V), V * V, rtol=1e-15)


def test_complex_numbers():
    f = lambda z: np.sum(np.real(tg.stop_gradient(z) * z))
    z = V + 1j * W
    np.testing.assert_allclose(tg.grad(f)(z), np.conj(z), rtol=1e-15)


@dataclasses.dataclass
class Pair:
    a: object
    label: str


def test_nested_values():
    def f(x):
        held = tg.stop_gradient({"a": [x, 2.0], "b": (Pair(x * x, "square"), None)})
        assert held["b"][0].label == "square" and held["b"][1] is None and held["a"][1] == 2.0
        return np.sum(held["a"][0] * x + held["b"][0].a * x)

    np.testing.assert_allclose(tg.grad(f)(V), V + V * V, rtol=1e-15)


@pytest.mark.parametrize("value", [V, 2.0, [1, 2], "text", None, {"a": V}])
def test_plain_values_are_returned(value):
    assert tg.stop_gradient(value) is value


def test_compiled_functions_follow_the_values():
    c = tg.compile(weighted)
    for x in AT:
        np.testing.assert_allclose(c.grad(x), x * x, rtol=1e-15)
        np.testing.assert_array_equal(c.hessian(x), np.zeros((3, 3)))


@needs("numba-reader")
@pytest.mark.parametrize("function", [branching, detaching])
@pytest.mark.parametrize("native", [False, True])
def test_graphs(native, function):
    c = tg.compile(function, native=native, verify="never")
    partials = lambda x: np.where(x > 0, 2 * x * x, x)
    curves = lambda x: np.diag(np.where(x > 0, 2 * x, 0.0))
    for x in AT + AT:
        value, gradient = c.value_and_grad(x)
        np.testing.assert_allclose(value, np.sum(np.where(x > 0, x**3, x * x)), rtol=1e-15)
        np.testing.assert_allclose(gradient, partials(x), rtol=1e-15)
        np.testing.assert_allclose(c.hessian(x), curves(x), rtol=1e-15)
        np.testing.assert_allclose(tg.grad(function)(x), partials(x), rtol=1e-15)
        np.testing.assert_allclose(tg.hessian(function)(x), curves(x), rtol=1e-15)
    assert "without a graph" not in c.explain() and "graph" in c.explain()


@needs("numba-reader")
@pytest.mark.parametrize("function", [branching, detaching])
@pytest.mark.parametrize("native", [False, True])
def test_graphs_of_float32(native, function):
    c = tg.compile(function, native=native, verify="never")
    for x in [one.astype(np.float32) for one in AT + AT]:
        gradient = c.grad(x)
        assert gradient.dtype == np.float32
        np.testing.assert_array_equal(gradient, tg.grad(function)(x))
        np.testing.assert_allclose(gradient, np.where(x > 0, 2 * x * x, x), rtol=1e-6)
    assert "graph of" in c.explain()


def of_cell(x):
    y = x * 1.0
    held = y.detach()
    y[0] = 5.0
    return np.sum(held * x)


def of_sum(x):
    y = x * 1.0
    held = y.detach()
    y += x
    return np.sum(held * x)


def of_view(x):
    y = x * 1.0
    part, held = y[1:], y.detach()
    part *= x[0]
    return np.sum(held * x)


def of_argument(x):
    held = x[:2].detach()
    x[1] = 2.0 * x[0]
    return np.sum(held * x[1:])


def of_result(x):
    y = x * 1.0
    held = y.detach()
    y *= x
    return held[1]


def of_choice(x):
    y = x * 1.0
    held = y.detach()
    y -= 2.0
    return np.sum(x) if held[0] > -1.0 else np.sum(x * x)


def of_new_array(x):
    y = tg.zeros(3)
    held = y.detach()
    y[1] = x[1]
    return np.sum(held * x)


@pytest.mark.parametrize(
    "function",
    [of_cell, of_sum, of_view, of_argument, of_result, of_choice, of_new_array],
)
def test_what_is_written_after_detach_is_seen(function):
    """The detached tensor shares the memory; a program, where it has its own, would be wrong."""
    c = tg.compile(function)
    with pytest.warns(RuntimeWarning, match="whose result shares its memory"):
        c.value_and_grad(V.copy())
    for x in AT:
        value, gradient = tg.value_and_grad(function)(x.copy())
        found = c.value_and_grad(x.copy())
        assert found[0] == value
        np.testing.assert_array_equal(found[1], gradient)


@pytest.mark.parametrize("function", [of_cell, of_sum, of_view, of_new_array])
def test_what_is_written_after_detach_is_seen_in_batches(function):
    found = tg.vmap(tg.grad(function))(np.stack(AT))
    np.testing.assert_array_equal(found, [tg.grad(function)(x.copy()) for x in AT])


def test_what_is_detached_may_be_read_before_the_write():
    def f(x):
        y = x * 1.0
        total = np.sum(y.detach() * x)
        y[0] = 5.0
        return total + np.sum(y * x)

    c = tg.compile(f)
    for x in AT:
        found, wanted = c.value_and_grad(x), tg.value_and_grad(f)(x)
        assert found[0] == wanted[0]
        np.testing.assert_array_equal(found[1], wanted[1])
    assert "runs eagerly" not in repr(c)


@needs("numba-reader")
def test_arrays_in_graphs_are_refused():
    def f(x):
        y = tg.stop_gradient(x)
        return np.sum(y * x) if x[0] > 0 else np.sum(x)

    c = tg.compile(f)
    for x in AT + AT:
        np.testing.assert_allclose(c.grad(x), x if x[0] > 0 else np.ones(3), rtol=1e-15)
    assert "detach() or stop_gradient of" in c.explain()
