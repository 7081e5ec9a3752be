"""The zeros of recorded polynomials."""

import numpy as np
import pytest

import tapegrad as tg

POLYNOMIALS = {
    "real": [1.0, -6.5, 11.0, -4.0],
    "complex": [2.0, -1.0, 3.0, 1.0, 5.0],
    "line": [2.0, -3.0],
    "far": [1.0, -1e4, 1.0],
}


def implicit(p):
    """∂r/∂pₖ = −rⁿ⁻ᵏ / p'(r), a row for each zero."""
    r, n = np.roots(p), len(p) - 1
    return -(r[:, None] ** (n - np.arange(n + 1))) / np.polyval(np.polyder(p), r)[:, None]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_derivatives_are_implicit_ones(name):
    p = np.array(POLYNOMIALS[name])
    found = np.roots(tg.tensor(p, requires_grad=True))
    np.testing.assert_array_equal(found.detach().numpy(), np.roots(p))
    weights = np.linspace(1.0, 2.0, len(p) - 1)

    def f(p):
        return np.sum(np.real(np.roots(p)) * weights) + np.sum(np.imag(np.roots(p)) ** 2)

    wanted, r = implicit(p), np.roots(p)
    gradient = np.real(wanted).T @ weights + 2.0 * np.imag(wanted).T @ np.imag(r)
    np.testing.assert_allclose(tg.grad(f)(p), gradient, 1e-9)
    _, slope = tg.jvp(f, (p,), (np.arange(len(p)) - 0.5,))
    np.testing.assert_allclose(slope, gradient @ (np.arange(len(p)) - 0.5), 1e-9)


@pytest.mark.parametrize("native", [False, True])
def test_programs_at_other_coefficients(native):
    c = tg.compile(lambda p: np.sum(np.abs(np.roots(p)) ** 2), native=native)
    for p in ([2.0, -1.0, 3.0, 1.0], [1.0, 2.0, 5.0, -1.0], [1.0, -6.5, 11.0, -4.0]):
        p = np.array(p)
        r = np.roots(p)
        value, gradient = c.value_and_grad(p)
        np.testing.assert_allclose(value, np.sum(np.abs(r) ** 2), 1e-11)
        np.testing.assert_allclose(gradient, 2 * np.real(r.conj() @ implicit(p)), 1e-9, 1e-12)
    for p in ([1.0, -2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 5.0], [1.0, -4.0, 5.0, -2.0]):
        with pytest.raises(ValueError, match="roots: "):
            c.grad(np.array(p))


def test_second_derivatives_are_those_of_the_formula():
    def f(p):
        return np.max(np.real(np.roots(p)))

    def formula(p):
        return (-p[1] + np.sqrt(p[1] ** 2 - 4.0 * p[0] * p[2])) / (2.0 * p[0])

    p = np.array([1.5, -5.0, 2.0])
    np.testing.assert_allclose(tg.hessian(f)(p), tg.hessian(formula)(p), 1e-9)


@pytest.mark.parametrize(
    "p, what",
    [
        ([0.0, 1.0, 2.0], "first or last"),
        ([1.0, 2.0, 0.0], "first or last"),
        ([0.0, 0.0], "first or last"),
        ([1.0, -2.0, 1.0], "equal"),
        ([1.0, -3.0, 3.0, -1.0], "equal"),
        ([1.0, 0.0, 2.0, 0.0, 1.0], "equal"),
        ([[1.0, 2.0]], "rank-1"),
    ],
)
def test_polynomials_without_derivative_are_refused(p, what):
    with pytest.raises(ValueError, match=what):
        np.roots(tg.tensor(p, requires_grad=True))
    if what != "rank-1":
        np.testing.assert_array_equal(tg.roots(p), np.roots(p))


@pytest.mark.parametrize("dtype, p", [("f4", [1.0, -2.0, 1.0]), ("f8", [1.0, -3.0, 3.0, -1.0])])
def test_equal_zeros_are_seen_in_each_dtype(dtype, p):
    with pytest.raises(ValueError, match="equal"):
        np.roots(tg.tensor(np.array(p, dtype), requires_grad=True))


def test_float32_stays():
    p = np.array([1.0, -3.0, 2.5], np.float32)
    found = np.roots(tg.tensor(p, requires_grad=True))
    assert found.dtype == np.roots(p).dtype
    np.testing.assert_allclose(found.detach().numpy(), np.roots(p), 1e-6)


def test_zeros_of_poly1d():
    p = np.array([1.0, -3.0, 2.0])
    found = tg.jacobian(lambda p: tg.numpy.poly1d(p).r)(p)
    np.testing.assert_allclose(found, implicit(p), 1e-9)


def test_constants_have_no_zeros():
    assert np.roots(tg.tensor([3.0], requires_grad=True)).shape == (0,)
