"""Derivatives of digamma and of Faddeeva's w at complex numbers, of any order."""

from . import vector_math as np
from .intrinsics import helper

_ROOT = 0.5641895835477563  # 1 / √π
_NAN = float("nan")


@helper
def exponential(x, y):
    """exp(x + iy)."""
    size = np.exp(x)
    return complex(size * np.cos(y), size * np.sin(y) if y != 0.0 else y)


@helper
def whole_power(z, n):
    """z to the power n, which is not negative."""
    total = complex(1.0, 0.0)
    while n > 0.0:
        if np.fmod(n, 2.0) == 1.0:
            total *= z
        z *= z
        n = np.floor(0.5 * n)
    return total


@helper
def inverse(z):
    """1 / z."""
    square = z.real * z.real + z.imag * z.imag
    return complex(z.real / square, -z.imag / square)


@helper
def shifted_polygamma(n, z):
    """Σ (z + k)^−(n + 1) from k = 0 on: terms up to a large real part, then Euler–Maclaurin."""
    total = complex(0.0, 0.0)
    while z.real < 15.0 + n:
        total += inverse(whole_power(z, n + 1.0))
        z += 1.0
    u = inverse(z)
    w = u * u
    power = whole_power(u, n)
    total += power * (1.0 / n) + 0.5 * power * u
    term = (n + 1.0) * power * w
    total += term * (1.0 / 12.0)
    term *= (n + 2.0) * (n + 3.0) * w
    total -= term * (1.0 / 720.0)
    term *= (n + 4.0) * (n + 5.0) * w
    total += term * (1.0 / 30240.0)
    term *= (n + 6.0) * (n + 7.0) * w
    total -= term * (1.0 / 1209600.0)
    term *= (n + 8.0) * (n + 9.0) * w
    return total + term * (1.0 / 47900160.0)


@helper
def polygamma_of(n, x, y):
    """Derivative n ≥ 1 of digamma."""
    if not (1.0 <= n <= 100.0 and x > -1e5) or (y == 0.0 and x <= 0.0 and x == np.floor(x)):
        return complex(_NAN, _NAN)
    factorial = -1.0 if np.fmod(n, 2.0) == 0.0 else 1.0
    k = 2.0
    while k <= n:
        factorial *= k
        k += 1.0
    return factorial * shifted_polygamma(n, complex(x, y))


@helper
def normal_slope(n, z):
    """Derivative n of exp(−z²)."""
    before = complex(0.0, 0.0)
    found = exponential(z.imag * z.imag - z.real * z.real, -2.0 * z.real * z.imag)
    k = 0.0
    while k < n:
        after = -2.0 * (z * found + k * before)
        before = found
        found = after
        k += 1.0
    return found


@helper
def wofz_far(n, z):
    """Derivative n of i / √π Σ (2k − 1)!! / (2ᵏ z²ᵏ⁺¹), w above the real axis far from 0."""
    u = inverse(z)
    w = u * u
    term = u
    k = 1.0
    while k <= n:  # n! / zⁿ⁺¹
        term *= -k * u
        k += 1.0
    total = complex(0.0, 0.0)
    k = 0.0
    while k < 26.0:
        total += term
        term *= w * ((k + 0.5) * (2.0 * k + n + 2.0) * (2.0 * k + n + 1.0))
        term *= 1.0 / ((2.0 * k + 2.0) * (2.0 * k + 1.0))
        k += 1.0
    return total * complex(0.0, _ROOT)


@helper
def wofz_near(n, z):
    """Derivative n by w″ = −2 (z w′ + w), and its derivatives."""
    before = complex(np.complex_wofz_real(z.real, z.imag), np.complex_wofz_imag(z.real, z.imag))
    found = -2.0 * z * before + complex(0.0, 2.0 * _ROOT)
    k = 1.0
    while k < n:
        after = -2.0 * (z * found + k * before)
        before = found
        found = after
        k += 1.0
    return found


@helper
def wofz_slope(n, x, y):
    """Derivative n ≥ 1 of w(z) = exp(−z²) erfc(−iz); below the axis w(z) = 2 exp(−z²) − w(−z)."""
    if not (1.0 <= n <= 100.0):
        return complex(_NAN, _NAN)
    if x * x + y * y < 49.0:
        return wofz_near(n, complex(x, y))
    if y >= 0.0:
        return wofz_far(n, complex(x, y))
    found = wofz_far(n, complex(-x, -y))
    if np.fmod(n, 2.0) == 0.0:
        found = -1.0 * found
    return 2.0 * normal_slope(n, complex(x, y)) + found


@helper
def complex_polygamma_real(n, x, y):
    return polygamma_of(n, x, y).real


@helper
def complex_polygamma_imag(n, x, y):
    return polygamma_of(n, x, y).imag


@helper
def complex_wofz_slope_real(n, x, y):
    return wofz_slope(n, x, y).real


@helper
def complex_wofz_slope_imag(n, x, y):
    return wofz_slope(n, x, y).imag
