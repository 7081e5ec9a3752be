"""SciPy's interpolation on grids for recorded values: `RegularGridInterpolator`, `interpn`.

Lines and splines are products of those of one variable: for each point the coefficients around it,
times products of basis splines. SciPy finds coefficients by iterations, here they are exact.
"""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.interpolation import intervals
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import steered
from .._core.tensor.values import dtype_of, is_tensor, shape_of
from . import _interpolators as shared
from ._bivariate_splines import RectBivariateSpline
from ._cubic_interpolators import PchipInterpolator
from ._interpolators import floats, holds, theirs
from ._spline_products import product_at
from ._splines_of_data import not_a_knot, solved

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
