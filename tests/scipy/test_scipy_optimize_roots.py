"""SciPy's solvers of equations, differentiated by the implicit function theorem."""

import functools

import numpy as np
import pytest
import scipy.optimize
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq, elementwise, fsolve

import tapegrad as tg
from tapegrad._implicit import solution

P = np.array([2.0, 1.0])
SMALL = 1e-13


def one(x, p):
    return np.sinh(x) ** 3 / np.cosh(x) + p[0] * x - p[1]


def two(x, a, p):
    return [a * x[0] + x[1] ** 3 - p[1], np.exp(x[0]) - p[0] * x[1]]


def two_as_array(x, p):
    return np.array(two(x, p[0], p))


def contraction(x, p):
    return np.cos(p[0] * x) * p[1] / 3.0


class Model:
    def __init__(self, p):
        self.parts = {"p": [p]}

    def balance(self, x):
        return one(x, self.parts["p"][0])


def by_newton_krylov(p):
    f = lambda x: np.array([p[0] * x[0] + x[1] ** 3 - p[1], x[1] * 3 + x[0] - p[0]])
    return np.sum(scipy.optimize.newton_krylov(f, np.array([0.1, 0.5]), f_tol=1e-12))


def by_broyden(name, p):
    f = getattr(scipy.optimize, name)
    return np.sum(f(lambda x: two_as_array(x, p), np.array([0.2, 0.6]), f_tol=1e-12))


def in_a_loop(p):
    total = 0.0
    for k in range(4):
        total = total + brentq(lambda x: one(x, p) - 0.1 * k, -3.0, 3.0)
    return total


def nested(p):
    def outer(x):
        return x - brentq(lambda y: y**3 + p[0] * y - x, -3.0, 3.0) - p[1]

    return brentq(outer, -3.0, 3.0)


def full_of_newton(p):
    derivative = tg.grad(lambda x: one(x, p))
    root, told = scipy.optimize.newton(
        lambda x: one(x, p), 0.5, derivative, tol=SMALL, full_output=True
    )
    return root + told.root


def full_of_fsolve(p):
    x, told, flag, _ = fsolve(two, [0.1, 0.5], (p[0], p), xtol=SMALL, full_output=True)
    assert flag == 1
    return x[0] * (1.0 + 0.0 * told["fvec"][0])


def full_of_brentq(p):
    root, told = brentq(one, -3.0, 3.0, (p,), full_output=True)
    return root + told.root if told.converged else root


def with_success(p):
    found = scipy.optimize.root(two, [0.1, 0.5], (p[0], p), tol=SMALL)
    return found.x[1] if found.success else 0.0 * p[0]


SOLVERS = {
    "elementwise.find_root": lambda p: np.sum(
        elementwise.find_root(lambda x, q: x**3 + p[0] * x - q, (0.0 * p, 3.0), args=(p,)).x
        * np.array([1.0, 2.0])
    ),
    "bisect": lambda p: scipy.optimize.bisect(one, -3.0, 3.0, (p,), xtol=SMALL),
    "brenth": lambda p: scipy.optimize.brenth(one, -3.0, 3.0, (p,), xtol=SMALL),
    "brentq": lambda p: brentq(one, -3.0, 3.0, (p,)),
    "args alone": lambda p: brentq(one, -3.0, 3.0, args=p),
    "closure": lambda p: brentq(lambda x: one(x, p), -3.0, 3.0),
    "method": lambda p: brentq(Model(p).balance, -3.0, 3.0),
    "partial": lambda p: brentq(functools.partial(one, p=p), -3.0, 3.0),
    "default": lambda p: brentq(lambda x, q=(p,): one(x, q[0]), -3.0, 3.0),
    "moving bracket": lambda p: brentq(one, -3.0 - p[0], 3.0 + p[1], (p,)),
    "full brentq": full_of_brentq,
    "ridder": lambda p: scipy.optimize.ridder(lambda x: one(x, p), -3.0, 3.0),
    "toms748": lambda p: scipy.optimize.toms748(lambda x: one(x, p), -3.0, 3.0),
    "newton": lambda p: scipy.optimize.newton(lambda x: one(x, p), 0.5, tol=SMALL),
    "full newton": full_of_newton,
    "newton of many": lambda p: np.sum(
        scipy.optimize.newton(lambda x: one(x, p), np.array([0.5, 0.6]), tol=SMALL)
    ),
    "root_scalar": lambda p: scipy.optimize.root_scalar(one, (p,), bracket=(-3.0, 3.0)).root,
    "with slopes": lambda p: (
        scipy.optimize.root_scalar(
            lambda x: (x**2 - p[0] * p[1], 2.0 * x), x0=1.0, fprime=True
        ).root
    ),
    "root": with_success,
    "hybr": lambda p: scipy.optimize.root(
        two, [0.1, 0.5], (p[0], p), tol=SMALL, jac=tg.jacobian(two_of)
    ).x.sum(),
    "system with slopes": lambda p: scipy.optimize.root(
        lambda x, q: (x**3 - q, np.diag(3.0 * x**2)), P, p, jac=True, tol=SMALL
    ).x.sum(),
    "secant": lambda p: (
        scipy.optimize.root_scalar(one, p, x0=0.4, x1=0.6, method="secant", xtol=SMALL).root
    ),
    "lm": lambda p: scipy.optimize.root(two, [0.1, 0.5], (p[0], p), "lm", tol=SMALL).x[0],
    "krylov": lambda p: scipy.optimize.root(
        lambda x: two_as_array(x, p), [0.1, 0.5], method="krylov", tol=1e-12
    ).x[0],
    "recorded start": lambda p: fsolve(two, [0.1 * p[0], p[1]], (p[0], p), xtol=SMALL)[0],
    "full fsolve": full_of_fsolve,
    "fixed_point": lambda p: scipy.optimize.fixed_point(contraction, 0.3, (p,), xtol=1e-12),
    "several fixed points": lambda p: np.sum(
        scipy.optimize.fixed_point(lambda x: np.cos(p * x) / 3.0, np.full(2, 0.3), xtol=1e-12)
    ),
    "newton_krylov": by_newton_krylov,
    "broyden1": functools.partial(by_broyden, "broyden1"),
    "broyden2": functools.partial(by_broyden, "broyden2"),
    "loop": in_a_loop,
    "nested": nested,
}


def two_of(x, a, p):
    return np.array(two(x, a, p))


def slopes_of(f, p, step=2e-5):
    """Differences of fourth order."""
    found = []
    for unit in np.eye(p.size) * step:
        near, far = f(p + unit) - f(p - unit), f(p + 2 * unit) - f(p - 2 * unit)
        found.append((8.0 * near - far) / (12.0 * step))
    return np.array(found)


@pytest.mark.parametrize("name", SOLVERS)
def test_derivatives(name):
    f = SOLVERS[name]
    np.testing.assert_allclose(tg.grad(f)(P), slopes_of(f, P, 1e-3), rtol=1e-7, atol=1e-9)
    wanted = slopes_of(tg.grad(f), P, 1e-3)
    np.testing.assert_allclose(tg.hessian(f)(P), wanted, rtol=1e-7, atol=1e-8)
    v = np.array([0.3, -0.7])
    value, along = tg.jvp(f, (P,), (v,))
    np.testing.assert_allclose(along, tg.grad(f)(P) @ v, rtol=1e-12)
    np.testing.assert_allclose(tg.hvp(f)(P, v), wanted @ v, rtol=1e-6, atol=1e-8)
    assert value == f(P) == tg.value_and_grad(f)(P)[0]  # SciPy's own


@pytest.mark.parametrize("name", SOLVERS)
def test_compiled(name, monkeypatch):
    monkeypatch.setattr(solution, "_EAGER", 1)  # adjoints of later calls are compiled
    f = SOLVERS[name]
    c, v = tg.compile(f), np.array([0.3, -0.7])
    for p in (P, P + 0.1, P - 0.05, np.array([1.5, 1.2])):
        assert float(c(p)) == f(p)
        np.testing.assert_allclose(c.grad(p), tg.grad(f)(p), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(c.hessian(p), tg.hessian(f)(p), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(c.jvp((p,), (v,))[1], tg.grad(f)(p) @ v, rtol=1e-9)
    assert "eagerly" not in repr(c)


class Noting:
    """A model with a counter that its function sets, and something that is computed once."""

    def __init__(self, p):
        self.p, self.calls = p, 0

    @functools.cached_property
    def square(self):
        return self.p[0] ** 2

    def quiet(self, x):
        return x**3 + self.square * x - self.p[1]

    def f(self, x):
        self.calls += 1
        return self.quiet(x)

    def slope(self, t, y):
        return -y * self.f(t)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, slope: brentq(f, -3.0, 3.0),
        lambda f, slope: quad(f, 0.0, 1.0)[0],
        lambda f, slope: solve_ivp(slope, (0.0, 1.0), [1.0]).y[0, -1],
    ],
)
def test_attributes_that_are_set_in_a_copy(call):
    def f(p):
        model = Noting(p)
        return call(model.f, model.slope)

    with pytest.warns(RuntimeWarning, match="sets the attribute calls of an instance of Noting"):
        found = tg.grad(f)(P)
    np.testing.assert_allclose(found, slopes_of(f, P, 1e-3), rtol=5e-3)
    tg.grad(lambda p: brentq(Noting(p).quiet, -3.0, 3.0))(P)  # without a warning


def test_third_derivatives():
    f = lambda a: brentq(lambda x: x**3 - a, 0.0, 3.0, xtol=1e-14)
    third = tg.grad(tg.grad(tg.grad(f)))
    np.testing.assert_allclose(third(2.0), 10.0 / 27.0 * 2.0 ** (-8.0 / 3.0), rtol=1e-9)


def test_many_unknowns_and_parameters():
    n = 40
    matrix = np.eye(n) * 4.0 + np.random.default_rng(0).normal(size=(n, n)) / n

    def f(p):
        x = fsolve(lambda x: matrix @ x + x**3 - p, np.zeros(n), xtol=1e-13)
        return np.sum(x**2)

    p = np.linspace(-1.0, 2.0, n)
    x = fsolve(lambda x: matrix @ x + x**3 - p, np.zeros(n), xtol=1e-13)
    wanted = np.linalg.solve((matrix + np.diag(3.0 * x**2)).T, 2.0 * x)
    np.testing.assert_allclose(tg.grad(f)(p), wanted, rtol=1e-9)
    c = tg.compile(f)
    for _ in range(2):
        np.testing.assert_allclose(c.grad(p), wanted, rtol=1e-9)


@pytest.mark.parametrize("coupling", [0.0, 1e-3])
def test_equations_for_each_unknown_on_its_own(coupling):
    """Their Jacobian is diagonal, which is found, or all but diagonal."""
    n = 50
    mixed = np.roll(np.eye(n), 1, axis=0) * coupling

    def f(p):
        if coupling:
            return np.sum(fsolve(lambda x: x**3 + mixed @ x - p, np.ones(n), xtol=1e-13) ** 2)
        return np.sum(scipy.optimize.newton(lambda x: x**3 - p, np.ones(n), tol=1e-14) ** 2)

    p = np.linspace(1.0, 2.0, n)
    x = fsolve(lambda x: x**3 + mixed @ x - p, np.ones(n), xtol=1e-13)
    wanted = np.linalg.solve((np.diag(3.0 * x**2) + mixed).T, 2.0 * x)
    np.testing.assert_allclose(tg.grad(f)(p), wanted, rtol=1e-9)
    np.testing.assert_allclose(tg.compile(f).grad(p), wanted, rtol=1e-9)
    along = tg.jvp(f, (p,), (np.ones(n),))[1]
    np.testing.assert_allclose(along, wanted.sum(), rtol=1e-9)


def test_jacobian_of_a_system():
    f = lambda p: fsolve(two, [0.1, 0.5], (p[0], p), xtol=SMALL)
    wanted = slopes_of(f, P, 1e-3).T
    np.testing.assert_allclose(tg.jacobian(f)(P), wanted, rtol=1e-7)
    np.testing.assert_allclose(tg.compile(f).jacobian(P), wanted, rtol=1e-7)


def test_backward_of_tensors():
    p = tg.tensor(P, requires_grad=True)
    root = tg.scipy.optimize.brentq(lambda x: one(x, p), -3.0, 3.0)
    root.backward()
    np.testing.assert_allclose(p.grad, tg.grad(SOLVERS["closure"])(P), rtol=1e-12)


def test_plain_calls_are_scipys():
    root = tg.scipy.optimize.brentq(one, -3.0, 3.0, (P,))
    assert type(root) is float and root == brentq(one, -3.0, 3.0, (P,))
    found = tg.scipy.optimize.root(two, [0.1, 0.5], (2.0, P))
    assert type(found) is scipy.optimize.OptimizeResult


def test_results_are_scipys():
    seen = []

    def f(p):
        found = scipy.optimize.root(two, [0.1, 0.5], (p[0], p))
        seen.append(found)
        return found.x[0]

    tg.grad(f)(P)
    (found,), plain = seen, scipy.optimize.root(two, [0.1, 0.5], (2.0, P))
    assert type(found) is type(plain) and found.keys() == plain.keys()
    assert found.message == plain.message and found.nfev == plain.nfev
    np.testing.assert_array_equal(found.x, plain.x)


def test_compiled_with_data_that_change():
    data = np.array([1.0, 2.0])
    c = tg.compile(lambda p: brentq(lambda x: p * x**3 + x - np.sum(data), -5.0, 5.0))
    for values in ([1.0, 2.0], [3.0, 0.5], [0.0, 1.0]):
        data[:] = values
        root = brentq(lambda x: 2.0 * x**3 + x - sum(values), -5.0, 5.0)
        assert float(c(2.0)) == root
        np.testing.assert_allclose(c.grad(2.0), -(root**3) / (6.0 * root**2 + 1.0), rtol=1e-12)


def test_a_branch_on_whether_it_has_converged():
    def f(p):
        found = scipy.optimize.root_scalar(
            lambda x: x**3 - p, x0=1.0, fprime=lambda x: 3.0 * x**2, maxiter=6
        )
        return found.root if found.converged else 100.0 * p

    c = tg.compile(f)
    for p in (1.1, 2.0, 1e9, 1.5, 1e9):
        assert float(c(p)) == f(p)
        np.testing.assert_allclose(c.grad(p), tg.grad(f)(p), rtol=1e-12)
    assert tg.grad(f)(1e9) == 100.0


@pytest.mark.filterwarnings("ignore:tapegrad.compile.*reads the field:RuntimeWarning")
def test_messages_are_those_of_the_call():
    def f(p):
        found = scipy.optimize.root(lambda x: x**2 + p, [1.0])
        return found.x[0] * 0.0 + p * len(found.message)

    c = tg.compile(f)
    for p in (-2.0, 1.0, -1.0, 3.0):
        assert float(c(p)) == f(p)


def test_a_branch_inside_the_function():
    def f(p):
        return brentq(lambda x: (x**3 if x > 1.0 else 2.0 * x - 1.0) - p, -5.0, 5.0)

    c = tg.compile(f)
    for p in (0.5, 8.0, -3.0, 27.0):
        np.testing.assert_allclose(c(p), p ** (1 / 3) if p > 1.0 else (p + 1.0) / 2.0, rtol=1e-10)
        slope = p ** (-2 / 3) / 3.0 if p > 1.0 else 0.5
        np.testing.assert_allclose(c.grad(p), slope, rtol=1e-10)
        np.testing.assert_allclose(c.hessian(p), tg.hessian(f)(p), rtol=1e-9, atol=1e-12)


# --- failures -------------------------------------------------------------------------------------


def test_a_bracket_without_a_root():
    f = lambda p: brentq(lambda x: x**2 + p, -1.0, 1.0)
    for call in (tg.grad(f), tg.compile(lambda p: f(p))):
        with pytest.raises(ValueError, match="must have different signs"):
            call(1.0)


def test_a_bracket_without_a_root_in_a_program():
    c = tg.compile(lambda p: brentq(lambda x: x - p, -1.0, 1.0))
    for p in (0.1, 0.2, 0.3):
        np.testing.assert_allclose(c.value_and_grad(p), (p, 1.0))
    with pytest.raises(ValueError, match="must have different signs"):
        c.value_and_grad(2.0)
    np.testing.assert_allclose(c.value_and_grad(0.5), (0.5, 1.0))


def test_too_few_iterations():
    f = lambda p: brentq(lambda x: np.exp(x) - p, -30.0, 30.0, maxiter=3)
    with pytest.raises(RuntimeError, match="Failed to converge after 3 iterations"):
        tg.grad(f)(2.0)


def test_a_double_root_has_no_derivative():
    with pytest.raises(np.linalg.LinAlgError, match="Jacobian of the equations is singular"):
        tg.grad(lambda p: brentq(lambda x: 0.0 * x * p, -1.0, 1.0))(2.0)


def test_a_result_that_is_no_solution_is_warned_of():
    f = lambda p: brentq(lambda x: x**3 - p, 0.0, 3.0, xtol=0.5)
    with pytest.warns(RuntimeWarning, match="the result is not close to a solution"):
        tg.grad(f)(2.0)


def test_complex_unknowns_are_refused():
    f = lambda p: abs(scipy.optimize.newton(lambda z: z**2 + p, 1.0j))
    with pytest.raises(TypeError, match="the solution is complex"):
        tg.grad(f)(2.0)


class Elsewhere:
    value = None


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
def test_a_value_that_is_not_found_is_refused():
    def f(p):
        Elsewhere.value = p
        return brentq(lambda x: x**3 - Elsewhere.value, 0.0, 3.0)

    def g(p):
        Elsewhere.value = 3.0 * p
        return brentq(lambda x: x**3 - Elsewhere.value * p, 0.0, 3.0)

    advice = "depends on a recorded value .* pass the value in args"
    for each, match in ((f, "recorded"), (g, advice)):  # SciPy's C code may hide the first one
        with pytest.raises(TypeError, match=match):
            tg.grad(each)(2.0)
        with pytest.raises(TypeError, match=match):
            tg.compile(each).grad(2.0)
    Elsewhere.value = None


def test_data_that_have_changed_are_told():
    def f(p):
        data = np.array([1.0])
        root = brentq(lambda x: x**3 - p * data[0], 0.0, 3.0)
        data[0] = 2.0
        return root

    np.testing.assert_allclose(tg.grad(f)(2.0), 2.0 ** (-2 / 3) / 3.0, rtol=1e-9)
    with pytest.raises(RuntimeError, match="data that it reads have changed"):
        tg.hessian(f)(2.0)


# --- compiled methods and closures, whose data change ---------------------------------------------


class Plant:
    def __init__(self):
        self.gain, self.power, self.load = 1.0, 3, np.array([1.0, 2.0])

    def balance(self, x, p):
        return p * x**self.power + self.gain * x - np.sum(self.load)

    def level(self, p):
        return brentq(self.balance, -9.0, 9.0, (p,))


def test_attributes_of_a_compiled_method():
    plant = Plant()
    c = tg.compile(plant.level)
    for name, value in (("gain", 1.0), ("gain", 2.0), ("power", 5), ("load", np.ones(2))):
        setattr(plant, name, value)
        for p in (2.0, 2.5):
            assert float(c(p)) == plant.level(p)
            np.testing.assert_allclose(c.grad(p), tg.grad(plant.level)(p), rtol=1e-12)
            np.testing.assert_allclose(c.hessian(p), tg.hessian(plant.level)(p), rtol=1e-10)


def test_variables_of_enclosing_functions_that_change():
    gain = 1.0

    def set_gain(value):
        nonlocal gain
        gain = value

    def scaled(x):
        return gain * x

    def f(p):
        return brentq(lambda x: p * x**3 + scaled(x) - 3.0 * gain, -9.0, 9.0)

    c = tg.compile(f)
    for value in (1.0, 2.0, 0.5):
        set_gain(value)
        for p in (2.0, 2.5):
            assert float(c(p)) == f(p)
            np.testing.assert_allclose(c.grad(p), tg.grad(f)(p), rtol=1e-12)
            np.testing.assert_allclose(c.hessian(p), tg.hessian(f)(p), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
def test_data_that_are_not_found_are_no_constants_of_a_program():
    """A class attribute that the function sets: a program would keep its first value."""

    def f(p):
        Elsewhere.value = tg.stop_gradient(2.0 * p)
        return brentq(lambda x: p * x**3 + x - Elsewhere.value, -9.0, 9.0)

    c = tg.compile(f)
    for p in (2.0, 2.5, 3.0):
        assert float(c(p)) == f(p)
        np.testing.assert_allclose(c.grad(p), tg.grad(f)(p), rtol=1e-12)
    Elsewhere.value = None
