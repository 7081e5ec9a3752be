"""SciPy's `integrate` of samples for recorded values."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.values import shape_of
from ._differentiable import differentiable, is_before
from ._linalg_equations import plain_array

_where, _sum, _moveaxis = PUBLIC["where"], PUBLIC["sum"], PUBLIC["moveaxis"]


def _samples(y, x, axis):
    """Samples along the last axis, and the distances between their places, if those are given."""
    y = plain_array(unlisted(y))
    n = shape_of(y)[axis]
    if x is None:
        return _moveaxis(y, axis, -1), None
    x = plain_array(unlisted(x))
    if len(shape_of(x)) not in (1, len(shape_of(y))):
        raise ValueError("If given, shape of x must be 1-D or the same as y.")
    x = x if len(shape_of(x)) == 1 else _moveaxis(x, axis, -1)
    if shape_of(x)[-1] != n:
        raise ValueError("If given, length of x along axis must be the same as y.")
    return _moveaxis(y, axis, -1), PUBLIC["diff"](x)


@differentiable("integrate.simpson")
def simpson(y, x=None, *, dx=1.0, axis=-1):
    y, steps = _samples(y, x, axis)
    n = shape_of(y)[-1]
    if n == 2:
        return 0.5 * (dx if steps is None else steps[..., 0]) * (y[..., 0] + y[..., 1])
    if steps is not None and is_before("1.18.0"):
        steps = steps.astype(np.float64)
    whole = n - 1 if n % 2 else n - 2  # intervals in pairs
    made = _of_pairs(y, steps, dx, whole)
    return made if n % 2 else made + _of_last(y, steps, dx)


def _of_pairs(y, steps, dx, whole: int):
    """The integrals of parabolas through three samples each."""
    first, middle, last = y[..., 0:whole:2], y[..., 1:whole:2], y[..., 2 : whole + 1 : 2]
    if steps is None:
        return _sum(first + 4.0 * middle + last, axis=-1) * (dx / 3.0)
    left, right = steps[..., 0:whole:2], steps[..., 1:whole:2]
    both, ratio = left + right, _quotient(left, right)
    inner = middle * (both * _quotient(both, left * right))
    outer = first * (2.0 - _quotient(1.0, ratio)) + last * (2.0 - ratio)
    return _sum(both / 6.0 * (outer + inner), axis=-1)


def _of_last(y, steps, dx):
    """The last interval, of a parabola through the last three samples (Cartwright 2017, 8)."""
    if steps is None:
        return (5.0 * y[..., -1] + 8.0 * y[..., -2] - y[..., -3]) * (dx / 12.0)
    a, b = steps[..., -2], steps[..., -1]
    alpha = _quotient(2.0 * b * b + 3.0 * a * b, 6.0 * (a + b))
    beta = _quotient(b * b + 3.0 * a * b, 6.0 * a)
    eta = _quotient(b * b * b, 6.0 * a * (a + b))
    return alpha * y[..., -1] + beta * y[..., -2] - eta * y[..., -3]


def _quotient(x, y):
    """x / y, 0 where y is 0, as SciPy has it for places that are equal."""
    zero = y == 0.0
    return _where(zero, 0.0, x / _where(zero, 1.0, y))
