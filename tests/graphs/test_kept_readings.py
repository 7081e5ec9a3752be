"""Functions made anew of code that was read before have its graph, if what they read is alike."""

import gc
import math
import types
import warnings
import weakref

import numpy as np
import pytest
from assumed import needs
from scipy.interpolate import CubicSpline

import tapegrad as tg
import tapegrad.math as tm
import tapegrad.numpy as tnp
import tapegrad.scipy.special as special
from tapegrad._entering import entering, exchanged_names, stand_ins
from tapegrad._program.dispatch import flows

pytestmark = needs("numba-reader")

POINTS = np.random.default_rng(0).normal(size=(4, 6))


@pytest.fixture
def readings(monkeypatch):
    """The names of the functions that are read."""
    found, read = [], flows.read

    def noting(f, *args):
        found.append(f.__name__)
        return read(f, *args)

    monkeypatch.setattr(flows, "read", noting)
    return found


def check(f, points=POINTS, verify="once"):
    """Compile a function and compare; returns it."""
    c = tg.compile(f, verify=verify)
    for x in points:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            value, gradient = c.value_and_grad(x)
        wanted, slope = tg.value_and_grad(f)(x)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-12)
    return c


def with_data(data):
    def f(x):
        total = 0.0
        for k in range(len(x)):
            total = total + (x[k] * data[k] if x[k] > 0.0 else -x[k])
        return total

    return f


class Settings:
    def __init__(self, rate, table):
        self.rate, self.table = rate, table


def with_object(settings):
    def f(x):
        total = 0.0
        for k in range(len(x)):
            total = total + (x[k] * settings.table[k % 2] if x[k] > settings.rate else -x[k])
        return total

    return f


def with_function(g):
    def f(x):
        total = 0.0
        for v in x:
            total = total + (g(v) if v > 0.0 else -v)
        return total

    return f


def scaled(rate):
    return lambda v: rate[0] * v


def with_counter(calls):
    def f(x):
        calls[0] += 1
        total = 0.0
        for v in x:
            total = total + (v * v if v > 0.0 else -v)
        return total

    return f


def with_two(a, b):
    def f(x):
        total = 0.0
        for k in range(len(x)):
            total = total + (x[k] * a[k] * b[k] if a is b or x[k] > 0.0 else b[k] - x[k])
        return total

    return f


def with_one(a, b):
    def f(x):
        total = 0.0
        for v in x:
            total = total + (v * v if a is b and v > 0.0 else -v)
        return total

    return f


def with_part(number):
    def f(x):
        total = 0.0
        for v in x:
            total = total + (v * np.copysign(2.0, number.imag) if v > 0.0 else -v)
        return total

    return f


def with_default(rate):
    def f(x, weight=rate):
        total = 0.0
        for v in x:
            total = total + (v * weight[0] if v > 0.0 else -v)
        return total

    return f


def array(k, dtype=float):
    return (np.arange(6) + k).astype(dtype)


def items(k):
    return [1.0 + k, 2.0, -1.0, 0.5, 3.0, 1.5]


#: Functions of other data that have the graph of the first one.
ALIKE = {
    "array": lambda k: with_data(array(k)),
    "counter": lambda k: with_counter([k]),
    "a function": lambda k: with_function(scaled([2.0])),
    "list": lambda k: with_data(items(0)),
    "object": lambda k: with_object(Settings(0.5, [1.0, 2.0])),
    "namespace": lambda k: with_object(types.SimpleNamespace(rate=0.5, table=[1.0, 2.0])),
    "array of an object": lambda k: with_object(Settings(0.5, array(k))),
    "two": lambda k: with_two(items(0), items(1)),
    "default": lambda k: with_default((2.0, array(k))),
}


@pytest.mark.parametrize("what", ALIKE)
def test_the_same_graph_serves_from_the_first_call_on(what, readings):
    f = ALIKE[what](0)
    assert check(f)._flows.found and readings == [f.__name__]
    for k in (1, 2):
        c = check(ALIKE[what](k))
        assert c._flows.found and not any(v.recorded for v in c._families.found.values())
    assert len(readings) == 1


def _square(v):
    return v * v


def _cube(v):
    return v * v * v


PAIR, TEXTS, LISTS = [float("1.5"), float("1.5")], ["".join("ab"), "".join("ab")], [[1.0], [1.0]]

#: Functions of one code that differ in what their graphs depend on.
DIFFERENT = {
    "items": [with_data(items(k)) for k in range(3)],
    "kinds of items": [with_data(one) for one in ([1, 1, 1, 0, 0, 1], [True, 1, 1, 0, 0, 1])],
    "signs of zero": [with_function(lambda v, z=z: v * np.copysign(1.0, z)) for z in (0.0, -0.0)],
    "dtypes": [with_data(array(1, dtype)) for dtype in (float, np.int64, bool)],
    "lengths": [with_data(np.arange(float(n))) for n in (6, 7, 8)],
    "orders": [with_data(one) for one in (array(1), np.arange(12.0)[::2], np.arange(6.0)[::-1])],
    "kinds": [with_data(one) for one in (items(0), tuple(items(0)), np.array(items(0)))],
    "rates": [with_object(Settings(rate, [1.0, 2.0])) for rate in (0.5, 0.1, 1)],
    "tables": [with_object(Settings(0.5, one)) for one in ([1.0, 2.0], [2.0, 2.0], (1.0, 2.0))],
    "functions": [with_function(one) for one in (scaled([2.0]), scaled([3.0]), np.sin, abs)],
    "our functions": [with_function(one) for one in (tm.sin, tm.cos, tnp.sin, tnp.exp)],
    "functions for SciPy's": [with_function(one) for one in (special.expit, special.erf)],
    "elementwise": [with_function(tg.elementwise(one)) for one in (_square, _cube)],
    "signs of parts": [with_part(one) for one in (complex(1.0, 0.0), complex(1.0, -0.0))],
    "one number": [with_one(one, other) for one in PAIR for other in PAIR],
    "one text": [with_one(one, other) for one in TEXTS for other in TEXTS],
    "one object": [with_one(one, other) for one in LISTS for other in LISTS],
    "lists of functions": [with_function(lambda v, k=k: v * k[0]) for k in ([1.0], [2.0])],
    "defaults": [with_default(one) for one in ((2.0,), (3.0,), [2.0], np.array([2.0]))],
}


@pytest.mark.parametrize("what", DIFFERENT)
@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("verify", ["once", "never"])
def test_other_values_give_their_own_graph(what, turn, verify):
    for f in DIFFERENT[what][::turn] * 2:
        check(f, verify=verify)


def test_which_objects_are_one():
    one, other = items(1), items(1)
    for f in (with_two(one, other), with_two(one, one), with_two(other, other)):
        check(f)
    for f in (with_two(one, one), with_two(one, other)):
        check(f)


class Louder(Settings):
    @property
    def rate(self):
        return 0.1

    @rate.setter
    def rate(self, value):
        pass


def test_other_classes():
    for kind in (Settings, Louder, Settings):
        check(with_object(kind(0.5, [1.0, 2.0])))


def test_an_array_that_lies_in_one_that_the_function_changes():
    def make(history, data):
        def f(x):
            history[0] += 1.0
            total = 0.0
            for k in range(len(x)):
                total = total + (x[k] * data[k] if x[k] > 0.0 else -x[k])
            return total

        return f

    check(make(np.zeros(2), array(1)))
    memory = np.arange(7.0)
    f = make(memory[:2], memory[1:])
    check(f)
    memory[:] = 2.0
    c = tg.compile(make(memory[:1], memory[:6]))
    found, expected = [], []
    for x in POINTS:
        memory[0] = 2.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found.append(c(x))
        memory[0] = 2.0
        expected.append(make(memory[:1], memory[:6])(x))
    np.testing.assert_allclose(found, expected)


class Counted:
    rate = 5.0


def with_rate_of_class(settings):
    def f(x):
        Counted.rate = Counted.rate + 1.0
        total = 0.0
        for v in x:
            total = total + (v * settings.rate if v > 0.0 else -v)
        return total

    return f


def with_rate_of(settings, names):
    def f(x):
        names["rate"] = names["rate"] + 1.0
        total = 0.0
        for v in x:
            total = total + (v * settings.rate if v > 0.0 else -v)
        return total

    return f


def _counted(own: bool):
    Counted.rate, made = 5.0, Counted()
    if own:
        made.rate = 5.0
    return with_rate_of_class(made)


def _rate(own: bool):
    made = types.SimpleNamespace(rate=5.0)
    return with_rate_of(made, {"rate": 5.0} if own else vars(made))


@pytest.mark.parametrize("make", [_counted, _rate])
@pytest.mark.parametrize("turn", [(True, False), (False, True, False)])
def test_an_attribute_that_is_changed_by_another_way(make, turn):
    for own in turn:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = list(map(tg.compile(make(own), verify="never"), POINTS))
        np.testing.assert_allclose(found, list(map(make(own), POINTS)), rtol=1e-12)


def test_what_changes_afterwards_is_seen():
    check(with_data(items(0)))
    data = items(0)
    c = tg.compile(with_data(data))
    for k, x in enumerate(POINTS):
        data[0] = float(k)
        assert c(x) == pytest.approx(with_data(data)(x))


def test_the_first_call_is_compared(monkeypatch):
    check(with_counter([0]))
    calls = [0]
    with pytest.warns(RuntimeWarning, match="changes calls"):
        c = tg.compile(with_counter(calls))
        c(POINTS[0])
    assert calls == [1]
    for x in POINTS:
        c(x)
    assert calls[0] <= 2  # once more for another edge


def test_data_of_earlier_functions_are_not_kept():

    data = np.zeros(6) + 1.0
    other = Settings(0.5, data)
    gone = weakref.ref(other)
    check(with_object(other))
    check(with_data(data))
    del other
    gc.collect()
    assert gone() is None
    holder = [one for one in gc.get_referrers(data) if one is not globals()]
    assert all(isinstance(one, types.FrameType) for one in holder), holder


def test_large_arrays_are_not_kept(readings):
    def make(weight):
        def f(x):
            total, grid = 0.0, np.arange(20_000)
            for v in x:
                total = total + (v * weight if v > 0.0 else -v) + grid[-1]
            return total

        return f

    for _ in range(2):
        check(make(2.0))
    assert readings == ["f"] * 2


def without_graph(limit):
    def f(x):
        total = 0.0
        with np.errstate(all="ignore"):
            for v in x:
                total = total + (v * v if v > limit else -v)
        return total

    return f


def test_that_there_is_no_graph_is_known(readings):
    with pytest.warns(RuntimeWarning, match="a with statement"):
        c = tg.compile(without_graph(0.0))
        [c.value_and_grad(x) for x in POINTS]
    assert readings == ["f"]
    c = tg.compile(without_graph(0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c.value_and_grad(POINTS[0])
    with pytest.warns(RuntimeWarning, match="a with statement"):
        c.value_and_grad(POINTS[1])
    for limit in (0.0, 0.5):
        check(without_graph(limit))
    assert readings == ["f"]


def with_long(data):
    def f(x):
        total = 0.0
        for k in range(len(x)):
            total = total + (x[k] * (data[k] % 7) if x[k] > 0.0 else -x[k])
        return total

    return f


@pytest.mark.parametrize("data", [np.arange(6) + 2**53, [1.0] * 6 + ["a"] * 100])
def test_why_there_is_no_graph_of_other_data(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert not check(with_long(data))._flows.found
    other = np.arange(6) if isinstance(data, np.ndarray) else [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert check(with_long(other))._flows.found


WORLD = """
class Local:
    rate = 2.0

def f(x):
    total = 0.0
    for v in x:
        total = total + (v * local.rate * g(0.5) if v > 0.0 else -v)
    return total

local = Local()
"""


@pytest.mark.parametrize("is_read", [True, False])
def test_worlds_of_earlier_functions_are_not_kept(is_read):
    """A class, an object of a library with data, and the names of the module."""
    grid = np.arange(3.0)
    g = math.exp if is_read else CubicSpline(grid, grid)
    world = {"__name__": "a_world", "g": g}
    exec(compile(WORLD, "<world>", "exec"), world)
    gone = [weakref.ref(one) for one in (world["Local"], world["f"], g)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert bool(check(world["f"])._flows.found) == is_read
    world.clear()
    for one in (entering._alike, stand_ins._of_instances):  # of the last ones
        one.clear()
    for one in (exchanged_names._rewritten, exchanged_names.watched_in):
        one.cache_clear()
    del g
    gc.collect()
    assert [one() for one in gone] == [None, None, math.exp if is_read else None]
