"""Derivatives of Bessel's I, J and Y by their order.

I is a series of terms of one sign, or Schläfli's integral through its saddle point; J and Y are
differences of values (see `parameter_differences`).
"""

from . import vector_math as np
from .bessel_derivatives import kve_derivative
from .intrinsics import helper, sum_of
from .legendre_nodes import NODES, nodes, weights
from .parameter_differences import HALF, derivative_of, place, samples

_INFINITY, _NAN = float("inf"), float("nan")
_PI = 3.141592653589793


# --- Bessel's I ----------------------------------------------------------------------------------


@helper
def iv_series(v, x, times, shift):
    """The derivative of Σ (x/2)^(2k + v) / (k! Γ(k + v + 1)) exp(−shift) by v."""
    quarter = 0.25 * x * x
    term = np.exp(-shift) * np.power(0.5 * x, v) / np.gamma(v + 1.0)
    slope = np.log(0.5 * x) - np.digamma(v + 1.0)
    curve = np.polygamma(1.0, v + 1.0) if times == 2 else 0.0
    total = 0.0
    k = 1.0
    while k < 500.0:
        part = term * (slope * slope - curve if times == 2 else slope)
        total += part
        if k > x and np.absolute(part) < 1e-18 * np.absolute(total):
            break
        inverse = 1.0 / (v + k)
        term *= quarter * inverse / k
        slope -= inverse
        curve -= inverse * inverse
        k += 1.0
    return total


@helper
def iv_across(v, saddle, size, times):
    """The integral over w = saddle + is of (−w)ᵗ exp(x cosh w − v w), over its largest value."""
    end = np.arccos(np.maximum(1.0 - 40.0 / size, -1.0))
    at, weight = nodes(), weights()
    total = 0.0
    for half in range(2):
        for k in range(NODES):
            s = 0.5 * end * (half + at[k])
            sine = np.sin(0.5 * s)
            angle = v * (np.sin(s) - s)
            if times == 1:
                factor = s * np.sin(angle) - saddle * np.cos(angle)
            else:
                factor = (saddle * saddle - s * s) * np.cos(angle)
                factor -= 2.0 * saddle * s * np.sin(angle)
            total = sum_of(total, weight[k] * factor * np.exp(-2.0 * size * sine * sine))
    return total * 0.5 * end / _PI


@helper
def iv_along(v, x, saddle, size, times):
    """The derivative of −sin(πv)/π ∫ exp(−x cosh t − v t), over its first exponential."""
    top = size / x  # cosh of the saddle
    end = np.arccosh(top + 40.0 / x) - saddle
    turned = _PI * (v - 2.0 * np.rint(0.5 * v))
    sine, cosine = np.sin(turned), np.cos(turned)
    at, weight = nodes(), weights()
    total = 0.0
    for half in range(2):
        for k in range(NODES):
            u = 0.5 * end * (half + at[k])
            t = saddle + u
            sinh = np.sinh(0.5 * u)
            # x (cosh t − cosh saddle), where x sinh(saddle) = v
            down = 2.0 * size * sinh * sinh + v * np.sinh(u) + v * u
            if times == 1:
                factor = _PI * cosine - t * sine
            else:
                factor = (t * t - _PI * _PI) * sine - 2.0 * _PI * t * cosine
            total = sum_of(total, weight[k] * factor * np.exp(-down))
    return -total * 0.5 * end / _PI


@helper
def iv_positive(v, x, times, shift):
    """The derivative of I exp(−shift) by an order of at least 0; `shift` is 0 or x."""
    size = np.hypot(v, x)
    if x < 3.0 or (size <= 20.0 and x < 2.0 * v + 1.0):
        if v <= 100.0:
            return iv_series(v, x, times, shift)
    saddle = np.arcsinh(v / x)
    growth = size if shift == 0.0 else v * v / (size + x)
    across = iv_across(v, saddle, size, times) * np.exp(growth - v * saddle)
    along = iv_along(v, x, saddle, size, times) * np.exp(-size - v * saddle - shift)
    return across + along


@helper
def iv_derivative(v, x, times, scaled):
    """The derivative of I, or of I exp(−x), by the order, taken once or twice."""
    if not (x >= 0.0 and x < _INFINITY and np.absolute(v) < _INFINITY):
        return _NAN
    if x == 0.0:
        return 0.0 if v > 0.0 else _NAN
    order = np.absolute(v)
    shift = x if scaled else 0.0
    found = iv_positive(order, x, times, shift)
    if v >= 0.0:
        return found
    # I of −v is I + 2/π sin(πv) K
    turned = _PI * (order - 2.0 * np.rint(0.5 * order))
    sine, cosine = np.sin(turned), np.cos(turned)
    slope = kve_derivative(order, x, 1)
    value = np.kve(order, x)
    if times == 1:
        other = _PI * cosine * value + sine * slope
    else:
        other = 2.0 * _PI * cosine * slope - _PI * _PI * sine * value
        other += sine * kve_derivative(order, x, 2)
    other *= 2.0 / _PI * np.exp(-x - shift)
    return -found - other if times == 1 else found + other


@helper
def iv_dv(v, x):
    return iv_derivative(v, x, 1, False)


@helper
def iv_dvv(v, x):
    return iv_derivative(v, x, 2, False)


@helper
def ive_dv(v, x):
    return iv_derivative(v, x, 1, True)


@helper
def ive_dvv(v, x):
    return iv_derivative(v, x, 2, True)


# --- by differences ------------------------------------------------------------------------------


@helper
def step_of(v, x):
    """A step of orders: functions of small arguments vary as powers of them.

    By negative orders functions vary as sin(πv), by others half as fast.
    """
    if v >= 2.0 and x >= 6.0:
        return 0.15
    return 1.0 / np.maximum(12.0, -4.0 * np.log(0.5 * x))


@helper
def jv_derivative(v, x, times):
    if not x > 0.0:
        return 0.0 if x == 0.0 and v > 0.0 else _NAN
    step, values = step_of(v, x), samples()
    for k in range(2 * HALF + 1):
        values[k] = np.jv(v + place(k, step), x)
    return derivative_of(values, step, times)


@helper
def yv_derivative(v, x, times):
    if not x > 0.0:
        return _NAN
    step, values = step_of(v, x), samples()
    for k in range(2 * HALF + 1):
        values[k] = np.yv(v + place(k, step), x)
    return derivative_of(values, step, times)


@helper
def jv_dv(v, x):
    return jv_derivative(v, x, 1)


@helper
def jv_dvv(v, x):
    return jv_derivative(v, x, 2)


@helper
def yv_dv(v, x):
    return yv_derivative(v, x, 1)


@helper
def yv_dvv(v, x):
    return yv_derivative(v, x, 2)
