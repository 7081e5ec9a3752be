"""Second derivatives of singular values where some are 0."""

import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.operations.turned_bases import turned_basis

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
    f = lambda a: np.sum(np.linalg.eigvalsh(a.T @ a))  # noqa: E731
    np.testing.assert_allclose(tg.hvp(f)(a, V), 2.0 * V, atol=1e-12)


@pytest.mark.parametrize("a", [np.outer([1.0, 2.0], [0.5, -1.0]), np.diag([2.0, 0.0, 1.0])])
def test_a_single_value_of_a_real_square_matrix_is_right(a):
    v = np.resize(V, a.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(tg.hvp(squares(1.0))(a, v), 2.0 * v, atol=1e-11)


def test_first_derivatives_do_not_warn():
    a = np.outer([1.0, 2.0, 3.0], [0.5, -1.0])
    nuclear = lambda a: np.linalg.norm(a, "nuc")  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.sum(tg.grad(nuclear)(a) * a) == pytest.approx(nuclear(a))
        c = tg.compile(nuclear)
        c.grad(a), c.grad(a)


def test_a_real_basis_is_turned_by_a_complex_matrix():
    message = np.array([[1.0, 2.0j], [-2.0j, 0.5]])
    found = turned_basis(np.eye(2), np.ones(2), message)
    np.testing.assert_allclose(message @ found, found * np.linalg.eigvalsh(message), atol=1e-14)
