"""Equations of Sylvester and Lyapunov against SciPy, differences, and a system of all elements."""

import numpy as np
import pytest
import scipy.linalg
from declared import difference
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
from tapegrad.scipy import linalg


def expression(text, shape=(3, 3), **fields):
    return Expression(text, None, shape, names={"linalg": linalg}, **fields)


TABLE = [
    expression("linalg.solve_sylvester(x + 2.0 * np.eye(3), x.T, np.cos(x))"),
    expression("linalg.solve_sylvester(x[:1, :1], np.diag(x[0]), x[1:2])"),
    expression("linalg.solve_sylvester(np.diag([1.0, 2.0, 3.0]), x @ x.T, x)"),
    expression("linalg.solve_sylvester(x @ x.T, np.eye(3), np.eye(3))"),
    expression("linalg.solve_sylvester(np.stack([x @ x.T, 2.0 * x @ x.T]), np.eye(3), x)"),
    expression("linalg.solve_continuous_lyapunov(x - 4.0 * np.eye(3), -np.eye(3))"),
    expression("linalg.solve_continuous_lyapunov(np.diag([-1.0, -2.0, -3.0]), x)"),
    expression("linalg.solve_lyapunov(np.tril(x) + np.eye(3), x @ x.T)"),
    expression("linalg.solve_discrete_lyapunov(0.2 * x, x @ x.T)"),
    expression("linalg.solve_discrete_lyapunov(0.2 * x, x, 'bilinear')"),
    expression("linalg.solve_discrete_lyapunov(0.1 * x.T, np.eye(3), method='direct')"),
    expression("linalg.solve_discrete_lyapunov(0.2 * x, np.stack([x, x.T]))"),
]


@parametrized(TABLE)
def test_derivatives(expression):
    CHECKS["derivatives"](expression)


@native_parts(TABLE[::3])
def test_programs_of_all(part):
    check_native(part)


# --- references -----------------------------------------------------------------------------------


def naive_sylvester(a, b, q):
    """The same by one system of all elements."""
    one, other = np.eye(a.shape[0]), np.eye(b.shape[0])
    system = np.kron(a, other) + np.kron(one, b.T)
    return np.linalg.solve(system, q.reshape(-1)).reshape(a.shape[0], b.shape[0])


def naive_discrete(a, q):
    return np.linalg.solve(np.eye(a.size) - np.kron(a, a), q.reshape(-1)).reshape(q.shape[0], -1)


CASES = {
    "sylvester": (linalg.solve_sylvester, naive_sylvester, [(4, 4), (2, 2), (4, 2)]),
    "continuous": (
        linalg.solve_continuous_lyapunov,
        lambda a, q: naive_sylvester(a, a.T, q),
        [(4, 4), (4, 4)],
    ),
    "discrete": (linalg.solve_discrete_lyapunov, naive_discrete, [(4, 4), (4, 4)]),
    "bilinear": (
        lambda a, q: linalg.solve_discrete_lyapunov(a, q, "bilinear"),
        naive_discrete,
        [(4, 4), (4, 4)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_argument_to_the_second_order(case):
    ours, naive, shapes = CASES[case]
    rng = np.random.default_rng(7)
    args = [0.4 * rng.normal(size=shape) for shape in shapes]
    args[0] += np.eye(4) * (0.0 if case in ("discrete", "bilinear") else 2.0)
    weights = rng.normal(size=ours(*args).shape)
    every = tuple(range(len(args)))
    np.testing.assert_allclose(ours(*args), naive(*args), rtol=1e-10, atol=1e-12)
    found, wanted = (
        tg.grad(lambda *x, f=f: np.sum(np.sin(f(*x)) * weights), every) for f in (ours, naive)
    )
    for one, two in zip(found(*args), wanted(*args), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)
    for k in every:
        second = [
            tg.grad(lambda x, g=g, k=k: np.sum(g(*args[:k], x, *args[k + 1 :])[0] ** 2))(args[k])
            for g in (found, wanted)
        ]
        np.testing.assert_allclose(*second, rtol=1e-8, atol=1e-9)


def test_values_are_scipys():
    rng = np.random.default_rng(2)
    for n in (3, 12):
        a, q = rng.normal(size=(2, n, n)) / n
        for name in ("solve_continuous_lyapunov", "solve_discrete_lyapunov"):
            theirs = getattr(scipy.linalg, name)(a, q)
            np.testing.assert_allclose(tg.vjp(getattr(linalg, name), a, q)[0], theirs, rtol=1e-9)
        value = tg.vjp(lambda a, q=q: linalg.solve_sylvester(a, a + np.eye(n), q), a)[0]
        np.testing.assert_allclose(value, scipy.linalg.solve_sylvester(a, a + np.eye(n), q))


def test_matrices_without_elements():
    for f in (linalg.solve_continuous_lyapunov, linalg.solve_discrete_lyapunov):
        x = tg.tensor(np.zeros((0, 0)), requires_grad=True)
        np.sum(f(x, x)).backward()
        assert x.grad.shape == (0, 0)
    q = tg.tensor(np.zeros((0, 2)), requires_grad=True)
    np.sum(linalg.solve_sylvester(np.zeros((0, 0)), np.eye(2), q)).backward()
    assert q.grad.shape == (0, 2)


def test_singular_equations():
    a = np.diag([1.0, -1.0])
    for f in (
        lambda a: linalg.solve_sylvester(a, a, np.eye(2)),
        lambda a: linalg.solve_continuous_lyapunov(a, np.eye(2)),
        lambda a: linalg.solve_discrete_lyapunov(a, np.eye(2)),
        lambda a: linalg.solve_discrete_lyapunov(a, np.eye(2), "bilinear"),
    ):
        with pytest.raises(np.linalg.LinAlgError, match="[Ss]ingular"):
            tg.grad(lambda a, f=f: np.sum(f(a)))(a)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="products .* are not finite"):
        tg.grad(lambda a: np.sum(linalg.solve_discrete_lyapunov(a, np.eye(2))))(1e300 * a)
    c = tg.compile(lambda a: np.sum(linalg.solve_continuous_lyapunov(a, np.eye(2))))
    assert np.allclose([c.grad(k * np.eye(2))[0, 0] for k in (1.0, 2.0)], [-0.5, -0.125])
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        c.grad(a)


def test_bad_shapes():
    a = tg.tensor(np.eye(3), requires_grad=True)
    for call in (
        lambda: linalg.solve_sylvester(a[:2], a, a),
        lambda: linalg.solve_sylvester(a, a, a[:2]),
        lambda: linalg.solve_continuous_lyapunov(a, a[:2, :2]),
        lambda: linalg.solve_discrete_lyapunov(a[0], a),
        lambda: linalg.solve_discrete_lyapunov(a, a, "fast"),
    ):
        with pytest.raises(ValueError, match="has shape|Unknown solver"):
            call()
    bad = np.full((2, 2), np.nan)
    with pytest.raises(ValueError, match="infs or NaNs"):
        tg.grad(lambda a: np.sum(linalg.solve_sylvester(a, a, a)))(bad)


# --- Riccati --------------------------------------------------------------------------------------


def riccati_arguments(rng, n=3, m=2):
    """a, b, q, r, e, s of an equation that has a solution, and directions for each."""
    symmetric = lambda k: (lambda x: x @ x.T / k + np.eye(k))(rng.normal(size=(k, k)))
    a, e, along_a, along_e = rng.normal(size=(4, n, n))
    b, s, along_b, along_s = rng.normal(size=(4, n, m))
    args = (0.5 * a, b, symmetric(n), symmetric(m), np.eye(n) + 0.1 * e, 0.1 * s)
    return args, (along_a, along_b, symmetric(n), symmetric(m), along_e, along_s)


@pytest.mark.parametrize("name", ["solve_continuous_are", "solve_discrete_are"])
@pytest.mark.parametrize("count", [4, 6])
def test_riccati(name, count, rng):
    """Every argument, general and simple equations, to the second order and forwards."""
    args, along = (part[:count] for part in riccati_arguments(rng))
    weights = rng.normal(size=(3, 3))
    f = lambda *args: np.sum(np.sin(getattr(linalg, name)(*args)) * weights)
    every = tuple(range(count))
    gradients = tg.grad(f, every)(*args)
    for k in every:
        line = lambda t, k=k: f(*args[:k], args[k] + t * along[k], *args[k + 1 :])
        wanted = difference(line, 0.0, 0.1) / 0.1
        np.testing.assert_allclose(np.sum(gradients[k] * along[k]), wanted, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(tg.jvp(line, (0.0,), (1.0,))[1], wanted, rtol=1e-7, atol=1e-8)
        second = tg.grad(tg.grad(line))(0.0)
        wanted = difference(tg.grad(line), 0.0, 0.1) / 0.1
        np.testing.assert_allclose(second, wanted, rtol=1e-6, atol=1e-7)


def test_recorded_general_equations_hold():
    """SciPy 1.17 gives what does not solve them, unless `balanced` is False."""
    x, one = np.array([-1.3, -0.7, -0.2, 0.4, 0.8, 1.6]), np.eye(6)
    a, e = 0.1 * x[:, None] * np.cos(x) - 0.5 * one, 0.1 * x[:, None] * np.sin(x) + one
    q = np.diag(x * x)
    recorded = tg.tensor(a, requires_grad=True)
    found = linalg.solve_continuous_are(recorded, one, q, one, e).detach().numpy()
    left = a.T @ found @ e
    np.testing.assert_allclose(left + left.T - e.T @ found @ found @ e + q, 0.0, atol=1e-12)


def test_riccati_of_numbers():
    """With b = q = r = 1 and numbers: x = a + √(a² + 1)."""
    f = lambda a: linalg.solve_continuous_are(a, [[1.0]], [[1.0]], [[1.0]])[0, 0]
    a = np.array([[0.7]])
    np.testing.assert_allclose(tg.grad(f)(a), 1.0 + a / np.sqrt(a * a + 1.0), rtol=1e-12)
    np.testing.assert_allclose(tg.hessian(f)(a).reshape(1, 1), (a * a + 1.0) ** -1.5, rtol=1e-11)


def test_riccati_in_programs_and_bad_arguments(rng):
    args, along = riccati_arguments(rng)
    f = lambda a, q: np.sum(linalg.solve_continuous_are(a, args[1], q @ q.T, args[3]))
    c = tg.compile(f, argnums=(0, 1))
    q = np.diag([1.0, 2.0, 1.5])
    for step in (0.0, 0.1, -0.2):
        at = args[0] + step * along[0]
        for one, two in zip(c.grad(at, q), tg.grad(f, (0, 1))(at, q), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-10)
    with pytest.raises(ValueError, match="should be symmetric"):
        tg.grad(lambda q: np.sum(linalg.solve_discrete_are(*args[:2], q, args[3])))(args[0])
    with pytest.raises(ValueError, match="same number of rows"):
        tg.grad(lambda b: np.sum(linalg.solve_continuous_are(args[0], b, *args[2:4])))(args[1][:2])
    with pytest.raises(ValueError, match="infs or NaNs"):
        tg.grad(lambda a: np.sum(linalg.solve_continuous_are(a, *args[1:4])))(args[0] * np.nan)
    with pytest.raises(np.linalg.LinAlgError, match="finite solution|symplectic"):
        solve = lambda b: np.sum(linalg.solve_continuous_are(np.eye(3), b, *args[2:4]))
        tg.grad(solve)(0.0 * args[1])
