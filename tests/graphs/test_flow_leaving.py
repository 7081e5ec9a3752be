"""Where functions raise, or do what graphs do not: calls that leave, and the reasons by line."""

import inspect

import numpy as np
import pytest
from assumed import needs
from read_graphs import Graphs, given

import tapegrad as tg
from tapegrad._flow.reading.forms import Refused
from tapegrad._flow.reading.readings import read

pytestmark = needs("numba-reader")

X = np.array([0.5, -1.5, 2.0])
LINE = "test_flow_leaving.py:{} in {}"


def raising(x):
    total = 0.0
    for v in x:
        if v > 9:
            raise ValueError(f"{v} is too large")
        if v < -9:
            raise ArithmeticError("too small: " + str(v))
        total = total + (v if v > 0 else v * v)
    return total


def overflowing(x, y):
    k, total = 3, 0.0
    for v in y:
        k = k**2 * k  # HERE
        total = total + (k % 5) * (v if v > 0 else v * x)
    return total


def trying(x):
    total = x[0]
    try:
        total = total * x[1]
    except ZeroDivisionError:
        total = total + 1.0
    return total


def trying_at_times(x):
    return x[0] * x[1] if x[0] > 0 else trying(x)


def within(x):
    with np.errstate(all="ignore"):  # HERE
        return x[0] / x[1]


def importing(x):
    import math  # HERE

    return x[0] * math.pi


def spreading(x, **options):
    return np.sum(x, **options)  # HERE


def place(f):
    """The line of a function that is marked."""
    code = f.__code__
    lines = inspect.getsource(f).splitlines()
    number = next(k for k, line in enumerate(lines) if "HERE" in line)
    return LINE.format(code.co_firstlineno + number, code.co_name)


def test_a_call_that_raises_leaves():
    graphs = Graphs(raising, (X,))
    graphs.check(X)
    graphs.check(-X)
    graphs.check(10 * X, left="the function raises")
    graphs.check(-10 * np.abs(X), left="the function raises")
    c = tg.compile(raising)
    for x in (X, -X, 2 * X):
        np.testing.assert_allclose(c.grad(x), tg.grad(raising)(x))
    assert c._flows.found and not c._flows.refused
    with pytest.raises(ValueError, match=r"is too large"):
        c.grad(10 * np.abs(X))
    with pytest.raises(ArithmeticError, match="too small"):
        c.grad(-10 * np.abs(X))


def test_integers_that_grow_too_large_name_the_line():
    graphs = Graphs(overflowing, (2.0, X), exact=False)
    graphs.check(2.0, X)
    reason = (
        f"beyond 63 bits, or 53 as a float, or a division by the integer 0 ({place(overflowing)})"
    )
    graphs.check(2.0, np.ones(9), left=reason)


def test_a_try_statement_leaves():
    graphs = Graphs(trying_at_times, (X,))
    graphs.check(X)
    graphs.check(-X, left="it has a try statement (test_flow_leaving.py:")


@pytest.mark.parametrize(
    "f, what",
    [
        (within, "a with statement"),
        (importing, "an import"),
        (spreading, "a call with **"),
    ],
)
def test_reasons_to_refuse(f, what):
    with pytest.raises(Refused) as caught:
        read(f, given((X,), 0), [])
    assert str(caught.value) == f"it has {what} ({place(f)})"


def test_a_try_statement_on_each_way_refuses():
    with pytest.raises(Refused, match=r"it has a try statement \(test_flow_leaving.py:.* trying\)"):
        read(trying, given((X,), 0), [])


def test_zip_with_strict_raises_at_other_lengths():
    def f(p, x, y):
        total = 0.0
        for a, b in zip(x, y, strict=True):
            total += p * a * b if a > b else p
        return total

    c = tg.compile(f, native=False)
    rng = np.random.default_rng(5)
    for n in (3, 3, 4, 6, 0, 1):
        x, y = rng.normal(size=(2, n))
        value, gradient = c.value_and_grad(1.7, x, y)
        assert value == pytest.approx(f(1.7, x, y))
        assert gradient == pytest.approx(tg.grad(f)(1.7, x, y))
    (flow,) = c._flows.found.values()
    assert flow.primal.calls > 3 and not c._flows.refused
    for n, m in ((3, 4), (4, 3), (0, 1), (1, 0)):
        with pytest.raises(ValueError, match="zip"):
            c.value_and_grad(1.7, np.ones(n), np.ones(m))
    assert c.grad(2.0, np.array([1.0, 2.0]), np.array([0.0, 3.0])) == pytest.approx(1.0)
