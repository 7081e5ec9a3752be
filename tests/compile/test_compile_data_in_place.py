"""`tg.compile`: large arrays from outside are read where they lie, in each call."""

import copy
import dataclasses
import functools
import gc
import pickle
import sys
import threading
import types

import numpy as np
import pytest
from assumed import needs
from compiled import counts, programs, same

import tapegrad as tg
from tapegrad._program.dispatch import takeover
from tapegrad._program.passes.memory_reuse import LARGE

pytestmark = needs("numba-reader")  # without it arrays are compared
ROWS, COLUMNS = LARGE // 20 + 10, 20
RNG = np.random.default_rng(11)
W = 0.1 * RNG.normal(size=COLUMNS)
X = RNG.normal(size=(ROWS, COLUMNS))


def matrix():
    return RNG.normal(size=(ROWS, COLUMNS))


def loss(w, x):
    """One product with the data, and what NumPy computes of it."""
    return np.mean(np.logaddexp(0.0, x @ w))


def outside(c):
    """The number of arrays that are read where they lie, of each program."""
    found = [one for family in c._families.found.values() for one in family.found]
    return [len(one.program.code.held) for one in found]


def calls_of(f):
    """A function that counts its calls."""
    count = []

    @functools.wraps(f)
    def counted(*args):
        count.append(0)
        return f(*args)

    return counted, count


def check(f, c, w=W, rtol=1e-12):
    for at in (w, 2.0 * w):
        value, gradient = c.value_and_grad(at)
        expected = tg.value_and_grad(f)(at)
        np.testing.assert_allclose(value, expected[0], rtol=rtol)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e2 * rtol, atol=1e-12)
        np.testing.assert_allclose(c(at), expected[0], rtol=rtol)


def changed(x):
    """Changes of an array in place, one after the other."""
    x[0, 0] += 3
    yield
    x[-1] *= 2
    yield
    x[...] = x[::-1].copy()
    yield


# --- ways to the data -----------------------------------------------------------------------------


class Model:
    def __init__(self, x):
        self.x, self.scale = x, 1.0

    def value(self, w):
        return self.scale * loss(w, self.x)


@dataclasses.dataclass
class Data:
    x: np.ndarray
    name: str = "data"


def module_with(x):
    made = types.ModuleType("users_data")
    made.x = x
    return made


def helper(x):
    def inner(w):
        return loss(w, x)

    return inner


def twice(x):
    """A helper that calls itself and reads the data at the end."""

    def inner(w, times):
        return inner(2.0 * w, times - 1) if times else loss(w, x)

    return lambda w: inner(w, 2)


def of(get, held):
    return lambda w: loss(w, get(held))


WAYS = {
    "closure": lambda x: lambda w: loss(w, x),
    "list": lambda x: of(lambda held: held[0], [x, 1.0]),
    "dict": lambda x: of(lambda held: held["x"], {"x": x, "history": []}),
    "nested": lambda x: of(lambda held: held["all"][0][1], {"all": [(0, x)]}),
    "attribute": lambda x: of(lambda held: held.x, Model(x)),
    "method": lambda x: (lambda m: lambda w: m.value(w))(Model(x)),
    "bound method": lambda x: Model(x).value,
    "dataclass": lambda x: of(lambda held: held.x, Data(x)),
    "namespace": lambda x: of(lambda held: held.x, types.SimpleNamespace(x=x)),
    "module": lambda x: of(lambda held: held.x, module_with(x)),
    "default": lambda x: lambda w, x=x: loss(w, x),
    "partial": lambda x: functools.partial(lambda x, w: loss(w, x), x),
    "helper": helper,
    "recursion": twice,
    "generator": lambda x: lambda w: sum(loss(w, one) for one in (x, x)),
    "map": lambda x: lambda w: sum(map(lambda one: loss(w, one), [x])),
}


#: Those that are not followed.
COMPARED = ("generator", "map")


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_data(way):
    x = matrix()
    f = WAYS[way](x)
    c = tg.compile(f)
    check(f, c)
    if way != "bound method":  # attributes are arguments
        assert outside(c) == [way not in COMPARED] and programs(c) == 1
    for _ in changed(x):
        check(f, c)
    if way not in ("bound method", *COMPARED):
        assert programs(c) == 1


@counts
def test_globals():
    f, count = calls_of(lambda w: loss(w, X))
    c = tg.compile(f)
    check(f, c)
    before = len(count)
    for _ in changed(X):
        value = c(W)
        assert len(count) == before
        same(value, loss(W, X))
    assert outside(c) == [1]
    assert "data from outside, read where they lie: X, 0.133 MB" in c.explain()


@pytest.mark.parametrize("settings", [{"native": True}, {"verify": "never"}, {"verify": "always"}])
def test_settings(settings):
    x, y = matrix(), RNG.normal(size=ROWS)
    f = lambda w: np.sum((x @ w - y) ** 2)
    c = tg.compile(f, **settings)
    for _ in changed(x):
        check(f, c)
        c.wait()
        y[::3] *= -1.0
        check(f, c)
    assert outside(c) == [1]  # y is small


@pytest.mark.parametrize("native", [None, True])
def test_two_arrays_and_what_is_computed_of_one(native):
    """NumPy computes −y, and the program for itself; a logarithm is a constant, y is compared."""
    x, y, far = np.resize(matrix(), (LARGE, 4)), 2.0 + RNG.random(LARGE), 3.0
    for f, held in (
        (lambda w: np.mean(np.logaddexp(0.0, -y * (x @ w))), 2),
        (lambda w: np.sum((x @ w - y) ** 2), 2),
        (lambda w: np.sum((0.5 * y - 1) * (x @ w) / (far - y)), 1),
        (lambda w: np.sum((2 * y) * np.sin(x @ w) / (1.0 / y)), 2),
        (lambda w: np.sum(-y * (x @ w)) + np.sum(-y * np.sin(x @ w)), 2),
        (lambda w: np.sum(np.log(y) * (x @ w)), 1),
        (lambda w: np.sum(-x @ w), 0),
    ):
        c = tg.compile(f, native=native)
        for _ in changed(x):
            check(f, c, W[:4])
            c.wait()
            y[::3] += 1.0
            check(f, c, W[:4])
        assert {*outside(c)} == {held}


def test_data_that_change_while_native_code_is_compared(monkeypatch):
    x, real = matrix(), takeover._evaluated
    f = lambda w: np.sum(np.sin(x @ w))

    def evaluated(*given):
        found = real(*given)
        x[0] += 1.0
        return found

    monkeypatch.setattr(takeover, "_evaluated", evaluated)
    c = tg.compile(f, native=True)
    c(W)
    c.wait()
    monkeypatch.undo()
    for _ in changed(x):
        check(f, c)


def test_equal_arrays_that_are_others():
    """One that holds what is computed of another in one call, not in the next."""
    x, y = np.resize(matrix(), (LARGE, 4)), 2.0 + RNG.random(LARGE)
    z = -y
    for f in (
        lambda w: np.sum(-y * (x @ w)) + np.sum(z * np.sin(x @ w)),
        lambda w: np.sum(-y[:, None] * (x * w)) + np.sum(z * np.sin(x @ w)),
        lambda w: np.sum((-y)[:, None] * (x * w)) + np.sum(z * np.sin(x @ w)),
    ):
        z[...] = -y
        c = tg.compile(f)
        for _ in changed(x):
            check(f, c, W[:4])
            y[::3] += 1.0
            check(f, c, W[:4])
            z[::2] = -y[::2]
            check(f, c, W[:4])


# --- what is computed in advance ------------------------------------------------------------------

READ = {
    "logarithm": lambda x, w: np.sum(np.log(np.abs(x)) @ w),
    "matrix": lambda x, w: w @ (x.T @ x) @ w,
    "standardized": lambda x, w: np.sum(np.sin((x - x.mean(0)) / x.std(0) @ w)),
    "mask": lambda x, w: np.sum(x[x[:, 0] > 0.0] @ w),
    "order": lambda x, w: np.sum(x[np.argsort(x[:, 0])][:10] @ w),
    "index": lambda x, w: np.sum(w[(np.abs(x[:, 0]) * 3).astype(int) % 20]),
    "branch": lambda x, w: np.sum(x @ w) if x[0, 0] > 1.0 else np.sum(w * w),
    "branch on all": lambda x, w: np.sum(x @ w) if x.sum() > 0.0 else np.sum(w * w),
    "float": lambda x, w: float(x[0, 0]) * np.sum(x @ w),
    "plain": lambda x, w: np.sum(np.asarray(x, float)[:5] @ w),
    "length": lambda x, w: np.sum(x @ w) / len(x) / x.shape[1],
    "items": lambda x, w: sum(float(row[0]) for row in x[:4]) * np.sum(w * w),
    "list": lambda x, w: np.sum(w * np.array(x[0].tolist())),
    "type": lambda x, w: np.sum(x @ w) if isinstance(x, np.ndarray) else 0.0 * np.sum(w),
    "buffer": lambda x, w: len(bytes(memoryview(x)[:1])) * np.sum(x @ w),
    "solution": lambda x, w: np.sum(np.linalg.solve(x[:20], w)),
}


@pytest.mark.parametrize("kind", READ)
def test_what_depends_on_values(kind):
    x = matrix()
    f = lambda w: READ[kind](x, w)
    c = tg.compile(f)
    check(f, c, rtol=1e-8)
    for _ in changed(x):
        check(f, c, rtol=1e-8)
    x *= -1.0
    check(f, c, rtol=1e-8)
    assert c._reason is None


@counts
def test_recordings_stop():
    """A function of which something is computed in advance is recorded once more, no more."""
    x = matrix()
    f, count = calls_of(lambda w: w @ (x.T @ x) @ w)
    c = tg.compile(f)
    for _ in range(4):
        c(W)
    before = len(count)
    for _ in range(4):
        c(W)
    assert len(count) == before <= 4 and outside(c) == [0]
    x[0] += 1.0
    same(c(W), W @ (x.T @ x) @ W)


# --- kinds of memory ------------------------------------------------------------------------------

MEMORY = {
    "float32": lambda tmp_path: matrix().astype(np.float32),
    "integers": lambda tmp_path: RNG.integers(-3, 3, size=(ROWS, COLUMNS)),
    "in columns": lambda tmp_path: np.asfortranarray(matrix()),
    "with gaps": lambda tmp_path: np.hstack([matrix(), matrix()])[:, ::2],
    "a part": lambda tmp_path: np.vstack([matrix(), matrix()])[5 : 5 + ROWS],
    "reversed": lambda tmp_path: matrix()[::-1],
    "of a file": lambda tmp_path: memmap(tmp_path),
    "swapped": lambda tmp_path: matrix().astype(">f8"),
}


def memmap(folder):
    made = np.memmap(folder / "data", dtype=float, mode="w+", shape=(ROWS, COLUMNS))
    made[...] = matrix()
    return made


#: Those of other dtypes, and not in one piece.
NOT_IN_PLACE = ("float32", "integers", "swapped", "with gaps", "reversed")


@pytest.mark.parametrize("kind", MEMORY)
def test_memory(kind, tmp_path):
    x = MEMORY[kind](tmp_path)
    f = lambda w: np.sum(np.sin(x @ w))
    c = tg.compile(f)
    check(f, c, rtol=1e-5 if kind == "float32" else 1e-10)
    for _ in changed(x):
        check(f, c, rtol=1e-5 if kind == "float32" else 1e-10)
    assert c._reason is None
    assert outside(c) == [kind not in NOT_IN_PLACE]


def test_float32_throughout():
    x, w = matrix().astype(np.float32), W.astype(np.float32)
    f = lambda w: np.sum(np.sin(x @ w))
    c = tg.compile(f)
    for _ in changed(x):
        value, gradient = c.value_and_grad(w)
        expected = tg.value_and_grad(f)(w)
        np.testing.assert_allclose(value, expected[0], rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-4, atol=1e-3)
        assert gradient.dtype == np.float32
    assert outside(c) == [1]
    check(f, c, rtol=1e-10)  # and of float64
    x[0] = 1.0
    check(f, c, rtol=1e-10)
    same(c(w), f(w), 1e-4)


def test_read_only_arrays_with_views_that_are_written():
    x = matrix()
    view = x[:]
    x.flags.writeable = False
    f = lambda w: loss(w, x)
    c = tg.compile(f)
    for _ in changed(view):
        check(f, c)
    assert outside(c) == [1]


def test_views_of_one_array():
    every = RNG.normal(size=(2 * ROWS, COLUMNS))
    first, second = every[:ROWS], every[ROWS // 2 : ROWS // 2 + ROWS]
    f = lambda w: loss(w, first) + np.sum((second @ w) ** 2)
    c = tg.compile(f)
    for _ in changed(every):
        check(f, c)
    assert outside(c) == [0]  # neither lies in the other


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_of_one_array(order):
    """Those in one piece are read where they lie."""
    every = np.asarray(np.hstack([matrix(), RNG.normal(size=(ROWS, 1))]), order=order)
    x, y = every[:, :-1], every[:, -1]
    f = lambda w: np.sum((x @ w - y) ** 2) + np.sum(y[::-1] * (x @ w))
    c = tg.compile(f)
    for _ in changed(every):
        check(f, c, rtol=1e-10)
        y[5] = 3.0
        check(f, c, rtol=1e-10)
    assert outside(c) == [order == "F"]


# --- names, memory and other objects --------------------------------------------------------------


def test_a_name_that_becomes_another_array():
    x = matrix()

    def f(w):
        return loss(w, x)

    c = tg.compile(f)
    check(f, c)
    for other in (matrix(), matrix()[:700], matrix().astype(np.float32), np.ones((2, COLUMNS))):
        x = other
        check(f, c, rtol=1e-5)
    x = matrix()
    check(f, c)


def test_an_array_that_is_freed():
    """Another one may lie at its address."""
    holder = {"x": matrix()}
    f = lambda w: loss(w, holder["x"])
    c = tg.compile(f)
    for _ in range(6):
        check(f, c)
        del holder["x"]
        gc.collect()
        holder["x"] = matrix()


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # of NumPy 2.5
def test_layouts_that_change():
    x = matrix()
    f = lambda w: np.sum(np.sin(x.reshape(-1, COLUMNS) @ w)) + len(x)
    c = tg.compile(f)
    check(f, c)
    x.shape = 2 * ROWS, COLUMNS // 2
    check(f, c)
    x.shape = ROWS, COLUMNS
    check(f, c)


def test_an_array_that_is_resized():
    x = matrix()
    f = lambda w: loss(w, x)
    c = tg.compile(f)
    check(f, c)
    x.resize((ROWS // 2, COLUMNS), refcheck=False)
    check(f, c)
    x.resize((2 * ROWS, COLUMNS), refcheck=False)
    check(f, c)
    x[...] = 1.0
    check(f, c)


def test_an_argument_that_is_read_outside_too():
    x = matrix()
    f = lambda w, z: loss(w, x) + np.sum((z @ w) ** 2)
    c = tg.compile(f)
    for z in (x, x, matrix(), x):
        value, gradient = c.value_and_grad(W, z)
        same(value, f(W, z))
        same(gradient, tg.grad(f)(W, z), 1e-10)
        x[1] += 0.5
    g = lambda v: np.sum(v * v[0]) + loss(W, x)
    d = tg.compile(g)
    for _ in range(3):
        same(d.grad(x), tg.grad(g)(x), 1e-10)
        same(d(x), g(x))
        x[2] += 0.5


def test_a_function_that_writes_to_data():
    x = matrix()

    def f(w):
        x[0] = 1.0
        return loss(w, x)

    c = tg.compile(f)
    for _ in range(4):
        check(f, c)
    y = matrix()

    def g(w):
        np.multiply(y, 1.0, out=y)
        return loss(w, y)

    c = tg.compile(g)
    for _ in range(4):
        check(g, c)


def test_out_in_the_data():
    x = matrix()
    f = lambda w: loss(w, x)
    c = tg.compile(f)
    check(f, c)
    expected = tg.value_and_grad(f)(W)
    value, gradient = c.value_and_grad(W, out=x[3])
    same(value, expected[0])
    same(gradient, expected[1], 1e-10)
    same(x[3], expected[1], 1e-10)
    check(f, c)


# --- other uses -----------------------------------------------------------------------------------


def test_derivatives():
    x = matrix()
    f = lambda w: np.mean(np.sin(x @ w))
    c = tg.compile(f)
    for _ in changed(x):
        for _ in range(3):
            same(c.hessian(W), tg.hessian(f)(W), 1e-8)
            same(c.hvp(W, W), tg.hvp(f)(W, W), 1e-8)
            same(c.jvp((W,), (W[::-1].copy(),)), tg.jvp(f, (W,), (W[::-1].copy(),)), 1e-10)
            same(c.vjp(W)[1](2.0)[0], 2.0 * tg.grad(f)(W), 1e-10)
    g = lambda w: x[:30] @ w + np.sum(x @ w)
    d = tg.compile(g)
    for _ in changed(x):
        same(d.jacobian(W), x[:30] + x.sum(0), 1e-10)


def test_rows_and_numba():
    x = matrix()
    f = lambda w: loss(w, x)
    c, many = tg.compile(f), RNG.normal(size=(5, COLUMNS))
    for _ in changed(x):
        values, gradients = c.map(many)
        same(values, np.array([f(w) for w in many]), 1e-12)
        same(gradients, np.array([tg.grad(f)(w) for w in many]), 1e-10)
        total, gradient = c.sum(many)
        same(total, values.sum(), 1e-12)
        same(gradient, gradients, 1e-12)
        same(tg.vmap(c)(many), values, 1e-12)
    value, value_and_grad = c.numba(W)
    gradient = np.empty(COLUMNS)
    same(value(W), f(W))
    same(value_and_grad(W, gradient), f(W))
    same(gradient, tg.grad(f)(W), 1e-10)


@pytest.mark.parametrize("use", ["map", "sum", "numba", "save"])
def test_first_uses_where_data_are_compared(use, tmp_path):
    x = matrix()
    f = lambda w: w @ (x.T @ x) @ w
    c, many = tg.compile(f), RNG.normal(size=(5, COLUMNS))
    if use == "numba":
        same(c.numba(W)[0](W), f(W))
    elif use == "save":
        c(W)
        c.save(tmp_path / "file")
        same(tg.load(tmp_path / "file")(W), f(W))
    else:
        found = getattr(c, use)(many, gradient=False)
        same(np.sum(found), sum(map(f, many)))
    assert outside(c) == [0]


def test_recorded_calls():
    """Data that change before the reverse are those of the call."""
    x = matrix()
    for f in (lambda w: loss(w, x), lambda w: np.sin(x @ w)):
        c = tg.compile(f)
        for _ in range(4):
            w = tg.tensor(W, requires_grad=True)
            out = np.sum(c(w) * 2.0)
            expected = tg.grad(lambda w, f=f: np.sum(f(w) * 2.0))(W)
            x[...] = x[::-1] * 1.1
            out.backward()
            same(w.grad.numpy(), expected, 1e-10)


def test_files_copies_and_pickles(tmp_path):
    x = X
    c = tg.compile(of_globals)
    check(of_globals, c)
    c.save(tmp_path / "file")
    loaded = tg.load(tmp_path / "file")
    expected = c.value_and_grad(W)
    for one in (loaded, copy.copy(c), copy.deepcopy(c), pickle.loads(pickle.dumps(c))):
        same(one.value_and_grad(W), expected)
    copies = [copy.copy(c), pickle.loads(pickle.dumps(c))]
    for _ in changed(x):
        same(loaded.value_and_grad(W), expected)  # a file has the values of its time
        for one in copies:
            check(of_globals, one)
    stale = pickle.dumps(c)
    x[0] += 1.0
    check(of_globals, pickle.loads(stale))


def of_globals(w):
    return loss(w, X)


def test_reports():
    c = tg.compile(of_globals)
    check(of_globals, c)
    assert c.profile(W).steps
    assert c.draw().startswith("<svg")


def test_changes_by_another_thread():
    """Each element is one of the old or the new ones, so that a sum lies between theirs."""
    x, at, stop = np.abs(matrix()), np.abs(W), threading.Event()
    low, high = x.copy(), 2.0 * x

    def write():
        while not stop.is_set():
            x[...] = high
            x[...] = low

    f = lambda w: np.sum(np.abs(x @ w))
    ends = [np.sum(low @ at), np.sum(high @ at)]
    compiled = [tg.compile(f, native=native) for native in (False, True)]
    for c in compiled:
        check(f, c)
        c.wait()
        for _ in range(30):  # native code is compared before
            check(f, c)
    thread = threading.Thread(target=write)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for c in compiled * 30:
            assert ends[0] - 1e-9 <= c(at) <= ends[1] + 1e-9
            assert ends[0] - 1e-9 <= c.value_and_grad(at)[0] <= ends[1] + 1e-9
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    for c in compiled:
        check(f, c)


def test_branches_on_arguments():
    """Recordings of other branches read the same arrays."""
    x = matrix()
    f = lambda w: loss(w, x) if w[0] > 0.0 else np.sum((x @ w) ** 2)
    c = tg.compile(f)
    for w in (W, -W, W, -W):
        for _ in changed(x):
            check(f, c, w)


# --- what a function may do besides ---------------------------------------------------------------


class Overloaded:
    """Operators, calls and conversions that read data."""

    def __init__(self, x):
        self.data = x

    def __mul__(self, other):
        return self.data[0, 0] * other

    __rmul__ = __mul__

    def __call__(self, w):
        return self.data[0, 1] * w

    def __getattr__(self, name):
        return self.data[0, 2] if name == "found" else object.__getattribute__(self, name)

    def __bool__(self):
        return bool(self.data[0, 0] > 0.0)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.data[0])

    def __len__(self):
        return int(abs(self.data[0, 0]) * 10.0)

    def __iter__(self):
        return iter(self.data[:2])

    def __getitem__(self, key):
        return self.data[key] * 2.0

    @property
    def rows(self):
        return np.log(np.abs(self.data))

    @classmethod
    def of_class(cls):
        return cls.shared

    @functools.lru_cache  # noqa: B019
    def kept(self, n):
        return self.data[n, 0]


class Odd(np.ndarray):
    """An array whose items are others."""

    def __getitem__(self, key):
        return np.asarray(super().__getitem__(key)) * 3.0


def masked_as_numpys(x):
    """A function that says that it is one of NumPy's."""
    return functools.wraps(np.sum)(lambda w: x[0, 0] * np.sum(w))


def looks_up(x):
    def inner(w):
        return w[0] * first()

    def first():
        return x[0, 0]

    return inner


def of_zip(x):
    """A zip that is used up: the second loop does nothing."""

    def f(w):
        pairs, total = zip((x, x), (1.0, 2.0), strict=True), 0.0
        for one, factor in pairs:
            total = total + factor * np.sum(one @ w)
        for one, factor in pairs:
            total = total + factor * float(one[0, 0])
        return total + (x[0, 0] if tuple(pairs) else x[0, 1]) * w[0]

    return f


def of_loops(x):
    def f(w):
        total = 0.0
        for k in range(0, 6, 2):
            for row in x[k : k + 2]:
                total += (row @ w) ** 2
        return total + np.sum(x @ w)

    return f


def updated(x):
    def f(w):
        r = x @ w
        r -= x[:, 0]
        r *= x[:, 1]
        return np.sum(r * r)

    return f


def nested(x):
    def f(w):
        def inner(z):
            return x[0, 0] * np.sum(z)

        return inner(x @ w)

    return f


def raising(x):
    def f(w):
        if np.sum(w) > 1e9:
            raise ValueError(x[0, 0])
        return np.sum(x @ w)

    return f


COUNTED = 0


class Counting(Model):
    def __init__(self, x):
        super().__init__(x)
        self.calls, self.seen = 0, []

    def value(self, w):
        self.calls += 1
        self.seen.append(1.0)
        return self.scale * loss(w, self.x)


def counts_by_name(x):
    def f(w):
        global COUNTED
        COUNTED += 1
        return loss(w, x)

    return f


def counts_inside(x):
    count, state = 0, {"n": 0, "x": x, "best": [0.0]}

    def f(w):
        nonlocal count
        count += 1
        state["n"] += 1
        state["best"][0] = 1.0
        print(end="")
        return loss(w, state["x"])

    return f


def hands_on(x):
    """What is written is read."""
    state = {"x": x, "now": np.zeros(1)}

    def f(w):
        state["now"] = state["x"][:2]
        return loss(w, state["x"]) + np.sum(np.exp(state["now"]) * w)

    return f


#: Whether the data are read where they lie, and what a function of data and weights does.
DOES = {
    "reads rows": (True, of_loops),
    "writes to a result": (True, updated),
    "raises": (False, raising),
    "counts in an object": (True, lambda x: (lambda m: lambda w: m.value(w))(Counting(x))),
    "counts by a name": (True, counts_by_name),
    "counts in others": (True, counts_inside),
    "hands on": (False, hands_on),
    "uses up a zip": (False, of_zip),
    "defines": (False, nested),
    "calls what reads": (False, looks_up),
    "calls a masked one": (False, masked_as_numpys),
    "multiplies": (
        False,
        lambda x: (lambda m: lambda w: np.sum(x @ w) + np.sum(m * w))(Overloaded(x)),
    ),
    "calls": (False, lambda x: (lambda m: lambda w: np.sum(x @ w) + np.sum(m(w)))(Overloaded(x))),
    "finds": (False, lambda x: (lambda m: lambda w: np.sum(x @ w) * m.found)(Overloaded(x))),
    "asks": (False, lambda x: (lambda m: lambda w: np.sum(x @ w) if m else w[0])(Overloaded(x))),
    "converts": (
        False,
        lambda x: (lambda m: lambda w: np.sum(x @ w) + np.sum(np.asarray(m) * w))(Overloaded(x)),
    ),
    "counts": (False, lambda x: (lambda m: lambda w: np.sum(x @ w) * len(m))(Overloaded(x))),
    "goes through": (
        False,
        lambda x: (lambda m: lambda w: np.sum(x @ w) + sum([np.sum(r * w) for r in m]))(
            Overloaded(x)
        ),
    ),
    "indexes": (
        False,
        lambda x: (lambda m: lambda w: np.sum(x @ w) + np.sum(m[0] * w))(Overloaded(x)),
    ),
    "reads a property": (
        False,
        lambda x: (lambda m: lambda w: np.sum(x @ w) + np.sum(m.rows @ w))(Overloaded(x)),
    ),
    "remembers": (False, lambda x: (lambda m: lambda w: np.sum(x @ w) * m.kept(3))(Overloaded(x))),
    "has a subclass": (
        False,
        lambda x: (lambda o: lambda w: np.sum(x @ w) + np.sum(o[0] * w))(x.view(Odd)),
    ),
    "powers": (
        False,
        lambda x: lambda w: np.sum(x @ w) + np.sum(w ** x[0]) + np.sum(x[1] ** (1.0 + w * w)),
    ),
    "compares": (False, lambda x: lambda w: np.sum(np.where(x[:, 0] > x @ w, 1.0, 2.0) * (x @ w))),
    "selects": (False, lambda x: lambda w: np.sum(np.where(x @ w > 0.0, x[:, 0], x[:, 1]))),
    "contracts": (
        False,
        lambda x: lambda w: np.sum(np.einsum("ij,j->i", x, w)) + np.sum(np.tensordot(x, w, 1)),
    ),
    "contracts two": (False, lambda x: lambda w: np.einsum("ij,ik,k->j", x, x, w) @ w),
    "sums in a product": (False, lambda x: lambda w: np.sum(np.einsum("ij,k->k", x, w))),
    "takes maxima": (
        True,
        lambda x: lambda w: np.sum(np.maximum(x @ w, x[:, 0]) * np.hypot(x[:, 1], x @ w)),
    ),
    "divides": (True, lambda x: lambda w: np.sum(x / (1.0 + w * w)) + np.sum(w / x[:, :])),
    "a kernel": (True, lambda x: lambda w: np.sum(np.exp(-np.sum((x[:, None, :] - w) ** 2, -1)))),
    "transposes": (True, lambda x: lambda w: np.sum((x.T @ (x @ w)) * w) + np.sum(w @ x.T)),
    "copies": (False, lambda x: lambda w: np.sum(x.copy() @ w) + np.sum(np.asarray(x)[0] * w)),
    "reshapes": (True, lambda x: lambda w: np.sum(x[1:].reshape(2, -1, COLUMNS) @ w)),
    "returns": (False, lambda x: lambda w: (np.sum(x @ w), x)),
    "returns a view": (False, lambda x: lambda w: [np.sum(x @ w), x[0]]),
    "does nothing with a result": (
        False,
        lambda x: lambda w: (x @ w, np.sum(w))[1] + np.sum(x @ w),
    ),
    "shares": (False, lambda x: (lambda a, b: lambda w: np.sum(a @ w) + b[0, 0] * w[0])(x, x[:])),
    "two names": (
        True,
        lambda x: (lambda a, b: lambda w: np.sum(a @ w) + np.sum(b @ w * 2.0))(x, x),
    ),
    "a part": (True, lambda x: (lambda b: lambda w: np.sum(x @ w) + np.sum(b * w))(x[0])),
    "an item": (False, lambda x: lambda w: np.sum(x @ w) * x[0, 0]),
    "one row": (True, lambda x: (lambda r: lambda w: np.sum(r @ (r[0] * w[0])))(x.reshape(1, -1))),
    "imports": (False, lambda x: lambda w: np.sum(x @ w) * __import__("math").floor(abs(x[0, 0]))),
    "by getattr": (
        False,
        lambda x: (lambda m: lambda w: np.sum(getattr(m, "data") @ w))(Overloaded(x)),
    ),
    "by eval": (
        False,
        lambda x: (lambda m: lambda w: np.sum(x @ w) * eval("m.data[0, 0]", {"m": m}))(
            Overloaded(x)
        ),
    ),
}


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
@pytest.mark.parametrize("kind", DOES)
def test_what_a_function_does(kind):
    x = matrix() + 3.0
    held, make = DOES[kind]
    f = make(x)
    c, w = tg.compile(f), np.abs(W) + 0.1
    for k in range(6):
        if kind != "by eval" or k < 2:  # what that reads is not seen
            found, expected = c(w), f(w)
            if type(expected) in (tuple, list):
                for a, b in zip(found, expected, strict=True):
                    same(a, b, 1e-10)
            else:
                same(found, expected, 1e-10)
                same(c.grad(w), tg.grad(f)(w), 1e-9)
        w = w * 1.1
        x[k % 3, k % 2] += 1.0 + k
        x[-1] *= 0.5
    assert {*outside(c)} == {int(held)} or not (held or outside(c))
