"""`tg.compile`: objects passed twice, the order of names, kinds of keys: calls are alike or not."""

import dataclasses

import numpy as np
import pytest
from compiled import counts

import tapegrad as tg

X = np.array([1.0, 2.0])


def in_turn(f, calls, times=3, **settings):
    """Values and gradients of a compiled function for calls in turn, as the function has them."""
    c = tg.compile(f, **settings)
    for _ in range(times):
        for args in calls:
            np.testing.assert_array_equal(c(*args), f(*args))
            np.testing.assert_array_equal(c.grad(*args), tg.grad(f)(*args))
    return c


@pytest.mark.parametrize("settings", [{}, {"verify": "never"}, {"native": True}])
def test_whether_data_are_one_array(settings):
    f = lambda x, a, b: x[0] * a[0] if a is b else x[1] * 3.0 * b[1]
    u, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    c = in_turn(f, [(X, u, w), (X, u, u), (X, w, w), (X, w, u)], **settings)
    assert "2 signatures, 2 programs" in repr(c)


@pytest.mark.parametrize("settings", [{}, {"verify": "never"}])
def test_whether_what_is_differentiated_is_data(settings):
    """In a gradient they are two, as in `tg.grad`; in a value they are one."""
    f = lambda a, b: np.sum(a * b) * (2.0 if a is b else 1.0)
    u, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    in_turn(f, [(u, w), (u, u), (w, w), (w, u)], **settings)
    assert f(u, u) == 2.0 * 5.0 and tg.value_and_grad(f)(u, u)[0] == 5.0


def test_both_differentiated():
    f = lambda a, b: np.sum(a * b) * (2.0 if a is b else 1.0)
    c, u = tg.compile(f, argnums=(0, 1)), np.array([1.0, 2.0])
    for _ in range(3):
        assert c(u, u) == 10.0
        value, gradients = c.value_and_grad(u, u)
        assert value == 5.0
        np.testing.assert_array_equal(gradients, [u, u])
        assert c(u, u.copy()) == 5.0


def test_inside_a_recording():
    f = lambda a, b: np.sum(a * b) * (2.0 if a is b else 1.0)
    c, u = tg.compile(f), np.array([1.0, 2.0])
    for g in (lambda h, t: h(t, t), lambda h, t: h(t, t * 1.0), lambda h, t: h(t, u)):
        for _ in range(4):
            found = tg.value_and_grad(lambda t, g=g: g(c, t))(u)
            wanted = tg.value_and_grad(lambda t, g=g: g(f, t))(u)
            assert found[0] == wanted[0]
            np.testing.assert_array_equal(found[1], wanted[1])


def test_a_write_through_one_is_seen_by_the_other():
    def f(a, b):
        a[0] = 5.0
        return np.sum(a * b)

    c, u, w = tg.compile(f), np.array([1.0, 1.0]), np.array([1.0, 1.0])
    for _ in range(4):
        assert c(u, u) == 26.0
        assert c(u, w) == 6.0
    np.testing.assert_array_equal(u, [1.0, 1.0])  # the caller's own


@dataclasses.dataclass
class Pair:
    first: object
    second: object


IS_ONE = lambda x, a, b: x * (2.0 if a is b else 3.0)
#: Functions, something that data holds twice or two of, and how.
SHARING = {
    "a list twice": (
        lambda x, a, b: (a.append(5.0), x * b[-1])[1],
        lambda: [1.0],
        lambda a, b: (a, b),
    ),
    "rows of a list": (
        lambda x, rows: (rows[0].append(5.0), x * rows[1][-1])[1],
        lambda: [1.0],
        lambda a, b: ([a, b],),
    ),
    "an array in a dict": (
        lambda x, d, b: x * (2.0 if d["a"] is b else 3.0),
        X.copy,
        lambda a, b: ({"a": a}, b),
    ),
    "a dict twice": (
        lambda x, a, b: (a.update(k=5.0), x * b["k"])[1],
        lambda: {"k": 1.0},
        lambda a, b: (a, b),
    ),
    "fields": (
        lambda x, pair: x * (2.0 if pair.first is pair.second else 3.0),
        X.copy,
        lambda a, b: (Pair(a, b),),
    ),
    "in a tuple": (
        lambda x, pair, b: x * (2.0 if pair[1] is b else 3.0),
        X.copy,
        lambda a, b: ((1.0, a), b),
    ),
    "arrays of integers": (IS_ONE, lambda: np.arange(3), lambda a, b: (a, b)),
    "complex arrays": (IS_ONE, lambda: X * 1j, lambda a, b: (a, b)),
    "tensors": (IS_ONE, lambda: tg.tensor(X), lambda a, b: (a, b)),
    "empty arrays": (IS_ONE, lambda: np.empty(0), lambda a, b: (a, b)),
}


@pytest.mark.parametrize("what", SHARING)
def test_objects_that_occur_twice(what):
    f, make, held = SHARING[what]
    c, seen = tg.compile(f), set()
    for _ in range(3):
        for shared in (True, False):

            def data(shared=shared):
                a = make()
                return held(a, a if shared else make())

            wanted = f(3.0, *data())
            assert c(3.0, *data()) == wanted
            assert c.grad(3.0, *data()) == wanted / 3.0
            seen.add(wanted)
    assert len(seen) == 2


@counts
def test_numbers_are_no_objects():
    calls = []

    def f(x, a, b):
        calls.append(None)
        return x * a + b

    c, one = tg.compile(f), 1.0
    for a, b in ((one, one), (1.0, 2.0), (one, one), (3.0, 4.0)):
        assert c(2.0, a, b) == 2.0 * a + b
    assert len(calls) == 2  # recorded, and compared


def test_graphs_with_arrays_that_are_given_twice():
    def f(x, a, b):
        total = 0.0
        for k in range(len(x)):
            total = total + (x[k] * a[k] if x[k] > 0.0 else x[k] * b[k] * 2.0)
        return total

    c, u, w = tg.compile(f), np.array([3.0, 4.0]), np.array([5.0, 6.0])
    for x in (X, -X, X * [1.0, -1.0], X * [-1.0, 1.0]):
        for a, b in ((u, w), (u, u), (w, w)):
            for _ in range(2):
                np.testing.assert_allclose(c(x, a, b), f(x, a, b), rtol=1e-15)
                np.testing.assert_allclose(c.grad(x, a, b), tg.grad(f)(x, a, b), rtol=1e-15)


def test_files(tmp_path):
    f = lambda x, a, b: x[0] if a is b else x[1] * 3.0
    c, u, w = tg.compile(f), np.ones(2), np.ones(2)
    for a, b in ((u, w), (u, w), (u, u), (u, u)):
        c(X, a, b)
    c.save(tmp_path / "both.npz")
    loaded = tg.load(tmp_path / "both.npz")
    for a, b in ((u, w), (u, u), (w, w), (w, u)):
        for _ in range(2):
            assert loaded(X, a, b) == f(X, a, b)
            np.testing.assert_array_equal(loaded.grad(X, a, b), tg.grad(f)(X, a, b))
    assert "1 object given again" in c.explain()
    other = tg.compile(f)
    other(X, u, w)
    other.save(tmp_path / "one.npz")
    with pytest.raises(RuntimeError, match="pass copies of what is passed more than once"):
        tg.load(tmp_path / "one.npz")(X, u, u)


@pytest.mark.parametrize("verify", ["once", "never"])
def test_the_order_of_names(verify):
    f = lambda x, **names: x * sum([(k + 1) * v for k, v in enumerate(names.values())])
    c = tg.compile(f, verify=verify)
    for _ in range(3):
        assert c(2.0, a=1.0, b=10.0) == 42.0
        assert c(2.0, b=10.0, a=1.0) == 24.0
        assert c.grad(2.0, a=1.0, b=10.0) == 21.0
        assert c.grad(2.0, b=10.0, a=1.0) == 12.0


@pytest.mark.parametrize(
    "keys",
    [(1, True, 1.0), (0.0, -0.0, 0), ((1, 2), (True, 2), (1.0, 2)), ("a", b"a", np.str_("a"))],
)
def test_keys_that_are_equal(keys):
    f = lambda x, d: x * len(repr(next(iter(d))))
    c = tg.compile(f)
    for _ in range(3):
        for key in keys:
            assert c(2.0, {key: 1.0}) == f(2.0, {key: 1.0})
    assert len({repr(key) for key in keys}) == len(keys)


def test_tangents_and_adjoints_are_no_arguments(tmp_path):
    """A program serves calls in which they are arrays that are passed besides."""
    f = lambda x, y: np.sum(x * y) + np.sum(x**3)
    c, u, w = tg.compile(f, argnums=(0, 1)), np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for a, b, v in ((u, w, X.copy()), (u, w, u), (u, u, u)):
        for _ in range(2):
            found = c.jvp((a, b), (v, v))
            np.testing.assert_allclose(found, tg.jvp(f, (a, b), (v, v)), rtol=1e-14)
    one = tg.compile(lambda x: np.sum(x**3))
    for v in (w, u, u):
        np.testing.assert_allclose(one.hvp(u, v), 6.0 * u * v, rtol=1e-14)
    assert repr(c._derived["jvp"]).count("1 signature,") == 1
    assert repr(one._derived["hvp"]).count("1 signature,") == 1


def test_hessians_with_data_given_twice():
    f = lambda x, a, b: np.sum(a * x**3) if a is b else np.sum(b * x**2)
    c, u, w = tg.compile(f), np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for _ in range(3):
        for a, b in ((u, w), (u, u), (w, w), (X, u), (X, X)):
            np.testing.assert_allclose(c.hessian(X, a, b), tg.hessian(f)(X, a, b), rtol=1e-14)
