"""Operations declared in one place, without kernels: every reading follows from the rules."""

import declared
import numpy as np
import pytest
import scipy.linalg
from declared import CHECKS

import tapegrad as tg
from tapegrad._core.operations.declaring import operation
from tapegrad._core.ops.table import BY_CODE, TABLE
from tapegrad._core.tape.compiled_sweep import compiled
from tapegrad._core.tensor.registry import OF_NUMPY, PUBLIC


def transposed(np, x):
    return np.swapaxes(x, -1, -2)


def cholesky_vjp(np, g, out, _a):
    half = np.tri(out.shape[-1]) - 0.5 * np.eye(out.shape[-1])
    p = np.matmul(transposed(np, out), g) * half
    s = np.linalg.solve(transposed(np, out), p)
    s = transposed(np, np.linalg.solve(transposed(np, out), transposed(np, s)))
    return (0.5 * (s + transposed(np, s)),)


def cholesky_jvp(np, t, out, _a):
    half = np.tri(out.shape[-1]) - 0.5 * np.eye(out.shape[-1])
    p = np.linalg.solve(out, 0.5 * (t[0] + transposed(np, t[0])))
    return np.matmul(out, transposed(np, np.linalg.solve(out, transposed(np, p))) * half)


def solve_vjp(np, g, out, a, _b):
    back = np.linalg.solve(transposed(np, a), g)
    return (lambda: -np.matmul(back, transposed(np, out)), back)


MATRIX = "np.diag([4.0, 5.0, 6.0]) + 0.1 * (x[:3, :3] + x[:3, :3].T)"
EXAMPLES = {
    "cholesky": [f"np.linalg.cholesky({MATRIX})", f"np.linalg.cholesky({MATRIX}) ** 2"],
    "solve": [
        f"np.linalg.solve({MATRIX}, x)",
        f"np.linalg.solve({MATRIX}, np.ones((3, 2)))",
        f"np.linalg.solve(np.stack([{MATRIX}, 2.0 * {MATRIX}]), x)",
        "np.linalg.solve(np.eye(3) * 2.0, x)",
    ],
}


@pytest.fixture
def new():
    """The declarations, as a file of a family would hold them; they are taken back afterwards."""
    before = [(one, dict(one)) for one in (TABLE, BY_CODE, PUBLIC, OF_NUMPY)]

    @operation("linalg.cholesky", vjp=cholesky_vjp, jvp=cholesky_jvp)
    def cholesky(a):
        """cholesky(a): the lower triangular factor of a positive definite matrix."""
        return np.linalg.cholesky(a)

    @operation("linalg.solve", vjp=solve_vjp)
    def solve(a, b):
        """solve(a, b): the solution of linear equations with several right-hand sides."""
        return np.linalg.solve(a, b)

    codes = TABLE["cholesky"].code, TABLE["solve"].code
    yield
    for one, content in before:
        one.clear()
        one.update(content)
    compiled().structural[list(codes)] = 0


def sample(name, text, rng):
    return (
        TABLE[name],
        declared.example_of(TABLE[name], text),
        declared.point(TABLE[name], (3, 4), rng),
    )


@pytest.mark.parametrize("name,text", [(n, text) for n in EXAMPLES for text in EXAMPLES[n]])
@pytest.mark.parametrize("check", ["first order", "second order", "float32", "layouts"])
def test_readings(check, name, text, new, rng):
    op, f, x = sample(name, text, rng)
    CHECKS[check](op, f, x, rng)


def test_against_scipy(new, rng):
    a = rng.normal(size=(5, 5))
    a = a @ a.T + np.eye(5)
    v = rng.normal(size=(5, 5))
    value, tangent = tg.jvp(np.linalg.cholesky, (a,), (v + v.T,))
    wanted = scipy.linalg.cholesky(a, lower=True)
    np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        tangent @ wanted.T + wanted @ tangent.T, v + v.T, rtol=1e-10, atol=1e-10
    )


def test_several_adjoints_at_once(new, rng):
    op, f, x = sample("solve", EXAMPLES["solve"][2], rng)
    jacobian = tg.jacobian(f)(x)
    rows = [tg.grad(lambda x, k=k: f(x)[k])(x) for k in np.ndindex(f(x).shape)]
    np.testing.assert_allclose(jacobian.reshape(len(rows), *x.shape), rows, rtol=1e-10, atol=1e-12)


def test_values_of_the_time_of_the_row(new, rng):
    """Operands and result are written in place before the sweep."""
    a = rng.normal(size=(3, 3))
    a = a @ a.T + np.eye(3)

    def written(a):
        y = np.copy(a)
        factor = np.linalg.cholesky(y)
        y[0] = 100.0
        square = factor * factor
        factor[1:] = y[1:] * 2.0
        return np.sum(square) + np.sum(factor * a) + np.sum(y)

    def plain(a):
        factor = np.linalg.cholesky(a)
        rest = np.concatenate([factor[:1], a[1:] * 2.0])
        return np.sum(factor * factor) + np.sum(rest * a) + np.sum(a[1:])

    np.testing.assert_allclose(tg.grad(written)(a), tg.grad(plain)(a), rtol=1e-10)
    v = rng.normal(size=(3, 3))
    np.testing.assert_allclose(tg.hvp(written)(a, v), tg.hvp(plain)(a, v), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        tg.jvp(written, (a,), (v,))[1], np.sum(tg.grad(plain)(a) * v), rtol=1e-10
    )


def test_names_and_constants(new):
    a = tg.tensor(np.diag([1.0, 4.0]), requires_grad=True)
    factor = np.linalg.cholesky(a)
    assert factor.grad_fn.name() == "CholeskyBackward0"
    b = np.ones((2, 1))
    x = np.linalg.solve(a, b)
    b[:] = 7.0  # the row has a copy
    x.sum().backward()
    np.testing.assert_allclose(a.grad, [[-1.0, -0.25], [-0.25, -0.0625]])


def test_a_program_is_refused_in_words(new):
    """There is no kernel for the value yet."""
    a = np.diag([1.0, 4.0])
    f = lambda a: np.sum(np.linalg.cholesky(a) ** 2)  # noqa: E731
    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="cholesky, which has no compiled value"):
        c.grad(a)
    np.testing.assert_allclose(c.grad(2.0 * a), tg.grad(f)(2.0 * a))
