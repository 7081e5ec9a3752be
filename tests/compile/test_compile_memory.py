"""Long loops that keep what they carry at intervals: the same numbers from less memory."""

import gc

import numpy as np
import pytest
from compiled import programs

import tapegrad as tg
from tapegrad._program.dispatch.signature import Arguments
from tapegrad._program.dispatch.variants import traced_call
from tapegrad._program.ir.elementwise_step import Elementwise

P = np.array([10.0, 28.0, 8.0 / 3.0, 0.7])


def lorenz(p, n):
    """Three carried values; reverse needs one more, `t`, to go through a block again."""
    x, y, z, t = 1.0, 1.0, 1.0 * p[3], 0.0
    for _ in range(n):
        dx, dy, dz = p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z
        x, y, z = x + 0.001 * dx, y + 0.001 * dy + 0.01 * np.sin(p[0] * t), z + 0.001 * dz
        t = t + 0.001 * p[3]
    return x * x + y + z


def nested(p, n):
    """An inner loop that is cut, in an outer one that is not."""
    x, total = p[0] * 0.1, 0.0
    for k in range(5):
        for _ in range(n):
            x = x + 0.01 * x * (p[1] - x * np.exp(-x)) * p[3]
        total = total + x * (k + 1.0)
        x = x * 0.5 + p[2]
    return total


def one_after_another(p, n):
    """Two loops; the second reads the results of the first in their slots."""
    x, seen = p[0] * 0.1, []
    for _ in range(n):
        x = x * 0.99 + 0.01 * p[3] * x * x
        seen.append(x)
    y = p[1]
    for k in range(n):
        y = y * (0.9 + 0.05 * seen[k]) + p[2] * seen[k]
    return y


def with_data(p, n):
    """Tables of numbers, and a value that only some of what is carried depends on."""
    data = np.sin(np.arange(n) * 0.37)
    a, b, count = p[0], p[1] * 0.1, 0.0
    for k in range(n):
        a = 0.9 * a + float(data[k]) * b
        b = b + 0.01 * p[2] * a * count
        count = count + 0.001
    return a * b


LOOPS = [lorenz, nested, one_after_another, with_data]


def native(f, n, memory):
    c = tg.compile(lambda p: f(p, n), native=True, memory=memory, verify="never")
    for _ in range(2):
        c.value_and_grad(P)
    c.wait()
    assert programs(c) == 1
    return c


def kept(c):
    """Slots that a program has beside those of its results."""
    program = next(iter(c._families.found.values())).found[0].program
    assert program.native
    return program.parts.slots - program.code.slots


@pytest.mark.parametrize("f", LOOPS)
@pytest.mark.parametrize("n", [64, 65, 100, 143])
def test_values_and_gradients_are_the_same(f, n, whole_loops):
    everything, some = native(f, n, "all"), native(f, n, "sqrt")
    for scale in (1.0, 0.9):
        value, gradient = some.value_and_grad(P * scale)
        right, wanted = everything.value_and_grad(P * scale)
        exact, eager = tg.value_and_grad(f)(P * scale, n)
        assert value == right == exact
        np.testing.assert_array_equal(gradient, wanted)
        np.testing.assert_allclose(gradient, eager, rtol=1e-12, atol=1e-12 * np.abs(eager).max())


@pytest.mark.parametrize("f", [lorenz, with_data])
def test_memory_grows_as_the_square_root(f, whole_loops):
    few, many = kept(native(f, 100, "sqrt")), kept(native(f, 6400, "sqrt"))
    assert many <= 8.5 * few
    assert kept(native(f, 6400, "all")) >= 50 * kept(native(f, 100, "all"))


def test_short_loops_are_as_they_were():
    assert kept(native(lorenz, 50, "sqrt")) == kept(native(lorenz, 50, "all"))


def test_unknown_memory():
    with pytest.raises(ValueError, match="memory is 'less'; it must be one of 'all', 'sqrt'"):
        tg.compile(lorenz, memory="less")


@pytest.mark.parametrize("memory", ["all", "sqrt"])
@pytest.mark.parametrize("start", [0.1, 3.0])
def test_an_adjoint_of_zero_meets_infinite_values(memory, start):
    """From 3 the loop goes to infinity, and its end does not matter then; from 0.1 it does."""

    def f(p, n):
        x, y = p[3], 0.0
        for _ in range(n):
            x = x * x + 0.1 * p[3]
            y = y * 0.5 + x * p[0]
        return p[3] * 2.0 + np.minimum(x, 1.0) + np.minimum(y, 100.0)

    c = native(f, 100, memory)
    p = np.array([0.5, 1.0, 1.0, start])
    with np.errstate(all="ignore"):
        value, gradient = c.value_and_grad(p)
        right, wanted = tg.value_and_grad(f)(p, 100)
    assert value == right and np.isfinite(wanted).all()
    np.testing.assert_allclose(gradient, wanted, rtol=1e-12)


def test_what_a_program_was_converted_from_goes_without_the_garbage_collector():
    """The steps as they were recorded, one for each operation, are in no cycle of objects."""
    x = np.linspace(0.1, 1.0, 40)

    def function(x):
        for _ in range(50):
            x = np.sin(x) * 0.9
        return x.sum()

    def alive():
        return sum(type(one) is Elementwise for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = alive()
        with traced_call(function, Arguments((x,), {}, (0,))) as traced:
            variant, _ = traced.program()
        steps = sum(type(step) is Elementwise for step in variant.program.code.steps)
        assert 0 < alive() - before <= steps < 10
    finally:
        gc.enable()
