"""Derivatives of Hurwitz's and Riemann's zeta functions by the exponent, taken once or twice.

Terms of the series up to a place, then the formula of Euler and Maclaurin; of Riemann's function
below −1 the reflection of it.
"""

from . import vector_math as np
from .intrinsics import helper

_NAN = float("nan")
_PI = 3.141592653589793


@helper
def weight_of(j):
    """B₂ⱼ / (2j)!"""
    if j == 1:
        return 1.0 / 12.0
    if j == 2:
        return -1.0 / 720.0
    if j == 3:
        return 1.0 / 30240.0
    if j == 4:
        return -1.0 / 1209600.0
    if j == 5:
        return 1.0 / 47900160.0
    if j == 6:
        return -691.0 / 1307674368000.0
    return 1.0 / 74724249600.0


@helper
def hurwitz_slope(x, q, times):
    """The derivative by x of Σ (q + k)^−x, for x of at least −1 that is not 1."""
    total = 0.0
    while q < 14.0 + x:
        distance = -np.log(q)
        part = np.exp(x * distance) * (distance if times == 1 else distance * distance)
        total += part
        q += 1.0
        if x > 30.0 and np.absolute(part) < 1e-18 * np.absolute(total):
            return total
    distance = -np.log(q)
    first = 1.0 / (x - 1.0)
    # the sum of the terms over q^−x, and its derivatives: the product with q^−x comes last
    value = q * first + 0.5
    slope = -q * first * first
    bend = 2.0 * q * first * first * first
    rising, of_rising, twice = x / q, 1.0 / q, 0.0
    for j in range(1, 8):
        value += weight_of(j) * rising
        slope += weight_of(j) * of_rising
        bend += weight_of(j) * twice
        for k in range(2 * j - 1, 2 * j + 1):
            factor = (x + k) / q
            twice = twice * factor + 2.0 * of_rising / q
            of_rising = of_rising * factor + rising / q
            rising *= factor
    tail = slope + distance * value
    if times == 2:
        tail = bend + 2.0 * distance * slope + distance * distance * value
    return total + np.exp(x * distance) * tail


@helper
def riemann_slope(x, times):
    """The same of Riemann's function below −1: 2ˣ πˣ⁻¹ sin(πx/2) Γ(1 − x) ζ(1 − x)."""
    y = 1.0 - x
    scale = np.power(2.0 * _PI, x) / _PI * np.gamma(y)
    turned = 0.5 * _PI * (x - 4.0 * np.rint(0.25 * x))
    sine, cosine = np.sin(turned), 0.5 * _PI * np.cos(turned)
    value, slope = np.zeta(y, 1.0), hurwitz_slope(y, 1.0, 1)
    growth = 1.8378770664093453 - np.digamma(y)  # log 2π − ψ
    if times == 1:
        return scale * ((growth * sine + cosine) * value - sine * slope)
    bend = hurwitz_slope(y, 1.0, 2)
    found = (growth * growth + np.polygamma(1.0, y) - 0.25 * _PI * _PI) * sine * value
    found += 2.0 * growth * (cosine * value - sine * slope)
    return scale * (found - 2.0 * cosine * slope + sine * bend)


@helper
def zeta_slope(x, q, times):
    """The derivative by x, for x above 1, or for a q of 1."""
    if not (q > 0.0 and (x > 1.0 or (q == 1.0 and x < 1.0))):
        return _NAN
    if x < -1.0:
        return riemann_slope(x, times)
    return hurwitz_slope(x, q, times)


@helper
def zeta_dx(x, q):
    return zeta_slope(x, q, 1)


@helper
def zeta_dxx(x, q):
    return zeta_slope(x, q, 2)
