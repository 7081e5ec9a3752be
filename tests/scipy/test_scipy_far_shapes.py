"""Distributions at shapes and points where formulas of SciPy overflow, or lose their digits."""

import mpmath
import numpy as np
import pytest
from richardson import differences
from scipy import stats

import tapegrad as tg


def _half_logistic_slopes(q, c):
    """The derivatives of (1 - r**c) / c, where r is (1 - q) / (1 + q)."""
    ratio = (1 - q) / (1 + q)
    power = ratio**c
    by_c = -power * mpmath.log(ratio) / c - (1 - power) / c**2
    return float(2 * power / ratio / (1 + q) ** 2), float(by_c)


@pytest.mark.parametrize("transform", [lambda f: f, tg.compile])
@pytest.mark.parametrize(("q", "c"), [(0.1, 0.5), (0.8, 25.0), (0.4, 60.0), (0.99, 23.0)])
def test_quantiles_of_genhalflogistic_have_derivatives_at_its_end(q, c, transform):
    """There the density has no digits."""
    with mpmath.workdps(40):
        wanted = _half_logistic_slopes(mpmath.mpf(q), mpmath.mpf(c))
    gradient = tg.grad(transform(lambda q, c: stats.genhalflogistic.ppf(q, c)), (0, 1))
    assert np.allclose(gradient(q, c), wanted, rtol=1e-10, atol=1e-300)
    gradient = tg.grad(transform(lambda q, c: stats.genhalflogistic.isf(1.0 - q, c)), (0, 1))
    assert np.allclose(gradient(q, c), wanted, rtol=1e-8, atol=1e-20)


def test_quantiles_of_genhalflogistic_at_1():
    assert tg.grad(lambda c: stats.genhalflogistic.ppf(1.0, c))(2.5) == pytest.approx(-0.16)
    assert tg.grad(lambda q: stats.genhalflogistic.ppf(q, 2.5))(1.0) == 0.0
    with pytest.raises(TypeError, match="density is infinite"):
        tg.grad(lambda q: stats.genhalflogistic.ppf(q, 0.5))(1.0)


@pytest.mark.parametrize("transform", [lambda f: f, tg.compile])
@pytest.mark.parametrize("x", [0.0, 180.0, -900.0])
def test_dgamma_of_large_shapes(x, transform):
    """The gamma function of a shape above 171 overflows."""
    for a in (100.5, 175.0, 1000.0):
        with mpmath.workdps(40):
            density = (
                mpmath.exp((a - 1) * mpmath.log(abs(x)) - abs(x) - mpmath.loggamma(a)) / 2
                if x
                else 0
            )
        value, slope = tg.value_and_grad(transform(lambda x, a=a: stats.dgamma.cdf(x, a)))(x)
        assert value == stats.dgamma.cdf(x, a)
        assert slope == pytest.approx(float(density), rel=1e-11, abs=1e-300)
        pdf = tg.value_and_grad(transform(lambda x, a=a: stats.dgamma.pdf(x, a)))(x)
        wanted = float(density * ((a - 1) / abs(x) - 1) * np.sign(x)) if x else 0.0
        assert pdf == pytest.approx((float(density), wanted), rel=1e-11, abs=1e-300)


def test_logarithms_of_ncx2_at_infinity():
    for at in (np.inf, np.array([1.0, np.inf])):
        with pytest.raises(TypeError, match="a point is infinite"):
            tg.grad(lambda nc, at=at: np.sum(stats.ncx2.logpdf(at, 2.0, nc)))(1.5)


@pytest.mark.parametrize("transform", [lambda f: f, tg.compile])
@pytest.mark.parametrize("name", ["logsf", "sf", "logcdf", "cdf"])
def test_kappa3_of_two_axes(name, transform):
    x, shapes = np.array([[0.5, 1.0, 2.0], [3.0, 0.1, 7.0]]), np.array([[1.0], [2.5]])
    method = getattr(stats.kappa3, name)

    def f(x, shapes):
        return method(x, shapes).sum()

    given = tg.value_and_grad(transform(f), (0, 1))(x, shapes)
    assert given[0] == pytest.approx(f(x, shapes), rel=1e-13)
    assert np.allclose(given[1][0], differences(lambda x: f(x, shapes), x, 1e-3), rtol=1e-8)
    assert np.allclose(given[1][1], differences(lambda a: f(x, a), shapes, 1e-3), rtol=1e-8)
