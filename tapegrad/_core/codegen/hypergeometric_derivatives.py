"""Derivatives of hypergeometric functions by their parameters.

The series, where it converges and its terms hardly cancel; elsewhere differences of values (see
`parameter_differences`).
"""

from . import vector_math as np
from .intrinsics import helper
from .parameter_differences import HALF, derivative_of, place, samples

_NAN = float("nan")


@helper
def series_slope(a, b, c, x, is_second, by_c):
    """The derivative of Σ (a)ₖ (b)ₖ xᵏ / ((c)ₖ k!) by a or c, without (b)ₖ unless `is_second`.

    NaN where the terms do not fall, or cancel to less than a hundredth.
    """
    term, slope, total, size = 1.0, 0.0, 0.0, 0.0
    for k in range(400):
        ratio = x / ((c + k) * (k + 1.0))
        if is_second:
            ratio *= b + k
        following = term * (a + k) * ratio
        if by_c:
            slope = slope * (a + k) * ratio - following / (c + k)
        else:
            slope = (slope * (a + k) + term) * ratio
        term = following
        total += slope
        size += np.absolute(slope)
        if np.absolute(slope) + np.absolute(term) <= 1e-17 * size:
            return total if size <= 100.0 * np.absolute(total) else _NAN
    return _NAN


@helper
def beside_poles(b):
    """A step of a parameter that has poles at 0, −1, −2, …"""
    away = b if b > 0.5 else np.absolute(b - np.rint(b))
    return np.minimum(1.0 / 12.0, away / 32.0)


@helper
def slope_1f1(function, a, b, x, of_a, of_b):
    """The derivative of a function by differences, in which a or b has a step."""
    values = samples()
    for k in range(2 * HALF + 1):
        values[k] = function(a + place(k, of_a), b + place(k, of_b), x)
    return derivative_of(values, of_a + of_b, 1)


@helper
def slope_2f1(function, parameters, x, steps):
    """The same of a function of three parameters."""
    (a, b, c), (of_a, of_b, of_c) = parameters, steps
    values = samples()
    for k in range(2 * HALF + 1):
        values[k] = function(a + place(k, of_a), b + place(k, of_b), c + place(k, of_c), x)
    return derivative_of(values, of_a + of_b + of_c, 1)


@helper
def hyp1f1_da(a, b, x):
    found = series_slope(a, 1.0, b, x, False, False)
    if found == found or x == 0.0:
        return found
    return slope_1f1(np.hyp1f1, a, b, x, 1.0 / 12.0, 0.0)


@helper
def hyp1f1_db(a, b, x):
    found = series_slope(a, 1.0, b, x, False, True)
    if found == found or x == 0.0:
        return found
    return slope_1f1(np.hyp1f1, a, b, x, 0.0, beside_poles(b))


@helper
def hyp2f1_da(a, b, c, x):
    found = series_slope(a, b, c, x, True, False)
    if found == found or x == 0.0:
        return found
    return slope_2f1(np.hyp2f1, (a, b, c), x, (1.0 / 12.0, 0.0, 0.0))


@helper
def hyp2f1_dc(a, b, c, x):
    found = series_slope(a, b, c, x, True, True)
    if found == found or x == 0.0:
        return found
    return slope_2f1(np.hyp2f1, (a, b, c), x, (0.0, 0.0, beside_poles(c)))


# --- second ones, by differences of the first ones -----------------------------------------------


@helper
def hyp1f1_daa(a, b, x):
    return slope_1f1(hyp1f1_da, a, b, x, 1.0 / 12.0, 0.0)


@helper
def hyp1f1_dab(a, b, x):
    return slope_1f1(hyp1f1_db, a, b, x, 1.0 / 12.0, 0.0)


@helper
def hyp1f1_dbb(a, b, x):
    return slope_1f1(hyp1f1_db, a, b, x, 0.0, beside_poles(b))


@helper
def hyp2f1_daa(a, b, c, x):
    return slope_2f1(hyp2f1_da, (a, b, c), x, (1.0 / 12.0, 0.0, 0.0))


@helper
def hyp2f1_dab(a, b, c, x):
    return slope_2f1(hyp2f1_da, (a, b, c), x, (0.0, 1.0 / 12.0, 0.0))


@helper
def hyp2f1_dac(a, b, c, x):
    return slope_2f1(hyp2f1_dc, (a, b, c), x, (1.0 / 12.0, 0.0, 0.0))


@helper
def hyp2f1_dcc(a, b, c, x):
    return slope_2f1(hyp2f1_dc, (a, b, c), x, (0.0, 0.0, beside_poles(c)))
