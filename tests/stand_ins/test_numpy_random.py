"""Random numbers: draws with recorded parameters, and draws inside of compiled functions."""

import copy
import functools
import inspect
import pickle
import queue
import random as python_random
import sys
import threading
import warnings

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
from tapegrad.numpy import random

PARAMETERS = {name: list(one[0]) for name, one in random._EXACT.items()}
NAMES = {"random": random}


def expression(text, torch=None):
    """Draws from a generator that is made anew: the same at each call."""
    return Expression(text, torch, names=NAMES, low=0.5, other=(0.5, 2.0), choices=False)


TABLE = [
    *[
        expression(f"random.default_rng(7).{name}({', '.join(['x', 'x + 2.0'][: len(p)])})")
        for name, p in PARAMETERS.items()
    ],
    *[
        expression(f"random.default_rng(7).{name}({p[-1]}=x[0, 1], size=(2, 3))")
        for name, p in PARAMETERS.items()
    ],
    expression("random.default_rng(7).normal([x[0, 0], 2.0], x[1, 1])"),
    expression(
        "random.default_rng(7).uniform(high=x)",
        "x * torch.tensor(np.random.default_rng(7).uniform(size=(3, 4)))",
    ),
    expression("random.default_rng(7).choice(x, 5)"),
    expression("random.default_rng(7).choice(x, (2, 2), axis=1, replace=False)"),
    expression("random.default_rng(7).choice(x.ravel(), (2, 3), replace=False)"),
    expression("random.default_rng(7).choice(x, 2, True, None, 1)"),
    expression("random.default_rng(7).permutation(x)"),
    expression("random.default_rng(7).permutation(x, 1)"),
    expression("random.RandomState(7).normal(x, 2.0)"),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    if check == "float32" and "choice" not in expression.text:
        pytest.skip("NumPy draws float64 for parameters in float32")
    CHECKS[check](expression)


@native_parts(TABLE)
def test_native(part):
    check_native(part)


# --- the stand-in ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("size", [None, 4, (2, 3), 0])
@pytest.mark.parametrize("kind", ["Generator", "RandomState", "functions"])
def test_draws_are_numpys(name, size, kind):
    """Values, and what is drawn afterwards."""
    given = [1.3, 1.7][: len(PARAMETERS[name])]
    tensors = [tg.tensor(x, requires_grad=True) for x in given]
    makers = {
        "Generator": (random.default_rng, np.random.default_rng),
        "RandomState": (random.RandomState, np.random.RandomState),
        "functions": (functions(random), functions(np.random)),
    }
    ours, theirs = [make(5) for make in makers[kind]]
    for keywords in ({"size": size}, {}):  # the second draws from cached halves
        for arguments in (tensors, given):
            if kind == "functions":
                np.random.seed(5)
            rest = () if keywords else (size,)
            found = getattr(ours, name)(*arguments, *rest, **keywords)
            after = ours.random(2) if kind != "functions" else np.random.random_sample(2)
            if kind == "functions":
                np.random.seed(5)
            wanted = getattr(theirs, name)(*given, size=size)
            then = theirs.random(2) if kind != "functions" else np.random.random_sample(2)
            assert np.shape(found) == np.shape(wanted) and np.array_equal(after, then)
            recorded = arguments is tensors
            assert isinstance(found, tg.Tensor) == recorded
            found = found.detach().numpy() if recorded else found
            np.testing.assert_allclose(found, wanted, rtol=0 if not recorded else 2e-14)


def functions(module):
    def make(seed):
        module.seed(seed)
        return module

    return make


def test_every_name_of_numpys_is_there():
    for name in np.random.__all__:
        found, theirs = getattr(random, name), getattr(np.random, name)
        assert found is theirs or found.__doc__ or inspect.isclass(found)
    rng = random.default_rng(3)
    for name in dir(np.random.Generator):
        assert hasattr(rng, name)
    assert isinstance(rng, np.random.Generator) and random.default_rng(rng) is rng
    other = np.random.default_rng(3)
    assert random.default_rng(other).random() != other.random()  # one after the other
    assert pickle.loads(pickle.dumps(rng)).random() == copy.deepcopy(rng).random() == rng.random()
    assert type(rng.spawn(2)[1]) is random.Generator
    assert random.RandomState(3).rand() == np.random.RandomState(3).rand()


DISCRETE = {
    "poisson": lambda r, x: r.poisson(x),
    "gamma": lambda r, x: r.gamma(x, 2.0),
    "beta": lambda r, x: r.beta(2.0, x),
    "binomial": lambda r, x: r.binomial(5, p=0.1 * x),
    "shuffle": lambda r, x: r.shuffle(x * np.ones(3)),
    "multinomial": lambda r, x: r.multinomial(4, [0.1 * x, 1.0 - 0.1 * x]),
    "multivariate_normal": lambda r, x: r.multivariate_normal([x, 1.0], np.eye(2)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_draws_without_derivative_refuse_by_name(name):
    for make, place in [
        (lambda: random.default_rng(0), "Generator."),
        (lambda: random.RandomState(0), "RandomState."),
        (lambda: random, ""),
    ]:
        with pytest.raises(TypeError, match=rf"^tapegrad.numpy.random.{place}{name} has no deriv"):
            tg.grad(lambda x: np.sum(DISCRETE[name](make(), x)))(2.0)
    with pytest.raises(TypeError, match="choice: p is recorded"):
        tg.grad(lambda x: random.default_rng(0).choice([1.0, 2.0], p=[x, 1 - x]))(0.5)


@pytest.mark.usefixtures("not_entered")
def test_numpys_own_refuse_recorded_parameters():
    rng = np.random.default_rng(0)
    for f in (lambda x: np.random.normal(x), lambda x: rng.normal(0.0, x)):
        with pytest.raises(TypeError, match="tapegrad: "):
            tg.grad(f)(1.0)
        with pytest.raises(TypeError, match="tapegrad: "):
            tg.grad(lambda x: np.sum(f(x)))(np.ones(3))


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_that_numpy_refuses(name):
    parameter = PARAMETERS[name][-1]
    bad = -1.0 if name != "uniform" else np.inf
    theirs, ours = np.random.default_rng(0), random.default_rng(0)
    with pytest.raises((ValueError, OverflowError)) as wanted:
        getattr(theirs, name)(**{parameter: bad})
    with pytest.raises(type(wanted.value)) as found:
        getattr(ours, name)(**{parameter: tg.tensor(bad, requires_grad=True)})
    assert str(found.value) == str(wanted.value)
    x = tg.tensor(1.0, requires_grad=True)
    with pytest.raises(TypeError, match=f"{name}: takes the arguments"):
        getattr(ours, name)(x, wrong=1.0)
    with pytest.raises(TypeError, match=f"{name}: takes the arguments"):
        getattr(ours, name)(*[x] * 4)
    with pytest.raises(ValueError):
        getattr(ours, name)(**{parameter: x * np.ones(3)}, size=2)


def test_shapes_of_weibull_0():
    draw = lambda a: np.sum(random.default_rng(0).weibull(a))
    assert tg.grad(draw)(np.array([0.0, 2.0]))[0] == 0.0


# --- programs -------------------------------------------------------------------------------------

RNG, STATE, OURS = np.random.default_rng(1), np.random.RandomState(2), random.default_rng(3)
INNER = np.random.default_rng(5)


class Model:
    def __init__(self):
        self.rngs = {"noise": [np.random.default_rng(1)]}

    def loss(self, x):
        return x * self.rngs["noise"][0].normal()

    def __call__(self, x):
        return self.loss(x)


MODEL = Model()


def draw_from_a_global(x):
    return x * RNG.normal()


def closure():
    rng = np.random.default_rng(7)
    return lambda x: x * rng.random()


DRAWING = {
    "np.random": lambda x: x * np.random.normal(),
    "random": lambda x: x * python_random.random(),
    "a global": draw_from_a_global,
    "a function that draws": lambda x: draw_from_a_global(x),
    "a permutation": lambda x: x * RNG.permutation(10)[0] + RNG.random(),
    "a method": MODEL.loss,
    "an object": MODEL,
    "an attribute": lambda x: MODEL.loss(x),
    "a closure": closure(),
    "a default": lambda x, rng=INNER: x * rng.normal(),
    "RandomState": lambda x: x * STATE.normal(),
    "the stand-in": lambda x: OURS.normal(x),
    "its functions": lambda x: random.normal(x),
    "its new generator": lambda x: random.default_rng().normal(x),
    "partial": functools.partial(lambda rng, x: x * rng.normal(), INNER),
    "two of a kind": lambda x: x * (INNER.bit_generator is None or STATE and RNG.normal()),
}


OF_A_MEAN = ("the stand-in", "its functions", "its new generator")


@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize("use", ["value", "grad", "hvp"])
def test_a_program_does_not_repeat_draws(name, use):
    f = DRAWING[name]
    c = tg.compile(f)
    calls = {
        "value": lambda: c(1.0),
        "grad": lambda: c.grad(1.0),
        "hvp": lambda: c.jacobian(1.0),
    }
    with pytest.warns(RuntimeWarning, match="draws random numbers.*pass them as arg") as warned:
        found = [float(calls[use]()) for _ in range(4)]
    if use == "value" or name not in OF_A_MEAN:  # the derivative to a mean is 1
        assert len(set(found)) > 1
    assert len([one for one in warned if "without a program" in str(one.message)]) == 1


class Elsewhere:
    """A thread that draws when it is asked to, and has done so before `ask` returns."""

    def __init__(self, draw):
        self._asked, self._done = queue.SimpleQueue(), queue.SimpleQueue()
        self._draw = draw
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while self._asked.get():
            self._draw()
            self._done.put(None)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._asked.put(False)
        self._thread.join()

    def ask(self):
        self._asked.put(True)
        self._done.get()


COMMON = {
    "random": python_random.random,
    "gauss": lambda: python_random.gauss(0.0, 1.0),
    "np.random": np.random.rand,
    "np.random.normal": np.random.normal,
}


@pytest.mark.parametrize("draw", COMMON)
@pytest.mark.parametrize("use", ["value", "grad"])
def test_draws_of_another_thread(draw, use):
    """Nothing is said, and the function is compiled."""
    with Elsewhere(COMMON[draw]) as other:

        def f(x):
            other.ask()
            return x * x

        c = tg.compile(f)
        for k in range(6):
            x = 1.0 + k
            assert c(x) == x * x if use == "value" else c.grad(x) == 2.0 * x
    assert "1 signature, 1 program" in repr(c)


@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize("draw", COMMON)
def test_draws_of_the_function_beside_those_of_another_thread(name, draw):
    f = DRAWING[name]
    with Elsewhere(COMMON[draw]) as other:
        c = tg.compile(lambda x: (other.ask(), f(x))[1])
        with pytest.warns(RuntimeWarning, match="draws random numbers.*pass them as arg") as warned:
            found = [float(c(1.0)) for _ in range(5)]
    assert len(set(found)) > 1
    assert len([one for one in warned if "without a program" in str(one.message)]) == 1


@pytest.mark.parametrize(
    "draw", [np.random.normal, lambda: python_random.gauss(0.0, 1.0), STATE.normal]
)
def test_a_draw_that_was_kept_by_an_earlier_one(draw):
    """Of two normal numbers that are made at once the second changes no other state."""
    np.random.seed(3)
    python_random.seed(3)
    STATE.seed(3)
    draw()
    c = tg.compile(lambda x: x * draw())
    with pytest.warns(RuntimeWarning, match="draws random numbers"):
        assert len({float(c(1.0)) for _ in range(4)}) == 4


def test_a_generator_of_the_system():
    system = python_random.SystemRandom()
    c = tg.compile(lambda x: x * system.random())
    with pytest.warns(RuntimeWarning, match="draws random numbers from a SystemRandom"):
        assert len({float(c(1.0)) for _ in range(4)}) == 4


def test_profilers_of_users_stay():
    seen = []
    with Elsewhere(python_random.random) as other:
        c = tg.compile(lambda x: (other.ask(), x * x)[1])
        profiler = lambda *event: seen.append(event)
        sys.setprofile(profiler)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nothing can be watched: it runs eagerly
                assert [c(3.0) for _ in range(3)] == [9.0] * 3
            assert sys.getprofile() is profiler
        finally:
            sys.setprofile(None)
    assert seen


def test_a_generator_as_argument_says_what_to_do():
    with pytest.warns(RuntimeWarning, match="of type Generator; draw outside and pass the draws"):
        tg.compile(lambda x, rng: x * rng.normal())(1.0, np.random.default_rng(0))


def test_draws_of_a_seed_inside_are_constants():
    for f in (
        lambda x: x * np.random.default_rng(3).normal(),
        lambda x: random.default_rng(3).normal(x),
        lambda x: random.RandomState(3).normal(x),
    ):
        c = tg.compile(f)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert c(1.0) == c(1.0) == f(1.0) and c.grad(2.0) == tg.grad(f)(2.0)


def test_a_program_asks_whether_numpy_takes_the_parameters():
    c = tg.compile(lambda scale: random.default_rng(3).normal(0.0, scale))
    assert c(2.0) == c(2.0) == np.random.default_rng(3).normal(0.0, 2.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="scale < 0"):
            c.grad(-2.0)


def test_draws_as_arguments(rng):
    def loss(x, draws):
        return np.mean((x[0] + x[1] * draws) ** 2)

    c = tg.compile(loss)
    for _ in range(3):
        draws = rng.normal(size=20)
        x = rng.normal(size=2)
        np.testing.assert_allclose(c.grad(x, draws), tg.grad(loss)(x, draws), rtol=1e-12)


def test_vmap_draws_for_each_element():
    f = lambda x: x + OURS.normal()
    with pytest.warns(RuntimeWarning, match="vmap"):
        found = tg.vmap(f)(np.zeros(20))
    assert len(set(found)) == 20
