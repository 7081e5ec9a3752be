"""Linear algebra of complex matrices against PyTorch: values, gradients, second derivatives."""

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")
RANDOM = np.random.default_rng(5)


def normal(*shape):
    return RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)


A, B, W, R = normal(3, 3) + 2.0 * np.eye(3), normal(3, 2), normal(3, 3), RANDOM.normal(size=(3, 3))
BATCH = normal(2, 3, 3) + 2.0 * np.eye(3)
EXPRESSIONS = [
    "np.linalg.inv(a)",
    "np.linalg.inv(a) @ W",
    "np.linalg.inv(a.real + 3.0j * I)",
    "np.linalg.inv(R + a)",
    "np.linalg.inv(np.linalg.inv(a) + W)",
    "np.linalg.solve(a, B)",
    "np.linalg.solve(a, B[:, 0])",
    "np.linalg.solve(a.T, B)",
    "np.linalg.solve(a, R)",
    "np.linalg.solve(R + 3.0 * I, a)",
    "np.linalg.solve(R + 3.0 * I, a[:, 1])",
    "np.linalg.solve(a, np.linalg.solve(a.T, W))",
    "np.linalg.solve(np.stack([a, 2.0 * a + W]), B)",
    "np.linalg.solve(a.real + 3.0 * I, a.imag)",
    "np.linalg.solve(a, a.T)",
    "np.linalg.det(a)",
    "np.linalg.det(a[:2, 1:])",
    "np.linalg.det(a[:1, :1])",
    "np.linalg.det(np.stack([a, W + a])) * a[:2, 0]",
    "np.linalg.det(a.imag) * a",
    "np.linalg.slogdet(a)[0]",
    "np.linalg.slogdet(a)[1]",
    "np.linalg.slogdet(a)[0] * np.linalg.slogdet(a)[1] * W",
    "np.linalg.slogdet(np.stack([a, W + 1j * a]))[1]",
    "np.linalg.matrix_power(a, 0) * a",
    "np.linalg.matrix_power(a, 1)",
    "np.linalg.matrix_power(a, 3)",
    "np.linalg.matrix_power(0.5 * a, 5)",
    "np.linalg.matrix_power(a, -2)",
    "np.linalg.multi_dot([a, B, B.T, W])",
    "np.linalg.multi_dot([B[:, 0], a, R, a[0]])",
    "np.linalg.tensorsolve(a.reshape(3, 1, 3), B[:, :1])",
    "np.linalg.tensorinv(a.reshape(3, 1, 3), ind=1)",
]


def functions(text):
    """A real function of a complex matrix, by NumPy and by PyTorch, in which all parts count."""
    code = compile(text, "an expression", "eval")
    theirs = compile(text.replace("np.", "torch."), "one of PyTorch", "eval")
    ours = {"np": np, "B": B, "W": W, "R": R, "I": np.eye(3)}
    others = {name: torch.tensor(x) for name, x in ours.items() if name != "np"}
    others |= {"torch": torch, "R": torch.tensor(R + 0j)}  # which takes no two dtypes

    def f(a):
        made = eval(code, {**ours, "a": a})
        return np.sum(np.sin(made.real) * 0.7) + np.sum(made.imag * made.real)

    def g(a):
        made = eval(theirs, {**others, "a": a})
        imag = made.imag if made.is_complex() else torch.zeros_like(made)
        return torch.sum(torch.sin(made.real) * 0.7) + torch.sum(imag * made.real)

    return f, g


def expected(g, a, v):
    """Value, gradient, and the gradient of its product with v."""
    leaf = torch.tensor(a, requires_grad=True)
    value = g(leaf)
    (gradient,) = torch.autograd.grad(value, leaf, create_graph=True)
    total = torch.sum(gradient.real * torch.tensor(v.real) + gradient.imag * torch.tensor(v.imag))
    (product,) = torch.autograd.grad(total, leaf, materialize_grads=True)
    return value.item(), gradient.detach().numpy(), product.numpy()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression(text):
    """Eagerly, and by programs recorded at another matrix."""
    f, g = functions(text)
    v = normal(3, 3)
    c = tg.compile(f, native=False)
    c.value_and_grad(A)

    def along(a):
        gradient = tg.grad(f)(a)
        return np.sum(gradient.real * v.real + gradient.imag * v.imag)

    for a in (A, 0.8 * A + 0.3 * W, A.T):
        value, gradient, product = expected(g, a, v)
        for found in (tg.value_and_grad(f)(a), c.value_and_grad(a)):
            np.testing.assert_allclose(found[0], value, rtol=1e-9)
            np.testing.assert_allclose(found[1], gradient, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(tg.grad(along)(a), product, rtol=1e-9, atol=1e-9)


def test_holomorphic_derivatives():
    """The derivative of a determinant is its cofactors, conjugated nowhere."""
    slope = tg.grad(np.linalg.det, holomorphic=True)(A)
    np.testing.assert_allclose(slope, np.linalg.det(A) * np.linalg.inv(A).T, rtol=1e-12)
    singular = normal(3, 2) @ normal(2, 3)
    wanted = np.zeros((3, 3), complex)
    for i in range(3):
        for j in range(3):
            minor = np.delete(np.delete(singular, i, 0), j, 1)
            wanted[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    np.testing.assert_allclose(tg.grad(np.linalg.det, holomorphic=True)(singular), wanted, 1e-10)


def test_singular_and_unfit_matrices():
    c = tg.compile(lambda a: np.sum(np.abs(np.linalg.inv(a))), native=False)
    c.grad(A)
    for call in (tg.grad(lambda a: np.sum(np.abs(np.linalg.inv(a)))), c.grad):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            call(np.ones((3, 3)) * 1j)
    for f in (np.linalg.inv, np.linalg.det, lambda a: np.linalg.slogdet(a)[1]):
        with pytest.raises(np.linalg.LinAlgError):
            tg.grad(lambda a, f=f: np.sum(np.abs(f(a))))(A[:2])
    with pytest.raises(ValueError, match="mismatch|shapes"):
        tg.grad(lambda a: np.sum(np.abs(np.linalg.solve(a, B[:2]))))(A)
