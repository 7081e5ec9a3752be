"""Lists in graphs whose items come and go at any place, and numbers taken out of arrays."""

import numpy as np
import pytest
from assumed import needs
from read_graphs import Graphs

import tapegrad.math as math
import tapegrad.numpy as tnp
from tapegrad._flow.reading.forms import Refused

pytestmark = needs("numba-reader")

RNG = np.random.default_rng(6)


def window(a, x):
    kept, total = [], 0.0 * a
    for v in x:
        kept.append(a * v)
        if len(kept) > 3:
            total = total * 0.5 + kept.pop(0) * kept[0]
    return total + sum(kept)


def popped_anywhere(a, x):
    kept = [a * v for v in x]
    total = 0.0 * a
    for k in range(len(x)):
        n = len(kept)
        if k % 2 and n > 2:
            total = total + kept.pop(k % n) * kept[-1]
        elif n > 1:
            total = total - kept.pop(-2) * k
    return total + sum([(i + 1) * v for i, v in enumerate(kept)])


def inserted(a, x):
    kept = []
    for k, v in enumerate(x):
        place = 0
        while place < len(kept) and kept[place] < a * v:
            place += 1
        kept.insert(place, a * v)
        kept.insert(-1 - k, a * 0.1)
        kept.insert(k + 50, a * a)
    return sum([math.sin(i) * v for i, v in enumerate(kept)])


def rows_of_lists(a, x):
    """Items of several numbers, and lists among the items."""
    pairs, rows = [], []
    for k, v in enumerate(x):
        pairs.insert(0, (a * v, k, v > 0))
        rows.insert(k // 2, [a, v * a])
        if v < -1:
            pairs.pop(0)
        if v > 1:
            rows.pop(k // 4).append(a)
    total = 0.0
    for value, k, is_positive in pairs:
        total = total + (value * k if is_positive else value * value)
    for k, row in enumerate(reversed(rows)):
        total = total + row[-1] * k
    return total


def sliced(a, x):
    kept = [a * v for v in x if v > -0.5]
    n = len(kept)
    first, last, odd = kept[:3], kept[-2:], kept[1 : n - 1 : 2]
    odd.append(a)
    both = first + last + kept[n // 2 :]
    both += odd
    both.extend(kept[:1])
    again = both.copy()
    if n > 2:
        again.append(a)
    return sum([(k + 1) * v * v for k, v in enumerate(again)]) + len(both)


def either_list(a, x):
    """Names that are one list or another."""
    low, high = [0.5 * a], [a, a * a]
    for v in x:
        chosen = low if v < 0 else high
        chosen.append(a * v)
        if v > 1:
            low, high = high, low
    return sum(low) * 2 - sum(high) + len(low)


def backwards(a, x):
    kept, total = [], 1.0 * a
    for v in x:
        if v > 0:
            kept.append(v * a)
        for k, u in enumerate(reversed(kept)):
            total = total + 0.1 * k * u
    return total


def rounding(a, x):
    total = 0.0 * a
    for v in x:
        k = int(abs(v) * 3) % len(x)
        total = total + a * x[k].item() + round(float(v), 2) * a + round(v, 1) * a * a
        total = total + round(a * v, 1) * 0.5
    return total + x[:1].item() * a


@pytest.mark.parametrize(
    "f",
    [window, popped_anywhere, inserted, rows_of_lists, sliced, either_list, backwards, rounding],
    ids=lambda f: f.__name__,
)
def test_lists(f):
    graphs = Graphs(f, [0.7, RNG.normal(size=6)], exact=False)
    for n in (6, 1, 2, 3, 17, 100):
        graphs.check(0.7, RNG.normal(size=n).round(1) + 0.013)  # no halves of decimals


def test_what_raises_leaves_the_graph():
    def f(a, x):
        kept = [a]
        for v in x:
            if v > 0:
                kept.append(v * a)
            else:
                a = a + kept.pop(1)
        return a

    graphs = Graphs(f, [0.7, np.ones(3)], exact=False)
    graphs.check(1.5, np.array([1.0, 2.0, -1.0]))
    graphs.check(1.5, np.array([1.0, -2.0, -1.0]), left="out of bounds")


def test_halves_leave_the_graph():
    """Python rounds the exact decimal number, which a product may round away."""
    graphs = Graphs(lambda a, x: a * round(x[0].item(), 1), [0.7, np.ones(1)])
    graphs.check(0.7, np.array([0.149]))
    for x in (0.15, 0.25, 1e15, np.nan):
        graphs.check(0.7, np.array([x]), left="hard to round")


@pytest.mark.usefixtures("not_entered")
def test_a_derivative_that_would_be_lost_is_refused():
    with pytest.raises(Refused, match="derivative"):
        Graphs(lambda a, x: float(a * x[0]) * a, [0.7, np.ones(2)])


@pytest.mark.usefixtures("not_entered")
@pytest.mark.parametrize(
    "f",
    [
        lambda a, x: tnp.sin(a).item() * x[0] * a,
        lambda a, x: [a.item() * v for v in x][0] + a * a,
        lambda a, x: x[int((2.0 * a).item())] * a * a,
    ],
)
def test_item_gives_the_number_alone(f):
    graphs = Graphs(f, [0.7, np.ones(2)])
    graphs.check(0.7, np.array([2.0, 3.0]))
    graphs.check(0.2, np.array([2.0, 3.0]))
