"""SciPy's splines for recorded values: B-splines, those of data, of FITPACK, of curves."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.interpolation import intervals, piecewise_polynomial
from .._core.operations.sylvester import solve_banded
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import steered
from .._core.tensor.values import is_tensor, shape_of
from . import _interpolate_polynomials as shared
from ._interpolate_polynomials import (
    columns,
    entered,
    evaluated,
    flat,
    floats,
    holds,
    refused,
    theirs,
)

# --- basis splines --------------------------------------------------------------------------------
# SciPy's `BSpline` for recorded values, computed as the piecewise polynomial that it is.


# --- pieces ---------------------------------------------------------------------------------------


def pieces_of(t, c, k: int):
    """The coefficients (k + 1, intervals, others) of the powers from each knot on."""
    count = shape_of(t)[0] - 2 * k - 1
    return _joined(t, k, [c[None, j : j + count] for j in range(k + 1)])


def local_basis(t, k: int):
    """The same of the basis splines that are not 0 in an interval, in order, as others."""
    count = shape_of(t)[0] - 2 * k - 1
    return _joined(t, k, [np.broadcast_to(one, (1, count, k + 1)) for one in np.eye(k + 1)])


def _joined(t, k: int, found: list):
    """De Boor's recursion with polynomials in place of numbers.

    An interval without length has no points of its own: what SciPy extrapolates from it is 0.
    """
    count = shape_of(t)[0] - 2 * k - 1
    for r in range(1, k + 1):
        for j in range(k, r - 1, -1):
            first, last = t[j : j + count], t[k + 1 + j - r : k + 1 + j - r + count]
            none = steered(_is_none, first, last)
            width = PUBLIC["where"](none, 1.0, last - first)
            step = (found[j] - found[j - 1]) / width[:, None]
            zero = np.zeros((1, *shape_of(step)[1:]))
            behind = (t[k : k + count] - first)[:, None]
            found[j] = np.concatenate([step, zero]) + np.concatenate(
                [zero, found[j - 1] + behind * step]
            )
            if is_tensor(none) or none.any():
                found[j] = PUBLIC["where"](none[:, None], 0.0, found[j])
    return found[k]


def _is_none(first, last) -> np.ndarray:
    return np.asarray(first == last)


def spline_at(t, c, k: int, points, nu: int, extrapolate):
    """A spline with coefficients (n, others) at a vector of points."""
    n = shape_of(t)[0] - k - 1
    return evaluated(pieces_of(t, c[:n], k), t[k : n + 1], points, nu, extrapolate)


def derived(t, c, k: int, nu: int):
    """Knots, coefficients and degree of a derivative, with FITPACK's zeros at the end."""
    if nu > k:
        raise ValueError(f"Order of derivative (n = {nu!r}) must be <= order of spline (k = {k!r})")
    for _ in range(nu):
        width = shared.beside(t[k + 1 : -1] - t[1 : -k - 1], c)
        if not holds("the knots of a derivative", _are_apart, width):
            raise ValueError(
                f"The spline has internal repeated knots and is not differentiable {nu} times"
            )
        c = (c[1 : -1 - k] - c[: -2 - k]) * k / width
        c = np.concatenate([c, np.zeros((k, *shape_of(c)[1:]))])
        t, k = t[1:-1], k - 1
    return t, c, k


def _are_apart(width) -> bool:
    return bool((width != 0.0).all())


def summed(t, c, k: int, nu: int):
    """The same of an integral from the first knot on."""
    for _ in range(nu):
        width = shared.beside(t[k + 1 :] - t[: -k - 1], c)
        c = PUBLIC["cumsum"](c[: -k - 1] * width, axis=0) / (k + 1)
        zero = np.zeros((1, *shape_of(c)[1:]))
        c = np.concatenate([zero, c, *[c[-1:]] * (k + 2)])
        t, k = np.concatenate([t[:1], t, t[-1:]]), k + 1
    return t, c, k


def padded(t, c):
    """Coefficients with zeros, as many as knots."""
    more = shape_of(t)[0] - shape_of(c)[0]
    return np.concatenate([c, np.zeros((more, *shape_of(c)[1:]))]) if more > 0 else c


# --- the class ------------------------------------------------------------------------------------


@shared.stands_for(theirs.BSpline)
class BSpline(shared.Interpolator, theirs.BSpline):
    def __init__(self, t, c, k, extrapolate=True, axis=0):
        if none_traced((t, c)):
            super().__init__(t, c, k, extrapolate, axis)
            return
        t, c, k = floats("BSpline", "t", t), floats("BSpline", "c", c), operator.index(k)
        extrapolate = extrapolate if extrapolate == "periodic" else bool(extrapolate)
        axis = axis_of(axis, c)
        c, n = PUBLIC["moveaxis"](c, axis, 0), shape_of(t)[0] - k - 1
        if k < 0:
            raise ValueError("Spline order cannot be negative.")
        if len(shape_of(t)) != 1:
            raise ValueError("Knot vector must be one-dimensional.")
        if n < k + 1:
            raise ValueError(f"Need at least {2 * k + 2} knots for degree {k}")
        if not holds("t of BSpline", shared.is_sorted, t):
            raise ValueError("Knots must be in a non-decreasing order.")
        if not holds("t of BSpline", _are_different, t[k], t[n]):
            raise ValueError("Need at least two internal knots.")
        if not holds("t of BSpline", shared.all_finite, t):
            raise ValueError("Knots should not have nans or infs.")
        if shape_of(c)[0] < n:
            raise ValueError("Knots, coefficients and degree are inconsistent.")
        self._hold(t, c, k, extrapolate, axis)

    @classmethod
    def construct_fast(cls, t, c, k, extrapolate=True, axis=0):
        if none_traced((t, c)):
            return super().construct_fast(t, c, k, extrapolate, axis)
        made = object.__new__(cls)
        made._hold(t, c, k, extrapolate, axis)
        return made

    def _hold(self, t, c, k, extrapolate, axis) -> None:
        self._held = dict(t=t, c=c, k=k, extrapolate=extrapolate, axis=axis)

    @property
    def tck(self):
        return self.t, self.c, self.k

    def __call__(self, x, nu=0, extrapolate=None):
        if self._is_plain(x):
            return self._plainly("__call__", x, nu, extrapolate)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        points, t, c = (floats("BSpline", *one) for one in (("x", x), ("t", self.t), ("c", self.c)))
        out = spline_at(t, columns(c), self.k, flat(points), nu, extrapolate)
        return shared.with_points(out, shape_of(points), shape_of(c)[1:], self.axis)

    def derivative(self, nu=1):
        return self._changed("derivative", derived if nu >= 0 else summed, abs(nu))

    def antiderivative(self, nu=1):
        return self._changed("antiderivative", summed if nu >= 0 else derived, abs(nu))

    def _changed(self, method: str, how, nu: int):
        if self._is_plain():
            sign = 1 if (how is derived) == (method == "derivative") else -1
            return shared.view_of(self._plainly(method, sign * nu))
        t, c, k = how(self.t, padded(self.t, self.c), self.k, nu)
        is_sum = how is summed and self.extrapolate == "periodic"
        extrapolate = False if is_sum else self.extrapolate
        return self.construct_fast(t, c, k, extrapolate=extrapolate, axis=self.axis)

    def integrate(self, a, b, extrapolate=None):
        if self._is_plain(a, b):
            return self._plainly("integrate", a, b, extrapolate)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        a, b = floats("BSpline.integrate", "a", a), floats("BSpline.integrate", "b", b)
        whole, n = self.antiderivative(), shape_of(self.t)[0] - self.k - 1
        first, last = self.t[self.k], self.t[n]
        if extrapolate == "periodic":
            return shared.over_periods(lambda at: whole(at, 0, True), first, last, a, b)
        if not extrapolate:
            a, b = (PUBLIC["clip"](x, first, last) for x in (a, b))
        return whole(b, 0, True) - whole(a, 0, True)

    @classmethod
    def basis_element(cls, t, extrapolate=True):
        if none_traced((t,)):
            return super().basis_element(t, extrapolate)
        t = floats("BSpline.basis_element", "t", t)
        k = shape_of(t)[0] - 2
        t = np.concatenate([*[t[:1] - 1.0] * k, t, *[t[-1:] + 1.0] * k])
        c = np.zeros(shape_of(t))
        c[k] = 1.0
        return cls.construct_fast(t, c, k, extrapolate)

    @classmethod
    def design_matrix(cls, x, t, k, extrapolate=False):
        if none_traced((x, t)):
            return super().design_matrix(x, t, k, extrapolate)
        raise refused(
            "BSpline.design_matrix",
            "its sparse matrix has no derivative; BSpline(t, np.eye(n), k)(x) is the same matrix",
            x,
            t,
        )

    @classmethod
    def from_power_basis(cls, pp, bc_type="not-a-knot"):
        if none_traced((getattr(pp, "c", None), getattr(pp, "x", None))):
            return super().from_power_basis(pp, bc_type)
        raise refused("BSpline.from_power_basis", "it has no derivative here; use the spline", pp.c)


def _are_different(x, y) -> bool:
    return bool(x != y)


def axis_of(axis: int, x) -> int:
    count = len(shape_of(x))
    if not -count <= axis < count:
        raise np.exceptions.AxisError(axis, count)
    return axis % count


for _name, _method in shared.not_derived(theirs.BSpline, "insert_knot").items():
    setattr(BSpline, _name, _method)
for _name in ("t", "c", "k", "extrapolate", "axis"):
    setattr(BSpline, _name, shared.field(theirs.BSpline, _name))


# --- spline products ------------------------------------------------------------------------------
# Products of splines of one variable: for each point the coefficients around it, times weights.


def _around(*both, degrees, sizes) -> np.ndarray:
    """For each point the numbers of the coefficients around it, knots and points being given."""
    found = np.zeros((len(both[0]), 1), np.intp)
    count = len(degrees)
    for points, t, k, n in zip(both[:count], both[count:], degrees, sizes, strict=True):
        place = np.maximum(intervals(t[k : n + 1], points, True), 0)
        found = found[..., None] * n + (place[:, None] + np.arange(k + 1))[:, None]
        found = found.reshape(len(points), math.prod(found.shape[1:]))
    return found


def product_at(knots, c, degrees, points, orders):
    """Products of splines at points (count, variables), with coefficients (…, others)."""
    sizes = shape_of(c)[: len(knots)]
    columns = [points[:, d] for d in range(len(knots))]
    around = steered(_around, *columns, *knots, degrees=tuple(degrees), sizes=tuple(sizes))
    count = shape_of(points)[0]
    weights: Any = np.ones((count, 1))
    for t, k, x, n, nu in zip(knots, degrees, columns, sizes, orders, strict=True):
        own = evaluated(local_basis(t, k), t[k : n + 1], x, int(nu), True)
        weights = PUBLIC["reshape"](
            weights[:, :, None] * own[:, None, :], (count, shape_of(weights)[1] * (k + 1))
        )
    rows = PUBLIC["reshape"](c, (math.prod(sizes), math.prod(shape_of(c)[len(knots) :])))
    return PUBLIC["sum"](PUBLIC["take"](rows, around, axis=0) * weights[:, :, None], axis=1)


# --- splines of data ------------------------------------------------------------------------------
# SciPy's functions that make a `BSpline` of recorded data.
#
# Data with plain positions are interpolated by an equation with a band, as in SciPy, others by one
# with a full matrix.


# --- equations ------------------------------------------------------------------------------------


def basis_at(t, k: int, points, nu: int = 0):
    """The matrix of all basis splines at points, a row for each point."""
    n = shape_of(t)[0] - k - 1
    if none_traced((t, points)) and nu == 0:
        return theirs.BSpline.design_matrix(points, t, k).toarray()
    c = pieces_of(t, np.eye(n), k)
    return piecewise_polynomial(c, t[k : n + 1], points, nu=nu, extrapolate=1)


def _band(t: np.ndarray, k: int, x: np.ndarray, rows) -> np.ndarray:
    """The diagonals of the matrix of `solved`, from the highest on."""
    n = len(t) - k - 1
    band = np.zeros((2 * k + 1, n))
    inner = theirs.BSpline.design_matrix(x, t, k).tocoo()
    row, column = inner.coords[0] + len(rows[0]), inner.coords[1]
    band[k + row - column, column] = inner.data
    ends = [(row, x[0], nu) for row, nu in enumerate(rows[0])]
    ends += [(n - len(rows[1]) + row, x[-1], nu) for row, nu in enumerate(rows[1])]
    for row, point, nu in ends:
        at = int(np.clip(np.searchsorted(t, point, side="right") - 1, k, n - 1))
        columns = np.arange(at - k, at + 1)
        own = theirs.BSpline(t[at - k : at + k + 2], np.eye(k + 1), k)
        band[k + row - columns, columns] = own(point, nu)
    return band


def solved(t, k: int, x, rows, right):
    """The coefficients of splines with values at x, and values of derivatives at its ends.

    `rows` are lists of their orders at the first and at the last position, `right` all values.
    """
    if none_traced((t, x)):
        return solve_banded(_band(np.asarray(t), k, np.asarray(x), rows), right, lower=k, upper=k)
    parts = [basis_at(t, k, x[:1], nu) for nu in rows[0]]
    parts += [basis_at(t, k, x), *[basis_at(t, k, x[-1:], nu) for nu in rows[1]]]
    return PUBLIC["solve"](np.concatenate(parts), right)


def not_a_knot(x, k: int):
    """Knots at all positions but some near the ends, or between them where k is even."""
    half = (k + 1) // 2 if k % 2 else k // 2
    inner = x if k % 2 else 0.5 * (x[1:] + x[:-1])
    return np.concatenate([*[x[:1]] * (k + 1), inner[half:-half], *[x[-1:]] * (k + 1)])


def _conditions(one, extra: tuple) -> list:
    """Orders and values of derivatives at an end."""
    if isinstance(one, str):
        if one not in ("clamped", "natural"):
            raise ValueError(f"Unknown boundary condition : {one}")
        return [(1 if one == "clamped" else 2, np.zeros(extra))]
    try:
        return [] if one is None else [(order, value) for order, value in one]
    except TypeError as error:
        raise ValueError(
            "Derivatives, `bc_type`, should be specified as a pair of iterables of pairs of "
            "(order, value)."
        ) from error


def _data(name: str, x, y, axis, check_finite=True):
    """Positions and values, the axis of interpolation first."""
    x, y = floats(name, "x", x), floats(name, "y", y)
    axis = axis_of(axis, y)
    y = PUBLIC["moveaxis"](y, axis, 0)
    for part in (x, y) if check_finite else ():
        if not holds(f"the data of {name}", shared.all_finite, part):
            raise ValueError("Array must not contain infs or nans.")
    if len(shape_of(x)) != 1 or shape_of(x)[0] != shape_of(y)[0]:
        raise ValueError(f"Shapes of x {shape_of(x)} and y {shape_of(y)} are incompatible")
    return x, y, axis


@shared.making
def make_interp_spline(x, y, k=3, t=None, bc_type=None, axis=0, check_finite=True):
    x, y, axis = _data("make_interp_spline", x, y, axis, check_finite)
    k, extra = operator.index(k), shape_of(y)[1:]
    if not holds("x of make_interp_spline", shared.increases, x):
        raise ValueError("Expect x to be a 1D strictly increasing sequence.")
    if isinstance(bc_type, str) and bc_type == "periodic":
        raise refused(
            "make_interp_spline",
            "bc_type='periodic' has no derivative here; CubicSpline(x, y, bc_type='periodic') has",
            x,
            y,
        )
    is_free = bc_type is None or (isinstance(bc_type, str) and bc_type == "not-a-knot")
    pair = (None, None) if is_free else bc_type
    left, right = [
        _conditions(one, extra) for one in ((pair,) * 2 if isinstance(pair, str) else pair)
    ]
    if k < 2 and t is None:
        if left or right:
            raise ValueError(f"Too much info for k={k}: t and bc_type can only be None.")
        ends = [x, x[-1:]] if k == 0 else [x[:1], x, x[-1:]]
        return BSpline.construct_fast(np.concatenate(ends), y, k, axis=axis)
    if t is None and (left or right):
        t = np.concatenate([*[x[:1]] * k, x, *[x[-1:]] * k])
    t = not_a_knot(x, k) if t is None else floats("make_interp_spline", "t", t)
    _check_knots("make_interp_spline", t, k, x)
    n, most = shape_of(t)[0] - k - 1, shape_of(x)[0] + k + 1
    if shape_of(t)[0] < most:
        raise ValueError(f"Got {shape_of(t)[0]} knots, need at least {most}.")
    if n - shape_of(x)[0] != len(left) + len(right):
        raise ValueError(
            "The number of derivatives at boundaries does not match: expected "
            f"{n - shape_of(x)[0]}, got {len(left)}+{len(right)}"
        )
    c = _coefficients(t, k, x, columns(y), left, right)
    return BSpline.construct_fast(t, PUBLIC["reshape"](c, (n, *extra)), k, axis=axis)


def _coefficients(t, k: int, x, y, left, right):
    """The coefficients of the spline with values y, of shape (n, others), at x."""
    width, name = shape_of(y)[1], "make_interp_spline"
    ends = [
        [np.reshape(floats(name, "bc_type", value), (1, width)) for _, value in one]
        for one in (left, right)
    ]
    orders = [[order for order, _ in one] for one in (left, right)]
    if not all(0 <= order <= k for one in orders for order in one):
        raise ValueError("Bad boundary conditions.")
    return solved(t, k, x, orders, np.concatenate([*ends[0], y, *ends[1]]))


def _check_knots(name: str, t, k: int, x) -> None:
    if k < 0:
        raise ValueError("Expect non-negative k.")
    if len(shape_of(t)) != 1 or not holds(f"t of {name}", shared.is_sorted, t):
        raise ValueError("Expect t to be a 1-D sorted array_like.")
    if shape_of(t)[0] < 2 * k + 2:
        raise ValueError(f"Got {shape_of(t)[0]} knots, need at least {2 * k + 2}.")
    if not holds(f"x of {name}", _within, x, t[k], t[-k - 1]):
        raise ValueError("Out of bounds w/ x.")


def _within(x, first, last) -> bool:
    return bool((x >= first).all() and (x <= last).all())


@shared.making
def make_lsq_spline(x, y, t, k=3, w=None, axis=0, check_finite=True, *, method="qr"):
    x, y, axis = _data("make_lsq_spline", x, y, axis, check_finite)
    t, k, extra = floats("make_lsq_spline", "t", t), operator.index(k), shape_of(y)[1:]
    if shape_of(x)[0] < k + 1:
        raise ValueError("Need more x points.")
    if not holds("x of make_lsq_spline", shared.is_sorted, x):
        raise ValueError("Expect x to be a 1D non-decreasing sequence.")
    _check_knots("make_lsq_spline", t, k, x)
    c = least_squares(t, k, x, columns(y), None if w is None else floats("make_lsq_spline", "w", w))
    n = shape_of(t)[0] - k - 1
    return BSpline.construct_fast(t, PUBLIC["reshape"](c, (n, *extra)), k, axis=axis)


def least_squares(t, k: int, x, y, w=None):
    """The coefficients (n, others) with the least sum of squares of weighted differences."""
    matrix = basis_at(t, k, x)
    if w is not None:
        matrix, y = matrix * w[:, None], y * w[:, None]
    return PUBLIC["lstsq"](matrix, y)[0]


# --- smoothing ------------------------------------------------------------------------------------


def _natural_basis(x):
    """The diagonals of natural splines at positions, and of their penalty."""
    n, t = len(x), np.r_[[x[0]] * 3, x, [x[-1]] * 3]
    found = theirs.BSpline.design_matrix(x, t, 3)
    zero, one, two = (found.diagonal(d) for d in range(3))
    band, penalty = np.zeros((2, 5, n))
    band[1, 2:-2], band[2, 2:-2], band[3, 2:-2] = two[1 : n - 3], one[2 : n - 2], zero[3 : n - 1]
    band[1, 1] = zero[0]
    band[2, :2] = (x[2] + x[1] - 2 * x[0]) * zero[0], zero[1] + one[1]
    band[3, :2] = (x[2] - x[0]) * zero[1], zero[2]
    band[1, -2:] = two[n - 3], (x[-1] - x[-3]) * two[n - 2]
    band[2, -2:] = one[n - 2] + two[n - 2], (2 * x[-1] - x[-2] - x[-3]) * two[n - 1]
    band[3, -2] = two[n - 1]
    penalty[2:, 0], penalty[1:, 1] = _divided(x[:3]), _divided(x[:4])
    for j in range(2, n - 2):
        penalty[:, j] = (x[j + 2] - x[j - 2]) * _divided(x[j - 2 : j + 3])
    penalty[:-1, -2], penalty[:-2, -1] = -_divided(x[-4:]), _divided(x[-3:])
    return band, 6.0 * penalty


def _divided(x) -> np.ndarray:
    """The factors of values in their divided difference."""
    steps = x[:, None] - x
    np.fill_diagonal(steps, 1.0)
    return 1.0 / np.prod(steps, axis=1)


@shared.making
def make_smoothing_spline(x, y, w=None, lam=None, *, axis=0):
    name = "make_smoothing_spline"
    if lam is None:
        raise refused(name, "lam is found by iterations; give lam", x, y, w)
    if not none_traced((x,)):
        raise refused(name, "it has no derivative to x; give plain positions", x)
    x, y, axis = _data(name, x, y, axis, False)
    n, extra = shape_of(x)[0], shape_of(y)[1:]
    lam, w = floats(name, "lam", lam), np.ones(n) if w is None else floats(name, "w", w)
    if shape_of(lam) != ():
        raise refused(name, "lam of several columns has no derivative here; give a number", lam)
    if not increasing_and_positive(x, w, lam):
        raise ValueError("x must increase, w be positive, and lam not be negative")
    if n <= 4:
        raise ValueError("``x`` and ``y`` length must be at least 5")
    band, penalty = _natural_basis(np.asarray(x))
    rows = np.arange(n) + np.arange(-2, 3)[:, None]
    wide = PUBLIC["where"]((rows >= 0) & (rows < n), w[np.clip(rows, 0, n - 1)], 1.0)
    c = solve_banded(band + lam * penalty / wide, columns(y), lower=2, upper=2)
    first, last = c[1:2], c[-2:-1]
    c = np.concatenate([
        c[:1] * (x[2] + x[1] - 2 * x[0]) + first,
        c[:1] * (x[2] - x[0]) + first,
        c[1:-1],
        c[-1:] * (x[-1] - x[-3]) + last,
        c[-1:] * (2 * x[-1] - x[-2] - x[-3]) + last,
    ])  # fmt: skip
    t = np.r_[[x[0]] * 3, x, [x[-1]] * 3]
    return BSpline.construct_fast(t, PUBLIC["reshape"](c, (n + 2, *extra)), 3, axis=axis)


def increasing_and_positive(x, w, lam) -> bool:
    name = "the data of make_smoothing_spline"
    return holds(name, shared.increases, x) and holds(name, _are_weights, w, lam)


def _are_weights(w, lam) -> bool:
    return bool((w > 0.0).all() and lam >= 0.0)


# --- fitpack --------------------------------------------------------------------------------------
# SciPy's splines of FITPACK for recorded values: `splrep`, `splev` and others, `UnivariateSpline`.
#
# Splines through all points are those that `make_interp_spline` gives, with derivatives to the
# data. Where FITPACK chooses knots for a smoothness it iterates, and there is no derivative to
# them.

_MODES = {0: 0, "extrapolate": 0, 1: 1, "zeros": 1, 2: 2, "raise": 2, 3: 3, "const": 3}
SMOOTH = "with s > 0 FITPACK chooses knots by iterations; give s=0, or knots to make_lsq_spline"


def _parts(name: str, tck):
    t, c, k = tck.tck if isinstance(tck, theirs.BSpline) else tck
    return floats(name, "t", t), c, int(k)


def _is_parametric(c) -> bool:
    return isinstance(c, (list, tuple)) or len(shape_of(c)) > 1


def _at(name: str, tck, x, nu: int, ext):
    """A spline at points, as FITPACK treats those outside of its knots."""
    t, c, k = _parts(name, tck)
    c, x = floats(name, "c", c), floats(name, "x", x)
    points, n = flat(x), shape_of(t)[0] - k - 1
    first, last = t[k], t[n]
    if ext == 2 and not holds(f"the points of {name}", _are_within, points, first, last):
        raise ValueError("Found x value not in the domain")
    inside = PUBLIC["clip"](points, first, last) if ext == 3 else points
    out = spline_at(t, c[:, None], k, inside, nu, True)[:, 0]
    if ext == 1:
        out = PUBLIC["where"]((points < first) | (points > last), 0.0, out)
    return PUBLIC["reshape"](out, shape_of(x))


def _are_within(points, first, last) -> bool:
    return not ((points < first) | (points > last)).any()


@entered
def splev(x, tck, der=0, ext=0):
    if isinstance(tck, theirs.BSpline):
        if len(shape_of(tck.c)) > 1:
            raise ValueError(
                "Calling splev() with BSpline objects with c.ndim > 1 is not allowed. Use "
                "BSpline.__call__(x) instead."
            )
        if ext != 0:
            raise ValueError(f"Extrapolation mode {ext} is not supported by BSpline.")
        return shared.view_of(tck)(x, der, True)
    t, c, k = tck
    if _is_parametric(c):
        return [splev(x, (t, one, k), der, ext) for one in c]
    if not 0 <= der <= k:
        raise ValueError(f"0<=der={der}<=k={k} must hold")
    if ext not in (0, 1, 2, 3):
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3) ")
    return (
        PUBLIC["atleast_1d"](_at("splev", tck, x, der, ext))
        if shape_of(x)
        else _at("splev", tck, x, der, ext)
    )


@entered
def splint(a, b, tck, full_output=0):
    if isinstance(tck, theirs.BSpline):
        return shared.view_of(tck).integrate(a, b, extrapolate=False)
    t, c, k = tck
    if _is_parametric(c):
        return [splint(a, b, (t, one, k)) for one in c]
    if full_output:
        raise refused("splint", "full_output has no derivative; leave it out", a, b, t, c)
    return _integral("splint", tck, a, b)


def _integral(name: str, tck, a, b):
    """The integral of a spline that is 0 outside of its knots."""
    t, c, k = _parts(name, tck)
    whole, n = summed(t, padded(t, floats(name, "c", c)), k, 1), shape_of(t)[0] - k - 1
    ends = [PUBLIC["clip"](floats(name, "a", x), t[k], t[n]) for x in (a, b)]
    points = PUBLIC["stack"](ends)
    found = spline_at(whole[0], whole[1][:, None], whole[2], points, 0, True)[:, 0]
    return found[1] - found[0]


@entered
def spalde(x, tck):
    if isinstance(tck, theirs.BSpline):
        raise TypeError("spalde does not accept BSpline instances.")
    t, c, k = tck
    if _is_parametric(c):
        return [spalde(x, (t, one, k)) for one in c]
    x = floats("spalde", "x", x)
    t = floats("spalde", "t", t)
    n = shape_of(t)[0] - int(k) - 1
    if not holds("the points of spalde", _are_within, x, t[int(k)], t[n]):
        raise TypeError("Invalid input data. t(k)<=x<=t(n-k+1) must hold.")
    every = [_at("spalde", tck, flat(x), nu, 0) for nu in range(int(k) + 1)]
    found = PUBLIC["stack"](every, axis=1)
    count = shape_of(found)[0]
    return found[0] if count == 1 else [found[j] for j in range(count)]


def _of_knots(name: str, how, other, tck, n: int):
    if isinstance(tck, theirs.BSpline):
        return shared.view_of(tck).derivative(n if how is derived else -n)
    t, c, k = _parts(name, tck)
    how, n = (how, n) if n >= 0 else (other, -n)
    return how(t, floats(name, "c", c), k, n)


@shared.making
def splder(tck, n=1):
    return _of_knots("splder", derived, summed, tck, n)


@shared.making
def splantider(tck, n=1):
    return _of_knots("splantider", summed, derived, tck, n)


# --- of data --------------------------------------------------------------------------------------


def _through(name: str, x, y, k: int, ends, inner=None, w=None):
    """Knots and coefficients, with zeros at the end, of the spline of data.

    It goes through all points, or, with inner knots, is the one of least squares.
    """
    x, y = floats(name, "x", x), floats(name, "y", y)
    if not 1 <= k <= 5:
        raise ValueError("k should be 1 <= k <= 5")
    if len(shape_of(x)) != 1 or shape_of(x) != shape_of(y):
        raise ValueError("x and y should have a same length")
    m = shape_of(x)[0]
    if m <= k:
        raise TypeError("m > k must hold")
    test = shared.increases if inner is None else shared.is_sorted
    if not holds(f"x of {name}", test, x):
        raise ValueError("x must be increasing")
    first, last = (
        x[at : at + 1] if one is None else np.reshape(floats(name, "bbox", one), (1,))
        for one, at in zip(ends, (0, m - 1), strict=True)
    )
    if inner is None:
        half = (k + 1) // 2 if k % 2 else k // 2
        inner = x[half : m - half] if k % 2 else (0.5 * (x[1:] + x[:-1]))[half : m - 1 - half]
        t = np.concatenate([*[first] * (k + 1), inner, *[last] * (k + 1)])
        c = solved(t, k, x, ([], []), y[:, None])
    else:
        inner = floats(name, "t", inner)
        t = np.concatenate([*[first] * (k + 1), inner, *[last] * (k + 1)])
        if not holds(f"t of {name}", _rise, t[k : shape_of(t)[0] - k]):
            raise ValueError("Interior knots t must satisfy Schoenberg-Whitney conditions")
        c = least_squares(t, k, x, y[:, None], None if w is None else floats(name, "w", w))
    return t, padded(t, c[:, 0]), k


_rise = shared.increases


@entered
def splrep(
    x, y, w=None, xb=None, xe=None, k=3, task=0, s=None, t=None, full_output=0, per=0, quiet=1
):
    if s is None:
        s = 0.0 if w is None else 1.0
    if full_output or per or task > 0:
        raise refused(
            "splrep", "full_output, per and task=1 have no derivative; leave them out", x, y
        )
    if t is None and not (none_traced((s,)) and s == 0):
        raise refused("splrep", SMOOTH, x, y, w)
    return _through("splrep", x, y, k, (xb, xe), t, w)


@shared.stands_for(theirs.UnivariateSpline)
class UnivariateSpline(shared.Interpolator, theirs.UnivariateSpline):
    def __init__(self, x, y, w=None, bbox=(None, None), k=3, s=None, ext=0, check_finite=False):
        if none_traced((x, y, w, bbox, s)):
            theirs.UnivariateSpline.__init__(self, x, y, w, [*bbox], k, s, ext, check_finite)
            return
        if s is None or not none_traced((s,)) or s != 0:
            raise refused("UnivariateSpline", SMOOTH, x, y, w)
        self._hold(_through("UnivariateSpline", x, y, k, bbox), ext)

    def _hold(self, tck, ext) -> None:
        if ext not in _MODES:
            raise ValueError(f"Unknown extrapolation mode {ext}.")
        self._held = dict(_eval_args=tck, ext=_MODES[ext])

    def _of_plain(self, _eval_args, ext):
        tck = tuple(map(shared.plain, _eval_args))
        return theirs.UnivariateSpline._from_tck(tck, ext)

    def _held_data(self) -> tuple:
        return () if self._held is None else self._held["_eval_args"][:2]

    def __call__(self, x, nu=0, ext=None):
        if self._is_plain(x):
            return self._plainly("__call__", x, nu, ext)
        ext = self.ext if ext is None else ext
        if ext not in _MODES:
            raise ValueError(f"Unknown extrapolation mode {ext}.")
        if 0 in shape_of(x):
            x = flat(floats("UnivariateSpline", "x", x))
        return _at("UnivariateSpline", self._eval_args, x, nu, _MODES[ext])

    def integral(self, a, b):
        if self._is_plain(a, b):
            return self._plainly("integral", a, b)
        return _integral("UnivariateSpline.integral", self._eval_args, a, b)

    def derivatives(self, x):
        if self._is_plain(x):
            return self._plainly("derivatives", x)
        return spalde(x, self._eval_args)

    def derivative(self, n=1):
        if self._is_plain():
            return shared.view_of(self._plainly("derivative", n))
        return self._made(derived, n, 1 if self.ext == 3 else self.ext)

    def antiderivative(self, n=1):
        if self._is_plain():
            return shared.view_of(self._plainly("antiderivative", n))
        return self._made(summed, n, self.ext)

    def _made(self, how, n: int, ext):
        made = object.__new__(UnivariateSpline)
        made._hold(how(*self._eval_args, n), ext)
        return made

    def get_knots(self):
        if self._is_plain():
            return self._plainly("get_knots")
        t, _, k = self._eval_args
        return t[k : shape_of(t)[0] - k]

    def get_coeffs(self):
        if self._is_plain():
            return self._plainly("get_coeffs")
        t, c, k = self._eval_args
        return c[: shape_of(t)[0] - k - 1]


@shared.stands_for(theirs.InterpolatedUnivariateSpline)
class InterpolatedUnivariateSpline(UnivariateSpline, theirs.InterpolatedUnivariateSpline):
    def __init__(self, x, y, w=None, bbox=(None, None), k=3, ext=0, check_finite=False):
        if none_traced((x, y, w, bbox)):
            own = theirs.InterpolatedUnivariateSpline
            own.__init__(self, x, y, w, [*bbox], k, ext, check_finite)
        else:
            self._hold(_through("InterpolatedUnivariateSpline", x, y, k, bbox), ext)


@shared.stands_for(theirs.LSQUnivariateSpline)
class LSQUnivariateSpline(UnivariateSpline, theirs.LSQUnivariateSpline):
    def __init__(self, x, y, t, w=None, bbox=(None, None), k=3, ext=0, check_finite=False):
        if none_traced((x, y, t, w, bbox)):
            own = theirs.LSQUnivariateSpline
            own.__init__(self, x, y, t, w, [*bbox], k, ext, check_finite)
        else:
            self._hold(_through("LSQUnivariateSpline", x, y, k, bbox, t, w), ext)


_REFUSING = "roots get_residual set_smoothing_factor"
for _name, _method in shared.not_derived(theirs.UnivariateSpline, *_REFUSING.split()).items():
    setattr(UnivariateSpline, _name, _method)
for _name in ("_eval_args", "ext"):
    setattr(UnivariateSpline, _name, shared.field(theirs.UnivariateSpline, _name))


# --- curves ---------------------------------------------------------------------------------------
# SciPy's splines of curves for recorded values: `splprep`, `make_splrep`, `make_splprep`.


def _exact(name: str, s, *others) -> None:
    """Refuse a spline that does not go through all points."""
    if not none_traced((s,)) or s != 0:
        raise refused(name, SMOOTH, *others)


def _along(points):
    """Parameters of points, rows of an array: the lengths of the lines between them, up to 1."""
    steps = PUBLIC["diff"](points, axis=0)
    lengths = PUBLIC["cumsum"](PUBLIC["sqrt"](PUBLIC["sum"](steps * steps, axis=1)))
    return np.concatenate([np.zeros(1), lengths / lengths[-1]])


def _rows(name: str, x):
    """Coordinates, each in a row, as points in rows."""
    return PUBLIC["transpose"](PUBLIC["stack"]([floats(name, "x", one) for one in x]))


@entered
def splprep(
    x, w=None, u=None, ub=None, ue=None, k=3, task=0, s=None, t=None, full_output=0, nest=None,
    per=0, quiet=1,
):  # fmt: skip
    points = _rows("splprep", x)
    if task or t is not None or full_output or per:
        why = "task, t, full_output and per have no derivative here; leave them out"
        raise refused("splprep", why, x, u)
    _exact("splprep", s, x, u)
    if not 1 <= k <= 5:
        raise TypeError(f"1 <= k= {k} <=5 must hold")
    if shape_of(points)[0] <= k:
        raise TypeError("m > k must hold")
    if not (none_traced((ub, ue)) and ub is None and ue is None):
        raise refused("splprep", "ub and ue have no derivative here; leave them out", x, u)
    u = _along(points) if u is None else floats("splprep", "u", u)
    made = make_interp_spline(u, points, k)
    count = shape_of(points)[1]
    return [made.t, [made.c[:, d] for d in range(count)], k], u


@shared.making
def make_splrep(x, y, *, w=None, xb=None, xe=None, k=3, s=0, t=None, nest=None, bc_type=None):
    _exact("make_splrep", s, x, y, w)
    if t is not None or w is not None or nest is not None:
        raise ValueError("s==0 is for interpolation only")
    return make_interp_spline(x, y, k, bc_type=bc_type)


@shared.making
def make_splprep(x, *, w=None, u=None, ub=None, ue=None, k=3, s=0, t=None, nest=None, bc_type=None):
    _exact("make_splprep", s, x, u, w)
    if t is not None or w is not None or nest is not None:
        raise ValueError("s==0 is for interpolation only")
    points = _rows("make_splprep", x)
    u = _along(points) if u is None else floats("make_splprep", "u", u)
    return make_interp_spline(u, PUBLIC["transpose"](points), k, axis=1), u
