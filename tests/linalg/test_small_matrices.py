"""Small matrices as operations on numbers: values, derivatives, pivots, and what is refused."""

import numpy as np
import pytest
from passed_programs import evaluated

import tapegrad as tg
from tapegrad._program.build import scalarization
from tapegrad._program.build.executable import Program
from tapegrad._program.build.scalarization import spread
from tapegrad._program.files.encode import check
from tapegrad._program.ir.kernel_step import Kernel
from tapegrad._program.ir.scalars_step import Scalars
from tapegrad._program.replay.operation_parts import error_of
from tapegrad.scipy.linalg import solve_triangular

LinAlgError = np.linalg.LinAlgError
FUNCTIONS = {
    "solve": lambda a, b: np.sum(np.linalg.solve(a, b) ** 2),
    "vector": lambda a, b: np.sum(np.linalg.solve(a, b[:, 0]) ** 3),
    "transposed": lambda a, b: np.sum(np.linalg.solve(a.T, b) * b),
    "inverse": lambda a, b: np.sum(np.linalg.inv(a) @ b * b),
    "determinant": lambda a, b: np.linalg.det(a) * np.sum(b) + np.linalg.det(a.T @ a),
    "cholesky": lambda a, b: np.sum(
        np.linalg.cholesky(a @ a.T + 0.1 * np.eye(len(a))) ** 3 * b[0, 0]
    ),
    "triangular": lambda a, b: np.sum(
        solve_triangular(a @ a.T + np.eye(len(a)), b, lower=True) * b
        + solve_triangular(a.T @ a + np.eye(len(a)), b, trans=1, lower=True) ** 2
        + solve_triangular(a, b, trans="C", unit_diagonal=True)
    ),
    "together": lambda a, b: (
        np.sum(np.linalg.solve(a, b)) * np.linalg.det(a) + np.sum(np.linalg.inv(a) * a.T)
    ),
    "repeated": lambda a, b: np.sum(np.linalg.inv(np.linalg.inv(a) + np.linalg.solve(a, b) @ b.T)),
    "inner derivative": lambda a, b: np.sum(
        tg.grad(lambda b: np.sum(np.linalg.solve(a, b) ** 2))(b) * a[:, :1]
    ),
}


@pytest.fixture(autouse=True)
def whatever_is_small_is_written_out(monkeypatch):
    for name in ("LEAST", "NEARLY", "MOSTLY"):
        monkeypatch.setattr(scalarization, name, 0)


def found(f, *arrays):
    """The program of a function as it is recorded, and written out."""
    c = tg.compile(f, argnums=(0, 1), verify="never", native=False)
    for _ in range(2):
        c.value_and_grad(*arrays)
    (family,) = c._families.found.values()
    code = family.found[0].program.source
    made = spread(code)
    check(made)
    return code, made


def derived(code, a, b):
    """The value of a program and its derivatives."""
    (value,), slopes = evaluated(code, a, b)
    seed = np.random.default_rng(0).integers(1, 5)
    shapes = np.shape(a), np.shape(b)
    return value, [x.reshape(shape) / seed for x, shape in zip(slopes, shapes, strict=True)]


def matrices(n, rng):
    """Matrices whose rows have to be exchanged, in every way."""
    for _ in range(4):
        yield rng.normal(size=(n, n)), rng.normal(size=(n, 2))
    for order in ([*range(1, n), 0], [*range(n)][::-1]):
        yield np.eye(n)[order] + 1e-12 * rng.normal(size=(n, n)), rng.normal(size=(n, 2))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(name, n, rng):
    f = FUNCTIONS[name]
    code, made = found(f, np.eye(n) + 0.1 * rng.normal(size=(n, n)), rng.normal(size=(n, 2)))
    assert not any(isinstance(step, Kernel) and step.out.size > 1 for step in made.steps)
    assert any(isinstance(step, Scalars) for step in made.steps)
    for a, b in matrices(n, rng):
        value, gradients = derived(made, a, b)
        wanted, slopes = tg.value_and_grad(f, argnums=(0, 1))(a, b)
        scale = max(np.abs(slope).max() for slope in slopes)
        np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9)
        for one, two in zip(gradients, slopes, strict=True):
            np.testing.assert_allclose(
                one, np.reshape(two, one.shape), rtol=1e-8, atol=1e-9 * scale
            )


def test_a_tiny_pivot_loses_no_digits(rng):
    """Without exchanges of rows the solution would be 0, 1."""
    _, made = found(FUNCTIONS["vector"], np.eye(2), np.ones((2, 2)))
    a, b = np.array([[1e-20, 1.0], [1.0, 1.0]]), np.array([[1.0, 0.0], [2.0, 0.0]])
    (value,), _ = evaluated(made, a, b)
    np.testing.assert_allclose(value, 2.0, rtol=1e-14)


def test_determinants_of_singular_matrices_have_derivatives(rng):
    _, made = found(FUNCTIONS["determinant"], np.eye(4), np.ones((4, 2)))
    a = rng.normal(size=(4, 3)) @ rng.normal(size=(3, 4))
    _, (slope, _) = derived(made, a, np.ones((4, 2)))
    wanted = tg.grad(FUNCTIONS["determinant"])(a, np.ones((4, 2)))
    np.testing.assert_allclose(slope, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["solve", "transposed", "inverse", "together"])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_singular_matrices_are_refused(name, n, rng):
    _, made = found(FUNCTIONS[name], np.eye(n), np.ones((n, 2)))
    for bad in (np.zeros((n, n)), np.ones((n, n)) - np.eye(n) * (n == 1), np.diag([0.0] * n)):
        program = Program(made)
        run = program.begin()
        status = program.forward(run, [bad, np.ones((n, 2))])
        error = error_of(run.address, status)
        assert type(error) is LinAlgError and str(error) == "Singular matrix"
    value, _ = derived(made, np.eye(n), np.ones((n, 2)))
    np.testing.assert_allclose(value, FUNCTIONS[name](np.eye(n), np.ones((n, 2))))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_small_cholesky_factor(n, upper, rng):
    """One triangle is read, and the derivative is that of a symmetric matrix."""

    def f(a, b):
        return np.sum(np.linalg.cholesky(a, upper=upper) * np.arange(1.0, n * n + 1).reshape(n, n))

    a, b = rng.normal(size=(n, n)), np.ones((n, 2))
    a = a @ a.T + np.eye(n)
    _, made = found(f, a, b)
    a[np.tril_indices(n, -1) if upper else np.triu_indices(n, 1)] = 7.0  # which nothing reads
    value, (slope, _) = derived(made, a, b)
    wanted, (gradient, _) = tg.value_and_grad(f, argnums=(0, 1))(a, b)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    np.testing.assert_allclose(slope, gradient, rtol=1e-9, atol=1e-10)
    program = Program(made)
    run = program.begin()
    error = error_of(run.address, program.forward(run, [-a, b]))
    assert type(error) is LinAlgError and str(error) == "Matrix is not positive definite"


def test_factors_that_others_read_stay():
    """slogdet is no operation on numbers: its factors are computed, by LAPACK."""

    def f(a, b):
        return np.linalg.slogdet(a)[1] + np.sum(np.linalg.solve(a, b))

    a, b = np.array([[2.0, 1.0], [0.5, 3.0]]), np.ones((2, 2))
    _, made = found(f, a, b)
    value, (slope, _) = derived(made, a, b)
    wanted, (gradient, _) = tg.value_and_grad(f, argnums=(0, 1))(a, b)
    np.testing.assert_allclose(value, wanted, rtol=1e-13)
    np.testing.assert_allclose(slope, gradient, rtol=1e-12)


def test_a_filter_is_one_loop(rng):
    """A Kalman filter written with np.linalg, in a native program."""
    seen = rng.normal(size=(24, 2))
    turn = np.array([[1.0, 0.1], [-0.1, 0.95]])

    def filtered(p):
        x, cov, total = np.zeros(2), np.eye(2), 0.0
        for y in seen:
            x, cov = turn @ x, turn @ cov @ turn.T + p[0] * np.eye(2)
            s, e = p[2] * (cov + p[1] * np.eye(2)), y - x
            total = total - 0.5 * (e @ np.linalg.solve(s, e) + np.log(np.linalg.det(s)))
            gain = cov @ np.linalg.inv(s)
            x, cov = x + gain @ e, cov - gain @ cov
        return total

    c = tg.compile(filtered, native=True, verify="never")
    p = np.array([0.3, 0.5, 1.0])
    for _ in range(2):
        c.value_and_grad(p)
    c.wait()
    (family,) = c._families.found.values()
    steps = family.found[0].program.code.steps
    assert sum(isinstance(step, Kernel) for step in steps) == 1 and len(steps) <= 4
    assert "loop of 2" in c.explain()
    for scale in (1.0, 2.0):
        value, gradient = c.value_and_grad(p * scale)
        wanted, slope = tg.value_and_grad(filtered)(p * scale)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-10)
    for call in (c, c.value_and_grad):
        with pytest.raises(LinAlgError, match="Singular matrix"):
            call(p * [1.0, 1.0, 0.0])
    np.testing.assert_allclose(c(p), filtered(p), rtol=1e-12)
