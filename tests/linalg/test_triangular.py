"""Triangular equations and Cholesky's reverse: compiled blocks against closed forms."""

import numpy as np
import pytest
import scipy.linalg
from declared import difference

import tapegrad as tg
from tapegrad._core.operations.triangular_factors import cholesky_adjoint, solve_triangular
from tapegrad.scipy import linalg


def definite(rng, *shape):
    a = rng.normal(size=(*shape, shape[-1]))
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def closed_form(g, factor):
    """The symmetric part of l⁻ᵀ Φ(lᵀ g) l⁻¹."""
    inverse = np.linalg.inv(factor)
    half = np.tril(factor.T @ g) * (1.0 - 0.5 * np.eye(len(g)))
    made = inverse.T @ half @ inverse
    return 0.5 * (made + made.T)


# --- the reverse of a factor ----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 17, 47, 48, 49, 95, 96, 97, 150])
def test_reverse_by_blocks(n, rng):
    factor = np.linalg.cholesky(definite(rng, n))
    g = rng.normal(size=(n, n))
    before = g.copy(), factor.copy()
    found = cholesky_adjoint(g, factor)
    np.testing.assert_allclose(found, closed_form(g, factor), rtol=1e-9, atol=1e-11)
    assert np.array_equal(found, found.T)
    assert np.array_equal(g, before[0]) and np.array_equal(factor, before[1])
    above = np.triu(np.full((n, n), np.nan), 1)
    assert np.array_equal(cholesky_adjoint(g + above, factor + above), found)
    f = lambda a: np.sum(np.linalg.cholesky(a) * g)
    np.testing.assert_allclose(tg.compile(f).grad(factor @ factor.T), found, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [3, 60])
def test_gradients_against_torch(n, upper, rng):
    torch = pytest.importorskip("torch")
    a, weights = definite(rng, 2, n), rng.normal(size=(2, n, n))
    leaf = torch.tensor(a, requires_grad=True)
    factor = torch.linalg.cholesky(leaf, upper=upper)
    (torch.sin(factor) * torch.tensor(weights)).sum().backward()
    f = lambda a: np.sum(np.sin(np.linalg.cholesky(a, upper=upper)) * weights)
    for found in (tg.grad(f)(a), tg.compile(f).grad(a)):
        np.testing.assert_allclose(found, leaf.grad.numpy(), rtol=1e-9, atol=1e-11)
    narrow = tg.grad(lambda a: f(a).astype(np.float32))(a.astype(np.float32))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, leaf.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_second_derivatives_of_several_blocks(rng):
    a, v = definite(rng, 60), rng.normal(size=(60, 60))
    v, weights = v + v.T, rng.normal(size=(60, 60))
    f = lambda a: np.sum(np.sin(np.linalg.cholesky(a)) * weights)
    wanted = difference(tg.grad(f), a, v)
    c = tg.compile(f)
    c.hvp(1.1 * a, v)
    ways = [
        tg.hvp(f)(a, v),
        tg.jvp(tg.grad(f), (a,), (v,))[1],
        tg.grad(lambda a: np.sum(tg.grad(f)(a) * v))(a),
        c.hvp(a, v),
    ]
    for found in ways:
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


def test_third_derivatives(rng):
    a, v = definite(rng, 3), np.array([[0.3, 0.2, -0.1], [0.2, 0.5, 0.4], [-0.1, 0.4, 0.2]])
    f = lambda t: np.sum(np.linalg.cholesky(a + t * v) ** 3)
    second = tg.grad(tg.grad(f))
    found = tg.grad(second)(0.1)
    np.testing.assert_allclose(found, difference(second, 0.1, 1.0), rtol=1e-8)


# --- triangular equations -------------------------------------------------------------------------


def memory_orders(a):
    """The same matrix with other strides."""
    wide = np.zeros((2 * len(a), 3 * len(a)))
    wide[::2, ::3] = a
    padded = np.zeros((len(a), len(a) + 5))
    padded[:, 2:-3] = a
    backwards = np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]
    return [a, np.asfortranarray(a), wide[::2, ::3], padded[:, 2:-3], backwards, padded.T[2:-3].T]


@pytest.mark.parametrize("n", [1, 4, 33])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("trans", [0, 1, 2])
def test_all_memory_orders(n, columns, trans, rng):
    a, b = rng.normal(size=(n, n)) / n + 2.0 * np.eye(n), rng.normal(size=(n, columns))
    for lower in (False, True):
        for unit in (False, True):
            flags = {"trans": trans, "lower": lower, "unit_diagonal": unit}
            wanted = scipy.linalg.solve_triangular(a, b, **flags)
            for one in memory_orders(a):
                for other in (b, np.asfortranarray(b), np.repeat(b, 2, 0)[::2]):
                    found = solve_triangular(one, other, **flags)
                    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)


def test_batches_are_broadcast(rng):
    a = rng.normal(size=(3, 1, 4, 4)) + 5.0 * np.eye(4)
    b = rng.normal(size=(1, 2, 4, 2))
    f = lambda a, b: np.sum(np.sin(linalg.solve_triangular(a, b, lower=True)))
    parts = [[f(a[i, 0], b[0, j]) for j in range(2)] for i in range(3)]
    leaf, other = tg.tensor(a, requires_grad=True), tg.tensor(b, requires_grad=True)
    value = f(leaf, other)
    value.backward()
    np.testing.assert_allclose(float(value.detach()), np.sum(parts), rtol=1e-12)
    c = tg.compile(f, argnums=(0, 1))
    value, gradients = c.value_and_grad(a, b)
    np.testing.assert_allclose(value, np.sum(parts), rtol=1e-12)
    np.testing.assert_allclose(gradients[0], leaf.grad, rtol=1e-12)
    np.testing.assert_allclose(gradients[1], other.grad, rtol=1e-12)
    wanted = sum(tg.grad(f)(a[1, 0], b[0, j]) for j in range(2))
    np.testing.assert_allclose(leaf.grad[1, 0], wanted, rtol=1e-12)


def test_the_other_triangle_is_not_read(rng):
    a = np.tril(rng.normal(size=(4, 4))) + 3.0 * np.eye(4)
    a += np.triu(np.full((4, 4), np.nan), 1)
    f = lambda a: np.sum(linalg.solve_triangular(a, np.ones(4), lower=True, check_finite=False))
    gradient = tg.grad(f)(a)
    assert np.all(np.isfinite(gradient)) and np.all(np.triu(gradient, 1) == 0.0)
    np.testing.assert_allclose(tg.compile(f).grad(a), gradient, rtol=1e-12)


@pytest.mark.parametrize("place", [0, 2])
def test_a_zero_on_the_diagonal_is_named(place):
    a = np.triu(np.ones((3, 3))) + np.eye(3)
    bad = a.copy()
    bad[place, place] = 0.0
    f = lambda a: np.sum(linalg.solve_triangular(a, np.ones((3, 2))))
    c = tg.compile(f)
    c.grad(a), c(a)
    for call in (f, tg.grad(f), c, c.grad, scipy.linalg.solve_triangular):
        arguments = (bad,) if call is not scipy.linalg.solve_triangular else (bad, np.ones(3))
        with pytest.raises(np.linalg.LinAlgError, match=f"resolution failed at diagonal {place}"):
            call(*arguments)
    np.testing.assert_allclose(c.grad(a), tg.grad(f)(a), rtol=1e-12)


def test_adjoints_at_once_and_batches(rng):
    a, b = rng.normal(size=(5, 4, 4)) + 5.0 * np.eye(4), rng.normal(size=(4,))
    f = lambda a: linalg.solve_triangular(a, b, trans="T")
    jacobians = tg.vmap(tg.jacobian(f))(a)
    rows = [tg.grad(lambda a, k=k: f(a)[k])(a[2]) for k in range(4)]
    np.testing.assert_allclose(jacobians[2], rows, rtol=1e-12, atol=1e-14)


# --- a Gaussian process ---------------------------------------------------------------------------


def test_a_gaussian_process(rng):
    x = np.sort(rng.uniform(0.0, 5.0, 70))
    y = np.sin(x) + 0.1 * rng.normal(size=70)
    squares = (x[:, None] - x) ** 2

    def negative_log_likelihood(p):
        kernel = np.exp(2.0 * p[1] - 0.5 * squares * np.exp(-2.0 * p[0]))
        factor = np.linalg.cholesky(kernel + np.exp(2.0 * p[2]) * np.eye(70))
        weights = linalg.cho_solve((factor, True), y)
        return 0.5 * y @ weights + np.sum(np.log(np.diagonal(factor)))

    c = tg.compile(negative_log_likelihood)
    c.value_and_grad(np.zeros(3)), c.hessian(np.zeros(3))
    for p in ([0.1, 0.2, -1.0], [-0.4, 0.5, -0.3]):
        p = np.array(p)
        value, gradient = tg.value_and_grad(negative_log_likelihood)(p)
        hessian = tg.hessian(negative_log_likelihood)(p)
        found = c.value_and_grad(p)
        np.testing.assert_allclose(found[0], value, rtol=1e-11)
        np.testing.assert_allclose(found[1], gradient, rtol=1e-9)
        np.testing.assert_allclose(c.hessian(p), hessian, rtol=1e-8)
        for k, v in enumerate(np.eye(3)):
            wanted = difference(negative_log_likelihood, p, v)
            np.testing.assert_allclose(gradient[k], wanted, rtol=1e-7)
            wanted = difference(tg.grad(negative_log_likelihood), p, v)
            np.testing.assert_allclose(hessian[k], wanted, rtol=1e-6)
