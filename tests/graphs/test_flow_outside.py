"""Data from outside in graphs: containers, arrays of all kinds, attributes of objects."""

import collections
import dataclasses
import enum
import functools
import types

import numpy as np
import pytest
from count_graphs import EagerCalls, called, compared, reason_of
from outside_functions import FUNCTIONS, WAYS

import tapegrad as tg
import tapegrad.numpy as tnp

POINTS = [[1.0, 2.0, 3.0], [-1.0, 2.0, -3.0], [0.5, -2.0, 1.0], [-1.0, -1.0, -1.0]]


def compiled(f, points=POINTS):
    """The function, compiled, after calls that take other branches and are right."""
    c = tg.compile(f)
    check(c, f, points, 3)
    assert reason_of(c) is None
    return c


def check(c, f, points=POINTS, rounds=1):
    expected = called(EagerCalls(f), points, 1)
    for k, (value, gradient) in enumerate(called(c, points, rounds)):
        wanted, derivative = expected[k % len(points)]
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, derivative, rtol=1e-12)


def signed(x):
    return x if x > 0 else x * x


SAMPLE = [(name, [*WAYS][k % len(WAYS)]) for k, name in enumerate(FUNCTIONS) if k % 3 == 0]


@pytest.mark.filterwarnings("ignore:int.. of a recorded tensor:RuntimeWarning")
@pytest.mark.parametrize(("name", "way"), SAMPLE)
def test_functions_written_in_ways(name, way):
    """All 500 are run by `python tests/fuzz/count_graphs.py`."""
    reason, _ = compared(name, way)
    assert reason is None


# --- what changes is seen at once -----------------------------------------------------------------


@dataclasses.dataclass
class Settings:
    rate: float = 0.5
    table: list = dataclasses.field(default_factory=lambda: [1.0, 2.0, 3.0])
    weights: np.ndarray = dataclasses.field(default_factory=lambda: np.array([2.0, -1.0, 0.5]))

    @property
    def doubled(self):
        return 2.0 * self.rate

    def scaled(self, x):
        return self.rate * x

    def __call__(self, x):
        return self.scaled(x) + 1.0


class Slots:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k


def test_lists_and_what_they_hold():
    data = [2.0, [0.5, -1.0], (3.0, [4.0])]

    def f(x):
        return data[0] * signed(x[0]) + data[1][1] * signed(x[1]) + data[2][1][0] * x[2]

    c = compiled(f)
    data[0] = 5.0
    check(c, f)
    data[1][1] = 7.0
    check(c, f)
    data[2][1][0] = -2.0
    check(c, f)
    data[1] = [1.0, 2.0]
    check(c, f)
    assert reason_of(c) is None


def test_dicts():
    data = {"a": 2.0, "b": {"w": np.array([1.0, 2.0, 3.0]), "n": 2}, 3: -1.0}

    def f(x):
        total = 0.0
        for k in range(data["b"]["n"]):
            total = total + data["b"]["w"][k] * signed(x[k])
        for key, value in data.items():
            if key == "a" or (key == 3 and x[0] > 0):
                total = total + value * x[2]
        return total + (data["c"] if "c" in data else 0.0) + data.get("d", 1.0)

    c = compiled(f)
    data["b"]["w"][0] = 9.0
    check(c, f)
    data["c"] = 5.0
    check(c, f)
    data["b"]["n"] = 3
    check(c, f)
    del data[3]
    check(c, f)
    assert reason_of(c) is None


@pytest.mark.parametrize("kind", [set, frozenset])
def test_sets(kind):
    chosen = kind([0, 2])

    def f(x):
        total = float(len(chosen))
        for k in range(3):
            j = k if x[k] > 0 else 0
            total = total + (x[k] if k in chosen else x[k] ** 2) * (2.0 if j in chosen else 1.0)
        return total

    c = compiled(f)
    if kind is set:
        chosen.add(1)
        check(c, f)


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # of NumPy 2.5
def test_arrays_of_integers_and_truths_and_in_other_orders():
    order, mask = np.array([0, 2, 1]), np.array([True, False, True])
    table = np.arange(12.0).reshape(3, 4)[:, ::2].T

    def f(x):
        total = 0.0
        for k in range(len(order)):
            j = order[k]
            if mask[k] and x[j] > 0:
                total = total + x[j] ** 2 * table[1, k]
            else:
                total = total + 3.0 * x[j] * table[0, j]
        return total

    c = compiled(f)
    for change in (
        lambda: order.__setitem__(0, 1),
        lambda: mask.__setitem__(slice(None), [False, True, True]),
        lambda: table.__setitem__((1, 2), -4.0),
    ):
        change()
        check(c, f)
    assert len(c._flows.found) == 1  # elements are read in each call
    order.shape = (3, 1)
    order.shape = (3,)
    check(c, f)


def test_an_array_that_becomes_one_of_another_shape_or_dtype():
    data = {"w": np.array([1.0, 2.0, 3.0])}

    def f(x):
        total = 0.0
        for k in range(len(data["w"])):
            total = total + data["w"][k] * signed(x[k % 3])
        return total

    c = compiled(f)
    data["w"] = np.array([1.0, 2.0, 3.0, 4.0])
    check(c, f)
    data["w"] = np.array([3, 2, 1])
    check(c, f)
    data["w"] = [0.5, 0.25]
    check(c, f)
    assert reason_of(c) is None


def test_attributes_of_objects():
    settings, slots = Settings(), Slots(3.0)

    def f(x):
        total = settings.doubled * signed(x[0]) + settings.scaled(x[1]) + settings(x[2])
        for k in range(3):
            total = total + settings.table[k] * settings.weights[k] * signed(x[k])
        return total * slots.k

    c = compiled(f)
    settings.rate = 2.0
    check(c, f)
    settings.table[1] = -4.0
    check(c, f)
    settings.weights[2] = 6.0
    check(c, f)
    settings.weights = np.array([1.0, 1.0, 2.0])
    check(c, f)
    slots.k = 0.25
    check(c, f)
    settings.scaled = lambda x: 5.0 * x  # hides the method
    check(c, f)
    assert reason_of(c) is None


def test_methods_and_properties_that_are_replaced(monkeypatch):
    settings = Settings()

    def f(x):
        return settings.doubled * signed(x[0]) + settings.scaled(x[1]) + x[2]

    c = compiled(f)
    monkeypatch.setattr(Settings, "scaled", lambda self, x: -self.rate * x)
    check(c, f)
    monkeypatch.setattr(Settings, "doubled", property(lambda self: 4.0 * self.rate))
    check(c, f)
    assert reason_of(c) is None


def test_attributes_of_classes_and_modules(monkeypatch):
    module = types.ModuleType("mathematics")  # which is none of the libraries
    module.RATES = [1.0, 2.0]

    class Base:
        K = 2.0

        @staticmethod
        def twice(x):
            return 2.0 * x

        @classmethod
        def times(cls, x):
            return cls.K * x

    class Own(Base):
        pass

    def f(x):
        return module.RATES[1] * signed(x[0]) + Own.K * Own.twice(x[1]) + Own.times(x[2])

    c = compiled(f)
    module.RATES[1] = 5.0
    check(c, f)
    module.RATES = [0.0, -1.0]
    check(c, f)
    Base.K = 3.0
    check(c, f)
    Own.K = 4.0  # hides that of the base
    check(c, f)
    assert reason_of(c) is None


class Table:
    def __init__(self):
        self.items = [1.0, 2.0, 3.0]

    def __getitem__(self, k):
        return self.items[k] if k != 1 else -1.0

    def __len__(self):
        return len(self.items)

    def __contains__(self, one):
        return one in self.items

    def __iter__(self):
        return iter(self.items)


def test_methods_that_python_calls_for_operators():
    table, space = Table(), types.SimpleNamespace(rate=2.0)

    def f(x):
        total = space.rate * x[0] if 2.0 in table else x[1]
        for k in range(len(table)):
            total = total + table[k] * signed(x[k % 3])
        for v in table:
            total = total + v * x[0]
        return total

    c = compiled(f)
    table.items[1] = 7.0
    check(c, f)
    space.rate = 5.0
    table.items += [2.0]
    check(c, f)
    assert reason_of(c) is None


def test_an_attribute_that_comes_and_goes():
    settings = Settings()

    def f(x):
        weight = 1.0 if hasattr(settings, "k") and not hasattr(settings, "other") else 2.0
        rate = getattr(settings, "rate")
        return rate * signed(x[0]) + getattr(settings, "k", 3.0) * x[1] + weight * x[2]

    c = compiled(f)
    settings.k = 5.0
    check(c, f)
    del settings.k
    check(c, f)
    Settings.k = -1.0
    try:
        check(c, f)
    finally:
        del Settings.k
    check(c, f)
    assert reason_of(c) is None


@pytest.mark.parametrize("make", [lambda m: m.loss, lambda m: m, lambda m: lambda x: m.loss(x)])
def test_a_method_or_an_object_as_the_function(make):
    class Model:
        rate = 0.3

        def __init__(self):
            self.weights, self.order = [1.0, 2.0, 3.0], np.array([0, 2, 1])
            self.settings = {"k": 2.0, "table": np.array([1.0, 2.0, 3.0])}

        def helper(self, v):
            return self.rate * v if v > 0 else v * v

        def loss(self, x):
            total = 0.0
            for k in range(len(self.weights)):
                r = x[self.order[k]] - self.weights[k]
                total = total + self.settings["table"][k] * self.helper(r)
            return total * self.settings["k"]

        __call__ = loss

    model = Model()
    c = tg.compile(make(model))
    check(c, lambda x: model.loss(x), rounds=3)
    assert "a graph of" in c.explain()
    model.weights[1], model.order[0], model.rate = 5.0, 1, 2.0
    model.settings["table"][2] = model.settings["k"] = -1.0
    check(c, lambda x: model.loss(x), rounds=3)


class Mode(enum.Enum):
    SUM = 1
    PRODUCT = 2


Point = collections.namedtuple("Point", "mode weight")


def test_enums_and_named_tuples():
    points = [Point(Mode.SUM, 2.0), Point(Mode.PRODUCT, 0.5), Point(Mode.SUM, -1.0)]

    def f(x):
        total = 1.0
        for k, point in enumerate(points):
            if point.mode is Mode.SUM:
                total = total + point.weight * signed(x[k])
            else:
                total = total * (1.0 + point.weight * x[k] ** 2)
        return total * points[0].mode.value

    c = compiled(f)
    points[0] = Point(Mode.PRODUCT, 3.0)
    check(c, f)


# --- lists by computed indices, and long ones -----------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("count", [5, 40, 3000])
def test_items_by_computed_indices(kind, count):
    floats = kind(np.linspace(-1.0, 2.0, count).tolist())
    mixed = kind([k if k % 2 else 0.5 * k for k in range(count)])
    pairs = kind([(k % 3, 0.1 * k) for k in range(count)])
    truths = kind([k % 2 == 0 for k in range(count)])

    def f(x):
        total, k = 0.0, 0
        for _ in range(4):
            j, w = pairs[k - 1]
            total = total + floats[-k - 1] * signed(x[j]) + w * mixed[k]
            k = (3 * k + 1 if truths[k] and x[j] > 0 else k + 2) % count
        return total + (floats[k // 2] if x[0] > 0 else mixed[2])

    compiled(f)


def test_long_lists_are_gone_through_in_a_loop():
    data = (0.01 * np.arange(2000.0)).tolist()
    labels = [k % 3 for k in range(2000)]

    def f(x):
        total = 0.0
        for y, k in zip(data, labels):  # noqa: B905
            r = y - x[k]
            total = total + (r * r if r < 1.0 else 2.0 * r - 1.0)
        return total + max(data) * x[0] + sum(labels[5:8]) * x[1]

    c = compiled(f)
    (flow,) = c._flows.found.values()
    assert len(flow.primal.program.graph.blocks) < 60
    data[700] = 50.0
    check(c, f)
    labels.append(2)
    check(c, f)
    labels.pop()
    data[3] = 2  # an int
    check(c, f)


def test_tables_of_lists():
    table = [[1.0, 2.0, 3.0], [4.0, 5.0], [6.0, 7.0, 8.0]]
    arrays = {0: np.array([1.0, 2.0, 3.0]), 1: np.array([3.0, -2.0, 1.0]), 7: np.zeros(3)}

    def f(x):
        i = 0 if x[0] > 0 else 2
        j = len(table[i]) - (1 if x[1] > 0 else 2)
        key = 7 if x[2] > 2.0 else (1 if x[2] > 0 else 0)
        return table[i][j] * x[0] + arrays[key][i] * x[1] + np.sum(arrays[key] * x)

    c = compiled(f)
    table[2][1] = 11.0
    check(c, f)
    arrays[7][0] = 4.0
    check(c, f)


def test_a_variable_that_is_one_of_two_lists():
    one, other = [1.0, 2.0, 3.0], [4, 5, 6, 7]

    def f(x):
        found = one if x[0] > 0 else other
        return found[-1] * x[1] + sum(found) * x[2] + len(found)

    c = compiled(f)
    one.append(10.0)
    check(c, f)


# --- what is refused ------------------------------------------------------------------------------


class Odd(list):
    pass


class Asking:
    def __getattr__(self, name):
        return 2.0


@pytest.mark.parametrize(
    ("data", "expression", "why"),
    [
        (np.ones(2, np.float32), "data[0]", "an array of float32 from outside; make it one of"),
        (np.array([2**60, 1]), "data[0]", "integers beyond 2"),
        (np.array(2), "data", "an array of int64 without dimensions"),
        (Odd([1.0]), "data[0]", "it reads a Odd from outside"),
        (Asking(), "data.k", "the attribute k of a Asking"),
        ([[1.0]] * 101, "sum([len(one) for one in data])", "a list of 101 items"),
        ([np.ones(2)] * 20, "data[int(x[0].item())][0]", "one of 20 items, by a computed index"),
        (collections.deque([1.0]), "sum(data)", "lies outside of the function"),
    ],
)
def test_refused(data, expression, why, not_entered):
    scope = {"data": data}
    exec(f"def f(x):\n    return x[0] * {expression} if x[0] > 0 else x[1]", scope)
    c = tg.compile(scope["f"])
    check(c, scope["f"], rounds=2)
    assert why in reason_of(c)


def test_what_the_function_writes_to():
    data = [np.zeros(3), {"k": 1.0}, Settings()]
    for body in ("data[0][0] = 2.0", "data[1]['k'] = 2.0", "data[2].rate = 3.0"):
        scope = {"data": data}
        exec(f"def f(x):\n    {body}\n    return x[0] if x[0] > 0 else x[1]", scope)
        c = tg.compile(scope["f"], verify="never")
        with pytest.warns(RuntimeWarning, match="f changes (data|rate) at <string>:2"):
            check(c, scope["f"])
        assert reason_of(c) is None


# --- functions of no arrays, indices, tuples of lists ---------------------------------------------


def test_arrays_that_are_the_same_in_each_call():
    def f(x):
        grid, unit = np.linspace(0.0, 1.0, 5), np.eye(3)
        total = 0.0
        for k in np.arange(len(x)):
            y = np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 0.5]]) @ (unit[k] * x)
            total = total + (y[0] * grid[k + 1] if x[k] > 0 else y[1] * grid[k])
        return total

    compiled(f)


@pytest.mark.parametrize("text", ["array([0.0] * 9)", "arange(9.0)", "eye(9)[4]", "ones(9)"])
def test_arrays_of_known_numbers_that_are_written(text):
    scope = {"np": tnp}
    exec(f"def made():\n    return np.{text}", scope)
    made = scope["made"]

    def loss(x):
        total = 0.0
        for k in range(3):
            a, other = made(), made()
            part = a[k:]
            if x[k] > 0:
                part[1] = x[k] ** 2
                part *= 2.0
            total = total + tnp.sum(a * a) * x[k] + other[k + 1]
        return total

    compiled(loss)


def test_integers_of_known_numbers_that_are_written():
    def loss(x):
        places = tnp.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
        places[0] = 2
        total = 0.0
        for k in places:
            total = total + (x[k] if x[k] > 0 else x[k] ** 2)
        return total

    compiled(loss)


def test_ellipsis_and_new_axes():
    table = np.arange(12.0).reshape(2, 3, 2)

    def f(x):
        y = table[..., 1] * x[None, :]
        z = table[0, ...][..., None, 0]
        return np.sum(y) + (np.sum(z[:, 0] * x) if x[0] > 0 else np.sum(x[None, ..., 1:]))

    compiled(f)


def test_a_list_as_arguments():
    weights = [1.0, 2.0, 3.0]

    def g(a, b, c):
        return a * b if b > 0 else c

    def f(x):
        return g(*weights) * signed(x[0]) + g(*[x[0], x[1], x[2]]) + max(*weights)

    compiled(f)


@pytest.mark.parametrize(
    "index",
    [
        "ORDER",
        "MASK",
        "[2, 0, 2]",
        "ORDER, 1:",
        ":, ORDER[:2] - 1",
        "x > 0.0",
        "PAIRS",
        "..., [1, 0]",
    ],
)
@pytest.mark.parametrize("array", ["TABLE", "y"])
def test_items_by_arrays(index, array):
    scope = dict(np=np, ORDER=np.array([2, 0, 1, -1]), MASK=np.array([True, False, True]))
    scope |= dict(TABLE=np.arange(9.0).reshape(3, 3).T, PAIRS=np.array([[0, 1], [2, 2]]))
    text = f"""
def f(x):
    y = x[:, None] * x
    part = {array}[{index}]
    if x[0] > 0:
        return np.sum(part * part) + x[1] + part.shape[0]
    total = x[0] * x[2]
    for row in part:
        total = total + np.sum(row) * x[1]
    return total
"""
    exec(text, scope)
    c = compiled(scope["f"])
    scope["ORDER"][1], scope["MASK"][0] = 1, False
    check(c, scope["f"])


def test_an_index_out_of_bounds_leaves_the_graph():
    order = np.array([0, 2])

    def f(x):
        return np.sum(x[order] ** 2) if x[0] > 0 else np.sum(x[1:])

    c = compiled(f)
    order[1] = 3
    with pytest.raises(IndexError):
        c(np.array(POINTS[0]))


# --- a number before the first round, an array after it -------------------------------------------


def panel(x):
    h = 0.5
    for k in range(4):
        h = 0.1 + 0.5 * h + np.abs(x) * (0.2 if x[0] > 0 else 0.1 * k)
    return np.sum(np.log(h))


def paths(x):
    total, best = 0, None
    for k in range(3):
        s = np.exp(x * k)
        total = total + s
        if best is None or s[0] > best[0]:
            best = s
    return np.sum(total / 3) + best[1]


def of_pairs(x):
    state = (0.0, 1.0)
    for k in range(5):
        a, b = state
        state = (a + x * b, b + x * x) if k % 2 else (a - x, b if x[0] > 0 else b * x)
    return np.sum(state[0] * state[1])


class Sum:
    def __init__(self):
        self.total = 0.0

    def add(self, y):
        self.total = self.total + y


def in_an_object(x):
    made = Sum()
    for k in range(3):
        made.add(x * k if x[0] > 0 else x * x)
    return np.sum(made.total)


def summed_by_sum(x):
    return np.sum(sum((x if x[0] > 0 else x * x, 2.0 * x, x)))


@pytest.mark.parametrize("f", [panel, paths, of_pairs, in_an_object, summed_by_sum])
@pytest.mark.parametrize("native", [None, True])
def test_a_number_that_becomes_an_array(f, native):
    c = tg.compile(f, native=native)
    check(c, f, rounds=3)
    c.wait()
    check(c, f)
    assert reason_of(c) is None
    x, v = np.array(POINTS[1]), np.array([0.3, -1.0, 0.5])
    np.testing.assert_allclose(c.hvp(x, v), tg.hvp(f)(x, v), rtol=1e-10, atol=1e-12)


def test_a_result_that_is_a_number_or_an_array_has_no_graph():
    def f(x, n):
        total = 0.0
        for k in range(int(n)):
            total = total + x * k
        return total

    c = tg.compile(f)
    for n in (2.0, 0.0, 3.0, 2.0):
        value = c(np.ones(3), n)
        assert np.shape(value) == ((3,) if n else ())
    assert "on one branch" in reason_of(c)


def test_a_variable_of_more_and_more_kinds_ends_the_reading():
    def f(x):
        nested = 0.0
        for _ in range(30):
            nested = (nested, x[0])
        return x[0] if x[1] > 0 else x[2]

    c = tg.compile(f)
    check(c, f, rounds=2)
    assert "more than" in reason_of(c)


# --- every use of a graph -------------------------------------------------------------------------

WEIGHTS = [0.5, -1.5, 2.0, 1.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
ORDER = np.array([2, 0, 1, 1])
SETTINGS = Settings(weights=np.arange(6.0)[::2])


def of_everything(x):
    total = 0.0
    for w in WEIGHTS:
        total = total + w * signed(x[0])
    for k in range(len(ORDER)):
        total = total + SETTINGS.weights[ORDER[k] % 3] * WEIGHTS[ORDER[k]] * signed(x[ORDER[k]])
    return total * SETTINGS.doubled


def test_derivatives_rows_and_native_code():
    c = tg.compile(of_everything, native=True)
    check(c, of_everything, rounds=2)
    c.wait()
    check(c, of_everything)
    assert reason_of(c) is None
    x = np.array(POINTS[1])
    np.testing.assert_allclose(c.hessian(x), tg.hessian(of_everything)(x), rtol=1e-12, atol=1e-14)
    rows = np.array(POINTS)
    values, gradients = c.map(rows)
    for row, value, gradient in zip(rows, values, gradients, strict=True):
        wanted, derivative = tg.value_and_grad(of_everything)(row)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, derivative, rtol=1e-12)


def test_files(tmp_path):
    c = compiled(of_everything)
    c.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    check(loaded, of_everything)


def test_parts_of_partials_and_methods():
    def f(x, data, table):
        return data[0] * signed(x[0]) + table["k"][1] * signed(x[1]) + x[2]

    data, table = [2.0, 3.0], {"k": np.array([1, 2])}
    partial = functools.partial(f, data=data, table=table)
    c = compiled(partial)
    data[0] = 7.0
    check(c, partial)
    table["k"][1] = 5
    check(c, partial)
    assert reason_of(c) is None
    bound = functools.partial(Settings(2.0).scaled)
    compiled(lambda x: bound(signed(x[0])) + tnp.sum(x))


# --- integers of fewer than 64 bits ---------------------------------------------------------------

NARROW = {name: np.array([0, 2, 1], name) for name in ("int8", "uint8", "int16", "uint16", "int32")}


@pytest.mark.parametrize("name", NARROW)
def test_narrow_integers(name):
    labels, image = NARROW[name], (50 * np.arange(6).reshape(2, 3)).astype(name)[:, ::-1]

    def f(x):
        total = 0.0
        for k in range(len(labels)):
            j = labels[k]
            if j == 1 or x[j] > 0:
                total = total + x[j] ** 2 * image[1, k] + image[0, k] / 255 * x[k]
            else:
                total = total + float(image[0, j]) * 0.5 - x[2 - int(j)] * (int(image[1, 2]) - 300)
            for _ in range(j):
                total = total + 0.25 * image[0, j] * x[0]
        return total + np.sum(x[labels]) + np.sum(x[labels > 1] * 2.0) + np.sum(image @ x)

    c = compiled(f)
    labels[0], image[1, 1] = 1, 3
    try:
        check(c, f)
    finally:
        labels[0] = 0


@pytest.mark.parametrize(
    "text",
    ["L[1] + L[2]", "L[1] - 1", "-L[1]", "abs(L[1])", "L[1] ** 2", "np.sqrt(L[1])", "np.max(L)"]
    + ["L * 2", "np.sum(L)", "(L @ L)", "L[:] * L", "np.maximum(L[0], 1)", "np.sum(L.copy())"]
    + ["[L[0], L[1]][int(x[0].item())] * 2", "L[::-1] + 1", "np.where(x > 0, L, 0) + 1"],
)
def test_arithmetic_of_narrow_integers_has_no_graph(text, not_entered):
    scope = {"L": np.array([100, 120, 3], np.int8), "np": np}
    exec(f"def f(x):\n    return np.sum(({text}) * x) if x[0] > 0 else x[1]", scope)
    c, points = tg.compile(scope["f"]), [[0.5, 2.0, 1.0], [-1.0, 2.0, 3.0]]
    with np.errstate(all="ignore"):
        check(c, scope["f"], points, rounds=3)
    assert reason_of(c) is not None


@pytest.mark.filterwarnings("ignore:.*holds integers beyond")
def test_integers_that_grow_beyond_what_floats_hold():
    data = np.array([3, 4])

    def f(x):
        return x[0] * (data[0] % 10) if x[0] > 0 else x[1] * (data[1] % 10)

    def of_argument(x, numbers):
        return x[0] * (numbers[0] % 10) if x[0] > 0 else x[1] * (numbers[1] % 10)

    c, of_both = compiled(f), tg.compile(of_argument)
    for x in POINTS * 3:
        of_both(x, np.array([3, 4]))
    for large in (2**53 + 1, -(2**53) - 1, -(2**63), 2**63 - 1):
        data[:] = large
        check(c, f)
        for x in POINTS:
            assert of_both(x, data) == of_argument(x, data)


class Overriding(collections.namedtuple("Base", "a b")):
    @property
    def a(self):
        return self[0] * 10


class Item(collections.namedtuple("Base", "a b")):
    def __getitem__(self, k):
        return 10.0 * k


class Untrue(collections.namedtuple("Base", "a b")):
    def __bool__(self):
        return False


class Long(collections.namedtuple("Base", "a b")):
    def __len__(self):
        return 7


class Turned(collections.namedtuple("Base", "a b")):
    def __iter__(self):
        return iter((20.0, 30.0))


class Extended(collections.namedtuple("Base", "a b")):
    __slots__ = ()

    def total(self):
        return self.a + self.b


@pytest.mark.parametrize("kind", [Overriding, Item, Untrue, Long, Turned, Extended])
def test_named_tuples_that_override_what_tuples_do(kind):
    data = kind(1.0, 2.0)

    def f(x):
        a, b = data
        weight = data.a + data[1] * len(data) + a - b + (3.0 if data else 5.0)
        return x[0] * weight if x[0] > 0 else x[1] * weight * weight

    def of_argument(x, data):
        return x[0] * (data.a + (3.0 if data else 5.0)) if x[0] > 0 else x[1] * data[1]

    c, of_both = tg.compile(f, verify="never"), tg.compile(of_argument, verify="never")
    check(c, f, POINTS, 3)
    for x in POINTS * 3:
        assert of_both(x, data) == pytest.approx(float(of_argument(x, data)), rel=1e-12)
    assert (reason_of(c) is None) == (kind is Extended)
    if kind is not Extended:
        assert kind.__name__ in reason_of(c)


# --- what numbers of NumPy are --------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.int64(3), np.float64(1.0), 3, 1.0])
def test_numbers_of_numpy_are_no_ints_of_python(value):
    other = value

    def f(x):
        total = 0.0
        for v in x:
            if v > 0.0:
                total = total + (v if isinstance(value, int) else 0.4 * v)
            else:
                total = total + (v if value is other else 0.2 * v)
        return total

    c = tg.compile(f, verify="never")
    for _ in range(2):
        for x in np.array(POINTS):
            assert c(x) == pytest.approx(f(x))


def test_an_empty_list_by_a_computed_index():
    data: list = []

    def f(x):
        total = 0.0
        for v in x:
            total = total + (v * data[int(v > 2.0)] if v > 1.0 else -v)
        return total

    c = tg.compile(f)
    for x in (np.array([-1.0, 0.5]), np.array([0.5, -1.0]), np.array([0.5, 0.2])):
        assert c(x) == pytest.approx(f(x))
    with pytest.raises(IndexError):
        c(np.array([2.0, 1.0]))
    assert not any("reading failed" in one for one in c._flows.refused.values())


def test_reasons_have_the_names_of_defaults():
    def make(history, log):
        def f(x, history=history, *, log=log):
            history["n"] = history["n"] + 1.0
            log["n"] = log["n"] + 1.0
            return x * (history["n"] if x > 1.0 else log["n"])

        return f

    c = tg.compile(make({"n": 0.0}, {"n": 0.0}))
    with pytest.warns(RuntimeWarning, match="depends on history, which"):
        [c(2.0), c(2.5), c(0.5), c(0.1)]
