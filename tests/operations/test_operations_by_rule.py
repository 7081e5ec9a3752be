"""Operations without kernels: every reading follows from the rules of their declarations."""

import dataclasses

import declared
import numpy as np
import pytest
import scipy.linalg
from declared import CHECKS

import tapegrad as tg
from tapegrad._core.ops.table import TABLE

MATRIX = "np.diag([4.0, 5.0, 6.0]) + 0.1 * (x[:3, :3] + x[:3, :3].T)"
EXAMPLES = {
    "cholesky": [
        f"np.linalg.cholesky({MATRIX})",
        f"np.linalg.cholesky(np.stack([{MATRIX}, 2.0 * {MATRIX}])) ** 2",
    ],
    "solve": [
        f"np.linalg.solve({MATRIX}, x)",
        f"np.linalg.solve({MATRIX}, np.ones((3, 2)))",
        f"np.linalg.solve(np.stack([{MATRIX}, 2.0 * {MATRIX}]), x)",
        "np.linalg.solve(np.eye(3) * 2.0, x)",
    ],
}


def sample(name, text, rng):
    return (
        TABLE[name],
        declared.example_of(TABLE[name], text),
        declared.point(TABLE[name], (3, 4), rng),
    )


@pytest.mark.parametrize("name,text", [(n, text) for n in EXAMPLES for text in EXAMPLES[n]])
@pytest.mark.parametrize(
    "check", ["first order", "second order", "float32", "layouts", "compiled", "within"]
)
def test_readings(check, name, text, rng):
    op, f, x = sample(name, text, rng)
    CHECKS[check](op, f, x, rng)


def test_against_scipy(rng):
    a = rng.normal(size=(5, 5))
    a = a @ a.T + np.eye(5)
    v = rng.normal(size=(5, 5))
    value, tangent = tg.jvp(np.linalg.cholesky, (a,), (v + v.T,))
    wanted = scipy.linalg.cholesky(a, lower=True)
    np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        tangent @ wanted.T + wanted @ tangent.T, v + v.T, rtol=1e-10, atol=1e-10
    )


def test_several_adjoints_at_once(rng):
    op, f, x = sample("solve", EXAMPLES["solve"][2], rng)
    jacobian = tg.jacobian(f)(x)
    rows = [tg.grad(lambda x, k=k: f(x)[k])(x) for k in np.ndindex(f(x).shape)]
    np.testing.assert_allclose(jacobian.reshape(len(rows), *x.shape), rows, rtol=1e-10, atol=1e-12)


def test_values_of_the_time_of_the_row(rng):
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


def test_names_and_constants():
    a = tg.tensor(np.diag([1.0, 4.0]), requires_grad=True)
    factor = np.linalg.cholesky(a)
    assert factor.grad_fn.name() == "CholeskyBackward0"
    b = np.ones((2, 1))
    x = np.linalg.solve(a, b)
    b[:] = 7.0  # the row has a copy
    x.sum().backward()
    np.testing.assert_allclose(a.grad, [[-1.0, -0.25], [-0.25, -0.0625]])


def objective(a):
    return np.sum(np.sin(np.linalg.cholesky(a + a.T)) * np.linalg.cholesky(a @ a.T))


def matrices(rng, count):
    a = rng.uniform(0.0, 0.3, (count, 4, 4))
    return a + 3.0 * np.eye(4)


def test_programs(rng, tmp_path):
    """Values and gradients of a program, of its rows on threads, and of one from a file."""
    many = matrices(rng, 6)
    c = tg.compile(objective)
    for a in many:
        value, gradient = c.value_and_grad(a)
        wanted, slope = tg.value_and_grad(objective)(a)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-12)
    assert c._reason is None
    values, gradients = c.map(many, threads=2)
    np.testing.assert_allclose(values, [objective(a) for a in many], rtol=1e-12)
    wanted = [tg.grad(objective)(a) for a in many]
    np.testing.assert_allclose(gradients, wanted, rtol=1e-10, atol=1e-12)
    c.save(tmp_path / "program")
    loaded = tg.load(tmp_path / "program")
    np.testing.assert_allclose(loaded.grad(many[1]), wanted[1], rtol=1e-10, atol=1e-12)


def test_native_programs(rng):
    many = matrices(rng, 3)
    c = tg.compile(objective, native=True)
    c.grad(many[0])
    c.wait()
    for a in many:
        np.testing.assert_allclose(c.grad(a), tg.grad(objective)(a), rtol=1e-10, atol=1e-12)


def test_operands_that_are_broadcast_or_seen_twice(rng):
    def f(a):
        whole = np.broadcast_to(a[0], (3, 3)) * 0.1 + np.eye(3) * 4.0
        return np.sum(np.linalg.solve(np.broadcast_to(whole, (2, 3, 3)), np.stack([a, a])) ** 2)

    c = tg.compile(f, native=False)
    for a in rng.uniform(0.5, 1.5, (4, 3, 3)):
        np.testing.assert_allclose(c.grad(a), tg.grad(f)(a), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(c.hessian(a), tg.hessian(f)(a), rtol=1e-9, atol=1e-11)


def test_what_a_value_raises_in_a_program():
    """A matrix that is not definite is NumPy's error, at every call."""
    c = tg.compile(lambda a: np.sum(np.linalg.cholesky(a)), native=False)
    good, bad = np.diag([1.0, 4.0]), np.diag([1.0, -4.0])
    wanted = [[0.5, 0.5], [0.5, 0.25]]
    for _ in range(2):
        np.testing.assert_allclose(c.grad(good), wanted)
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            c.grad(bad)


def test_what_a_rule_raises_in_a_program():
    """Never a gradient without the part of a rule that failed."""

    def failing(np, g, out, _a):
        raise RuntimeError("the rule failed")

    with declared.declared(dataclasses.replace(TABLE["cholesky"], vjp=failing)):
        c = tg.compile(lambda a: np.sum(np.linalg.cholesky(a)), native=False, verify="never")
        a = np.diag([1.0, 4.0])
        for _ in range(3):
            np.testing.assert_allclose(c(a), 3.0)
            with pytest.raises(RuntimeError, match="the rule failed"):
                c.grad(a)


def test_tools(rng):
    """Profiler, anomaly mode and Numba take rows that Python passes back as any others."""
    (a,) = matrices(rng, 1)
    wanted = tg.grad(objective)(a)
    with tg.autograd.profiler.profile() as profile, tg.autograd.detect_anomaly():
        x = tg.tensor(a, requires_grad=True)
        objective(x).backward()
    np.testing.assert_allclose(x.grad, wanted, rtol=1e-12)
    names = [event.key for event in profile.key_averages()]
    assert "cholesky" in names and "CholeskyBackward0" in names
    _, value_and_grad = tg.compile(objective, native=False).numba(a)
    out = np.zeros_like(a)
    np.testing.assert_allclose(value_and_grad(a, out), objective(a), rtol=1e-12)
    np.testing.assert_allclose(out, wanted, rtol=1e-10, atol=1e-12)
