"""Arguments that are instances of subclasses of dict, list and tuple."""

import collections

import numpy as np
import pytest

import tapegrad as tg

X = np.array([1.5, 2.0])


class Default(dict):
    """A dict with another answer for missing keys."""

    def __missing__(self, key):
        return 5.0


class Scaled(list):
    """A list with an attribute, and items of another kind."""

    def __init__(self, items, factor):
        super().__init__(items)
        self.factor = factor

    def __getitem__(self, k):
        return self.factor * super().__getitem__(k)


class Pair(tuple):
    __slots__ = ()

    @property
    def total(self):
        return self[0] + self[1]


class Labelled(tuple):
    label = "none"


Point = collections.namedtuple("Point", "a b")
labelled = Labelled((1.0, 2.0))
labelled.label = "three"
counts = collections.defaultdict(lambda: 3.0, a=1.0)
USERS = [
    (lambda x, d: x[0] * d["zz"] + x[1] * d["a"], Default(a=1.0)),
    (lambda x, d: x[0] * d[0] + x[1] * d[1], Scaled([1.0, 2.0], 3.0)),
    (lambda x, d: x[0] * d.total, Pair((1.0, 2.0))),
    (lambda x, d: x[0] * d[1] * len(d.label), labelled),
    (lambda x, d: x[0] * d["b"] + x[1] * d["a"], counts),
    (lambda x, d: x[0] * d["b"] + x[1], collections.Counter(a=2)),
    (lambda x, d: x[0] * d[0]["zz"], [Default(a=1.0)]),
]


@pytest.mark.parametrize(("f", "d"), USERS, ids=[type(d).__name__ for _, d in USERS])
def test_users_containers_keep_their_class(f, d):
    name = "Default" if type(d) is list else type(d).__name__
    np.testing.assert_allclose(tg.grad(f)(X, d), tg.grad(lambda x: f(x, d))(X))
    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match=f"an argument is a {name}, a subclass of .*methods"):
        assert float(c(X, d)) == pytest.approx(float(f(X, d)))
    for _ in range(2):
        np.testing.assert_allclose(c.grad(X, d), tg.grad(lambda x: f(x, d))(X))


def test_they_are_differentiated_and_keep_their_class():
    f = lambda d: d["a"] ** 2 * d["zz"]
    assert tg.grad(f)(Default(a=2.0)) == {"a": 20.0}
    assert tg.grad(lambda d: d[0] * d[1])(Scaled([1.0, 2.0], 3.0)).factor == 3.0
    given = Default(a=2.0)
    tg.compile(lambda d: d["a"])
    assert given == {"a": 2.0}


def test_named_tuples_and_ordered_dicts_are_compiled(tmp_path):
    f = lambda x, d: x[0] * list(d.values())[0] + x[1] * len(d)
    g = lambda x, d: x[0] * d.a + x[1] * d[1]
    for h, d in ((f, collections.OrderedDict(b=2.0, a=3.0)), (g, Point(2.0, 3.0))):
        c = tg.compile(h)
        for _ in range(3):
            np.testing.assert_allclose(c.grad(X, d), tg.grad(h)(X, d))
        assert "1 program" in repr(c)
    c = tg.compile(lambda x: collections.OrderedDict(b=x[0] * 2.0))
    for _ in range(3):
        assert type(c(X)) is collections.OrderedDict
    c.save(tmp_path / "program")
    assert tg.load(tmp_path / "program")(X) == collections.OrderedDict(b=3.0)


# --- named tuples ---------------------------------------------------------------------------------


class Turned(collections.namedtuple("Base", "a b")):
    def __iter__(self):
        return iter((20.0, 30.0))


class Short(collections.namedtuple("Base", "a b")):
    def __len__(self):
        return 1

    def __iter__(self):
        return iter((self[1], self[0]))


class Checked(collections.namedtuple("Base", "a b")):
    def __new__(cls, a, b):
        return super().__new__(cls, 2.0 * a, b)


class Backwards(tuple):
    __slots__ = ()

    def __iter__(self):
        return iter(self[::-1])


@pytest.mark.parametrize("kind", [Turned, Short, Checked])
def test_named_tuples_with_methods_of_their_own(kind):
    def f(x, data):
        a, b = data
        return np.sum(x) * (a + 2.0 * b) + data.a * data[1] * len(data)

    data = kind(3.0, 5.0)
    c = tg.compile(f)
    for k in range(4):
        one = kind(3.0 + k, 5.0)
        np.testing.assert_allclose(c(X, one), f(X, one), rtol=1e-14)
        np.testing.assert_allclose(c.grad(X, one), np.full(2, np.sum([*one] * np.array([1, 2]))))
    assert c._reason is None
    eager = tg.grad(lambda data: f(X, data))(data)
    compiled = tg.compile(lambda data: f(X, data)).grad(data)
    assert type(eager) is type(compiled) is kind
    assert tuple.__repr__(eager) == tuple.__repr__(compiled)
    differences = [
        (f(X, tuple.__new__(kind, up)) - f(X, tuple.__new__(kind, down))) / 2e-6
        for up, down in [
            ((data[0] + 1e-6, data[1]), (data[0] - 1e-6, data[1])),
            ((data[0], data[1] + 1e-6), (data[0], data[1] - 1e-6)),
        ]
    ]
    np.testing.assert_allclose([eager[0], eager[1]], differences, rtol=1e-6)


def test_tuples_with_methods_of_their_own():
    f = lambda t: 3.0 * t[0] + 5.0 * t[1] + 7.0 * next(iter(t))
    found = tg.grad(f)(Backwards((1.0, 2.0)))
    assert [found[0], found[1]] == [3.0, 12.0]
