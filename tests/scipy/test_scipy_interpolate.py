"""SciPy's interpolators in differentiated functions: values, derivatives, programs, both doors."""

import pickle

import numpy as np
import pytest
import scipy
import scipy.interpolate
import scipy.sparse.linalg
from scipy import interpolate as theirs

import tapegrad as tg
from tapegrad.scipy import interpolate as ours

X = np.array([0.0, 0.7, 1.1, 1.9, 2.6, 3.2, 4.1, 4.6, 5.3])
Y = np.array([0.3, 1.1, 0.8, -0.4, -0.9, 0.2, 1.3, 0.9, 0.1])
#: Points below, between and above the positions, in no order.
Q = np.array([2.05, 0.35, 5.6, 1.5, -0.3, 4.33, 3.0, 0.9])
V = np.array([1.0, -0.7, 0.4, 0.9, -1.2, 0.3, 0.8, -0.5, 0.6])


def around(y):
    return np.concatenate([y[:-1], y[:1]])


def bernstein(m, x, y, **keywords):
    return m.BPoly(np.stack([y[1:], y[1:] ** 2, -y[:-1]]), x, **keywords)


def powers(m, x, y, **keywords):
    return m.PPoly(np.stack([y[1:], y[1:] ** 2, -y[:-1]]), x, **keywords)


#: By name: functions of SciPy's module, positions, values and points.
PIECES = {
    "CubicSpline": lambda m, x, y, q: m.CubicSpline(x, y)(q),
    "of order 1": lambda m, x, y, q: m.CubicSpline(x, y, bc_type="natural")(q, 1),
    "derivative": lambda m, x, y, q: m.CubicSpline(x, y, bc_type="clamped").derivative(2)(q),
    "conditions": lambda m, x, y, q: m.CubicSpline(
        x, y, bc_type=((1, y[2]), (2, -0.4))
    ).antiderivative()(q),
    "one condition": lambda m, x, y, q: m.CubicSpline(x, y, bc_type=("natural", "clamped"))(q),
    "periodic": lambda m, x, y, q: m.CubicSpline(x, around(y), bc_type="periodic")(q),
    "2 points": lambda m, x, y, q: m.CubicSpline(x[:2], y[:2])(q),
    "2, periodic": lambda m, x, y, q: m.CubicSpline(x[:2], y[[0, 0]], bc_type="periodic")(q) * y[1],
    "3 points": lambda m, x, y, q: m.CubicSpline(x[:3], y[:3])(q),
    "3, natural": lambda m, x, y, q: m.CubicSpline(x[:3], y[:3], bc_type=("not-a-knot", "natural"))(
        q
    ),
    "3, periodic": lambda m, x, y, q: m.CubicSpline(x[:3], around(y[:3]), bc_type="periodic")(q),
    "4, periodic": lambda m, x, y, q: m.CubicSpline(x[:4], around(y[:4]), bc_type="periodic")(
        0.97 * q
    ),
    "integrate": lambda m, x, y, q: m.CubicSpline(x, y).integrate(q[0], q[3]),
    "over periods": lambda m, x, y, q: m.CubicSpline(x, around(y), bc_type="periodic").integrate(
        q[0], q[3] * 9
    ),
    "twice": lambda m, x, y, q: m.CubicSpline(x, y).antiderivative(2)(q),
    "axis 1": lambda m, x, y, q: m.CubicSpline(x, np.stack([y, y * y]), axis=1)(
        q[:6].reshape(2, 3)
    ),
    "Pchip": lambda m, x, y, q: m.PchipInterpolator(x, y)(q),
    "Pchip, rows": lambda m, x, y, q: m.PchipInterpolator(x, np.stack([y, y**2], 1))(q),
    "Pchip, 2": lambda m, x, y, q: m.PchipInterpolator(x[:2], y[:2], extrapolate=True)(q),
    "pchip_interpolate": lambda m, x, y, q: m.pchip_interpolate(x, y, q, der=1),
    "orders": lambda m, x, y, q: np.stack(m.pchip_interpolate(x, y, q, der=[0, 1])),
    "Akima": lambda m, x, y, q: m.Akima1DInterpolator(x, y, extrapolate=True)(q),
    "Akima, rows": lambda m, x, y, q: m.Akima1DInterpolator(
        x, np.stack([y, y**2]), axis=1, extrapolate=True
    )(q, 1),
    "makima": lambda m, x, y, q: m.Akima1DInterpolator(x, y, method="makima", extrapolate=True)(q),
    "Hermite": lambda m, x, y, q: m.CubicHermiteSpline(x, y, y**2)(q),
    "PPoly": lambda m, x, y, q: powers(m, x, y)(q),
    "decreasing": lambda m, x, y, q: powers(m, x[::-1], y)(q, 1),
    "PPoly, axis": lambda m, x, y, q: m.PPoly(
        np.stack([y[None, 1:], y[None, 1:] ** 2], 1), x, axis=1
    )(q),
    "sums": lambda m, x, y, q: powers(m, x, y, extrapolate=False).antiderivative()(q[[0, 1, 3]]),
    "above its order": lambda m, x, y, q: powers(m, x, y).derivative(3)(q) + y[0] * x[1] * q[0],
    "of Bernstein": lambda m, x, y, q: m.PPoly.from_bernstein_basis(bernstein(m, x, y))(q),
    "construct_fast": lambda m, x, y, q: m.PPoly.construct_fast(np.stack([y[1:], y[:-1]]), x)(q),
    "BPoly": lambda m, x, y, q: bernstein(m, x, y)(q),
    "BPoly, derivative": lambda m, x, y, q: bernstein(m, x, y).derivative()(q),
    "BPoly, integral": lambda m, x, y, q: bernstein(m, x, y).antiderivative()(q),
    "BPoly, integrate": lambda m, x, y, q: bernstein(m, x, y).integrate(q[1], q[-2]),
}
if np.lib.NumpyVersion(scipy.__version__) >= "1.17.0":  # earlier ones read what is not written
    PIECES["Akima, 2"] = lambda m, x, y, q: m.Akima1DInterpolator(x[:2], y[:2], extrapolate=True)(q)


def inside(q):
    return 0.7 * q + 0.53


def low(q):
    return 0.5 * q + 0.21


def clamped(m, x, y, k, **keywords):
    """A spline with knots at positions and coefficients y."""
    n = len(y) - k + 1
    return m.BSpline(np.concatenate([*[x[:1]] * k, x[:n], *[x[n - 1 : n]] * k]), y, k, **keywords)


KNOTS = np.r_[[-0.5] * 4, 1.7, 3.3, [6.5] * 4]
SPLINES = {
    "BSpline": lambda m, x, y, q: clamped(m, x, y, 3)(q),
    "BSpline, rows": lambda m, x, y, q: (
        m.BSpline(KNOTS, np.stack([y[:6], y[3:]]), 3, axis=1)(q) * x[0]
    ),
    "BSpline, order 1": lambda m, x, y, q: clamped(m, x, y, 2)(q + 0.03, 1),
    "BSpline, derivative": lambda m, x, y, q: clamped(m, x, y, 2).derivative()(q + 0.03),
    "BSpline, integrals": lambda m, x, y, q: clamped(m, x, y, 2).antiderivative(2)(q),
    "BSpline, integrate": lambda m, x, y, q: clamped(m, x, y, 2).integrate(q[0], q[2]),
    "BSpline, ends": lambda m, x, y, q: clamped(m, x, y, 2).integrate(q[4], q[2], False),
    "BSpline, periodic": lambda m, x, y, q: clamped(m, x, y, 2, extrapolate="periodic")(q + 0.05),
    "BSpline, periods": lambda m, x, y, q: clamped(m, x, y, 2, extrapolate="periodic").integrate(
        q[0], q[1] * 40
    ),
    "basis_element": lambda m, x, y, q: m.BSpline.basis_element(x[:5])(q) * y[0],
    "make_interp_spline": lambda m, x, y, q: m.make_interp_spline(x, y)(q),
    "degree 2": lambda m, x, y, q: m.make_interp_spline(x, y, k=2)(q + 0.03),
    "degree 5, rows": lambda m, x, y, q: m.make_interp_spline(x, np.stack([y, y**2]), 5, axis=1)(q),
    "degree 1": lambda m, x, y, q: m.make_interp_spline(x, y, k=1)(q),
    "degree 0": lambda m, x, y, q: m.make_interp_spline(x, y, k=0)(q) + x[0] * q[0],
    "natural": lambda m, x, y, q: m.make_interp_spline(x, y, bc_type="natural")(q),
    "pairs": lambda m, x, y, q: m.make_interp_spline(
        x, y, bc_type=([(1, y[0])], [(2, 0.3)])
    ).derivative()(q),
    "knots": lambda m, x, y, q: m.make_interp_spline(
        x, y, t=np.r_[[-0.5] * 4, 1.13, 1.93, 2.67, 3.29, 4.17, [7.0] * 4]
    )(q),
    "make_lsq_spline": lambda m, x, y, q: m.make_lsq_spline(x, y, KNOTS, w=y**2 + 1.0)(q),
    "lsq, rows": lambda m, x, y, q: m.make_lsq_spline(x, np.stack([y, y**2], 1), KNOTS)(q)[:, 1],
    "smoothing": lambda m, x, y, q: m.make_smoothing_spline(X, y, lam=0.3)(q) * x[0],
    "weights": lambda m, x, y, q: (
        m.make_smoothing_spline(X, y, w=y**2 + 0.3, lam=y[0] ** 2)(q) * x[0]
    ),
    **{
        f"interp1d, {kind}": lambda m, x, y, q, kind=kind: (
            m.interp1d(x, np.stack([y, y**2]), kind=kind)(inside(q)) * y[0] + x[0] * q[0]
        )
        for kind in (
            *("linear", "nearest", "nearest-up", "previous", "next"),
            *("zero", "slinear", "quadratic", "cubic", 4),
        )
    },
    "interp1d, plain": lambda m, x, y, q: m.interp1d(x, y)(inside(q)),
    **{
        f"interp1d, {kind}, beyond": lambda m, x, y, q, kind=kind: np.nan_to_num(
            m.interp1d(x, y, kind=kind, fill_value="extrapolate")(q + 0.03) * y[0] + x[0] * q[0]
        )
        for kind in ("linear", "nearest", "previous", "next", "quadratic")
    },
    **{
        f"interp1d, {kind}, filled": lambda m, x, y, q, kind=kind: (
            m.interp1d(
                *(x[::-1], np.stack([y, y**2], 1), kind),
                **dict(axis=0, bounds_error=False, fill_value=(-1.0, y[:2])),
            )(q - 0.42)
            * x[1]
            * q[0]
        )
        for kind in ("linear", "previous", "cubic")
    },
    "splev": lambda m, x, y, q: m.splev(q, m.splrep(x, y)),
    "splev, order 1": lambda m, x, y, q: m.splev(q + 0.03, m.splrep(x, y, k=2), der=1),
    "splev, zeros": lambda m, x, y, q: m.splev(q - 0.42, m.splrep(x, y, k=4), ext=1),
    "splev, ends": lambda m, x, y, q: m.splev(q - 0.42, m.splrep(x, y, k=5), ext=3),
    "splev, box": lambda m, x, y, q: m.splev(q, m.splrep(x, y, xb=-0.1, xe=6.0)),
    "splev, knots": lambda m, x, y, q: m.splev(q, m.splrep(x, y, w=y**2 + 0.2, t=[1.7, 3.3])),
    "splev, curves": lambda m, x, y, q: np.stack(
        m.splev(q, (KNOTS, [y[:6], y[3:] ** 2], 3)) + [x[0] * q]
    ),
    "splev of a BSpline": lambda m, x, y, q: m.splev(q, m.make_interp_spline(x, y)),
    "splprep": lambda m, x, y, q: np.stack(
        m.splev(low(q) * 0.3, m.splprep([x, y, x * y], s=0)[0]) + [x[0] * q]
    ),
    "splprep, given": lambda m, x, y, q: np.stack(
        m.splev(low(q), m.splprep([y, y**2], u=x, s=0, k=2)[0])
    ),
    "make_splrep": lambda m, x, y, q: m.make_splrep(x, y, k=4)(q + 0.03),
    "make_splprep": lambda m, x, y, q: m.make_splprep([x, y])[0](low(q) * 0.3),
    "splint": lambda m, x, y, q: m.splint(q[0] - 3.0, q[1], m.splrep(x, y)),
    "splder": lambda m, x, y, q: m.splev(q, m.splder(m.splrep(x, y))),
    "splantider": lambda m, x, y, q: m.splev(q, m.splantider(m.splrep(x, y), 2)),
    "spalde": lambda m, x, y, q: np.stack(m.spalde(inside(q), m.splrep(x, y)))[:, :3],
    "UnivariateSpline": lambda m, x, y, q: m.UnivariateSpline(x, y, s=0)(q - 0.42),
    "Univariate, zeros": lambda m, x, y, q: m.UnivariateSpline(x, y, s=0, ext=1)(q - 0.42, 1),
    "Univariate, const": lambda m, x, y, q: m.UnivariateSpline(x, y, s=0, ext="const")(q - 0.42),
    "Univariate, smooth": lambda m, x, y, q: m.UnivariateSpline(X, Y, s=0.5)(q) * x[0] * y[1],
    "Interpolated": lambda m, x, y, q: m.InterpolatedUnivariateSpline(x, y, k=4)(q + 0.03),
    "Univariate, derivative": lambda m, x, y, q: m.InterpolatedUnivariateSpline(x, y).derivative()(
        q
    ),
    "Univariate, sums": lambda m, x, y, q: m.UnivariateSpline(x, y, s=0).antiderivative()(q),
    "Univariate, integral": lambda m, x, y, q: m.UnivariateSpline(x, y, s=0).integral(q[0], q[1]),
    "derivatives": lambda m, x, y, q: m.UnivariateSpline(x, y, s=0).derivatives(q[0])[:3],
    "coefficients": lambda m, x, y, q: (
        m.UnivariateSpline(x, y, s=0).get_coeffs()
        + m.UnivariateSpline(x, y, s=0).get_knots()[0] * q[0]
    ),
    "LSQUnivariateSpline": lambda m, x, y, q: m.LSQUnivariateSpline(x, y, [1.7, 3.3], w=y**2 + 0.2)(
        q
    ),
    "Rect": lambda m, x, y, q: m.RectBivariateSpline(x, x[:6] * 2, y[:, None] * y[:6])(
        np.sort(q)[1:4], [0.2, 5.0, 99.0]
    ),
    "Rect, ev": lambda m, x, y, q: m.RectBivariateSpline(x, x[:6] * 2, y[:, None] * y[:6]).ev(
        q, q[::-1] + 0.07
    ),
    "Rect, orders": lambda m, x, y, q: m.RectBivariateSpline(
        x, x[:6] * 2, y[:, None] * y[:6], kx=2, ky=4
    ).ev(*(q + 0.03, q[::-1] + 0.07), dx=1, dy=2),
    "bisplev": lambda m, x, y, q: m.bisplev(np.sort(q), np.sort(q) + 0.1, SURFACE) * x[0] * y[0],
    "Smooth, surface": lambda m, x, y, q: surface(m)(q, q[::-1], grid=False) * x[0] * y[0],
}
GRID = np.meshgrid(np.arange(8.0), np.arange(8.0))
HEIGHTS = np.sin(np.arange(64.0)).reshape(8, 8)
SURFACE = theirs.bisplrep(*GRID, HEIGHTS, s=0)


def surface(m):
    data = [np.ravel(one) for one in (*GRID, HEIGHTS)]
    return m.SmoothBivariateSpline(*data, s=40.0).partial_derivative(1, 0)


EXACT = {"solver": scipy.sparse.linalg.spsolve}


def grid(m, x, y, method="linear", **keywords):
    more = EXACT if method in ("slinear", "cubic", "quintic") else {}
    values = y[:, None] * y[:6] ** 2 + y[:6]
    return m.RegularGridInterpolator((x, x[:6] * 1.5), values, method, **more, **keywords)


def solid(m, x, y, method):
    values = (y[:, None] * y[:6] ** 2 + y[:6])[..., None] * y[:5]
    more = EXACT if method in ("slinear", "cubic", "quintic") else {}
    points = (x[::-1], x[:6] * 1.5, x[:5])
    return m.RegularGridInterpolator(points, values, method, False, None, **more)


def pair(q):
    """Points of two variables on the grid."""
    return np.stack([inside(q), inside(q[::-1]) * 0.83], -1)


METHODS = ("linear", "nearest", "slinear", "cubic", "quintic", "pchip", "cubic_legacy")
GRIDS = {
    **{
        f"grid, {method}": lambda m, x, y, q, method=method: (
            grid(m, x, y, method)(pair(q)) + x[0] * q[0]
        )
        for method in METHODS
    },
    **{
        f"grid, {method}, beyond": lambda m, x, y, q, method=method: (
            grid(m, x, y, method, bounds_error=False, fill_value=None)((q[:5] + 0.03, q[:5] * 1.21))
            + x[0] * q[0]
        )
        for method in ("linear", "cubic", "nearest")
    },
    **{
        f"solid, {method}": lambda m, x, y, q, method=method: (
            solid(m, x, y, method)(np.stack([q[:3], q[5:] * 0.83, q[1:4] * 0.71], -1)) + x[0] * q[0]
        )
        for method in ("linear", "cubic", "pchip")
    },
    "grid, filled": lambda m, x, y, q: (
        grid(m, x, y, bounds_error=False, fill_value=y[0])(np.stack([q, q * 1.21], -1)) + x[0] * q
    ),
    "grid, order 1": lambda m, x, y, q: grid(m, x, y, "cubic")(pair(q), nu=(1, 0)),
    "grid, another method": lambda m, x, y, q: (
        grid(m, X, Y, "cubic")(pair(q), "linear") * x[0] * y[0]
    ),
    "grid, rows": lambda m, x, y, q: m.RegularGridInterpolator((x,), y[:, None] * y[:4])(inside(q))[
        :, 2
    ],
    "interpn": lambda m, x, y, q: m.interpn((x, x[:6] * 1.5), y[:, None] * y[:6], pair(q)),
    "splinef2d": lambda m, x, y, q: m.interpn(
        (x, x[:6] * 1.5), y[:, None] * y[:6], pair(q), "splinef2d"
    ),
    "NdBSpline": lambda m, x, y, q: (
        m.NdBSpline((KNOTS, KNOTS), y[:6, None] * y[:6], 3)(pair(q), nu=(1, 0)) * x[0]
    ),
}
ACROSS = np.array([1.7, 0.2, 4.4, 3.1, 0.9, 5.1, 2.3, 3.9, 0.4])


def plane(x):
    return np.stack([x, ACROSS + 0.01 * x**2], -1)


def scaled(q):
    return np.stack([0.8 * q + 0.31, 0.6 * q[::-1] + 1.23], -1)


SCATTERED = {
    **{
        f"RBF, {kernel}": lambda m, x, y, q, kernel=kernel, epsilon=epsilon: m.RBFInterpolator(
            plane(x), y, kernel=kernel, epsilon=epsilon
        )(scaled(q))
        for kernel, epsilon in (
            *(("linear", None), ("thin_plate_spline", None), ("cubic", 0.9), ("quintic", None)),
            *(("multiquadric", 0.7), ("inverse_multiquadric", 0.7)),
            *(("inverse_quadratic", 0.7), ("gaussian", 0.7)),
        )
    },
    "RBF, smooth": lambda m, x, y, q: m.RBFInterpolator(
        plane(x), np.stack([y, y**2], 1), smoothing=y**2, degree=1, kernel="gaussian", epsilon=0.8
    )(scaled(q))[:, 1],
    "RBF, alone": lambda m, x, y, q: m.RBFInterpolator(
        plane(x), y, smoothing=0.3, degree=-1, kernel="gaussian", epsilon=0.8
    )(scaled(q)),
    "RBF, plain": lambda m, x, y, q: m.RBFInterpolator(plane(X), Y)(scaled(q)) * x[0] * y[0],
    "NearestND": lambda m, x, y, q: (
        m.NearestNDInterpolator(plane(x), np.stack([y, y**2], 1), rescale=True)(q, q[::-1])
        + x[0] * q[0]
    ),
    "LinearND": lambda m, x, y, q: (
        m.LinearNDInterpolator(plane(x), y, fill_value=0.3)(scaled(q)) + x[0] * q[0]
    ),
    "LinearND, rows": lambda m, x, y, q: (
        m.LinearNDInterpolator(plane(x), np.stack([y, y**2], 1), 0.2, True)(q, q[::-1] + 0.1)
        + x[0] * q[0]
    ),
    "LinearND, plain": lambda m, x, y, q: (
        m.LinearNDInterpolator(plane(X), np.stack([Y, Y**2], 1), 0.2, True)(q, q[::-1] + 0.1)
        * x[0]
        * y[0]
    ),
    "griddata": lambda m, x, y, q: m.griddata(plane(x), y, scaled(q), fill_value=0.1) + x[0] * q[0],
    "griddata, 1": lambda m, x, y, q: m.griddata(x[::-1], y, q - 0.42, "cubic", fill_value=0.3),
    "griddata, nearest": lambda m, x, y, q: (
        m.griddata((x, ACROSS), y, (q + 0.03, q), "nearest") + x[0] * q[0]
    ),
    "Krogh": lambda m, x, y, q: m.KroghInterpolator(x[:6], y[:6])(low(q)),
    "Krogh, order 2": lambda m, x, y, q: (
        m.KroghInterpolator(x[:5], np.stack([y, y**2])[:, :5], axis=1).derivative(0.5 * q + 0.21, 2)
        * 0.1
    ),
    "Krogh, orders": lambda m, x, y, q: (
        m.KroghInterpolator(x[:5], y[:5]).derivatives(low(q), 3) * 0.1
    ),
    "Krogh, equal": lambda m, x, y, q: (
        m.KroghInterpolator(np.array([0.0, 0.0, 0.0, 2.0, 2.0, 3.0]), y[:6])(low(q)) + x[0] * y[0]
    ),
    "krogh_interpolate": lambda m, x, y, q: m.krogh_interpolate(x[:5], y[:5], low(q), der=[0, 1]),
    "barycentric": lambda m, x, y, q: m.BarycentricInterpolator(x[:6], y[:6])(low(q)),
    "barycentric, at positions": lambda m, x, y, q: m.BarycentricInterpolator(x[:5], y[:5])(
        np.concatenate([low(q[:3]), X[:4]])
    ),
    "barycentric, order 2": lambda m, x, y, q: (
        m.BarycentricInterpolator(x[:5], np.stack([y, y**2])[:, :5], axis=1).derivative(
            0.5 * q + 0.21, 2
        )
        * 0.1
    ),
    "barycentric_interpolate": lambda m, x, y, q: m.barycentric_interpolate(
        x[:5], y[:5], low(q), der=1
    ),
}
TABLE = {**PIECES, **SPLINES, **GRIDS, **SCATTERED}


def total(f, m, x, y, q):
    value = f(m, x, y, q)
    return np.sum(np.sin(value) * np.cos(1 + np.arange(np.size(value))).reshape(np.shape(value)))


def differences(f, a, h=2e-4):
    found = np.zeros(a.shape)
    for at in np.ndindex(a.shape):
        e = np.zeros(a.shape)
        e[at] = h
        slopes = [(f(a + k * e) - f(a - k * e)) / (2 * h * k) for k in (1, 2, 4)]
        first = [(4 * slopes[0] - slopes[1]) / 3, (4 * slopes[1] - slopes[2]) / 3]
        found[at] = (16 * first[0] - first[1]) / 15
    return found


#: Positions, values and points in one vector.
A, B = np.r_[X, Y, Q], np.r_[X**1.05 + 0.02, Y[::-1] + 0.3, Q[::-1] * 0.93 + 0.11]


def whole(name, m=ours):
    """A function of positions, values and points in one vector."""
    return lambda a: total(TABLE[name], m, a[:9], a[9:18], a[18:])


@pytest.mark.parametrize("name", TABLE)
def test_derivatives(name):
    f, plain = whole(name), whole(name, theirs)
    value, gradient = tg.value_and_grad(f)(A)
    np.testing.assert_allclose(value, plain(A), rtol=1e-11)
    size = 1.0 + np.abs(gradient).max()
    np.testing.assert_allclose(gradient, differences(plain, A), atol=1e-7 * size)
    u = np.cos(np.arange(26) * 2.0)
    np.testing.assert_allclose(tg.jvp(f, (A,), (u,))[1], gradient @ u, rtol=1e-8, atol=1e-9)
    slope = lambda s: tg.grad(f)(A + s * u)
    wanted = (8 * (slope(1e-4) - slope(-1e-4)) - slope(2e-4) + slope(-2e-4)) / 12e-4
    product = tg.hvp(f)(A, u)
    np.testing.assert_allclose(product, wanted, atol=1e-6 * (1.0 + np.abs(wanted).max()))


@pytest.mark.parametrize("name", TABLE)
def test_compiled_at_other_inputs(name):
    f = whole(name)
    c = tg.compile(f, verify="never", native=False)
    for a in (A, A, B, np.r_[X, V, X[:8]]):
        value, gradient = c.value_and_grad(a)
        wanted, slopes = tg.value_and_grad(f)(a)
        np.testing.assert_allclose(value, wanted, rtol=1e-10)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", TABLE)
def test_plain_arguments_give_scipys_own(name):
    found, wanted = (TABLE[name](m, X, Y, Q) for m in (ours, theirs))
    assert type(found) is type(wanted)
    if name.startswith("barycentric"):  # whose factors are in random order
        np.testing.assert_allclose(found, wanted, rtol=1e-11)
    else:
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("name", TABLE)
def test_batches(name):
    f = lambda y, q: TABLE[name](ours, X, y, q)
    ys, qs = (np.stack([a * s for s in (0.9, 1.0, 1.1)]) for a in (Y, Q))
    np.testing.assert_allclose(
        tg.vmap(f)(ys, qs), [f(*one) for one in zip(ys, qs, strict=True)], rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("name", TABLE)
def test_float32(name):
    if name == "construct_fast":
        pytest.skip("SciPy takes float64 alone there")
    narrow, wide = (X.astype("f"), Y.astype("f"), Q.astype("f")), (X, Y.astype("f"), Q)
    for given in (narrow, wide):
        wanted = np.asarray(TABLE[name](theirs, *given))
        given = [tg.tensor(a, requires_grad=True) for a in given]
        found = np.asarray(tg.asarray(TABLE[name](ours, *given)).detach())
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


# --- ends, ties, missing values -------------------------------------------------------------------


@pytest.mark.parametrize("extrapolate", [True, False, "periodic", None])
def test_ends(extrapolate):
    at = np.array([*X, -0.1, 5.4, np.nan, 20.0])
    for kind in ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator"):
        plain = getattr(theirs, kind)(X, Y)
        f = lambda q, y: getattr(ours, kind)(X, y)(q, 0, extrapolate)
        wanted = plain(at, 0, extrapolate)
        loss = lambda q, y: np.nansum(f(q, y))
        value, (slopes, data) = tg.value_and_grad(loss, (0, 1))(at, Y)
        np.testing.assert_allclose(value, np.nansum(wanted), rtol=1e-12)
        known = ~np.isnan(wanted)
        np.testing.assert_allclose(slopes[known], plain(at, 1, extrapolate)[known], rtol=1e-9)
        assert not slopes[~known].any() and np.isfinite(data).all()
        c = tg.compile(loss, verify="never")
        for points in (X + 0.01, X + 0.01, at):
            c.grad(np.resize(points, at.shape), Y)
        np.testing.assert_allclose(c.grad(at, Y), slopes)
        outside = tg.tensor(at, requires_grad=True)
        np.testing.assert_array_equal(np.isnan(np.asarray(f(outside, Y).detach())), ~known)


def test_choices_of_shape_preserving_slopes():
    """Flat pieces, equal values, and changes of sign."""
    flat = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 3.0, 2.0, 2.0, 5.0])
    for kind in ("PchipInterpolator", "Akima1DInterpolator"):
        f = lambda y: np.sum(getattr(ours, kind)(X, y)(X[:-1] + 0.2) ** 2)
        c = tg.compile(f, verify="never")
        for y in (Y, Y, flat, 0.0 * Y, -flat):
            value, gradient = tg.value_and_grad(f)(y)
            np.testing.assert_allclose(
                value, np.sum(getattr(theirs, kind)(X, y)(X[:-1] + 0.2) ** 2)
            )
            assert np.isfinite(gradient).all()
            np.testing.assert_allclose(c.grad(y), gradient, atol=1e-12)


ODD = [
    *(1.3, 2, np.array(1.3), np.zeros(0), np.zeros((0, 3)), [1.0, 2.0]),
    *(np.array([[1.3, 2.0, np.nan], [0.0, 5.3, 9.0]]), np.asfortranarray([[1.3, 2.0], [0.0, 5.3]])),
    *(0.4 * np.arange(12.0)[::3], np.linspace(0.0, 5.0, 300)),
]
MADE = [
    lambda m, y, axis: m.CubicSpline(X, y, axis),
    lambda m, y, axis: m.PchipInterpolator(X, y, axis),
    lambda m, y, axis: m.Akima1DInterpolator(X, y, axis),
    lambda m, y, axis: m.make_interp_spline(X, y, axis=axis),
    lambda m, y, axis: m.interp1d(X, y, "cubic", axis, bounds_error=False),
    lambda m, y, axis: m.interp1d(X, y, "next", axis, bounds_error=False, fill_value=(0.0, 1.0)),
    lambda m, y, axis: m.KroghInterpolator(X, y, axis),
    lambda m, y, axis: m.BarycentricInterpolator(X, y, axis),
]


@pytest.mark.parametrize("make", MADE)
def test_shapes_of_points_and_values(make):
    rows = np.array([Y, Y**2, Y + 1.0])
    for y, axis in ((Y, 0), (rows[:, ::-1], 1), (np.stack([rows, -rows]), -1), (rows.T, 0)):
        plain, spline = make(theirs, y, axis), make(ours, y, axis)
        of_data = make(ours, tg.tensor(y, requires_grad=True), axis)
        for points in ODD:
            wanted = np.asarray(plain(points))
            at = tg.tensor(np.asarray(points, float), requires_grad=True)
            for found in (spline(at), of_data(points), of_data(at)):
                found = np.asarray(tg.asarray(found).detach())
                assert found.shape == wanted.shape
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("ends", ["one", "all"])
def test_knots_that_repeat(k, ends):
    """Also where an interval at the end, from which SciPy extrapolates, has no length."""
    is_old = np.lib.NumpyVersion(scipy.__version__) < "1.17.0"
    times = 1 if ends == "one" else k + 1
    t = np.r_[[0.0] * times, 1.0, [2.0] * max(k, 1), 3.5, 4.0, 5.0, 6.0, 7.0, [8.0] * times]
    c = np.cos(np.arange(2.0 * (len(t) - k - 1))).reshape(-1, 2)
    at = np.r_[t, -0.7, 0.4, 1.3, 1.9, 2.6, 7.7, 9.1, np.nan]
    for extrapolate in (True, False):
        plain = theirs.BSpline(t, c, k, extrapolate)
        data = [tg.tensor(x, requires_grad=True) for x in (t, c)]
        for nu in range(k + 2):
            if ends == "one" and nu == k and is_old:
                continue  # other numbers than 0 from an interval without length
            wanted = plain(at, nu)
            for one in ((t, data[1]), (data[0], c)):
                found = np.asarray(ours.BSpline(*one, k, extrapolate)(at, nu).detach())
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)


PLACES = np.stack(np.meshgrid(X, X[:6], indexing="ij"), -1)
CORNERS = np.array([[0.0, 0.0], [5.3, 3.2], [np.nan, 1.0], [-1.0, 1.0], [9.0, 9.0], [0.35, 1.5]])


@pytest.mark.parametrize("method", [*METHODS, "slinear_legacy", "quintic_legacy"])
def test_places_of_grids(method):
    """At the places themselves, beyond them, at missing and at no points."""
    values = np.random.default_rng(0).random((9, 6, 3))
    more = EXACT if method in ("slinear", "cubic", "quintic") else {}
    for v in (values, np.asfortranarray(values)[..., 1]):
        for at in (PLACES, CORNERS, CORNERS[5], np.zeros((0, 2))):
            for fill in (np.nan, None, -3.0):
                options = dict(method=method, bounds_error=False, fill_value=fill, **more)
                wanted = theirs.RegularGridInterpolator((X[::-1], X[:6]), v, **options)(at)
                for a, b in (
                    (v, tg.tensor(at, requires_grad=True)),
                    (tg.tensor(v, requires_grad=True), at),
                ):
                    found = ours.RegularGridInterpolator((X[::-1], X[:6]), a, **options)(b)
                    found = np.asarray(tg.asarray(found).detach())
                    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)


def test_radial_functions_at_the_points_themselves():
    f = lambda x: ours.RBFInterpolator(plane(X), Y, kernel="cubic")(x[None])[0]
    wanted = np.stack([differences(lambda x: tg.grad(f)(x)[k], plane(X)[3]) for k in (0, 1)])
    np.testing.assert_allclose(tg.hessian(f)(plane(X)[3]), wanted, rtol=1e-3, atol=1e-4)
    for kernel in ("linear", "thin_plate_spline", "quintic", "gaussian"):
        g = lambda y: np.sum(ours.RBFInterpolator(y, Y, kernel=kernel, epsilon=0.9)(plane(X)) ** 2)
        assert np.isfinite(tg.grad(g)(plane(X))).all()


def test_sizes_and_numbers():
    spline = ours.CubicSpline(X, Y)
    assert tg.grad(lambda t: spline(t))(1.3) == pytest.approx(spline(1.3, 1), rel=1e-12)
    assert tg.grad(lambda t: np.sum(spline(t)))(np.zeros(0)).shape == (0,)
    none = ours.CubicSpline(X, np.zeros((9, 0)))
    assert tg.grad(lambda t: np.sum(none(t)))(Q).shape == (8,)
    many = np.linspace(0.0, 5.0, 300)
    f = lambda y: np.sum(ours.CubicSpline(many, y)(Q[:4].reshape(2, 2).T) ** 2)
    np.testing.assert_allclose(
        tg.grad(f)(np.sin(many)) @ np.cos(many),
        differences(lambda s: f(np.sin(many) + s[0] * np.cos(many)), np.zeros(1))[0],
        rtol=1e-8,
    )
    narrow = tg.grad(lambda y: np.sum(ours.CubicSpline(X, y)(Q)))(Y.astype(np.float32))
    assert narrow.dtype == np.float32
    assert tg.tensor(Y.astype(np.float32)).dtype == np.float32
    wide = tg.grad(lambda y: np.sum(ours.CubicSpline(X, y)(Q)))(Y)
    np.testing.assert_allclose(narrow, wide, rtol=1e-5, atol=1e-5)
    rows = np.asfortranarray(np.random.default_rng(0).normal(size=(9, 4)))[:, ::2]
    f = lambda y: np.sum(ours.CubicSpline(X, y)(Q) ** 2)
    np.testing.assert_allclose(tg.grad(f)(rows), tg.grad(f)(rows.copy()), rtol=1e-12)


# --- objects --------------------------------------------------------------------------------------


SPLINE = theirs.CubicSpline(X, Y)
LINES, CURVE = theirs.interp1d(X, Y, kind="cubic"), theirs.splrep(X, Y)
SMOOTH, HEIGHT = theirs.UnivariateSpline(X, Y, s=0.3), surface(theirs)
FIELD, RADIAL = grid(theirs, X, Y, "cubic"), theirs.RBFInterpolator(plane(X), Y)
FACES, NEWTON = theirs.LinearNDInterpolator(plane(X), Y, 0.3), theirs.KroghInterpolator(X, Y)


class Model:
    def __init__(self, kind):
        self.spline = kind(X, Y)

    def __call__(self, t):
        return np.sum(self.spline(t) ** 2)


def outer():
    inner = theirs.PchipInterpolator(X, Y)
    return lambda t: np.sum(inner(t) * inner.derivative()(t))


#: Functions of points as users write them with SciPy's own names.
ENTERED = {
    "a global": lambda t: SPLINE(t).sum(),
    "its methods": lambda t: (
        np.sum(SPLINE.derivative()(t) * SPLINE(t, 2)) + SPLINE.integrate(0, t[0])
    ),
    "a closure": outer(),
    "made inside": lambda t: np.sum(theirs.Akima1DInterpolator(X, Y * t[0])(t[:4]) ** 2),
    "by module": lambda t: np.sum(scipy.interpolate.CubicSpline(X, Y, bc_type="natural")(t)),
    "made of plain data": lambda t: np.sum(theirs.make_interp_spline(X, Y)(t) ** 2),
    "others": lambda t: np.sum(LINES(t) * theirs.splev(t, CURVE) * SMOOTH(t, 1)),
    "derived": lambda t: SMOOTH.antiderivative()(t[0]) * SMOOTH.integral(0.1, t[1]),
    "of two variables": lambda t: np.sum(HEIGHT(t, t[::-1], grid=False)),
    "on a grid": lambda t: np.sum(FIELD(pair(t))) + theirs.interpn((X,), Y, t[:2]).sum(),
    "scattered": lambda t: np.sum(RADIAL(scaled(t)) * FACES(scaled(t + 0.01))),
    "polynomials": lambda t: NEWTON(t[0]) + theirs.BarycentricInterpolator(X, Y)(t[1]),
    "a number": lambda t: float(SPLINE(t[0])) * t[1],
    "in an attribute": (lambda model: lambda t: model(t))(Model(ours.CubicSpline)),
}


@pytest.mark.parametrize("name", ENTERED)
def test_entered(name, monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    f, q = ENTERED[name], np.clip(Q, 0.1, 5.2)
    for call in (tg.grad(f), *[tg.compile(f, verify="never").grad] * 2):
        for at in (q, q, q[::-1] * 0.9 + 0.1):
            np.testing.assert_allclose(call(at), differences(f, at), rtol=1e-7, atol=1e-8)
    assert type(SPLINE) is theirs.CubicSpline and type(SPLINE(0.5)) is np.ndarray


@pytest.mark.parametrize("module", [theirs, ours])
def test_objects_in_attributes(module, monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    model = Model(module.CubicSpline)
    wanted = tg.grad(model)(Q)
    np.testing.assert_allclose(wanted, differences(model, Q), rtol=1e-8, atol=1e-8)
    with pytest.warns(RuntimeWarning, match="reads self.spline, which holds a CubicSpline"):
        np.testing.assert_allclose(tg.compile(model).grad(Q), wanted)


def test_programs_notice_other_splines(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    for module in (theirs, ours):
        spline = module.CubicSpline(X, Y)
        f = lambda t: np.sum(spline(t) ** 2)
        c = tg.compile(f)
        check = lambda: np.testing.assert_allclose(c.grad(Q), tg.grad(f)(Q))
        for _ in range(3):
            check()
        spline = module.CubicSpline(X, Y[::-1])
        check()
        check()
        spline.c[2] *= 2.0
        check()
        check()
        spline.c = spline.c * 3.0
        check()
        spline.extrapolate = "periodic"
        check()
        np.testing.assert_allclose(c(Q), np.sum(spline(Q) ** 2))


def arrays_in(one, depth=0) -> list:
    """The arrays that an object of SciPy's computes with."""
    kinds = [raw for kind in type(one).__mro__ for raw in vars(kind).items()]
    slots = [name for name, raw in kinds if type(raw).__name__ == "member_descriptor"]
    held = [*getattr(one, "__dict__", {}).values(), *(getattr(one, name, None) for name in slots)]
    held = [x for item in held for x in (item if isinstance(item, tuple) else (item,))]
    found = [x for x in held if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.size]
    inner = [x for x in held if type(x).__module__.startswith("scipy.interpolate") and depth < 3]
    return found + [x for item in inner for x in arrays_in(item, depth + 1)]


#: What makes an object of SciPy's module, and text that computes with it at points.
OBJECTS = {
    "interp1d": (lambda m: m.interp1d(X, Y), "s(t)"),
    "interp1d, cubic": (lambda m: m.interp1d(X, Y, "cubic"), "s(t)"),
    "BSpline": (lambda m: m.make_interp_spline(X, Y), "s(t)"),
    "BPoly": (lambda m: m.BPoly.from_power_basis(m.CubicSpline(X, Y)), "s(t)"),
    "UnivariateSpline": (lambda m: m.UnivariateSpline(X, Y, s=0.2), "s(t)"),
    "Rect": (lambda m: m.RectBivariateSpline(X, X, Y[:, None] * Y), "s.ev(t, 0.9 * t)"),
    "grid": (lambda m: grid(m, X, Y), "s((t, 0.9 * t))"),
    "grid, cubic": (lambda m: grid(m, X, Y, "cubic"), "s((t, 0.9 * t))"),
    "RBF": (lambda m: m.RBFInterpolator(plane(X), Y), "s(np.stack([t, t], -1))"),
    "LinearND": (lambda m: m.LinearNDInterpolator(plane(X), Y, 0.2), "s(t, t)"),
    "Krogh": (lambda m: m.KroghInterpolator(X, Y), "s(t)"),
    "barycentric": (lambda m: m.BarycentricInterpolator(X, Y), "s(t)"),
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("module", [theirs, ours], ids=["theirs", "ours"])
def test_programs_notice_writes_to_each_array(name, module, monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    make, text = OBJECTS[name]
    spline, at = make(module), np.array([0.3, 1.2, 2.9, 3.5])
    f = eval(f"lambda t: np.sum({text} ** 2)", {"s": spline, "np": np})
    c = tg.compile(f)
    for array in arrays_in(spline):
        is_ignored = name == "LinearND" and array is spline.points  # by SciPy, too
        if array.flags.writeable and not is_ignored:
            for _ in range(2):
                c.value_and_grad(at)
            before = array.copy()
            array *= 1.01
            value, gradient = c.value_and_grad(at)
            np.testing.assert_allclose(value, f(at), rtol=1e-9)
            np.testing.assert_allclose(gradient, tg.grad(f)(at), rtol=1e-9)
            array[...] = before


def test_objects_are_scipys():
    made = ours.CubicSpline(X, Y)
    assert isinstance(made, theirs.CubicSpline) and isinstance(made, ours.PPoly)
    assert isinstance(SPLINE, ours.CubicSpline) and not isinstance(SPLINE, ours.PchipInterpolator)
    assert issubclass(theirs.CubicSpline, ours.PPoly)
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is ours.CubicSpline and again(0.4) == SPLINE(0.4)
    assert type(made.derivative()) is ours.CubicSpline
    np.testing.assert_array_equal(made.solve(0.2), SPLINE.solve(0.2))
    assert tg.grad(lambda t: made.antiderivative()(t))(1.0) == pytest.approx(SPLINE(1.0))


def test_objects_of_recorded_data_outlive_a_transform():
    kept = []
    f = lambda y: (kept.append(ours.CubicSpline(X, y)), np.sum(kept[-1](Q)))[1]
    tg.grad(f)(Y)
    np.testing.assert_allclose(np.asarray(kept[0](Q)), SPLINE(Q), rtol=1e-12)
    np.testing.assert_allclose(kept[0].solve(0.2), SPLINE.solve(0.2), rtol=1e-9)


# --- refusals -------------------------------------------------------------------------------------


def test_refusals():
    z = Y[:, None] * 1j
    for call, text in (
        (lambda y: ours.CubicSpline(X, y).solve(0.1)[0], r"CubicSpline.solve: it has no deriv"),
        (lambda y: ours.PPoly(y[None, 1:], X).roots()[0], r"PPoly.roots: it has no derivative"),
        (lambda y: ours.CubicSpline(X, y + z[:, 0])(0.5).real, "y is complex; interpolate real"),
        (lambda y: bernstein(ours, X[[0, 0, *range(2, 9)]], y)(0.5), "two equal breakpoints"),
        (
            lambda y: powers(ours, X[::-1], y, extrapolate="periodic").integrate(1.0, 9.0),
            "with decreasing x and extrapolate='periodic'",
        ),
        (lambda y: ours.BPoly.from_derivatives(X, y[:, None])(0.5), "from_derivatives: it has no"),
        (lambda y: ours.UnivariateSpline(X, y)(0.5), "s > 0 FITPACK chooses knots by iterations"),
        (lambda y: ours.splev(0.5, ours.splrep(X, y, s=0.1)), "splrep: with s > 0 FITPACK"),
        (lambda y: ours.splprep([X, y])[1][1], "splprep: with s > 0 FITPACK"),
        (lambda y: ours.make_splrep(X, y, s=0.1)(0.5), "make_splrep: with s > 0 FITPACK"),
        (lambda y: ours.sproot((KNOTS, y[:6], 3))[0], "sproot"),
        (lambda y: ours.make_smoothing_spline(X, y)(0.5), "lam is found by iterations; give lam"),
        (lambda y: ours.make_interp_spline(X, y, bc_type="periodic")(0.5), "CubicSpline"),
        (lambda y: ours.BSpline.design_matrix(y, KNOTS, 3).sum(), "its sparse matrix has no deriv"),
        (
            lambda y: ours.SmoothBivariateSpline(X, Y, y, kx=1, ky=1)(1, 1),
            "RectBivariateSpline has",
        ),
        (
            lambda y: ours.UnivariateSpline(X, y, s=0).roots()[0],
            "UnivariateSpline.roots: it has no",
        ),
        (lambda y: ours.RectBivariateSpline(X, X, y[:, None] * y).integral(0, 1, 0, 1), "integral"),
        (lambda y: ours.RBFInterpolator(plane(X), y, neighbors=4)(Q[:2, None])[0], "neighbors has"),
        (lambda y: ours.CloughTocher2DInterpolator(plane(X), y)(0.5, 0.5), "by iterations"),
        (lambda y: ours.CloughTocher2DInterpolator(plane(X), Y)(y, y)[0], "by iterations"),
        (lambda y: ours.griddata(plane(X), y, (0.5, 0.5), "cubic"), "'linear' has a derivative"),
        (lambda y: ours.NdPPoly(np.ones((2, 1)), [[0.0, 1.0]])(y[:, None])[0], "NdPPoly"),
        (lambda y: ours.Rbf(X, y)(0.5), "Rbf"),
    ):
        with pytest.raises(tg.DerivativeLost, match=text):
            tg.grad(call)(Y)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m, y: m.CubicSpline(X[::-1], y), "`x` must be strictly increasing"),
        (lambda m, y: m.CubicSpline(X[:4], y), "The length of `y` along `axis`=0"),
        (lambda m, y: m.CubicSpline(X[:, None], y), "`x` must be 1-dimensional"),
        (lambda m, y: m.CubicSpline(X[:1], y[:1]), "`x` must contain at least 2 elements"),
        (lambda m, y: m.CubicHermiteSpline(X, y, Y[:4]), "shapes of `y` and `dydx`"),
        (lambda m, y: m.CubicSpline(X, y, bc_type="periodic"), "must be identical"),
        (lambda m, y: m.CubicSpline(X, y, bc_type=("periodic", "natural")), "'periodic' `bc_type`"),
        (lambda m, y: m.CubicSpline(X, y, bc_type="other"), "bc_type=other is not allowed"),
        (lambda m, y: m.CubicSpline(X, y, bc_type=((3, 0.0), (1, 0.0))), "must be 1 or 2"),
        (lambda m, y: m.CubicSpline(X, y / 0.0), "`y` must contain only finite values"),
        (lambda m, y: m.PPoly(y[None], X), "number of coefficients != len"),
        (lambda m, y: m.PPoly(y, X), "at least 2-dim"),
        (lambda m, y: m.Akima1DInterpolator(X, y, method="other"), "unsupported"),
        (lambda m, y: m.make_interp_spline(X[::-1], y), "strictly increasing sequence"),
        (lambda m, y: m.make_interp_spline(X, y, t=KNOTS), "Got 10 knots, need at least 13"),
        (lambda m, y: m.BSpline(KNOTS[::-1], y, 3), "Knots must be in a non-decreasing order"),
        (lambda m, y: m.BSpline(KNOTS, y[:4], 3), "are inconsistent"),
        (lambda m, y: m.interp1d(X, y)(6.0), "above the interpolation range"),
        (lambda m, y: m.interp1d(X, y, kind="other"), "is unsupported"),
        (lambda m, y: m.splev(6.0, m.splrep(X, y), ext=2), "Found x value not in the domain"),
        (lambda m, y: m.InterpolatedUnivariateSpline(X[::-1], y), "must be"),
        (lambda m, y: m.BSpline(KNOTS, y, 3).derivative(4), "Order of derivative"),
        (lambda m, y: grid(m, X, y)([9.0, 1.0]), "out of bounds in dimension 0"),
        (lambda m, y: grid(m, X[[0, 2, 1, *range(3, 9)]], y), "strictly ascending or descending"),
        (lambda m, y: grid(m, X[:4], y), "There are"),
        (lambda m, y: m.KroghInterpolator(X[[0, 1, 0]], y[:3]), "can't be equal"),
        (lambda m, y: m.BarycentricInterpolator(X[[0, 1, 0]], y[:3]), "must be distinct"),
        (lambda m, y: m.RBFInterpolator(plane(X), y, kernel="gaussian"), "must be specified"),
        (lambda m, y: m.LinearNDInterpolator(plane(X), y[:3]), "different number of values"),
    ],
)
def test_errors_are_scipys(call, text):
    with np.errstate(all="ignore"):
        for m, y in ((theirs, Y), (ours, tg.tensor(Y, requires_grad=True))):
            with pytest.raises((ValueError, NotImplementedError), match=text):
                call(m, y)
