"""Which ways of giving arguments reach the graph of a function, attributes of methods too."""

import collections
import dataclasses
import functools
import warnings

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg

RNG = np.random.default_rng(7)


def loop(a, x, k=1.0):
    total = 0.0 * a
    for v in x:
        total = total + (a * v if v > 0 else a * a * v * k)
    return total


def by_keyword(a, *, x, k=2.0):
    return loop(a, x, k)


def by_any_keyword(a, **options):
    return loop(a, options["x"])


@dataclasses.dataclass
class Pair:
    a: float
    w: np.ndarray
    name: str = "pair"


Named = collections.namedtuple("Named", "a w")


def of_pair(pair, x):
    total = 0.0 * pair.a
    for v in x:
        total = total + (pair.a * v * pair.w[0] if v > 0 else pair.a * pair.w[1] * v)
    return total


def of_tree(tree, x):
    total = 0.0
    for v in x:
        total = total + (tree[0][0] * v if v > 0 else tree[1]["b"][0] * v * tree[0][0])
    return total


class Model:
    kind = "linear"

    def __init__(self, k, weights):
        self.k, self.weights, self.seen = k, weights, []

    def slope(self, v):
        return self.weights["w"][0] * v if self.kind == "linear" else v

    def loss(self, a, x):
        total = 0.0 * a
        for v in x:
            total = total + (a * self.slope(v) if v > 0 else a * a * v * self.k)
        return total

    __call__ = loss


def x(n=5):
    return RNG.normal(size=n)


MODEL = Model(2.0, {"w": np.array([1.5])})
#: What is compiled, with which options, what gives the arguments, whether there is a graph.
TABLE = {
    "floats and arrays": (loop, {}, lambda: ((1.5, x()), {}), True),
    "by name": (loop, {}, lambda: ((1.5,), {"x": x(), "k": 3.0}), True),
    "an int": (loop, {}, lambda: ((2, x()), {}), True),
    "fixed ints": (loop, {}, lambda: ((1.5, x(), 2), {}), True),
    "arrays of ints": (loop, {}, lambda: ((1.5, RNG.integers(-3, 3, size=5)), {}), True),
    "lists": (loop, {}, lambda: ((1.5, list(x())), {}), True),
    "keywords only": (by_keyword, {}, lambda: ((1.5,), {"x": x()}), True),
    "any keywords": (by_any_keyword, {}, lambda: ((1.5,), {"x": x()}), True),
    "argnums": (loop, {"argnums": (1, 0)}, lambda: ((1.5, x()), {}), True),
    "argnames": (loop, {"argnames": "a"}, lambda: ((1.5, x()), {}), True),
    "several argnames": (loop, {"argnames": ("k", "a")}, lambda: ((1.5, x()), {"k": 2.0}), True),
    "argnames of keywords": (
        *(by_keyword, {"argnames": "k"}),
        *(lambda: ((1.5,), {"x": x(), "k": 2.0}), True),
    ),
    "a tree": (of_tree, {}, lambda: ((((1.5,), {"b": np.ones(2)}), x()), {}), True),
    "a dataclass": (of_pair, {}, lambda: ((Pair(1.5, np.ones(2)), x()), {}), True),
    "a namedtuple": (of_pair, {}, lambda: ((Named(1.5, np.ones(2)), x()), {}), True),
    "a method": (MODEL.loss, {}, lambda: ((1.5, x()), {}), True),
    "an object": (MODEL, {}, lambda: ((1.5, x()), {}), True),
    "a gradient": (tg.grad(loop), {}, lambda: ((1.5, x()), {}), True),
    "a partial": (functools.partial(loop, k=2.0), {}, lambda: ((1.5, x()), {}), True),
}


def leaves(tree):
    if isinstance(tree, Pair):
        return [tree.a, tree.w]
    if isinstance(tree, dict):
        return [leaf for one in tree.values() for leaf in leaves(one)]
    return [leaf for one in tree for leaf in leaves(one)] if isinstance(tree, tuple) else [tree]


@needs("numba-reader")
@pytest.mark.parametrize("name", TABLE)
def test_which_arguments_reach_the_graph(name):
    f, options, arguments, has_graph = TABLE[name]
    c = tg.compile(f, **options)
    eager = loop if name == "a gradient" else f
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(6):
            args, kwargs = arguments()
            found = c.value_and_grad(*args, **kwargs)
            wanted = tg.value_and_grad(eager, **options)(*args, **kwargs)
            for one, two in zip(leaves(found), leaves(wanted), strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-10)
    assert ("a graph of" in c.explain()) == has_graph, c.explain()


@needs("numba-reader")
@pytest.mark.parametrize("compiled", [Model.loss, None])
def test_attributes_may_change(compiled):
    """Floats, arrays, strings, and those of other instances."""
    model = Model(2.0, {"w": np.array([1.5])})
    c = tg.compile(model if compiled is None else model.loss)
    for change in range(12):
        args = (1.5 + change, x())
        found, wanted = c.value_and_grad(*args), tg.value_and_grad(model.loss)(*args)
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
        np.testing.assert_allclose(c.hessian(*args), tg.hessian(model.loss)(*args), rtol=1e-9)
        if change % 4 == 1:
            model.k += 1.0
        elif change % 4 == 2:
            model.weights["w"][0] -= 0.5
        elif change % 4 == 3:
            model.kind = "flat" if change == 3 else "linear"
    assert "a graph of" in c.explain()
    rows = RNG.normal(size=(20, 3))
    values, _ = c.map(np.ones(20), rows)
    np.testing.assert_allclose(values, [model.loss(1.0, row) for row in rows], rtol=1e-10)


def test_instances_share_graphs_and_not_attributes():
    class Other(Model):
        shift = 0.0

        @tg.compile
        def loss(self, a, x):
            total = 0.0 * a
            for v in x:
                total = total + (a * v if v > 0 else (a * self.k if v > -1 else self.shift * a))
            return total

    first, second = Other(2.0, {}), Other(3.0, {})
    second.shift = 5.0
    eager = Other.loss._f
    for k in range(20):
        for one in (first, second):
            given = x() if k < 5 else 2 * x()
            found = one.loss.value_and_grad(1.5, given)
            wanted = tg.value_and_grad(lambda a, x, one=one: eager(one, a, x))(1.5, given)
            np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("change", ["self.k = 7.0", "self.seen.append(1.0)"])
def test_methods_that_write_on_one_path_run_eagerly(change):
    scope = {}
    text = "def loss(self, a, x):\n    total = 0.0 * a\n    for v in x:\n        if v > 1.5:\n"
    text += (
        f"            {change}\n        total = total + (a * v if v > 0 else a * a * v * self.k)\n"
    )
    exec(text + "    return total\n", scope)
    model, other = Model(2.0, {}), Model(2.0, {})
    c = tg.compile(scope["loss"].__get__(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(8):
            given = x() if k < 6 else x() + 2.0
            if k < 6:
                given = np.minimum(given, 1.0)
            found = c.value_and_grad(1.5, given)
            wanted = tg.value_and_grad(lambda a, x: scope["loss"](other, a, x))(1.5, given)
            np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert model.k == other.k and len(model.seen) == len(other.seen)


@needs("numba-reader")
def test_an_int_that_is_elsewhere_makes_another_graph():
    """Calls with the same numbers, of which another one is fixed."""

    def weighted(x, a, b):
        total = 0.0
        for v in x:
            total = total + (v * v * a if v > 0 else v * b)
        return total

    c = tg.compile(weighted)
    for x in np.random.default_rng(0).normal(size=(4, 5)):
        for a, b in ((3, 1.5), (1.5, 3), (3, 1.5)):
            assert c(x, a, b) == pytest.approx(weighted(x, a, b), rel=1e-14)
    assert len(c._flows.found) == 2
