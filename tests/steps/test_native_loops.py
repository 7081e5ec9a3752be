"""Native code of loops over numbers against interpreted programs and eager gradients."""

import numpy as np
import pytest
from compiled import by_ways, check_tiers, is_native, programs, same

import tapegrad as tg

# --- loops of numbers -----------------------------------------------------------------------------


def warped(x, y):
    """The distance of two series under dynamic time warping."""
    table = [[np.inf] * (len(y) + 1) for _ in range(len(x) + 1)]
    table[0][0] = 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            square = (x[i] - y[j]) ** 2
            least = np.minimum(np.minimum(table[i][j + 1], table[i + 1][j]), table[i][j])
            table[i + 1][j + 1] = square + least
    return table[-1][-1]


def test_time_warping():
    """Rows of a table in a loop, which begins with a border of infinities."""
    rng = np.random.default_rng(0)
    calls = [tuple(np.cumsum(rng.standard_normal(n)) for n in (10, 60)) for _ in range(3)]
    check_tiers(warped, calls, (0, 1), recorded=1)


def lorenz(p):
    x, y, z, s, r, b = (p[k] for k in range(6))
    for _ in range(50):
        x, y, z = (
            x + 0.01 * (s * (y - x)),
            y + 0.01 * (x * (r - z) - y),
            z + 0.01 * (x * y - b * z),
        )
    return x * x + y * y + z * z


def nested(x):
    """Over the cells of a matrix, with sums of rows that are carried."""
    m, total = x.reshape(-1, 3), 0.0
    for i in range(m.shape[0]):
        row = 1.0
        for j in range(3):
            row = row + m[i, j] * m[i, j] * x[j]
        total = total * 0.5 + row / (1.0 + row)
    return total


def two_bodies(x):
    a = b = x[0]
    for k in range(len(x)):
        a = a * x[k] + 0.5
    for k in range(len(x)):
        b = 0.9 * b + np.sqrt(a * a + 1.0) * x[k] - a / (2.0 + b * b)
    return a + b


def by_tables(x):
    order = np.random.default_rng(0).permutation(len(x))
    a = 0.0
    for k, j in enumerate(order):
        a = a * 0.5 + x[j] * x[k] + x[order[j]]
    return a


def two_steps_back(x):
    a, b = x[0], x[1]
    for k in range(2, len(x)):
        a, b = b, 0.3 * a + b * x[k] - a / (1.0 + x[k - 2] ** 2)
    return a * b


def written_in_order(x):
    """A Gauss-Seidel sweep: each cell reads one that was just written."""
    y = np.copy(x)
    for _ in range(4):
        for k in range(1, len(x) - 1):
            y[k] = 0.25 * (y[k - 1] + 2.0 * y[k] * x[k] + y[k + 1])
    return y[1] * y[len(x) - 2] + y[len(x) // 2]


LOOPS = [nested, two_bodies, by_tables, two_steps_back, written_in_order]


def test_an_integrator():
    start = np.array([1.0, 1.0, 1.05, 10.0, 28.0, 8 / 3])
    rng = np.random.default_rng(0)
    calls = [(start * (1.0 + 0.1 * rng.normal(size=6)),) for _ in range(5)]
    check_tiers(lorenz, calls, exact=True, recorded=1)


@pytest.mark.parametrize("f", LOOPS)
@pytest.mark.parametrize("n", [6, 33, 120])
def test_loops(f, n):
    rng = np.random.default_rng(n)
    check_tiers(f, [(rng.uniform(-1.0, 1.0, n),) for _ in range(4)], exact=True, recorded=1)


def with_functions(x):
    a, total = x[0], 0.0
    for value in x:
        a = np.sin(a + value) + np.exp(-a * a) * np.tanh(value)
        total = total + np.log(2.0 + a) * value**3
    return total


@pytest.mark.parametrize("n", [3, 40])
def test_loops_with_functions(n):
    """They may be off by units in the last place."""
    f = with_functions
    check_tiers(f, [(np.random.default_rng(k).uniform(0.5, 1.5, n),) for k in range(4)], recorded=1)


def heat(u):
    for _ in range(20):
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0] = u[1] * 0.5
    return np.sum(u * u)


@pytest.mark.parametrize("n", [3, 9, 1000])
def test_stencils_in_place(n):
    rng = np.random.default_rng(n)
    check_tiers(heat, [(rng.uniform(0.5, 1.5, n),) for _ in range(3)], recorded=1)


def test_guards_in_loops():
    """One that fails in native code leads to another recording, which gets code of its own."""

    def f(x):
        a = 0.1
        for k in range(24):
            a = a * x[0] + x[1] if a < 1.5 else a - 0.75 * x[k % 3]
        return a * a

    calls = [(np.array([a, b, 1.0]),) for a in (1.05, 0.9) for b in (0.25, 0.5, 0.01)]
    check_tiers(f, calls * 2, exact=True)
    c = by_ways(tg.compile(f, native=True))
    for k, args in enumerate(calls[:3]):
        same(c.value_and_grad(*args), tg.value_and_grad(f)(*args))
        c.wait()
        assert is_native(c) and programs(c) == k + 1


# --- float32 --------------------------------------------------------------------------------------


def of_float64_alone(x):
    """Functions that are computed in float64, and rounded before anything else is."""
    a, total = x[0], x[0] * 0.0
    for value in x:
        a = 0.5 * a + 0.1 * tg.gammaln(2.0 + value * value)
        total = total + tg.digamma(1.5 + a * a) * value + tg.gamma(1.5 + 0.1 * value)
    return total * a


def integrated(x):
    """A loop that carries three numbers: its Jacobians are computed in lanes."""
    a, b, c = x[0], x[1], x[2]
    for k in range(3, len(x)):
        a, b, c = a - 0.05 * (b + c), b + 0.05 * (a + 0.2 * b), c + 0.05 * (x[k] + c * (a - 5.7))
    return a * b + c


@pytest.mark.parametrize("f", [*LOOPS, with_functions, of_float64_alone, integrated])
@pytest.mark.parametrize("n", [6, 120])
@pytest.mark.parametrize("memory", ["all", "sqrt"])
def test_loops_of_float32(f, n, memory):
    """They differ from interpreted ones by roundings of float32, and results are of float32."""
    rng = np.random.default_rng(n)
    interpreted, native = (tg.compile(f, native=tier, memory=memory) for tier in (False, True))
    for _ in range(4):
        x = rng.uniform(0.1, 1.0, n).astype(np.float32)
        wanted = tg.value_and_grad(f)(x.astype(float))
        for c in (interpreted, native):
            c.value_and_grad(x)
            c.wait()
            found = c.value_and_grad(x)
            assert found[1].dtype == np.float32
            for a, b in zip(found, wanted, strict=True):
                least = 1e-5 * np.abs(b).max() + np.finfo(np.float32).tiny
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=least)
    assert is_native(native) and not is_native(interpreted)
    assert n < 120 or "native: loop of" in native.explain()


def test_guards_in_loops_of_float32():
    """A number that is compared is one of float32: 0.1 in float32 is larger than 0.1."""

    def f(x):
        total = x[0] * 0.0
        for k in range(len(x)):
            total = total + (x[k] * x[k] if x[k] > 0.1 else 3.0 * x[k])
        return total

    c = by_ways(tg.compile(f, native=True))
    for first in (0.1, 0.05, 0.3, 0.1):
        x = np.full(60, first, np.float32)
        for _ in range(2):
            same(c.value_and_grad(x), tg.value_and_grad(f)(x), rtol=1e-5)
            c.wait()
