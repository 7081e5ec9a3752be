"""Classes of data in compiled functions: isinstance, np.isscalar, dispatch on classes."""

import collections.abc
import copy
import functools
import numbers
import pickle
import threading
import warnings

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.numpy as tnp

X = np.array([1.3, 2.7, 3.1])
DATA = [2.0, np.float64(2.0), np.int64(2), np.array(2.0), np.array(2), np.True_]
DATA += [np.array([1, 2]), np.array([1.0, 2.0]), np.array([True, False]), [1.0, 2.0], (2.0, 3)]
KINDS = [float, int, np.ndarray, np.generic, np.floating, np.integer, np.float64, np.bool_]
KINDS += [numbers.Number, numbers.Real, numbers.Integral, (int, str), list]
KINDS += [tnp.ndarray, tnp.floating, tnp.number, tnp.float64]


@functools.singledispatch
def weight(d):
    return 2.0


@weight.register(float)
def _(d):
    return 3.0


@weight.register(np.ndarray)
def _(d):
    return 5.0


@weight.register(np.integer)
def _(d):
    return 7.0


def matched(d):
    match d:
        case float():
            return 2.0
        case np.ndarray():
            return 3.0
        case np.integer() | int():
            return 5.0
        case [_, _]:
            return 7.0
    return 11.0


class Scaled:
    """An operand that looks at the other one."""

    def __init__(self, value):
        self.value = value

    def __radd__(self, other):
        return self.value * (2.0 if isinstance(other, float) else 3.0)

    __add__ = __radd__


def of_class(x, d):
    return x[0] if d.__class__ is float else x[1] * len(d.__class__.__name__)


FUNCTIONS = [
    lambda x, d: x[0] if np.isscalar(d) else x[1] ** 2,
    lambda x, d: x[0] * weight(d),
    lambda x, d: x[0] * matched(d),
    lambda x, d: x[0] * (Scaled(1.5) + d),
    of_class,
    *[lambda x, d, k=k: x[0] if isinstance(d, k) else x[1] ** 2 for k in KINDS],
]
OF_ELEMENTS = [
    lambda x, d: sum([v * 2 if np.isscalar(k) else v for v, k in zip(x, d, strict=False)]),
    lambda x, d: x[0] * weight(d[0]) + x[1] * matched(d[1]),
    lambda x, d: x[0] * sum([2**n for n, k in enumerate(KINDS) if isinstance(d[0], k)]),
]


def check(f, d):
    c, g = tg.compile(f), tg.compile(f, verify="never")
    wanted, slopes = f(X, d), tg.grad(f)(X, d)
    for _ in range(3):
        assert float(c(X, d)) == pytest.approx(float(wanted))
        np.testing.assert_allclose(g.grad(X, d), slopes, rtol=1e-12)


#: Arrays match patterns of sequences from NumPy 2.5 on, and so do truths while they are recorded.
ignores_lengths = pytest.mark.filterwarnings("ignore:.*a tensor without axes has no length")


@ignores_lengths
@pytest.mark.parametrize("d", DATA, ids=repr)
def test_data_have_the_classes_of_plain_values(d):
    for f in FUNCTIONS:
        check(f, d)


@ignores_lengths
@pytest.mark.parametrize("d", DATA[6:], ids=repr)
def test_elements_of_data_have_the_classes_of_plain_values(d):
    for f in OF_ELEMENTS:
        check(f, d)


@pytest.mark.parametrize("d", [np.array([1, 2]), np.array([1.0, 2.0])], ids=repr)
def test_an_element_that_is_a_tensor_without_axes_is_not_taken_for_a_container(d):
    """Tensors without axes have methods that numbers do not have: then there is no program."""
    f = lambda x, d: x[0] if isinstance(d[0], collections.abc.Sized) else x[1] ** 2
    c = tg.compile(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert float(c(X, d)) == float(c(X, d)) == float(f(X, d))
    assert all("test_data_classes.py" in str(one.message) for one in caught)


def test_a_program_serves_one_class_of_numbers():
    f = lambda x, d: x[0] if isinstance(d, np.floating) else x[1] ** 2
    c = tg.compile(f)
    for d in (2.0, 2.0, np.float64(2.0), 3.0, np.float64(3.0), np.array(2.0), 2.0) * 3:
        assert float(c(X, d)) == float(f(X, d))


def test_the_class_of_a_computed_number_is_not_guessed():
    f = lambda x, d: x[0] if isinstance(np.sin(d), np.floating) else x[1] ** 2
    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match=r"the type of a computed number .*test_data_classes"):
        assert float(c(X, 2.0)) == float(f(X, 2.0))
    g = lambda x, d: x[0] if isinstance(2 * d[0], np.floating) else x[1] ** 2
    check(g, np.ones(2))


@pytest.mark.usefixtures("not_entered")
def test_recorded_values_keep_their_class():
    seen = []

    def f(x, d):
        seen.append([isinstance(x, np.ndarray), isinstance(x[0] * d, float), isinstance(d, float)])
        return x[0] * d

    tg.compile(f).grad(X, 2.0)
    assert seen == [[False, False, True]]
    t = tg.tensor(X)
    assert t.__class__ is type(t)
    assert not isinstance(t, np.ndarray)


def test_copies_of_data_are_data():
    check(lambda x, d: x[0] * copy.deepcopy(d)[0] + x[1] * copy.copy(d)[1], np.array([1.0, 2.0]))
    check(lambda x, d: x[0] * copy.deepcopy(d), 2.0)
    c = tg.compile(lambda x, d: x[0] * pickle.loads(pickle.dumps(d)))
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        assert float(c(X, 2.0)) == 2.6


def test_classes_are_of_the_thread_that_records():
    entered, left, seen = threading.Event(), threading.Event(), []

    def f(x, d):
        entered.set()
        left.wait(10.0)
        return x[0] if isinstance(d, float) else x[1]

    def other():
        entered.wait(10.0)
        t = tg.tensor(X, requires_grad=True)
        seen.append((t.__class__ is type(t), isinstance(t, np.ndarray), isinstance(t[0], float)))
        left.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert float(tg.compile(f)(X, 2.0)) == 1.3
    thread.join()
    assert seen == [(True, False, False)]


def test_abstract_classes_that_the_library_asks_for_first():
    """Its own code asks for the same abstract class before the user's does."""
    f = lambda x, d: tg.sum(x[:2] * d) * (2.0 if isinstance(d, numbers.Number) else 3.0)
    check(f, np.ones(2))
    check(lambda x, d: x[0] * (2.0 if isinstance(d, numbers.Number) else 3.0), np.int64(2))


# --- vmap -------------------------------------------------------------------------------------

TABLE = {1: 5.0, 2: 7.0}
MAPPED = [
    lambda r, d: r * TABLE.get(d, 0.5),
    lambda r, d: r * (2.0 if isinstance(d, np.floating) else 3.0),
    lambda r, d: r * len(f"{d!r}") * (2.0 if np.isscalar(d) else 3.0),
    lambda r, d: r * TABLE.get(d, 0.5) * len(str(d)) * matched(d),
]


@pytest.mark.filterwarnings("ignore:tapegrad.vmap")
@pytest.mark.parametrize("f", MAPPED)
def test_data_of_a_batch_are_plain_values(f):
    x, together = np.linspace(0.5, 2.0, 12), lambda x, d: np.sum(tg.vmap(f)(x, d) ** 2)
    for data in (np.arange(12) % 3, np.arange(12.0) % 4):
        wanted = np.array([f(r, d) for r, d in zip(x, data, strict=True)])
        slopes = 2 * wanted * wanted / x
        np.testing.assert_allclose(tg.vmap(f)(x, data), wanted)
        c = tg.compile(together)
        for g in (tg.grad(together), c.grad, c.grad, c.grad):
            np.testing.assert_allclose(g(x, data), slopes)


@pytest.mark.parametrize("options", [{}, {"verify": "never"}], ids=str)
def test_the_dtype_of_results_with_data(options):
    def f(x, rate):
        return np.sum(x * np.dtype(np.result_type(rate, np.float32)).itemsize)

    c = tg.compile(f, **options)
    for rate in (2.5, 2.5, 3.5, np.float64(2.5), np.ones(2), np.float64(2.5), 2.5):
        assert c(np.ones(3), rate) == f(np.ones(3), rate)
