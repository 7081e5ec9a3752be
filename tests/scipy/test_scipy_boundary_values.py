"""`solve_bvp`: derivatives of solutions of boundary value problems against closed forms."""

import numpy as np
import pytest
from scipy.integrate import solve_bvp
from scipy.optimize import brentq

import tapegrad as tg
from tapegrad._implicit.linear import SingularJacobian
from tapegrad.scipy._boundary_values import BoundaryProblem, _pattern


def bratu(rate, tol=1e-9, nodes=11):
    """y″ = −rate exp(y), 0 at 0 and 1."""

    def slopes(x, y):
        return np.vstack((y[1], -rate * np.exp(y[0])))

    def ends(left, right):
        return np.array([left[0], right[0]])

    x = np.linspace(0.0, 1.0, nodes)
    return solve_bvp(slopes, ends, x, np.zeros((2, nodes)), tol=tol, max_nodes=2000)


def height(rate):
    return bratu(rate).sol(0.5)[0]


def exact_height(rate):
    return 2.0 * np.log(np.cosh(_theta(rate) / 4.0))


def _theta(rate):
    return brentq(lambda t: t - np.sqrt(2.0 * rate) * np.cosh(t / 4.0), 0.1, 4.5, xtol=1e-14)


def exact_slope(rate):
    theta = _theta(rate)
    change = theta / (2.0 * rate * (1.0 - theta * np.tanh(theta / 4.0) / 4.0))
    return 0.5 * np.tanh(theta / 4.0) * change


@pytest.mark.parametrize("rate", [0.3, 1.0, 2.5])
def test_derivative_of_the_bratu_problem(rate):
    value, slope = tg.value_and_grad(height)(rate)
    assert value == height(rate)
    assert abs(value - exact_height(rate)) < 1e-9
    assert abs(slope - exact_slope(rate)) < 1e-8
    assert abs(tg.jvp(height, (rate,), (1.0,))[1] - slope) < 1e-12


def test_second_derivative():
    step = 1e-5
    wanted = (exact_slope(1.0 + step) - exact_slope(1.0 - step)) / (2.0 * step)
    found = tg.hessian(lambda rate: bratu(rate, 1e-6).sol(0.5)[0])(1.0)
    assert abs(found - wanted) < 1e-6


def test_a_compiled_function_has_meshes_of_other_sizes():
    compiled = tg.compile(height)
    for rate in (1.0, 1.0, 1.0, 3.0, 0.5, 3.0, 1.1):
        value, slope = compiled.value_and_grad(rate)
        assert value == height(rate)
        assert abs(slope - exact_slope(rate)) < 1e-8


def sturm(length):
    """y″ = −k² y, 0 at both ends: k is 2π / length."""

    def slopes(x, y, p):
        return [y[1], -(p[0] ** 2) * y[0]]

    def ends(left, right, p):
        return [left[0], right[0], left[1] - p[0]]

    x = np.linspace(0.0, length, 5)
    guess = np.array([[0.0, 1.0, 0.0, -1.0, 0.0], np.zeros(5)])
    return solve_bvp(slopes, ends, x, guess, p=[6.0], tol=1e-6, bc_tol=1e-4)


def test_an_unknown_parameter_and_the_end_of_the_interval():
    tau = 2.0 * np.pi
    assert abs(tg.grad(lambda a: sturm(a).p[0])(1.0) + tau) < 1e-5
    assert abs(tg.hessian(lambda a: sturm(a).p[0])(1.0) - 2.0 * tau) < 1e-4
    found = tg.grad(lambda a: sturm(a).sol(0.3)[0])(1.0)
    assert abs(found + tau * 0.3 * np.cos(tau * 0.3)) < 1e-5
    solution = tg.grad(lambda a: sturm(a).x[-1])(1.0)
    assert abs(solution - 1.0) < 1e-12


def test_a_singular_term():
    """The Emden equation y″ + 2 y′/x = −q y⁵, whose solution for q = 1 is (1 + x²/3)^(−1/2)."""
    S = np.array([[0.0, 0.0], [0.0, -2.0]])

    def middle(q):
        def slopes(x, y):
            return np.vstack((y[1], -q * y[0] ** 5))

        def ends(left, right):
            return np.array([left[1], right[0] - np.sqrt(0.75)])

        guess = np.array([np.ones(5), np.zeros(5)])
        return solve_bvp(slopes, ends, np.linspace(0.0, 1.0, 5), guess, S=S, tol=1e-8).sol(0.0)[0]

    assert abs(middle(1.0) - 1.0) < 1e-8
    step = 1e-4
    wanted = (middle(1.0 + step) - middle(1.0 - step)) / (2.0 * step)
    assert abs(tg.grad(middle)(1.0) - wanted) < 1e-7


@pytest.mark.parametrize("n, k, nodes", [(1, 0, 2), (2, 1, 2), (2, 1, 3), (3, 2, 6)])
def test_the_pattern_has_all_that_is_not_zero(n, k, nodes):
    rng = np.random.default_rng(n + nodes)
    a, b, q = rng.normal(size=(n, n)), rng.normal(size=(n + k, n)), rng.normal(size=(n + k, k))

    def slopes(x, y, *p):
        return a @ np.sin(y) + (np.sum(p[0]) if k else 0.0)

    def ends(left, right, *p):
        return b @ (left * right) + (q @ p[0] if k else 0.0)

    given = dict(fun=slopes, bc=ends, x=np.arange(nodes), y=np.zeros((n, nodes)), S=None)
    given["p"] = np.zeros(k) if k else None
    places = np.linspace(0.0, 1.0, nodes) ** 2
    z = rng.normal(size=n * nodes + k)
    matrix = tg.jacobian(lambda z: BoundaryProblem(given).equations(z, places))(z)
    pattern = _pattern(given, (places,))
    found = np.zeros_like(matrix)
    sums = np.stack([matrix[:, pattern.groups == g].sum(1) for g in range(4 * n + k)])
    found[pattern.rows, pattern.columns] = sums[pattern.groups[pattern.columns], pattern.rows]
    np.testing.assert_allclose(found, matrix, rtol=0.0, atol=1e-14)


def test_slopes_that_depend_on_other_nodes_have_the_whole_jacobian():
    """The pattern does not hold then, which a random product of the Jacobian shows."""

    def solution(q, tol=1e-9):
        def slopes(x, y):
            return np.vstack((y[1], q + 0.1 * np.mean(y[0]) + 0.0 * x))

        def ends(left, right):
            return np.array([left[0], right[0]])

        x = np.linspace(0.0, 1.0, 41)
        return solve_bvp(slopes, ends, x, np.zeros((2, 41)), tol=tol).y[0, 20]

    step = 1e-3
    wanted = (solution(1.0 + step) - solution(1.0 - step)) / (2.0 * step)
    assert abs(tg.grad(solution)(1.0) - wanted) < 1e-7


def test_refusals():
    with pytest.raises(TypeError, match="S is a recorded value"):
        tg.grad(
            lambda s: solve_bvp(
                lambda x, y: -y,
                lambda a, b: b - 1.0,
                np.linspace(0.0, 1.0, 5),
                np.ones((1, 5)),
                S=s * np.ones((1, 1)),
            ).y[0, 0]
        )(-1.0)
    with pytest.raises(SingularJacobian, match="solve_bvp: the Jacobian"):
        tg.grad(
            lambda k: solve_bvp(
                lambda x, y: np.vstack((y[1], k - y[0])),
                lambda a, b: np.array([a[0], 2.0 * a[0]]),  # one condition twice
                np.linspace(0.0, 1.0, 41),
                np.zeros((2, 41)),
            ).y[0, 0]
        )(1.0)


def test_no_solution_is_warned_of():
    with pytest.warns(RuntimeWarning, match="not close to a solution"):
        tg.grad(lambda rate: bratu(rate, 1e-3).y[0, 5])(4.0)
