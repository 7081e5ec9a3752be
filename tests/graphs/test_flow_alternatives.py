"""Variables that are one thing or another: functions, methods, objects, strings, tuples."""

import numpy as np
import pytest
from assumed import needs
from read_graphs import Graphs

import tapegrad as tg
import tapegrad.math as math
from tapegrad._flow.reading.forms import Refused

RNG = np.random.default_rng(7)


def grow(v, a):
    return 1.1 * v + a


def shrink(v, a):
    return 0.7 * v - a * a


class Spring:
    def __init__(self, k):
        self.k, self.pulls = k, 0

    def pull(self, v):
        self.pulls += 1
        return self.k * v

    def push(self, v):
        return -self.k * v * v


class Damper(Spring):
    def pull(self, v):
        self.k = 0.9 * self.k
        return self.k * v * 2


def by_variable(a, x):
    step, total = grow, 0.0
    for v in x:
        total = step(total, a) + 0.1 * v
        step = shrink if total > 1 else grow
    return total


def by_closures(a, x):
    calls = 0.0

    def up(v):
        nonlocal calls
        calls = calls + a
        return v * a

    def down(v, factor=0.5):
        return v * factor + calls

    total = 1.0
    for v in x:
        f = up if v > 0 else down if v > -1 else (lambda u: u * a * a)
        total = f(total) + f(v)
    return total + calls


def by_list_and_dict(a, x):
    rules = [grow, shrink, lambda v, a: v * a]
    table = {"up": grow, "down": shrink}
    total = 0.5
    for k, v in enumerate(x):
        total = 0.5 * rules[k % 3](total, a) + table["up" if v > 0 else "down"](v, a)
    return total


def by_built_ins(a, x):
    total = 0.0
    for v in x:
        f = math.sin if v > 0 else math.exp if v > -1 else abs
        total = total + f(a * v)
    return total


def by_method(a, x):
    spring = Spring(a)
    move, total = spring.pull, 0.0
    for v in x:
        total = total + move(v)
        move = spring.push if total > 1 else spring.pull
    return total + spring.pulls * a


def by_object(a, x):
    """Two objects that change by the names of both, through a third name."""
    first, second = Spring(a), Damper(2 * a)
    total = 0.0
    for v in x:
        one = first if v > 0 else second
        total = total + one.pull(v)
        one.k = one.k + 0.1
        if v > 1:
            first, second = second, first
    return total + first.k * 2 - second.k + one.pulls


def state_machine(a, x):
    state, total = "idle", 0.0
    after = {"idle": "up", "up": "down", "down": "idle"}
    gain = {"idle": a, "up": 2 * a, "down": a * a}
    for v in x:
        if v > 0 or state == "up":
            state = after[state]
        if state in ("up", "down"):
            total = total * 0.5
        total = total + gain[state] * v
        gain[state] = gain[state] * 0.9
    return total if state != "idle" else total * a


def tuples(a, x):
    step, total = (0, 1), a
    for k, v in enumerate(x):
        if v > 0:
            step = (1, 0)
        elif v < -1:
            step = (k, 2)
        total = total + step[0] * v * a + step[1] * a
    return total


def nested(a, x):
    """Choices of choices, of which one statement reads two."""
    f, g, total = grow, shrink, 0.2

    def twice(h, v):
        return h(h(v, a), a)

    for v in x:
        if v > 0.5:
            f, g = g, f
        elif v < -0.5:
            g = f
        total = 0.3 * twice(f, total) + g(v, a) * (1 if f is g else 2)
    return total


@needs("numba-reader")
@pytest.mark.parametrize(
    "f",
    [
        *(by_variable, by_closures, by_list_and_dict, by_built_ins, by_method, by_object),
        *(state_machine, tuples, nested),
    ],
    ids=lambda f: f.__name__,
)
def test_alternatives(f):
    graphs = Graphs(f, [0.7, RNG.normal(size=6)], exact=False)
    for n in (1, 2, 3, 5, 17, 60):
        for _ in range(3):
            graphs.check(float(RNG.normal(0.5, 0.3)), RNG.normal(size=n))


def test_what_one_of_them_cannot_do():
    def f(a, x):
        kept = [a] if x[0] > 0 else Spring(a)
        return kept.pull(x[1]) if x[0] < 0 else kept[0] * x[1]

    def strings(a, x):
        return "low" if x[0] < 0 else "high"

    for g in (f, strings):
        with pytest.raises(Refused):
            Graphs(g, [0.7, np.ones(2)])


@needs("numba-reader")
@pytest.mark.parametrize("native", [False, True])
def test_compiled(native):
    c = tg.compile(by_object, native=native)
    for n in (4, 5, 6, 4, 4, 9, 30):
        x = RNG.normal(size=n)
        value, slope = c.value_and_grad(0.4, x)
        np.testing.assert_allclose((value, slope), tg.value_and_grad(by_object)(0.4, x), rtol=1e-11)
    assert c._flows.found
