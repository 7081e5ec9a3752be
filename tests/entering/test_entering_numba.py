"""Functions compiled by Numba, given to transforms or called from functions that are entered."""

import functools
import math
import pickle
import threading
import types

import numba
import numpy as np
import pytest
from numba import njit, prange, typed, vectorize
from test_entering import differences

import tapegrad as tg
from benchmarks import numba_examples
from tapegrad._core.tensor.pytree import code_of

Y = np.random.default_rng(0).normal(size=50)


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


@njit
def _decay(a, b):
    return math.exp(-a) * b


@njit
def garch(p):
    s, total = np.zeros(Y.shape[0]), 0.0
    s[0] = p[0] ** 2 + 0.1
    for i in range(1, Y.shape[0]):
        s[i] = p[0] ** 2 + 0.1 * Y[i - 1] ** 2 + 0.3 * s[i - 1]
        total += math.log(s[i]) + Y[i] ** 2 / s[i]
    return total + _decay(p[0], p[1])


@njit(fastmath=True)
def loop_in_parallel(p):
    total = 0.0
    for i in prange(len(Y)):
        total += math.log(1.0 + (Y[i] - p[0]) ** 2) * p[1]
    for i in numba.prange(3):
        total += math.sin(p[0] * i)
    return total


@njit
def tuples_and_branches(p):
    low, high = (p[0], p[1]) if p[0] < p[1] else (p[1], p[0])
    if high > 1.0:
        return low * high
    return np.sum(np.array([low, high]) ** 3)


@njit
def containers(p):
    values = typed.List()
    for k in range(4):
        values.append(p[k % 2] * k)
    total = 0.0
    for x in values:
        total += math.sin(x)
    return total


@njit
def recursion(x, n):
    if n == 0:
        return math.sin(x)
    return recursion(x, n - 1) * math.cos(x)


@vectorize
def softened(x, k):
    return math.log1p(math.exp(k * x)) if x < 30 else k * x


def calls_of_compiled_functions(p):
    y = np.zeros(3)
    y[0] = garch(p)
    y[1:] = softened(p, 2.0)
    return np.sum(y) * recursion(p[0], 2)


def closure_of(scale):
    @njit
    def inner(p):
        return scale * math.sin(p[0]) * p[1]

    return inner


HELPERS = types.ModuleType("helpers")
HELPERS.decay, HELPERS.sin, HELPERS.rate = _decay, math.sin, 2.0


def functions_of_a_module(p):
    return HELPERS.decay(p[0], p[1]) + HELPERS.sin(p[0]) * HELPERS.rate


FUNCTIONS = [
    *(garch, loop_in_parallel, tuples_and_branches, containers),
    *(calls_of_compiled_functions, closure_of(3.0), functions_of_a_module),
]
NAMES = [one.__name__ for one in FUNCTIONS]


@pytest.mark.parametrize("f", FUNCTIONS, ids=NAMES)
def test_gradients(f):
    own = getattr(f, "py_func", f)
    before = own.__code__
    c = tg.compile(f)
    for point in ([0.4, 1.3], [0.4, 1.3], [1.1, -0.7], [-0.6, 0.9]):
        x = np.array(point)
        wanted = differences(f, x)
        value, gradient = tg.value_and_grad(f)(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-8)
        value, gradient = c.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-8)
    assert code_of(own) is before and type(f(x)) in (float, np.float64)


#: Those that take seconds to compile, which the benchmark compares.
SLOW = ("quadrature", "reactions", "masks", "small_matrices", "n_body")


@pytest.mark.parametrize("name", [one for one in numba_examples.EXAMPLES if one not in SLOW])
def test_functions_as_users_write_them(name):
    f = numba_examples.EXAMPLES[name].function
    c = tg.compile(f)
    for turn in (0, 1, 1, 2):
        x, *data = numba_examples.arguments(name, True, turn)
        along = np.random.default_rng(turn).normal(size=x.shape)
        line = lambda h: f(x + h * along, *data)
        h = 1e-4
        wanted = (8.0 * (line(h) - line(-h)) - line(2.0 * h) + line(-2.0 * h)) / (12.0 * h)
        for value, gradient in (tg.value_and_grad(f)(x, *data), c.value_and_grad(x, *data)):
            np.testing.assert_allclose(value, f(x, *data), rtol=1e-11)
            np.testing.assert_allclose(np.sum(gradient * along), wanted, rtol=1e-6, atol=1e-8)


# --- arguments, results and arrays that are written ---------------------------------------------


@njit
def _filled(out, x):
    for i in range(out.shape[0]):
        out[i] = x * i
    out += 1.0


@njit
def arrays_in_place(p):
    held = np.empty(3)
    _filled(held, p[0])  # which returns None
    return np.sum(held**2) * p[1]


@njit
def _parts(x):
    return x * x, "a name", True, None, 3


@njit
def results_of_kinds(p):
    square, name, is_so, _, count = _parts(p[0])
    return square * count + (p[1] if is_so and len(name) == 6 else 0.0)


@njit
def _applied(function, x, times=2):
    for _ in range(times):
        x = function(x)
    return x


@njit
def _halved(x):
    return 0.5 * x + math.sin(x)


def applied_in_python(function, x):
    return function(x)


def functions_as_arguments(p):
    return _applied(_halved, p[0]) + applied_in_python(_halved, p[1])


@njit
def _total(values, table):
    total = 0.0
    for x in values:
        total += x * x
    return total + table["rate"]


def containers_of_python(p):
    values = typed.List()
    values.append(p[0])
    values.append(p[1] * 2.0)
    table = typed.Dict.empty(numba.types.unicode_type, numba.types.float64)
    table["rate"] = p[0] * p[1]
    return _total(values, table)


@njit
def objects(p):
    with numba.objmode(y="float64"):
        y = math.sin(p[0])
    return y * p[1]


@njit("float64(float64[:])", cache=True, boundscheck=True)
def with_signature(p):
    return p[0] * p[1] ** numba.literally(3)


@njit
def _optional(x, scale=2.0, shift=None):
    if shift is None:
        return scale * x
    return scale * x + shift


@njit
def defaults(p):
    return _optional(p[0]) * _optional(p[1], shift=p[0], scale=0.5)


@numba.cfunc("float64(float64, float64)")
def of_c(x, y):
    return math.sin(x) * y


def calls_of_c(p):
    return of_c(p[0], p[1])


@njit
def random_numbers(p):
    np.random.seed(3)
    return p[0] * np.random.normal() + p[1]


def test_random_numbers_are_numpys_with_the_same_seed():
    x = np.array([0.4, 1.3])
    np.testing.assert_allclose(tg.grad(random_numbers)(x), differences(random_numbers, x))


MORE = [
    *(arrays_in_place, results_of_kinds, functions_as_arguments, objects),
    *(containers_of_python, with_signature, defaults, calls_of_c),
]


@pytest.mark.parametrize("f", MORE, ids=[one.__name__ for one in MORE])
def test_arguments_and_results(f):
    x = np.array([0.4, 1.3])
    wanted, c = differences(f, x), tg.compile(f)
    for value, gradient in (tg.value_and_grad(f)(x), *[c.value_and_grad(x) for _ in range(3)]):
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-8)


@njit
def copied(p, start):
    u = start.copy()
    for i in range(1, len(u)):
        u[i] = u[i] * p[0] + u[i - 1] * p[1]
    return np.sum(u**2)


def test_copies_of_data_take_recorded_values():
    p, start = np.array([0.4, 1.3]), np.array([1.0, 0.5, -0.3])
    wanted = differences(lambda p: copied(p, start), p)
    c = tg.compile(copied)
    for gradient in (tg.grad(copied)(p, start), c.grad(p, start), c.grad(p, start)):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-7)
    np.testing.assert_array_equal(start, [1.0, 0.5, -0.3])


def test_recorded_values_written_to_given_arrays_are_refused():
    out = np.zeros(3)

    def f(x):
        _filled(out, x)
        return out[1] * x

    with pytest.raises(tg.DerivativeLost, match=r"_filled\(\).* plain array that it was given"):
        tg.grad(f)(2.0)


@njit
def _tail(x):
    return x[1:], 2.0


def test_parts_of_given_arrays_stay_plain():
    out = np.ones(3)

    def f(x):
        tail, k = _tail(out)
        tail[0] = 3.0
        assert out[1] == 3.0
        tail[1] = x
        return out[2] * k * x

    with pytest.raises(tg.DerivativeLost, match="cannot be written to a plain NumPy array"):
        tg.grad(f)(2.0)
    c = tg.compile(f)
    with pytest.raises(tg.DerivativeLost, match="cannot be written to a plain NumPy array"):
        c.grad(2.0)


TABLE, EVERY = {"half": _halved}, [_parts, _halved]


class Model:
    """Compiled functions of a class, of instances, and in containers."""

    def __init__(self):
        self.function = _halved

    @staticmethod
    @njit
    def square(x):
        return x * x

    def loss(self, p):
        named, (of_pair, *_) = TABLE["half"], EVERY
        total = self.function(p[0]) * self.square(p[1]) + Model.square(named(p[0]))
        return total + of_pair(p[1])[0]


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_that_are_kept_are_followed(compiled):
    f, x = Model().loss, np.array([0.4, 1.3])
    gradient = tg.grad(tg.compile(f) if compiled else f)
    for point in (x, x, 2.0 * x):
        np.testing.assert_allclose(gradient(point), differences(f, point), rtol=1e-7)
    assert TABLE["half"] is EVERY[1] is _halved and _halved(0.5) == 0.25 + math.sin(0.5)


def test_functions_made_inside_are_refused():
    def f(x):
        @njit
        def square(y):
            return y * y

        return square(x)

    for gradient in (tg.grad(f), tg.compile(f).grad):
        with pytest.raises(tg.DerivativeLost, match="made outside of the differentiated one"):
            gradient(2.0)


def test_other_threads_call_compiled_functions_meanwhile():
    found = []

    def other():
        found.extend([_halved(0.5), Model.square(3.0), np.float64(_applied(_halved, 0.5))])

    def f(x):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return TABLE["half"](x)

    assert tg.grad(f)(0.5) == pytest.approx(0.5 + math.cos(0.5))
    half = _halved(0.5)
    assert found == [half, 9.0, _halved(half)] and type(found[0]) is float


# --- functions made by vectorize ----------------------------------------------------------------


@vectorize
def branching(x, k):
    if x < 0.5:
        return k * x * x
    return math.log(x) * k


@vectorize(["float64(float64)"])
def looping(x):
    total = 0.0
    while total < 3.0:
        total = total * 0.5 + 2.0
    return total * x * x


@vectorize
def group(x):
    return 1 if x > 0.7 else 0


@njit
def calls_vectorized(p):
    return np.sum(branching(p, 2.0) * Y[:2]) + np.sum(looping(p))


PLACES = np.array([0.1, 0.9])


def in_groups(p):
    return np.sum(p[group(PLACES)] * np.array([3.0, 2.0])) * np.sum(group(p) * p)


@pytest.mark.parametrize(
    "f", [calls_vectorized, in_groups, lambda p: np.sum(looping(branching(p, 3.0)))]
)
def test_vectorized(f):
    c = tg.compile(f)
    for point in ([0.4, 1.3], [1.2, 0.3], [-0.2, 0.4]):
        x = np.array(point)
        for value, gradient in (tg.value_and_grad(f)(x), c.value_and_grad(x)):
            np.testing.assert_allclose(value, f(x), rtol=1e-12)
            np.testing.assert_allclose(gradient, differences(f, x), rtol=1e-7, atol=1e-8)


# --- graphs -------------------------------------------------------------------------------------


@njit
def branches(p, y):
    total = 0.0
    for v in y:
        if v < 0.2:
            total += math.exp(-v) * p[1]
        else:
            total += _decay(p[0], p[1]) * v
    return total


@pytest.mark.parametrize("native", [False, True])
def test_loops_and_branches_have_a_graph(native):
    c, rng = tg.compile(branches, native=native, verify="always"), np.random.default_rng(1)
    for k in range(6):
        p, y = rng.normal(size=2), rng.normal(size=20 + k)
        value, gradient = c.value_and_grad(p, y)
        np.testing.assert_allclose(value, branches(p, y), rtol=1e-12)
        wanted = differences(lambda p, y=y: branches(p, y), p)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-7)
    assert "1 graph" in repr(c)


def test_a_program_is_called_from_numba_again():
    p, y = np.array([0.3, 0.7]), np.linspace(-1.0, 1.0, 9)
    value, both = tg.compile(branches, native=True).numba(p, y)

    @njit
    def descent(p, y, steps):
        gradient = np.empty(2)
        for _ in range(steps):
            both(p, y, gradient)
            p = p - 0.01 * gradient
        return p, value(p, y), branches(p, y)

    found, ours, theirs = descent(p, y, 5)
    for _ in range(5):
        p = p - 0.01 * tg.grad(branches)(p, y)
    np.testing.assert_allclose(found, p, rtol=1e-12)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_compiled_ones_are_pickled():
    c = tg.compile(branches)
    p, y = np.array([0.3, 0.7]), np.linspace(-1.0, 1.0, 9)
    wanted = c.grad(p, y)
    again = pickle.loads(pickle.dumps(c))
    np.testing.assert_allclose(again.grad(p, y), wanted, rtol=1e-12)
    np.testing.assert_allclose(tg.compile(branches, argnames="p").grad(p, y), wanted, rtol=1e-12)
    np.testing.assert_allclose(tg.grad(branches, argnames="p")(p, y), wanted, rtol=1e-12)
    for transform in (tg.compile, lambda f: f):
        partial = functools.partial(branches, y=y)
        gradient = tg.grad(transform(partial))
        np.testing.assert_allclose(gradient(p), wanted, rtol=1e-12)
        partial.keywords["y"] = y[:4]
        np.testing.assert_allclose(gradient(p), tg.grad(branches)(p, y[:4]), rtol=1e-12)
    np.testing.assert_allclose(again.hessian(p, y), tg.hessian(branches)(p, y), rtol=1e-12)


# --- what is refused ----------------------------------------------------------------------------


@numba.guvectorize("void(float64[:], float64, float64[:])", "(n),()->(n)")
def scaled_rows(x, k, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * k


@numba.stencil
def neighbours(x):
    return 0.5 * (x[-1] + x[1])


@numba.experimental.jitclass([("k", numba.float64)])
class Spring:
    def __init__(self, k):
        self.k = k

    def energy(self, x):
        return self.k * x * x


@numba.extending.intrinsic
def itself(context, x):
    return x(x), lambda context, builder, signature, args: args[0]


@njit
def calls_an_intrinsic(p):
    return itself(p[0])


SPRING = Spring(2.0)
REFUSED = {
    "guvectorize": (lambda p: np.sum(scaled_rows(p, p[0])), r"scaled_rows\(\) is not supported"),
    "stencil": (lambda p: np.sum(neighbours(p)), r"neighbours\(\) is a stencil of Numba.*: write"),
    "method": (lambda p: SPRING.energy(p[0]), "write what guvectorize, stencil or jitclass made"),
    "jitclass": (lambda p: Spring(p[0]).energy(2.0), "write what guvectorize, stencil or jitclass"),
    "intrinsic": (calls_an_intrinsic, r"itself\(\) is an intrinsic of Numba.*: write it as a func"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_kinds_are_refused(kind):
    f, message = REFUSED[kind]
    for gradient in (tg.grad(f), tg.compile(f).grad):
        with pytest.raises(TypeError, match=message):
            gradient(np.array([1.0, 2.0, 3.0]))


# --- values that differ -------------------------------------------------------------------------


def test_results_that_differ_in_python_are_refused():
    @njit
    def wraps(x):
        big = 9_223_372_036_854_775_807
        return x * ((big + 1) % 1000)

    with pytest.raises(ValueError, match=r"wraps\(\) gives .* compiled by Numba, and .* in Python"):
        tg.grad(wraps)(2.0)


def test_later_calls_are_compared_too():
    @njit
    def hashed(x, n):
        return x * (n * n * n % 1001)

    gradient = tg.grad(hashed)
    assert gradient(2.0, 5) == 125.0
    with pytest.raises(ValueError, match=r"hashed\(\) gives .* compiled by Numba"):
        gradient(2.0, 3_000_000)


@njit
def _product(x, n):
    k = 1
    for i in range(1, n + 1):
        k *= i
    return x * (k % 1009)


@njit
def _sum(x, n):
    before, last = 1, 1
    for _ in range(n):
        before, last = last, before + last
    return x * (last % 1009)


@pytest.mark.parametrize("f", [_product, _sum])
def test_integers_that_may_overflow_are_compared_at_each_call(f):
    """Other calls come between those that are compared anyway."""
    for gradient in (tg.grad(f), tg.compile(f).grad, tg.compile(f, verify="never").grad):
        for _ in range(40):
            assert gradient(2.0, 5) == pytest.approx(f(1.0, 5), rel=1e-15)
        for _ in range(3):
            with pytest.raises(ValueError, match=r"gives .* compiled by Numba, .* overflow"):
                gradient(2.0, 96)


@njit("int64(float64)")
def _whole(x):
    return x * 3.7


@pytest.mark.filterwarnings("ignore:tapegrad.compile. .* without a program")
def test_functions_whose_results_differ_are_in_no_graph():
    def f(x):
        total = 0.0
        for v in x:
            total = total + (_whole(v) * v if v > 0.5 else v)
        return total

    points = [np.array([0.1, 3.3, 1.2]), np.array([2.1, 0.2, 1.2]), np.array([0.1, 0.3, 5.2])]
    c = tg.compile(f, verify="never")
    for x in points * 2:
        with pytest.raises(ValueError, match=r"_whole\(\) gives .* compiled by Numba"):
            c.value_and_grad(x)


def test_arrays_that_numba_keeps_are_compared_at_each_call():
    rates = np.array([2.0, 3.0])

    @njit
    def at_rates(x):
        return rates[0] * x * x

    gradient = tg.grad(at_rates)
    assert [gradient(3.0) for _ in range(10)] == [12.0] * 10
    rates[0] = 5.0
    assert at_rates(3.0) == 18.0
    with pytest.raises(ValueError, match="keeps the globals and arrays of its first call"):
        gradient(3.0)


RATE = 2.0


def test_globals_that_numba_keeps_are_refused(monkeypatch):
    @njit
    def at_rate(x):
        return RATE * x * x

    gradient = tg.grad(at_rate)
    assert [gradient(3.0) for _ in range(6)] == [12.0] * 6
    monkeypatch.setitem(globals(), "RATE", 5.0)
    assert at_rate(3.0) == 18.0
    with pytest.raises(ValueError, match="keeps the globals and arrays of its first call"):
        gradient(3.0)


def test_integers_of_signatures_are_refused():
    @njit("int64(int64)")
    def square(n):
        return n * n

    with pytest.raises(ValueError, match="converts to the types of signatures"):
        tg.grad(square)(2.0)


@njit(error_model="numpy")
def _by_numpy(x, y):
    return x / y


@njit
def _by_python(x, y):
    return x / y


def test_divisions_by_zero_are_those_of_the_error_model():
    assert tg.value_and_grad(_by_numpy)(2.0, 0.0) == (math.inf, math.inf)
    assert tg.value_and_grad(_by_numpy, argnums=1)(2.0, 0.0) == (math.inf, -math.inf)
    with pytest.raises(ZeroDivisionError):
        tg.grad(_by_python)(2.0, 0.0)


def test_float32_is_compared_as_such():
    @njit
    def total(x):
        out = np.float32(0.0)
        for v in x:
            out += v * v
        return out

    x = np.linspace(0.0, 1.0, 300, dtype=np.float32)
    np.testing.assert_allclose(tg.grad(total)(x), 2.0 * x, rtol=1e-5)
