"""Models that call solvers and integrators, with plain imports: in all ways, beside differences."""

import sys
import types

import numpy as np
import pytest
from extent import ALL_TESTS, some
from random_branches import SOLVED
from scipy import integrate, optimize
from scipy.optimize import linprog, minimize, newton
from source_rules import ROOT

import tapegrad as tg


def _loaded():
    path, module = ROOT / "tests/programs/scipy_solvers.py", types.ModuleType("scipy_solvers")
    sys.modules[module.__name__] = module  # where dataclasses look
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


MODELS = _loaded()
PROGRAMS = {
    name: (getattr(MODELS, name), [np.array(point, float) for point in points])
    for name, points in MODELS.POINTS.items()
}
#: Those that take little time: they are tested at all points, and their second derivatives, too.
SHORT = (
    *("smile", "pumping", "binding", "kepler", "every_method", "market", "depot", "shares"),
    *("quiet_rotor", "bounded_fit", "diet", "unmixing", "fixed_points"),
)
#: Those that take long, and whose parts others have.
LONG = {"epidemic", "design", "robertson"} if not ALL_TESTS else set()
#: Of which the value has fewer digits, as those of a fit: how many steps are taken depends on some.
ROUGH = {"bootstrap": 1e-7, "epidemic": 1e-7}


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


def slopes(f, x):
    """A gradient by differences of sixth order."""
    found = []
    for k in range(len(x)):
        h = 4e-3 * np.eye(len(x))[k]
        first, second, third = [f(x + m * h) - f(x - m * h) for m in (1, 2, 3)]
        found.append((45.0 * first - 9.0 * second + third) / (60.0 * h[k]))
    return np.array(found)


def close(found, wanted, tolerance: float = 5e-7):
    scale = max(1.0, np.max(np.abs(wanted)))
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=tolerance * scale)


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0:UserWarning")
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in LONG])
def test_program(name):
    """Eager, compiled at inputs that take other branches, forward mode; plain values judge."""
    f, points = PROGRAMS[name]
    is_whole = name in SHORT or ALL_TESTS
    points = points if is_whole else some(points, name)
    judge, digits = MODELS.BY_HAND.get(name, f), ROUGH.get(name, 1e-12)
    wanted = [(float(f(x)), slopes(judge, x)) for x in points]
    gradient, compiled = tg.value_and_grad(f), tg.compile(f, native=False)
    calls = [(gradient, k) for k in (range(len(points)) if is_whole else (1,))]
    for way, k in [*calls, *[(compiled, k) for k in (0, 0, 1, len(points) - 1, 0)]]:
        value, found = (way if way is gradient else way.value_and_grad)(points[k])
        assert value == pytest.approx(wanted[k][0], rel=digits, abs=0.1 * digits)
        close(found, wanted[k][1])
    if is_whole:
        along = np.cos(np.arange(len(points[0])))
        close(tg.jvp(f, (points[1],), (along,))[1], wanted[1][1] @ along)
    assert [float(f(x)) for x in points] == [value for value, _ in wanted]


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
@pytest.mark.parametrize("name", some(SHORT, 1, 6))
def test_second_derivatives(name):
    f, points = PROGRAMS[name]
    x, gradient = points[1], tg.grad(f)
    hessian = tg.hessian(f)(x)
    for k in some(range(len(x)), name, 1):
        close(hessian[k], slopes(lambda x, k=k: gradient(x)[k], x), 2e-6)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-11)
    compiled = tg.compile(f, native=False)
    compiled.grad(points[0])
    close(compiled.hessian(x), hessian, 1e-12)


#: Those whose differences are exact; steps of other lengths are not.
SMOOTH = [one for one in SOLVED if "solve_ivp" not in one]


@pytest.mark.parametrize("number", some(range(len(SMOOTH)), 0, 6))
def test_what_random_programs_solve(number):
    """Compiled and eager functions are compared there: here with differences."""
    text = SMOOTH[number].format(a="v[0]", b="v[1]")
    names = {"np": np, "optimize": optimize, "integrate": integrate, "n": 0, "m": np.eye(3)}
    f = eval(f"lambda v, p=0.3, q=0.7: {text}", names)
    for v in np.array([[0.4, -0.7], [-1.1, 0.6]]):
        close(tg.grad(f)(v), slopes(f, v), 1e-9)


def test_variables_that_are_assigned_after_the_solver_was_called():
    """What is differentiated or replayed later reads them as they were."""

    def f(p):
        level = 1.0
        x = newton(lambda x, s: x + 0.5 * np.tanh(x * s) - level, 0.1, args=(p,), tol=1e-14)
        level = 2.0 * p
        return x + level

    compiled = tg.compile(f, native=False)
    for p in (0.5, 0.7, 0.9, 0.5):
        wanted = slopes(lambda x: f(x[0]), np.array([p]))
        assert compiled(p) == pytest.approx(f(p), rel=1e-13)
        close([compiled.grad(p), tg.grad(f)(p)], [*wanted, *wanted], 1e-10)
        close(tg.hessian(f)(p), slopes(lambda x: tg.grad(f)(x[0]), np.array([p]))[0], 1e-9)
    assert "eagerly" not in compiled.explain()


def test_more_limits_than_unknowns():
    """Other derivatives to either side: the basis changes at 1.2."""

    def cost(p):
        foods = np.array([[2.0, 4.0, 1.0, 5.0], [3.0, 1.0, 2.0, 4.0]])
        needs, prices = np.array([-10.0 * p, -8.0]), [2.0, 2.8, 1.5, 4.0]
        equal = {"A_eq": np.ones((1, 4)), "b_eq": [4.0]}
        return linprog(prices, A_ub=-foods, b_ub=needs, **equal, bounds=[(0.0, 3.0)] * 4).fun

    for p in (1.1, 1.25):
        close(tg.grad(cost)(p), (cost(p + 1e-3) - cost(p - 1e-3)) / 2e-3, 1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="more of them are active than there are unkn"):
        tg.grad(cost)(1.2)


def test_arrays_that_a_jacobian_makes_are_plain_where_a_program_calls_it():
    """SciPy gets arrays also while what calls the solver is still recorded."""

    def f(p):
        def slope(x):
            return np.array([p[0] * x[0] - 1.0, x[1] + x[0]])

        found = minimize(
            lambda x: 0.5 * (p[0] * x[0] ** 2 + x[1] ** 2) + x[0] * x[1] - x[0],
            [0.5, -0.5],
            jac=lambda x: slope(x) + np.array([x[1], 0.0]),
            method="trust-constr",
            options={"gtol": 1e-10},
        )
        return found.x[0]

    compiled, p = tg.compile(f, native=False), np.array([3.0])
    for _ in range(3):
        value, found = compiled.value_and_grad(p)
        close([value, found[0]], [0.5, -0.25], 1e-8)
    assert "eagerly" not in compiled.explain()
