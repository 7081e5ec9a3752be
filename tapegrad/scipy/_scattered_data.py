"""SciPy's interpolation of scattered data for recorded values: radial, nearest, linear."""

from __future__ import annotations

import importlib
import itertools

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import steered
from .._core.tensor.values import is_tensor, shape_of
from . import _interpolators as shared
from ._interp1d import interp1d
from ._interpolators import columns, entered, floats, refused, theirs
from ._regular_grids import points_of
from ._spline_products import product_at

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


_NAMES = "y d smoothing epsilon kernel powers neighbors d_shape _shift _scale _coeffs"
for _name in _NAMES.split():
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
