"""`scipy.integrate.solve_ivp` and `odeint` of recorded values."""

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import odeint, solve_ivp
from scipy.linalg import expm

import tapegrad as tg

METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")
COMPILED = METHODS[:4]
every_method = pytest.mark.parametrize("method", METHODS)
A = np.array([[-1.0, 0.5], [-0.3, -2.0]])
Y = np.array([1.0, 2.0])
#: The derivative of BDF and LSODA is that of the flow, to the tolerance.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def linear(A, y, t1, method, **options):
    return solve_ivp(lambda t, y: A @ y, (0.0, t1), y, method=method, **{**CLOSE, **options})


@every_method
def test_values_are_those_of_scipy(method):
    times = np.linspace(0.0, 2.0, 5)
    for options in ({}, {"t_eval": times}, {"dense_output": True}):
        wanted = linear(A, Y, 2.0, method, **options)
        is_compiled = method in COMPILED
        seen = []

        def f(A, y, options=options, seen=seen, wanted=wanted):
            rounding = {"rtol": 1e-10 if method in COMPILED else 0.0}
            found = linear(A, y, 2.0, method, **options)
            seen.append((found.success, found.status, found.message, found.nfev, found.njev))
            seen.append((np.asarray(tg.stop_gradient(found.t)), tg.stop_gradient(found.y)))
            if found.sol is not None:
                for t in (0.7, times):
                    assert_allclose(tg.stop_gradient(found.sol(t)), wanted.sol(t), **rounding)
                assert found.sol.t_max == 2.0
            return np.sum(found.y)

        tg.grad(f)(A, Y)
        told = (wanted.success, wanted.status, wanted.message, wanted.nfev, wanted.njev)
        assert seen[0] == told
        t, y = seen[1]
        if not is_compiled:
            assert_array_equal(t, wanted.t)
            assert_array_equal(y, wanted.y)
        elif "t_eval" in options:
            assert_allclose(y, wanted.y, rtol=1e-12, atol=1e-8)
        else:  # the lengths of steps differ in rounding, which errors magnify
            assert_allclose(t, wanted.t, rtol=1e-3)
            between = linear(A, Y, 2.0, method, dense_output=True).sol
            assert_allclose(y, between(t), rtol=1e-8, atol=1e-8)


@every_method
def test_first_derivatives_of_a_linear_system(method):
    w = np.array([1.0, -0.5])
    both = tg.grad(lambda A, y, t: w @ linear(A, y, t, method).y[:, -1], argnums=(0, 1, 2))
    wanted = tg.grad(lambda A, y: w @ expm(2.0 * A) @ y, argnums=(0, 1))(A, Y)
    found = both(A, Y, 2.0)
    for one, other in zip(found, (*wanted, w @ A @ expm(2.0 * A) @ Y), strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-8)


@every_method
def test_second_derivatives_of_growth(method):
    """y' = a y (1 − y) has the solution 1 / (1 + (1/y₀ − 1) exp(−a t))."""
    options = {"rtol": 1e-8, "atol": 1e-10, "t_eval": [0.6, 1.0]}

    def f(p):
        found = solve_ivp(lambda t, y: p[0] * y * (1.0 - y), (0.0, 1.0), p[1:], method, **options)
        return found.y[0, 0] * found.y[0, 1]

    def closed(p):
        first, last = (1.0 / (1.0 + (1.0 / p[1] - 1.0) * np.exp(-p[0] * t)) for t in (0.6, 1.0))
        return first * last

    p = np.array([1.5, 0.3])
    near = {"RK23": 1e-6}.get(method, 2e-6)
    assert_allclose(tg.grad(f)(p), tg.grad(closed)(p), rtol=near)
    assert_allclose(tg.hessian(f)(p), tg.hessian(closed)(p), rtol=1e-4, atol=1e-5)
    v = np.array([0.3, -1.0])
    assert_allclose(tg.jvp(f, (p,), (v,))[1], tg.grad(closed)(p) @ v, rtol=1e-5)


def test_third_derivatives():
    def f(a):
        return solve_ivp(lambda t, y: a * y, (0.0, 0.5), [1.0], rtol=1e-10, atol=1e-12).y[0, -1]

    third = tg.grad(tg.grad(tg.grad(f)))(0.7)
    assert_allclose(third, 0.125 * np.exp(0.35), rtol=1e-6)


def free_fall(t, y, g):
    return [y[1], -g]


def ground(t, y, g):
    return y[0]


def top(t, y, g):
    return y[1]


ground.terminal, ground.direction = True, -1


@every_method
def test_times_of_events(method):
    """A stone that is thrown up with speed v from a height h."""

    def f(p):
        h, v, g = p
        found = solve_ivp(
            free_fall, (0.0, 9.0), [h, v], method, events=[top, ground], args=(g,), **CLOSE
        )
        assert found.status == 1
        (t_top,), (t_ground,) = found.t_events
        return [t_top, found.y_events[0][0, 0], t_ground, found.y[1, -1], found.t[-1]]

    def closed(p):
        h, v, g = p
        speed = np.sqrt(v**2 + 2.0 * g * h)
        return [v / g, h + v**2 / (2.0 * g), (v + speed) / g, -speed, (v + speed) / g]

    p = np.array([2.0, 7.0, 9.81])
    found, wanted = (np.array(tg.jacobian(one)(p)) for one in (f, closed))
    assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    found, wanted = (tg.hessian(lambda p, one=one: np.sum(one(p)))(p) for one in (f, closed))
    assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_an_event_that_does_not_occur_has_no_times():
    def f(g):
        found = solve_ivp(free_fall, (0.0, 0.1), [2.0, 7.0], events=[top, ground], args=(g,))
        assert [len(one) for one in found.t_events] == [0, 0] and found.status == 0
        return found.y[1, -1]

    assert_allclose(tg.grad(f)(9.81), -0.1)


def test_an_event_without_slope_is_refused():
    def flat(t, y):
        return np.sign(tg.stop_gradient(t) - 0.5) + 0.0 * y[0]

    def f(a):
        found = solve_ivp(lambda t, y: a * y, (0.0, 1.0), [1.0], events=flat)
        return found.t_events[0][0]

    with pytest.raises(ValueError, match=r"event 0 at t = .* no simple root"):
        tg.grad(f)(1.0)


@every_method
@pytest.mark.parametrize("end", [1.5, -1.5])
def test_ends_of_the_interval_and_times(method, end):
    """y' = a y + t, whose solution from t₀ on is known."""

    def closed(t, t0, y0, a):
        return (y0 + t0 / a + 1 / a**2) * np.exp(a * (t - t0)) - t / a - 1 / a**2

    def f(p):
        a, y0, t0, t1, s = p
        f = lambda t, y: a * y + t
        every = solve_ivp(f, (t0, t1), [y0], method, **CLOSE)
        some = solve_ivp(f, [t0, t1], [y0], method, t_eval=[t0, s, t1], **CLOSE)
        dense = solve_ivp(f, (t0, t1), [y0], method, dense_output=True, **CLOSE)
        return [every.y[0, -1], every.t[-1], *some.y[0], some.t[1], dense.sol(s)[0]]

    def wanted(p):
        a, y0, t0, t1, s = p
        values = [closed(t, t0, y0, a) for t in (t1, t0, s, t1, s)]
        return [values[0], t1, *values[1:4], s, values[4]]

    p = np.array([0.7, 1.2, 0.1, end, 0.6 * end])
    found, other = (np.array(tg.jacobian(one)(p)) for one in (f, wanted))
    assert_allclose(found, other, rtol=3e-6, atol=3e-6)


def test_steps_move_with_the_begin_of_the_interval():
    """Without t_eval the times between have the distances that they have."""

    def f(t0):
        found = solve_ivp(lambda t, y: -t * y, (t0, 2.0), [1.0], rtol=1e-10, atol=1e-12)
        return found.t[1], found.y[0, 1]

    t, y = tg.jacobian(f)(0.5)
    at, value = f(0.5)
    assert_allclose(t, 1.0)
    assert_allclose(y, value * (0.5 - at), rtol=1e-6)


@pytest.mark.parametrize("tfirst", [False, True])
def test_odeint(tfirst):
    times = np.array([0.0, 0.4, 1.1])

    def f(A, y, t):
        g = (lambda t, y, A: A @ y) if tfirst else (lambda y, t, A: A @ y)
        found, told = odeint(g, y, t, args=(A,), tfirst=tfirst, full_output=True)
        assert told["message"] == "Integration successful."
        return found

    wanted = tg.jacobian(
        lambda A, y, t: np.stack([expm((s - t[0]) * A) @ y for s in t]), argnums=(0, 1, 2)
    )(A, Y, times)
    found = tg.jacobian(f, argnums=(0, 1, 2))(A, Y, times)
    for one, other in zip(found, wanted, strict=True):
        assert_allclose(one, other, rtol=1e-6, atol=2e-7)
    assert_array_equal(
        tg.value_and_grad(lambda A: f(A, Y, times)[2, 0])(A)[0], f(A, Y, times)[2, 0]
    )


def test_odeint_of_a_number():
    found = tg.grad(lambda a: odeint(lambda y, t: -a * y, 1.0, [0.0, 1.0])[-1, 0])(0.5)
    assert_allclose(found, -np.exp(-0.5), rtol=1e-6)


# --- arguments ------------------------------------------------------------------------------------


class Model:
    def __init__(self, rates):
        self.rates = {"fast": rates[0], "rest": [rates[1:]]}

    def __call__(self, t, y):
        slow = self.rates["rest"][0]
        return np.array([-self.rates["fast"] * y[0], self.rates["fast"] * y[0] - slow[0] * y[1]])


def test_values_in_objects_and_closures():
    def f(p):
        scale = p[2] * 1.0

        def inner(t, y):
            return scale * Model(p)(t, y)

        first = solve_ivp(Model(p), (0.0, 1.0), Y, **CLOSE).y[:, -1]
        return np.sum(first) + np.sum(solve_ivp(inner, (0.0, 1.0), first, **CLOSE).y[:, -1])

    def closed(p):
        M = np.array([[-p[0], 0.0], [p[0], -p[1]]])
        first = expm(M) @ Y
        return np.sum(first) + np.sum(expm(p[2] * M) @ first)

    p = np.array([1.3, 0.4, 0.8])
    assert_allclose(tg.grad(f)(p), tg.grad(closed)(p), rtol=1e-7)


@pytest.mark.parametrize(
    "options",
    [
        {"rtol": 1e-8, "atol": np.array([1e-10, 1e-9])},
        {"max_step": 0.05, **CLOSE},
        {"first_step": 0.01, **CLOSE},
        {"vectorized": True, **CLOSE},
        {"method": "Radau", "vectorized": True, **CLOSE},
        {"method": "Radau", "jac": "function", **CLOSE},
        {"method": "BDF", "jac": "matrix", **CLOSE},
        {"method": "BDF", "jac_sparsity": np.ones((2, 2)), **CLOSE},
        {"method": scipy.integrate.DOP853, **CLOSE},
        {"method": "LSODA", "lband": 1, "uband": 1, "min_step": 1e-12, **CLOSE},
    ],
    ids=str,
)
def test_options(options):
    def f(A):
        given = dict(options)
        if given.get("jac") == "function":
            given["jac"] = lambda t, y, A: A
        if given.get("jac") == "matrix":
            given["jac"] = A
        found = solve_ivp(lambda t, y, A: A @ y, (0, 1), Y, args=(A,), **given)
        return found.y[0, -1]

    found = tg.grad(f)(A)
    assert_allclose(found, tg.grad(lambda A: (expm(A) @ Y)[0])(A), rtol=1e-6, atol=1e-8)


def test_a_stiff_problem():
    """Robertson's: the total is constant, whatever the rates are."""

    def f(p, method, tolerance, s=1.0):
        def rates(t, y):
            a, b, c = p[0] * y[0], p[1] * y[1] * y[2], p[2] * y[1] ** 2
            return np.array([b - a, a - b - c, c])

        given = {"rtol": tolerance, "atol": 1e-4 * tolerance}
        return solve_ivp(rates, (0.0, 40.0), [s, 0.0, 0.0], method, **given).y[:, -1]

    p = np.array([0.04, 1e4, 3e7])
    for method in ("Radau", "BDF"):
        rows = tg.jacobian(lambda p, method=method: f(p, method, 1e-8))(p) * p
        assert_allclose(rows.sum(0), 0.0, atol=1e-12)
        for k in range(3):
            step = 1e-3 * p * (np.arange(3) == k)
            ends = [f(p + m * step, "LSODA", 1e-12) for m in (1, -1, 2, -2)]
            wanted = (8.0 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / 12e-3
            assert_allclose(rows[:, k], wanted, rtol=1e-6, atol=1e-9)


def test_many_steps_are_compiled_and_right():
    def f(p):
        g = lambda t, y: np.array([y[1], -p[0] * y[0] - p[1] * y[1]])
        times = np.linspace(0.0, 40.0, 50)
        found = solve_ivp(g, (0.0, 40.0), Y, "DOP853", rtol=1e-12, atol=1e-13, t_eval=times)
        return np.sum(found.y[0] ** 2)

    def closed(p):
        M = np.array([[0.0, 1.0], [-p[0], -p[1]]])
        return np.sum(np.stack([(expm(t * M) @ Y)[0] for t in np.linspace(0, 40.0, 50)]) ** 2)

    p = np.array([16.0, 0.05])
    assert_allclose(tg.grad(f)(p), tg.grad(closed)(p), rtol=1e-8)


def test_branches_of_the_right_hand_side():
    """It decays fast above 1, slowly below."""

    def f(p):
        def g(t, y):
            return -p[0] * y if y[0] > 1.0 else -p[1] * y

        return solve_ivp(g, (0.0, 2.0), [2.0], rtol=1e-10, atol=1e-12, max_step=1e-3).y[0, -1]

    def closed(p):  # ln y falls by ln 2 until it is 0
        return np.exp(-p[1] * (2.0 - np.log(2.0) / p[0]))

    p = np.array([1.0, 0.3])
    # the time of the switch is not that of an event: steps that go across are no exact solution
    with_event = tg.grad(closed)(p)
    assert_allclose(tg.grad(f)(p)[1], with_event[1], rtol=2e-2)


# --- programs -------------------------------------------------------------------------------------


@every_method
def test_programs_at_other_inputs(method):
    def f(p):
        given = {"method": method, "rtol": 1e-7, "atol": 1e-9, "t_eval": [0.5, 1.0]}
        found = solve_ivp(lambda t, y: [y[1], -p[0] * np.sin(y[0])], (0.0, 1.0), p[1:], **given)
        return np.sum(found.y[0]) + found.y[1, -1] ** 2

    compiled = tg.compile(f)
    for scale in (1.0, 1.7, 0.2, 3.0):
        p = scale * np.array([2.0, 0.3, 0.9])
        value, gradient = compiled.value_and_grad(p)
        assert_allclose(value, f(p), rtol=1e-13)
        assert_allclose(gradient, tg.grad(f)(p), rtol=1e-9)
        assert_allclose(compiled(p), f(p), rtol=1e-13)


def test_programs_with_other_numbers_of_steps_and_events():
    def event(t, y):
        return y[0]

    def f(p):
        g = lambda t, y: [y[1], -p[0] * y[0]]
        found = solve_ivp(g, (0.0, 3.0), [1.0, 0.0], events=event, dense_output=True, **CLOSE)
        total = np.sum(found.t_events[0]) + found.y[0, -1] + found.sol(1.0)[0]
        return total if found.success else 0.0

    compiled = tg.compile(f)
    for a in (1.0, 2.0, 30.0, 1.0, 2.5):
        p, w = np.array([a]), np.sqrt(a)
        zeros = (np.arange(20) + 0.5) * np.pi
        zeros = zeros[zeros < 3.0 * w]
        slope = -np.sum(zeros) / (2.0 * a * w) - np.sin(w) / (2 * w) - 3.0 * np.sin(3 * w) / (2 * w)
        value, (gradient,) = compiled.value_and_grad(p)
        assert_allclose(value, np.sum(zeros) / w + np.cos(3 * w) + np.cos(w), rtol=1e-6)
        assert_allclose(gradient, slope, rtol=1e-6)


def test_programs_of_hessians_and_of_odeint():
    def f(p):
        return odeint(lambda y, t: -p[0] * y**2, p[1], [0.0, 0.5, 1.0])[:, 0].sum()

    def closed(p):
        return sum(p[1] / (1.0 + p[0] * p[1] * t) for t in (0.0, 0.5, 1.0))

    compiled = tg.compile(f)
    for p in (np.array([0.8, 1.1]), np.array([1.3, 0.4])):
        assert_allclose(compiled.grad(p), tg.grad(closed)(p), rtol=1e-6)
        assert_allclose(compiled.hessian(p), tg.hessian(closed)(p), rtol=1e-5)


def test_solutions_in_a_loop_of_python():
    """The state at the end of each of several intervals is the begin of the next."""

    def f(a):
        y = np.array([1.0])
        for k in range(4):
            y = solve_ivp(lambda t, y: -a * (k + 1) * y, (k, k + 1), y, **CLOSE).y[:, -1]
        return y[0]

    assert_allclose(tg.grad(f)(0.1), -10.0 * np.exp(-1.0), rtol=1e-7)
    compiled = tg.compile(f)
    for a in (0.1, 0.2, 0.4):
        assert_allclose(compiled.grad(a), -10.0 * np.exp(-10.0 * a), rtol=1e-7)


# --- kinds of values, sizes, refusals -------------------------------------------------------------


@every_method
def test_single_precision_and_lists(method):
    def f(a, y):
        return solve_ivp(lambda t, y: a * y, (0, 1), [y, 2.0 * y], method).y[1, -1]

    a, y = np.float32(0.5), np.float32(1.5)
    found = tg.grad(lambda x: f(x[0], x[1]))(np.array([a, y]))
    assert found.dtype == np.float32
    assert_allclose(found, [3.0 * np.exp(0.5), 2.0 * np.exp(0.5)], rtol=5e-3)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau"])
def test_sizes(method):
    def total(f, y, end=1.0, start=0.0):
        return np.sum(solve_ivp(f, (start, end), y, method, **CLOSE).y[:, -1])

    for size in (1, 60):
        d, y = np.linspace(0.1, 1.0, size), np.ones(size)
        found = tg.grad(lambda d, y=y: total(lambda t, y: -d * y, y))(d)
        assert_allclose(found, -np.exp(-d), rtol=1e-6)
    assert tg.grad(lambda y: total(lambda t, y: y, y))(np.zeros(0)).shape == (0,)
    assert_allclose(tg.grad(lambda y: total(lambda t, y: y, y, 1.0, 1.0))(Y), 1.0)


def test_a_failure_is_told_as_scipy_does():
    def f(a):
        with np.errstate(all="ignore"):
            found = solve_ivp(lambda t, y: a * y**2, (0.0, 2.0), [1.0])
        assert (found.status, found.success) == (-1, False)
        assert "step size" in found.message
        return found.y[0, 5]

    assert np.isfinite(tg.grad(f)(1.0))


def test_refusals():
    g = lambda t, y: -y
    for name in ("rtol", "atol", "first_step", "max_step"):
        with pytest.raises(TypeError, match=f"{name} is a recorded value"):
            tg.grad(lambda a, name=name: solve_ivp(g, (0.0, 1.0), [1.0], **{name: a}).y[0, -1])(0.1)
    with pytest.raises(TypeError, match="is complex"):
        tg.grad(lambda a: solve_ivp(lambda t, y: a * y, (0.0, 1.0), [1j]).y[0, -1].real)(0.1)

    class Own(scipy.integrate.RK45):
        pass

    with pytest.raises(TypeError, match="choose one by its name"):
        tg.grad(lambda a: solve_ivp(lambda t, y: a * y, (0.0, 1.0), [1.0], Own).y[0, -1])(0.1)
    with pytest.raises(ValueError, match="interval has no length"):
        tg.grad(lambda t: solve_ivp(g, (t, t), [1.0]).y[0, -1])(0.1)


def test_data_that_change_are_noticed():
    data = np.array([-1.0])

    def f(a, method="Radau"):
        given = {"method": method, "events": [] if method == "Radau" else None}
        found = solve_ivp(lambda t, y: a * data * y, (0.0, 1.0), [1.0], **given).y[0, -1]
        data[0] = -2.0
        return found

    with pytest.raises(RuntimeError, match="data that the functions read have changed"):
        tg.grad(f)(1.0)
    data[0] = -1.0  # which compiled code has copied
    assert_allclose(tg.grad(f)(1.0, "RK45"), -np.exp(-1.0), rtol=1e-2)


class Rate:
    value = 0.0


def test_values_that_are_not_found_are_refused(monkeypatch):
    monkeypatch.setattr(Rate, "value", 0.0)

    def f(p):
        Rate.value = p[0]
        return solve_ivp(lambda t, y: -Rate.value * y, (0.0, 1.0), p[1:]).y[0, -1]

    p = np.array([0.5, 0.8])
    with pytest.raises(TypeError, match="depends on a recorded value that is neither"):
        tg.grad(f)(p)
    with pytest.warns(RuntimeWarning, match="depends on a recorded value that is neither"):
        with pytest.raises(TypeError, match="depends on a recorded value that is neither"):
            tg.compile(f).value_and_grad(p)


def test_a_solution_is_read_by_another_right_hand_side():
    def f(a):
        given = {"dense_output": True, **CLOSE}
        first = solve_ivp(lambda t, y: -a * y, (0.0, 1.0), [1.0], **given).sol
        return solve_ivp(lambda t, y: first(t) - y, (0.0, 1.0), [0.0], **CLOSE).y[0, -1]

    closed = lambda a: (np.exp(-a) - np.exp(-1.0)) / (1.0 - a)
    assert_allclose(tg.grad(f)(0.5), tg.grad(closed)(0.5), rtol=1e-6)


def test_a_right_hand_side_that_solves_an_equation():
    def f(p):
        def rate(t, y):
            return [-scipy.optimize.brentq(lambda z: z**3 + z - p[0] * y[0], -9.0, 9.0)]

        return solve_ivp(rate, (0.0, 1.0), p[1:], **CLOSE).y[0, -1]

    p, step = np.array([0.5, 0.8]), 1e-4 * np.eye(2)
    wanted = [(f(p + one) - f(p - one)) / 2e-4 for one in step]
    assert_allclose(tg.grad(f)(p), wanted, rtol=1e-7)


@pytest.mark.parametrize("method", ["DOP853", "Radau"])
def test_second_derivatives_by_many_steps(method):
    """They are computed by compiled functions of a step, as first ones."""
    times = np.linspace(0.1, 2.5, 11)

    def f(p):
        given = {"method": method, "rtol": 1e-8, "atol": 1e-9, "max_step": 0.05, "t_eval": times}
        found = solve_ivp(
            lambda t, y: [y[1], -p[0] * y[0] - p[1] * t], (0.0, p[2]), [1, 0], **given
        )
        return np.sum(found.y[0] ** 2) + solve_end(p)

    def solve_end(p):
        given = {"method": method, "rtol": 1e-8, "atol": 1e-9, "max_step": 0.05}
        return solve_ivp(lambda t, y: [p[0] * np.cos(p[1] * t)], (p[1], p[2]), [0.5], **given).y[
            0, -1
        ]

    def closed(p):
        w = np.sqrt(p[0])
        x = np.cos(w * times) - p[1] / p[0] * (times - np.sin(w * times) / w)
        return np.sum(x**2) + 0.5 + p[0] / p[1] * (np.sin(p[1] * p[2]) - np.sin(p[1] ** 2))

    p = np.array([2.0, 0.3, 2.5])
    assert_allclose(tg.grad(f)(p), tg.grad(closed)(p), rtol=1e-6, atol=1e-7)
    assert_allclose(tg.hessian(f)(p), tg.hessian(closed)(p), rtol=1e-4, atol=1e-5)


def circle(a, method="RK45", **options):
    """cos(a t), which is 0.2 for the second time at (2 π − arccos 0.2) / a."""
    return solve_ivp(lambda t, y: [a * y[1], -a * y[0]], (0.0, 20.0), [1.0, 0.0], method, **options)


def second_time(t, y):
    return y[0] - 0.2


second_time.terminal = 2


@every_method
def test_an_event_that_ends_the_solution_at_its_second_time(method):
    a = 0.7
    slope = -(2.0 * np.pi - np.arccos(0.2)) / a**2

    def f(a, **options):
        return circle(a, method, events=second_time, **CLOSE, **options)

    def total(a):
        found = f(a, dense_output=True)
        return found.t[-1] + found.sol(2.0)[0]

    def at_times(a):
        found = f(a, t_eval=[1.0, 2.0, 15.0])
        assert found.t.shape == (2,) and found.y.shape == (2, 2)
        return found.y[0, 1]

    assert_allclose(tg.grad(total)(a), slope - 2.0 * np.sin(2.0 * a), rtol=1e-6)
    assert_allclose(tg.grad(at_times)(a), -2.0 * np.sin(2.0 * a), rtol=1e-6)


class Decay:
    def __init__(self, a):
        self.a = a

    def rate(self, t, y):
        return -self.a * y

    def below(self, t, y):
        return y[0] - self.a


def test_bound_methods_eager_and_compiled():
    def f(a):
        model = Decay(a)
        return solve_ivp(model.rate, (0, 3), [1.0], events=model.below, **CLOSE).t_events[0][0]

    compiled = tg.compile(f)
    for a in (0.7, 0.6, 0.8):
        for gradient in (tg.grad(f)(a), compiled.grad(a)):
            assert_allclose(gradient, (np.log(a) - 1.0) / a**2, rtol=1e-6)


def test_a_loop_in_a_program():
    def f(a):
        total = 0.0
        for k in range(3):
            model = Decay(a * (k + 1))
            total += solve_ivp(model.rate, (0, 1), [1.0], t_eval=[0.5, 1.0], **CLOSE).y.sum()
        return total

    def closed(a):
        return sum(np.exp(-0.5 * a * k) + np.exp(-a * k) for k in (1, 2, 3))

    compiled = tg.compile(f)
    for a in (0.3, 0.5, 1.0):
        assert_allclose(compiled.grad(a), tg.grad(closed)(a), rtol=1e-7)


def test_arguments_that_scipy_refuses():
    for options, message in [
        ({"method": "none"}, "`method` must be one of"),
        ({"t_eval": [2.0]}, "not within `t_span`"),
        ({"max_step": -1.0}, "must be positive"),
    ]:
        with pytest.raises(ValueError, match=message):
            tg.grad(lambda a, o=options: solve_ivp(Decay(a).rate, (0, 1), [1.0], **o).y[0, -1])(1.0)


def test_no_events_and_no_times():
    def f(a):
        found = solve_ivp(Decay(a).rate, (0, 1), [1.0], events=[], **CLOSE)
        assert found.t_events == [] and found.y_events == []
        return found.y[0, -1]

    assert_allclose(tg.grad(f)(0.5), -np.exp(-0.5), rtol=1e-7)


def test_a_vector_map():
    def f(a):
        return solve_ivp(Decay(a).rate, (0, 1), [1.0], **CLOSE).y[0, -1]

    a = np.array([0.2, 0.5, 0.8])
    assert_allclose(tg.vmap(f)(a), np.exp(-a), rtol=1e-8)
    assert_allclose(tg.vmap(tg.grad(f))(a), -np.exp(-a), rtol=1e-7)


def test_programs_solve_anew_when_data_have_changed():
    rate = np.array([1.0])

    def f(a):
        given = {"max_step": 0.005, "t_eval": [1.0]}
        return solve_ivp(lambda t, y: -a * rate * y, (0.0, 1.0), [1.0], **given).y[0, 0]

    compiled = tg.compile(f)
    for _ in range(4):
        assert_allclose(compiled.value_and_grad(0.5), [np.exp(-0.5), -np.exp(-0.5)], rtol=1e-6)
    rate[0] = 2.0
    for _ in range(2):
        assert_allclose(compiled(0.5), np.exp(-1.0), rtol=1e-6)
        assert_allclose(compiled.value_and_grad(0.5), [np.exp(-1.0), -2 * np.exp(-1.0)], rtol=1e-6)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF"])
def test_tangents_of_results_and_of_adjoints(method):
    """Of y' = -p0 p1 y: a compiled Jacobian takes tangents, and hvp those of adjoints."""

    def f(p):
        given = {"method": method, "rtol": 1e-9, "atol": 1e-10}
        return solve_ivp(lambda t, y: -p[0] * p[1] * y, (0.0, 1.0), [1.0, 2.0], **given).y[:, -1]

    c, far = tg.compile(f), 1e-7 if method != "BDF" else 1e-6
    total, v = tg.compile(lambda p: np.sum(f(p))), np.array([0.3, -0.7])
    for k in range(2):
        a, b = p = np.array([0.5, 0.8]) + 0.1 * k
        y = np.array([1.0, 2.0]) * np.exp(-a * b)
        expected = -np.outer(y, [b, a])
        for jacobian in (c.jacobian, tg.jacobian(f)):
            np.testing.assert_allclose(jacobian(p), expected, rtol=0, atol=far)
        _, moved = tg.jvp(f, (p,), (v,))
        np.testing.assert_allclose(moved, expected @ v, rtol=0, atol=far)
        hessian = np.sum(y) * np.array([[b * b, a * b - 1], [a * b - 1, a * a]])
        for product in (tg.hvp(total)(p, v), total.hvp(p, v)):
            np.testing.assert_allclose(product, hessian @ v, rtol=0, atol=10 * far)


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "Radau", "LSODA"])
def test_shorter_steps_give_the_derivative_by_a_coefficient_that_is_0(method):
    def f(a, **given):
        rise = lambda t, y: 1.0 + a * np.cos(2.0 * t)  # noqa: E731
        return solve_ivp(rise, (0.0, 10.0), [1.0], method, **given).y[0, -1]

    exact = np.sin(20.0) / 2.0
    assert abs(tg.grad(f)(0.0) - exact) > 0.1  # as the documentation has it
    assert_allclose(tg.grad(lambda a: f(a, max_step=0.1))(0.0), exact, rtol=1e-3)
