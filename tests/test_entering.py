"""Functions that call NumPy, SciPy and math by their own names, inside transforms."""

import _thread
import functools
import gc
import math
import os
import threading
import timeit
import unittest.mock
import weakref

import numpy as np
import plain_programs
import pytest

import tapegrad as tg
from tapegrad._entering import exchanged_names, name_uses
from tapegrad._entering.entering import kinds_of
from tapegrad._entering.exchanged_names import ABSENT, Loaded, Watched, rewritten

POINTS = np.array([[0.4, 1.3], [1.1, -0.7], [-0.6, 0.9]])


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


def differences(f, x):
    """A gradient by central differences, extrapolated."""

    def slope(k, h):
        e = np.eye(len(x))[k] * h
        return (float(f(x + e)) - float(f(x - e))) / (2 * h)

    return [(4 * slope(k, 5e-4) - slope(k, 1e-3)) / 3 for k in range(len(x))]


def check(call, f, then, points):
    """Values and gradients at points, with changes before some calls, as of the plain function."""
    changes = [lambda: None] * (len(points) - len(then)) + [*then]
    for x, change in zip(points, changes, strict=True):
        change()
        wanted = f(x.copy())
        value, gradient = call(x.copy())
        assert type(value) in (float, np.float64)
        np.testing.assert_allclose(value, float(wanted), rtol=1e-10)
        np.testing.assert_allclose(gradient, differences(f, x), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", plain_programs.PROGRAMS)
def test_eager(name):
    f, then = plain_programs.PROGRAMS[name]
    check(tg.value_and_grad(f), f, then, POINTS)


@pytest.mark.filterwarnings("ignore:.* changes .*, when it is recorded and compared")
@pytest.mark.filterwarnings("ignore:.*a_subclass runs eagerly, .* changes calls, and whether its")
@pytest.mark.parametrize("name", plain_programs.PROGRAMS)
def test_compiled(name):
    f, then = plain_programs.PROGRAMS[name]
    check(tg.compile(f).value_and_grad, f, then, POINTS[[0, 0, 1, 2]])


# --- the user's code comes back -------------------------------------------------------------------


def helper(x):
    y = np.zeros(1)
    y[0] = math.sin(x)
    return y[0]


def objective(x):
    return helper(x[0]) * np.array([x[1], 1.0])[0]


OWN = helper.__code__, objective.__code__
X = np.array([0.3, 0.4])
GRADIENT = [math.cos(0.3) * 0.4, math.sin(0.3)]


def are_own():
    return helper.__code__ is OWN[0] and objective.__code__ is OWN[1]


def test_code_is_exchanged_for_the_call_only():
    seen = []

    def f(x):
        seen.append(are_own())
        return objective(x)

    np.testing.assert_allclose(tg.grad(f)(X), GRADIENT)
    assert seen == [False] and are_own()
    assert type(objective(X)) is np.float64


def test_errors_leave_the_users_code():
    def f(x):
        raise KeyError(objective(x))

    with pytest.raises(KeyError):
        tg.grad(f)(X)
    assert are_own()


def test_nested_transforms():
    def inner(x):
        return tg.grad(objective)(x)[0]

    second = [-math.sin(0.3) * 0.4, math.cos(0.3)]
    np.testing.assert_allclose(tg.grad(inner)(X), second)
    np.testing.assert_allclose(tg.hessian(objective)(X)[0], second)
    np.testing.assert_allclose(tg.jvp(objective, (X,), (X,))[1], GRADIENT @ X)
    np.testing.assert_allclose(tg.vjp(objective, X)[1](1.0)[0], GRADIENT)
    np.testing.assert_allclose(tg.vmap(objective)(np.array([X, X])), [objective(X)] * 2)
    assert are_own()


def test_a_compiled_function_inside_another_transform():
    c = tg.compile(objective)
    for _ in range(4):
        found = tg.grad(lambda x: c(x) + objective(x) + helper(x[1]))(X)
        np.testing.assert_allclose(found, 2 * np.array(GRADIENT) + [0.0, math.cos(0.4)])
    assert "1 program" in repr(c) and are_own()


def test_other_threads_get_the_results_of_numpy():
    stop, bad, calls, gradients = threading.Event(), [], [0], []

    def plainly():
        wanted = objective(X)
        while not stop.is_set():
            found = objective(X)
            calls[0] += 1
            if type(found) is not np.float64 or found != wanted:
                bad.append(found)

    def differentiate():
        for _ in range(100):
            gradients.append(tg.grad(objective)(X))

    others = [threading.Thread(target=plainly) for _ in range(2)]
    own = [threading.Thread(target=differentiate) for _ in range(2)]
    for one in (*others, *own):
        one.start()
    for one in own:
        one.join()
    stop.set()
    for one in others:
        one.join()
    assert calls[0] > 100 and not bad and are_own()
    np.testing.assert_allclose(gradients, [GRADIENT] * 200)


def test_interrupts():
    """Wherever they come, the user's code is there at the latest after the next call."""
    gradient, count = tg.grad(objective), [0]
    gradient(X)
    stop = threading.Event()

    def interrupt():
        while not stop.wait(2e-4):
            _thread.interrupt_main()

    other = threading.Thread(target=interrupt)
    try:
        other.start()
        while count[0] < 200:
            try:
                while True:
                    gradient(X)
            except KeyboardInterrupt:
                count[0] += 1
    finally:
        while True:
            try:
                stop.set()
                other.join()
                break
            except KeyboardInterrupt:
                continue
    np.testing.assert_allclose(gradient(X), GRADIENT)
    assert are_own()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_inside_has_the_users_code():
    def f(x):
        if os.fork() == 0:
            os._exit(0 if are_own() and type(objective(X)) is np.float64 else 1)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        return objective(x)

    np.testing.assert_allclose(tg.grad(f)(X), GRADIENT)


# --- what changes between calls -------------------------------------------------------------------


def test_a_function_of_numpy_that_is_patched():
    def f(x):
        return np.sum(np.cumsum(x)) * math.sin(x[0])

    gradient = tg.value_and_grad(f)
    before = gradient(X)
    with unittest.mock.patch("numpy.cumsum", lambda x: 3.0 * x[0] + x):
        found = gradient(X)
        assert found[0] == f(X) != before[0]
    np.testing.assert_allclose(
        found[1], differences(lambda x: (7 * x[0] + x[1]) * math.sin(x[0]), X)
    )
    assert gradient(X)[0] == before[0]


def test_objects_among_the_arguments():
    class Model:
        def __init__(self, act):
            self.act = act

        def loss(self, x):
            return self.act(x[0]) + np.array([x[1]])[0]

    def f(x, model, scale):
        return scale(model["a"].loss(x))

    gradient = tg.grad(f)
    for act, slope in (
        (lambda v: math.sin(v), math.cos(0.3)),
        (lambda v: math.exp(v), math.exp(0.3)),
    ):
        found = gradient(X, {"a": Model(act)}, scale=lambda v: math.sinh(v) * 0.0 + v)
        np.testing.assert_allclose(found, [slope, 1.0])
    found = tg.grad(lambda x: Model(lambda v: math.tan(v)).loss(x))(X)
    np.testing.assert_allclose(found, [1 / math.cos(0.3) ** 2, 1.0])


def test_a_bound_method_and_a_partial():
    class Model:
        scale = 2.0

        def loss(self, x, k=1.0):
            return self.scale * math.sin(x[0]) * k

    found = tg.grad(functools.partial(Model().loss, k=3.0))(X)
    np.testing.assert_allclose(found, [6.0 * math.cos(0.3), 0.0])
    c = tg.compile(Model().loss)
    for x in (X, X, -X):
        np.testing.assert_allclose(c.grad(x), [2.0 * math.cos(0.3), 0.0])


# --- code -----------------------------------------------------------------------------------------


def codes_of(code):
    yield code
    for one in code.co_consts:
        if hasattr(one, "co_code"):
            yield from codes_of(one)


@pytest.mark.parametrize(
    "module", ["statistics", "asyncio.tasks", "argparse", "contextlib", "typing"]
)
def test_all_code_is_read(module):
    import importlib

    with open(importlib.import_module(module).__file__, encoding="utf-8") as file:
        text = file.read()
    found = [name_uses.uses(code) for code in codes_of(compile(text, module, "exec"))]
    assert sum(len(one) for one in found) > 100


def test_uses():
    def f(x, g, values):
        h = np.exp if x else values
        np.done = 1
        return np.sum(h(g), axis=0), map(math.sin, values), np is math, np.r_[x], (np.pi,)

    every, code = name_uses.instructions(f.__code__), f.__code__
    names = {k: one.argval for k, one in enumerate(every) if one.opname == "LOAD_GLOBAL"}
    found = {
        (names[k], use.path, use.how)
        for k, each in name_uses.uses(code).items()
        if k in names
        for use in each
    }
    assert found == {
        ("np", ("exp",), "local"), ("np", (), "assigned"), ("np", ("sum",), "call"),
        ("map", (), "call"), ("math", ("sin",), "argument"), ("np", (), "compared"),
        ("math", (), "compared"), ("np", ("r_",), "item"), ("np", ("pi", "()", "()"), "value"),
    } | {("map", (), "call")}  # fmt: skip


def test_code_keeps_its_shape():
    def resolve(code, one):
        return {"np": np, "math": math}.get(one.argval, ABSENT)

    for code in (helper.__code__, plain_programs.a_filled_array.__code__):
        made = rewritten(Loaded(code, resolve), Watched()).code
        assert made is not code and len(made.co_code) == len(code.co_code)
        for name in ("co_names", "co_varnames", "co_firstlineno", "co_stacksize", "co_filename"):
            assert getattr(made, name) == getattr(code, name)
        assert [*made.co_lines()] == [*code.co_lines()]


# --- what it costs --------------------------------------------------------------------------------


def test_what_is_kept_holds_no_data_and_serves_for_other_data():
    def objective(data):
        return lambda x: math.sin(x[0]) * np.sum(x * data)

    kept = []
    for k in range(3):
        data = np.full(2, 1.0 + k)
        kept.append(weakref.ref(data))
        found = tg.grad(objective(data))(X)
        wanted = [math.cos(0.3) * 0.7 + math.sin(0.3), math.sin(0.3)]
        np.testing.assert_allclose(found, np.array(wanted) * (1.0 + k))
        if k == 0:
            before = exchanged_names._rewritten.cache_info().misses
    assert exchanged_names._rewritten.cache_info().misses == before
    del data
    gc.collect()
    assert [one() for one in kept] == [None] * 3


def test_functions_in_arguments_are_found_in_a_time_that_does_not_depend_on_sizes():
    def inner(x):
        return x

    class Holder:
        def __init__(self, held):
            self.held = held

    kinds = [(inner,), ([1.0, inner],), ({"a": (2, inner)},), (X, {inner}), ([Holder([inner])],)]
    assert [kinds_of(one)[-1:] for one in kinds] == [(inner,)] * len(kinds)
    assert kinds_of((Holder(1.0),)) == (Holder,) and kinds_of((max, int)) == (int,)
    assert kinds_of((1, "a", np.float32(1.0), X, [X] * 90, {"a": None}, tg.tensor(X))) == ()
    large = [[[1.0] * 90 for _ in range(90)] for _ in range(90)]
    seconds = min(timeit.repeat(lambda: kinds_of((large, Holder(large))), number=1, repeat=5))
    assert seconds < 2e-3
