"""Closure conversion: what functions read of recorded values, and the functions with others."""

import dataclasses
import functools
import types

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._custom.closures import Captured, Strays


def recorded(value):
    return tg.tensor(value, requires_grad=True)


def in_closure(p):
    return lambda x: p * x


def in_nested_closure(p):
    def inner(x):
        return p * x

    def outer(x):
        return inner(x)

    return outer


def in_default(p):
    return lambda x, q=p: q * x


def in_named_default(p):
    def f(x, *, q=p):
        return q * x

    return f


def in_partial(p):
    return functools.partial(lambda q, x: q * x, p)


def in_named_partial(p):
    return functools.partial(lambda x, q: q * x, q=p)


class Model:
    def __init__(self, p):
        self.parts = {"p": [p]}

    def __call__(self, x):
        return self.parts["p"][0] * x

    def method(self, x):
        return self(x)


class Slotted:
    __slots__ = ("p",)

    def __init__(self, p):
        self.p = p

    def method(self, x):
        return self.p * x


@dataclasses.dataclass(frozen=True)
class Frozen:
    p: object

    def method(self, x):
        return self.p * x


def in_bound(p):
    return Model(p).method


def in_called(p):
    return Model(p)


def in_slots(p):
    return Slotted(p).method


def in_frozen(p):
    return Frozen(p).method


def in_space(p):
    space = types.SimpleNamespace(p=(p,))
    return lambda x: space.p[0] * x


def in_objects(p):
    held = np.empty(2, object)
    held[1] = p
    return lambda x: held[1] * x


def in_recursion(p):
    def power(x, n=3):
        return x if n == 1 else p * power(x, n - 1) / p * p

    return lambda x: power(x) / p


def in_complex(p):
    z = p + 1j * p
    return lambda x: (z * x).real


def in_transform(p):
    return tg.grad(lambda x: 0.5 * p * x**2)


EXAMPLES = [
    *(in_closure, in_nested_closure, in_default, in_named_default, in_partial, in_named_partial),
    *(in_bound, in_called, in_slots, in_frozen, in_space, in_objects, in_recursion, in_complex),
    in_transform,
]


@pytest.mark.parametrize("make", EXAMPLES)
def test_values_are_exchanged(make):
    p = recorded(2.0)
    f = make(p)
    captured = Captured(f)
    assert make is in_complex or [one is p for one in captured.tensors] == [True]
    for value in (3.0, 5.0):
        (made,) = captured.filled([value] * len(captured.tensors))
        assert type(made(1.5)) is not type(p)
        np.testing.assert_allclose(made(1.5), make(value)(1.5))
    assert float(f(1.5).detach()) == float(make(2.0)(1.5))  # the function is as it was


@pytest.mark.parametrize("make", EXAMPLES)
def test_plain_objects_stay_themselves(make):
    f = make(2.0)
    captured = Captured(f)
    assert captured.tensors == [] and captured.filled(())[0] is f


GLOBAL = None


def reads_global(x):
    return GLOBAL * x


def test_a_global_is_found():
    global GLOBAL
    GLOBAL = recorded(2.0)
    try:
        captured = Captured(lambda x: reads_global(x) + 1.0)
        assert [one is GLOBAL for one in captured.tensors] == [True]
        (made,) = captured.filled([10.0])
        assert made(2.0) == 21.0 and reads_global(1.0).detach() == 2.0
    finally:
        GLOBAL = None


def test_one_value_is_found_once():
    p = recorded([1.0, 2.0])
    held = [p, {"p": p}]
    captured = Captured(lambda x: held[0] * x, held, p)
    assert len(captured.tensors) == 1
    f, other, q = captured.filled([np.ones(2)])
    assert other[0] is other[1]["p"] is q
    np.testing.assert_array_equal(f(3.0), [3.0, 3.0])


def test_what_a_function_counts_stays():
    p, count = recorded(2.0), 0

    def f(x):
        nonlocal count
        count += 1
        return p * x

    (made,) = Captured(f).filled([3.0])
    assert made(1.0) == 3.0 and made(2.0) == 6.0 and count == 2


def test_variables_of_a_loop_keep_their_values():
    p, found = recorded(2.0), []
    for k in range(3):

        def helper(x):
            return k * x

        made = functools.partial(helper)
        found.append(Captured(lambda x, h=made: p * h(x) + k))
    made = [captured.filled([10.0])[0](1.0) for captured in found]
    assert made == [0.0, 11.0, 22.0]


def test_a_cycle():
    p = recorded(2.0)
    node = {"p": p}
    node["self"] = node
    (made,) = Captured(node).filled([3.0])
    assert made["self"] is made and made["p"] == 3.0 and node["p"] is p


def test_no_row_is_kept_alive():
    p = recorded([1.0, 2.0])
    captured = Captured(in_closure(p * 2.0))
    captured.tensors.clear()
    made = captured.filled([np.ones(2)])[0]
    np.testing.assert_array_equal(made(2.0), [2.0, 2.0])


class Elsewhere:
    value = None  # of a class, which no copy is made of


def test_a_value_that_is_not_found_is_told():
    Elsewhere.value = recorded(2.0) * 1.0
    try:
        for f, wanted in (
            (lambda x: Elsewhere.value * x, True),
            (lambda x: 2.0 * x, False),
            (lambda x: Elsewhere.value.detach() * x, False),
        ):
            assert Captured(f).tensors == []
            x = recorded(1.0)
            strays = Strays([x])
            assert strays.are_in([f(x)]) is wanted
    finally:
        Elsewhere.value = None
