"""Functions and equations of complex matrices: PyTorch's, real matrices twice as large, SciPy's."""

import numpy as np
import pytest
import scipy.linalg

import tapegrad as tg
from tapegrad.scipy import linalg


def normal(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def embedded(z):
    """[[x, −y], [y, x]] for z = x + iy: sums, products, functions of it are those of z."""
    x, y = np.real(z), np.imag(z)
    return np.block([[x, -y], [y, x]])


def real_loss(a):
    """Of a real embedding: a function of its first column of blocks."""
    n = a.shape[-1] // 2
    weights = np.cos(np.arange(2 * n * n)).reshape(2 * n, n)
    return np.sum(weights * np.sin(a[:, :n]))


def loss(z):
    return real_loss(np.concatenate([np.concatenate([np.real(z), np.imag(z)], 0)] * 2, 1))


POWER = 0.7
FUNCTIONS = {
    "expm": linalg.expm,
    "logm": linalg.logm,
    "sqrtm": linalg.sqrtm,
    "signm": linalg.signm,
    "cosm": linalg.cosm,
    "sinm": linalg.sinm,
    "tanm": linalg.tanm,
    "coshm": linalg.coshm,
    "sinhm": linalg.sinhm,
    "tanhm": linalg.tanhm,
    "power": lambda a: linalg.fractional_matrix_power(a, POWER),
    "cube": lambda a: linalg.fractional_matrix_power(a, 3),
    "inverse square": lambda a: linalg.fractional_matrix_power(a, -2),
    "frechet": lambda a: linalg.expm_frechet(a, a @ a)[1],
    "sylvester": lambda a: linalg.solve_sylvester(a, a @ a, a),
    "polar": lambda a: linalg.polar(a)[0],
    "stretch": lambda a: linalg.polar(a, "left")[1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_real_matrices_twice_as_large(name, rng):
    """Values, gradients, second derivatives and forward mode."""
    f, n = FUNCTIONS[name], 3
    a = 0.2 * normal(rng, n, n) + np.diag([1.0 + 0.3j, 1.4, 1.9 - 0.2j])
    v = normal(rng, n, n)
    both = lambda a: real_loss(f(a))
    whole = lambda a: loss(f(a))
    np.testing.assert_allclose(embedded(tg.vjp(f, a)[0]), f(embedded(a)), rtol=1e-9, atol=1e-11)
    wanted = tg.grad(lambda a: both(embedded_parts(a)))(np.stack([a.real, a.imag]))
    found = tg.grad(whole)(a)
    np.testing.assert_allclose(found, wanted[0] + 1j * wanted[1], rtol=1e-9, atol=1e-10)
    slope = np.sum((np.conj(found) * v).real)
    np.testing.assert_allclose(tg.jvp(whole, (a,), (v,))[1], slope, rtol=1e-9, atol=1e-13)
    along = tg.hessian(lambda t: whole(a + t * v))(0.0)
    second = tg.hessian(lambda t: both(embedded(a) + t * embedded(v)))(0.0)
    np.testing.assert_allclose(along, second, rtol=1e-7, atol=1e-8)


def embedded_parts(parts):
    """`embedded` of the parts, recorded."""
    x, y = parts[0], parts[1]
    return np.concatenate([np.concatenate([x, -y], 1), np.concatenate([y, x], 1)], 0)


@pytest.mark.parametrize("n", [1, 4, 14])
def test_exponentials_are_torchs(n, rng):
    torch = pytest.importorskip("torch")
    a = 0.3 * normal(rng, 2, n, n)
    t = torch.tensor(a, requires_grad=True)
    (torch.linalg.matrix_exp(t) + 0.3).abs().pow(3).sum().backward()
    found = tg.grad(lambda a: np.sum(np.abs(linalg.expm(a) + 0.3) ** 3))(a)
    np.testing.assert_allclose(found, t.grad.numpy(), rtol=1e-10, atol=1e-10)


def test_a_gate_is_optimised(rng):
    """exp(−i h t) for real parameters of h: unitary, the derivative, the gate that is wanted."""
    x, z = np.array([[0, 1], [1, 0]]), np.array([[1, 0], [0, -1]])
    hadamard = (x + z) / np.sqrt(2)

    def infidelity(p):
        gate = linalg.expm(-1j * (p[0] * x + p[1] * z)) @ linalg.expm(-1j * p[2] * x)
        return 1.0 - np.abs(np.trace(np.conj(hadamard).T @ gate)) ** 2 / 4.0

    at, v = np.array([0.4, 0.9, 0.2]), np.array([0.3, -0.2, 1.0])
    h = 1e-5
    slope = (infidelity(at + h * v) - infidelity(at - h * v)) / (2 * h)
    np.testing.assert_allclose(tg.grad(infidelity)(at) @ v, slope, rtol=1e-8)
    c = tg.compile(infidelity)
    for _ in range(60):
        at = at - 0.4 * c.grad(at)
    assert c(at) < 1e-10
    np.testing.assert_allclose(c.grad(at + 0.1), tg.grad(infidelity)(at + 0.1), rtol=1e-10)
    value = tg.vjp(lambda p: linalg.expm(-1j * (p[0] * x + p[1] * z)), at)[0]
    np.testing.assert_allclose(value @ np.conj(value).T, np.eye(2), atol=1e-14)


@pytest.mark.parametrize("name", ["continuous", "discrete"])
def test_riccati(name, rng):
    """A complex equation against differences along Hermitian directions of q and r."""
    solve = getattr(linalg, f"solve_{name}_are")
    hermitian = lambda x: x @ np.conj(x).T / len(x) + np.eye(len(x))
    make = lambda: [
        *(0.4 * normal(rng, 3, 3), normal(rng, 3, 2), hermitian(normal(rng, 3, 3))),
        hermitian(normal(rng, 2, 2)),
    ]
    args, along = make(), make()
    weights = normal(rng, 3, 3)
    f = lambda *args: np.sum(np.real(weights * solve(*args)))
    gradients = tg.grad(f, (0, 1, 2, 3))(*args)
    h = 1e-5
    for k, (g, v) in enumerate(zip(gradients, along, strict=True)):
        up, down = ([*args[:k], args[k] + s * v, *args[k + 1 :]] for s in (h, -h))
        wanted = (f(*up) - f(*down)) / (2 * h)
        np.testing.assert_allclose(np.sum((np.conj(g) * v).real), wanted, rtol=1e-6, atol=1e-8)


def test_lyapunov_and_mixed_operands(rng):
    """A real matrix with a complex right side, which SciPy gets wrong: residuals, adjoints."""
    a, q = rng.normal(size=(3, 3)) + 3.0 * np.eye(3), normal(rng, 3, 3)
    cases = [
        (linalg.solve_continuous_lyapunov, lambda x: a @ x + x @ a.T),
        (lambda a, q: linalg.solve_discrete_lyapunov(0.1 * a, q), lambda x: x - 0.01 * a @ x @ a.T),
        (lambda a, q: linalg.solve_sylvester(a, np.eye(3), q), lambda x: a @ x + x),
    ]
    for f, side in cases:
        total = lambda a, q, f=f: np.sum(np.abs(tg.vjp(f, a, q)[0]) ** 2)
        np.testing.assert_allclose(side(tg.vjp(f, a, q)[0]), q, rtol=1e-10, atol=1e-12)
        by_adjoint = lambda a, q, f=f: np.sum(np.abs(f(a, q)) ** 2)
        found = tg.grad(by_adjoint, (0, 1))(a, q)
        assert found[0].dtype == float and found[1].dtype == complex
        va, vq, h = rng.normal(size=(3, 3)), normal(rng, 3, 3), 1e-5
        wanted = (total(a + h * va, q + h * vq) - total(a - h * va, q - h * vq)) / (2 * h)
        slope = np.sum(found[0] * va) + np.sum((np.conj(found[1]) * vq).real)
        np.testing.assert_allclose(slope, wanted, rtol=1e-7)


def test_procrustes(rng):
    a, b = normal(rng, 5, 3), normal(rng, 5, 3)
    r, scale = tg.vjp(linalg.orthogonal_procrustes, a, b)[0]
    theirs = scipy.linalg.orthogonal_procrustes(a, b)
    np.testing.assert_allclose(r, theirs[0], atol=1e-12)
    np.testing.assert_allclose(scale, theirs[1], rtol=1e-12)


def test_complex64_and_not_finite(rng):
    a = normal(rng, 3, 3).astype(np.complex64)
    t = tg.tensor(a, requires_grad=True)
    for f in (linalg.expm, linalg.sqrtm, linalg.cosm):
        assert f(t).dtype == np.complex64
        np.testing.assert_allclose(tg.vjp(f, a)[0], f(a.astype(complex)), rtol=2e-4, atol=1e-4)
    with pytest.raises(ValueError, match="infs or NaNs"):
        linalg.polar(tg.tensor(a, requires_grad=True) * np.nan)
    with pytest.raises((ValueError, np.linalg.LinAlgError), match="square"):
        linalg.sqrtm(t[:2])
