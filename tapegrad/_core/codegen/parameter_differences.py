"""Derivatives by parameters of which functions are analytic: differences of SciPy's own values.

Differences of sixteenth order of 17 values, beside each other by a step: their error is some ten
times that of the values, over the step. Before, an exponential growth along the values is divided
out. Where the highest difference says that the values have errors beyond 2e-12, or that they vary
too fast, the derivative is NaN.
"""

from . import vector_math as np
from .intrinsics import constants, helper, room

#: Values on each side of the middle one.
HALF = 8
_FIRST = (8 / 9, -14 / 45, 56 / 495, -7 / 198, 56 / 6435, -2 / 1287, 8 / 45045, -1 / 102960)
_SECOND = tuple(2.0 * weight / (k + 1) for k, weight in enumerate(_FIRST))
_HIGHEST = (12870.0, -11440.0, 8008.0, -4368.0, 1820.0, -560.0, 120.0, -16.0, 1.0)
first, second, highest = constants(_FIRST), constants(_SECOND), constants(_HIGHEST)
#: Room for the values.
samples = room(2 * HALF + 1)
_NAN = float("nan")


@helper
def place(k, step):
    """Where value k lies, from the middle."""
    return (k - HALF) * step


@helper
def growth_of(values):
    """The exponent by which values grow with each, from the sums of both halves."""
    low, high = 0.0, 0.0
    for k in range(HALF):
        low += np.absolute(values[k])
        high += np.absolute(values[HALF + 1 + k])
    if low == 0.0 or high == 0.0:
        return 0.0
    return (np.log(high) - np.log(low)) / (HALF + 1)


@helper
def derivative_of(values, step, times):
    """The derivative of a function at the middle of its values, once or twice; NaN if unsure."""
    growth = growth_of(values)
    middle = values[HALF]
    most = np.absolute(middle)
    slope, bend, rest = 0.0, 0.0, highest()[0] * middle
    for k in range(1, HALF + 1):
        scale = np.exp(-growth * k)
        low, high = values[HALF - k] / scale, values[HALF + k] * scale
        most = np.maximum(most, np.maximum(np.absolute(low), np.absolute(high)))
        slope += first()[k - 1] * (high - low)
        bend += second()[k - 1] * (high - middle + (low - middle))
        rest += highest()[k] * (high + low)
    if not np.absolute(rest) <= 2e-12 * 24516.0 * most:  # the root of the sum of squared weights
        return _NAN
    if times == 1:
        return (slope + growth * middle) / step
    return (bend + 2.0 * growth * slope + growth * growth * middle) / (step * step)
