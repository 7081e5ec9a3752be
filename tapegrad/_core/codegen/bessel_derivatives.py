"""Derivatives of Bessel's K by its order: integrals of t sinh(v t) exp(−x cosh t) from 0 on.

They are smooth and fall faster than exponentially: the trapezoid rule does, between the points
where they are exp(−42) of the largest value.
"""

from . import vector_math as np
from .intrinsics import helper, sum_of

_FALL = 42.0
_INFINITY, _NAN = float("inf"), float("nan")


@helper
def height(v, x, t):
    """The logarithm of cosh(v t) exp(x − x cosh t), but for a factor of at most 2."""
    half = np.sinh(0.5 * t)
    return v * t - 2.0 * x * half * half


@helper
def root_of(v, x, t, top, level):
    """Near where `height` has a level, beside its `top`, from a lower point by Newton's steps."""
    for _ in range(60):
        step = (height(v, x, t) - level) / (v - x * np.sinh(t))
        t -= step
        if np.absolute(step) < 0.05 * np.absolute(t - top):
            break
    return t


@helper
def kve_derivative(v, x, times):
    """The derivative of exp(x) K by the order v, taken once or twice."""
    if not (x > 0.0 and v == v and np.absolute(v) < _INFINITY):
        return _INFINITY if x == 0.0 and times == 2 else _NAN
    if x == _INFINITY or (v == 0.0 and times == 1):
        return 0.0
    order = np.absolute(v)
    top = np.arcsinh(order / x)
    most = height(order, x, top)
    level = most - _FALL
    # beyond `top` it falls faster than a parabola, and, where its slope is −120, by 60 in ½
    wide = top + np.sqrt(2.0 * _FALL / np.hypot(order, x))
    high = root_of(order, x, np.minimum(wide, np.arcsinh((order + 120.0) / x) + 0.5), top, level)
    low = 0.0 if level < 0.0 else root_of(order, x, 0.0, top, level)
    count = 8 * int(np.maximum(4.0, np.ceil(0.9 * (high - low)))) - 1  # in vectors of eight
    step = (high - low) / count
    total = 0.0
    for k in range(count + 1):
        t = low + step * k
        back = np.expm1(-2.0 * order * t)
        factor = t * (t * (2.0 + back) if times == 2 else -back)
        total = sum_of(total, factor * np.exp(height(order, x, t) - most))
    total = 0.5 * total * step * np.exp(most)
    return -total if v < 0.0 and times == 1 else total


@helper
def kve_dv(v, x):
    return kve_derivative(v, x, 1)


@helper
def kve_dvv(v, x):
    return kve_derivative(v, x, 2)


@helper
def kv_dv(v, x):
    return kve_derivative(v, x, 1) * np.exp(-x)


@helper
def kv_dvv(v, x):
    return kve_derivative(v, x, 2) * np.exp(-x)
