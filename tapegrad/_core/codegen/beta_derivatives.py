"""Derivatives of incomplete beta functions by their parameters, as in `gamma_derivatives`.

The density is integrated in the logarithm of t / (1 − t), where it is log-concave.
"""

from . import vector_math as np
from .densities import beta_density, digamma_difference, t_density
from .intrinsics import helper, sum_of
from .legendre_nodes import NODES, nodes, weights

_FALL = 40.0
_INFINITY, _NAN = float("inf"), float("nan")
#: With A = log t − its mean, and B of 1 − t: the integrals of A, B, A², AB, B², less their means.
_OF_A, _OF_B, _OF_AA, _OF_AB, _OF_BB = range(5)


@helper
def factor_of(of_a, of_b, mean, which):
    """The factor of the density that is integrated."""
    if which == _OF_A:
        return of_a
    if which == _OF_B:
        return of_b
    left = of_b if which == _OF_BB else of_a
    right = of_a if which == _OF_AA else of_b
    return left * right - mean


@helper
def beta_mean(a, b, which):
    """The mean of the product of the factors: what is taken from it."""
    if which < _OF_AA:
        return 0.0
    common = np.polygamma(1.0, a + b)
    if which == _OF_AB:
        return -common
    return np.polygamma(1.0, a if which == _OF_AA else b) - common


@helper
def beta_end(a, s, x, log_y):
    """Where, in log(t / x), the density is about exp(−40) of that at x, or less."""
    v = (s * log_y - _FALL) / a  # it is below that; Newton's steps go inward
    for _ in range(40):
        e = x * np.expm1(v)
        step = (a * v - s * np.log1p(e) + _FALL) / (a - s * (e + x) / (1.0 + e))
        v -= step
        if np.absolute(step) < 0.05 * np.absolute(v):
            break
    return v


@helper
def beta_side(a, b, x, y, which):
    """The integral of a factor times the density from 0 to x, for x below a / (a + b)."""
    s = a + b
    log_x = np.log(x) if x <= y else np.log1p(-y)
    log_y = np.log(y) if y < x else np.log1p(-x)
    v = beta_end(a, s, x, log_y)
    of_a = log_x + digamma_difference(a, b)
    of_b = log_y + digamma_difference(b, a)
    mean = beta_mean(a, b, which)
    # the factor is a product, of which one may be 1: A has terms of `place`, B has not
    is_a = which == _OF_A or which == _OF_AA or which == _OF_AB
    left, of_left = (of_a, 1.0) if is_a else (of_b, 0.0)
    right, of_right = (of_a, 1.0) if which == _OF_AA else (of_b, 0.0)
    more = 1.0
    if which < _OF_AA:
        right, of_right, more = 1.0, 0.0, 0.0
    panels = 1 + int(np.minimum(-v * 0.25, 60.0))  # the logistic function has poles at ±πi
    width = v / panels
    at, weight = nodes(), weights()
    total = 0.0
    for j in range(panels):
        for k in range(NODES):
            place = width * (j + at[k])
            w = np.log1p(x * np.expm1(place))
            factor = (left + of_left * place - w) * (right + of_right * place - more * w) - mean
            total = sum_of(total, weight[k] * factor * np.exp(a * place - s * w))
    return np.absolute(width) * total * beta_density(a, b, x, y) * x * y


@helper
def beta_left(a, b, x, y, which):
    """`beta_side`, with terms of the series before where a is small, or with the whole series."""
    ratio = np.maximum(x, x * (a + b) / (a + 1.0))
    if a >= 8.0 and ratio >= 0.3:
        return beta_side(a, b, x, y, which)
    log_x = np.log(x) if x <= y else np.log1p(-y)
    log_y = np.log(y) if y < x else np.log1p(-x)
    term = beta_density(a + 1.0, b, x, y) * y / (a + b)
    of_a = log_x + digamma_difference(a + 1.0, b - 1.0)
    of_b = log_y + digamma_difference(b, a)
    mean = 0.0
    if which == _OF_AB:
        mean = -np.polygamma(1.0, a + b)
    elif which == _OF_AA:
        mean = np.polygamma(1.0, a + 1.0) - np.polygamma(1.0, a + b)
    elif which == _OF_BB:
        mean = np.polygamma(1.0, b) - np.polygamma(1.0, a + b)
    whole = ratio < 0.75
    total = 0.0
    for _ in range(500):
        part = term * factor_of(of_a, of_b, mean, which)
        total += part
        s = a + b
        a += 1.0
        if whole and np.absolute(part) < 1e-17 * np.absolute(total):
            return total
        if not whole and a >= 8.0:
            break
        term *= x * s / a
        of_a += 1.0 / s - 1.0 / a
        of_b += 1.0 / s
        if which == _OF_AA:
            mean += 1.0 / (s * s) - 1.0 / (a * a)
        elif which > _OF_AA:
            mean += 1.0 / (s * s)
    return total + beta_side(a, b, x, y, which)


@helper
def beta_derivative(a, b, x, y, which, mirrored):
    """A derivative of the incomplete beta function; the one that is it for 1 − x is `mirrored`."""
    if not (a > 0.0 and b > 0.0 and x >= 0.0 and y >= 0.0):
        return _NAN
    if x == 0.0 or y == 0.0:
        return 0.0
    if x * b <= y * a:
        return beta_left(a, b, x, y, which)
    return -beta_left(b, a, y, x, mirrored)


@helper
def betainc_da(a, b, x, y):
    return beta_derivative(a, b, x, y, _OF_A, _OF_B)


@helper
def betainc_db(a, b, x, y):
    return beta_derivative(a, b, x, y, _OF_B, _OF_A)


@helper
def betainc_daa(a, b, x, y):
    return beta_derivative(a, b, x, y, _OF_AA, _OF_BB)


@helper
def betainc_dab(a, b, x, y):
    return beta_derivative(a, b, x, y, _OF_AB, _OF_AB)


@helper
def betainc_dbb(a, b, x, y):
    return beta_derivative(a, b, x, y, _OF_BB, _OF_AA)


@helper
def t_gap(df, second):
    """ψ(h + ½) − ψ(h) − 1/df, where h is df/2, for df ≥ 16; or its derivative by df."""
    h = 0.5 * df
    z = 1.0 / (h * h)
    if second:
        if df < 60.0:
            return 0.5 * (np.polygamma(1.0, h + 0.5) - np.polygamma(1.0, h)) + 1.0 / (df * df)
        return -z / df * (0.25 - z * (1.0 / 16.0 - z * (3.0 / 64.0 - z * (17.0 / 256.0))))
    if df < 60.0:
        return digamma_difference(h, 0.5) - 1.0 / df
    return z * (0.125 - z * (1.0 / 64.0 - z * (1.0 / 128.0 - z * (17.0 / 2048.0))))


@helper
def log_curve(u):
    """log(1 + u) − u / (1 + u) for u from 0 to 0.3: all terms have one sign."""
    r = u / (2.0 + u)  # log(1 + u) = 2 (r + r³/3 + r⁵/5 + …)
    q = r * r
    total = 2.0 / 19.0 + q * (2.0 / 21.0)
    total = 2.0 / 13.0 + q * (2.0 / 15.0 + q * (2.0 / 17.0 + q * total))
    total = 2.0 / 7.0 + q * (2.0 / 9.0 + q * (2.0 / 11.0 + q * total))
    return r * (u / (1.0 + u) + q * (2.0 / 3.0 + q * (2.0 / 5.0 + q * total)))


@helper
def t_factor(df, gap, bend, share, curve, second):
    """The derivative of the t density by df over the density, or the second one, without branches.

    For u = t²/df `share` is u / (1 + u), `curve` that of `log_curve`; `gap` is that of `t_gap`,
    `bend` its derivative. `second` is 1 or 0.
    """
    slope = 0.5 * (gap + share / df - curve)
    more = 0.5 * (bend + share * share / df - share * (2.0 - share) / (df * df))
    return slope * (1.0 - second + second * slope) + second * more


@helper
def t_tail(df, gap, bend, t, second):
    """The integral of the factor times the density from t on, in log t, for t beyond 1.5."""
    u = t * t / df
    half = 0.5 * (df + 1.0)
    v = _FALL / (2.0 * half * u / (1.0 + u) - 1.0)  # beyond the point where it fell by exp(−40)
    for _ in range(40):
        e = u * np.expm1(2.0 * v) / (1.0 + u)
        slope = 1.0 - 2.0 * half * (e + u / (1.0 + u)) / (1.0 + e)
        step = (v - half * np.log1p(e) + _FALL) / slope
        v -= step
        if np.absolute(step) < 0.05 * v:
            break
    of_start = np.log1p(u)
    at, weight = nodes(), weights()
    total = 0.0
    for k in range(NODES):
        place = v * at[k]
        grown = np.expm1(2.0 * place)
        w = np.log1p(u * grown / (1.0 + u))
        here = u + u * grown
        share = here / (1.0 + here)
        near = log_curve(np.minimum(here, 0.3))
        curve = np.select(here < 0.3, near, of_start + w - share)
        factor = t_factor(df, gap, bend, share, curve, second)
        total = sum_of(total, weight[k] * factor * np.exp(place - half * w))
    return total * v * t * t_density(df, t)


@helper
def t_middle(df, gap, bend, t, second):
    """The integral of the factor times the density from 0 to t, for t² below 0.3 df."""
    at, weight = nodes(), weights()
    total = 0.0
    for k in range(NODES):
        place = t * at[k]
        u = place * place / df
        share = u / (1.0 + u)
        curve = log_curve(u)
        factor = t_factor(df, gap, bend, share, curve, second)
        total = sum_of(total, weight[k] * factor * np.exp(-0.5 * (df + 1.0) * (curve + share)))
    return total * t * t_density(df, 0.0)


@helper
def t_by_beta(df, t, second):
    """The derivative by df of the probability beyond t, by betainc(df/2, ½, df / (df + t²))."""
    x = 1.0 / (1.0 + t * t / df)
    y = 1.0 / (1.0 + df / (t * t)) if t > 1e-150 else t * t / df
    h = 0.5 * df
    q = x * y / df  # the derivative of x
    density = beta_density(h, 0.5, x, y)
    if not second:
        return 0.25 * beta_derivative(h, 0.5, x, y, _OF_A, _OF_B) + 0.5 * density * q
    log_x = np.log(x) if x <= y else np.log1p(-y)
    of_a = log_x + digamma_difference(h, 0.5)
    inner = of_a + ((h - 1.0) * y + 0.5 * x) / df - 2.0 * x / df
    return 0.125 * beta_derivative(h, 0.5, x, y, _OF_AA, _OF_BB) + 0.5 * density * q * inner


@helper
def t_derivative(df, t, second):
    """The derivative of Student's t distribution by the degrees of freedom, taken once or twice."""
    size = np.absolute(t)
    if not (df > 0.0 and t == t):
        return _NAN
    if df == _INFINITY or t == 0.0 or size == _INFINITY:
        return 0.0
    sign = 1.0 if t > 0.0 else -1.0
    if df < 16.0:
        return -sign * t_by_beta(df, size, second)
    gap = t_gap(df, False)
    bend = t_gap(df, True) if second else 0.0
    which = 1.0 if second else 0.0
    if size > 1.5:
        return -sign * t_tail(df, gap, bend, size, which)
    return sign * t_middle(df, gap, bend, size, which)


@helper
def stdtr_ddf(df, t):
    return t_derivative(df, t, False)


@helper
def stdtr_dddf(df, t):
    return t_derivative(df, t, True)
