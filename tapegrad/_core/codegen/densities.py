"""Densities of gamma, beta and t distributions, and differences of digamma, to full accuracy.

They are the derivatives of incomplete gamma and beta functions, which have parameters of any size:
logarithms of Γ are taken apart by Stirling's series, since they cancel.
"""

from . import vector_math as np
from .intrinsics import helper

_ROOT = 0.3989422804014327  # 1 / √(2π)
_INFINITY, _NAN = float("inf"), float("nan")


@helper
def log1p_minus(z):
    """log(1 + z) − z."""
    if np.absolute(z) > 0.3:
        return np.log1p(z) - z
    r = z / (2.0 + z)  # log(1 + z) = 2 (r + r³/3 + r⁵/5 + …), and 2r − z = −r z
    square = r * r
    total = 0.0
    k = 27.0
    while k > 1.0:
        total = (total + 2.0 / k) * square
        k -= 2.0
    return r * (total - z)


@helper
def stirling(a):
    """What log Γ(a) is above (a − ½) log a − a + ½ log 2π, for a ≥ 10."""
    y = 1.0 / (a * a)
    total = -1.0 / 360.0 + y * (1.0 / 1260.0 + y * (-1.0 / 1680.0 + y * (1.0 / 1188.0)))
    tail = y * y * y * y * y * (-691.0 / 360360.0 + y / 156.0)
    return (1.0 / 12.0 + y * total + tail) / a


@helper
def gamma_density(a, x):
    """x^(a − 1) e^−x / Γ(a); for a ≤ 0, too, where the factor 1 / Γ(a) may be negative or 0."""
    if not (x >= 0.0 and a == a):
        return _NAN
    if x == _INFINITY or a == _INFINITY:
        return 0.0
    factor = 1.0
    while a <= 0.0:
        if a == np.floor(a):
            return 0.0
        factor *= a if x == 0.0 else a / x
        a += 1.0
    if x == 0.0:
        return factor if a == 1.0 else (factor * _INFINITY if a < 1.0 or factor != 1.0 else 0.0)
    if a < 10.0:
        if x < 600.0:
            return factor * np.power(x, a - 1.0) * np.exp(-x) / np.gamma(a)
        return factor * np.exp((a - 1.0) * np.log(x) - x - np.gammaln(a))
    z = (x - a) / a
    exponent = np.log(x / a) - z if x < 0.5 * a else log1p_minus(z)
    return factor * np.exp(a * exponent - stirling(a)) * np.sqrt(a) * _ROOT / x


@helper
def beta_edge(a, b, x):
    """x^(a − 1) / B(a, b) for x = 0."""
    if a == 1.0:
        return b
    return _INFINITY if a < 1.0 else 0.0


@helper
def beta_density(a, b, x, y):
    """x^(a − 1) y^(b − 1) / B(a, b), where y is 1 − x."""
    if not (a > 0.0 and b > 0.0 and x >= 0.0 and y >= 0.0):
        return _NAN
    if x == 0.0:
        return beta_edge(a, b, x)
    if y == 0.0:
        return beta_edge(b, a, y)
    s = a + b
    if a >= 10.0 and b >= 10.0:
        d = x * b - y * a  # x = (a + d) / s, y = (b − d) / s
        u = d / a
        v = -d / b
        of_x = np.log(x * (s / a)) - u if u < -0.3 else log1p_minus(u)
        of_y = np.log(y * (s / b)) - v if v < -0.3 else log1p_minus(v)
        exponent = a * of_x + b * of_y
        exponent += stirling(s) - stirling(a) - stirling(b)
        return np.exp(exponent) * np.sqrt(a / s * b) * _ROOT / (x * y)
    log_x = np.log(x) if x <= y else np.log1p(-y)
    log_y = np.log(y) if y < x else np.log1p(-x)
    if a < 10.0 and b < 10.0:
        both = np.exp((b - 1.0) * log_y) if x <= y else np.exp((a - 1.0) * log_x)
        other = np.power(x, a - 1.0) if x <= y else np.power(y, b - 1.0)
        return both * other / (np.gamma(a) * np.gamma(b)) * np.gamma(s)
    low = np.minimum(a, b)
    high = np.maximum(a, b)  # Γ(s) / Γ(high) by Stirling's series
    ratio = (high - 0.5) * np.log1p(low / high) + low * (np.log(s) - 1.0)
    ratio += stirling(s) - stirling(high)
    return np.exp((a - 1.0) * log_x + (b - 1.0) * log_y + ratio - np.gammaln(low))


@helper
def t_density(df, t):
    """The density of Student's t distribution."""
    if not df > 0.0:
        return _NAN
    if df == _INFINITY:
        return _ROOT * np.exp(-0.5 * t * t)
    h = 0.5 * df
    if df < 20.0:
        ratio = np.gamma(h + 0.5) / np.gamma(h)
    else:
        exponent = stirling(h + 0.5) - stirling(h) + h * np.log1p(0.5 / h) - 0.5
        ratio = np.exp(exponent) * np.sqrt(h)
    far = np.absolute(t) > 1e150
    logarithm = 2.0 * np.log(np.absolute(t)) - np.log(df) if far else np.log1p(t * t / df)
    return ratio * np.exp(-(h + 0.5) * logarithm) * 0.5641895835477563 / np.sqrt(df)


@helper
def digamma_difference(p, q):
    """ψ(p + q) − ψ(p)."""
    s = p + q
    if not (p > 0.0 and s > 0.0 and p < _INFINITY and s < _INFINITY):
        return np.digamma(s) - np.digamma(p)
    total = 0.0
    while p < 12.0 or s < 12.0:
        total += q / (p * s)
        p += 1.0
        s += 1.0
    # log p − 1/(2p) − Σ B₂ₖ/(2k p²ᵏ): the difference of the sum by that of u = 1/p² and v = 1/s²
    u = 1.0 / (p * p)
    v = 1.0 / (s * s)
    value = -1.0 / 12.0
    slope = 0.0
    slope = value + u * slope
    value = 691.0 / 32760.0 + v * value
    slope = value + u * slope
    value = -1.0 / 132.0 + v * value
    slope = value + u * slope
    value = 1.0 / 240.0 + v * value
    slope = value + u * slope
    value = -1.0 / 252.0 + v * value
    slope = value + u * slope
    value = 1.0 / 120.0 + v * value
    slope = value + u * slope
    value = -1.0 / 12.0 + v * value
    slope = value + u * slope
    apart = q * (p + s) * u * v  # u − v
    return total + np.log1p(q / p) + 0.5 * q / (p * s) - apart * slope
