"""SciPy's interpolation of data for recorded values: `interp1d`, polynomials, scattered points."""

from __future__ import annotations

import importlib
import itertools
import math
import operator
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import fixed, steered
from .._core.tensor.values import is_tensor, shape_of
from . import _interpolate_polynomials as shared
from ._interpolate_grids import points_of
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
from ._interpolate_splines import make_interp_spline, product_at, spline_at

# --- interp1d -------------------------------------------------------------------------------------
# SciPy's `interp1d` for recorded values, in all its kinds.

_SPLINES = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}
_STEPS = ("nearest", "nearest-up", "previous", "next")


def _stable_order(x) -> np.ndarray:
    return np.argsort(x, kind="mergesort")


def _edges(x, kind: str):
    """The numbers between positions, by which points are placed."""
    if kind in ("nearest", "nearest-up"):
        middle = x / 2.0
        return middle[1:] + middle[:-1]
    return np.nextafter(x, -np.inf if kind == "previous" else np.inf)


def _place(edges, points, kind: str, last: int) -> Any:
    """For each point the number of the position whose value it gets."""
    side: Any = "left" if kind in ("nearest", "previous") else "right"
    found = np.searchsorted(edges, points, side=side)
    return found.clip(1, last + 1) - 1 if kind == "previous" else found.clip(0, last)


def _is_extrapolated(fill_value) -> bool:
    return isinstance(fill_value, str) and fill_value == "extrapolate"


@shared.stands_for(theirs.interp1d)
class interp1d(shared.Interpolator, theirs.interp1d):
    def __init__(
        self,
        x,
        y,
        kind="linear",
        axis=-1,
        copy=True,
        bounds_error=None,
        fill_value=np.nan,
        assume_sorted=False,
    ):
        if none_traced((x, y, fill_value)):
            options = (kind, axis, copy, bounds_error, fill_value, assume_sorted)
            super().__init__(x, y, *options)
            return
        kinds = shared.kind_of_floats(x), shared.kind_of_floats(y)
        x, y = floats("interp1d", "x", x), floats("interp1d", "y", y)
        known = kind in (*_SPLINES, *_STEPS, "linear") or isinstance(kind, int)
        if not known:
            raise NotImplementedError(
                f"{kind} is unsupported: Use fitpack routines for other types."
            )
        if len(shape_of(x)) != 1:
            raise ValueError("the x array must have exactly one dimension.")
        if not shape_of(y):
            raise ValueError("the y array must have at least one dimension.")
        axis = axis % len(shape_of(y))
        if shape_of(x)[0] != shape_of(y)[axis]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis.")
        rows = PUBLIC["moveaxis"](y, axis, 0)
        if not assume_sorted:
            order = steered(_stable_order, x)
            x, rows = (PUBLIC["take"](one, order, axis=0) for one in (x, rows))
        self._prepare(x, rows, kind, axis, (bounds_error, fill_value))
        self._held["_kinds"] = kinds

    def _prepare(self, x, rows, kind, axis: int, ends) -> None:
        """Hold the data, values with the axis of interpolation first, and what follows of them."""
        bounds_error, fill_value = ends
        extra = shape_of(rows)[1:]
        degree = _SPLINES.get(kind, kind if isinstance(kind, int) else None)
        least = 1 if degree is None else degree + 1
        if shape_of(x)[0] < least:
            raise ValueError(f"x and y arrays must have at least {least} entries")
        held = self._held = dict(x=x, axis=axis, _y=columns(rows), _y_axis=axis)
        held |= dict(y=PUBLIC["moveaxis"](rows, 0, axis), _y_extra_shape=extra)
        held |= dict(_kind=kind if degree is None else "spline", _spline=None)
        if degree is not None:
            held["_spline"] = make_interp_spline(x, held["_y"], k=degree, check_finite=False)
        if _is_extrapolated(fill_value):
            if bounds_error:
                raise ValueError("Cannot extrapolate and raise at the same time.")
            if kind in ("previous", "next"):
                end = rows[-1] if kind == "previous" else rows[0]
                pair = (np.nan, end) if kind == "previous" else (end, np.nan)
                held |= _filled(pair, extra)
            held |= dict(bounds_error=False, _extrapolate=kind not in ("previous", "next"))
        else:
            held |= _filled(fill_value, extra)
            is_strict = bounds_error is None or bounds_error
            held |= dict(bounds_error=is_strict, _extrapolate=False)
        held["_fill_value_orig"] = fill_value

    def _of_plain(self, **held):
        fill = "extrapolate" if held["_extrapolate"] else held["_fill_value_orig"]
        kind = held["_kind"] if held["_spline"] is None else held["_spline"].k
        strict, axis = held["bounds_error"], held["axis"]
        return theirs.interp1d(
            held["x"], held["y"], kind, axis, bounds_error=strict, fill_value=fill
        )

    def _held_data(self) -> tuple:
        if self._held is None:
            return ()
        names = ("x", "_y", "_fill_value_below", "_fill_value_above")
        return tuple(self._held.get(name) for name in names)

    def __call__(self, x):
        if self._is_plain(x):
            return self._plainly("__call__", x)
        points, dtype = floats("interp1d", "x", x), self._kind_at(x)
        out = shared.in_kind(self._filled_at(flat(points)), dtype)
        extra = tuple(self._y_extra_shape)
        axis = self._y_axis if shape_of(points) else 0
        return shared.with_points(out, shape_of(points), extra, axis)

    def _kind_at(self, points):
        """The dtype of values at points."""
        if self._held is not None:
            x, y = self._held["_kinds"]
        else:
            x, y = shared.kind_of_floats(self.x), shared.kind_of_floats(self.y)
        if self._kind == "spline":
            return np.dtype(np.float64)
        return y if self._kind in _STEPS else np.result_type(x, y, shared.kind_of_floats(points))

    def _filled_at(self, points):
        """The values of shape (points, others), those outside of the positions filled."""
        out = self._inside(points)
        if self._extrapolate:
            return out
        low, high = points < self.x[0], points > self.x[-1]
        if self.bounds_error:
            for what, side in ((low, "below"), (high, "above")):
                if not holds("the bounds of interp1d", _are_none, what):
                    raise ValueError(f"A value in x_new is {side} the interpolation range.")
        below, above = self._fill_value_below, self._fill_value_above
        where = PUBLIC["where"]
        return where(low[:, None], below, where(high[:, None], above, out))

    def _inside(self, points):
        x, y = floats("interp1d", "x", self.x), floats("interp1d", "y", self._values())
        kind = self._kind
        if kind in _STEPS:
            if self._held is not None:
                edges = steered(_edges, x, kind)
            else:
                edges = self.x_bds if kind.startswith("nearest") else self._x_shift
            place = steered(_place, edges, points, kind, shape_of(x)[0] - 1)
            return PUBLIC["take"](y, place, axis=0)
        if kind == "linear":
            if shape_of(x)[0] == 1:
                return PUBLIC["broadcast_to"](y, (shape_of(points)[0], shape_of(y)[1]))
            lines = PUBLIC["diff"](y, axis=0) / PUBLIC["diff"](x)[:, None]
            return evaluated(PUBLIC["stack"]([lines, y[:-1]]), x, points, 0, True)
        t, c, k = self._spline.tck
        found = spline_at(t, columns(c), k, points, 0, True)
        return found * np.nan if self._calls("_call_nan_spline") else found

    def _values(self):
        """The values at the positions, in the attribute that SciPy's object of plain data reads."""
        return columns(self.y) if self._calls("_call_linear_np") else self._y

    def _calls(self, name: str) -> bool:
        """Whether SciPy's object of plain data computes by one of its methods."""
        return self._held is None and self._call is getattr(theirs.interp1d, name)


def _are_none(mask) -> bool:
    return not mask.any()


def _filled(fill_value, extra: tuple) -> dict:
    """The values below and above all positions, in one row each or one number."""
    pair = fill_value if isinstance(fill_value, tuple) and len(fill_value) == 2 else None
    found = {}
    for name, one in zip(("below", "above"), pair or (fill_value,) * 2, strict=True):
        one = floats("interp1d", "fill_value", one)
        shape = extra or (1,)
        if np.broadcast_shapes(shape_of(one), shape) != shape:
            raise ValueError(
                f"fill_value argument must be able to broadcast up to shape {shape} but had shape "
                f"{shape_of(one)}"
            )
        wide = PUBLIC["broadcast_to"](one, shape) if is_tensor(one) else np.broadcast_to(one, shape)
        found[f"_fill_value_{name}"] = PUBLIC["reshape"](wide, (1, math.prod(shape)))
    return found


_INTERP1D_NAMES = (
    "x",
    "y",
    "_y",
    "axis",
    "_y_axis",
    "_y_extra_shape",
    "_kind",
    "_spline",
    "_extrapolate",
)
for _name in (*_INTERP1D_NAMES, "bounds_error", "_fill_value_below", "_fill_value_above"):
    setattr(interp1d, _name, shared.field(theirs.interp1d, _name))


# --- polynomial interpolators ---------------------------------------------------------------------
# SciPy's polynomials through points for recorded values: by Krogh, and barycentric.


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


# --- scattered data -------------------------------------------------------------------------------
# SciPy's interpolation of scattered data for recorded values: radial, nearest, linear.


# --- radial functions -----------------------------------------------------------------------------


def _safely(function):
    """A function of squared distances that is 0, and has derivative 0, at 0."""

    def safe(s):
        where, is_none = PUBLIC["where"], s == 0.0
        return where(is_none, 0.0, function(where(is_none, 1.0, s)))

    return safe


#: Of squared distances, by name; and the least degree of the polynomials beside them.
_KERNELS = {
    "linear": _safely(lambda s: -PUBLIC["sqrt"](s)),
    "thin_plate_spline": _safely(lambda s: 0.5 * s * PUBLIC["log"](s)),
    "cubic": _safely(lambda s: s * PUBLIC["sqrt"](s)),
    "quintic": _safely(lambda s: -s * s * PUBLIC["sqrt"](s)),
    "multiquadric": lambda s: -PUBLIC["sqrt"](s + 1.0),
    "inverse_multiquadric": lambda s: 1.0 / PUBLIC["sqrt"](s + 1.0),
    "inverse_quadratic": lambda s: 1.0 / (s + 1.0),
    "gaussian": lambda s: PUBLIC["exp"](-s),
}
_LEAST = {"multiquadric": 0, "linear": 0, "thin_plate_spline": 1, "cubic": 1, "quintic": 2}
_WITHOUT_SCALE = ("linear", "thin_plate_spline", "cubic", "quintic")


def _box(y) -> np.ndarray:
    """The middle of points, and half their extent: polynomials of any others span the same."""
    low, high = y.min(axis=0), y.max(axis=0)
    scale = (high - low) / 2
    return np.stack([(low + high) / 2, np.where(scale == 0.0, 1.0, scale)])


def _powers(count: int, degree: int) -> np.ndarray:
    found = [
        np.bincount(np.array(one, np.intp), minlength=count)
        for total in range(degree + 1)
        for one in itertools.combinations_with_replacement(range(count), total)
    ]
    return np.array(found, np.int64).reshape(len(found), count)


def _monomials(x, powers: np.ndarray):
    """Products of powers of coordinates, a column for each row of `powers`."""
    count, found = shape_of(x)[0], []
    for row in powers.tolist():
        one = np.ones(count)
        for d, power in enumerate(row):
            one = one if power == 0 else one * x[:, d] ** power
        found.append(one)
    return PUBLIC["stack"](found, axis=1) if found else np.zeros((count, 0))


def _radial(x, y, kernel: str, epsilon):
    steps = (x[:, None] - y) * epsilon
    return _KERNELS[kernel](PUBLIC["sum"](steps * steps, axis=-1))


def _kernel_of(kernel: str, epsilon) -> str:
    """The name of a kernel, which may need `epsilon`."""
    kernel = kernel.lower()
    if kernel not in _KERNELS:
        raise ValueError(f"`kernel` must be one of {set(_KERNELS)}.")
    if epsilon is None and kernel not in _WITHOUT_SCALE:
        raise ValueError(
            f"`epsilon` must be specified if `kernel` is not one of {set(_WITHOUT_SCALE)}."
        )
    return kernel


@shared.stands_for(theirs.RBFInterpolator)
class RBFInterpolator(shared.Interpolator, theirs.RBFInterpolator):
    def __init__(
        self,
        y,
        d,
        neighbors=None,
        smoothing=0.0,
        kernel="thin_plate_spline",
        epsilon=None,
        degree=None,
    ):
        if none_traced((y, d, smoothing, epsilon)):
            super().__init__(y, d, neighbors, smoothing, kernel, epsilon, degree)
            return
        if neighbors is not None:
            raise refused("RBFInterpolator", "neighbors has no derivative here; leave it out", y, d)
        self._hold(y, d, smoothing, _kernel_of(kernel, epsilon), epsilon, degree)

    def _hold(self, y, d, smoothing, kernel: str, epsilon, degree) -> None:
        name = "RBFInterpolator"
        epsilon = floats(name, "epsilon", 1.0 if epsilon is None else epsilon)
        y, d = floats(name, "y", y), floats(name, "d", d)
        smoothing = floats(name, "smoothing", smoothing)
        if len(shape_of(y)) != 2:
            raise ValueError("`y` must be a 2-dimensional array.")
        n, count = shape_of(y)
        if shape_of(d)[0] != n:
            raise ValueError(f"Expected the first axis of `d` to have length {n}.")
        if shape_of(smoothing) not in ((), (n,)):
            raise ValueError(f"Expected `smoothing` to be a scalar or have shape ({n},).")
        degree = max(_LEAST.get(kernel, -1), 0) if degree is None else int(degree)
        if degree < -1:
            raise ValueError("`degree` must be at least -1.")
        powers = _powers(count, degree)
        if len(powers) > n:
            raise ValueError(
                f"At least {len(powers)} data points are required when `degree` is {degree} and "
                f"the number of dimensions is {count}."
            )
        self._held = dict(y=y, d=d, smoothing=smoothing, epsilon=epsilon, kernel=kernel)
        self._held |= dict(powers=powers, neighbors=None, d_shape=shape_of(d)[1:])
        self._held |= self._solved(y, columns(d), smoothing)

    def _solved(self, y, d, smoothing) -> dict:
        """The coefficients of radial functions and polynomials."""
        n, (shift, scale) = shape_of(y)[0], _two(steered(_box, y))
        beside = _monomials((y - shift) / scale, self.powers)
        m = shape_of(beside)[1]
        near = _radial(y, y, self.kernel, self.epsilon) + np.eye(n) * smoothing
        lower = np.concatenate([PUBLIC["transpose"](beside), np.zeros((m, m))], axis=1)
        matrix = np.concatenate([np.concatenate([near, beside], axis=1), lower])
        right = np.concatenate([d, np.zeros((m, shape_of(d)[1]))])
        return dict(_shift=shift, _scale=scale, _coeffs=PUBLIC["solve"](matrix, right))

    def _of_plain(self, y, d, smoothing, epsilon, kernel, powers, **_):
        degree = int(powers.sum(axis=1).max()) if len(powers) else -1
        wide = np.broadcast_to(smoothing, y.shape[:1])
        return theirs.RBFInterpolator(y, d, None, wide, kernel, float(epsilon), degree)

    def __call__(self, x):
        if self._is_plain(x):
            return self._plainly("__call__", x)
        if self.neighbors is not None:
            raise refused("RBFInterpolator", "neighbors has no derivative here", x)
        if self._original is not None or self._held is None:
            if np.dtype(self.d_dtype).kind == "c":
                raise refused("RBFInterpolator", "complex data have no derivative here", x)
        x = floats("RBFInterpolator", "x", x)
        if len(shape_of(x)) != 2:
            raise ValueError("`x` must be a 2-dimensional array.")
        if shape_of(x)[1] != shape_of(self.y)[1]:
            raise ValueError(
                f"Expected the second axis of `x` to have length {shape_of(self.y)[1]}."
            )
        near = _radial(x, self.y, self.kernel, self.epsilon)
        beside = _monomials((x - self._shift) / self._scale, self.powers)
        out = PUBLIC["matmul"](np.concatenate([near, beside], axis=1), self._coeffs)
        return PUBLIC["reshape"](out, (shape_of(x)[0], *self.d_shape))


def _two(x) -> tuple:
    return x[0], x[1]


_RBF_NAMES = "y d smoothing epsilon kernel powers neighbors d_shape _shift _scale _coeffs"
for _name in _RBF_NAMES.split():
    setattr(RBFInterpolator, _name, shared.field(theirs.RBFInterpolator, _name))


# --- the nearest and the linear -------------------------------------------------------------------


class _Scattered(shared.Interpolator):
    """What interpolators of scattered values have in common: points, values, options."""

    def _hold(self, points, values, **options) -> None:
        name = self._own.__name__
        points = points_of(name, points)
        values = unlisted(values)
        values = values if is_tensor(values) else np.asarray(values)
        if shape_of(values)[0] != shape_of(points)[0]:
            raise ValueError("different number of values and points")
        self._held = dict(points=points, values=values, **options)

    def _of_plain(self, points, values, **options):
        return self._own(points, values, **options)

    def _held_data(self) -> tuple:
        return () if self._held is None else (self._held["points"], self._held["values"])

    def _places(self, args: tuple):
        """The points that are asked for, as rows, and their shape."""
        count = shape_of(self.points)[1]
        xi = points_of(self._own.__name__, args if len(args) > 1 else args[0], count)
        if shape_of(xi)[-1] != count:
            raise ValueError("number of dimensions in xi does not match x")
        return PUBLIC["reshape"](xi, (-1, count)), shape_of(xi)[:-1]


def _number_of_nearest(xi, points, rescale, options) -> np.ndarray:
    """The number of the nearest point, or one more than there are where none is near."""
    made = theirs.NearestNDInterpolator(points, np.arange(float(len(points))), rescale)
    return np.nan_to_num(made(xi, **options), nan=len(points)).astype(np.intp)


@shared.stands_for(theirs.NearestNDInterpolator)
class NearestNDInterpolator(_Scattered, theirs.NearestNDInterpolator):
    def __init__(self, x, y, rescale=False, tree_options=None):
        if none_traced((x, y)):
            super().__init__(x, y, rescale, tree_options)
        else:
            self._hold(x, y, rescale=rescale)

    def __call__(self, *args, **query_options):
        if self._is_plain(args):
            return self._plainly("__call__", *args, **query_options)
        xi, shape = self._places(args)
        values = floats("NearestNDInterpolator", "values", self.values)
        points, rescale = self.points, False
        if self._held is not None:
            rescale = self._held["rescale"]
        elif self.scale is not None:
            xi = (xi - self.offset) / self.scale
        at = steered(_number_of_nearest, xi, points, rescale=rescale, options=query_options)
        none = np.full((1, *shape_of(values)[1:]), np.nan)
        found = PUBLIC["take"](np.concatenate([values, none]), at, axis=0)
        return PUBLIC["reshape"](found, (*shape, *shape_of(values)[1:]))


def _corners(xi, points, rescale, tri) -> np.ndarray:
    """The points around each place, all −1 outside of all of them."""
    if rescale:
        offset, scale = points.mean(axis=0), np.ptp(points, axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        points, xi = (points - offset) / scale, (xi - offset) / scale
    tri = importlib.import_module("scipy.spatial").Delaunay(points) if tri is None else tri
    found = tri.find_simplex(xi)
    return np.where(found[:, None] < 0, -1, tri.simplices[found])


@shared.stands_for(theirs.LinearNDInterpolator)
class LinearNDInterpolator(_Scattered, theirs.LinearNDInterpolator):
    def __init__(self, points, values, fill_value=np.nan, rescale=False):
        if none_traced((points, values, fill_value)):
            super().__init__(points, values, fill_value, rescale)
            return
        tri = points if hasattr(points, "simplices") else None
        points = points if tri is None else tri.points
        self._hold(points, values, fill_value=fill_value, rescale=rescale)
        self._held["tri"] = tri

    def _of_plain(self, points, values, tri, **options):
        return theirs.LinearNDInterpolator(points if tri is None else tri, values, **options)

    def __call__(self, *args):
        if self._is_plain(args):
            return self._plainly("__call__", *args)
        xi, shape = self._places(args)
        held, points, fill_value = self._held, self.points, self.fill_value
        values = floats("LinearNDInterpolator", "values", self.values)
        extra = shape_of(values)[1:] if held is not None else tuple(self.values_shape)
        tri, rescale = (self.tri, False) if held is None else (held["tri"], held["rescale"])
        if held is None and self.scale is not None:
            xi = (xi - self.offset) / self.scale
        points = points if held is not None else tri.points
        at = steered(_corners, xi, points, rescale=rescale, tri=tri)
        corners = PUBLIC["take"](points, PUBLIC["maximum"](at, 0), axis=0)
        last, count = corners[:, -1], shape_of(xi)[1]
        edges = PUBLIC["swapaxes"](corners[:, :-1] - last[:, None], 1, 2)
        outside = at[:, 0] < 0
        edges = PUBLIC["where"](outside[:, None, None], np.eye(count), edges)
        shares = PUBLIC["solve"](edges, (xi - last)[:, :, None])[:, :, 0]
        shares = np.concatenate([shares, 1.0 - PUBLIC["sum"](shares, axis=1)[:, None]], axis=1)
        rows = PUBLIC["take"](columns(values), PUBLIC["maximum"](at, 0), axis=0)
        out = PUBLIC["sum"](shares[:, :, None] * rows, axis=1)
        out = PUBLIC["where"](outside[:, None], fill_value, out)
        return PUBLIC["reshape"](out, (*shape, *extra))


for _kind, _more in ((NearestNDInterpolator, ()), (LinearNDInterpolator, ("fill_value", "tri"))):
    for _name in ("points", "values", *_more):
        setattr(_kind, _name, shared.field(_kind._own, _name))


@shared.stands_for(theirs.CloughTocher2DInterpolator)
class CloughTocher2DInterpolator(shared.Interpolator, theirs.CloughTocher2DInterpolator):
    def __init__(self, points, values, *args, **kwargs):
        if not none_traced((points, values, *args, *kwargs.values())):
            raise self._refusal(points, values)
        super().__init__(points, values, *args, **kwargs)

    def __call__(self, *args):
        if self._is_plain(args):
            return self._plainly("__call__", *args)
        raise self._refusal(*args)

    def _refusal(self, *operands):
        why = (
            "its slopes are found by iterations; LinearNDInterpolator and RBFInterpolator have one"
        )
        return refused("CloughTocher2DInterpolator", f"it has no derivative, {why}", *operands)


def _order(x) -> np.ndarray:
    return np.argsort(x)


@entered
def griddata(points, values, xi, method="linear", fill_value=np.nan, rescale=False):
    points = points_of("griddata", points)
    count = shape_of(points)[-1]
    if count == 1 and method in ("nearest", "linear", "cubic"):
        if isinstance(xi, tuple):
            (xi,) = xi
        x = shared.flat(points)
        order = steered(_order, x)
        x, values = (
            PUBLIC["take"](one, order, axis=0) for one in (x, floats("griddata", "values", values))
        )
        fill_value = "extrapolate" if method == "nearest" else fill_value
        return interp1d(x, values, method, 0, bounds_error=False, fill_value=fill_value)(xi)
    if method == "nearest":
        return NearestNDInterpolator(points, values, rescale=rescale)(xi)
    if method == "linear":
        return LinearNDInterpolator(points, values, fill_value, rescale)(xi)
    if method == "cubic" and count == 2:
        raise refused(
            "griddata",
            "method='cubic' finds slopes by iterations; 'linear' has a derivative",
            points,
            values,
            xi,
        )
    raise ValueError(f"Unknown interpolation method {method!r} for {count} dimensional data")


# --- products of splines --------------------------------------------------------------------------


@shared.stands_for(theirs.NdBSpline)
class NdBSpline(shared.Interpolator, theirs.NdBSpline):
    def __init__(self, t, c, k, *, extrapolate=None):
        if none_traced((t, c)):
            super().__init__(t, c, k, extrapolate=extrapolate)
            return
        t = tuple(floats("NdBSpline", "t", one) for one in t)
        c, k = floats("NdBSpline", "c", c), k if isinstance(k, tuple) else (k,) * len(t)
        sizes = tuple(shape_of(one)[0] - degree - 1 for one, degree in zip(t, k, strict=True))
        if shape_of(c)[: len(t)] != sizes:
            raise ValueError("Knots, coefficients and degree are inconsistent.")
        is_open = extrapolate is None or bool(extrapolate)
        self._held = dict(t=t, c=c, k=k, extrapolate=is_open)

    def _of_plain(self, t, c, k, extrapolate):
        return theirs.NdBSpline(tuple(map(shared.plain, t)), c, k, extrapolate=extrapolate)

    def __call__(self, xi, *, nu=None, extrapolate=None):
        if self._is_plain(xi):
            return self._plainly("__call__", xi, nu=nu, extrapolate=extrapolate)
        xi, t, k, c = floats("NdBSpline", "xi", xi), tuple(self.t), self.k, self.c
        count = len(t)
        k = tuple(k) if np.ndim(k) else (k,) * count
        points = PUBLIC["reshape"](xi, (-1, count))
        out = product_at(
            t, floats("NdBSpline", "c", c), k, points, (0,) * count if nu is None else nu
        )
        if not (self.extrapolate if extrapolate is None else extrapolate):
            for d, (one, degree) in enumerate(zip(t, k, strict=True)):
                x, last = points[:, d], shape_of(one)[0] - degree - 1
                outside = (x < one[degree]) | (x > one[last])
                out = PUBLIC["where"](outside[:, None], np.nan, out)
        return PUBLIC["reshape"](out, (*shape_of(xi)[:-1], *shape_of(c)[count:]))


for _name in ("t", "c", "k", "extrapolate"):
    setattr(NdBSpline, _name, shared.field(theirs.NdBSpline, _name))
