"""Debuggers, profilers, mocks, coroutines and generators around functions that are entered."""

import asyncio
import concurrent.futures
import cProfile
import functools
import inspect
import math
import operator
import pickle
import pstats
import subprocess
import sys
import traceback
import types
import unittest.mock
import warnings

import numba
import numpy as np
import pytest
from assumed import needs

import tapegrad as tg
from tapegrad._core.tensor.pytree import code_of

X = np.array([0.3, 0.4])
WANTED = [math.cos(0.3) * 0.4, math.sin(0.3)]


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


def objective(x):
    y = np.zeros(2)
    y[0] = math.sin(x[0])
    return y[0] * np.array([x[1], 1.0])[0]


# --- tools ----------------------------------------------------------------------------------------


def traced(call):
    """The lines of `objective` that a debugger sees in a call, with the names of variables."""
    seen = []

    def trace(frame, event, _):
        if frame.f_code.co_name == "objective" and event == "line":
            seen.append((frame.f_code.co_filename, frame.f_lineno, sorted(frame.f_locals)))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(X)
    finally:
        sys.settrace(before)
    return seen


def test_debuggers_see_the_same_lines():
    assert traced(tg.grad(objective)) == traced(objective) and len(traced(objective)) == 3


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in Python 3.12")
def test_events_of_one_function():
    monitoring, lines = sys.monitoring, []  # type: ignore[attr-defined]
    monitoring.use_tool_id(3, "test")
    try:
        monitoring.register_callback(3, monitoring.events.LINE, lambda code, n: lines.append(n))
        monitoring.set_local_events(3, objective.__code__, monitoring.events.LINE)
        objective(X)
        wanted, lines[:] = [*lines], []
        gradient = tg.grad(objective)
        gradient(X)
        assert lines == wanted and len(wanted) == 3
        monitoring.set_local_events(3, objective.__code__, 0)
        gradient(X)
        assert lines == wanted
    finally:
        monitoring.set_local_events(3, objective.__code__, 0)
        monitoring.register_callback(3, monitoring.events.LINE, None)
        monitoring.free_tool_id(3)


def test_profilers_have_the_users_names():
    profile, gradient = cProfile.Profile(), tg.grad(objective)
    profile.runcall(gradient, X)
    places = [place for place in pstats.Stats(profile).stats if place[2] == "objective"]
    assert places == [(__file__, objective.__code__.co_firstlineno, "objective")]


def test_tracebacks_have_the_users_lines():
    def f(x):
        y = np.zeros(2)
        y[0] = math.sin(x[0])
        raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped") as caught:
        tg.grad(f)(X)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    line = f.__code__.co_firstlineno + 3
    assert (last.filename, last.lineno, last.name) == (__file__, line, "f")
    assert last.line == 'raise ValueError("stopped")'


def test_inspect_and_pickle():
    found = []

    def f(x):
        found.append(inspect.getsource(objective))
        found.append(str(inspect.signature(objective)))
        found.append(inspect.stack()[0].code_context[0].strip())
        found.append(sorted(inspect.getclosurevars(objective).globals))
        found.append(pickle.loads(pickle.dumps(objective)) is objective)
        return objective(x)

    f(X)
    plainly = [*found]
    found.clear()
    np.testing.assert_allclose(tg.grad(f)(X), WANTED)
    assert found == plainly and found[3:] == [["math", "np"], True]


@numba.njit
def compiled_by_numba(v):
    return v * v


def test_functions_that_are_pickled_by_value():
    """As joblib does for its workers: the code that is pickled works in another process."""
    cloudpickle = pytest.importorskip("cloudpickle")
    data = []

    def made(v):
        y = np.zeros(1)
        y[0] = math.sin(v) + compiled_by_numba(v)
        return y[0]

    def f(x):
        data.append(cloudpickle.dumps(lambda v: made(v) + math.exp(v)))
        return made(x[0])

    tg.grad(f)(X)
    text = "import pickle, sys; print(repr(float(pickle.load(sys.stdin.buffer)(0.3))))"
    run = subprocess.run([sys.executable, "-c", text], input=data[0], capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    assert float(run.stdout) == pytest.approx(math.sin(0.3) + 0.09 + math.exp(0.3), rel=1e-15)


def test_explanations_have_the_users_names():
    def f(x):
        y = np.zeros(2)
        for k in range(3):
            y[0] = y[0] + math.sin(x[k % 2])
        return y[0] if x[1] > 0.0 else np.sum(y)

    c = tg.compile(f)
    for x in (X, X, -X, X):
        assert c(x) == pytest.approx(f(x))
    assert "tapegrad." not in str(c.explain()).replace("tapegrad.compile", "")


# --- what is replaced -----------------------------------------------------------------------------


def test_functions_that_are_replaced_for_some_time():
    """The plain function has what is in place, too."""
    gradient = tg.value_and_grad(objective)
    value, found = gradient(X)
    np.testing.assert_allclose(found, WANTED)
    for _ in range(2):
        with unittest.mock.patch("math.sin", lambda v: v * 7.0):
            changed, found = gradient(X)
            assert changed == objective(X) != value
            np.testing.assert_allclose(found, [7.0 * 0.4, 7.0 * 0.3])
        assert gradient(X)[0] == value
        np.testing.assert_allclose(gradient(X)[1], WANTED)


def summed(x):
    return np.sum(np.cumsum(x)) * math.sin(x[0])


def branching(x):
    s = 0.0
    for k in range(2):
        s = s + math.sin(x[k]) * x[k] if x[k] > 0.0 else s - np.exp(x[k])
    return s


def imported(x):
    from math import exp

    import numpy.linalg

    return exp(x[0]) * numpy.linalg.norm(x)


@pytest.mark.parametrize("options", [{}, {"verify": "never"}], ids=str)
@pytest.mark.parametrize(
    ("f", "name", "other"),
    [
        (summed, "numpy.cumsum", lambda x: 2.0 * x),
        (summed, "math.sin", lambda v: 7.0 * v),
        (branching, "math.sin", lambda v: 7.0 * v),
        (imported, "math.exp", lambda v: v * v),
        (imported, "numpy.linalg.norm", lambda x: 3.0 * x[1]),
    ],
)
def test_compiled_functions_notice_what_is_replaced(f, name, other, options):
    """A mock is called in each call; afterwards there is a program again."""
    c = tg.compile(f, **options)

    def check():
        for _ in range(3):
            assert c(X) == pytest.approx(float(f(X)), rel=1e-14)
            np.testing.assert_allclose(c.grad(X), tg.grad(f)(X), rtol=1e-14)

    check()
    for _ in range(2):
        before = f(X)
        with unittest.mock.patch(name, side_effect=other) as mock:
            assert f(X) != before
            check()
            count = mock.call_count
            c(X)
            assert mock.call_count > count
        check()
    assert "eagerly" not in repr(c) and ("1 program" in repr(c) or "1 graph" in repr(c))


def keyed(v):
    y = np.zeros(1)
    y[0] = math.sin(v)
    return y[0]


@needs("attribute-tables")
def test_code_that_is_read_is_the_users():
    """Keys of caches are made of it, as by joblib; also in another thread, and in what is made."""
    own, found = keyed.__code__, []

    def key(function):
        code = function.__code__
        parts = code.co_code, code.co_consts, code.co_names, hash(code), code.co_argcount
        return code is own, parts, inspect.getsource(code), [*code.co_lines()]

    def f(x):
        found.append(key(keyed))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(key, keyed).result())
        found.append(operator.attrgetter("__code__")(keyed) is getattr(keyed, "__code__"))
        copy = types.FunctionType(keyed.__code__, {"np": np, "math": math})
        found.append(type(copy(0.5)))
        return keyed(x[0]) * x[1]

    f(X)
    plainly = [*found]
    assert plainly[0][0] and plainly[-1] is np.float64
    for call in (tg.grad(f), tg.compile(f).grad):
        found.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # runs eagerly
            np.testing.assert_allclose(call(X), WANTED)
        assert found[: len(plainly)] == plainly
    with pytest.raises(TypeError, match="must be set to a code object"):
        keyed.__code__ = 3
    assert code_of(keyed) is own


def test_methods_that_are_replaced_for_some_time():
    class Model:
        def act(self, v):
            return math.sin(v)

    model = Model()
    gradient = tg.grad(lambda x: model.act(x[0]) * x[1])
    np.testing.assert_allclose(gradient(X), WANTED)
    with unittest.mock.patch.object(Model, "act", lambda self, v: math.cos(v)):
        np.testing.assert_allclose(gradient(X), [-math.sin(0.3) * 0.4, math.cos(0.3)])
    assert Model.act(model, 0.3) == math.sin(0.3)
    mock = unittest.mock.MagicMock()
    np.testing.assert_allclose(tg.grad(lambda x: (mock.log(x), objective(x))[1])(X), WANTED)
    assert mock.log.call_count == 1


@needs("attribute-tables")
def test_code_that_is_replaced():
    def sine(v):
        return math.sin(v)

    def cosine(v):
        return math.cos(v)

    def f(x):
        return sine(x[0]) * x[1]

    gradient, own = tg.grad(f), cosine.__code__
    np.testing.assert_allclose(gradient(X), WANTED)
    sine.__code__ = own  # as autoreload does
    np.testing.assert_allclose(gradient(X), [-math.sin(0.3) * 0.4, math.cos(0.3)])
    assert code_of(sine) is own is code_of(cosine)

    def exchanging(x):
        sine.__code__ = other.__code__
        return sine(x[0]) * x[1]

    def other(v):
        return math.exp(v)

    own = other.__code__
    with pytest.raises(tg.DerivativeLost, match=r"math\.exp"):  # it is the user's, as it is
        tg.grad(exchanging)(X)
    assert code_of(sine) is own is code_of(other) and type(sine(0.3)) is float
    np.testing.assert_allclose(gradient(X), [math.exp(0.3) * 0.4, math.exp(0.3)])


def test_objects_that_are_first_stored_in_a_call():
    class Model:
        act = layers = None

    class Late:
        def __init__(self, rate):
            self.rate = rate

        def __call__(self, v):
            return math.sin(v) * self.rate

    model, made = Model(), {"late": Late}

    def f(x):
        if model.act is None:
            model.act = made["late"](1.0)
            model.layers = [lambda v: np.array([v, 1.0])[0]]
        return model.act(x[0]) * model.layers[0](x[1])

    gradient = tg.grad(f)
    for _ in range(3):
        np.testing.assert_allclose(gradient(X), WANTED)
    assert type(model.act(0.3)) is float and type(model.layers[0](0.3)) is np.float64
    assert type(f(X)) is np.float64


# --- coroutines and generators --------------------------------------------------------------------


def test_coroutines():
    async def part(v):
        await asyncio.sleep(0)
        return math.sin(v)

    async def whole(x):
        first, second = await asyncio.gather(part(x[0]), part(x[0]))
        return (first + second) / 2.0 * np.array([x[1]])[0]

    def f(x):
        return asyncio.run(whole(x))

    for _ in range(2):
        np.testing.assert_allclose(tg.grad(f)(X), WANTED)
    assert type(f(X)) is np.float64

    async def among_others():
        return await asyncio.gather(*[asyncio.to_thread(tg.grad(objective), X) for _ in range(4)])

    np.testing.assert_allclose(asyncio.run(among_others()), [WANTED] * 4)
    with pytest.raises(ValueError, match="returned coroutine"):
        coroutines = []
        tg.grad(lambda x: coroutines.append(part(x[0])) or coroutines[0])(X)
    coroutines[0].close()


@pytest.mark.parametrize("begun", ["inside", "outside"])
def test_generators_that_live_across_calls(begun):
    def steps():
        k = 0
        while True:
            y, k = np.zeros(2), k + 1
            y[0] = math.sin(0.3)
            yield y[0] * k

    kept = {}

    def f(x):
        if "steps" not in kept:
            kept["steps"] = steps()
        return objective(x) * next(kept["steps"])

    if begun == "outside":
        kept["steps"] = steps()
        assert next(kept["steps"]) == math.sin(0.3)
    start = 1 if begun == "inside" else 2
    gradient, s = tg.grad(f), math.sin(0.3)
    np.testing.assert_allclose(gradient(X), np.array(WANTED) * s * start)
    between = next(kept["steps"])
    assert type(between) is np.float64 and between == s * (start + 1)
    np.testing.assert_allclose(gradient(X), np.array(WANTED) * s * (start + 2))
    assert type(f(X)) is np.float64


def test_a_generator_of_recorded_values():
    kept = {}

    def sums(x):
        y = np.zeros(1)
        while True:
            y[0] = y[0] + math.sin(x[0])
            yield y[0]

    def f(x):
        kept["sums"] = sums(x)
        return next(kept["sums"]) * x[1]

    np.testing.assert_allclose(tg.grad(f)(X), WANTED)
    assert float(next(kept["sums"])) == 2.0 * math.sin(0.3)  # when the transform is over


def test_caches():
    """A cache of values that a transform fills serves plain calls."""

    @functools.cache
    def nodes(count):
        return np.polynomial.legendre.leggauss(count)[0]

    class Model:
        @functools.cached_property
        def weights(self):
            return np.linspace(1.0, 2.0, 2)

    model = Model()

    def f(x):
        return np.sum(x * nodes(2) * model.weights)

    wanted = np.polynomial.legendre.leggauss(2)[0] * [1.0, 2.0]
    np.testing.assert_allclose(tg.grad(f)(X), wanted)
    assert type(nodes(2)) is type(model.weights) is np.ndarray and type(f(X)) is np.float64
    np.testing.assert_allclose(tg.grad(f)(X), wanted)
