"""`has_aux`: what a function returns beside its result."""

import numpy as np
import pytest

import tapegrad as tg

X = np.array([0.3, -1.2, 2.0])


def f(x, k=1.0):
    y = np.sin(x) * k
    return np.sum(y * y), {"y": y, "text": "seen", "several": (y[0], [k])}


def plain(aux, k=1.0):
    assert type(aux["y"]) is np.ndarray and type(aux["several"][0]) in (float, np.float64)
    np.testing.assert_array_equal(aux["y"], np.sin(X) * k)
    assert aux["text"] == "seen" and aux["several"] == (np.sin(X[0]) * k, [k])


def only(x, k=1.0):
    return f(x, k)[0]


def test_gradients():
    (value, aux), gradient = tg.value_and_grad(f, has_aux=True)(X)
    plain(aux)
    assert value == only(X)
    np.testing.assert_array_equal(gradient, tg.grad(only)(X))
    gradient, aux = tg.grad(f, has_aux=True)(X, k=2.0)
    plain(aux, 2.0)
    np.testing.assert_array_equal(gradient, tg.grad(only)(X, 2.0))


def test_second_derivatives():
    matrix, aux = tg.hessian(f, has_aux=True)(X)
    plain(aux)
    np.testing.assert_array_equal(matrix, tg.hessian(only)(X))
    product, aux = tg.hvp(f, has_aux=True)(X, np.ones(3), 2.0)
    plain(aux, 2.0)
    np.testing.assert_array_equal(product, tg.hvp(only)(X, np.ones(3), 2.0))


def test_results_that_are_arrays():
    def g(x):
        return x**3, np.sum(x)

    matrix, total = tg.jacobian(g, has_aux=True)(X)
    assert type(total) in (float, np.float64) and total == X.sum()
    np.testing.assert_allclose(matrix, np.diag(3.0 * X * X), 1e-14)
    value, back, total = tg.vjp(g, X, has_aux=True)
    assert total == X.sum()
    np.testing.assert_allclose(value, X * X * X, 1e-15)
    np.testing.assert_allclose(back(np.ones(3))[0], 3.0 * X * X, 1e-14)


def test_a_transform_around_differentiates_what_came_beside():
    def outer(x):
        _, aux = tg.grad(f, has_aux=True)(x)
        return np.sum(aux["y"] ** 3)

    np.testing.assert_allclose(tg.grad(outer)(X), 3.0 * np.sin(X) ** 2 * np.cos(X), 1e-14)


def test_what_came_beside_is_the_callers():
    """A change of it changes no derivative that is computed later."""
    value, back, aux = tg.vjp(lambda x: (x * x, x), X, has_aux=True)
    aux[:] = 100.0
    np.testing.assert_array_equal(back(np.ones(3))[0], 2.0 * X)


@pytest.mark.parametrize("transform", [tg.grad, tg.value_and_grad, tg.jacobian, tg.hessian])
@pytest.mark.parametrize("returned", ["number", "three"])
def test_something_else_is_refused(transform, returned):
    def g(x):
        return np.sum(x) if returned == "number" else (np.sum(x), 1, 2)

    with pytest.raises(TypeError, match=r"has_aux=True the function must return a tuple \(result"):
        transform(g, has_aux=True)(X)
