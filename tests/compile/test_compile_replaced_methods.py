"""`tg.compile`: partials that change in place, and methods and constructors that are replaced."""

import functools

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg

A, B = np.array([1.0, -1.0, 2.0]), np.array([-1.0, 1.0, 2.0])


def scaled(v, k):
    return v * k


def each(x, k):
    total = 0.0
    for v in x:
        total = total + (v * k if v > 0.0 else v)
    return total


def over(p):
    """A function with a loop and a branch that calls `p` for numbers."""

    def f(x):
        total = 0.0
        for v in x:
            total = total + (p(v) if v > 0.0 else v)
        return total

    return f


def _keywords():
    p = functools.partial(scaled, k=1.0)
    return over(p), lambda: p.keywords.update(k=3.0)


def _arguments():
    p = functools.partial(scaled, 1.0)
    return over(p), lambda: p.__setstate__((scaled, (3.0,), {}, {}))


def _function():
    p = functools.partial(scaled, k=1.0)
    return over(p), lambda: p.__setstate__((lambda v, k: 3.0 * v, (), {"k": 1.0}, {}))


def _of_a_partial():
    p = functools.partial(functools.partial(each), k=1.0)
    return p, lambda: p.keywords.update(k=3.0)


def _of_a_method():
    class Model:
        def call(self, x, k):
            return each(x, k)

    p = functools.partial(Model().call, k=1.0)
    return p, lambda: p.keywords.update(k=3.0)


def _classes():
    class Base:
        def __init__(self, v):
            self.v = v * 1.0

        def get(self):
            return self.v

    class Kind(Base):
        pass

    class Calls(Base):
        def get(self):
            return super().get() * 1.0

    return Base, Kind, Calls


def _init():
    base, kind, _ = _classes()

    def init(self, v):
        self.v = v * 3.0

    return over(lambda v: kind(v).get()), lambda: setattr(base, "__init__", init)


def _own_init():
    _, kind, _ = _classes()

    def init(self, v):
        self.v = v * 3.0

    return over(lambda v: kind(v).get()), lambda: setattr(kind, "__init__", init)


def _hides():
    _, kind, _ = _classes()
    return over(lambda v: kind(v).get()), lambda: setattr(kind, "get", lambda self: self.v * 3.0)


def _super():
    base, _, calls = _classes()
    return over(lambda v: calls(v).get()), lambda: setattr(base, "get", lambda self: self.v * 3.0)


def _special(name, use, method, other):
    def make():
        kind = type("Kind", (), {name: method})
        kind.__module__ = __name__
        one = kind()
        return over(lambda v: use(one, v)), lambda: setattr(kind, name, other)

    return make


def _inherited_special():
    class Base:
        def __call__(self, v):
            return v * 1.0

    class Kind(Base):
        pass

    one = Kind()
    return over(one), lambda: setattr(Kind, "__call__", lambda self, v: v * 3.0)


CHANGES = {
    "keywords of a partial": _keywords,
    "arguments of a partial": _arguments,
    "function of a partial": _function,
    "a partial": _of_a_partial,
    "a partial of a method": _of_a_method,
    "__init__": _own_init,
    "an inherited __init__": _init,
    "a method that hides another": _hides,
    "what super() finds": _super,
    "__call__": _special(
        "__call__", lambda one, v: one(v), lambda self, v: v * 1.0, lambda self, v: v * 3.0
    ),
    "__getitem__": _special(
        "__getitem__", lambda one, v: v * one[0], lambda self, k: 1.0, lambda self, k: 3.0
    ),
    "__len__": _special("__len__", lambda one, v: v * len(one), lambda self: 1, lambda self: 3),
    "__mul__": _special(
        "__mul__", lambda one, v: one * v, lambda self, v: v * 1.0, lambda self, v: v * 3.0
    ),
    "an inherited __call__": _inherited_special,
}


@pytest.mark.parametrize("loops", [False, pytest.param(True, marks=needs("numba-reader"))])
@pytest.mark.parametrize("what", CHANGES)
def test_what_is_replaced(what, loops):
    """With one program, and with the graph of all branches."""
    f, change = CHANGES[what]()
    c, calls = tg.compile(f), (A, B) if loops else (A,)
    for expected in (2.0, 8.0):
        for _ in range(3):
            for x in calls:
                assert f(x) == c(x) == expected
                np.testing.assert_array_equal(c.grad(x), tg.grad(f)(x))
        if expected == 2.0:
            change()


class Doubled:
    rate = 2.0

    def __call__(self, v):
        return v * self.rate


FACTOR = 2.0


def by_factor(v):
    return v * FACTOR


@pytest.mark.parametrize("loops", [False, pytest.param(True, marks=needs("numba-reader"))])
def test_functions_that_are_arguments(loops, monkeypatch):
    """What they read from outside is checked as that of the function."""
    partial, held, one = functools.partial(scaled, k=2.0), {"rate": 2.0}, Doubled()
    changes = {
        by_factor: lambda patch: patch.setitem(globals(), "FACTOR", 5.0),
        partial: lambda patch: patch.setitem(partial.keywords, "k", 5.0),
        (lambda v: v * held["rate"]): lambda patch: patch.setitem(held, "rate", 5.0),
        one: lambda patch: patch.setattr(one, "rate", 5.0, raising=False),
    }

    def f(x, g):
        total = 0.0
        for v in x:
            total = total + (g(v) if v > 0.0 or not loops else v)
        return total

    c = tg.compile(f)
    for given, change in changes.items():
        for x in (A, B) if loops else (A,):
            for _ in range(3):
                assert c(x, given) == f(x, given)
        with monkeypatch.context() as patch:
            before = f(A, given)
            change(patch)
            assert f(A, given) != before
            for x in (A, B) if loops else (A,):
                for _ in range(3):
                    assert c(x, given) == f(x, given)
                    np.testing.assert_array_equal(
                        c.grad(x, given), tg.grad(lambda x, given=given: f(x, given))(x)
                    )
        assert c(A, given) == before
