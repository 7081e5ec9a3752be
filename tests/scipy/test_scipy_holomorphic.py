"""Special functions of complex recorded numbers: values, derivatives of two orders, programs."""

import mpmath
import numpy as np
import pytest
import scipy.special

import tapegrad as tg
from tapegrad._core.ops.holomorphic_functions import NAMES
from tapegrad.scipy import special

exp, root = mpmath.exp, mpmath.sqrt(mpmath.pi)


def w(z):
    return exp(-z * z) * mpmath.erfc(-1j * z)


def w_slope(z):
    return -2 * z * w(z) + 2j / mpmath.sqrt(mpmath.pi)


def dawsn(z):
    return mpmath.sqrt(mpmath.pi) / 2 * exp(-z * z) * mpmath.erfi(z)


def of_normal(z):
    return mpmath.sqrt(2 / mpmath.pi) * exp(-z * z / 2) / mpmath.erfc(-z / mpmath.sqrt(2))


def psi(z):
    return mpmath.psi(0, z)


def trigamma(z):
    return mpmath.psi(1, z)


#: By name: the first and the second derivative.
SLOPES = {
    "erf": (lambda z: 2 * exp(-z * z) / root, lambda z: -4 * z * exp(-z * z) / root),
    "erfc": (lambda z: -2 * exp(-z * z) / root, lambda z: 4 * z * exp(-z * z) / root),
    "erfi": (lambda z: 2 * exp(z * z) / root, lambda z: 4 * z * exp(z * z) / root),
    "wofz": (w_slope, lambda z: -2 * w(z) - 2 * z * w_slope(z)),
    "erfcx": (
        lambda z: 1j * w_slope(1j * z),
        lambda z: 2 * w(1j * z) + 2j * z * w_slope(1j * z),
    ),
    "dawsn": (
        lambda z: 1 - 2 * z * dawsn(z),
        lambda z: -2 * dawsn(z) - 2 * z * (1 - 2 * z * dawsn(z)),
    ),
    "log_ndtr": (of_normal, lambda z: -of_normal(z) * (z + of_normal(z))),
    "psi": (trigamma, lambda z: mpmath.psi(2, z)),
    "loggamma": (psi, trigamma),
    "gamma": (
        lambda z: mpmath.gamma(z) * psi(z),
        lambda z: mpmath.gamma(z) * (psi(z) ** 2 + trigamma(z)),
    ),
    "rgamma": (
        lambda z: -mpmath.rgamma(z) * psi(z),
        lambda z: mpmath.rgamma(z) * (psi(z) ** 2 - trigamma(z)),
    ),
    "expi": (lambda z: exp(z) / z, lambda z: exp(z) * (z - 1) / z**2),
    "exp1": (lambda z: -exp(-z) / z, lambda z: exp(-z) * (z + 1) / z**2),
}
every_name = pytest.mark.parametrize("name", NAMES)


def points():
    """Small and large numbers, beside both axes and on them."""
    rng = np.random.default_rng(7)
    found = [
        size * (rng.normal(size=12) + 1j * rng.normal(size=12)) for size in (0.05, 1.0, 4.0, 9.0)
    ]
    near = rng.normal(size=6) * 3.0
    return np.concatenate([*found, near + 0j, near + 1e-6j, near - 1e-6j, 1j * near, [7j, -7.3]])


def slope(f):
    return tg.grad(lambda z: np.sum(f(z)), holomorphic=True)


def test_all_have_references():
    assert SLOPES.keys() == {*NAMES}


@every_name
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_derivatives_of_two_orders(name):
    f, z = getattr(special, name), points()
    first, second = slope(f)(z), slope(slope(f))(z)
    with mpmath.workdps(60 if name in ("psi", "gamma", "loggamma", "rgamma") else 150):
        for k, point in enumerate(map(complex, z)):
            for found, wanted, tolerance in zip(
                (first[k], second[k]), SLOPES[name], (2e-12, 1e-10), strict=True
            ):
                exact = wanted(mpmath.mpc(point))
                if 1e-280 < abs(exact) < 1e280 and np.isfinite(getattr(scipy.special, name)(point)):
                    error = abs(mpmath.mpc(complex(found)) - exact) / abs(exact)
                    assert error < tolerance, (point, found, exact)


@every_name
def test_convention_of_gradients(name):
    """Of a real function the gradient is the conjugate of that of the holomorphic one."""
    f, z = getattr(special, name), np.array([0.7 - 0.4j, -1.3 + 0.6j])
    wanted = np.conj((1.0 - 2.0j) * slope(f)(z))
    found = tg.grad(lambda z: np.sum((1.0 - 2.0j) * f(z)).real)(z)
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    value, along = tg.jvp(f, (z,), (np.array([1.0j, 2.0]),))
    np.testing.assert_allclose(value, getattr(scipy.special, name)(z), rtol=1e-13)
    np.testing.assert_allclose(along, slope(f)(z) * [1.0j, 2.0], rtol=1e-13)
    each = tg.vmap(tg.grad(lambda z: f(z), holomorphic=True))(z)
    np.testing.assert_allclose(each, slope(f)(z), rtol=1e-13)


def parts(z, x):
    total = 0.0
    for name in NAMES:
        made = getattr(scipy.special, name)(z * np.exp(0.3j * x))
        total = total + np.sum(made.real * np.cos(x) + made.imag * x)
    return total


@pytest.mark.parametrize("native", [False, True])
def test_programs(native):
    c = tg.compile(parts, native=native)
    for k in range(3):
        z, x = np.array([0.4 + 0.9j, 1.3 - 0.2j]) + 0.1 * k, np.array([0.3, -0.8]) * (1.0 + k)
        value, gradient = c.value_and_grad(z, x)
        np.testing.assert_allclose(value, parts(z, x), rtol=1e-12)
        np.testing.assert_allclose(gradient, tg.grad(parts)(z, x), rtol=1e-11)
    hessian = tg.compile(lambda x: parts(z, x), native=native).hessian(x)
    np.testing.assert_allclose(hessian, tg.hessian(lambda x: parts(z, x))(x), rtol=1e-9)


def test_wofz_of_real_numbers():
    x = np.array([0.3, -1.2, 9.0])
    found = tg.jacobian(scipy.special.wofz)(x)
    wanted = -2.0 * x * scipy.special.wofz(x) + 2j / np.sqrt(np.pi)
    np.testing.assert_allclose(np.diag(found), wanted, rtol=1e-12)
    assert tg.grad(lambda x: special.wofz(x).real)(0.5) == pytest.approx(-np.exp(-0.25))


def test_poles_of_gamma():
    assert slope(special.rgamma)(-2.0 + 0.0j) == pytest.approx(2.0, rel=1e-13)
    assert np.isnan(slope(special.psi)(-2.0 + 0.0j))


def test_voigt_profile():
    """As users write it by wofz, beside SciPy's own function of real numbers."""

    def profile(p):
        z = (p[0] + 1j * p[2]) / (p[1] * np.sqrt(2.0))
        return scipy.special.wofz(z).real / (p[1] * np.sqrt(2.0 * np.pi))

    def plain(p):
        return scipy.special.voigt_profile(p[0], p[1], p[2])

    p = np.array([0.4, 0.9, 0.3])
    np.testing.assert_allclose(tg.grad(profile)(p), tg.grad(plain)(p), rtol=1e-12)
    np.testing.assert_allclose(tg.hessian(profile)(p), tg.hessian(plain)(p), rtol=1e-9, atol=1e-12)
    of_normal = tg.grad(scipy.special.voigt_profile)(0.4, 0.9, 0.0)
    exact = -0.4 / 0.81 * np.exp(-0.08 / 0.81) / (0.9 * np.sqrt(2.0 * np.pi))
    np.testing.assert_allclose(of_normal, exact, rtol=1e-13)


def test_others_refuse_complex_numbers():
    with pytest.raises(TypeError, match="complex"):
        tg.grad(lambda z: special.gammaln(z).real)(0.3 + 0.2j)
