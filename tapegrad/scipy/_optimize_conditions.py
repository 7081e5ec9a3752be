"""Conditions of minima: equations that hold at one, with the constraints that are active there.

The unknowns are x and a multiplier for each constraint. Where a bound is active, x is the bound;
elsewhere the gradient of the Lagrangian is 0. An active constraint has the value of its limit,
another one the multiplier 0. Which are active is found at the solution, and stays so for the
derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.values import array_of, is_tensor, shape_of
from .._transforms.gradients import grad
from .._transforms.jacobians import jacobian
from ._differentiable import as_array

#: How close to a limit counts as at it, and from where on the multiplier decides.
AT, NEAR = 1e-8, 1e-6
#: The gradient that minimisers leave, unless they are told a tolerance.
FLAT = 1e-5


def as_number(value):
    """The value of a function to be minimised: SciPy takes arrays of one element, too."""
    value = unlisted(value)
    return PUBLIC["reshape"](value, ()) if shape_of(value) else value


def concatenated(parts: Sequence):
    """One vector of several, which may be recorded."""
    return parts[0] if len(parts) == 1 else PUBLIC["concatenate"](list(parts))


def limits_of(bounds, size: int) -> tuple[Any, Any] | None:
    """The lower and the upper bounds as vectors; None without bounds.

    They are an instance of `Bounds`, or pairs with None for no bound.
    """
    if bounds is None or (isinstance(bounds, (list, tuple)) and not len(bounds)):
        return None
    if hasattr(bounds, "lb"):
        return tuple([spread(getattr(bounds, name), size) for name in ("lb", "ub")])
    pairs = [*bounds] if not is_tensor(bounds) else [bounds[k] for k in range(len(bounds))]
    pairs = pairs * size if len(pairs) == 1 else pairs
    lower = [-np.inf if pair[0] is None else pair[0] for pair in pairs]
    upper = [np.inf if pair[1] is None else pair[1] for pair in pairs]
    return as_array(lower), as_array(upper)


def spread(value, size: int):
    """A vector of a size: of a number, or of one already."""
    value = as_array(value)
    return PUBLIC["broadcast_to"](value, (size,)) if shape_of(value) != (size,) else value


class Constraint:
    """A function of x whose components lie between limits; equal ones are those of an equation."""

    def __init__(self, f: Callable, lower, upper):
        self._f, self._lower, self._upper = f, lower, upper

    def __call__(self, x):
        return PUBLIC["reshape"](as_array(self._f(x)), (-1,))

    def limits(self, size: int) -> tuple:
        return spread(self._lower, size), spread(self._upper, size)


def constraints_of(given) -> list[Constraint]:
    """Constraints as `minimize` takes them: one, or several in a list."""
    every = given if isinstance(given, (list, tuple)) else [given]
    return [_constraint(one) for one in every if one is not None]


def _constraint(one) -> Constraint:
    if isinstance(one, dict):
        rest, f = one.get("args", ()), one["fun"]
        is_equation = str(one["type"]).lower() == "eq"
        return Constraint(lambda x: f(x, *rest), 0.0, 0.0 if is_equation else np.inf)
    if hasattr(one, "A"):
        return Constraint(lambda x: one.A @ x, one.lb, one.ub)
    return Constraint(one.fun, one.lb, one.ub)


# --- equations ------------------------------------------------------------------------------------


class Conditions:
    """The conditions of a minimum of f, with bounds, as SciPy takes them, and constraints."""

    def __init__(self, f: Callable, bounds=None, constraints: Sequence[Constraint] = ()):
        self._f, self._bounds, self._constraints = f, bounds, constraints

    def equations(self, z, *aux):
        """What is 0 at the minimum.

        `aux` has the active bounds and the active constraints: -1 for the lower, 1 for the upper
        one, 0 for none; it is empty where there are neither.
        """
        if not aux:
            return grad(self._f)(z)
        side, active = aux
        size = shape_of(side)[0]
        x, multipliers = z[:size], z[size:]
        limits, parts = limits_of(self._bounds, size), []
        slope = grad(lambda x: self._lagrangian(x, multipliers))(x)
        parts.append(slope if limits is None else self._chosen(side, slope, x, limits))
        if self._constraints:
            parts.append(self._chosen(active, multipliers, self._values(x), self._limits(x)))
        return concatenated(parts)

    def _chosen(self, side, free, value, limits: tuple):
        """The distance of a value from its active limit, or what is 0 where none is active."""
        lower, upper = [PUBLIC["where"](np.isinf(one), 0.0, one) for one in limits]
        limit = PUBLIC["where"](side < 0.0, lower, upper)
        return PUBLIC["where"](side == 0.0, free, value - limit) + 0.0 * side

    def _lagrangian(self, x, multipliers):
        value = self._f(x)
        return value - PUBLIC["sum"](multipliers * self._values(x)) if self._constraints else value

    def _values(self, x):
        return concatenated([one(x) for one in self._constraints])

    def _limits(self, x) -> tuple:
        sizes = [shape_of(one(x))[0] for one in self._constraints]
        each = [one.limits(size) for one, size in zip(self._constraints, sizes, strict=True)]
        return concatenated([low for low, _ in each]), concatenated([high for _, high in each])

    # --- what is active, of plain values ------------------------------------------------------

    def solved(self, x: np.ndarray, slope: Callable | None = None, flat: float = FLAT) -> tuple:
        """The unknowns and `aux` at a minimum x.

        `slope()` is the gradient of f there, if it is known, `flat` what counts as none.
        """
        size = len(x)
        limits = limits_of(self._bounds, size)
        if limits is None and not self._constraints:
            return x, ()
        gradient = np.asarray(slope() if slope is not None else grad(self._f)(x), dtype=float)
        if not self._constraints:
            return x, (_sides_of_x(x, limits, gradient, flat), np.zeros(0))
        return self._with_multipliers(x, limits, gradient, flat)

    def _with_multipliers(self, x, limits, gradient, flat: float) -> tuple:
        values = array_of(self._values(x))
        lower, upper = [array_of(one) for one in self._limits(x)]
        matrix = np.reshape(jacobian(self._values)(x), (len(values), len(x)))
        near = (values - lower <= NEAR * _size(lower)) | (upper - values <= NEAR * _size(upper))
        side = np.zeros(len(x))
        is_settled = False
        for _ in range(len(values) + len(x) + 1):
            multipliers = _multipliers(matrix, gradient, near, side == 0.0)
            active = sides(values, lower, upper, multipliers, flat)
            known = near, side
            side = _sides_of_x(x, limits, gradient - multipliers @ matrix, flat)
            near = active != 0.0
            is_settled = np.array_equal(near, known[0])
            is_settled = is_settled and np.array_equal(side, known[1], equal_nan=True)
            if is_settled:
                break
        if not is_settled or np.count_nonzero(side) + np.count_nonzero(active) > len(x):
            active = np.where(active == 0.0, active, np.nan)  # it depends on which are left out
        return np.concatenate([x, np.where(active == 0.0, 0.0, multipliers)]), (side, active)


def _sides_of_x(x, limits, slope, flat: float) -> np.ndarray:
    if limits is None:
        return np.zeros(len(x))
    return sides(x, array_of(limits[0]), array_of(limits[1]), slope, flat)


def _size(limit: np.ndarray) -> np.ndarray:
    return np.maximum(1.0, np.abs(np.where(np.isinf(limit), 1.0, limit)))


def _multipliers(matrix, gradient, near, free) -> np.ndarray:
    """Those of the constraints that may be active, by least squares; 0 for the others."""
    found = np.zeros(len(matrix))
    if near.any() and free.any():
        part = matrix[near][:, free]
        found[near] = np.linalg.lstsq(part.T, gradient[free], rcond=None)[0]
    return found


def sides(value, lower, upper, multiplier, flat: float) -> np.ndarray:
    """Which limit is active: -1 for the lower, 1 for the upper one, 0 for none, NaN if undecided.

    The multiplier is positive where the value would fall below the lower limit.
    """
    found = np.zeros(len(value))
    for sign, distance, limit in ((-1.0, value - lower, lower), (1.0, upper - value, upper)):
        push, size = -sign * multiplier, _size(limit)
        at, near = distance <= AT * size, distance <= NEAR * size
        found = np.where(near & (push > flat), sign, found)
        found = np.where(at & (np.abs(push) <= flat), np.nan, found)
    return np.where((lower == upper) & ~np.isinf(lower), 1.0, found)
