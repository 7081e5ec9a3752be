"""Derivatives of functions of numbers in programs: compiled code writes their choices as rows.

A function of many numbers chooses at each; its derivatives are recorded at one input and called at
others, where all choices come out otherwise.
"""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._derivatives.recorded_reverse import Differentiation

inf = np.inf


def warped(x, y):
    """The cost of aligning two series: a table with a border of infinities."""
    table = [[inf] * (len(y) + 1) for _ in range(len(x) + 1)]
    table[0][0] = 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            before = np.minimum(np.minimum(table[i][j + 1], table[i + 1][j]), table[i][j])
            table[i + 1][j + 1] = (x[i] - y[j]) ** 2 + before
    return table[-1][-1]


def path_of(x, y):
    """The pairs that the cheapest alignment passes, where it is the only one."""
    n, m = len(x), len(y)
    table = np.full((n + 1, m + 1), inf)
    table[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            table[i + 1, j + 1] = (x[i] - y[j]) ** 2 + min(
                table[i, j + 1], table[i + 1, j], table[i, j]
            )
    i, j, pairs = n, m, []
    while i:
        pairs.append((i - 1, j - 1))
        i, j = min([(i - 1, j), (i, j - 1), (i - 1, j - 1)], key=lambda place: table[place])
    return pairs


def derivatives(x, y, v):
    """Gradient for both series, and the Hessian for x times v."""
    of_x, of_y, along = np.zeros(len(x)), np.zeros(len(y)), np.zeros(len(x))
    for i, j in path_of(x, y):
        of_x[i] += 2 * (x[i] - y[j])
        of_y[j] -= 2 * (x[i] - y[j])
        along[i] += 2 * v[i]
    return of_x, of_y, along


def series(n):
    rng = np.random.default_rng(n)
    return [rng.normal(size=(2, n)).cumsum(axis=1) for _ in range(4)], rng.normal(size=n)


@pytest.mark.parametrize("native", [False, True])
def test_table_with_a_border_of_infinities(native):
    pairs, v = series(7)
    c = tg.compile(warped, argnums=(0, 1), native=native, verify="never")
    d = tg.compile(warped, native=native, verify="never")
    for x, y in [pairs[0], *pairs, -pairs[0], pairs[1][:, ::-1]]:
        of_x, of_y, along = derivatives(x, y, v)
        value, back = c.vjp(x, y)
        np.testing.assert_allclose(np.concatenate(back(1.0)), np.concatenate([of_x, of_y]))
        np.testing.assert_allclose(d.hvp(x, v, y), along)
        np.testing.assert_allclose(d.hessian(x, y) @ v, along)
        c.wait(), d.wait()
    assert all(one._reason is None for f in (c, d) for one in f._derived.values())


def test_rules_in_python_are_for_arrays(monkeypatch):
    """Compiled code records the adjoints of all numbers, also where products are settled."""
    called = []
    rule = Differentiation.rule
    monkeypatch.setattr(
        Differentiation, "rule", lambda self, number: (called.append(number), rule(self, number))
    )
    (x, y), v = series(12)[0][0], series(12)[1]
    c = tg.compile(lambda x: warped(x, y), native=False, verify="never")
    np.testing.assert_allclose(c.hvp(x, v), derivatives(x, y, v)[2])
    assert len(called) < 12  # of 144 cells, with six operations each


# --- choices in derivatives of any order ----------------------------------------------------------

FUNCTIONS = {
    "larger": lambda x, y: np.maximum(x, y) ** 3 * x + np.fmax(x * y, y),
    "smaller": lambda x, y: np.minimum(x * x, y) ** 2 + np.fmin(x, 0.5) ** 3,
    "powers": lambda x, y: np.abs(x) ** y + np.power(x * x, y * y),
    "hypot": lambda x, y: np.hypot(x, y) ** 3 * x,
    "logaddexp": lambda x, y: np.logaddexp(x * y, y) ** 2,
    "sinc": lambda x, y: np.sinc(x) * y + np.sinc(x * y * 0.05),
    "roots": lambda x, y: np.maximum(np.sqrt(np.abs(x)) * y, 0.0) ** 2,
}
CALLS = [(1.3, -0.7), (-0.7, 1.3), (0.4, 0.4), (0.0, 0.9), (0.8, 0.0), (-2.0, -2.1), (0.01, 3.0)]


def third(f):
    """A derivative of order three, of a function of two numbers."""
    first = lambda u: tg.grad(lambda t: f(t[0], t[1]))(u)
    second = lambda u: tg.grad(lambda t: first(t)[0] * t[1])(u)
    return lambda u: tg.grad(lambda t: np.sum(second(t) * u))(u)


def forward_of_reverse(f):
    first = tg.grad(lambda t: f(t[0], t[1]))
    return lambda u: tg.jvp(first, (u,), (np.array([0.3, -0.8]),))[1]


def reverse_of_forward(f):
    along = lambda t: tg.jvp(lambda s: f(s[0], s[1]) ** 2, (t,), (t,))[1]
    return lambda u: tg.grad(along)(u)


@pytest.mark.parametrize("order", [third, forward_of_reverse, reverse_of_forward])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_derivatives(name, order):
    f = order(FUNCTIONS[name])
    total = lambda u: np.sum(np.sin(f(u)))
    c, d = (tg.compile(g, native=False, verify="never") for g in (f, total))
    with np.errstate(all="ignore"):
        for u in map(np.array, [CALLS[0], *CALLS]):
            np.testing.assert_allclose(c(u), f(u), rtol=1e-9, atol=1e-9)
            gradient = tg.grad(total)(u)
            np.testing.assert_allclose(d.value_and_grad(u)[1], gradient, rtol=1e-8, atol=1e-8)
    assert c._reason is None
    assert d._reason is None
