"""SciPy's splines of two variables for recorded values: at points, and through points of a grid."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.values import shape_of
from . import _interpolators as shared
from ._basis_splines import pieces_of
from ._interpolators import entered, flat, floats, holds, refused, theirs
from ._piecewise import evaluated
from ._spline_products import product_at
from ._splines_of_data import solved


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
