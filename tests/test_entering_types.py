"""Tests of types in functions that are entered: as of plain values, or refused."""

import collections.abc
import functools
import math
import numbers
import typing

import numpy as np
import pytest

import tapegrad as tg

A, B = np.array([0.3, 0.4]), np.array([0.3, 0.4], np.float32)


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


@functools.singledispatch
def dispatched(x):
    return 7.0


dispatched.register(float)(lambda x: 1.0)
dispatched.register(np.floating)(lambda x: 2.0)
dispatched.register(np.ndarray)(lambda x: 3.0)


@functools.singledispatch
def dispatched_alike(x):
    return 7.0


dispatched_alike.register(float)(lambda x: 1.0)
dispatched_alike.register(np.ndarray)(lambda x: 3.0)


def matched(x):
    match x:
        case np.ndarray():
            return 1.0
        case np.float64():
            return 2.0
        case float():
            return 3.0
    return 4.0


def matched_alike(x):
    match x:
        case float():
            return 3.0
        case np.ndarray():
            return 1.0
    return 4.0


TABLE = {float: 1.0, np.float64: 2.0, np.ndarray: 3.0}
#: Tests whose answer is the same for Python's and NumPy's numbers.
ALIKE = {
    "float": lambda x: isinstance(x, float),
    "int or float": lambda x: isinstance(x, (int, float)),
    "a union": lambda x: isinstance(x, int | float),
    "ndarray": lambda x: isinstance(x, np.ndarray),
    "list or ndarray": lambda x: isinstance(x, (list, np.ndarray)),
    "float32": lambda x: isinstance(x, np.float32),
    "list or int": lambda x: isinstance(x, (list, int)),
    "Real": lambda x: isinstance(x, numbers.Real),
    "Number": lambda x: isinstance(x, numbers.Number),
    "Iterable": lambda x: isinstance(x, collections.abc.Iterable),
    "Sequence": lambda x: isinstance(x, collections.abc.Sequence),
    "Sized": lambda x: isinstance(x, collections.abc.Sized),
    "SupportsFloat": lambda x: isinstance(x, typing.SupportsFloat),
    "SupportsIndex": lambda x: isinstance(x, typing.SupportsIndex),
    "callable": callable,
    "has length": lambda x: hasattr(x, "__len__"),
    "has detach": lambda x: hasattr(x, "detach"),
    "has requires_grad": lambda x: hasattr(x, "requires_grad"),
    "has is_integer": lambda x: hasattr(x, "is_integer"),
    "ndim": lambda x: np.ndim(x) == 0,
    "match alike": matched_alike,
    "singledispatch alike": dispatched_alike,
}
#: Tests whose answer is another one.
APART = {
    "type is float": lambda x: type(x) is float,
    "type in": lambda x: type(x) in (int, float),
    "type is ndarray": lambda x: type(x) is np.ndarray,
    "type ==": lambda x: type(x) == np.float64,  # noqa: E721
    "name of the type": lambda x: len(type(x).__name__),
    "type as a key": lambda x: TABLE.get(type(x), 9.0),
    "issubdtype": lambda x: np.issubdtype(type(x), np.floating),
    "issubclass": lambda x: issubclass(type(x), np.number),
    "class is float": lambda x: x.__class__ is float,
    "class is float64": lambda x: x.__class__ is np.float64,
    "floating": lambda x: isinstance(x, np.floating),
    "generic or ndarray": lambda x: isinstance(x, (np.ndarray, np.generic)),
    "has shape": lambda x: hasattr(x, "shape"),
    "has dtype": lambda x: hasattr(x, "dtype"),
    "has tolist": lambda x: hasattr(x, "tolist"),
    "match": matched,
    "singledispatch": dispatched,
}
#: Values, and whether they may be Python's or NumPy's.
VALUES = {
    "a float": (lambda x: x, 0.3, False),
    "of a float": (lambda x: x * 2.0, 0.3, True),
    "np.sin of a float": (lambda x: np.sin(x), 0.3, True),
    "math.sin": (lambda x: math.sin(x[0]), A, True),
    "a number of NumPy's": (lambda x: x, np.float64(0.3), False),
    "in a list": (lambda x: x[0], [0.3, 0.4], False),
    "an array": (lambda x: x, A, False),
    "an element": (lambda x: x[0], A, False),
    "of an element": (lambda x: 1.0 - x[0] * 2.0 / x[1], A, False),
    "a sum": (lambda x: np.sum(x), A, False),
    "of a mean": (lambda x: x.mean() - 1.0, A, False),
    "zeros": (lambda x: np.zeros(2), 0.3, False),
    "of zeros": (lambda x: np.zeros(2)[0], 0.3, False),
    "a comparison": (lambda x: x[0] > 0.0, A, False),
    "a mask": (lambda x: x > 0.0, A, False),
    "a position": (lambda x: np.argmax(x), A, False),
    "float32": (lambda x: x, B, False),
    "an element of float32": (lambda x: x[0], B, False),
}


COMPILED = "a float", "math.sin", "an array", "of an element", "zeros"
WAYS = [*((name, False) for name in VALUES), *((name, True) for name in COMPILED)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "compiled"), WAYS)
def test_types(name, compiled):
    make, x, may_be_both = VALUES[name]
    for what, test in (ALIKE | APART).items():
        wanted = test(make(x))

        def f(x, test=test, wanted=wanted):
            found = test(make(x))
            assert type(found) is type(wanted) and found == wanted
            return (x[0] if np.ndim(x) or isinstance(x, list) else x) * (found + 1.0)

        call = tg.compile(f).grad if compiled else tg.grad(f)
        for _ in range(2 if compiled else 1):
            if may_be_both and what in APART:
                with pytest.raises(tg.DerivativeLost, match="Python's or NumPy's.* use isinstance"):
                    call(x)
            else:
                found = call(x)
                found = found[0] if np.ndim(found) else found
                assert found == pytest.approx(wanted + 1.0), what


def test_tensors_are_tensors_where_that_is_asked():
    def f(x):
        assert isinstance(x, tg.Tensor) and isinstance(x[0], (int, tg.Tensor))
        return np.sum(x)

    assert tg.grad(f)(A).tolist() == [1.0, 1.0]


def test_the_types_of_what_is_plain():
    w, kept = tg.tensor(A, requires_grad=True), []
    assert isinstance(w, tg.Tensor) and hasattr(w, "detach") and not isinstance(w[0], float)

    def f(x):
        kept.extend([type(A), type(A[0]), type("T", (), {}).__name__, isinstance(3, int)])
        return x

    tg.grad(f)(1.0)
    assert kept == [np.ndarray, np.float64, "T", True]


# --- data of programs -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("d", [2.0, np.float64(2.0), 2, A, np.array(2.0)], ids=repr)
def test_data_of_a_program(d, verify):
    def f(x, d):
        kinds = float, np.floating, int, np.ndarray, numbers.Real, collections.abc.Sized
        asked = [isinstance(d, kind) for kind in kinds] + [type(d) is float, hasattr(d, "shape")]
        return np.sum(x) * sum([2.0**k for k, answer in enumerate(asked) if answer])

    c = tg.compile(f, verify=verify)
    for _ in range(3):
        np.testing.assert_allclose(c.grad(A, d), f(np.eye(2)[0], d))


class Signed(type):
    """The class of classes of numbers of a sign."""

    def __instancecheck__(cls, x):
        return x > 0.0


class Positive(metaclass=Signed):
    pass


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
def test_a_class_of_the_users_that_reads_values():
    def f(x, d):
        return x[0] if isinstance(d, Positive) and isinstance(x[1], (str, Positive)) else x[1]

    c = tg.compile(f, verify="never")
    for x, d in [(A, 2.0), (-A, 2.0), (A, -1.0), (A, 3.0)]:
        np.testing.assert_allclose(c.grad(x, d), [1.0, 0.0] if x[1] > 0 and d > 0 else [0.0, 1.0])
