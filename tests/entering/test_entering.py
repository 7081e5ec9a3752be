"""Functions that call NumPy, SciPy and math by their own names, inside transforms."""

import functools
import gc
import math
import timeit
import unittest.mock
import weakref

import numpy as np
import plain_programs
import pytest

import tapegrad as tg
from tapegrad._core.tensor.pytree import code_of
from tapegrad._entering import entering, exchanged_names
from tapegrad._entering.exchange import kinds_of
from tapegrad._entering.exchanged_names import ABSENT, LoadedCode, Watched, rewritten

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
    return code_of(helper) is OWN[0] and code_of(objective) is OWN[1]


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


def test_functions_made_anew_of_the_same_text():
    text = "import math\ndef f(x):\n    g = lambda v: math.sin(v)\n    return g(x[0]) * x[1]"
    for _ in range(3):
        space = {}
        exec(text, space)
        np.testing.assert_allclose(tg.grad(space["f"])(X), [math.cos(0.3) * 0.4, math.sin(0.3)])


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
    found = [exchanged_names.uses(code) for code in codes_of(compile(text, module, "exec"))]
    assert sum(len(one) for one in found) > 100


def test_uses():
    def f(x, g, values):
        h = np.exp if x else values
        np.done = 1
        return np.sum(h(g), axis=0), map(math.sin, values), np is math, np.r_[x], (np.pi,)

    every, code = exchanged_names.instructions(f.__code__), f.__code__
    names = {k: one.argval for k, one in enumerate(every) if one.opname == "LOAD_GLOBAL"}
    found = {
        (names[k], use.path, use.how)
        for k, each in exchanged_names.uses(code).items()
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
        made = rewritten(LoadedCode(code, resolve), Watched()).code
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


class Model:
    """A user's model: an activation, and data."""

    def __init__(self, act, scale):
        self.act, self.scale = act, scale

    def loss(self, x):
        return self.scale * self.act(x[0]) * np.array([x[1], 1.0])[0]

    def __call__(self, x):
        return self.loss(x)


def by_sin(t):
    return math.sin(t)


def by_exp(t):
    made = np.zeros(1)
    made[0] = math.exp(t)
    return made[0]


TABLE = {"act": by_sin}


def of_table(x, scale=1.0):
    return scale * TABLE["act"](x[0]) * x[1]


def new_functions(act, scale):
    """Functions made anew, of the same code, that differ in data and in what they call."""
    model, table = Model(act, scale), {"of": [act]}
    return [
        lambda x: scale * act(x[0]) * x[1],
        lambda x, scale=scale, act=act: scale * act(x[0]) * x[1],
        lambda x, *, held=(scale, act): held[0] * held[1](x[0]) * x[1],
        lambda x: model.loss(x),
        lambda x: model(x),
        lambda x: scale * table["of"][0](x[0]) * x[1],
        lambda x: scale * (np.exp(x[0]) if act is by_exp else math.sin(x[0])) * x[1],
        model.loss,
    ]


@pytest.mark.parametrize("number", range(len(new_functions(by_sin, 1.0))))
def test_new_functions_of_known_code(number, monkeypatch):
    """What has been found for one serves for others, if what they reach is the same."""
    entering._alike.clear()  # of which there are so many at most
    searched = []
    first = entering._Found.__init__
    monkeypatch.setattr(
        entering._Found, "__init__", lambda *one: (searched.append(1), first(*one))[1]
    )
    for act, slope in ((by_sin, math.cos), (by_exp, math.exp), (by_sin, math.cos)):
        value = math.sin(0.3) if act is by_sin else math.exp(0.3)
        for k in range(5):
            scale = np.float64(1.5 + k)
            f = new_functions(act, scale)[number]
            found = tg.grad(f)(X)
            np.testing.assert_allclose(found, [scale * slope(0.3) * 0.4, scale * value])
    assert by_sin.__code__.co_consts == (None,)
    assert len(searched) <= 6


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize(
    "change", ["table", "global", "cell", "attribute", "class", "subclass", "call"]
)
def test_functions_where_what_is_reached_changes(change, is_new, monkeypatch):
    class Derived(Model):
        pass

    model, held, derived = Model(by_sin, 1.0), by_sin, Derived(by_sin, 1.0)
    monkeypatch.setattr(Model, "of", lambda self, x: by_sin(x[0]) * x[1], raising=False)

    def function(scale):
        return {
            "class": lambda x: scale * model.of(x),
            "subclass": lambda x: scale * derived.of(x),
            "call": lambda x: scale * derived(x),
            "table": lambda x: of_table(x, scale),
            "global": lambda x: scale * helper(x[0]) * x[1],
            "cell": lambda x: scale * held(x[0]) * x[1],
            "attribute": lambda x: scale * model.act(x[0]) * x[1],
        }[change]

    first = tg.grad(function(1.0))
    for act, slope in ((by_sin, math.cos), (by_exp, math.exp)):
        monkeypatch.setitem(TABLE, "act", act)
        monkeypatch.setitem(globals(), "helper", act)
        held = model.act = act

        def of(self, x, act=act):
            return np.array([act(x[0]), 1.0])[0] * x[1]

        owner = Model if change == "class" else Derived
        monkeypatch.setattr(owner, "__call__" if change == "call" else "of", of, raising=False)
        for k in range(4):
            found = tg.grad(function(1.0 + k))(X) if is_new else first(X) * (1.0 + k)
            np.testing.assert_allclose(found[0], (1.0 + k) * slope(0.3) * 0.4)


def test_functions_made_once_are_not_kept():
    """Neither those of new code nor what they hold, nor the data of others of known code."""
    kept = []

    def functions(k):
        array = np.full(2, 1.0 + k)

        def inner(t):
            return t * array[0]

        kept.extend([weakref.ref(array), weakref.ref(inner)])
        return lambda x: math.sin(inner(x[0])) * x[1], lambda x: np.sum(array * x)

    for k in range(6):
        f, g = functions(k)
        np.testing.assert_allclose(tg.grad(f)(X)[1], math.sin(0.3 * (1.0 + k)))
        np.testing.assert_allclose(tg.grad(g)(X), 1.0 + k)
    del f, g
    gc.collect()
    assert [one() for one in kept] == [None] * len(kept)


def test_a_function_in_the_object_of_a_bound_method_is_replaced():
    class Model:
        def __init__(self):
            self.f = None

        def run(self, x):
            return self.f(x) if self.f else x[0]

    model, x = Model(), np.array([0.4, 1.3])
    gradient = tg.grad(model.run)
    np.testing.assert_array_equal(gradient(x), [1.0, 0.0])
    model.f = lambda v: math.exp(v[0]) * (2.0 if type(v[1]) is np.float64 else 1.0)
    np.testing.assert_allclose(gradient(x), [2.0 * math.exp(0.4), 0.0])
    model.f = None
    np.testing.assert_array_equal(gradient(x), [1.0, 0.0])
