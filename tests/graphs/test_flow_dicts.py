"""What may not be there: keys of dicts, attributes and variables that some ways do not set."""

import numpy as np
import pytest
from assumed import needs
from read_graphs import Graphs

import tapegrad.math as math
from tapegrad._flow.reading.forms import Refused

pytestmark = needs("numba-reader")

RNG = np.random.default_rng(8)


class Box:
    pass


def set_in_arms(a, x):
    state = {"level": a, "trend": 1.0}
    for v in x:
        if v > 1:
            state["high"] = state.get("high", 0) + 1
        elif v < 0:
            state["low"] = a * v
        if "low" in state and "high" in state:
            state["level"] = state["level"] + state["low"] * state["high"]
        state["level"] = 0.9 * state["level"] + v
    return state["level"] * (1 + state.get("high", 0)) + len(state) * a


def counted(a, x):
    counts, first = {}, {}
    for v in x:
        name = "up" if v > 0 else "down" if v > -1 else "far"
        counts[name] = counts.get(name, 0) + 1
        first.setdefault(name, a * v)
    total = len(counts) * a
    for name in ("up", "down", "far"):
        total = total + counts.get(name, 0) * first.get(name, a * a)
    return total * (2 if counts else 1)


def taken_out(a, x):
    kept = {1: a, (2, 3): a * a}
    total = 0.0
    for k, v in enumerate(x):
        if v > 0.5:
            total = total + kept.pop(1, 0.1 * v)
        elif v < -0.5 and (2, 3) in kept:
            del kept[(2, 3)]
        else:
            kept.update({1: a * v, "new": a})
        total = total + k * len(kept)
    return total + kept.get("new", 2.0) + kept.get((2, 3), a)


def of_either_kind(a, x):
    """A value that is missing, None, an int or a number."""
    found = {"best": None}
    for k, v in enumerate(x):
        if found["best"] is None or v > found["best"]:
            found["best"] = v
            found["at"] = k
        if v > 1:
            found["sum"] = found.get("sum", 0) + a * v
    best = found["best"]
    return (0.0 if best is None else best * a) + found.get("at", -1) * a + found.get("sum", 1)


def attributes_in_arms(a, x):
    box = Box()
    box.total = 0.0
    for v in x:
        if v > 0:
            box.last = a * v
            box.seen = True
        else:
            box.seen = False
        if box.seen:
            box.total = box.total + box.last
    return box.total + a


def set_by_the_loop(a, x):
    """Variables that only a round sets, read where there was one."""
    count, total = 0, 0.0
    for k, v in enumerate(x):  # noqa: B007
        count = count + 1
        if v > 0:
            best, step = v * a, math.sin
        elif count > 1 and x[0] > 0:
            total = total + best * step(v)
    if count:
        total = total + v * k * a
    return total


def objects_in_arms(a, x):
    """An object that is made on some ways alone."""
    total, made = 0.0 * a, False
    for v in x:
        if not made and v > 0:
            box, made = Box(), True
            box.scale, box.items = a * v, [v]
        if made:
            total = total + box.scale * v
            box.items.append(total)
    return total + (len(box.items) * a if made else a * a)


def gone_through(a, x):
    """The order of a dict is known while no way differs."""
    table = {"b": a}
    table["a"] = 2 * a
    if x[0] > 0:
        table["b"] = a * a
    total = 0.0
    for k, (name, value) in enumerate(table.items()):
        total = total + (k + 1) * value * (3 if name == "a" else 1)
    return total


@pytest.mark.parametrize(
    "f",
    [
        *(set_in_arms, counted, taken_out, of_either_kind, attributes_in_arms),
        *(set_by_the_loop, objects_in_arms, gone_through),
    ],
    ids=lambda f: f.__name__,
)
def test_right(f):
    graphs = Graphs(f, [0.7, RNG.normal(size=6)], exact=False)
    for n in (1, 2, 3, 5, 17, 60):
        for _ in range(3):
            graphs.check(float(RNG.normal(0.5, 0.3)), RNG.normal(size=n))


def test_what_is_missing_leaves_the_graph():
    def by_key(a, x):
        table = {}
        for v in x:
            if v > 0:
                table["s"] = a * v
        return table["s"] * a

    def by_attribute(a, x):
        box = Box()
        if x[0] > 0:
            box.s = a
        return box.s * a

    def by_variable(a, x):
        for v in x:
            s = a * v
        return s * a

    signs = np.array([-1.0, 1.0])
    for f, bad, why in (
        (by_key, -abs(signs), "key"),
        (by_attribute, signs, "attribute"),
        (by_variable, signs[:0], "variable"),
    ):
        graphs = Graphs(f, [0.7, signs], exact=False)
        graphs.check(0.5, -signs)
        graphs.check(0.5, bad, left=why)


def test_an_order_that_differs_is_not_gone_through():
    def f(a, x):
        table = {}
        table["a" if x[0] > 0 else "b"] = a
        table["b" if x[0] > 0 else "a"] = a * a
        total = 0.0
        for value in table.values():
            total = 0.5 * total + value
        return total

    def changed(a, x):
        table, total = {"a": a}, 0.0
        for name in table:
            if x[0] > 0:
                table["b"] = a
            total = total + table[name]
        return total

    for g in (f, changed):
        with pytest.raises(Refused, match="order"):
            Graphs(g, [0.7, np.ones(2)])
