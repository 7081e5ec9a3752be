"""Classes, attributes and methods from outside that change between calls of a compiled function."""

import types

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg

X = [np.array([0.5, -0.3, 2.0]), np.array([-1.5, 0.3, 0.2]), np.array([2.5, -3.0, -0.1])]
#: A sum along one path, and a choice between two.
ONE_PATH, PATHS = "np.sum(x) * ({})", "x[0] * ({}) if x[0] > 0 else x[1]"


def made(expression, **outside):
    """The function of `x`, compiled, and called along each of its paths."""
    names = {"np": np, **outside}
    exec(f"def f(x):\n    return {expression}", names)
    f = names["f"]
    c = tg.compile(f)
    for x in X * 3:
        c.value_and_grad(x)
    return f, c


def agree(f, c):
    for x in X:
        value, gradient = c.value_and_grad(x)
        expected = tg.value_and_grad(f)(x)
        assert value == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)
        assert c(x) == pytest.approx(f(x), rel=1e-12)


def scaled(by):
    class Scale:
        factor = by

        def times(self, v):
            return v * by

        @property
        def twice(self):
            return 2.0 * by

        def __call__(self, v):
            return v * by

        def __getitem__(self, k):
            return by + k

    return Scale


@pytest.mark.parametrize("paths", [ONE_PATH, PATHS])
@pytest.mark.parametrize(
    "of",
    [
        "o.times(1.0)",
        "o.twice",
        "o(1.0)",
        "o[1]",
        "o.factor",
        "2.0 if isinstance(o, A) else 3.0",
        "2.0 if type(o) is A else 3.0",
    ],
)
@needs("numba-reader")
def test_the_class_of_an_object_is_another(paths, of):
    A = scaled(2.0)
    o = A()
    f, c = made(paths.format(of), o=o, A=A)
    before = f(X[0])
    o.__class__ = scaled(3.0)
    assert f(X[0]) != before
    agree(f, c)


@pytest.mark.parametrize("paths", [ONE_PATH, PATHS])
@pytest.mark.parametrize(
    "of",
    ["o.times(1.0)", "o.twice", "o(1.0)", "P().times(1.0)", "2.0 if isinstance(o, A) else 3.0"],
)
@needs("numba-reader")
def test_the_bases_of_a_class_are_others(paths, of):
    A, B = scaled(2.0), scaled(3.0)

    class P(A):
        pass

    f, c = made(paths.format(of), o=P(), P=P, A=A)
    before = f(X[0])
    P.__bases__ = (B,)
    assert f(X[0]) != before
    agree(f, c)


@needs("numba-reader")
def test_a_proxy_that_gives_another_class_has_a_program(recwarn):
    class Proxy:
        __class__ = property(lambda self: float)

        def times(self, v):
            return v * 2.0

    for paths in (ONE_PATH, PATHS):
        f, c = made(paths.format("o.times(1.0)"), o=Proxy())
        agree(f, c)
        assert "eagerly" not in repr(c)
    assert not recwarn


@pytest.mark.parametrize("leaves_before", [False, True])
@pytest.mark.filterwarnings("ignore:int.. of a recorded tensor")
@needs("numba-reader")
def test_a_call_that_leaves_the_graph_sees_a_long_list_as_it_is(leaves_before):
    items = [3.0] * 150  # longer than programs of one path compare

    def f(x):
        k = int(abs(x[0]) * 8)
        whole = (k * 10**9 + 1) * (10**9 + k) * 25 if k == 4 else 1  # beyond 63 bits
        return x[0] * items[0] * (whole / whole) if x[0] > 0 else x[1] * items[k]

    c = tg.compile(f)
    for x in X * 3:
        c.value_and_grad(x)
    for _ in range(3 * leaves_before):
        c.value_and_grad(X[0])
        c(X[0])
    for items[0] in (7.0, 5.0):
        agree(f, c)
    assert "1 program, 1 graph" in repr(c)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("paths", [ONE_PATH, PATHS])
@pytest.mark.parametrize(
    "of", ["o(1.0)", "2.0 if 3 in o else 5.0", "sum([v for v in o])", "len(o)"]
)
@needs("numba-reader")
def test_special_methods_are_those_of_the_class(of, paths, is_first):
    class Own:
        def __call__(self, v):
            return 2.0 * v

        def __contains__(self, v):
            return True

        def __iter__(self):
            return iter([1.0, 2.0])

        def __len__(self):
            return 2

    o, ignored = Own(), {"__call__": abs, "__contains__": abs, "__iter__": abs, "__len__": abs}
    vars(o).update(ignored if is_first else {})
    f, c = made(paths.format(of), o=o)
    agree(f, c)
    vars(o).update(ignored)
    agree(f, c)


@pytest.mark.parametrize("paths", [ONE_PATH, PATHS])
def test_a_default_of_a_keyword_is_another(paths):
    def g(v, *, by=1.0):
        return v * by

    f, c = made(paths.format("g(2.0)"), g=g)
    g.__kwdefaults__.update(by=5.0)
    assert f(X[0]) == pytest.approx(10.0 * X[0][0] if paths == PATHS else 10.0 * np.sum(X[0]))
    agree(f, c)


@pytest.mark.parametrize(
    ("of", "name", "method"),
    [
        ("1.0 if o == p else 2.0", "__eq__", lambda self, other: True),
        ("1.0 if o != p else 2.0", "__ne__", lambda self, other: False),
        ("1.0 if o != p else 2.0", "__eq__", lambda self, other: True),
        ("1.0 if o in (p, 3) else 2.0", "__eq__", lambda self, other: True),
        ("1.0 if o else 2.0", "__bool__", lambda self: False),
        ("1.0 if not o else 2.0", "__len__", lambda self: 0),
    ],
)
@pytest.mark.parametrize("paths", [ONE_PATH, PATHS])
@needs("numba-reader")
def test_a_class_defines_an_operator_later(of, name, method, paths):
    class A:
        pass

    class B(A):
        pass

    f, c = made(paths.format(of), o=B(), p=B())
    before = f(X[0])
    setattr(A, name, method)
    assert f(X[0]) != before
    agree(f, c)


class Base:
    pass


class Slots:
    __slots__ = ("by",)


OWNERS = {
    "namespace": types.SimpleNamespace,
    "instance": lambda: type("T", (Base,), {})(),
    "class": lambda: type("T", (Base,), {}),
    "module": lambda: types.ModuleType("settings"),
    "slots": Slots,
}


@pytest.mark.parametrize("make", OWNERS.values(), ids=[*OWNERS])
@pytest.mark.parametrize("paths", [ONE_PATH, PATHS])
@pytest.mark.parametrize(
    ("of", "values"),
    [("getattr(o, 'by', 2.0)", (5.0, 6.0)), ("3.0 if hasattr(o, 'by') else 4.0", (5.0, None))],
)
@needs("numba-reader")
@pytest.mark.filterwarnings("ignore:tapegrad.compile. f is slow")
def test_an_attribute_is_asked_for_that_is_set_later(make, of, paths, values):
    o = make()
    f, c = made(paths.format(of), o=o)
    before = f(X[0])
    for value in values:
        o.by = value
        assert f(X[0]) != before
        agree(f, c)
    del o.by
    assert f(X[0]) == before
    agree(f, c)
    assert "eagerly" not in repr(c)


def test_a_base_gets_an_attribute_that_a_helper_asks_for():
    class A:
        pass

    class B(A):
        pass

    def option(name, default):
        return getattr(o, name, default)

    o = B()
    f, c = made("np.sum(x) * option('by', 2.0)", option=option)
    A.by = 3.0
    assert f(X[0]) == pytest.approx(3.0 * np.sum(X[0]))
    agree(f, c)
