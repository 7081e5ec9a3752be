"""Derivatives of incomplete gamma functions by their parameter.

The derivative of an integral of a density by a parameter is the integral of (log t − its mean)
times the density. It is taken over the side on which this factor hardly changes its sign, so that
nothing cancels and the error is small beside the result, in the tails too. In the logarithm of t
the density is log-concave and smooth: 24 nodes of Gauss and Legendre do, up to where it has fallen
by a factor of exp(−40). Terms of the series raise small parameters before.
"""

from . import vector_math as np
from .densities import gamma_density
from .intrinsics import helper, sum_of
from .legendre_nodes import NODES, nodes, weights

_FALL = 40.0
_INFINITY, _NAN = float("inf"), float("nan")


@helper
def log_above_digamma(a, x):
    """log x − ψ(a)."""
    if a < 10.0:
        return np.log(x) - np.digamma(a)
    y = 1.0 / (a * a)
    total = 0.5 / a + y * (
        1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y * (1.0 / 240.0 - y / 132.0)))
    )
    near = np.absolute(x - a) < 0.5 * a
    return total + (np.log1p((x - a) / a) if near else np.log(x / a))


@helper
def gamma_start(a, x, left):
    """Where, in log(t / x), the density is below exp(−40) of that at x."""
    apart = np.absolute(a - x)
    if left:
        # eᵛ − 1 − v ≥ v²/3 between −1 and 0
        near = 1.5 * (np.sqrt(apart * apart + 4.0 / 3.0 * _FALL * x) - apart) / x
        return -near if near <= 1.0 else -(_FALL + x) / a
    wide = ((a - x) + np.sqrt(apart * apart + 2.0 * _FALL * x)) / x
    if a >= 10.0:
        return wide
    return np.minimum(wide, np.log((200.0 + 11.0 * a * (10.0 + np.absolute(np.log(x)))) / x))


@helper
def gamma_end(a, x, left):
    """The same, near the place where it is exp(−40): Newton's steps go inward."""
    v = gamma_start(a, x, left)
    for _ in range(40):
        e = x * np.expm1(v)
        step = (a * v - e + _FALL) / (a - x - e)
        v -= step
        if np.absolute(step) < 0.05 * np.absolute(v):
            break
    return v


@helper
def gamma_side(a, x, left, second):
    """The integral of (log t − ψ) times the density from 0 to x, or from x on; or of its square."""
    density = gamma_density(a, x) * x
    if density == 0.0:  # far in a tail, where the sums below overflow
        return 0.0
    v = gamma_end(a, x, left)
    distance = log_above_digamma(a, x)
    least = np.polygamma(1.0, a) if second else 0.0
    # the factor is the product of `factor` and `other`, less the mean
    first = distance if second else 1.0
    more = v if second else 0.0
    at, weight = nodes(), weights()
    total = 0.0
    for k in range(NODES):
        place = v * at[k]
        factor = (distance + place) * (first + more * at[k]) - least
        term = weight[k] * factor * np.exp(a * place - x * np.expm1(place))
        total = sum_of(total, term)
    return np.absolute(v) * total * density


@helper
def gamma_derivative(a, x, second):
    """The derivative of the lower incomplete gamma function by a, or the second one."""
    if not (a > 0.0 and x >= 0.0):
        return _NAN
    if x == 0.0 or x == _INFINITY or a == _INFINITY:
        return 0.0
    if x > 0.5 and (x > a if second else log_above_digamma(a, x) > 0.0):
        return -gamma_side(a, x, False, second)
    if a >= 8.0:
        return gamma_side(a, x, True, second)
    term = gamma_density(a + 1.0, x)  # terms of the series, of which the first is this one
    slope = np.log(x) - np.digamma(a + 1.0)
    curve = np.polygamma(1.0, a + 1.0) if second else 0.0
    whole = x < 2.0 or x < 0.7 * a
    total = 0.0
    for _ in range(500):
        part = term * (slope * slope - curve if second else slope)
        total += part
        a += 1.0
        if whole and np.absolute(part) < 1e-17 * np.absolute(total):
            return total
        if not whole and a >= 8.0:
            break
        term *= x / a
        slope -= 1.0 / a
        curve -= 1.0 / (a * a)
    return total + gamma_side(a, x, True, second)


@helper
def gammainc_da(a, x):
    return gamma_derivative(a, x, False)


@helper
def gammainc_daa(a, x):
    return gamma_derivative(a, x, True)
