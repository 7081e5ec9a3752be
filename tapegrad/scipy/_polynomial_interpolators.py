"""SciPy's polynomials through points for recorded values: by Krogh, and barycentric."""

from __future__ import annotations

import math
import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import fixed, steered
from .._core.tensor.values import shape_of
from . import _interpolators as shared
from ._interpolators import columns, entered, flat, floats, holds, theirs


class _OfPolynomial(shared.Interpolator):
    """What both classes have in common: positions `xi`, values `yi` of shape (n, others)."""

    def _start(self, xi, yi, axis, **more) -> None:
        name = self._own.__name__
        xi, yi = floats(name, "xi", xi), floats(name, "yi", yi)
        axis = operator.index(axis) % len(shape_of(yi))
        rows = PUBLIC["moveaxis"](yi, axis, 0)
        if shape_of(rows)[0] != shape_of(xi)[0]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis.")
        self._held = dict(xi=xi, yi=columns(rows), _y_axis=axis, **more)
        self._held |= dict(_y_extra_shape=shape_of(rows)[1:], n=shape_of(xi)[0])

    def _of_plain(self, xi, yi, _y_axis, _y_extra_shape, **_):
        rows = np.reshape(yi, (-1, *_y_extra_shape))
        return self._own(xi, np.moveaxis(rows, 0, _y_axis), _y_axis)

    def __call__(self, x):
        if self._is_plain(x):
            return self._plainly("__call__", x)
        return self._shaped(x, 0, 1)[0]

    def derivatives(self, x, der=None):
        if self._is_plain(x):
            return self._plainly("derivatives", x, der)
        return PUBLIC["stack"](self._shaped(x, 0, self.n if der is None else int(der)))

    def derivative(self, x, der=1):
        if self._is_plain(x):
            return self._plainly("derivative", x, der)
        return self._shaped(x, int(der), int(der) + 1)[0]

    def _shaped(self, x, first: int, stop: int) -> list:
        """The derivatives of some orders at points, in their shapes."""
        x = floats(self._own.__name__, "x", x)
        every = self._orders(flat(x), first, stop)
        axis = self._y_axis if shape_of(x) else 0
        extra = tuple(self._y_extra_shape)
        return [shared.with_points(one, shape_of(x), extra, axis) for one in every]


# --- Newton's form --------------------------------------------------------------------------------


def _repeats(xi) -> np.ndarray:
    """How many of the positions just before each one are equal to it; −1 for a later repetition."""
    found = np.zeros(len(xi))
    for k in range(1, len(xi)):
        while found[k] < k and xi[k - int(found[k]) - 1] == xi[k]:
            found[k] += 1
        if (xi[: k - int(found[k])] == xi[k]).any():
            found[k] = -1
    return found


def _differences(xi, yi, repeats) -> list:
    """The coefficients of Newton's form: divided differences, derivatives at equal positions."""
    rows: list = []
    c: list = []
    for k in range(len(repeats)):
        s = int(repeats[k])
        row = yi[k] / math.factorial(s)
        own = [row]
        for i in range(k - s):
            before = c[i] if s == 0 else rows[k - 1][i + 1]
            row = (before - own[i]) / (xi[i] - xi[k])
            own.append(row)
        rows.append(own)
        c.append(own[-1])
    return c


@shared.stands_for(theirs.KroghInterpolator)
class KroghInterpolator(_OfPolynomial, theirs.KroghInterpolator):
    def __init__(self, xi, yi, axis=0):
        if none_traced((xi, yi)):
            super().__init__(xi, yi, axis)
            return
        self._start(xi, yi, axis)
        repeats = fixed(steered(_repeats, self.xi), "xi of KroghInterpolator")
        if (np.asarray(repeats) < 0).any():
            raise ValueError("Elements of `xi` can't be equal.")
        found = _differences(self.xi, self.yi, np.asarray(repeats))
        self._held["c"] = PUBLIC["stack"](found)

    def _orders(self, x, first: int, stop: int) -> list:
        """By Horner's scheme, for all orders at once."""
        c, xi = self.c, self.xi
        found: list = [0.0] * stop
        for k in range(self.n - 1, -1, -1):
            step = (x - xi[k])[:, None]
            for d in range(stop - 1, 0, -1):
                found[d] = found[d - 1] + step * found[d]
            found[0] = c[k] + step * found[0]
        none = np.zeros((shape_of(x)[0], shape_of(c)[1]))
        return [none + math.factorial(d) * found[d] for d in range(first, stop)]


# --- the barycentric form -------------------------------------------------------------------------


def _capacity(xi) -> float:
    return 4.0 / (np.max(xi) - np.min(xi))


def _are_distinct(xi) -> bool:
    return len(np.unique(xi)) == len(xi)


def _nearest(x, xi) -> np.ndarray:
    return np.abs(x[:, None] - xi).argmin(axis=1)


def _weights(xi):
    """1 / Πⱼ (xᵢ − xⱼ), times a factor that is the same for all."""
    steps = steered(_capacity, xi) * (xi[:, None] - xi)
    n = shape_of(xi)[0]
    return 1.0 / PUBLIC["prod"](PUBLIC["where"](np.eye(n, dtype=bool), 1.0, steps), axis=1)


@shared.stands_for(theirs.BarycentricInterpolator)
class BarycentricInterpolator(_OfPolynomial, theirs.BarycentricInterpolator):
    def __init__(self, xi, yi=None, axis=0, *, wi=None, **random):
        if none_traced((xi, yi, wi)) and rt.trace() is None:  # SciPy's draws random numbers
            super().__init__(xi, yi, axis, wi=wi, **random)
            return
        if yi is None:
            raise shared.refused("BarycentricInterpolator", "give yi with recorded xi", xi, wi)
        xi = floats("BarycentricInterpolator", "xi", xi)
        if not holds("xi of BarycentricInterpolator", _are_distinct, xi):
            raise ValueError("Interpolation points xi must be distinct.")
        wi = _weights(xi) if wi is None else floats("BarycentricInterpolator", "wi", wi)
        self._start(xi, yi, axis, wi=wi)

    def _orders(self, x, first: int, stop: int) -> list:
        xi, yi, wi = self.xi, self.yi, self.wi
        found = []
        for d in range(stop):
            if d >= first:
                found.append(_barycentric(x, xi, yi, wi))
            if d + 1 < stop:
                yi = _slopes(xi, yi, wi)
        return found


def _slopes(xi, yi, wi):
    """The derivative at all positions of the polynomial through all values."""
    n = shape_of(xi)[0]
    own = np.eye(n, dtype=bool)
    steps = PUBLIC["where"](own, 1.0, xi[:, None] - xi)
    matrix = PUBLIC["where"](own, 0.0, wi / (steps * wi[:, None]))
    return PUBLIC["matmul"](matrix, yi) - PUBLIC["sum"](matrix, axis=1)[:, None] * yi


def _barycentric(x, xi, yi, wi):
    """The polynomial at points, from the value at the nearest position on.

    This form has derivatives at the positions, too.
    """
    take, n = PUBLIC["take"], shape_of(xi)[0]
    at = steered(_nearest, x, xi)
    own = at[:, None] == np.arange(n)
    near = PUBLIC["where"](own, 0.0, wi / PUBLIC["where"](own, 1.0, x[:, None] - xi))
    first, step = take(yi, at, axis=0), (x - take(xi, at))[:, None]
    total = PUBLIC["sum"](near, axis=1)[:, None]
    rise = PUBLIC["matmul"](near, yi) - total * first
    return first + step * rise / (take(wi, at)[:, None] + step * total)


_METHODS = {KroghInterpolator: "", BarycentricInterpolator: "set_yi add_xi"}
_FIELDS = {KroghInterpolator: ("c",), BarycentricInterpolator: ("wi",)}
for _kind, _names in _METHODS.items():
    for _name, _method in shared.not_derived(_kind._own, *_names.split()).items():
        setattr(_kind, _name, _method)
    for _name in ("xi", "yi", "_y_axis", "_y_extra_shape", "n", *_FIELDS[_kind]):
        setattr(_kind, _name, shared.field(_kind._own, _name))


def _at(made, x, der):
    if shape_of(der) == ():
        return made.derivative(x, int(der)) if der else made(x)
    return made.derivatives(x, int(np.amax(der)) + 1)[np.asarray(der)]


@entered
def krogh_interpolate(xi, yi, x, der=0, axis=0):
    return _at(KroghInterpolator(xi, yi, axis=axis), x, der)


@entered
def barycentric_interpolate(xi, yi, x, axis=0, *, der=0, rng=None):
    return _at(BarycentricInterpolator(xi, yi, axis=axis), x, der)
