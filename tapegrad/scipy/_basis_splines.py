"""SciPy's `BSpline` for recorded values, computed as the piecewise polynomial that it is."""

from __future__ import annotations

import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import steered
from .._core.tensor.values import is_tensor, shape_of
from . import _interpolators as shared
from ._interpolators import columns, flat, floats, holds, refused, theirs
from ._piecewise import evaluated

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
