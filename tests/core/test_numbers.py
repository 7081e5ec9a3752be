"""Recorded numbers take the branches that np.float64 takes."""

import collections.abc
import fractions
import math
import numbers
import operator
import statistics

import numpy as np
import pytest

import tapegrad as tg

V = np.array([0.72, -1.2, 1.9])
HALF = fractions.Fraction(1, 2)
NUMBERS = {
    "element": lambda x: x[1],
    "sum": np.sum,
    "result": lambda x: x[0] * x[1] + 1.0,
    "of a constant": lambda x: tg.tensor(V)[1],
}
KINDS = {
    "Real": lambda t: isinstance(t, numbers.Real),
    "Complex": lambda t: isinstance(t, numbers.Complex),
    "Number": lambda t: isinstance(t, numbers.Number),
    "Integral": lambda t: isinstance(t, numbers.Integral),
    "Rational": lambda t: isinstance(t, numbers.Rational),
    "isscalar": np.isscalar,
    "ndim": np.ndim,
    "length": lambda t: hasattr(t, "__len__"),
    "iter": lambda t: hasattr(t, "__iter__"),
    "Iterable": lambda t: isinstance(t, collections.abc.Iterable),
    "Sized": lambda t: isinstance(t, collections.abc.Sized),
    "Sequence": lambda t: isinstance(t, collections.abc.Sequence),
    "list": lambda t: isinstance(t, (list, tuple, np.ndarray)),
    "callable": callable,
    "real": lambda t: float(np.asarray(t.real.item())) == float(np.asarray(t.item())),
    "imag": lambda t: t.imag.item(),
    "conjugate": lambda t: t.conjugate().item() == t.item(),
    "__array__": lambda t: hasattr(t, "__array__"),
    "shape": lambda t: t.shape,
    "a fraction": lambda t: (bool(t == HALF), bool(t < HALF), bool(HALF <= t), bool(t != HALF)),
    "a complex number": lambda t: (bool(t == 1j), bool(t == t.item() + 0j)),
}


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_number_answers_as_numpys(kind, number):
    seen = []

    def f(x):
        seen.append(kind(number(x)))
        return np.sum(x)

    tg.grad(f)(V)
    assert seen == [kind(np.float64(number(V).item()))]


def test_a_tensor_without_axes_is_an_array():
    for t in (tg.tensor(1.5), tg.tensor(1.5, requires_grad=True), tg.tensor([1.5], "f4")[0]):
        assert not isinstance(t, numbers.Number) and not np.isscalar(t)
        assert hasattr(t, "__len__") and hasattr(t, "__iter__")
        with pytest.raises(TypeError, match="a tensor without axes has no length"):
            len(t)
    assert not isinstance(tg.tensor([1.0]), numbers.Number)


def test_a_number_has_no_length_and_no_elements():
    t = tg.tensor(V)[0]
    with pytest.raises(TypeError, match=r"^object of type 'tapegrad.Scalar' has no len\(\)$"):
        len(t)
    with pytest.raises(TypeError, match="not iterable"):
        iter(t)
    assert t[...].item() == t[()].item() == V[0] and t[None].shape == (1,)


def clipped(x):
    """Code that asks what it was given."""
    total = 0.0
    for part in (x[0], x[1:], 2.0, x):
        if isinstance(part, numbers.Real):
            total = total + part**3
        elif np.isscalar(part):
            raise AssertionError
        elif hasattr(part, "__len__"):
            total = total + len(part) * np.sum(part)
    return total


def test_functions_that_ask_are_differentiated_on_the_way_of_floats():
    wanted = np.array([3 * V[0] ** 2 + 3.0, 5.0, 5.0])
    assert np.allclose(tg.grad(clipped)(V), wanted, rtol=1e-15)
    compiled = tg.compile(clipped)
    for _ in range(3):
        assert np.allclose(compiled.grad(V), wanted, rtol=1e-15)
    assert np.isclose(clipped(V), tg.value_and_grad(clipped)(V)[0])


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "mod"])
def test_fractions_meet_recorded_numbers(name):
    function = getattr(operator, name)
    third = fractions.Fraction(7, 3)
    for f, g in (
        (lambda x: function(x[2], third), lambda x: function(x[2], 7 / 3)),
        (lambda x: function(third, x[2]), lambda x: function(7 / 3, x[2])),
        (lambda x: np.sum(function(x[2:], third)), lambda x: np.sum(function(x[2:], 7 / 3))),
    ):
        assert np.array_equal(tg.grad(f)(V), tg.grad(g)(V))


@pytest.mark.usefixtures("not_entered")
def test_functions_of_the_standard_library_keep_the_derivative_or_raise():
    median = tg.grad(lambda x: statistics.median(list(x)) ** 2)(V)
    assert np.allclose(median, [2 * V[0], 0.0, 0.0])
    assert np.allclose(tg.grad(lambda x: sorted(x)[0] * max(x))(V), [0.0, V[2], V[1]])
    assert np.allclose(tg.grad(lambda x: sum(list(x)) ** 2)(V), np.full(3, 2 * V.sum()))
    for loses in (
        lambda x: statistics.mean(list(x)),
        lambda x: statistics.fmean(list(x)),
        lambda x: statistics.stdev(list(x)),
        lambda x: math.fsum(x),
        lambda x: math.prod(list(x)) * math.hypot(x[0], x[1]),
        lambda x: fractions.Fraction(x[0]),
        lambda x: math.isclose(x[0], 1.0),
        lambda x: complex(x[0]) * 1j,
        lambda x: x[0] + 1j,
    ):
        with pytest.raises(TypeError):
            tg.grad(loses)(V)


def test_complex_numbers_compared_in_a_program():
    compiled = tg.compile(lambda x: x[0] * (2.0 if x[1] == 1j or x[0] == 3.0 + 0j else 5.0))
    for first in (1.0, 1.0, 3.0, 2.0):
        assert compiled(np.array([first, 1.0])) == first * (2.0 if first == 3.0 else 5.0)
    whole = tg.compile(lambda x: np.sum(x) * np.sum(x == np.array([3.0 + 0j, 1j, 2.0])))
    assert whole(np.array([3.0, 1.0, 2.0])) == 12.0
    assert whole(np.array([1.0, 1.0, 2.0])) == 4.0
