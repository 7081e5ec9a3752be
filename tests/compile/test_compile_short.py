"""The short way of calls for values: the same results and types, guards and checks as before."""

import collections
import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
from assumed import needs
from compiled import HOT, by_ways, programs

import tapegrad as tg
from tapegrad._core.tensor.pytree import tree_leaves
from tapegrad._program.dispatch import recorded_call
from tapegrad._program.dispatch.signature import structure

pytestmark = pytest.mark.usefixtures("native_when_hot")

X = np.array([0.5, -1.0, 2.0])


def called(f, *args, times=4, **settings):
    """Results of several calls; the first record and verify, the last are short if they can be."""
    c = tg.compile(f, **settings)
    return c, [c(*args) for _ in range(times)]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x * x).sum(),
        lambda x: (x * x).sum(keepdims=True),
        lambda x: ((x * x).sum(),),
        lambda x: {"value": x[0] * x[1]},
        lambda x: x[0] * 2.0 > 0.0,
        lambda x: x * 2.0,
        lambda x: 3.0,
    ],
)
def test_results_are_the_same_each_time(f):
    _, found = called(f, X)
    for one in found[1:]:
        assert type(one) is type(found[0])
        np.testing.assert_equal(one, found[0])


def test_numbers_are_short():
    c, found = called(lambda x, a: (x * a).sum(), X, 2.0)
    assert c._fast_value is not None and c._fast is None
    assert found == [3.0] * 4
    assert c(X, 3.0) == 4.5
    assert c(X, 2) == 3.0  # an int goes the long way
    assert c(X, a=2.0) == 3.0  # and so does a name


@pytest.mark.parametrize("kind", [float, np.float64, np.array])
def test_numbers_of_other_kinds_are_short(kind):
    """A number that is differentiated may be NumPy's, or an array without axes."""
    c = tg.compile(lambda a, x: (x * a * a).sum(), argnums=(0, 1))
    for _ in range(3):
        c.value_and_grad(0.5, X), c(0.5, X)
    assert c._fast.value_and_grad((kind(2.0), X)) is not None
    value, (slope, gradient) = c.value_and_grad(kind(2.0), X)
    assert (value, slope, type(slope)) == (6.0, 6.0, float)
    np.testing.assert_array_equal(gradient, 4.0 * np.ones(3))
    assert c(kind(3.0), X) == 13.5


def test_arrays_without_axes_that_are_one():
    def f(a, b):
        a += 1.0
        return a * b

    one, other = np.array(2.0), np.array(2.0)
    for pairs in ([(one, other), (one, one)], [(one, one), (one, other)]):
        c = tg.compile(f, argnums=(0, 1))
        for a, b in pairs * 3:
            assert c.value_and_grad(a, b) == tg.value_and_grad(f, argnums=(0, 1))(a, b)


@pytest.mark.parametrize("verify", ["once", "always", "never"])
def test_other_arguments(verify):
    def f(x):
        return np.sin(x).sum()

    c, _ = called(f, X, verify=verify)
    for x in (X[::-1], X[:2], np.arange(3), np.array(0.5), 0.25):
        np.testing.assert_allclose(c(x), f(x), rtol=1e-6)
    assert (c._fast_value is None) == (verify == "always")


@pytest.mark.parametrize("gradient", [False, True])
def test_a_structure_is_not_what_it_holds(gradient):
    """An array after a tuple of one array of the same shape is another kind of call."""

    def f(p):
        return (p[0] * 2.0).sum()

    c = tg.compile(f)
    call = c.value_and_grad if gradient else c
    for _ in range(3):
        call((X,))
    found = call(X)
    if gradient:
        np.testing.assert_array_equal(found[1], [2.0, 0.0, 0.0])
    assert (found[0] if gradient else found) == 1.0


def model(parameters, data):
    hidden = np.tanh(data @ parameters["first"][0] + parameters["first"][1])
    return ((hidden @ parameters["second"]) ** 2).sum() * parameters["scale"]


def parameters(rng):
    first = (rng.normal(size=(3, 4)), rng.normal(size=4))
    return {"first": first, "second": rng.normal(size=4), "scale": float(rng.normal())}


@pytest.mark.parametrize("argnums", [0, 1, (1, 0), (0,)])
def test_structures_of_arguments(argnums, rng):
    c, plain = tg.compile(model, argnums=argnums), tg.value_and_grad(model, argnums)
    for _ in range(4):
        given = parameters(rng), rng.normal(size=(5, 3))
        value, gradient = c.value_and_grad(*given)
        right, wanted = plain(*given)
        assert value == pytest.approx(right, rel=1e-12)
        assert structure(gradient) == structure(wanted)
        for (_, a), (_, b) in zip(tree_leaves(gradient), tree_leaves(wanted), strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        assert c(*given) == pytest.approx(right, rel=1e-12)
    assert c._fast.calls == c._fast_value.calls > 3
    given[0]["first"] = list(given[0]["first"])  # a list is not a tuple
    assert c.value_and_grad(*given)[0] == pytest.approx(right, rel=1e-12)
    assert programs(c) == 2


def test_nothing_in_an_argument():
    c, found = called(lambda p, a: a * (2.0 + len(p)), [], 1.5)
    assert found == [3.0] * 4
    assert c((), 1.5) == 3.0
    assert c([X], 1.5) == 4.5
    assert c([], 0.5) == 1.0


def test_structures_are_returned_anew_each_time():
    c, _ = called(lambda x: {"double": [x * 2.0, x], "sum": x.sum()}, X)
    assert c._fast_value is not None
    first, second = c(X), c(X + 1.0)
    np.testing.assert_array_equal(first["double"][0], X * 2.0)
    np.testing.assert_array_equal(second["double"][0], X * 2.0 + 2.0)
    assert type(second["sum"]) is float
    second["double"][1][:] = 0.0
    np.testing.assert_array_equal(c(X)["double"][1], X)


@needs("numba-reader")
def test_branches():
    def f(x):
        return (x * 2.0).sum() if x[0] > 0 else (x * 3.0).sum()

    c, _ = called(f, X)
    ways, _ = called(f, X)
    by_ways(ways)
    for k in range(6):
        x = X * (-1.0) ** k
        assert c(x) == f(x)
        assert ways(x) == f(x)
    assert programs(c) == 1 and programs(ways) == 2


def test_a_value_that_was_compared_says_nothing_of_gradients():
    state = [1.0] * 1000  # whose items are not compared at each call

    def f(x):
        y = x * 1.0
        return (y * float(state[0])).sum() + (1.0 - float(state[0])) * 1.5

    c, found = called(f, np.array([1.0, 0.5]))
    assert found == [1.5] * 4
    state[0] = 2.0  # the value stays the same, the gradient does not
    with pytest.raises(RuntimeError, match="depends on something else than its arguments"):
        c.value_and_grad(np.array([1.0, 0.5]))


def test_native_code_after_many_values():
    c, _ = called(lambda x: (np.sin(x) * x).sum(), X)
    for _ in range(HOT):
        c(X)
    c.wait()
    for x in (X, X + 1.0):  # the second is compared, too
        np.testing.assert_allclose(c(x), (np.sin(x) * x).sum(), rtol=1e-14)
    assert c._families.found and c._fast_value.program.native


@dataclasses.dataclass
class Held:
    weight: object
    name: str = "one"


class Pair(NamedTuple):
    first: object
    second: object


A, B = np.ones(2), np.zeros(2)
TREES = [
    1.0, A, A * 1j, 2j, [A, B], (A, B), [A], [[A], B], {"a": A, "b": B}, {"b": B, "a": A}, {"a": A},
    {1: A}, {True: A}, {1.0: A}, {0.0: A}, {-0.0: A}, {(1, 2): A}, {(True, 2): A}, {"a": {"b": A}},
    Pair(A, B), Pair(A, [B]), Held(A), Held([A]), Held(A, "two"), Held(1.0), [Held(A)], [], (), {},
    collections.OrderedDict(a=A, b=B), [1.0, 2.0], [1.0], [A * 1j], {"a": 1j},
]  # fmt: skip


def test_structures_of_short_calls_are_those_of_others():
    for one in TREES:
        for other in TREES:
            leaves = []
            fits = recorded_call._taken(other, structure(one), leaves, [])
            # what is no leaf there is refused by compiled code, which reads numbers and arrays
            fits = fits and all(structure(leaf) is None for leaf in leaves)
            assert fits == (structure(one) == structure(other)), (one, other)
            if fits:
                wanted = [leaf for _, leaf in tree_leaves(other)]
                pairs = zip(leaves, wanted, strict=True)
                assert all(a is b or np.array_equal(a, b) for a, b in pairs)
