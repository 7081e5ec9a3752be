"""Graphs of functions of float32: bit for bit as eager calls, what leaves them, what is refused."""

import concurrent.futures
import math
import warnings

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg
import tapegrad.numpy as tnp

SINGLE = np.float32
NATIVE = pytest.mark.parametrize("native", [False, True])
POINT, SCALE = np.array([0.1, 0.2, 0.3], SINGLE), SINGLE(0.7)
DOUBLE = np.array([0.1, 0.2, 0.3])
STRONG, WHOLE = np.float64(0.1), np.int64(3)


def robust(p, x, y):
    total = 0.0
    for k in range(len(y)):
        r = abs(y[k] - p[0] * x[k] - p[1])
        total = total + (r * r if r < 1.0 else 2.0 * r - 1.0)
    return total


def newton(a):
    x = 1.0 + 0.0 * a
    n = 0
    while abs(x * x - a) > 1e-4 and n < 40:
        x = 0.5 * (x + a / x)
        n += 1
    return x


def weak_numbers(x):
    """Python's floats are rounded where they meet float32, and not before."""
    t, s = 0.0, 0
    for i in range(len(x)):
        t = t * 0.3 + 0.1
        if x[i] > 0.3:
            s = s + x[i] * t / 3
        else:
            s = s * 1.1 + max(x[i], 0.1) * 0.3
    return s


def remainders(x):
    s = x[0]
    for v in x:
        if v > 0:
            s = s + v**2 - 1 / (v**2 + 1)
        else:
            s = s // 0.3 + s % 0.7 - round(v) * v
    return s


def lists_and_outside(x):
    kept, table = [], {"most": x[0]}
    for i in range(3):
        if x[i] > POINT[i]:
            kept.append(x[i] * SCALE)
        else:
            table["most"] = max(table["most"], x[i] * POINT[i])
    total = x[0] * 0.0
    for v in kept:
        total = total + v
    return total + table["most"]


def data_of_integers(x, k):
    s = x[0] * 0.0
    for i in range(len(k)):
        s = s + x[k[i]] * int(k[i]) if k[i] > 1 else s - x[k[i]] * 0.1
    return s


def array_memory(x):
    y, c = tnp.zeros(len(x), dtype=x.dtype), x[0] * 0.0
    for i in range(len(x)):
        c = c + x[i] if x[i] > 0 else c * 0.3
        y[i] = c
    y[0] = 0.1
    y = np.where(y > 0.1, y, 0.3) * np.maximum(x, 0.7)
    return y[0] * 0.1 + y[-1]


def same(found, wanted):
    """The same types, dtypes and bits."""
    assert type(found) is type(wanted), (found, wanted)
    np.testing.assert_array_equal(found, wanted, strict=True)


def numbers(rng, *sizes):
    return [rng.normal(size=n).astype(SINGLE) for n in sizes]


CALLS = {
    robust: lambda rng, k: numbers(rng, 2, 3 + k % 3, 3 + k % 3),
    newton: lambda rng, k: [SINGLE(rng.uniform(0.1, 50.0))],
    weak_numbers: lambda rng, k: numbers(rng, 5),
    remainders: lambda rng, k: numbers(rng, 5),
    lists_and_outside: lambda rng, k: numbers(rng, 3),
    data_of_integers: lambda rng, k: [*numbers(rng, 4), rng.integers(0, 4, 1 + k % 4)],
    array_memory: lambda rng, k: numbers(rng, 4),
}


@needs("numba-reader")
@NATIVE
@pytest.mark.parametrize("f", CALLS, ids=lambda f: f.__name__)
def test_values_bit_for_bit_and_derivatives(f, native, rng):
    c = tg.compile(f, native=native)
    for k in range(12):
        args = CALLS[f](rng, k)
        same(c(*args), f(*args))
        value, gradient = c.value_and_grad(*args)
        assert value == f(*args)
        wanted = tg.grad(f)(*args)
        assert np.asarray(gradient).dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(gradient, wanted, rtol=2e-5, atol=1e-6)
        if native:
            c.wait()
    (flow,) = c._flows.found.values()
    assert flow.primal.calls > 12 and flow.primal.left <= 6 and c._reason is None
    assert flow.primal.life.state == ("native" if native else "interpreted")


@needs("numba-reader")
@NATIVE
def test_second_derivatives_and_products(native, rng):
    def f(x):
        s = x[0] * 0.0
        for i in range(len(x)):
            r = x[i] * x[i] - 0.3
            s = s + (np.sin(r) * x[0] if r > 0.1 else r * r * x[i])
        return s

    c = tg.compile(f, native=native)
    for _ in range(6):
        x, v = numbers(rng, 4, 4)
        c.grad(x)
        found = c.hessian(x), c.hvp(x, v), c.jvp((x,), (v,))[1], c.vjp(x)[1](SINGLE(0.5))[0]
        wanted = tg.hessian(f)(x), tg.hvp(f)(x, v), tg.jvp(f, (x,), (v,))[1]
        for a, b in zip(found, (*wanted, tg.vjp(f, x)[1](SINGLE(0.5))[0]), strict=True):
            assert np.asarray(a).dtype == SINGLE
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        c.wait()
    (flow,) = c._flows.found.values()
    assert flow._tangents is not None and flow._tangents.calls and not c._reason


@needs("numba-reader")
def test_arrays_and_tuples_as_results(rng):
    def f(x):
        s, n = x[0], 0
        for i in range(1, len(x)):
            if x[i] > s:
                s, n = s * 0.5 + x[i], n + 1
            else:
                s = s - x[i] * 0.1
        return x * s + 1, s, n, 0.1

    c, g = tg.compile(f), tg.compile(lambda x: f(x)[0])
    for _ in range(6):
        (x,) = numbers(rng, 4)
        for found, wanted in zip(c(x), f(x), strict=True):
            same(found, wanted)
        g(x)
        jacobian = g.jacobian(x)
        assert jacobian.dtype == SINGLE
        wanted = tg.jacobian(lambda x: f(x)[0])(x)
        np.testing.assert_allclose(jacobian, wanted, rtol=1e-5, atol=1e-6)
    assert all(one._flows.found and not one._reason for one in (c, g))


def test_sums_are_added_up_in_float64_and_rounded_once(rng):
    def f(x, y):
        if x[0] > 0:
            return np.sum(x) + np.mean(x * x)
        return x @ y - np.linalg.norm(x) + np.max(x)

    c = tg.compile(f)
    for n in (3, 3, 3, 3, 500, 500, 500, 500):
        x, y = numbers(rng, n, n)
        x[0] = -x[0] if n % 2 else x[0]
        found, exact = c(x, y), f(x.astype(float), y.astype(float))
        assert type(found) is SINGLE
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5 * np.sqrt(n))


@needs("numba-reader")
@NATIVE
def test_branches_are_decided_by_rounded_numbers(native):
    """0.1 of float32 is above the float64 0.1, and equal to 0.1 where Python's float is rounded."""

    def f(x):
        if x[0] == 0.1:
            return x[1] * 2
        if x[0] + x[1] == x[0]:  # in float32, not in float64
            return x[1] * 3
        if x[0] < 16777217:  # which is 2 to the power of 24 in float32
            return x[1] * 5
        return x[1] * 7

    c = tg.compile(f, native=native)
    for a, b in ((0.1, 1.0), (1.0, 1e-9), (1.0, 1.0), (2.0**24, 2.0), (2.0**25, 4.0)) * 2:
        x = np.array([a, b], SINGLE)
        same(c(x), f(x))
        c.wait()
    assert c._flows.found


@needs("numba-reader")
def test_a_number_of_pythons_where_no_float32_was_met():
    """Calls that give one leave the graph, which has a result of float32."""

    def f(y):
        s = 0.0
        for v in y:
            if v > 0:
                s = s + v
        return s

    c = tg.compile(f, argnums=())
    for y in ([1, 2], [1, -2], [-1], [], [3], [0.1]):
        y = np.array(y, SINGLE)
        same(c(y), f(y))
    (flow,) = c._flows.found.values()
    assert {*flow.primal.reasons} == {
        "a result is float32 on one branch and a number of Python's on this one"
    }


@needs("numba-reader")
@pytest.mark.parametrize(
    "text, reason",
    [
        ("x[i] * STRONG", "a number of dtype float64 from outside"),
        ("x[i] * WHOLE", "a number of dtype int64 from outside"),
        ("x[i] * DOUBLE[i]", "an array of float64 from outside"),
        ("x[i] * np.sqrt(2.0)", "np.sqrt of other numbers than float32"),
        ("x[i] * np.maximum(i, 1)", "np.maximum of other numbers than float32"),
        ("x[i] * np.where(x[i] > 0.1, 0.3, 0.1)", "np.where of Python's floats"),
        ("x[i] * k[i]", "make float64 of float32"),
        ("x[i] * (k[i] * 0)", "make float64 of float32"),
        ("x[i] * min(k[i], 1)", "make float64 of float32"),
        ("x[i] * [i, k[i]][-1]", "make float64 of float32"),
        ("x[i] * (k[i] / 2)", "make float64 of float32"),
        ("x[i] * np.argmax(x)", "make float64 of float32"),
        ("x[i] * np.sum(k)", "make float64 of float32"),
        ("(x[i] > 0) * 0.3", "make float64 of float32"),
        ("x[i] * sum(v > 0 for v in x)", "make float64 of float32"),
        ("np.sum(x * k)", "make float64 of float32"),
        ("x[i] * tnp.zeros(3)[0]", "an array of float64"),
        ("tnp.array([x[i], 0.1])[0]", "an array of float64"),
        ("tg.math.sin(x[i])", "math.sin of float32, which gives float64"),
    ],
)
def test_float64_is_refused_by_name(text, reason):
    scope = {**globals()}
    source = "def f(x, k):\n s = x[0] * 0.0\n for i in range(len(x)):\n"
    exec(f"{source}  if x[i] > -0.4:\n   s = s + {text}\n  else:\n   s = s * 0.7\n return s", scope)
    from tapegrad._flow.reading.forms import Refused
    from tapegrad._flow.reading.readings import GivenInput, read

    given = [GivenInput("s", (3,), True), GivenInput("i", (3,), False)]
    with pytest.raises(Refused, match=reason):
        read(scope["f"], given, [], given)
    read(scope["f"].__globals__["harmless"], given, [], given)


def harmless(x, k):
    s = x[0] * 0.0
    for i in range(len(x)):
        s = s + x[k[i]] * int(k[i]) * bool(x[i] > 0) / len(x) if x[i] > k[i] else s * float(k[i])
    return s * math.sqrt(2.0)


def test_float64_runs_eagerly_with_a_warning(rng):
    def f(x):
        return np.sum(x * STRONG) if x[0] > 0 else x[0] * STRONG

    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="float64.* float32"):
        c.grad(np.ones(2, SINGLE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in numbers(rng, 2, 2, 3):
            np.testing.assert_array_equal(c.grad(x), tg.grad(f)(x), strict=True)
            same(c(x), f(x))


@needs("numba-reader")
def test_numbers_of_two_dtypes_in_one_place_are_refused():
    from tapegrad._flow.reading.forms import Refused
    from tapegrad._flow.reading.readings import GivenInput, read

    def in_a_list(x):
        kept = []
        for i in range(len(x)):
            kept.append(0.1 if i % 2 else x[i])
        return kept[0] * 0.1 * 3

    def in_a_tuple(x):
        n = 1 if x[0] > 0 else 0
        return (x[0], 0.5)[n] * 0.1

    given = [GivenInput("s", (None,), False)]
    with pytest.raises(Refused, match="float32 on one branch and one of Python's on another"):
        read(in_a_list, given, [], given)
    with pytest.raises(Refused, match="a tuple of numbers of float32 and others"):
        read(in_a_tuple, given, [], given)


@needs("numba-reader")
@NATIVE
def test_sizes_0_and_1_and_lengths_of_data(native, rng):
    c = tg.compile(robust, native=native)
    (p,) = numbers(rng, 2)
    for n in (3, 3, 1, 0, 1, 0, 70):
        x, y = numbers(rng, n, n)
        same(c(p, x, y), robust(p, x, y))
        gradient = c.grad(p, x, y) if n else np.zeros(2, SINGLE)
        wanted = tg.grad(robust)(p, x, y) if n else gradient
        np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5)
        c.wait()
    assert len(c._flows.found) == 1


def test_overflow_and_small_numbers():
    def f(x, y):
        if x > 1:
            return x * y * 1e-20
        return x * y + x / y

    c = tg.compile(f, argnums=(0, 1))
    with np.errstate(all="ignore"):
        for x, y in ((1e30, 1e30), (1e-30, 1e-12), (2.0, 3.0), (1e-38, 3.0), (1e-42, 7.0)):
            same(c(SINGLE(x), SINGLE(y)), f(SINGLE(x), SINGLE(y)))


@needs("numba-reader")
def test_float32_and_float64_have_graphs_of_their_own(rng):
    c = tg.compile(robust)
    for _ in range(4):
        args = numbers(rng, 2, 3, 3)
        same(c(*args), robust(*args))
        wide = [x.astype(float) for x in args]
        value, gradient = c.value_and_grad(*wide)
        assert type(value) is float and gradient.dtype == float
        assert value == robust(*wide)
    assert {flow.dtype.itemsize for flow in c._flows.found.values()} == {4, 8}


@needs("numba-reader")
def test_calls_in_recordings_and_in_other_compiled_functions(rng):
    c = tg.compile(weak_numbers)
    outer = tg.compile(lambda x: c(x) * 0.5 if x[1] > 0 else c(-x))
    for _ in range(6):
        x = numbers(rng, 4)[0]
        x[0] = 1.0
        c.grad(x)
        dtypes = []

        def eager(f, x, dtypes=dtypes):
            made = f(np.exp(x)) * x[0]
            dtypes.append(made.dtype)
            return made

        found = tg.grad(lambda x: eager(c, x))(x)
        wanted = tg.grad(lambda x: eager(weak_numbers, x))(x)
        assert dtypes == [SINGLE, SINGLE] and found.dtype == SINGLE
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        same(outer(x), outer._f(x))
    assert c._flows.found and outer._flows.found


@needs("numba-reader")
def test_files(tmp_path, rng):
    c = tg.compile(lists_and_outside)
    for _ in range(8):
        c.grad(*numbers(rng, 3))
    c.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    for _ in range(6):
        (x,) = numbers(rng, 3)
        same(loaded(x), lists_and_outside(x))
        np.testing.assert_array_equal(loaded.grad(x), c.grad(x), strict=True)
    assert loaded._flows.found


@needs("numba-reader")
def test_threads(rng):
    c = tg.compile(robust)
    calls = [numbers(rng, 2, 5, 5) for _ in range(200)]
    wanted = [robust(*args) for args in calls]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda args: c(*args), calls))
    assert found == wanted and c._flows.found


@needs("numba-reader")
@pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%"])
def test_operators_round_as_numpy_does(op, rng):
    """Of numbers of all sizes, also those whose result is subnormal or infinite."""
    scope = {}
    exec(f"def f(x, y):\n return x {op} y if x < y else y {op} x", scope)
    c = tg.compile(scope["f"], argnums=(), verify="never")
    x = (rng.normal(size=(2, 300)) * 10.0 ** rng.uniform(-40, 38, (2, 300))).astype(SINGLE)
    with np.errstate(all="ignore"):
        for a, b in x.T:
            same(c(a, b), scope["f"](a, b))
    assert c._flows.found
