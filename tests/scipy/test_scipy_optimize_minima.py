"""SciPy's minimisers and fits, differentiated by the conditions of the minimum."""

import functools

import numpy as np
import pytest
import scipy.optimize
from extent import some
from scipy.optimize import (
    curve_fit,
    elementwise,
    fsolve,
    isotonic_regression,
    least_squares,
    linprog,
    lsq_linear,
    minimize,
    nnls,
)
from test_scipy_optimize_roots import slopes_of

import tapegrad as tg
from tapegrad._implicit import solution

P = np.array([2.0, 1.0])
EXACT = {"xtol": 1e-15, "ftol": 1e-15}
TIGHT = {"ftol": 1e-16, "gtol": 1e-10}
T = np.linspace(0.0, 2.0, 9)
Y = 2.0 * np.exp(-T) + 0.2 * np.sin(5.0 * T)  # far from any curve: residuals count
MATRIX = np.array([[1.0, 2.0, 0.5], [0.5, -1.0, 2.0], [3.0, 1.0, 1.0], [0.0, 1.0, -1.0]])
RIGHT = np.array([1.0, 2.0, -1.0, 0.3])
P_OUT = np.array([[1.0, 0.5], [0.2, 1.0], [2.0, 1.0]])
W3 = np.array([1.0, 2.0, 3.0])
WEIGHTS = np.array([1.0, 0.7, -0.3])


def away(x, p):
    return np.sum((x - p) ** 4 + (x - p[::-1]) ** 2) + x[0] * x[1] * p[0] / 4.0


def weighed(x):
    return np.sum(x * WEIGHTS[: len(x)])


def curve(x, p):
    return x[0] * np.exp(-x[1] * T) * p[1] - Y * p[0]


def polished(cost, x, p, free=(0, 1)):
    """A minimum by Newton's method in some of the variables."""
    x, free = np.array(x), [*free]
    for _ in range(6):
        slope, matrix = tg.grad(cost)(x, p)[free], tg.hessian(cost)(x, p)[np.ix_(free, free)]
        x[free] -= np.linalg.solve(matrix, slope)
    return x


def least_cost(x, p):
    return 0.5 * np.sum(curve(x, p) ** 2)


def robust_cost(loss, x, p):
    z = (curve(x, p) / 0.5) ** 2
    rho = {
        "soft_l1": lambda: 2.0 * (np.sqrt(1.0 + z) - 1.0),
        "huber": lambda: np.where(z <= 1.0, z, 2.0 * np.sqrt(z) - 1.0),
        "cauchy": lambda: np.log1p(z),
        "arctan": lambda: np.arctan(z),
    }[loss]()
    return 0.5 * np.sum(0.25 * rho)


def fitted(p, **options):
    options = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-13} | options
    return least_squares(curve, [1.0, 0.4], tg.jacobian(curve), args=(p,), **options)


def away_by(method, p, **options):
    return minimize(away, [0.3, 0.4], (p,), method, tg.grad(away), **options)


def at_bound(method, p):
    bounds, options = [(0.0, 0.7), (None, 3.0)], TIGHT if method != "SLSQP" else {"ftol": 1e-16}
    return weighed(away_by(method, p, bounds=bounds, options=options).x)


def away_at(first, p):
    """The minimum where the first variable is at a bound."""
    x = np.array([first, 1.4])
    return weighed(polished(away, x, p, free=[1]))


def distance(x, p):
    return np.sum((x - p) ** 2)


def on_circle(method, constraint, p):
    found = minimize(
        distance, P + 0.1, (p,), method, tg.grad(distance),
        constraints=constraint, options={"ftol": 1e-16} if method == "SLSQP" else {"gtol": 1e-12},
    )  # fmt: skip
    return weighed(found.x)


def circle(p):
    return weighed(p * np.sqrt(p[0] / np.sum(p**2)))


def curve_of(p):
    return lambda t, a, b: a * np.exp(-b * t) * p[1]


def slope_of_curve(p):
    return lambda t, a, b: np.stack([np.exp(-b * t), -t * a * np.exp(-b * t)], 1) * p[1]


def covariance(cost, x, p, scaled=True):
    x = polished(cost, x, p)
    r, matrix = curve(x, p) / (1.0 + T), tg.jacobian(curve)(x, p) / (1.0 + T)[:, None]
    found = np.linalg.inv(matrix.T @ matrix)
    return np.sum(found * (np.sum(r**2) / 7.0 if scaled else 1.0))


def weighted_cost(x, p):
    return 0.5 * np.sum((curve(x, p) / (1.0 + T)) ** 2)


def cosh(x, p):
    return np.cosh(x - p[0]) + p[1] * x**2


def least_of_one(p):
    x = 0.7
    for _ in range(8):
        x -= tg.grad(cosh)(x, p) / tg.grad(tg.grad(cosh))(x, p)
    return x


def free_part(p, free):
    """The least squares in some variables, the others 0."""
    x = np.zeros(3)
    a, b = MATRIX * p[0], RIGHT * p[1] + p[0]
    x[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
    return x, np.linalg.norm(a @ x - b)


C, UB = np.array([-1.0, -2.0, 0.5]), np.array([[1.0, 1.0, 1.0], [1.0, 3.0, -1.0]])


def program(p, **options):
    right = [4.0 * p[0], 6.0]
    return linprog(C * p[0], UB * p[1] + 0.1, right, [[1.0, 0.0, 1.0]], [1.0 * p[1]], **options)


def bfgs_of(name, p, **options):
    f = getattr(scipy.optimize, name)
    return f(away, [0.3, 0.4], args=(p,), fprime=tg.grad(away), disp=0, **options)


#: A solver, and what it finds more exactly.
SOLVERS = {
    "BFGS": (
        lambda p: weighed(away_by("BFGS", p, tol=1e-9).x),
        lambda p: weighed(polished(away, [0.8, 0.8], p)),
    ),
    "value": (
        lambda p: away_by("BFGS", p, tol=1e-9).fun,
        lambda p: away(polished(away, [0.8, 0.8], p), p),
    ),
    "with slopes": (
        lambda p: weighed(
            minimize(tg.value_and_grad(away), [0.3, 0.4], (p,), jac=True, tol=1e-9).x
        ),
        lambda p: weighed(polished(away, [0.8, 0.8], p)),
    ),
    "Nelder-Mead": (
        lambda p: weighed(
            minimize(away, [0.8, 0.8], (p,), "Nelder-Mead", options={"xatol": 1e-9, "fatol": 0.0}).x
        ),
        lambda p: weighed(polished(away, [0.8, 0.8], p)),
    ),
    "trust-exact": (
        lambda p: weighed(away_by("trust-exact", p, hess=tg.hessian(away), tol=1e-10).x),
        lambda p: weighed(polished(away, [0.8, 0.8], p)),
    ),
    "L-BFGS-B": (functools.partial(at_bound, "L-BFGS-B"), functools.partial(away_at, 0.7)),
    "TNC": (functools.partial(at_bound, "TNC"), functools.partial(away_at, 0.7)),
    "SLSQP": (functools.partial(at_bound, "SLSQP"), functools.partial(away_at, 0.7)),
    "moving bound": (
        lambda p: weighed(
            away_by("L-BFGS-B", p, bounds=[(0.0, 0.6 * p[1]), (None, None)], options=TIGHT).x
        ),
        lambda p: away_at(0.6 * p[1], p),
    ),
    "equation": (
        functools.partial(
            lambda p: on_circle("SLSQP", {"type": "eq", "fun": lambda x: x @ x - p[0]}, p)
        ),
        circle,
    ),
    "inequality": (
        lambda p: on_circle(
            "SLSQP", [{"type": "ineq", "fun": lambda x, r: r - x @ x, "args": (p[0],)}], p
        ),
        circle,
    ),
    "several constraints": (
        lambda p: on_circle(
            "SLSQP",
            {"type": "ineq", "fun": lambda x, r: [r - x @ x, 9.0 - x[0]], "args": (p[0],)},
            p,
        ),
        circle,
    ),
    "instance of Bounds": (
        lambda p: weighed(
            away_by("L-BFGS-B", p, bounds=scipy.optimize.Bounds([0, 0], [0.7, 9]), options=TIGHT).x
        ),
        functools.partial(away_at, 0.7),
    ),
    "inactive": (
        lambda p: on_circle("SLSQP", [{"type": "ineq", "fun": lambda x: 99.0 * p[0] - x @ x}], p),
        weighed,
    ),
    "trust-constr": (
        lambda p: on_circle(
            "trust-constr",
            scipy.optimize.NonlinearConstraint(
                lambda x: x @ x / p[0], 1.0, 1.0, jac=lambda x: 2.0 * x / tg.stop_gradient(p[0])
            ),
            p,
        ),
        circle,
    ),
    "minimize_scalar": (
        lambda p: scipy.optimize.minimize_scalar(cosh, args=(p,), tol=1e-12).x,
        least_of_one,
    ),
    "value of one": (
        lambda p: scipy.optimize.minimize_scalar(cosh, args=(p,), bounds=(0.0, 2.0)).fun,
        lambda p: cosh(least_of_one(p), p),
    ),
    "bound of one": (
        lambda p: (
            scipy.optimize.minimize_scalar(
                cosh, args=(p,), bounds=(0.0, p[1] / 3.0), options={"xatol": 1e-9}
            ).x
        ),
        lambda p: p[1] / 3.0,
    ),
    "brent": (
        lambda p: scipy.optimize.brent(cosh, (p,), full_output=True)[1],
        lambda p: cosh(least_of_one(p), p),
    ),
    "fminbound": (
        lambda p: scipy.optimize.fminbound(lambda x: cosh(x, p), 0.0, 3.0, xtol=1e-10),
        least_of_one,
    ),
    "fmin_bfgs": (
        lambda p: weighed(bfgs_of("fmin_bfgs", p, gtol=1e-9)),
        lambda p: weighed(polished(away, [0.8, 0.8], p)),
    ),
    "fmin_cg": (
        lambda p: bfgs_of("fmin_cg", p, gtol=1e-9, full_output=True)[1],
        lambda p: away(polished(away, [0.8, 0.8], p), p),
    ),
    "fmin_l_bfgs_b": (
        lambda p: weighed(
            scipy.optimize.fmin_l_bfgs_b(
                tg.value_and_grad(away),
                [0.3, 0.4],
                args=(p,),
                factr=1.0,
                pgtol=1e-10,
                bounds=[(0.0, 0.7), (0.0, 3.0)],
            )[0]
        ),
        functools.partial(away_at, 0.7),
    ),
    "differential_evolution": (
        lambda p: (
            scipy.optimize.differential_evolution(
                away, [(0.0, 0.7), (0.0, 3.0)], (p,), rng=1, tol=1e-8
            ).fun
        ),
        lambda p: away(polished(away, [0.7, 1.4], p, free=[1]), p),
    ),
    "least_squares": (
        lambda p: weighed(fitted(p).x),
        lambda p: weighed(polished(least_cost, fitted(p).x, p)),
    ),
    "cost": (
        lambda p: fitted(p).cost + fitted(p).fun[2],
        lambda p: least_cost(x := polished(least_cost, fitted(p).x, p), p) + curve(x, p)[2],
    ),
    "bounded least_squares": (
        lambda p: weighed(fitted(p, bounds=([0.0, 0.0], [9.0, 0.5])).x),
        lambda p: weighed(polished(least_cost, [4.0, 0.5], p, free=[0])),
    ),
    **{
        loss: (
            functools.partial(lambda loss, p: weighed(fitted(p, loss=loss, f_scale=0.5).x), loss),
            functools.partial(
                lambda loss, p: weighed(
                    polished(
                        functools.partial(robust_cost, loss), fitted(p, loss=loss, f_scale=0.5).x, p
                    )
                ),
                loss,
            ),
        )
        for loss in ("soft_l1", "huber", "cauchy", "arctan")
    },
    "leastsq": (
        lambda p: weighed(scipy.optimize.leastsq(curve, [1.0, 1.0], (p,), tg.jacobian(curve))[0]),
        lambda p: weighed(polished(least_cost, fitted(p).x, p)),
    ),
    "curve_fit": (
        lambda p: weighed(curve_fit(curve_of(p), T, Y * p[0], jac=slope_of_curve(p))[0]),
        lambda p: weighed(polished(least_cost, fitted(p).x, p)),
    ),
    "covariance": (
        lambda p: np.sum(
            curve_fit(curve_of(p), T, Y * p[0], sigma=1.0 + T, jac=slope_of_curve(p), **EXACT)[1]
        ),
        lambda p: covariance(weighted_cost, fitted(p).x, p),
    ),
    "absolute covariance": (
        lambda p: np.sum(
            curve_fit(
                curve_of(p),
                T,
                Y * p[0],
                [1.0, 1.0],
                1.0 + T,
                True,
                jac=slope_of_curve(p),
                bounds=(0.0, 9.0),
                xtol=1e-15,
                ftol=1e-15,
                gtol=1e-13,
            )[1]
        ),
        lambda p: covariance(weighted_cost, fitted(p).x, p, scaled=False),
    ),
    "weights": (
        lambda p: weighed(
            curve_fit(curve_of(p), T, Y * p[0], sigma=np.diag((1.0 + T) ** 2) * p[0], **EXACT)[0]
        ),
        lambda p: weighed(polished(weighted_cost, fitted(p).x, p)),
    ),
    "nnls": (
        lambda p: weighed(nnls(MATRIX * p[0], RIGHT * p[1] + p[0])[0]),
        lambda p: weighed(free_part(p, [1, 2])[0]),
    ),
    "norm of nnls": (
        lambda p: nnls(MATRIX * p[0], RIGHT * p[1] + p[0])[1],
        lambda p: free_part(p, [1, 2])[1],
    ),
    "lsq_linear": (
        lambda p: weighed(
            lsq_linear(MATRIX * p[0], RIGHT * p[1] + p[0], ([0.0, -9.0, -9.0], np.inf)).x
        ),
        lambda p: weighed(free_part(p, [1, 2])[0]),
    ),
    "cost of lsq_linear": (
        lambda p: lsq_linear(MATRIX * p[0], RIGHT * p[1] + p[0], (0.0, np.inf)).cost,
        lambda p: 0.5 * free_part(p, [1, 2])[1] ** 2,
    ),
    "basinhopping": (
        lambda p: scipy.optimize.basinhopping(
            away, [0.8, 0.8], 1, minimizer_kwargs={"args": (p,), "tol": 1e-9}, rng=1
        ).lowest_optimization_result.x[0],
        lambda p: polished(away, [0.8, 0.8], p)[0],
    ),
    "fmin_slsqp": (
        lambda p: weighed(
            scipy.optimize.fmin_slsqp(
                away,
                [0.5, 0.5],
                args=(p,),
                f_ieqcons=lambda x, p: 0.7 * p[:1] / 2.0 - x[:1],
                acc=1e-15,
                disp=0,
            )
        ),
        lambda p: away_at(0.7 * p[0] / 2.0, p),
    ),
    "fmin_cobyla": (
        lambda p: scipy.optimize.fmin_cobyla(
            np.sum, np.array([0.5, 0.5]), [lambda x: p[0] - x @ x], rhoend=1e-9, catol=1e-15
        )[0],
        lambda p: -np.sqrt(p[0] / 2.0),
    ),
    "isotonic_regression": (
        lambda p: weighed(isotonic_regression(P_OUT @ p, weights=1.0 + p[:1] * W3).x),
        lambda p: weighed(blocks_of(P_OUT @ p, 1.0 + p[0] * W3)),
    ),
    "elementwise.find_minimum": (
        lambda p: weighed(
            elementwise.find_minimum(
                lambda x, p: (x - p) ** 2 + x**4,
                (-1.0, p * 0.1, 3.0),
                args=(p,),
                tolerances={"xatol": 1e-15, "xrtol": 1e-15},
            ).x
        ),
        lambda p: weighed(polished(lambda x, p: np.sum((x - p) ** 2 + x**4), [0.5, 0.5], p)),
    ),
    "linprog": (lambda p: weighed(program(p).x), lambda p: weighed(vertex(p))),
    "value of linprog": (lambda p: program(p).fun, lambda p: p[0] * (C @ vertex(p))),
}


def blocks_of(y, weights):
    """The isotonic regression of three numbers, of which the first two are in the wrong order."""
    assert y[0] > y[1] and y[2] > y[0]
    mean = np.sum(y[:2] * weights[:2]) / np.sum(weights[:2])
    return np.array([mean, mean, y[2]])


def vertex(p):
    """The solution of the linear program: two constraints are active, and a bound."""
    x = program(p).x
    rows = np.vstack([UB * p[1] + 0.1, [[1.0, 0.0, 1.0]], np.eye(3)])
    right = np.concatenate([[4.0 * p[0], 6.0, p[1]], np.zeros(3)])
    active = np.abs(rows @ x - right) < 1e-9
    assert active.sum() == 3
    return np.linalg.solve(rows[active], right[active])


@pytest.mark.parametrize("name", SOLVERS)
def test_derivatives(name):
    f, exact = SOLVERS[name]
    value, gradient = tg.value_and_grad(f)(P)
    np.testing.assert_allclose(value, exact(P), rtol=1e-7)
    np.testing.assert_allclose(value, f(P), rtol=1e-14)
    np.testing.assert_allclose(gradient, slopes_of(exact, P, 1e-3), rtol=1e-6, atol=1e-7)
    second = slopes_of(lambda p: slopes_of(exact, p, 2e-3), P, 2e-3)
    np.testing.assert_allclose(tg.hessian(f)(P), second, rtol=1e-5, atol=1e-5)
    v = np.array([0.3, -0.7])
    np.testing.assert_allclose(tg.jvp(f, (P,), (v,))[1], gradient @ v, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", some(SOLVERS, 1, len(SOLVERS) // 2))
def test_compiled(name, monkeypatch):
    monkeypatch.setattr(solution, "_EAGER", 1)  # adjoints of later calls are compiled
    f, _ = SOLVERS[name]
    c, v = tg.compile(f), np.array([0.3, -0.7])
    for p in (P, P + 0.01, P - 0.02):
        gradient = tg.grad(f)(p)
        np.testing.assert_allclose(c(p), f(p), rtol=1e-14)
        np.testing.assert_allclose(c.grad(p), gradient, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(c.jvp((p,), (v,))[1], gradient @ v, rtol=1e-7, atol=1e-9)
    for p in (P, P - 0.02):
        np.testing.assert_allclose(c.hessian(p), tg.hessian(f)(p), rtol=1e-7, atol=1e-9)
    assert "eagerly" not in repr(c)


def test_another_bound_in_another_call():
    def f(p):
        return minimize(
            lambda x: np.sum((x - p) ** 2 + (x - p) ** 4), [0.5, 0.5], method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * 2, options=TIGHT,
        ).x  # fmt: skip

    c = tg.compile(f)
    for p in ([2.0, 0.5], [0.5, -1.0], [0.4, 0.6], [3.0, 9.0]):
        p = np.array(p)
        inside = (p > 0.0) & (p < 1.0)
        np.testing.assert_allclose(c(p), np.clip(p, 0.0, 1.0), atol=1e-6)
        np.testing.assert_allclose(c.jacobian(p), np.diag(1.0 * inside), atol=1e-6)
        np.testing.assert_allclose(tg.jacobian(f)(p), np.diag(1.0 * inside), atol=1e-6)


FIELDS = {
    "jac of a bound": lambda p: away_by("L-BFGS-B", p, bounds=[(0.0, 0.7)] * 2).jac[0],
    "hess_inv": lambda p: np.sqrt(away_by("BFGS", p).get("hess_inv")[0, 0]),
    "marginals": lambda p: np.sum(program(p).ineqlin.marginals),
    "jac of a fit": lambda p: np.sum(least_squares(curve, [1.0, 1.0], args=(p,)).jac),
    "unbounded_sol": lambda p: lsq_linear(MATRIX * p[0], RIGHT * p[1], (0, 9)).unbounded_sol[0][0],
    "fmin_bfgs": lambda p: np.sum(bfgs_of("fmin_bfgs", p, full_output=True)[3]),
    "a dict": lambda p: np.sum({**fsolve(curve2, [1.0, 1.0], p, full_output=True)[1]}["r"]),
    "taken": lambda p: fsolve(curve2, [1.0, 1.0], p, full_output=True)[1].pop("r")[0],
    "fjac": lambda p: fsolve(curve2, [1.0, 1.0], p, full_output=True)[1]["fjac"][0, 0],
}


def curve2(x, p):
    return curve(x, p)[:2]


@pytest.mark.filterwarnings("ignore:tapegrad.compile", "ignore:The iteration")
@pytest.mark.parametrize("name", FIELDS)
def test_fields_without_rule_are_never_constants(name):
    f = FIELDS[name]
    value = tg.value_and_grad(lambda p: tg.stop_gradient(f(p)) * p[0])(P)
    np.testing.assert_allclose(value[0], f(P) * P[0], rtol=1e-12)
    c = tg.compile(lambda p: p[0] * (2.0 if f(p) > 1e9 else 1.0))
    for _ in range(2):
        np.testing.assert_array_equal(c.grad(P), [1.0, 0.0])
    for derive in (tg.grad, lambda f: tg.compile(f).grad):
        with pytest.raises(tg.DerivativeLost, match="of the result has no derivative"):
            derive(f)(P)


def test_fields_are_scipys():
    def f(p):
        found = away_by("L-BFGS-B", p, bounds=[(0.0, 0.7)] * 2)
        return found.x[1] * found.nit if found.success else p[0]

    plain = away_by("L-BFGS-B", P, bounds=[(0.0, 0.7)] * 2)
    c = tg.compile(f)
    for _ in range(3):
        np.testing.assert_allclose(c(P), plain.x[1] * plain.nit)
        np.testing.assert_allclose(c.value_and_grad(P)[0], tg.value_and_grad(f)(P)[0])


def test_a_plain_call_is_scipys():
    assert type(tg.scipy.optimize.minimize(away, P, (P,))) is scipy.optimize.OptimizeResult
    x, residual = tg.scipy.optimize.nnls(MATRIX, RIGHT)
    assert type(x) is np.ndarray and np.ndim(residual) == 0


# --- no derivative --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda p: minimize(distance, P * 0.3, (p,), bounds=[(0.0, 2.0)] * 2).x[0],
        lambda p: minimize(
            distance, P, (p,), constraints={"type": "ineq", "fun": lambda x: 2.0 - x[0]}
        ).x[0],
        lambda p: nnls(np.eye(2), p - 2.0)[0][0],
        lambda p: linprog([1.0, 1.0], [[-1.0, -1.0]], p[:1] - 3.0).x[0],
    ],
)
def test_a_bound_without_a_force(f):
    with pytest.raises(np.linalg.LinAlgError, match="multiplier is 0"):
        tg.grad(f)(P)


def test_a_valley_has_no_derivative():
    def f(p):
        return minimize(lambda x: (x[0] + x[1] - p[0]) ** 2, [0.0, 0.0]).x[0]

    with pytest.raises(np.linalg.LinAlgError, match="Jacobian of the equations is singular"):
        tg.grad(f)(P)


def test_a_program_without_solution():
    def f(p):
        found = linprog([1.0], [[1.0]], p[:1] - 9.0, bounds=(0.0, None))
        return found.x[0] if found.success else 5.0 * p[0]

    assert tg.grad(f)(P).tolist() == [5.0, 0.0]


def test_a_curve_that_cannot_be_fitted():
    with pytest.raises(RuntimeError, match="Optimal parameters not found"):
        tg.grad(lambda p: curve_fit(curve_of(p), T, Y, [50.0, 9.0], maxfev=3)[0][0])(P)


def test_whole_numbers_are_refused():
    with pytest.raises(TypeError, match="integrality has no derivative"):
        tg.grad(lambda p: linprog(p, bounds=(0.0, 1.0), integrality=[1, 1]).fun)(P)
