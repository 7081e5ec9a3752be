"""Reductions of arrays in graphs: along axes, with ties, as functions and methods."""

import numpy as np
import pytest
from assumed import needs
from read_graphs import Graphs

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad._flow.reading.forms import Refused

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4))
TIED = np.array([[1.0, 3.0, 3.0, -1.0], [2.0, 2.0, 2.0, 2.0], [0.0, -4.0, 3.0, -4.0]])
SIGN = np.array([[1, -1, 2, 0], [3, 3, -2, 5], [0, 0, 4, -1]])
INPUTS = [X, TIED, np.zeros((3, 4)), -TIED[::-1]]
AXES = ["", ", 0", ", 1", ", -1", ", axis=(0, 1)", ", axis=(1,)", ", axis=()"]


def function(expression):
    """A function of a matrix that weighs what an expression gives."""
    text = f"def f(x):\n    y = {expression}\n    return np.sum(y * y + 0.3 * y)\n"
    scope = {"np": tnp}
    exec(text, scope)
    return scope["f"]


@needs("numba-reader")
@pytest.mark.parametrize("keepdims", ["", ", keepdims=True"])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min"])
def test_along_axes(name, axis, keepdims):
    graphs = Graphs(function(f"np.{name}(x * x[0]{axis}{keepdims})"), [X], native=not keepdims)
    for x in INPUTS:
        graphs.check(x)


@needs("numba-reader")
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_of_numbers(name, axis):
    graphs = Graphs(function(f"np.{name}(x[0, 1], axis={axis}) * x[0]"), [X], native=False)
    for x in INPUTS:
        graphs.check(x)


@needs("numba-reader")
@pytest.mark.parametrize("axis", AXES[:4])
@pytest.mark.parametrize(
    "expression",
    [
        "1.5 * np.any(x > 1{axis}) * x[0, 0]",
        "(x > 2 * x[1]).all({bare}) * x[0, 1]",
        "x[0, 0] * np.argmax(x{axis})",
        "x[0, 0] * x.argmin({bare})",
        "x[0, 0] * np.argmax(x > 1{axis})",
        "x[0, 0] * np.sum(x > 1{axis})",
        "x[0, 0] * np.mean(x > 1{axis})",
        "(x * x[0]).max({bare}) + x.T.min()",
        "x[::-1, ::2].sum({bare}) * x[0, 0]",
        "np.sum(x.T, axis=1) * np.max(x, axis=1, keepdims=True)",
    ],
)
def test_without_derivative_and_as_methods(expression, axis):
    graphs = Graphs(function(expression.format(axis=axis, bare=axis[2:])), [X], native=False)
    for x in INPUTS:
        graphs.check(x)


@needs("numba-reader")
def test_any_lengths():
    """One graph for data of all lengths."""

    def f(p, x):
        best = tnp.max(p * x, axis=1)
        return tnp.sum(best * best) + tnp.sum(x[:, tnp.argmax(x[0])]) * p

    graphs = Graphs(f, [1.5, X], exact=False)
    for n, m in [(1, 1), (2, 5), (7, 3), (30, 20), (1, 300)]:
        graphs.check(1.5, RNG.normal(size=(n, m)))
        graphs.check(-0.5, RNG.integers(-2, 3, (n, m)))
    graphs.check(1.5, np.zeros((2, 0)), left="no elements")
    graphs.check(1.5, np.full((2, 2), np.nan), left="NaN")
    graphs.check(1.5, np.full((2, 2), np.inf), left="infinite")


@needs("numba-reader")
def test_no_elements():
    """Sums of nothing are 0, products 1, means NaN."""

    def f(p, x):
        return p * (tnp.sum(x) + tnp.prod(x) + tnp.sum(tnp.sum(x, axis=0)))

    graphs = Graphs(f, [1.5, X], exact=False)
    for shape in ((0, 3), (2, 0), (0, 0)):
        graphs.check(2.0, np.zeros(shape))
    mean = Graphs(lambda p, x: p * tnp.mean(x), [1.5, X], exact=False)
    assert np.isnan(mean.programs[0].run([1.5, np.zeros((0, 3))]).results[0])


@needs("numba-reader")
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "argmax", "argmin", "mean", "any"])
def test_integers(name):
    reduce = getattr(tnp, name)

    def f(p, k):
        return tnp.sum(p * reduce(k, axis=0) + reduce(k))

    graphs = Graphs(f, [1.5, SIGN], native=False)
    graphs.check(1.5, SIGN)
    graphs.check(0.5, np.zeros_like(SIGN))


@needs("numba-reader")
def test_numbers():
    Graphs(lambda x: tnp.sum(x[0, 0]) * tnp.max(x[0, 1]), [X]).check(X)


@pytest.mark.parametrize(
    "expression", ["np.sum(x, axis=int(x[0, 0]))", "np.sum(x, where=x > 0)", "np.max([x[0], x[1]])"]
)
def test_what_is_not_known_is_refused(expression):
    with pytest.raises(Refused):
        Graphs(function(expression), [X])


@needs("numba-reader")
@pytest.mark.parametrize("expression", ["np.sum(x, 2)", "np.max(x, axis=(0, 0))", "x.argmax((0,))"])
def test_what_numpy_refuses_leaves_the_graph(expression):
    f = function(f"{expression} if x[0, 0] > 5 else x[0, 0]")
    graphs = Graphs(f, [X])
    graphs.check(X)
    graphs.check(X + 9, left="raises")


@needs("numba-reader")
def test_value_iteration_has_a_graph():
    def f(rewards, p):
        values, change = tnp.zeros(3), 1.0
        while change > 1e-3:
            new = tnp.max(rewards + 0.5 * p * values, axis=1)
            change = tnp.max(abs(new - values))
            values = new
        return tnp.sum(values)

    c = tg.compile(f, argnums=(0, 1))
    for _ in range(12):
        args = RNG.normal(size=(3, 3)), float(RNG.uniform(0.2, 1.5))
        value, gradients = c.value_and_grad(*args)
        expected, slopes = tg.value_and_grad(f, (0, 1))(*args)
        np.testing.assert_allclose(value, expected, rtol=1e-11)
        for a, b in zip(gradients, slopes, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11)
    assert [flow.primal.left for flow in c._flows.found.values()] == [0]
