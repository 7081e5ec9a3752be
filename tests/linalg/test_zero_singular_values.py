"""Singular values that are 0: their second derivatives, and their vectors."""

import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.operations.symmetric_eigenvalues import turned_basis

V = np.array([[0.3, -0.7], [1.1, 0.4], [-0.2, 0.9]])
NOT_DETERMINED = {
    "a line": (np.zeros((1, 3)), 1.0),
    "twice": (np.zeros((2, 2)), 1.0),
    "not square": (np.outer([1.0, 2.0, 3.0], [0.5, -1.0]), 1.0),
    "complex": (np.outer([1.0, 2.0], [0.5, -1.0]), 1.0 + 2.0j),
}


def squares(factor):
    return lambda a: np.sum(np.linalg.svd(factor * a, compute_uv=False) ** 2)


@pytest.mark.parametrize("name", NOT_DETERMINED)
def test_they_are_warned_of(name):
    a, factor = NOT_DETERMINED[name]
    f, v = squares(factor), np.resize(V, a.shape)
    np.testing.assert_allclose(tg.grad(f)(a), 2.0 * abs(factor) ** 2 * a, atol=1e-12)
    for second in (lambda: tg.hvp(f)(a, v), lambda: tg.jvp(tg.grad(f), (a,), (v,))):
        with pytest.warns(RuntimeWarning, match="svdvals: singular values are 0"):
            second()


def test_what_the_warning_advises_is_right():
    a, factor = NOT_DETERMINED["not square"]
    f = lambda a: np.sum(np.linalg.eigvalsh(a.T @ a))
    np.testing.assert_allclose(tg.hvp(f)(a, V), 2.0 * V, atol=1e-12)


@pytest.mark.parametrize("a", [np.outer([1.0, 2.0], [0.5, -1.0]), np.diag([2.0, 0.0, 1.0])])
def test_a_single_value_of_a_real_square_matrix_is_right(a):
    v = np.resize(V, a.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(tg.hvp(squares(1.0))(a, v), 2.0 * v, atol=1e-11)


def test_first_derivatives_do_not_warn():
    a = np.outer([1.0, 2.0, 3.0], [0.5, -1.0])
    nuclear = lambda a: np.linalg.norm(a, "nuc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.sum(tg.grad(nuclear)(a) * a) == pytest.approx(nuclear(a))
        c = tg.compile(nuclear)
        c.grad(a), c.grad(a)


def test_a_real_basis_is_turned_by_a_complex_matrix():
    message = np.array([[1.0, 2.0j], [-2.0j, 0.5]])
    found = turned_basis(np.eye(2), np.ones(2), message)
    np.testing.assert_allclose(message @ found, found * np.linalg.eigvalsh(message), atol=1e-14)


# --- vectors of singular values that are 0 --------------------------------------------------------

TALL = np.outer([1.0, 2.0, 3.0], [0.5, -1.0])
WEIGHTS = np.random.default_rng(4).normal(size=(4, 4))


def weighted(a):
    return np.sum(a * WEIGHTS[: a.shape[0], : a.shape[1]])


def function_of_the_matrix(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return weighted((u * np.sin(s)) @ vh)


def vectors_of_zero(a):
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return weighted(u[:, -1:] @ u[:, -1:].T) + weighted(vh[-1:].T @ vh[-1:])


def part_of_the_largest(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return weighted((u[:, :1] * np.sin(s[:1])) @ vh[:1])


def squares_of_values_and_a_projector(a):
    u, s, _ = np.linalg.svd(a)
    return np.sum(s**2) + weighted(u[:, 1:] @ u[:, 1:].T)


SHAPES = {"tall": TALL, "wide": TALL.T, "exactly 0": np.eye(4, 2) * [3.0, 0.0]}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("f", [function_of_the_matrix, vectors_of_zero])
def test_a_loss_of_their_vectors_is_warned_of(f, shape):
    """What is divided by the value is lost, and of f(0) = 0 nothing tells how much that is."""
    a = SHAPES[shape]
    with pytest.warns(RuntimeWarning, match="tapegrad.svd: singular values are 0, and the deriv"):
        assert np.all(np.isfinite(tg.grad(f)(a)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tg.grad(f)(a + np.eye(*a.shape))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("f", [part_of_the_largest, squares_of_values_and_a_projector])
def test_a_loss_that_does_not_read_them_is_right(f, shape):
    a = SHAPES[shape]
    v, h = np.cos(np.arange(a.size)).reshape(a.shape), 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = np.sum(tg.grad(f)(a) * v)
    assert found == pytest.approx((f(a + h * v) - f(a - h * v)) / (2 * h), abs=1e-8)


def test_terms_that_cancel_are_no_dependence():
    """The adjoints of u and v are of size 1, what they add up to is 1e-16."""
    f = lambda a: np.sum(np.linalg.svd(np.exp(1j * a), compute_uv=False) ** 2)
    a = np.array([[0.94384766], [-0.35913086], [1.14428711]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tg.grad(lambda a: np.sum(tg.grad(f)(a) * a))(a)
    np.testing.assert_allclose(found, 0.0, atol=1e-14)


def test_programs_leave_them_to_calls_that_warn():
    c = tg.compile(function_of_the_matrix)
    for k in (1.0, 2.0, 3.0):
        a = TALL + k * np.eye(3, 2)
        np.testing.assert_allclose(c.grad(a), tg.grad(function_of_the_matrix)(a), atol=1e-12)
    with pytest.warns(RuntimeWarning) as seen:
        c.grad(TALL)
    texts = [str(one.message) for one in seen]
    assert any("svd has singular values of 0, and only eager calls" in text for text in texts)
    assert any("may be that of a function of the matrix" in text for text in texts)
