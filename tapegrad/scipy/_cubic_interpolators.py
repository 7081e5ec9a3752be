"""SciPy's cubic interpolators for recorded values: splines, PCHIP, Akima, Hermite."""

from __future__ import annotations

import math

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.banded_equations import solve_banded
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import steered
from .._core.tensor.values import shape_of
from . import _interpolators as shared
from ._interpolators import beside, columns, floats, holds, theirs
from ._piecewise import PPoly

# --- cubic Hermite splines ------------------------------------------------------------------------


def _prepared(name: str, x, y, axis, dydx=None):
    """Positions, values and slopes as SciPy takes them, the axis of interpolation first."""
    x, y = floats(name, "x", x), floats(name, "y", y)
    if dydx is not None:
        dydx = floats(name, "dydx", dydx)
        if shape_of(y) != shape_of(dydx):
            raise ValueError("The shapes of `y` and `dydx` must be identical.")
    axis = axis % len(shape_of(y))
    if len(shape_of(x)) != 1:
        raise ValueError("`x` must be 1-dimensional.")
    if shape_of(x)[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if shape_of(x)[0] != shape_of(y)[axis]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    for what, part in (("x", x), ("y", y), ("dydx", dydx)):
        if part is not None and not holds(f"{what} of {name}", shared.all_finite, part):
            raise ValueError(f"`{what}` must contain only finite values.")
    if not holds(f"x of {name}", shared.increases, x):
        raise ValueError("`x` must be strictly increasing sequence.")
    if axis:
        y = PUBLIC["moveaxis"](y, axis, 0)
        dydx = None if dydx is None else PUBLIC["moveaxis"](dydx, axis, 0)
    return x, y, axis, dydx


def _hermite(x, y, slopes):
    """The coefficients of the cubic polynomials that have values and slopes at breakpoints."""
    steps = beside(PUBLIC["diff"](x), y)
    lines = PUBLIC["diff"](y, axis=0) / steps
    t = (slopes[:-1] + slopes[1:] - 2.0 * lines) / steps
    return PUBLIC["stack"]([t / steps, (lines - slopes[:-1]) / steps - t, slopes[:-1], y[:-1]])


@shared.stands_for(theirs.CubicHermiteSpline)
class CubicHermiteSpline(PPoly, theirs.CubicHermiteSpline):
    def __init__(self, x, y, dydx, axis=0, extrapolate=None):
        if none_traced((x, y, dydx)):
            theirs.CubicHermiteSpline.__init__(self, x, y, dydx, axis, extrapolate)
            return
        x, y, axis, dydx = _prepared("CubicHermiteSpline", x, y, axis, dydx)
        extrapolate = True if extrapolate is None else extrapolate
        self._hold(_hermite(x, y, dydx), x, extrapolate, axis)


# --- PCHIP ----------------------------------------------------------------------------------------


def _at_end(h0, h1, m0, m1):
    """The slope at an end, by three points, without overshoot."""
    where, sign = PUBLIC["where"], PUBLIC["sign"]
    d = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    turns = sign(d) != sign(m0)
    steep = (sign(m0) != sign(m1)) & (PUBLIC["absolute"](d) > 3.0 * PUBLIC["absolute"](m0))
    return where(turns, 0.0, where(steep, 3.0 * m0, d))


def _pchip_slopes(x, y):
    """The harmonic means of the lines beside each breakpoint, 0 where they change their sign."""
    steps = beside(PUBLIC["diff"](x), y)
    lines = PUBLIC["diff"](y, axis=0) / steps
    if shape_of(x)[0] == 2:
        return PUBLIC["concatenate"]([lines, lines])
    before, after = lines[:-1], lines[1:]
    turns = (PUBLIC["sign"](before) != PUBLIC["sign"](after)) | (after == 0.0) | (before == 0.0)
    w1, w2 = 2.0 * steps[1:] + steps[:-1], steps[1:] + 2.0 * steps[:-1]
    before, after = (PUBLIC["where"](turns, 1.0, one) for one in (before, after))
    inner = PUBLIC["where"](turns, 0.0, 1.0 / ((w1 / before + w2 / after) / (w1 + w2)))
    first = _at_end(steps[0], steps[1], lines[0], lines[1])
    last = _at_end(steps[-1], steps[-2], lines[-1], lines[-2])
    return PUBLIC["concatenate"]([first[None], inner, last[None]])


@shared.stands_for(theirs.PchipInterpolator)
class PchipInterpolator(CubicHermiteSpline, theirs.PchipInterpolator):
    def __init__(self, x, y, axis=0, extrapolate=None):
        if none_traced((x, y)):
            theirs.PchipInterpolator.__init__(self, x, y, axis, extrapolate)
            return
        x, y, axis, _ = _prepared("PchipInterpolator", x, y, axis)
        extrapolate = True if extrapolate is None else extrapolate
        shape = shape_of(y)
        y = columns(y)
        c = _hermite(x, y, _pchip_slopes(x, y))
        c = PUBLIC["reshape"](c, (4, shape[0] - 1, *shape[1:]))
        self._hold(c, x, extrapolate, axis)


@shared.entered
def pchip_interpolate(xi, yi, x, der=0, axis=0):
    made = PchipInterpolator(xi, yi, axis=axis)
    if shape_of(der) == ():
        return made(x, der)
    return [made(x, nu) for nu in der]


# --- Akima ----------------------------------------------------------------------------------------


def _akima_slopes(x, y, method: str):
    """The means of the lines beside each breakpoint, weighted by how lines change."""
    absolute = PUBLIC["absolute"]
    m = PUBLIC["diff"](y, axis=0) / beside(PUBLIC["diff"](x), y)
    if shape_of(x)[0] == 2:
        return PUBLIC["concatenate"]([m, m])
    first, last = 2.0 * m[:1] - m[1:2], 2.0 * m[-1:] - m[-2:-1]
    m = PUBLIC["concatenate"]([2.0 * first - m[:1], first, m, last, 2.0 * last - m[-1:]])
    change = absolute(PUBLIC["diff"](m, axis=0))
    f1, f2 = change[2:], change[:-2]
    if method == "makima":
        size = absolute(m[1:] + m[:-1])
        f1, f2 = f1 + 0.5 * size[2:], f2 + 0.5 * size[:-2]
    total = f1 + f2
    known = steered(_are_known, total)
    share = f2 / PUBLIC["where"](known, total, 1.0)
    return PUBLIC["where"](known, m[1:-2] + share * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))


def _are_known(total) -> np.ndarray:
    """Where lines change enough for weights."""
    return total > 1e-9 * (total.max() if total.size else -np.inf)


@shared.stands_for(theirs.Akima1DInterpolator)
class Akima1DInterpolator(CubicHermiteSpline, theirs.Akima1DInterpolator):
    def __init__(self, x, y, axis=0, *, method="akima", extrapolate=None):
        if none_traced((x, y)):
            own = theirs.Akima1DInterpolator
            own.__init__(self, x, y, axis, method=method, extrapolate=extrapolate)
            return
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        x, y, axis, _ = _prepared("Akima1DInterpolator", x, y, axis)
        extrapolate = False if extrapolate is None else extrapolate
        self._hold(_hermite(x, y, _akima_slopes(x, y, method)), x, extrapolate, axis)

    extend = theirs.Akima1DInterpolator.extend
    from_spline = theirs.Akima1DInterpolator.from_spline
    from_bernstein_basis = theirs.Akima1DInterpolator.from_bernstein_basis


# --- cubic splines --------------------------------------------------------------------------------


def _conditions(bc_type, y, axis: int) -> list:
    """What holds at both ends: a name, or an order of derivative and its value."""
    shape = shape_of(y)[1:]
    if isinstance(bc_type, str):
        if bc_type == "periodic":
            if not holds("y of CubicSpline", _ends_alike, y):
                raise ValueError(
                    f"The first and last `y` point along axis {axis} must be identical (within "
                    "machine precision) when bc_type='periodic'."
                )
            return ["periodic", "periodic"]
        bc_type = (bc_type, bc_type)
    elif len(bc_type) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    return [_condition(one, shape) for one in bc_type]


def _ends_alike(y) -> bool:
    return np.allclose(y[0], y[-1], rtol=1e-15, atol=1e-15)


def _condition(one, shape: tuple):
    if isinstance(one, str):
        if one == "not-a-knot":
            return one
        if one not in ("clamped", "natural"):
            raise ValueError(
                "'periodic' `bc_type` is defined for both curve ends and cannot be used with other "
                "boundary conditions."
                if one == "periodic"
                else f"bc_type={one} is not allowed."
            )
        return (1 if one == "clamped" else 2), np.zeros((1, math.prod(shape)))
    try:
        order, value = one
    except Exception as error:
        text = "A specified derivative value must be given in the form (order, value)."
        raise ValueError(text) from error
    if order not in (1, 2):
        raise ValueError("The specified derivative order must be 1 or 2.")
    value = floats("CubicSpline", "bc_type", value)
    if shape_of(value) != shape:
        raise ValueError(f"`deriv_value` shape {shape_of(value)} is not the expected one {shape}.")
    return order, PUBLIC["reshape"](value, (1, math.prod(shape)))


def _first_row(one, dx, lines, rise):
    """The equation at the first breakpoint: two elements and the right-hand side.

    For the last one everything is given in the opposite order.
    """
    if one == "not-a-knot":
        d = dx[0] + dx[1]
        right = ((dx[0] + 2.0 * d) * dx[1] * lines[:1] + dx[0] ** 2 * lines[1:2]) / d
        return dx[1], d, right
    order, value = one
    if order == 1:
        return 1.0, 0.0, value
    return 2.0 * dx[0], dx[0], 3.0 * rise - 0.5 * value * dx[0] ** 2


def _mirrored(one):
    """The condition at the last breakpoint, where positions are counted from there."""
    if isinstance(one, str):
        return one
    order, value = one
    return order, -value if order == 2 else value


def _band(below, middle, above):
    """The diagonals of a matrix, each of which is given as numbers and vectors."""
    parts = [[np.reshape(x, (-1,)) for x in one] for one in (above, middle, below)]
    return PUBLIC["stack"]([PUBLIC["concatenate"](one) for one in parts])


def _spline_slopes(dx, y, ends):
    """The slopes of the cubic spline with continuous second derivatives, of shape (n, others)."""
    n, lines = shape_of(y)[0], PUBLIC["diff"](y, axis=0) / dx[:, None]
    if n == 2:
        ends = [(1, lines) if isinstance(one, str) else one for one in ends]
    if n == 3 and ends == ["not-a-knot"] * 2:
        return _parabola(dx, lines)
    inner = 3.0 * (dx[1:, None] * lines[:-1] + dx[:-1, None] * lines[1:])
    if ends[0] == "periodic" and n > 2:
        return _periodic_slopes(dx, lines, inner)
    middle, above, first = _first_row(ends[0], dx, lines, y[1:2] - y[:1])
    end, below, last = _first_row(_mirrored(ends[1]), dx[::-1], lines[::-1], y[-1:] - y[-2:-1])
    diagonal = 2.0 * (dx[:-1] + dx[1:])
    band = _band([dx[1:], below, 0.0], [middle, diagonal, end], [0.0, above, dx[:-1]])
    return solve_banded(band, np.concatenate([first, inner, last]), lower=1, upper=1)


def _parabola(dx, lines):
    """The slopes of a parabola through three points."""
    middle = (dx[0] * lines[1:2] + dx[1] * lines[:1]) / (dx[0] + dx[1])
    return np.concatenate([2.0 * lines[:1] - middle, middle, 2.0 * lines[1:2] - middle])


def _periodic_slopes(dx, lines, inner):
    """The slopes where the spline goes on at its begin: all equations but one are banded."""
    n = shape_of(dx)[0] + 1
    if n == 3:
        t = np.sum(lines / dx[:, None], axis=0) / np.sum(1.0 / dx)
        return PUBLIC["broadcast_to"](t, (3, *shape_of(t)))
    first = 3.0 * (dx[0] * lines[-1:] + dx[-1] * lines[:1])
    right = np.concatenate([first, inner])
    diagonal = 2.0 * np.concatenate([dx[:1] + dx[-1:], dx[:-1] + dx[1:]])
    m = n - 2
    band = _band([dx[1:m], 0.0], [diagonal[:m]], [0.0, dx[-1:], dx[: m - 2]])
    corner = np.concatenate([-dx[:1], np.zeros(m - 2), -dx[-3:-2]])[:, None]
    both = solve_banded(band, np.concatenate([right[:m], corner], axis=1), lower=1, upper=1)
    one, two = both[:, :-1], both[:, -1:]
    above = right[m:] - dx[-2] * one[:1] - dx[-1] * one[-1:]
    last = above / (2.0 * (dx[-1] + dx[-2]) + dx[-2] * two[:1] + dx[-1] * two[-1:])
    found = one + last * two
    return np.concatenate([found, last, found[:1]])


@shared.stands_for(theirs.CubicSpline)
class CubicSpline(CubicHermiteSpline, theirs.CubicSpline):
    def __init__(self, x, y, axis=0, bc_type="not-a-knot", extrapolate=None):
        if none_traced((x, y, bc_type)):
            theirs.CubicSpline.__init__(self, x, y, axis, bc_type, extrapolate)
            return
        x, y, axis, _ = _prepared("CubicSpline", x, y, axis)
        ends, shape = _conditions(bc_type, y, axis), shape_of(y)
        if extrapolate is None:
            extrapolate = "periodic" if ends[0] == "periodic" else True
        y = columns(y)
        slopes = _spline_slopes(PUBLIC["diff"](x), y, ends) if math.prod(shape) else y
        c = PUBLIC["reshape"](_hermite(x, y, slopes), (4, shape[0] - 1, *shape[1:]))
        self._hold(c, x, extrapolate, axis)
