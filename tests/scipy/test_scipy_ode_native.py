"""Solutions of initial value problems in compiled functions, in machine code without Python."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import tapegrad as tg
from tapegrad.scipy import _ode_flow, _ode_native, _ode_native_calls, _ode_right_side

METHODS = ("RK23", "RK45", "DOP853", "Radau")
P = np.array([1.5, 0.8, 0.7, 2.0])
Y = np.array([2.0, 1.0])
TIMES = np.array([0.0, 0.3, 0.31, 1.0])
CLOSE = {"rtol": 1e-6, "atol": 1e-9}


@pytest.fixture
def python(monkeypatch):
    """What Python has computed in programs, solutions and adjoints, by name."""
    found = []
    for name in ("value", "adjoints"):
        own = getattr(_ode_flow.RepeatedOrder, name)

        def noted(self, *given, name=name, own=own):
            found.append(name)
            return own(self, *given)

        monkeypatch.setattr(_ode_flow.RepeatedOrder, name, noted)
    return found


def predator(t, y, p):
    hare, lynx = y
    swing = 1.0 + 0.1 * np.sin(3.0 * t)
    return [p[0] * swing * hare - p[1] * hare * lynx, p[2] * hare * lynx - p[3] * lynx]


def compared(f, python, *points, argnums=0, far=1e-13):
    """Compare a compiled function with the eager one at points, the first of which it records."""
    both, c = tg.value_and_grad(f, argnums=argnums), tg.compile(f, argnums=argnums)
    for _ in range(4):
        c.value_and_grad(*points[0])
    python.clear()
    for at in (*points, points[0]):
        value, gradient = c.value_and_grad(*at)
        wanted, of = both(*at)
        assert_allclose(value, wanted, rtol=far)
        assert_allclose(c(*at), wanted, rtol=far)
        pairs = zip(gradient, of, strict=True) if type(argnums) is tuple else [(gradient, of)]
        for one, other in pairs:
            assert_allclose(one, other, rtol=1e-11, atol=1e-13)
            assert np.any(one)
    return c


def weighted(y):
    return np.sum(y * y * np.arange(1.0, 1.0 + y.size).reshape(y.shape))


@pytest.mark.parametrize("method", METHODS)
def test_values_and_adjoints(method, python):
    def at_times(p):
        found = solve_ivp(predator, (0.0, 1.0), Y, method, TIMES, args=(p,), **CLOSE)
        told = found.nfev + 10.0 * found.njev + 100.0 * found.nlu + found.t[-1]
        return weighted(found.y) + told if found.success else 0.0

    compared(at_times, python, (P,), (0.6 * P,), (1.3 * P,))
    assert not python

    def of_steps(p, y0):
        given = {"rtol": 1e-2, "atol": 1.0, "max_step": 0.1}
        found = solve_ivp(predator, (0.2, 1.1), y0, method, args=(p,), **given)
        return weighted(found.y) + found.t.sum()

    compared(of_steps, python, (P, Y), (1.01 * P, Y), (P, 1.01 * Y), argnums=(0, 1))
    assert not python


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_the_interval_and_times_may_be_recorded(method, python):
    def f(p, ends, t_eval):
        found = solve_ivp(predator, (ends[0], ends[1]), Y, method, t_eval, args=(p,), **CLOSE)
        return weighted(found.y) + np.sum(found.t**2)

    ends = np.array([0.0, 1.0])
    points = (P, ends, TIMES), (P, ends + 0.1, TIMES + 0.1), (1.1 * P, ends, TIMES * 0.9)
    compared(f, python, *points, argnums=(0, 1, 2))
    assert not python

    def back(p, end):
        found = solve_ivp(predator, (1.0, end), Y, method, args=(p,), max_step=0.2, **CLOSE)
        return weighted(found.y) + np.sum(found.t**2)

    compared(back, python, (P, 0.4), (P, 0.4 - 1e-6), argnums=(0, 1))
    assert not python
    c = tg.compile(f, argnums=(0, 1, 2))
    for _ in range(2):
        c.value_and_grad(P, ends, TIMES)
    for wrong in (TIMES[::-1].copy(), TIMES + 0.1, TIMES * 0.5 - 0.2):
        with pytest.raises(ValueError, match="t_eval"):
            c.value_and_grad(P, ends, wrong)


def test_first_states_and_operands_of_any_kind(python):
    rate = np.array([[-1.0, 0.3], [0.2, -0.5]])

    def f(A, b, s):
        given = {"t_eval": TIMES, "args": (A.T, s), **CLOSE}
        made = solve_ivp(lambda t, y, A, s: A @ y * s, (0.0, 1.0), [s, b[0], 3], **given)
        other = solve_ivp(lambda t, y: rate @ y + s, (0.0, 1.0), b[1:], "DOP853", [0.5], **CLOSE)
        return weighted(made.y) * np.sum(other.y)

    A = np.arange(9.0).reshape(3, 3) / 9.0 - 0.5
    points = [(A * k, np.array([1.0, 2.0, -0.3]) + k, 0.7 / k) for k in (1.0, 2.0, -0.5)]
    compared(f, python, *points, argnums=(0, 1, 2))
    assert not python


@pytest.mark.parametrize("n", (1, 9, 300))
def test_sizes(n, python):
    shift = np.linspace(0.0, 1.0, n)

    def f(p, y0):
        given = {"t_eval": [0.5], "rtol": 1e-4}
        return np.sum(solve_ivp(lambda t, y: -p * y * y + shift, (0.0, 0.5), y0, **given).y ** 2)

    y = np.linspace(1.0, 2.0, n)
    compared(f, python, (0.5, y), (0.9, y[::-1].copy()), (-0.1, 0.5 * y), argnums=(0, 1))
    assert not python


def decayed(rate, y0, ends=(0.0, 1.0), times=(0.3, 1.0), **options):
    found = solve_ivp(lambda t, y, k: t - k * y, ends, y0, t_eval=times, args=(rate,), **options)
    return weighted(found.y)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: decayed(a, [a, 2.0 * a, 1.0], first_step=0.01),
        lambda a: decayed(a, np.array([1, 2]), (1, -1), (0.5, 0.0, -1.0), vectorized=True),
        lambda a: decayed(a, [1.0, a], (a, 2.0), (2.0,), rtol=[1e-4, 1e-6]),
        lambda a: sum([decayed(k * a, [1.0, 2.0]) for k in range(1, 4)]),
        lambda a: decayed(1.0, [1.0 / a, decayed(a, [1.0, 2.0])]),
    ],
    ids=["state and rate", "backwards", "begin", "loop", "chain"],
)
def test_one_number_in_several_places(f, python):
    compared(f, python, (0.7,), (1.3,), far=1e-12)
    assert not python


def test_other_numbers_of_steps_are_of_other_programs(python):
    def f(p):
        return np.sum(solve_ivp(lambda t, y: -p * y, (0.0, 2.0), [1.0], **CLOSE).y[:, -1])

    c = tg.compile(f)
    for p in (1.0, 1.0, 1.0, 4.0, 1.0, 4.0, 4.0, 0.3):
        value, gradient = c.value_and_grad(p)
        assert_allclose([value, gradient], [np.exp(-2.0 * p), -2.0 * np.exp(-2.0 * p)], rtol=3e-3)
        assert_allclose(c(p), f(p), rtol=1e-12)
    python.clear()
    for p in (1.0, 4.0, 0.3):
        c.value_and_grad(p)
    assert not python


def test_ways_through_branches(python):
    def dosed(t, y, p):
        rate = p[0] if t < 0.4 else p[1]
        rate = rate * 2.0 if y[0] > 1.5 else rate
        return [rate - p[2] * y[0], y[0] - y[1]]

    def f(p):
        given = {"t_eval": [0.2, 0.5, 1.0], "args": (p,), **CLOSE}
        return weighted(solve_ivp(dosed, (0.0, 1.0), [1.0, 0.5], max_step=0.05, **given).y)

    low, high = np.array([0.3, 0.5, 0.8]), np.array([3.0, 0.5, 0.8])
    compared(f, python, (low,), (high,), (0.5 * high,), far=1e-12)
    compared(f, python, (low,), (high,), (low,), far=1e-12)
    assert not python


def test_what_compiled_code_leaves(python, monkeypatch):
    """The values are right all the same, with many steps, a state without bound, or none."""
    both, c = _of_growth()
    for p in (0.5, 0.9, 0.5):
        assert_allclose(c.value_and_grad(p), both(p), rtol=1e-12)
    for p in (1.5, np.nan):
        for f in (both, c.value_and_grad):
            with pytest.raises(ValueError, match="no success|must be finite"):
                f(p)
    assert_allclose(c.value_and_grad(0.5), both(0.5), rtol=1e-12)
    with monkeypatch.context() as context:
        context.setattr(_ode_native, "BOUND", 1 << 9)
        both, c = _of_growth(max_step=0.01)
        for p in (0.5, 0.9, 0.5):
            assert_allclose(c.value_and_grad(p), both(p), rtol=1e-12)
    python.clear()
    c.value_and_grad(0.5)
    assert python == ["value", "adjoints"]


def _of_growth(**options):
    def f(p):
        given = {"t_eval": [0.5, 1.0], **CLOSE, **options}
        found = solve_ivp(lambda t, y: p * y * y, (0.0, 1.0), [p / p], **given)
        if not found.success:
            raise ValueError("no success")
        return np.sum(found.y)

    return tg.value_and_grad(f), tg.compile(f)


def test_threads(python):
    def f(p):
        return weighted(solve_ivp(predator, (0.0, 3.0), Y, t_eval=[3.0], args=(p,), **CLOSE).y)

    c, both = tg.compile(f), tg.value_and_grad(f)
    points = [P * scale for scale in np.linspace(0.8, 1.2, 6)]
    wanted = [both(p) for p in points]
    for _ in range(3):
        c.value_and_grad(P)
    python.clear()
    found = {}

    def run(first):
        for k in [*range(first, 6), *range(first)] * 10:
            found[first, k] = c.value_and_grad(points[k])

    threads = [threading.Thread(target=run, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 24 and not python
    for (_, k), (value, gradient) in found.items():
        assert value == wanted[k][0]
        assert_allclose(gradient, wanted[k][1], rtol=1e-12)


RATE = 1.0


class Model:
    rate = 1.0


def test_what_is_read_from_outside_may_change(monkeypatch, python):
    model, held = Model(), [1.0]

    def f(p):
        def decay(t, y):
            return -p * RATE * model.rate * held[0] * y

        return solve_ivp(decay, (0.0, 1.0), [1.0], t_eval=[1.0], rtol=1e-8, atol=1e-10).y[0, 0]

    c = tg.compile(f)
    for k, (a, b, d) in enumerate([(1, 1, 1), (2, 1, 1), (2, 3, 1), (2, 3, 0.5), (1, 1, 1)]):
        monkeypatch.setitem(globals(), "RATE", float(a))
        monkeypatch.setattr(model, "rate", float(b))
        held[0] = float(d)
        for p in (0.5, 0.7):
            rate, wanted = a * b * d, np.exp(-p * a * b * d)
            assert_allclose(c.value_and_grad(p), [wanted, -rate * wanted], rtol=1e-6, err_msg=k)


def test_machine_code_of_the_right_hand_side_after_many_calls(monkeypatch, python):
    def decay(t, y, p):
        return [-p[0] * y[0] * y[1], -p[1] * y[1]]

    def f(p):
        return np.sum(solve_ivp(decay, (0.0, 3.0), Y, "DOP853", [3.0], args=(p,), **CLOSE).y)

    tables = []
    own = _ode_native_calls.NativeSolve.table

    def table(self, *given):
        tables.append(self)
        return own(self, *given)

    monkeypatch.setattr(_ode_native_calls.NativeSolve, "table", table)
    monkeypatch.setattr(_ode_right_side, "MANY_CALLS", 1000)
    c, wanted = tg.compile(f), tg.value_and_grad(f)(P)
    for _ in range(30):
        value, gradient = c.value_and_grad(P)
        assert_allclose(value, wanted[0], rtol=1e-13)
        assert_allclose(gradient, wanted[1], rtol=1e-12)
    assert [one.count("value") for one in (python, python[-1:])] == [2, 1]
    assert c.value_and_grad(P)[0] == value and len(python) == 2


def test_a_result_that_is_not_used_and_one_used_twice(python):
    def f(p):
        found = solve_ivp(predator, (0.0, 1.0), Y, t_eval=TIMES, args=(p,), **CLOSE).y
        unused = solve_ivp(predator, (0.0, 0.5), Y, t_eval=[0.5], args=(p,), **CLOSE)
        zero = 0.0 * np.sum(unused.y)
        return np.sum(found[0]) * np.max(found[1]) + p[0] + zero

    compared(f, python, (P,), (0.9 * P,))
    assert not python
