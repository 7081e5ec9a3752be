"""SciPy's interpolation on grids for recorded values: splines of two variables, regular grids."""

from __future__ import annotations

import functools
import importlib
import math
import operator
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.interpolation import intervals
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import steered
from .._core.tensor.values import dtype_of, is_tensor, shape_of
from . import _interpolate_polynomials as shared
from ._interpolate_polynomials import (
    PchipInterpolator,
    entered,
    evaluated,
    flat,
    floats,
    holds,
    refused,
    theirs,
)
from ._interpolate_splines import not_a_knot, pieces_of, product_at, solved

# --- bivariate splines ----------------------------------------------------------------------------
# SciPy's splines of two variables for recorded values: at points, and through points of a grid.


def _along(t, c, k: int, points, nu: int):
    """A spline of one variable with coefficients (n, others), constant outside of its knots."""
    n = shape_of(t)[0] - k - 1
    points = PUBLIC["clip"](points, t[k], t[n])
    return evaluated(pieces_of(t, c, k), t[k : n + 1], points, nu, True)


def _on_grid(tck, degrees, x, y, orders):
    tx, ty, c = tck
    rows = _along(tx, c, degrees[0], x, orders[0])
    return PUBLIC["transpose"](_along(ty, PUBLIC["transpose"](rows), degrees[1], y, orders[1]))


def _at_points(tck, degrees, x, y, orders):
    """The values at pairs, of which those outside of the knots are moved to the ends."""
    ends = [(t[k], t[shape_of(t)[0] - k - 1]) for t, k in zip(tck[:2], degrees, strict=True)]
    inside = [PUBLIC["clip"](one, *end) for one, end in zip((x, y), ends, strict=True)]
    points = PUBLIC["stack"](inside, axis=1)
    return product_at(tck[:2], tck[2], degrees, points, orders)[:, 0]


def _whole(name: str, tx, ty, c, degrees):
    """Knots, and coefficients as a matrix."""
    tx, ty, c = floats(name, "tx", tx), floats(name, "ty", ty), floats(name, "c", c)
    sizes = [shape_of(t)[0] - k - 1 for t, k in zip((tx, ty), degrees, strict=True)]
    return tx, ty, PUBLIC["reshape"](c, tuple(sizes))


class _OfTwo(shared.Interpolator):
    """What classes of splines of two variables have in common."""

    def _hold(self, tck, degrees) -> None:
        self._held = dict(tck=tck, degrees=degrees)

    def _of_plain(self, tck, degrees):
        return theirs.BivariateSpline._from_tck((*map(shared.plain, tck), *degrees))

    def _held_data(self) -> tuple:
        return () if self._held is None else self._held["tck"]

    def __call__(self, x, y, dx=0, dy=0, grid=True):
        if self._is_plain(x, y):
            return self._plainly("__call__", x, y, dx, dy, grid)
        name, degrees = self._own.__name__, self.degrees
        tck = _whole(name, *self.tck, degrees)
        x, y = floats(name, "x", x), floats(name, "y", y)
        if grid:
            for what, one in (("x", x), ("y", y)):
                if not holds(f"{what} of {name}", shared.is_sorted, flat(one)):
                    raise ValueError(f"{what} must be strictly increasing when `grid` is True")
            return _on_grid(tck, degrees, flat(x), flat(y), (dx, dy))
        shape = np.broadcast_shapes(shape_of(x), shape_of(y))
        x, y = (flat(PUBLIC["broadcast_to"](one, shape)) for one in (x, y))
        return PUBLIC["reshape"](_at_points(tck, degrees, x, y, (dx, dy)), shape)

    def ev(self, xi, yi, dx=0, dy=0):
        return self(xi, yi, dx=dx, dy=dy, grid=False)

    def partial_derivative(self, dx, dy):
        if self._is_plain():
            return shared.view_of(self._plainly("partial_derivative", dx, dy))
        raise self._refuse("partial_derivative")

    def integral(self, xa, xb, ya, yb):
        if self._is_plain(xa, xb, ya, yb):
            return self._plainly("integral", xa, xb, ya, yb)
        raise self._refuse("integral", xa, xb, ya, yb)


@shared.stands_for(theirs.BivariateSpline)
class BivariateSpline(_OfTwo, theirs.BivariateSpline):
    pass


@shared.stands_for(theirs.SmoothBivariateSpline)
class SmoothBivariateSpline(_OfTwo, theirs.SmoothBivariateSpline):
    def __init__(self, *args, **kwargs):
        if not (none_traced(args) and none_traced(kwargs.values())):
            why = "FITPACK chooses knots by iterations; RectBivariateSpline has a derivative"
            raise refused("SmoothBivariateSpline", why, *args, *kwargs.values())
        super().__init__(*args, **kwargs)


@shared.stands_for(theirs.LSQBivariateSpline)
class LSQBivariateSpline(_OfTwo, theirs.LSQBivariateSpline):
    def __init__(self, *args, **kwargs):
        if not (none_traced(args) and none_traced(kwargs.values())):
            why = "it has no derivative to data; RectBivariateSpline has"
            raise refused("LSQBivariateSpline", why, *args, *kwargs.values())
        super().__init__(*args, **kwargs)


def _knots(name: str, what: str, x, k: int, ends):
    """Positions, and the knots of the spline through all of them."""
    x = flat(floats(name, what, x))
    if not holds(f"{what} of {name}", shared.increases, x):
        raise ValueError(f"{what} must be strictly increasing")
    m, half = shape_of(x)[0], (k + 1) // 2
    if m <= k:
        raise ValueError(f"at least {k + 1} positions {what} are needed for degree {k}")
    inner = x[half : m - half] if k % 2 else (0.5 * (x[1:] + x[:-1]))[half : m - 1 - half]
    first, last = (
        x[at : at + 1] if one is None else np.array([one], float)
        for one, at in zip(ends, (0, m - 1), strict=True)
    )
    return x, np.concatenate([*[first] * (k + 1), inner, *[last] * (k + 1)])


@shared.stands_for(theirs.RectBivariateSpline)
class RectBivariateSpline(_OfTwo, theirs.RectBivariateSpline):
    def __init__(self, x, y, z, bbox=(None,) * 4, kx=3, ky=3, s=0, maxit=20):
        if none_traced((x, y, z, bbox, s)):
            options = (maxit,) if maxit != 20 else ()  # older ones do not have it
            super().__init__(x, y, z, [*bbox], kx, ky, s, *options)
            return
        name = "RectBivariateSpline"
        if not none_traced((s, bbox)) or s != 0:
            raise refused(name, "with s > 0 FITPACK chooses knots by iterations; give s=0", x, y, z)
        x, tx = _knots(name, "x", x, kx, bbox[:2])
        y, ty = _knots(name, "y", y, ky, bbox[2:])
        z = floats(name, "z", z)
        if shape_of(z) != (shape_of(x)[0], shape_of(y)[0]):
            raise ValueError("dimensions of z must have same number of elements as x and y")
        rows = PUBLIC["transpose"](solved(tx, kx, x, ([], []), z))
        c = PUBLIC["transpose"](solved(ty, ky, y, ([], []), rows))
        self._hold((tx, ty, flat(c)), (kx, ky))


_Derived: Any = importlib.import_module("scipy.interpolate._fitpack2")._DerivedBivariateSpline


@shared.stands_for(_Derived)
class _DerivedBivariateSpline(_OfTwo, _Derived):
    pass


for _kind in (BivariateSpline, SmoothBivariateSpline, LSQBivariateSpline, RectBivariateSpline):
    for _name in ("tck", "degrees"):
        setattr(_kind, _name, shared.field(_kind._own, _name))


@entered
def bisplev(x, y, tck, dx=0, dy=0):
    tx, ty, c, kx, ky = tck
    for what, order, degree in (("dx", dx, kx), ("dy", dy, ky)):
        if not 0 <= order < degree:
            raise ValueError(f"0 <= {what} = {order} < k{what[1]} = {degree} must hold")
    x, y = (flat(floats("bisplev", what, one)) for what, one in (("x", x), ("y", y)))
    z = _on_grid(_whole("bisplev", tx, ty, c, (kx, ky)), (kx, ky), x, y, (dx, dy))
    rows, width = shape_of(z)
    return z if rows > 1 else z[0] if width > 1 else z[0, 0]


# --- regular grids --------------------------------------------------------------------------------
# SciPy's interpolation on grids for recorded values: `RegularGridInterpolator`, `interpn`.
#
# Lines and splines are products of those of one variable: for each point the coefficients around
# it, times products of basis splines. SciPy finds coefficients by iterations, here they are exact.

_DEGREES = {"linear": 1, "slinear": 1, "cubic": 3, "quintic": 5}
_DEGREES |= {f"{name}_legacy": _DEGREES[name] for name in ("slinear", "cubic", "quintic")}
_BY_SPLINES = ("slinear", "cubic", "quintic")
_METHODS = ("nearest", "pchip", *_DEGREES)


def points_of(name: str, xi, count: int | None = None):
    """Points with their coordinates along the last axis, of arrays of coordinates or of points."""
    if isinstance(xi, tuple) and len(xi) == 1:
        (xi,) = xi
    if isinstance(xi, tuple):
        parts = [floats(name, "xi", one) for one in xi]
        shape = np.broadcast_shapes(*map(shape_of, parts))
        return PUBLIC["stack"]([PUBLIC["broadcast_to"](one, shape) for one in parts], axis=-1)
    xi = floats(name, "xi", xi)
    if len(shape_of(xi)) == 1:
        return PUBLIC["reshape"](xi, (-1, 1 if count is None else count))
    return xi


# --- coefficients ---------------------------------------------------------------------------------


def _knots_of(x, k: int):
    return np.concatenate([x[:1], x, x[-1:]]) if k == 1 else not_a_knot(x, k)


def _coefficients(grid, values, k: int):
    """Knots for each variable, and the coefficients of the splines through all values."""
    knots = [_knots_of(x, k) for x in grid]
    for d in range(len(grid) if k > 1 else 0):
        rows = PUBLIC["moveaxis"](values, d, 0)
        found = solved(knots[d], k, grid[d], ([], []), shared.columns(rows))
        values = PUBLIC["moveaxis"](PUBLIC["reshape"](found, shape_of(rows)), 0, d)
    return knots, values


# --- the class ------------------------------------------------------------------------------------


def _falls(x) -> bool:
    return bool((x[1:] < x[:-1]).all())


def _grid_of(name: str, points, values):
    """Positions in each variable, which increase, and values in this order."""
    grid = []
    if len(points) > len(shape_of(values)):
        raise ValueError(
            f"There are {len(points)} point arrays, but values has {len(shape_of(values))} "
            "dimensions"
        )
    for d, x in enumerate(points):
        x = floats(name, "points", x)
        if len(shape_of(x)) != 1:
            raise ValueError(f"The points in dimension {d} must be 1-dimensional")
        if shape_of(x)[0] != shape_of(values)[d]:
            raise ValueError(
                f"There are {shape_of(x)[0]} points and {shape_of(values)[d]} values in dimension "
                f"{d}"
            )
        if not holds(f"the points of {name}", shared.increases, x):
            if not holds(f"the points of {name}", _falls, x):
                raise ValueError(
                    f"The points in dimension {d} must be strictly ascending or descending"
                )
            x, values = x[::-1], PUBLIC["flip"](values, d)
        grid.append(x)
    return tuple(grid), values


def _check_sizes(sizes, method: str) -> None:
    least = 3 if method == "pchip" else _DEGREES.get(method, 0)
    for d, n in enumerate(sizes if method not in ("linear", "nearest") else ()):
        if n <= least:
            raise ValueError(
                f"There are {n} points in dimension {d}, but method {method} requires at least  "
                f"{least + 1} points per dimension."
            )


@shared.stands_for(theirs.RegularGridInterpolator)
class RegularGridInterpolator(shared.Interpolator, theirs.RegularGridInterpolator):
    def __init__(
        self,
        points,
        values,
        method="linear",
        bounds_error=True,
        fill_value=np.nan,
        *,
        solver=None,
        solver_args=None,
    ):
        if none_traced((points, values, fill_value)):
            options = dict(solver=solver, solver_args=solver_args)
            super().__init__(points, values, method, bounds_error, fill_value, **options)
            return
        if method not in _METHODS:
            raise ValueError(f"Method '{method}' is not defined")
        name = "RegularGridInterpolator"
        floats(name, "values", values)  # which refuses complex ones
        values = unlisted(values)
        values = values if is_tensor(values) else np.asarray(values)
        values = values if dtype_of(values).kind == "f" else values.astype(np.float64)
        grid, values = _grid_of(name, points, values)
        _check_sizes(map(len, map(_range, grid)), method)
        self._held = dict(grid=grid, values=values, method=method, bounds_error=bounds_error)
        self._held |= dict(fill_value=fill_value, _spline=None)

    def _of_plain(self, grid, values, method, bounds_error, fill_value, _spline):
        grid = tuple(map(shared.plain, grid))
        return theirs.RegularGridInterpolator(grid, values, method, bounds_error, fill_value)

    def _held_data(self) -> tuple:
        if self._held is None:
            return ()
        return (*self._held["grid"], self._held["values"], self._held["fill_value"])

    def __call__(self, xi, method=None, *, nu=None):
        if self._is_plain(xi):
            return self._plainly("__call__", xi, method, nu=nu)
        method = self.method if method is None else method
        if method not in _METHODS:
            raise ValueError(f"Method '{method}' is not defined")
        if nu is not None and method not in _BY_SPLINES:
            raise ValueError(f"Can only compute derivatives for methods {_BY_SPLINES}.")
        count, values = len(self.grid), self.values
        xi = points_of("RegularGridInterpolator", xi, count)
        if shape_of(xi)[-1] != count:
            raise ValueError(
                f"The requested sample points xi have dimension {shape_of(xi)[-1]} but this "
                f"RegularGridInterpolator has dimension {count}"
            )
        _check_sizes(shape_of(values)[:count], method)
        points = PUBLIC["reshape"](xi, (-1, count))
        out = self._filled(self._at(points, method, nu), points)
        return PUBLIC["reshape"](out, (*shape_of(xi)[:-1], *shape_of(values)[count:]))

    def _at(self, points, method: str, nu):
        """The values of shape (points, others)."""
        grid, values, count = self.grid, self.values, len(self.grid)
        if method == "nearest":
            at = steered(_nearest, points, *grid, sizes=shape_of(values)[:count])
            rows = PUBLIC["reshape"](values, (-1, math.prod(shape_of(values)[count:])))
            return PUBLIC["take"](rows, at, axis=0)
        dtype = dtype_of(values)
        values = floats("RegularGridInterpolator", "values", values)
        if method == "pchip":
            return shared.in_kind(_by_pchip(grid, values, points), dtype)
        k = _DEGREES[method]
        wide = [d for d, x in enumerate(grid) if shape_of(x)[0] > 1]  # of one place, no choice
        if len(wide) < count:
            values = PUBLIC["squeeze"](values, tuple(set(range(count)).difference(wide)))
            if not wide:
                width = math.prod(shape_of(values))
                return PUBLIC["broadcast_to"](shared.flat(values), (shape_of(points)[0], width))
            grid, count, points = [grid[d] for d in wide], len(wide), points[:, wide]
        if method in _BY_SPLINES and none_traced(self._held_data()):
            own = self._original or self
            same = method == self.method
            spline = own._spline if same else own._construct_spline(method)
            knots, c = spline.t, spline.c
        else:
            knots, c = _coefficients(grid, values, k)
        orders = (0,) * count if nu is None else tuple(nu)
        found = product_at(knots, c, (k,) * count, points, orders)
        return shared.in_kind(found, dtype) if method.endswith("_legacy") else found

    def _filled(self, out, points):
        """The values with those outside of the grid filled, or an error."""
        low = [points[:, d] < x[0] for d, x in enumerate(self.grid)]
        high = [points[:, d] > x[-1] for d, x in enumerate(self.grid)]
        missing = functools.reduce(operator.or_, map(_is_missing, _columns(points)))
        if self.bounds_error:
            for d, outside in enumerate(zip(low, high, strict=True)):
                unknown = _is_missing(points[:, d])
                if not holds("the bounds of a grid", _none_is, *outside, unknown):
                    raise ValueError(f"One of the requested xi is out of bounds in dimension {d}")
        elif self.fill_value is not None:
            outside = functools.reduce(operator.or_, [*low, *high])
            out = PUBLIC["where"](outside[:, None], self.fill_value, out)
        return PUBLIC["where"](missing[:, None], np.nan, out)


def _range(x) -> range:
    return range(shape_of(x)[0])


def _columns(points) -> list:
    return [points[:, d] for d in range(shape_of(points)[1])]


def _is_missing(x):
    return x != x


def _none_is(*masks) -> bool:
    return not any([np.any(one) for one in masks])


def _nearest(points, *grid, sizes) -> np.ndarray:
    """The number of the nearest place of a grid for each point; in the middle, the lower one."""
    found = np.zeros(len(points), np.intp)
    for d, (x, n) in enumerate(zip(grid, sizes, strict=True)):
        place = np.maximum(intervals(x, points[:, d], True), 0) if n > 1 else 0 * found
        step = x[np.minimum(place + 1, n - 1)] - x[place]
        with np.errstate(all="ignore"):
            share = (points[:, d] - x[place]) / step
        found = found * n + np.where((share > 0.5) & (n > 1), place + 1, place)
    return found


def _by_pchip(grid, values, points):
    """Point by point, one variable after the other, as SciPy has it."""
    count, rows = len(grid), []
    values = PUBLIC["transpose"](
        values, (*range(count)[::-1], *range(count, len(shape_of(values))))
    )
    first = PchipInterpolator(grid[-1], values)(points[:, -1])
    for j in range(shape_of(points)[0]):
        one = first[j]
        for d in range(count - 2, -1, -1):
            one = PchipInterpolator(grid[d], one)(points[j, d])
        rows.append(PUBLIC["reshape"](one, (1, -1)))
    width = math.prod(shape_of(values)[count:])
    return np.concatenate(rows) if rows else np.zeros((0, width))


for _name in ("grid", "values", "method", "bounds_error", "fill_value", "_spline"):
    setattr(RegularGridInterpolator, _name, shared.field(theirs.RegularGridInterpolator, _name))


@shared.entered
def interpn(points, values, xi, method="linear", bounds_error=True, fill_value=np.nan):
    if method not in (*_METHODS, "splinef2d"):
        raise ValueError(f"interpn does not know the method {method!r}")
    if method != "splinef2d":
        made = RegularGridInterpolator(points, values, method, bounds_error, fill_value)
        return made(xi)
    values = floats("interpn", "values", values)
    if len(shape_of(values)) != 2 or len(points) != 2:
        raise ValueError("The method splinef2d can only be used for 2-dimensional input data")
    if not bounds_error and fill_value is None:
        raise ValueError("The method splinef2d does not support extrapolation.")
    checked = object.__new__(RegularGridInterpolator)
    grid, values = _grid_of("interpn", points, values)
    checked._held = dict(grid=grid, bounds_error=bounds_error, fill_value=fill_value)
    dtype = shared.kind_of_floats(*(xi if isinstance(xi, tuple) else (xi,)))
    xi = points_of("interpn", xi, 2)
    at = PUBLIC["reshape"](xi, (-1, 2))
    out = RectBivariateSpline(*grid, values).ev(at[:, 0], at[:, 1])
    out = shared.in_kind(checked._filled(out[:, None], at), dtype)
    return PUBLIC["reshape"](out, shape_of(xi)[:-1])
