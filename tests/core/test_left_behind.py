"""What functions leave in the user's objects is plain when the transform is over."""

import collections
import dataclasses
import functools
import gc
import json
import math
import pickle
import threading
import types

import numba
import numpy as np
import pytest

import tapegrad as tg

X = np.array([0.3, 0.4])
POINT = collections.namedtuple("POINT", "k value")


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


@dataclasses.dataclass
class Entry:
    """A record of a history."""

    loss: object
    x: object


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A record that cannot be changed."""

    loss: object


class Slots:
    """An object without a dict."""

    __slots__ = ("other", "value")


class Model:
    """An object that keeps all kinds of things."""

    shared: dict = {}
    last = None

    def __init__(self):
        self.history, self.table, self.slots = [], {}, Slots()
        self.recent, self.set, self.space = collections.deque(maxlen=3), set(), None
        self.grid = self.objects = self.inner = None
        self.queue = __import__("queue").SimpleQueue  # a class of C

    @functools.cached_property
    def weights(self):
        return np.linspace(0.0, 1.0, 3)

    def loss(self, x):
        if self.grid is None:
            self.grid = np.zeros(3)
            self.objects = np.empty(2, object)
        self.grid_view = self.grid[1:]
        value = np.sum(np.sin(x)) * self.weights[1] + math.exp(x[0])
        self.history.append((1, value, {"x": x * 2.0, "more": [x[0], x[0] > 0.0]}))
        self.table["loss"] = self.table[2, 3] = value
        self.recent.append(value)
        self.set.add(x[0] > 5.0)
        self.slots.value = POINT(1, np.cos(x))
        self.slots.other = Fixed(value)
        self.space = types.SimpleNamespace(entry=Entry(value, x))
        self.objects[1] = np.sum(x)
        Model.shared["x"] = x
        Model.last = value
        self.inner = lambda: value
        return value


def tensors_in(one, seen=None):
    """All tensors behind an object, by the garbage collector's references."""
    seen, found, todo = {}, [], [one]
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, (types.ModuleType, types.FrameType)):
            continue
        seen[id(one)] = one
        if isinstance(one, tg.Tensor):
            found.append(one)
        if getattr(type(one), "__module__", "").partition(".")[0] == "tapegrad":
            continue
        if isinstance(one, types.FunctionType):
            todo += [*(one.__closure__ or ()), one.__defaults__]
        elif isinstance(one, np.ndarray):
            todo += [*one.flat] if one.dtype.hasobject else []
        elif not isinstance(one, type) or one.__module__ == __name__:
            todo += gc.get_referents(one)
    return found


TRANSFORMS = {
    "grad": tg.grad,
    "value_and_grad": tg.value_and_grad,
    "jacobian": tg.jacobian,
    "hessian": tg.hessian,
    "hvp": lambda f: lambda x: tg.hvp(f)(x, x),
    "jvp": lambda f: lambda x: tg.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: tg.vjp(f, x)[1](1.0),
    "vmap": lambda f: lambda x: tg.vmap(f)(x[None]),
    "grad of grad": lambda f: tg.grad(lambda x: tg.grad(f)(x)[0]),
    "compile": lambda f: tg.compile(f),
    "compiled gradient": lambda f: tg.compile(f).grad,
}


@pytest.mark.filterwarnings("ignore:tapegrad.compile. .* changes")
@pytest.mark.filterwarnings("ignore:tapegrad.compile. .* runs eagerly")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_all_that_is_left_is_plain(name):
    model, plain = Model(), Model()
    plain.loss(X)
    call = TRANSFORMS[name](model.loss)
    for _ in range(2):
        call(X)
        assert not tensors_in(model) and not tensors_in(Model)
        k, value, more = model.history[-1]
        assert type(value) is np.float64 and type(more["x"]) is np.ndarray
        wanted = plain.history[-1]
        assert (k, value) == wanted[:2] and type(more["more"][1]) is np.bool_
        np.testing.assert_array_equal(more["x"], wanted[2]["x"])
        assert type(model.slots.value) is POINT and type(model.slots.value.value) is np.ndarray
        assert json.loads(json.dumps([value, *model.recent]))[0] == value
        assert model.inner() is value is model.table["loss"] is model.space.entry.loss
        assert model.slots.other.loss is value is Model.last
        assert type(model.grid) is type(model.weights) is np.ndarray
        assert type(model.loss(X)) is np.float64  # a plain call afterwards


def test_views_share_memory_as_before():
    kept = {}

    def f(x):
        y = np.zeros(4)
        y[:2] = x
        kept.update(y=y, half=y[:2], turned=y[::-1], empty=np.zeros(3), raw=None)
        kept["part"] = kept["empty"][1:]
        return np.sum(y**2)

    pull = tg.vjp(f, X)[1]
    assert all(type(kept[name]) is np.ndarray for name in ("y", "half", "turned", "part"))
    kept["y"][0], kept["empty"][2] = 7.0, 8.0
    assert kept["half"].tolist() == [7.0, 0.4] and kept["turned"][3] == 7.0
    assert kept["part"].tolist() == [0.0, 8.0]
    np.testing.assert_allclose(pull(1.0)[0], 2.0 * X)  # whose values are the tape's own


def test_long_histories():
    """The time does not depend on their length, and many items of one call are found."""
    history, table, count = [0.0] * 100000, {k: 0.0 for k in range(100000)}, 3000

    def f(x):
        for k in range(count):
            history.append(x[0] * k)
            table[-1 - k] = k, x[1]
        return x[0] * x[1]

    tg.grad(f)(X)
    assert {*map(type, history)} == {float, np.float64}
    assert not [one for one in history[-count:] if type(one) is not np.float64]
    assert not [k for k in range(count) if type(table[-1 - k][1]) is not np.float64]


def test_tensors_of_the_user_stay():
    w, data = tg.tensor([1.0, 2.0], requires_grad=True), tg.tensor([3.0, 4.0])
    used, doubled, kept = w * 2.0, data * 2.0, {}
    state = {"w": w, "data": data, "used": used, "doubled": doubled}

    def f(x):
        kept["mixed"], kept["own"] = x * state["used"], x * state["doubled"]
        return np.sum(x * state["w"] * state["data"])

    np.testing.assert_allclose(tg.grad(f)(X).detach(), [3.0, 8.0])
    assert [*state.values()] == [w, data, used, doubled]
    assert isinstance(kept["mixed"], tg.Tensor) and type(kept["own"]) is np.ndarray
    np.sum(kept["mixed"]).backward()  # depends on `w`
    np.testing.assert_allclose(w.grad, 2.0 * X)


def test_arguments_that_are_kept():
    kept = {}

    def f(x, t):
        kept["x"], kept["t"] = x, t
        return 2.0

    assert tg.grad(f, argnums=(0, 1))(X, 3.0)[0].tolist() == [0.0, 0.0]
    assert type(kept["x"]) is np.ndarray and type(kept["t"]) is float and kept["t"] == 3.0
    np.testing.assert_array_equal(kept["x"], X)


def test_what_errors_leave():
    history = []

    def f(x):
        history.append(np.sum(x))
        raise KeyError("stopped")

    with pytest.raises(KeyError):
        tg.grad(f)(X)
    assert [type(one) for one in history] == [np.float64]


class Stopped(Exception):
    """An error with values of its own."""

    def __init__(self, x, *args):
        super().__init__(*args)
        self.x = x


@pytest.mark.parametrize("transform", [tg.grad, tg.hessian, lambda f: tg.compile(f).grad])
def test_what_errors_hold(transform):
    errors = []

    def f(x):
        try:
            raise ValueError("at", x[0], {"x": 2.0 * x})
        except ValueError as error:
            errors.append(error)
        raise Stopped(x, x[1] * 2.0)

    with pytest.raises(Stopped) as stopped:
        transform(f)(X)
    assert type(stopped.value.x) is np.ndarray and stopped.value.x.tolist() == X.tolist()
    assert [*map(type, stopped.value.args)] == [np.float64] and stopped.value.args[0] == X[1] * 2.0
    for error in errors:
        assert [*map(type, error.args)] == [str, np.float64, dict] and error.args[1] == X[0]
        assert type(error.args[2]["x"]) is np.ndarray


LAST, COUNT = None, 0


def of_globals(x):
    global LAST, COUNT
    LAST, COUNT = np.exp(x), np.sum(x)
    return COUNT


def test_globals_and_variables():
    best, count = None, []

    def f(x):
        nonlocal best
        best = x * of_globals(x)
        return np.sum(best)

    tg.grad(f)(X)
    assert type(best) is type(LAST) is np.ndarray and type(COUNT) is np.float64
    np.testing.assert_array_equal(LAST, np.exp(X))

    def returned(x, history):
        history.append(x[0])
        return history[-1]

    assert tg.grad(returned)(X, count).tolist() == [1.0, 0.0] and type(count[0]) is np.float64


@numba.njit
def _sum(a):
    return a.sum()


def test_what_takes_plain_values_alone():
    kept = {}

    def f(x):
        kept["a"], kept["b"], kept["z"] = x * 2.0, np.zeros(2), np.exp(1j * x)
        return np.sum(kept["a"])

    tg.grad(f)(X)
    assert _sum(kept["a"]) == 1.4 and _sum(kept["b"]) == 0.0
    memoryview(kept["a"])
    assert type(kept["z"]) is np.ndarray and kept["z"].dtype == complex
    assert type(pickle.loads(pickle.dumps(kept))["a"]) is np.ndarray


def test_while_another_thread_is_inside_a_transform():
    """They become plain when the last transform is over."""
    history, begun, may_end = [], threading.Event(), threading.Event()

    def waiting(x):
        begun.set()
        may_end.wait(10.0)
        return np.sum(x)

    other = threading.Thread(target=lambda: tg.grad(waiting)(X))
    other.start()
    begun.wait(10.0)
    tg.grad(lambda x: (history.append(np.sum(x)), x[0])[1])(X)
    may_end.set()
    other.join()
    assert [type(one) for one in history] == [np.float64]
