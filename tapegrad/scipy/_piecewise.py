"""SciPy's `PPoly` and `BPoly` for recorded values."""

from __future__ import annotations

import functools
import math

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.interpolation import piecewise_polynomial
from .._core.tensor.pytree import none_traced
from .._core.tensor.values import shape_of
from . import _interpolators as shared
from ._interpolators import beside, floats, holds, refused, theirs


def evaluated(c, x, points, nu: int, extrapolate):
    """Piecewise polynomials with coefficients (order, intervals, others) at a vector of points."""
    if extrapolate == "periodic":
        points = x[0] + PUBLIC["remainder"](points - x[0], x[-1] - x[0])
        extrapolate = False
    return piecewise_polynomial(c, x, points, nu=nu, extrapolate=int(bool(extrapolate)))


class Pieces(shared.Interpolator):
    """What `PPoly`, `BPoly` and the classes derived from them have in common."""

    @classmethod
    def construct_fast(cls, c, x, extrapolate=None, axis=0):
        if none_traced((c, x)):
            return super().construct_fast(c, x, extrapolate, axis)
        made = object.__new__(cls)
        made._hold(c, x, True if extrapolate is None else extrapolate, axis)
        return made

    def _hold(self, c, x, extrapolate, axis) -> None:
        self._held = {"c": c, "x": x, "extrapolate": extrapolate, "axis": axis}

    def _start(self, name: str, c, x, extrapolate, axis) -> None:
        """What the constructor does with recorded arguments."""
        c, x = floats(name, "c", c), floats(name, "x", x)
        if extrapolate != "periodic":
            extrapolate = extrapolate is None or bool(extrapolate)
        shape, number = shape_of(c), shape_of(x)
        if len(shape) < 2:
            raise ValueError("Coefficients array must be at least 2-dimensional.")
        if not 0 <= axis < len(shape) - 1:
            raise ValueError(f"axis={axis} must be between 0 and {len(shape) - 1}")
        if axis != 0:
            c = PUBLIC["moveaxis"](c, (axis, axis + 1), (0, 1))
        if len(number) != 1:
            raise ValueError("x must be 1-dimensional")
        if number[0] < 2:
            raise ValueError("at least 2 breakpoints are needed")
        if not shape_of(c)[0]:
            raise ValueError("polynomial must be at least of order 0")
        if shape_of(c)[1] != number[0] - 1:
            raise ValueError("number of coefficients != len(x)-1")
        if not holds(f"x of {name}", shared.is_monotone, x):
            raise ValueError("`x` must be strictly increasing or decreasing.")
        self._hold(c, x, extrapolate, axis)

    def _powers(self):
        """The coefficients of powers."""
        return self.c

    def __call__(self, x, nu=0, extrapolate=None):
        if self._is_plain(x):
            return self._plainly("__call__", x, nu, extrapolate)
        name = self._own.__name__
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        points, c = floats(name, "x", x), floats(name, "c", self._powers())
        shape, extra = shape_of(points), shape_of(c)[2:]
        wide = PUBLIC["reshape"](c, (*shape_of(c)[:2], math.prod(extra)))
        out = evaluated(wide, self.x, shared.flat(points), nu, extrapolate)
        return shared.with_points(out, shape, extra, self.axis)

    def integrate(self, a, b, extrapolate=None):
        if self._is_plain(a, b):
            return self._plainly("integrate", a, b, extrapolate)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        name, whole = f"{self._own.__name__}.integrate", self.antiderivative()
        a, b = floats(name, "a", a), floats(name, "b", b)
        if extrapolate != "periodic":
            return whole(b, extrapolate=extrapolate) - whole(a, extrapolate=extrapolate)
        if not holds(f"x of {name}", shared.is_sorted, self.x):
            why = "with decreasing x and extrapolate='periodic' it has no derivative; reverse x"
            raise refused(name, why, a, b, self.c, self.x)
        inside = lambda at: whole(at, extrapolate=True)  # noqa: E731
        return shared.over_periods(inside, self.x[0], self.x[-1], a, b)

    def derivative(self, nu=1):
        if self._is_plain():
            return shared.view_of(self._plainly("derivative", nu))
        return self.antiderivative(-nu) if nu < 0 else self._derived(nu)

    def antiderivative(self, nu=1):
        if self._is_plain():
            return shared.view_of(self._plainly("antiderivative", nu))
        if nu <= 0:
            return self.derivative(-nu)
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        c = functools.reduce(lambda c, _: self._summed(c), range(nu), self.c)
        return self.construct_fast(c, self.x, extrapolate, self.axis)

    def _steps(self, c):
        """The lengths of intervals beside coefficients of one power."""
        return beside(PUBLIC["diff"](self.x), c[0])


def _after_first_zero(np, x):
    """The sums of what comes before, along the first axis."""
    return np.concatenate([np.zeros((1, *shape_of(x)[1:])), np.cumsum(x, axis=0)[:-1]], axis=0)


@shared.stands_for(theirs.PPoly)
class PPoly(Pieces, theirs.PPoly):
    def __init__(self, c, x, extrapolate=None, axis=0):
        if none_traced((c, x)):
            super().__init__(c, x, extrapolate, axis)
        else:
            self._start("PPoly", c, x, extrapolate, axis)

    def _derived(self, nu: int):
        c = self.c[: max(shape_of(self.c)[0] - nu, 0)]
        order = shape_of(c)[0]
        if order:
            factors = np.array([math.perm(power + nu, nu) for power in range(order)][::-1], float)
            c = c * beside(factors, c)
        else:
            c = 0.0 * self.c[:1]
        return self.construct_fast(c, self.x, self.extrapolate, self.axis)

    def _summed(self, c):
        """The coefficients of the integral from the first breakpoint on."""
        order = shape_of(c)[0]
        c = c / beside(np.arange(order, 0.0, -1.0), c)
        steps = self._steps(c)
        areas = sum(c[r] * steps ** (order - r) for r in range(order))
        return np.concatenate([c, _after_first_zero(np, areas)[None]], axis=0)

    @classmethod
    def from_spline(cls, tck, extrapolate=None):
        t, c, k = tck.tck if isinstance(tck, theirs.BSpline) else tck
        if none_traced((t, c)):
            return super().from_spline(tck, extrapolate)
        raise refused("PPoly.from_spline", "it has no derivative here; evaluate the spline", t, c)

    @classmethod
    def from_bernstein_basis(cls, bp, extrapolate=None):
        if not isinstance(bp, theirs.BPoly) or none_traced((bp.c, bp.x)):
            return super().from_bernstein_basis(bp, extrapolate)
        extrapolate = bp.extrapolate if extrapolate is None else extrapolate
        return cls.construct_fast(_of_bernstein(bp.c, bp.x), bp.x, extrapolate, bp.axis)


def _are_apart(x) -> bool:
    return bool((x[1:] != x[:-1]).all())


def _of_bernstein(c, x):
    """The coefficients of powers, from those of Bernstein's polynomials."""
    k = shape_of(c)[0] - 1
    steps, found = beside(PUBLIC["diff"](x), c[0]), [0.0] * (k + 1)
    for a in range(k + 1):
        for s in range(a, k + 1):
            factor = (-1) ** (a + s) * math.comb(k, a) * math.comb(k - a, s - a)
            found[k - s] = found[k - s] + factor * c[a] / steps**s
    return PUBLIC["stack"](found)


@shared.stands_for(theirs.BPoly)
class BPoly(Pieces, theirs.BPoly):
    def __init__(self, c, x, extrapolate=None, axis=0):
        if none_traced((c, x)):
            super().__init__(c, x, extrapolate, axis)
        else:
            self._start("BPoly", c, x, extrapolate, axis)

    def _powers(self):
        if not holds("x of BPoly", _are_apart, self.x):
            why = "with two equal breakpoints it has no derivative here; leave one of them out"
            raise refused("BPoly", why, self.c, self.x)
        return _of_bernstein(self.c, self.x)

    def _derived(self, nu: int):
        c = self.c
        for _ in range(nu):
            k = shape_of(c)[0] - 1
            c = k * PUBLIC["diff"](c, axis=0) / self._steps(c) if k else 0.0 * c
        return self.construct_fast(c, self.x, self.extrapolate, self.axis)

    def _summed(self, c):
        order = shape_of(c)[0]
        sums = PUBLIC["cumsum"](c, axis=0) / order * self._steps(c)
        first = np.zeros((1, *shape_of(sums)[1:]))
        return np.concatenate([first, sums], axis=0) + _after_first_zero(np, sums[-1])

    @classmethod
    def from_power_basis(cls, pp, extrapolate=None):
        if not isinstance(pp, theirs.PPoly) or none_traced((pp.c, pp.x)):
            return super().from_power_basis(pp, extrapolate)
        raise refused("BPoly.from_power_basis", "it has no derivative here; use the PPoly", pp.c)

    @classmethod
    def from_derivatives(cls, xi, yi, orders=None, extrapolate=None):
        if none_traced((xi, yi)):
            return super().from_derivatives(xi, yi, orders, extrapolate)
        why = "it has no derivative here; CubicHermiteSpline has, for one derivative"
        raise refused("BPoly.from_derivatives", why, xi, yi)


_REFUSING = {PPoly: "solve roots extend", BPoly: "extend"}
for _kind, _names in _REFUSING.items():
    for _name, _method in shared.not_derived(_kind._own, *_names.split()).items():
        setattr(_kind, _name, _method)
for _kind in (PPoly, BPoly):
    for _name in ("c", "x", "extrapolate", "axis"):
        setattr(_kind, _name, shared.field(_kind._own, _name))
