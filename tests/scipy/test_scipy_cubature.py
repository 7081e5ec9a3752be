"""SciPy's `cubature`, `tanhsinh`, `nsum` and `qmc_quad`, beside closed forms."""

import numpy as np
import pytest
import scipy.special
from scipy import stats
from scipy.integrate import cubature, nsum, qmc_quad, tanhsinh

import tapegrad as tg

P = np.array([1.3, 0.9, 2.4])
EXPONENTS = np.array([1.0, 2.0])


def between(p, a, b):
    """The integral of exp(-p x)."""
    return (np.exp(-p * a) - np.exp(-p * b)) / p


def waves(x, p):
    return np.sin(p.reshape((-1,) + (1,) * (x.ndim - 1)) * x)


#: The integral as users write it, and what it is.
INTEGRALS = {
    "tanhsinh": (lambda p: tanhsinh(lambda x: np.exp(-p[0] * x), p[1], p[2]).integral,
                 lambda p: between(p[0], p[1], p[2])),
    "tanhsinh, a singular end": (lambda p: tanhsinh(lambda x: p[0] / np.sqrt(x), 0, p[1]).integral,
                                 lambda p: 2.0 * p[0] * np.sqrt(p[1])),
    "tanhsinh to infinity": (lambda p: tanhsinh(lambda x: np.exp(-p[0] * x), p[1], np.inf).integral,
                             lambda p: np.exp(-p[0] * p[1]) / p[0]),
    "tanhsinh, args": (
        lambda p: np.sum(EXPONENTS * tanhsinh(
            lambda x, q, s: s * np.exp(-q * x), 0, p[2], args=(p[:2], p[0])).integral),
        lambda p: p[0] * np.sum(EXPONENTS * between(p[:2], 0, p[2]))),
    "tanhsinh, arrays of limits": (
        lambda p: np.sum(tanhsinh(lambda x: p[0] * x, p[:2], p[:, None]).integral),
        lambda p: p[0] * np.sum(p[:, None] ** 2 - p[:2] ** 2) / 2.0),
    "tanhsinh, some limits infinite": (
        lambda p: np.sum(tanhsinh(lambda x: np.exp(-p[0] * x), p[:2], [2.0, np.inf]).integral),
        lambda p: between(p[0], p[0], 2.0) + np.exp(-p[0] * p[1]) / p[0]),
    "tanhsinh, shapes": (
        lambda p: np.sum(tanhsinh(lambda x: waves(x, p), np.zeros(3), p[0],
                                  preserve_shape=True).integral),
        lambda p: np.sum((1.0 - np.cos(p * p[0])) / p)),
    "tanhsinh, a branch": (
        lambda p: made.integral if (made := tanhsinh(lambda x: p[0] * x, 0, p[1])).success else 0.0,
        lambda p: p[0] * p[1] ** 2 / 2.0),
    "nsum": (lambda p: nsum(lambda k: p[0] * p[2] ** -k, 1.0, np.inf).sum,
             lambda p: p[0] / (p[2] - 1.0)),
    "nsum of arrays": (
        lambda p: np.sum(nsum(lambda k, q: np.exp(-q * k), 1.0, np.inf, args=(p,)).sum),
        lambda p: np.sum(1.0 / (np.exp(p) - 1.0))),
    "nsum, limits": (
        lambda p: nsum(lambda k: np.exp(-p[0] * k), p[1], p[1] + 3.5).sum,
        lambda p: np.sum(np.exp(-p[0] * (p[1] + np.arange(4))))),
    "nsum to the left": (
        lambda p: nsum(lambda k: np.exp(p[0] * k), -np.inf, p[1]).sum,
        lambda p: np.exp(p[0] * p[1]) / (1.0 - np.exp(-p[0]))),
    "cubature": (
        lambda p: cubature(lambda x: p[0] * x[:, 0] * x[:, 1] ** 2, [0, 0], [1, 2]).estimate,
        lambda p: p[0] * 4.0 / 3.0),
    "cubature, limits": (
        lambda p: cubature(lambda x, q: q[0] * np.prod(x, axis=-1), p[:2], [2, p[2]],
                           args=(p,)).estimate,
        lambda p: p[0] * (4.0 - p[0] ** 2) * (p[2] ** 2 - p[1] ** 2) / 4.0),
    "cubature, limits alone": (
        lambda p: cubature(lambda x: np.prod(x, axis=-1), np.zeros(3), p, rule="gk15").estimate,
        lambda p: np.prod(p) ** 2 / 8.0),
    "cubature, flipped": (
        lambda p: cubature(lambda x: p[0] * x[:, 0], [p[2], 0.0], [0.0, p[1]]).estimate,
        lambda p: -p[0] * p[2] ** 2 / 2.0 * p[1]),
    "cubature of one variable": (
        lambda p: cubature(lambda x: np.exp(-p[0] * x[:, 0]), p[1:2], [np.inf]).estimate,
        lambda p: np.exp(-p[0] * p[1]) / p[0]),
    "cubature of vectors": (
        lambda p: np.sum(EXPONENTS * cubature(lambda x: np.exp(-p[:2] * x), [0.0], p[2:]).estimate),
        lambda p: np.sum(EXPONENTS * between(p[:2], 0, p[2]))),
    "cubature, points": (
        lambda p: cubature(lambda x: np.abs(x[:, 0] - 0.3), [0.0], p[:1], points=[[0.3]]).estimate,
        lambda p: 0.045 + (p[0] - 0.3) ** 2 / 2.0),
    "cubature, status": (
        lambda p: made.estimate if (made := cubature(
            lambda x: p[0] * x[:, 0], [0.0], p[1:2])).status == "converged" else 0.0,
        lambda p: p[0] * p[1] ** 2 / 2.0),
}  # fmt: skip


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", INTEGRALS)
def test_values_and_derivatives_are_those_of_closed_forms(name):
    f, formula = INTEGRALS[name]
    value, gradient = tg.value_and_grad(f)(P)
    np.testing.assert_allclose(value, f(P), rtol=1e-15)  # by SciPy's own functions
    close(value, formula(P))
    close(gradient, tg.grad(formula)(P))
    direction = np.array([0.3, -1.0, 2.0])
    close(tg.jvp(f, (P,), (direction,))[1], tg.grad(formula)(P) @ direction)
    close(tg.hessian(f)(P), tg.hessian(formula)(P))


@pytest.mark.parametrize("name", INTEGRALS)
def test_compiled_functions_have_them(name):
    f, formula = INTEGRALS[name]
    c = tg.compile(f)
    for k in range(3):
        p = P + 0.03 * k
        value, gradient = c.value_and_grad(p)
        close(value, formula(p))
        close(gradient, tg.grad(formula)(p))
    close(c.hessian(P), tg.hessian(formula)(P))


def by_points(p, engine=stats.qmc.Halton):
    f = lambda x: p[0] * np.prod(x, axis=0)
    return qmc_quad(f, [0.0, p[1]], [p[0], 2.0], qrng=engine(2, seed=1))


def test_points_of_low_discrepancy_move_with_the_limits():
    value, gradient = tg.value_and_grad(lambda p: by_points(p).integral)(P)
    np.testing.assert_allclose(value, by_points(P).integral, rtol=1e-14)
    step = 1e-6 * np.eye(3)
    slopes = [(by_points(P + h).integral - by_points(P - h).integral) / 2e-6 for h in step]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-7, atol=1e-9)
    second = tg.hessian(lambda p: by_points(p).integral)(P)
    slopes = [
        (tg.grad(lambda p: by_points(p).integral)(P + h)
         - tg.grad(lambda p: by_points(p).integral)(P - h)) / 2e-6
        for h in step
    ]  # fmt: skip
    np.testing.assert_allclose(second, slopes, rtol=1e-6, atol=1e-8)
    errors = []
    tg.grad(lambda p: errors.append(by_points(p).standard_error) or p[0])(P)
    np.testing.assert_allclose(errors[0], by_points(P).standard_error, rtol=1e-12)


def test_one_dimension_and_plain_limits():
    f = lambda p: qmc_quad(
        lambda x: np.exp(-p[0] * x[0]), 0, 1, qrng=stats.qmc.Sobol(1, seed=1)).integral  # fmt: skip
    np.testing.assert_allclose(tg.value_and_grad(f)(P)[0], f(P), rtol=1e-15)
    np.testing.assert_allclose(
        tg.grad(f)(P)[0], tg.grad(lambda q: between(q, 0.0, 1.0))(1.3), rtol=1e-5
    )


def test_compiled_functions_draw_points_at_each_call():
    with pytest.warns(RuntimeWarning, match="qmc_quad draws points"):
        c = tg.compile(lambda p: by_points(p).integral)
        for k in range(3):
            np.testing.assert_allclose(c(P + k), by_points(P + k).integral, rtol=1e-14)


def test_the_rest_of_results_is_scipys():
    seen = []

    def f(p):
        seen.append(tanhsinh(lambda x: np.exp(-p[0] * x), 0, p[1]))
        seen.append(nsum(lambda k: p[2] ** -k, 1.0, np.inf))
        seen.append(cubature(lambda x: np.exp(-p[0] * x[:, 0]), [0.0], [1.0]))
        return p[0]

    tg.grad(f)(P), f(P)
    for found, wanted in zip(seen[:2], seen[3:5], strict=True):
        names = {*wanted} - {"_order_keys"}
        assert {*found} == names and type(found) is type(wanted)
        for name in names:
            np.testing.assert_allclose(
                float(tg.stop_gradient(found[name])), wanted[name], rtol=1e-14
            )
    found, wanted = seen[2], seen[5]
    for name in ("status", "subdivisions", "atol", "rtol"):
        assert getattr(found, name) == getattr(wanted, name)
    assert len(found.regions) == len(wanted.regions)
    np.testing.assert_allclose(found.error, wanted.error)


def test_plain_calls_are_scipys():
    found = tg.scipy.integrate.tanhsinh(scipy.special.erf, 0, 1)
    assert found.integral == tanhsinh(scipy.special.erf, 0, 1).integral
    found = tg.scipy.integrate.nsum(lambda k: 2.0**-k, 1, np.inf)
    assert found.sum == nsum(lambda k: 2.0**-k, 1, np.inf).sum
    found = tg.scipy.integrate.cubature(lambda x: x[:, 0], [0.0], [1.0]).estimate
    assert found == cubature(lambda x: x[:, 0], [0.0], [1.0]).estimate


def test_derivatives_that_do_not_converge_are_told():
    with pytest.warns(RuntimeWarning, match="nsum: a derivative has not converged"):
        tg.grad(lambda p: nsum(lambda k: 1.0 / k ** (0.1 + p[1]), 1.0, np.inf, maxterms=50).sum)(P)
    f = lambda p: cubature(lambda x: np.sqrt(p[0] + 0.0 * x[:, 0]) + np.abs(x[:, 0] - p[0] / 4) * (
        p[0] - 1.3), [0.0], [1.0], max_subdivisions=2).estimate  # fmt: skip
    with pytest.warns(RuntimeWarning, match="cubature: a derivative has not converged"):
        tg.grad(f)(P)


REFUSED = {
    "log": (lambda p: tanhsinh(lambda x: p[0] * x, 0, 1, log=True).integral, "log=True .* exponen"),
    "log of points": (lambda p: qmc_quad(lambda x: p[0] * x[0], 0, 1, log=True)[0], "log=True"),
    "complex": (lambda p: np.real(tanhsinh(lambda x: np.exp(1j * p[0] * x), 0, 1).integral),
                "complex numbers, .* the real and the imaginary part"),
    "complex boxes": (lambda p: np.real(cubature(lambda x: 1j * p[0] * x, [0.0], [1.0]).estimate),
                      "complex numbers, .* the real and the imaginary part"),
    "step": (lambda p: nsum(lambda k: 2.0**-k, 1.0, np.inf, step=p[0]).sum, "step is recorded"),
    "mixed sums": (lambda p: np.sum(nsum(lambda k: 2.0**-abs(k), [-np.inf, p[0]], 5.0).sum),
                   "some elements of a are infinite, .* a call of their own"),
    "points": (lambda p: cubature(lambda x: x[:, 0], [0.0], [1.0], points=[p[:1]]).estimate,
               "points are recorded; give plain ones"),
    "equal limits": (lambda p: qmc_quad(lambda x: p[0] * x[0], 1.0, 1.0).integral, "are equal"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_derivative_is_refused(name):
    f, text = REFUSED[name]
    with pytest.raises(TypeError, match=rf"tapegrad.scipy.integrate.\w+: .*{text}"):
        tg.grad(f)(P)


class Held:
    value = None


def test_values_that_are_not_found_are_refused():
    Held.value = None

    def f(p):
        Held.value = p[0]
        return cubature(lambda x: Held.value * x[:, 0], [0.0], [1.0]).estimate

    with pytest.raises(tg.DerivativeLost, match=r"cubature: .* give it the value in args"):
        tg.grad(f)(P)
    Held.value = None
