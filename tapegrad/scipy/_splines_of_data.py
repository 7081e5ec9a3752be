"""SciPy's functions that make a `BSpline` of recorded data.

Data with plain positions are interpolated by an equation with a band, as in SciPy, others by one
with a full matrix.
"""

from __future__ import annotations

import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.banded_equations import solve_banded
from .._core.operations.interpolation import piecewise_polynomial
from .._core.tensor.pytree import none_traced
from .._core.tensor.values import shape_of
from . import _interpolators as shared
from ._basis_splines import BSpline, axis_of, pieces_of
from ._interpolators import columns, floats, holds, refused, theirs

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
