"""Initial value problems that compiled code solves, beside SciPy and steps repeated in Python."""

import functools
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.integrate
from numpy.testing import assert_allclose, assert_array_equal

import tapegrad as tg
from tapegrad.scipy import _ode_flow, _ode_native, _ode_right_side
from tapegrad.scipy._ode_second import Tangents
from tapegrad.scipy.integrate import solve_ivp

EXPLICIT = ("RK23", "RK45", "DOP853")
every_method = pytest.mark.parametrize("method", (*EXPLICIT, "Radau"))
P = np.array([1.5, 0.8, 0.7, 2.0])
Y = np.array([2.0, 1.0])
TIGHT = {"rtol": 1e-6, "atol": 1e-9}


def predator(t, y, p):
    hare, lynx = y
    swing = 1.0 + 0.1 * np.sin(3.0 * t)
    return [p[0] * swing * hare - p[1] * hare * lynx, p[2] * hare * lynx - p[3] * lynx]


@pytest.fixture
def solved(monkeypatch):
    """The solutions by kernels, in a list; None for a call that is left to SciPy."""
    found = []
    own = _ode_flow.solution_of

    def solution_of(*args):
        found.append(own(*args))
        return found[-1]

    monkeypatch.setattr(_ode_flow, "solution_of", solution_of)
    return found


def total(p, y0, ends, times=None, method="RK45", **options):
    """A number that depends on all results."""
    given = {**TIGHT, "args": (p,), "t_eval": times, "method": method, **options}
    found = solve_ivp(predator, ends, y0, **given)
    states = found.y if times is not None else found.y[:, -1]
    return np.sum(states * states) + np.sum(found.t[-1:] ** 2)


@every_method
@pytest.mark.parametrize("end", (2.0, -0.7))
def test_results_are_those_of_scipy(method, end, solved):
    times = np.linspace(0.0, end, 6)
    for asked in (None, times, times[2:4]):
        told: list = []
        wanted = scipy.integrate.solve_ivp(
            predator, (0.0, end), Y, method, asked, args=(P,), **TIGHT
        )

        def f(p, asked=asked, told=told):
            found = solve_ivp(predator, (0.0, end), Y, method, asked, args=(p,), **TIGHT)
            told.append({k: v for k, v in found.items() if k not in ("t", "y")})
            told.append((np.asarray(tg.stop_gradient(found.t)), tg.stop_gradient(found.y)))
            return np.sum(found.y)

        tg.grad(f)(P)
        assert told[0] == {k: v for k, v in wanted.items() if k not in ("t", "y")}
        assert_allclose(told[1][0], wanted.t, rtol=1e-7, atol=1e-7)
        assert_allclose(told[1][1], wanted.y, rtol=1e-7)
        if asked is not None:
            assert_array_equal(told[1][0], wanted.t)
            assert_allclose(told[1][1], wanted.y, rtol=1e-9)
    assert len(solved) == 3 and None not in solved


@every_method
def test_adjoints_and_tangents_are_those_of_the_steps(method, monkeypatch):
    """They are compared with those of the same steps, repeated in Python."""
    pulled, pushed = _ode_flow.Plan._pulled_by_kernels, _ode_flow.Plan._pushed_by_kernels
    compared = []

    def pulled_twice(plan, own, gradients, inputs):
        found, plan.record.own = pulled(plan, own, gradients, inputs), None
        wanted, plan.record.own = plan.pulled(gradients, inputs), own
        size = max(np.abs(one).max() for one in wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_allclose(one, other, rtol=1e-11, atol=1e-12 * size)
        compared.append("adjoints")
        return found

    def pushed_twice(plan, own, begun, moves):
        found = pushed(plan, own, begun, moves)
        tangents = Tangents(plan, plan.values, [*map(np.asarray, begun)], moves)
        wanted = plan.assembled(*tangents.pushed())
        for one, other in zip(found, wanted, strict=True):
            assert_allclose(one, other, rtol=1e-10, atol=1e-12)
        compared.append("tangents")
        return found

    monkeypatch.setattr(_ode_flow.Plan, "_pulled_by_kernels", pulled_twice)
    monkeypatch.setattr(_ode_flow.Plan, "_pushed_by_kernels", pushed_twice)
    times = np.array([0.1, 0.2, 0.9])
    for asked in (None, times, -times):
        end = -1.0 if asked is not None and asked[0] < 0 else 1.0

        def f(p, y0, t0, t1, *asked):
            return total(p, y0, (t0, t1), asked[0] if asked else None, method)

        at = (P, Y, 0.0, end) if asked is None else (P, Y, 0.0, end, asked)
        moves = tuple(0.3 + 0.1 * np.asarray(one) for one in at)
        gradient = tg.grad(f, argnums=tuple(range(len(at))))(*at)
        _, change = tg.jvp(f, at, moves)
        pairs = zip(gradient, moves, strict=True)
        assert_allclose(change, sum(np.sum(one * move) for one, move in pairs), rtol=1e-9)
        tg.grad(lambda p, asked=asked, end=end: total(p, Y, (0.0, end), asked, method))(P)
    tg.grad(lambda asked: total(P, Y, (0.0, 1.0), asked, method))(times)
    assert compared == [*["adjoints", "tangents", "adjoints"] * 3, "adjoints"]


@pytest.mark.parametrize("method", EXPLICIT)
def test_a_gradient_by_complex_steps(method, solved):
    """SciPy's explicit methods solve for complex states; steps are those of a list of lengths."""

    def f(p, y0):
        given = {"method": method, "first_step": 0.05, "max_step": 0.05, "rtol": 1e-1}
        found = solve_ivp(predator, (0.0, 1.0), y0, args=(p,), **given)
        return found.y[0, -1] * found.y[1, -1]

    gradient = tg.grad(f)(P, Y)
    assert solved[0].count in (20, 21)
    for k in range(4):
        p = P.astype(complex)
        p[k] += 1e-30j
        assert_allclose(gradient[k], f(p, Y.astype(complex)).imag / 1e-30, rtol=1e-11)


def test_fewer_begins_of_steps_than_steps(monkeypatch, solved):
    """Steps between those that are kept are taken again, with equal results."""

    def f(p, y0, times):
        return total(p, y0, (0.0, 20.0), times, "RK23")

    both = tg.value_and_grad(f, argnums=(0, 1))
    along = lambda times: tg.jvp(lambda p: f(p, Y, times), (P,), (P,))
    for times in (None, np.linspace(0.0, 20.0, 9)):
        wanted, (_, change) = both(P, Y, times), along(times)
        monkeypatch.setattr(_ode_native, "BOUND", 1 << 10)
        found = both(P, Y, times)
        assert solved[-1].count > 500 and solved[-1].stride == 16
        assert found[0] == wanted[0]
        for one, other in zip(found[1], wanted[1], strict=True):
            assert_array_equal(one, other)
        assert along(times)[1] == change
        steps = solved[-1].steps()
        monkeypatch.setattr(_ode_native, "BOUND", 1 << 20)
        both(P, Y, times)
        assert solved[-1].stride == 1
        assert_array_equal(steps[0], solved[-1].steps()[0])
        assert_array_equal(steps[1][0], solved[-1].steps()[1][0])


def test_results_of_many_steps_are_in_memory_once(solved):
    def f(a, end):
        given = {"method": "RK23", "max_step": 1e-3, "rtol": 1e-2, "atol": 1.0}
        return solve_ivp(lambda t, y: -a * y, (0.0, end), np.ones(8), **given).y[0, -1]

    tg.grad(f)(0.1, 0.1)
    tracemalloc.start()
    try:
        assert_allclose(tg.grad(f)(0.1, 100.0), -100.0 * np.exp(-10.0), rtol=1e-6)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    needed = solved[-1].count * (1 + 8 + 8) * 8  # times, states and their adjoints
    assert 1e5 <= solved[-1].count and needed < peak < needed + 5e6


def test_a_stiff_problem_takes_scipys_steps(solved):
    def reaction(t, y, k):
        slow, back, fast = k[0] * y[0], k[1] * y[1] * y[2], k[2] * y[1] ** 2
        return [back - slow, slow - back - fast, fast]

    def f(k):
        given = {"method": "Radau", "rtol": 1e-7, "atol": 1e-11, "args": (k,)}
        found = solve_ivp(reaction, (0.0, 40.0), [1.0, 0.0, 0.0], **given)
        told.append(tg.stop_gradient(found.y))
        return found

    told: list = []
    k = np.array([0.04, 1e4, 3e7])
    wanted = f(k)
    told.clear()
    gradient = tg.grad(lambda k: f(k).y[0, -1])(k)
    assert solved[0].counts == {name: wanted[name] for name in ("nfev", "njev", "nlu")}
    assert_allclose(told[0], wanted.y, rtol=1e-6, atol=1e-12)
    for n in range(3):
        h = 1e-4 * k[n] * np.eye(3)[n]
        difference = (f(k + h).y[0, -1] - f(k - h).y[0, -1]) / (2.0 * h[n])
        assert_allclose(gradient[n], difference, rtol=1e-3)


def test_calls_alike_share_a_right_hand_side(solved):
    made = []

    def f(a, rate, data):
        found = solve_ivp(lambda t, y: a * data * y + rate, (0.0, 1.0), [1.0, 2.0], **TIGHT)
        return np.sum(found.y[:, -1])

    for rate, data in ((0.0, Y), (0.5, 2.0 * Y), (0.5, Y)):
        gradient = tg.grad(f)(-0.7, rate, data)
        made += solved[-1]._of[1]
        h = 1e-5
        difference = (f(-0.7 + h, rate, data) - f(-0.7 - h, rate, data)) / (2.0 * h)
        assert_allclose(gradient, difference, rtol=1e-6)
    assert len(made) == 3 and made[0] is made[1] is made[2]


RATE = 1.0


def test_a_global_that_changes_is_read_anew(monkeypatch, solved):
    def f(a):
        return solve_ivp(lambda t, y: -a * RATE * y, (0.0, 1.0), [1.0], **TIGHT).y[0, -1]

    for rate in (1.0, 2.0, 1.0):
        monkeypatch.setitem(globals(), "RATE", rate)
        assert_allclose(tg.grad(f)(0.5), -rate * np.exp(-0.5 * rate), rtol=1e-4)
    assert None not in solved


def test_a_right_hand_side_that_programs_call_python_for(solved):
    def halved(t, y, a):
        return [a * y[0] / (2.0 if tg.stop_gradient(y[0]).item() > 0.0 else 1.0)]

    def g(a):
        return solve_ivp(halved, (0.0, 1.0), [1.0], "RK45", args=(a,), **TIGHT).y[0, -1]

    assert_allclose(tg.grad(g)(-0.5), 0.5 * np.exp(-0.25), rtol=1e-4)


def test_options_that_are_left_to_scipy(solved):
    def f(p, **options):
        return np.sum(solve_ivp(predator, (0.0, 0.5), Y, args=(p,), **options).y[:, -1])

    for options in (
        {"method": "BDF"},
        {"events": lambda t, y, p: y[0] - 9.0},
        {"method": "Radau", "jac": lambda t, y, p: np.eye(2)},
        {"t_eval": [0, 0.5]},
    ):
        tg.grad(lambda p, options=options: f(p, **options))(P)
    assert solved[:-1] == [None] * 3 and solved[-1] is not None
    with pytest.raises(ValueError, match="Values in `t_eval` are not within"):
        tg.grad(lambda p: f(p, t_eval=[0.0, 0.7]))(P)
    with pytest.raises(ValueError, match="`max_step` must be positive"):
        tg.grad(lambda p: f(p, max_step=-1.0))(P)
    with pytest.warns(UserWarning, match="At least one element of `rtol` is too small"):
        tg.grad(lambda p: f(p, rtol=1e-15))(P)


def test_failures_are_told_as_scipy_does(solved):
    def f(a):
        found = solve_ivp(lambda t, y: a * y * y, (0.0, 2.0), [1.0], max_step=0.1)
        told.append((found.success, found.status, found.message))
        return found.y[0, 0]

    told = []
    tg.grad(f)(1.0)
    wanted = scipy.integrate.solve_ivp(lambda t, y: y * y, (0.0, 2.0), [1.0], max_step=0.1)
    assert told == [(wanted.success, wanted.status, wanted.message)]
    assert solved == [None] and wanted.status == -1

    def unable(t, y, a):
        raise ArithmeticError("no slope")

    with pytest.raises(ArithmeticError, match="no slope"):
        tg.grad(lambda a: solve_ivp(unable, (0.0, 1.0), [1.0], args=(a,)).y[0, -1])(1.0)


def test_an_interval_without_length():
    gradient = tg.grad(lambda y0: np.sum(solve_ivp(predator, (1.0, 1.0), y0, args=(P,)).y))(Y)
    assert_array_equal(gradient, [2.0, 2.0])


def test_compiled_functions_in_threads(solved):
    compiled = tg.compile(lambda p: total(p, Y, (0.0, 3.0)))
    points = [P * scale for scale in np.linspace(0.8, 1.2, 6)]
    wanted = [tg.value_and_grad(lambda p: total(p, Y, (0.0, 3.0)))(p) for p in points]
    compiled.value_and_grad(P)
    found = {}

    def run(first):
        for k in [*range(first, 6), *range(first)]:
            found[first, k] = compiled.value_and_grad(points[k])

    threads = [threading.Thread(target=run, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in solved
    for (_, k), (value, gradient) in found.items():
        assert_allclose(value, wanted[k][0], rtol=1e-12)
        assert_allclose(gradient, wanted[k][1], rtol=1e-10)


@every_method
def test_ways_through_branches(method, solved):
    """Each has a program of its own, which is made where a solution goes it first."""

    def dosed(t, y, p):
        rate = p[0] if t < 0.4 else p[1]
        rate = rate * 2.0 if y[0] > 1.5 else rate
        return [rate - p[2] * y[0], y[0] - y[1]]

    def f(p):
        given = {"method": method, "t_eval": [0.2, 0.5, 1.0], "args": (p,), **TIGHT}
        return np.sum(solve_ivp(dosed, (0.0, 1.0), [1.0, 0.5], max_step=0.05, **given).y)

    p = np.array([3.0, 0.5, 0.8])
    both, compiled = tg.value_and_grad(f), tg.compile(f)
    value, gradient = both(p)
    assert_allclose(value, f(p), rtol=1e-6)
    assert solved[0] is not None and len(solved[0]._of[1]) > 2
    for _ in range(3):
        again = compiled.value_and_grad(p)
        assert_allclose(again[0], value, rtol=1e-12)
        assert_allclose(again[1], gradient, rtol=1e-9)
    for k in range(3):
        change = np.eye(3)[k]
        assert_allclose(tg.jvp(f, (p,), (change,))[1], gradient[k], rtol=1e-9)
    assert None not in solved


@every_method
@pytest.mark.parametrize("end", (1.5, -0.8))
def test_solutions_as_functions_of_time(method, end, solved, monkeypatch):
    at = end * np.array([0.9, 0.0, 0.3, 1.0, 0.31])

    def f(p, y0, t1, at, asked=None):
        given = {"t_eval": asked, "args": (p,), "dense_output": True, "method": method, **TIGHT}
        found = solve_ivp(predator, (0.0, t1), y0, **given)
        told.append((found.nfev, tg.stop_gradient(found.sol(at))))
        return np.sum(found.sol(at) ** 2) + np.sum(found.sol(0.4 * end))

    told = []
    for asked in (None, np.array([0.1, 0.2]) * end):
        given = {"t_eval": asked, "args": (P,), "dense_output": True, "method": method, **TIGHT}
        wanted = scipy.integrate.solve_ivp(predator, (0.0, end), Y, **given)
        both = tg.value_and_grad(functools.partial(f, asked=asked), argnums=(0, 1, 2, 3))
        value, gradient = both(P, Y, end, at)
        assert told[-1][0] == wanted.nfev
        assert_allclose(told[-1][1], wanted.sol(at), rtol=1e-8)
        with monkeypatch.context() as context:
            context.setattr(_ode_native.KernelSolution, "is_current", lambda _: False)
            repeated = both(P, Y, end, at)  # steps are repeated in Python
        assert_allclose(value, repeated[0], rtol=1e-13)
        for one, other in zip(gradient, repeated[1], strict=True):
            assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    assert None not in solved


def test_more_steps_than_rows_with_an_interpolant(monkeypatch, solved):
    def f(p):
        given = {"args": (p,), "dense_output": True, **TIGHT}
        return np.sum(solve_ivp(predator, (0.0, 20.0), Y, **given).sol(np.array([3.0, 17.0])))

    wanted = tg.value_and_grad(f)(P)
    monkeypatch.setattr(_ode_native, "BOUND", 1 << 10)
    found = tg.value_and_grad(f)(P)
    assert solved[-1].count > 100 and len(solved[-1].rows) == solved[-1].count
    assert found[0] == wanted[0]
    assert_array_equal(found[1], wanted[1])


def test_machine_code_after_many_calls(monkeypatch, solved):
    def decay(t, y, p):
        return [-p[0] * y[0] * y[1], -p[1] * y[1]]

    def f(p):
        return np.sum(solve_ivp(decay, (0.0, 3.0), Y, "DOP853", args=(p,), **TIGHT).y[:, -1])

    monkeypatch.setattr(_ode_right_side, "MANY_CALLS", 10)
    wanted, found = tg.value_and_grad(f)(P), tg.value_and_grad(f)(P)
    assert [one._of[1][0].program.native for one in solved] == [False, True]
    assert found[0] == wanted[0]
    assert_allclose(found[1], wanted[1], rtol=1e-13)
