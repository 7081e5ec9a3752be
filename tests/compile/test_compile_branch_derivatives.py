"""Derivatives of compiled functions whose way changes, by the graphs of these functions."""

import itertools
import warnings

import numpy as np
import pytest
from assumed import needs
from extent import some

import tapegrad as tg
import tapegrad.numpy
from tapegrad._core.tensor.pytree import tree_leaves

pytestmark = needs("numba-reader")

RNG = np.random.default_rng(1)


def robust(p, x, y):
    total = 0.0
    for i in range(len(x)):
        r = abs(y[i] - p[0] * x[i] - p[1])
        total = total + (r * r if r < 1 else 2 * r - 1)
    return total


def nested(params, x):
    total = params["b"] * params["b"]
    for v in x:
        total = total + (params["a"][0] * v if v > 0 else params["a"][1] ** 2 * v * params["b"])
    return total


def several(a, x):
    count, low, high = 0, 0.0 * a, a * x[0]
    for v in x:
        if v > 0:
            count += 1
            high = high + a * a * v
        else:
            low = low + np.sin(a * v)
    return {"high": high, "rest": (count, low, 3)}


def listed(a, x):
    return [a * x[0] if x[0] > 0 else a**3, x[1] * x[2] * a]


def matrix(m):
    total = 0.0
    for i in range(2):
        for j in range(3):
            total = total + (m[i, j] ** 3 if m[i, j] > 0 else m[i, j] * m[0, j])
    return total


def steps(a):
    x, n = 1.0 + 0.0 * a, 0
    while abs(x * x - a) > 1e-12:
        x, n = 0.5 * (x + a / x), n + 1
    return x


def vectors(a, x):
    """Arrays, of which there are more than inputs, and numbers."""
    z, n = np.exp(x * a), 0
    for v in x:
        z, n = (z * 1.5 * a, n + 1) if v > 0 else (np.sin(z) + a * v, n)
    return {"z": z, "rest": (n, np.sum(z) * a, z[:2])}


def trajectory(p):
    x, y = p[0], p[1]
    found = tapegrad.numpy.zeros((4, 2))
    for k in range(4):
        if x > y:
            x = x - 0.1 * x * y
        else:
            y = y - 0.2 * x * x
        found[k, 0] = x
        found[k, 1] = y
    return found


def squares(x):
    """As many results as inputs, one of which has no element."""
    y = x * x if x[0] > 0 else x * x[1]
    return y, y[:0]


def points(*shapes):
    """Arguments of such shapes; those of a dict are nested."""

    def made(shape):
        if isinstance(shape, dict):
            return {key: made(one) for key, one in shape.items()}
        return RNG.normal(size=shape) if shape else float(RNG.normal())

    return [tuple(map(made, shapes)) for _ in range(10)]


#: Function, argnums, calls.
CASES = {
    "data": (robust, 0, points((2,), (7,), (7,))),
    "several argnums": (robust, (0, 2), points((2,), (5,), (5,))),
    "nested": (nested, 0, points({"a": (2,), "b": ()}, (6,))),
    "structured results": (several, (0, 1), points((), (4,))),
    "a list": (listed, (1, 0), points((), (3,))),
    "a matrix": (matrix, 0, points((2, 3))),
    "arrays and numbers": (vectors, (1, 0), points((), (3,))),
    "an array of two axes": (trajectory, 0, points((2,))),
    "an array without elements": (squares, 0, points((3,))),
    "a loop without a count": (steps, 0, [(float(a),) for a in (2, 50, 3, 700, 0.01, 8)]),
}
MANY = (several, listed, vectors, trajectory, squares)


def same(found, expected):
    found, expected = tree_leaves(found), tree_leaves(expected)
    assert [place for place, _ in found] == [place for place, _ in expected]
    for (_, a), (_, b) in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def like(tree):
    """Numbers in the structure of a tree."""
    if isinstance(tree, dict):
        return {key: like(one) for key, one in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(map(like, tree))
    return RNG.normal(size=np.shape(tree)) if np.ndim(tree) else float(RNG.normal())


def recordings(c):
    own = sum(family.recorded for family in c._families.found.values())
    return own + sum(map(recordings, c._derived.values()))


def compare(c, f, argnums, args, transform):
    if transform in ("jacobian", "hessian"):
        same(getattr(c, transform)(*args), getattr(tg, transform)(f, argnums)(*args))
    elif transform == "hvp":
        v = like(args[0])
        same(c.hvp(args[0], v, *args[1:]), tg.hvp(f)(args[0], v, *args[1:]))
    elif transform == "jvp":
        tangents = like(args)
        same(c.jvp(args, tangents), tg.jvp(f, args, tangents))
    else:
        (value, back), (expected, eager_back) = c.vjp(*args), tg.vjp(f, *args)
        same(value, expected)
        adjoint = like(expected)
        same(back(adjoint), eager_back(adjoint))


#: Ways to compile, neighbours with and without native code.
WAYS = [*itertools.product(["jacobian", "hessian", "hvp", "jvp", "vjp"], [False, True])]


@pytest.mark.parametrize(
    ("name", "transform", "native"),
    [(name, *way) for k, name in enumerate(CASES) for way in some(WAYS, k, 4)],
)
def test_one_graph_serves_all_ways(name, transform, native):
    f, argnums, calls = CASES[name]
    if transform in ("hessian", "hvp") and f in MANY:
        pytest.skip("a result that is no number")
    c = tg.compile(f, argnums=argnums, native=native)
    for args in calls[:5]:
        compare(c, f, argnums, args, transform)
    assert c._flows.branches, "the calls take different ways"
    before = recordings(c)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for args in calls[5:]:
            compare(c, f, argnums, args, transform)
        c.wait()
        for args in calls:
            compare(c, f, argnums, args, transform)
    assert recordings(c) == before


@pytest.mark.parametrize("transform", ["jvp", "vjp"])
def test_one_graph_serves_data_of_all_lengths(transform):
    """Though products are with the derivatives with respect to data, too."""
    c = tg.compile(robust)
    for n in (3, 5, 4, 1, 0, 70, 5):
        for _ in range(2):
            args = RNG.normal(size=2), RNG.normal(size=n), RNG.normal(size=n)
            compare(c, robust, 0, args, transform)
    assert len(c._derived["argnums=(0, 1, 2)"]._flows.found) == 1
