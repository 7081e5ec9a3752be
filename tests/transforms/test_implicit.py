"""`tg.implicit` and `tg.fixed_point`: derivatives of solutions of equations."""

import numpy as np
import pytest

import tapegrad as tg

P = np.array([2.0, 1.0])


def residual(x, p):
    return x**3 + p[0] * x - p[1]


@tg.implicit(residual)
def root(p):
    x = 0.0
    for _ in range(60):
        x -= residual(x, p) / (3.0 * x**2 + p[0])
    return x


def exact(p):
    """Cardano's formula."""
    d = np.sqrt(p[1] ** 2 / 4.0 + p[0] ** 3 / 27.0)
    return np.cbrt(p[1] / 2.0 + d) + np.cbrt(p[1] / 2.0 - d)


def test_a_root():
    np.testing.assert_allclose(root(P), exact(P), rtol=1e-14)
    np.testing.assert_allclose(tg.grad(root)(P), tg.grad(exact)(P), rtol=1e-12)
    np.testing.assert_allclose(tg.hessian(root)(P), tg.hessian(exact)(P), rtol=1e-11)
    third = lambda f: tg.jacobian(tg.hessian(f))(P)
    np.testing.assert_allclose(third(root), third(exact), rtol=1e-9)
    c = tg.compile(root)
    for p in (P, P + 1.0, 3.0 * P):
        np.testing.assert_allclose(c(p), exact(p), rtol=1e-14)
        np.testing.assert_allclose(c.grad(p), tg.grad(exact)(p), rtol=1e-11)
        np.testing.assert_allclose(c.hessian(p), tg.hessian(exact)(p), rtol=1e-10)
        along = tg.jvp(exact, (p,), (P,))[1]
        np.testing.assert_allclose(c.jvp((p,), (P,))[1], along, rtol=1e-11)
    assert "eagerly" not in repr(c)


def flow(x, p, *, scale):
    """Equations of a structured unknown and structured parameters."""
    pump, levels = x["pump"], x["levels"]
    return {
        "pump": pump**3 + p["k"] * np.sum(levels) - scale,
        "levels": [levels * p["v"] - pump],
    }


@tg.implicit(flow)
def solved(p, *, scale):
    pump = 0.5
    for _ in range(200):
        levels = pump / p["v"]
        drift = pump**3 + p["k"] * np.sum(levels) - scale
        pump -= drift / (3.0 * pump**2 + p["k"] * np.sum(1.0 / p["v"]))
    return {"pump": pump, "levels": pump / p["v"]}


def test_structures_and_keywords():
    p = {"k": 0.3, "v": np.array([1.0, 2.0])}
    found = solved(p, scale=1.5)
    assert type(found["levels"]) is np.ndarray
    f = lambda p: solved(p, scale=1.5)["levels"][1] + solved(p, scale=p["k"])["pump"]
    gradient = tg.grad(f)(p)
    assert {*gradient} == {"k", "v"}
    for c in (tg.compile(f), f):
        again = tg.grad(c)(p)
        np.testing.assert_allclose(again["v"], gradient["v"], rtol=1e-12)
    step = 1e-5
    moved = [f({"k": 0.3 + k * step, "v": p["v"]}) for k in (1, -1)]
    np.testing.assert_allclose(gradient["k"], (moved[0] - moved[1]) / (2 * step), rtol=1e-8)
    moved = [f({"k": 0.3, "v": p["v"] + k * step * np.array([0.0, 1.0])}) for k in (1, -1)]
    np.testing.assert_allclose(gradient["v"][1], (moved[0] - moved[1]) / (2 * step), rtol=1e-8)


def test_values_that_the_residual_closes_over():
    def f(a):
        @tg.implicit(lambda x: x**2 - a)
        def square_root():
            return np.sqrt(a)

        return square_root()

    np.testing.assert_allclose(tg.grad(f)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-13)
    np.testing.assert_allclose(tg.compile(f).grad(2.0), 0.5 / np.sqrt(2.0), rtol=1e-13)
    np.testing.assert_allclose(tg.grad(tg.grad(f))(2.0), -0.25 * 2.0**-1.5, rtol=1e-12)


def test_single_precision():
    f = lambda p: np.sum(root(p) ** 2)
    gradient = tg.grad(f)(P.astype(np.float32))
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, tg.grad(lambda p: exact(p) ** 2)(P), rtol=1e-5)


def test_no_unknowns():
    @tg.implicit(lambda x, p: x * np.sum(p))
    def none(p):
        return np.zeros(0)

    assert tg.grad(lambda p: np.sum(none(p)) + p[0])(P).tolist() == [1.0, 0.0]


def test_without_recording():
    with tg.no_grad():
        found = root(tg.tensor(P, requires_grad=True))
    assert not found.requires_grad and float(found) == root(P)


def test_fixed_points():
    f = lambda a: tg.fixed_point(lambda x: np.cos(a * x), 1.0)
    x = f(1.2)
    np.testing.assert_allclose(x, np.cos(1.2 * x), rtol=1e-11)
    slope = -x * np.sin(1.2 * x) / (1.0 + 1.2 * np.sin(1.2 * x))
    np.testing.assert_allclose(tg.grad(f)(1.2), slope, rtol=1e-10)
    np.testing.assert_allclose(tg.compile(f).grad(1.2), slope, rtol=1e-10)
    moved = (tg.grad(f)(1.2 + 1e-4) - tg.grad(f)(1.2 - 1e-4)) / 2e-4
    np.testing.assert_allclose(tg.grad(tg.grad(f))(1.2), moved, rtol=1e-6)


def test_fixed_points_of_structures_with_parameters():
    rng = np.random.default_rng(1)
    matrix = 0.1 * rng.normal(size=(4, 4))

    def f(matrix, b):
        step = lambda x, m, b: (m @ x[0] + b * x[1], 0.5 * np.cos(x[1]))
        return tg.fixed_point(step, (np.zeros(4), 1.0), matrix, b)[0] @ np.arange(4.0)

    def direct(matrix, b):
        x = 0.4501836112948736  # 0.5 cos(x)
        return np.linalg.solve(np.eye(4) - matrix, b * x) @ np.arange(4.0)

    given = matrix, np.ones(4)
    np.testing.assert_allclose(f(*given), direct(*given), rtol=1e-10)
    for found, wanted in zip(
        tg.grad(f, (0, 1))(*given), tg.grad(direct, (0, 1))(*given), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


# --- errors ---------------------------------------------------------------------------------------


def test_errors():
    with pytest.raises(RuntimeError, match="5 iterations do not change x by less"):
        tg.fixed_point(lambda x: -x, 1.0, max_iterations=5)
    with pytest.raises(ValueError, match="x of another structure"):
        tg.fixed_point(lambda x: np.cos(x) * np.ones(2), 1.0)
    few = tg.implicit(lambda x, p: x[0] - p[0])(lambda p: np.ones(2) * p[0])
    with pytest.raises(ValueError, match="the residual has 1 numbers for 2 unknowns"):
        tg.grad(lambda p: few(p)[0])(P)
    flat = tg.implicit(lambda x, p: 0.0 * x + p[0])(lambda p: 1.0)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        tg.grad(flat)(P)
    wrong = tg.implicit(residual)(lambda p: 5.0)
    with pytest.warns(RuntimeWarning, match="not close to a solution"):
        tg.grad(wrong)(P)


def test_a_solver_that_raises():
    @tg.implicit(residual)
    def failing(p):
        if p[0] < 0.0:
            raise ArithmeticError("no solution")
        return root(p)

    c = tg.compile(failing)
    for f in (tg.grad(failing), c.grad):
        np.testing.assert_allclose(f(P), tg.grad(exact)(P), rtol=1e-10)
        with pytest.raises(ArithmeticError, match="no solution"):
            f(-P)
        np.testing.assert_allclose(f(P), tg.grad(exact)(P), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:tapegrad.vmap:RuntimeWarning")
def test_batches():
    every = np.array([P, P + 1.0, 2.0 * P])
    wanted = np.array([exact(p) for p in every])
    np.testing.assert_allclose(tg.vmap(root)(every), wanted, rtol=1e-12)
