"""SciPy's splines of FITPACK for recorded values: `splrep`, `splev` and others, `UnivariateSpline`.

Splines through all points are those that `make_interp_spline` gives, with derivatives to the data.
Where FITPACK chooses knots for a smoothness it iterates, and there is no derivative to them.
"""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.values import shape_of
from . import _interpolators as shared
from ._basis_splines import derived, padded, spline_at, summed
from ._interpolators import entered, flat, floats, holds, refused, theirs
from ._splines_of_data import least_squares, solved

_MODES = {0: 0, "extrapolate": 0, 1: 1, "zeros": 1, 2: 2, "raise": 2, 3: 3, "const": 3}
SMOOTH = "with s > 0 FITPACK chooses knots by iterations; give s=0, or knots to make_lsq_spline"


def _parts(name: str, tck):
    t, c, k = tck.tck if isinstance(tck, theirs.BSpline) else tck
    return floats(name, "t", t), c, int(k)


def _is_parametric(c) -> bool:
    return isinstance(c, (list, tuple)) or len(shape_of(c)) > 1


def _at(name: str, tck, x, nu: int, ext):
    """A spline at points, as FITPACK treats those outside of its knots."""
    t, c, k = _parts(name, tck)
    c, x = floats(name, "c", c), floats(name, "x", x)
    points, n = flat(x), shape_of(t)[0] - k - 1
    first, last = t[k], t[n]
    if ext == 2 and not holds(f"the points of {name}", _are_within, points, first, last):
        raise ValueError("Found x value not in the domain")
    inside = PUBLIC["clip"](points, first, last) if ext == 3 else points
    out = spline_at(t, c[:, None], k, inside, nu, True)[:, 0]
    if ext == 1:
        out = PUBLIC["where"]((points < first) | (points > last), 0.0, out)
    return PUBLIC["reshape"](out, shape_of(x))


def _are_within(points, first, last) -> bool:
    return not ((points < first) | (points > last)).any()


@entered
def splev(x, tck, der=0, ext=0):
    if isinstance(tck, theirs.BSpline):
        if len(shape_of(tck.c)) > 1:
            raise ValueError(
                "Calling splev() with BSpline objects with c.ndim > 1 is not allowed. Use "
                "BSpline.__call__(x) instead."
            )
        if ext != 0:
            raise ValueError(f"Extrapolation mode {ext} is not supported by BSpline.")
        return shared.view_of(tck)(x, der, True)
    t, c, k = tck
    if _is_parametric(c):
        return [splev(x, (t, one, k), der, ext) for one in c]
    if not 0 <= der <= k:
        raise ValueError(f"0<=der={der}<=k={k} must hold")
    if ext not in (0, 1, 2, 3):
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3) ")
    return (
        PUBLIC["atleast_1d"](_at("splev", tck, x, der, ext))
        if shape_of(x)
        else _at("splev", tck, x, der, ext)
    )


@entered
def splint(a, b, tck, full_output=0):
    if isinstance(tck, theirs.BSpline):
        return shared.view_of(tck).integrate(a, b, extrapolate=False)
    t, c, k = tck
    if _is_parametric(c):
        return [splint(a, b, (t, one, k)) for one in c]
    if full_output:
        raise refused("splint", "full_output has no derivative; leave it out", a, b, t, c)
    return _integral("splint", tck, a, b)


def _integral(name: str, tck, a, b):
    """The integral of a spline that is 0 outside of its knots."""
    t, c, k = _parts(name, tck)
    whole, n = summed(t, padded(t, floats(name, "c", c)), k, 1), shape_of(t)[0] - k - 1
    ends = [PUBLIC["clip"](floats(name, "a", x), t[k], t[n]) for x in (a, b)]
    points = PUBLIC["stack"](ends)
    found = spline_at(whole[0], whole[1][:, None], whole[2], points, 0, True)[:, 0]
    return found[1] - found[0]


@entered
def spalde(x, tck):
    if isinstance(tck, theirs.BSpline):
        raise TypeError("spalde does not accept BSpline instances.")
    t, c, k = tck
    if _is_parametric(c):
        return [spalde(x, (t, one, k)) for one in c]
    x = floats("spalde", "x", x)
    t = floats("spalde", "t", t)
    n = shape_of(t)[0] - int(k) - 1
    if not holds("the points of spalde", _are_within, x, t[int(k)], t[n]):
        raise TypeError("Invalid input data. t(k)<=x<=t(n-k+1) must hold.")
    every = [_at("spalde", tck, flat(x), nu, 0) for nu in range(int(k) + 1)]
    found = PUBLIC["stack"](every, axis=1)
    count = shape_of(found)[0]
    return found[0] if count == 1 else [found[j] for j in range(count)]


def _of_knots(name: str, how, other, tck, n: int):
    if isinstance(tck, theirs.BSpline):
        return shared.view_of(tck).derivative(n if how is derived else -n)
    t, c, k = _parts(name, tck)
    how, n = (how, n) if n >= 0 else (other, -n)
    return how(t, floats(name, "c", c), k, n)


@shared.making
def splder(tck, n=1):
    return _of_knots("splder", derived, summed, tck, n)


@shared.making
def splantider(tck, n=1):
    return _of_knots("splantider", summed, derived, tck, n)


# --- of data --------------------------------------------------------------------------------------


def _through(name: str, x, y, k: int, ends, inner=None, w=None):
    """Knots and coefficients, with zeros at the end, of the spline of data.

    It goes through all points, or, with inner knots, is the one of least squares.
    """
    x, y = floats(name, "x", x), floats(name, "y", y)
    if not 1 <= k <= 5:
        raise ValueError("k should be 1 <= k <= 5")
    if len(shape_of(x)) != 1 or shape_of(x) != shape_of(y):
        raise ValueError("x and y should have a same length")
    m = shape_of(x)[0]
    if m <= k:
        raise TypeError("m > k must hold")
    test = shared.increases if inner is None else shared.is_sorted
    if not holds(f"x of {name}", test, x):
        raise ValueError("x must be increasing")
    first, last = (
        x[at : at + 1] if one is None else np.reshape(floats(name, "bbox", one), (1,))
        for one, at in zip(ends, (0, m - 1), strict=True)
    )
    if inner is None:
        half = (k + 1) // 2 if k % 2 else k // 2
        inner = x[half : m - half] if k % 2 else (0.5 * (x[1:] + x[:-1]))[half : m - 1 - half]
        t = np.concatenate([*[first] * (k + 1), inner, *[last] * (k + 1)])
        c = solved(t, k, x, ([], []), y[:, None])
    else:
        inner = floats(name, "t", inner)
        t = np.concatenate([*[first] * (k + 1), inner, *[last] * (k + 1)])
        if not holds(f"t of {name}", _rise, t[k : shape_of(t)[0] - k]):
            raise ValueError("Interior knots t must satisfy Schoenberg-Whitney conditions")
        c = least_squares(t, k, x, y[:, None], None if w is None else floats(name, "w", w))
    return t, padded(t, c[:, 0]), k


_rise = shared.increases


@entered
def splrep(
    x, y, w=None, xb=None, xe=None, k=3, task=0, s=None, t=None, full_output=0, per=0, quiet=1
):
    if s is None:
        s = 0.0 if w is None else 1.0
    if full_output or per or task > 0:
        raise refused(
            "splrep", "full_output, per and task=1 have no derivative; leave them out", x, y
        )
    if t is None and not (none_traced((s,)) and s == 0):
        raise refused("splrep", SMOOTH, x, y, w)
    return _through("splrep", x, y, k, (xb, xe), t, w)


@shared.stands_for(theirs.UnivariateSpline)
class UnivariateSpline(shared.Interpolator, theirs.UnivariateSpline):
    def __init__(self, x, y, w=None, bbox=(None, None), k=3, s=None, ext=0, check_finite=False):
        if none_traced((x, y, w, bbox, s)):
            theirs.UnivariateSpline.__init__(self, x, y, w, [*bbox], k, s, ext, check_finite)
            return
        if s is None or not none_traced((s,)) or s != 0:
            raise refused("UnivariateSpline", SMOOTH, x, y, w)
        self._hold(_through("UnivariateSpline", x, y, k, bbox), ext)

    def _hold(self, tck, ext) -> None:
        if ext not in _MODES:
            raise ValueError(f"Unknown extrapolation mode {ext}.")
        self._held = dict(_eval_args=tck, ext=_MODES[ext])

    def _of_plain(self, _eval_args, ext):
        tck = tuple(map(shared.plain, _eval_args))
        return theirs.UnivariateSpline._from_tck(tck, ext)

    def _held_data(self) -> tuple:
        return () if self._held is None else self._held["_eval_args"][:2]

    def __call__(self, x, nu=0, ext=None):
        if self._is_plain(x):
            return self._plainly("__call__", x, nu, ext)
        ext = self.ext if ext is None else ext
        if ext not in _MODES:
            raise ValueError(f"Unknown extrapolation mode {ext}.")
        if 0 in shape_of(x):
            x = flat(floats("UnivariateSpline", "x", x))
        return _at("UnivariateSpline", self._eval_args, x, nu, _MODES[ext])

    def integral(self, a, b):
        if self._is_plain(a, b):
            return self._plainly("integral", a, b)
        return _integral("UnivariateSpline.integral", self._eval_args, a, b)

    def derivatives(self, x):
        if self._is_plain(x):
            return self._plainly("derivatives", x)
        return spalde(x, self._eval_args)

    def derivative(self, n=1):
        if self._is_plain():
            return shared.view_of(self._plainly("derivative", n))
        return self._made(derived, n, 1 if self.ext == 3 else self.ext)

    def antiderivative(self, n=1):
        if self._is_plain():
            return shared.view_of(self._plainly("antiderivative", n))
        return self._made(summed, n, self.ext)

    def _made(self, how, n: int, ext):
        made = object.__new__(UnivariateSpline)
        made._hold(how(*self._eval_args, n), ext)
        return made

    def get_knots(self):
        if self._is_plain():
            return self._plainly("get_knots")
        t, _, k = self._eval_args
        return t[k : shape_of(t)[0] - k]

    def get_coeffs(self):
        if self._is_plain():
            return self._plainly("get_coeffs")
        t, c, k = self._eval_args
        return c[: shape_of(t)[0] - k - 1]


@shared.stands_for(theirs.InterpolatedUnivariateSpline)
class InterpolatedUnivariateSpline(UnivariateSpline, theirs.InterpolatedUnivariateSpline):
    def __init__(self, x, y, w=None, bbox=(None, None), k=3, ext=0, check_finite=False):
        if none_traced((x, y, w, bbox)):
            own = theirs.InterpolatedUnivariateSpline
            own.__init__(self, x, y, w, [*bbox], k, ext, check_finite)
        else:
            self._hold(_through("InterpolatedUnivariateSpline", x, y, k, bbox), ext)


@shared.stands_for(theirs.LSQUnivariateSpline)
class LSQUnivariateSpline(UnivariateSpline, theirs.LSQUnivariateSpline):
    def __init__(self, x, y, t, w=None, bbox=(None, None), k=3, ext=0, check_finite=False):
        if none_traced((x, y, t, w, bbox)):
            own = theirs.LSQUnivariateSpline
            own.__init__(self, x, y, t, w, [*bbox], k, ext, check_finite)
        else:
            self._hold(_through("LSQUnivariateSpline", x, y, k, bbox, t, w), ext)


_REFUSING = "roots get_residual set_smoothing_factor"
for _name, _method in shared.not_derived(theirs.UnivariateSpline, *_REFUSING.split()).items():
    setattr(UnivariateSpline, _name, _method)
for _name in ("_eval_args", "ext"):
    setattr(UnivariateSpline, _name, shared.field(theirs.UnivariateSpline, _name))
