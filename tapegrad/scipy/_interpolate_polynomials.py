"""SciPy's `interpolate` for recorded values: what its classes share, and piecewise polynomials.

Also the cubic interpolators, which are such polynomials.
"""

from __future__ import annotations

import functools
import importlib
import math
import types
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.interpolation import piecewise_polynomial
from .._core.operations.sylvester import solve_banded
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import fixed, lost_derivative, steered
from .._core.tensor.values import dtype_of, is_complex, is_tensor, shape_of
from ._differentiable import OURS, in_package

# --- what the classes share -----------------------------------------------------------------------
# SciPy's `interpolate` for recorded values: classes derived from SciPy's, and what they share.
#
# An object of such a class is SciPy's own as long as nothing is recorded: made of plain data, it is
# computed by SciPy's methods at plain points. Recorded data, and what is computed from them, are in
# `_held`, under the names of SciPy's attributes. A view stands for an object that SciPy's class
# made, where entered code uses its name: it has no data of its own.

PLACE = "tapegrad.scipy.interpolate"
theirs: Any = importlib.import_module("scipy.interpolate")
#: By SciPy's class, ours.
CLASSES: dict[type, type] = {}


def refused(name: str, why: str, *operands):
    """The error of a method or a function that has no derivative."""
    return lost_derivative(f"{PLACE}.{name}: {why}", operands)


entered = in_package("interpolate")


def making(function):
    """The same for one that makes objects of SciPy's classes: ours, of plain arguments too."""
    own = getattr(theirs, function.__name__)

    @functools.wraps(function)
    def made(*args, **kwargs):
        if none_traced(args) and none_traced(kwargs.values()):
            found = own(*args, **kwargs)
            return tuple(map(view_of, found)) if type(found) is tuple else view_of(found)
        return function(*args, **kwargs)

    made.makes_objects = True
    return entered(made)


# --- operands -------------------------------------------------------------------------------------


def floats(name: str, what: str, x):
    """An operand as a tensor or an array of float64, as SciPy takes it."""
    x = unlisted(x)
    if is_complex(x) or dtype_of(x).kind == "c":
        raise refused(
            name, f"{what} is complex; interpolate real and imaginary parts, z.real and z.imag", x
        )
    if not is_tensor(x):
        return np.asarray(x, np.float64)
    return x if dtype_of(x) == np.float64 else x.astype(np.float64)


def kind_of_floats(*operands) -> np.dtype:
    """The dtype of floats that NumPy gives for operands."""
    return np.result_type(np.float32, *[dtype_of(unlisted(x)) for x in operands])


def in_kind(x, dtype):
    """A result in a dtype, where SciPy computes in that of the operands."""
    return x if dtype_of(x) == dtype else x.astype(dtype)


def holds(what: str, test, *operands) -> bool:
    """Whether a condition holds for operands, which programs check too."""
    return bool(fixed(steered(test, *operands), f"the check of {what}"))


def all_finite(*operands) -> bool:
    return all([bool(np.isfinite(x).all()) for x in operands])


def increases(x) -> bool:
    return bool((x[1:] > x[:-1]).all())


def is_sorted(x) -> bool:
    return bool((x[1:] >= x[:-1]).all())


def is_monotone(x) -> bool:
    steps = np.diff(x)
    return bool((steps >= 0).all() or (steps <= 0).all())


def flat(x):
    return PUBLIC["reshape"](x, (-1,))


def columns(x):
    """An array with its first axis, and one for all others."""
    shape = shape_of(x)
    return PUBLIC["reshape"](x, (shape[0], int(np.prod(shape[1:]))))


def beside(x, other):
    """A vector with as many axes as another array has."""
    return x[(slice(None), *(None,) * (len(shape_of(other)) - 1))]


def with_points(out, points_shape: tuple, extra: tuple, axis: int):
    """Values of shape (points, others) with the shapes of both, the points' axes in place."""
    out = PUBLIC["reshape"](out, (*points_shape, *extra))
    n = len(points_shape)
    if axis == 0 or n == 0:
        return out
    order = [*range(n, n + axis), *range(n), *range(n + axis, n + len(extra))]
    return PUBLIC["transpose"](out, order)


def over_periods(whole, first, last, a, b):
    """The integral from a to b of what repeats, of which `whole` is the integral in one period."""
    period = last - first

    def until(at):
        turns = PUBLIC["floor"]((at - first) / period)
        inside = first + PUBLIC["remainder"](at - first, period)
        return whole(inside) + turns * (whole(last) - whole(first))

    return until(b) - until(a)


# --- classes --------------------------------------------------------------------------------------


class StandIn(type):
    """The class of classes that stand for SciPy's: instances of SciPy's count as theirs."""

    def __instancecheck__(cls, x):
        return isinstance(x, vars(cls).get("_own", ())) or super().__instancecheck__(x)

    def __subclasscheck__(cls, kind):
        return issubclass(kind, vars(cls).get("_own", ())) or super().__subclasscheck__(kind)


class Interpolator(metaclass=StandIn):
    """What classes that stand for SciPy's have in common."""

    _own: type
    _held: dict[str, Any] | None = None
    _original: Any = None

    def __getattr__(self, name: str):
        held = self.__dict__.get("_held")
        if held is not None and name in held:
            return held[name]
        original = self.__dict__.get("_original")
        if original is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(original, name)

    def __reduce_ex__(self, protocol):
        if self._original is not None:
            return view_of, (self._original,)
        return super().__reduce_ex__(protocol)

    def _is_plain(self, *operands) -> bool:
        """Whether neither operands nor data are recorded."""
        return none_traced(operands) and none_traced(self._held_data())

    def _held_data(self) -> tuple:
        """The data on which derivatives depend."""
        return () if self._held is None else tuple(self._held.values())

    def _plainly(self, method: str, *args, **kwargs):
        """What SciPy's method gives; objects of its classes as views."""
        if self._held is not None:  # of data that are not recorded any longer
            held = {name: plain(x) for name, x in self._held.items()}
            self._original, self._held = self._of_plain(**held), None
        if self._original is not None:
            return view_of(getattr(self._original, method)(*args, **kwargs))
        return getattr(self._own, method)(self, *args, **kwargs)

    def _of_plain(self, **held):
        """SciPy's object for plain data in the place of those that are held."""
        return self._own.construct_fast(**held)

    def _refuse(self, method: str, *operands):
        name = f"{self._own.__name__}.{method}"
        return refused(name, "it has no derivative here", *operands, *self._held_data())


def plain(x):
    """The values of a tensor as an array."""
    return np.asarray(x.detach()) if is_tensor(x) else x


def field(own: type, name: str) -> property:
    """An attribute of SciPy's objects, or what is held in its place."""
    original = getattr(own, name, None)

    def get(self):
        if self._held is not None:
            return self._held[name]
        if self._original is not None:
            return getattr(self._original, name)
        return self.__dict__[name] if original is None else original.__get__(self, type(self))

    def put(self, value):
        if self._held is not None:
            self._held[name] = value
        elif self._original is not None:
            setattr(self._original, name, value)
        elif original is None:
            self.__dict__[name] = value
        else:
            original.__set__(self, value)

    return property(get, put)


def stands_for(own: type):
    """A decorator: a class stands for one of SciPy's, from which it is derived."""

    def enter(kind):
        kind._own, kind.__wrapped__, kind.__module__ = own, own, PLACE
        kind.__name__ = kind.__qualname__ = own.__name__
        kind.__doc__ = own.__doc__
        CLASSES[own] = kind
        if hasattr(theirs, own.__name__):
            OURS[f"interpolate.{own.__name__}"] = kind
        return kind

    return enter


def view_of(x):
    """The view of an object that SciPy's class made; anything else as it is."""
    kind = CLASSES.get(type(x))
    if kind is None:
        return x
    made = object.__new__(kind)
    made.__dict__["_original"] = x
    return made


@functools.cache
def _import_all() -> None:
    importlib.import_module(f"{__package__}._forwarding").find_ours("interpolate.")


def of_instance(x):
    """What stands for an object of SciPy's; None for one that is used itself."""
    _import_all()
    made = view_of(x)
    return None if made is x else made


def not_derived(own: type, *methods: str) -> dict[str, types.FunctionType]:
    """Methods of SciPy's that refuse recorded values by name."""

    def of(method: str):
        @functools.wraps(getattr(own, method))
        def refusing(self, *args, **kwargs):
            if self._is_plain(*args, *kwargs.values()):
                return self._plainly(method, *args, **kwargs)
            raise self._refuse(method, *args, *kwargs.values())

        return refusing

    return {method: of(method) for method in methods}


# --- piecewise ------------------------------------------------------------------------------------
# SciPy's `PPoly` and `BPoly` for recorded values.


def evaluated(c, x, points, nu: int, extrapolate):
    """Piecewise polynomials with coefficients (order, intervals, others) at a vector of points."""
    if extrapolate == "periodic":
        points = x[0] + PUBLIC["remainder"](points - x[0], x[-1] - x[0])
        extrapolate = False
    return piecewise_polynomial(c, x, points, nu=nu, extrapolate=int(bool(extrapolate)))


class Pieces(Interpolator):
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
        if not holds(f"x of {name}", is_monotone, x):
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
        out = evaluated(wide, self.x, flat(points), nu, extrapolate)
        return with_points(out, shape, extra, self.axis)

    def integrate(self, a, b, extrapolate=None):
        if self._is_plain(a, b):
            return self._plainly("integrate", a, b, extrapolate)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        name, whole = f"{self._own.__name__}.integrate", self.antiderivative()
        a, b = floats(name, "a", a), floats(name, "b", b)
        if extrapolate != "periodic":
            return whole(b, extrapolate=extrapolate) - whole(a, extrapolate=extrapolate)
        if not holds(f"x of {name}", is_sorted, self.x):
            why = "with decreasing x and extrapolate='periodic' it has no derivative; reverse x"
            raise refused(name, why, a, b, self.c, self.x)
        inside = lambda at: whole(at, extrapolate=True)
        return over_periods(inside, self.x[0], self.x[-1], a, b)

    def derivative(self, nu=1):
        if self._is_plain():
            return view_of(self._plainly("derivative", nu))
        return self.antiderivative(-nu) if nu < 0 else self._derived(nu)

    def antiderivative(self, nu=1):
        if self._is_plain():
            return view_of(self._plainly("antiderivative", nu))
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


@stands_for(theirs.PPoly)
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


@stands_for(theirs.BPoly)
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
    for _name, _method in not_derived(_kind._own, *_names.split()).items():
        setattr(_kind, _name, _method)
for _kind in (PPoly, BPoly):
    for _name in ("c", "x", "extrapolate", "axis"):
        setattr(_kind, _name, field(_kind._own, _name))


# --- cubic interpolators --------------------------------------------------------------------------
# SciPy's cubic interpolators for recorded values: splines, PCHIP, Akima, Hermite.


# --- cubic Hermite splines ------------------------------------------------------------------------


def _prepared(name: str, x, y, axis, dydx=None):
    """Positions, values and slopes as SciPy takes them, the axis of interpolation first."""
    x, y = floats(name, "x", x), floats(name, "y", y)
    if dydx is not None:
        dydx = floats(name, "dydx", dydx)
        if shape_of(y) != shape_of(dydx):
            raise ValueError("The shapes of `y` and `dydx` must be identical.")
    axis = axis % len(shape_of(y))
    if len(shape_of(x)) != 1:
        raise ValueError("`x` must be 1-dimensional.")
    if shape_of(x)[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if shape_of(x)[0] != shape_of(y)[axis]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    for what, part in (("x", x), ("y", y), ("dydx", dydx)):
        if part is not None and not holds(f"{what} of {name}", all_finite, part):
            raise ValueError(f"`{what}` must contain only finite values.")
    if not holds(f"x of {name}", increases, x):
        raise ValueError("`x` must be strictly increasing sequence.")
    if axis:
        y = PUBLIC["moveaxis"](y, axis, 0)
        dydx = None if dydx is None else PUBLIC["moveaxis"](dydx, axis, 0)
    return x, y, axis, dydx


def _hermite(x, y, slopes):
    """The coefficients of the cubic polynomials that have values and slopes at breakpoints."""
    steps = beside(PUBLIC["diff"](x), y)
    lines = PUBLIC["diff"](y, axis=0) / steps
    t = (slopes[:-1] + slopes[1:] - 2.0 * lines) / steps
    return PUBLIC["stack"]([t / steps, (lines - slopes[:-1]) / steps - t, slopes[:-1], y[:-1]])


@stands_for(theirs.CubicHermiteSpline)
class CubicHermiteSpline(PPoly, theirs.CubicHermiteSpline):
    def __init__(self, x, y, dydx, axis=0, extrapolate=None):
        if none_traced((x, y, dydx)):
            theirs.CubicHermiteSpline.__init__(self, x, y, dydx, axis, extrapolate)
            return
        x, y, axis, dydx = _prepared("CubicHermiteSpline", x, y, axis, dydx)
        extrapolate = True if extrapolate is None else extrapolate
        self._hold(_hermite(x, y, dydx), x, extrapolate, axis)


# --- PCHIP ----------------------------------------------------------------------------------------


def _at_end(h0, h1, m0, m1):
    """The slope at an end, by three points, without overshoot."""
    where, sign = PUBLIC["where"], PUBLIC["sign"]
    d = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    turns = sign(d) != sign(m0)
    steep = (sign(m0) != sign(m1)) & (PUBLIC["absolute"](d) > 3.0 * PUBLIC["absolute"](m0))
    return where(turns, 0.0, where(steep, 3.0 * m0, d))


def _pchip_slopes(x, y):
    """The harmonic means of the lines beside each breakpoint, 0 where they change their sign."""
    steps = beside(PUBLIC["diff"](x), y)
    lines = PUBLIC["diff"](y, axis=0) / steps
    if shape_of(x)[0] == 2:
        return PUBLIC["concatenate"]([lines, lines])
    before, after = lines[:-1], lines[1:]
    turns = (PUBLIC["sign"](before) != PUBLIC["sign"](after)) | (after == 0.0) | (before == 0.0)
    w1, w2 = 2.0 * steps[1:] + steps[:-1], steps[1:] + 2.0 * steps[:-1]
    before, after = (PUBLIC["where"](turns, 1.0, one) for one in (before, after))
    inner = PUBLIC["where"](turns, 0.0, 1.0 / ((w1 / before + w2 / after) / (w1 + w2)))
    first = _at_end(steps[0], steps[1], lines[0], lines[1])
    last = _at_end(steps[-1], steps[-2], lines[-1], lines[-2])
    return PUBLIC["concatenate"]([first[None], inner, last[None]])


@stands_for(theirs.PchipInterpolator)
class PchipInterpolator(CubicHermiteSpline, theirs.PchipInterpolator):
    def __init__(self, x, y, axis=0, extrapolate=None):
        if none_traced((x, y)):
            theirs.PchipInterpolator.__init__(self, x, y, axis, extrapolate)
            return
        x, y, axis, _ = _prepared("PchipInterpolator", x, y, axis)
        extrapolate = True if extrapolate is None else extrapolate
        shape = shape_of(y)
        y = columns(y)
        c = _hermite(x, y, _pchip_slopes(x, y))
        c = PUBLIC["reshape"](c, (4, shape[0] - 1, *shape[1:]))
        self._hold(c, x, extrapolate, axis)


@entered
def pchip_interpolate(xi, yi, x, der=0, axis=0):
    made = PchipInterpolator(xi, yi, axis=axis)
    if shape_of(der) == ():
        return made(x, der)
    return [made(x, nu) for nu in der]


# --- Akima ----------------------------------------------------------------------------------------


def _akima_slopes(x, y, method: str):
    """The means of the lines beside each breakpoint, weighted by how lines change."""
    absolute = PUBLIC["absolute"]
    m = PUBLIC["diff"](y, axis=0) / beside(PUBLIC["diff"](x), y)
    if shape_of(x)[0] == 2:
        return PUBLIC["concatenate"]([m, m])
    first, last = 2.0 * m[:1] - m[1:2], 2.0 * m[-1:] - m[-2:-1]
    m = PUBLIC["concatenate"]([2.0 * first - m[:1], first, m, last, 2.0 * last - m[-1:]])
    change = absolute(PUBLIC["diff"](m, axis=0))
    f1, f2 = change[2:], change[:-2]
    if method == "makima":
        size = absolute(m[1:] + m[:-1])
        f1, f2 = f1 + 0.5 * size[2:], f2 + 0.5 * size[:-2]
    total = f1 + f2
    known = steered(_are_known, total)
    share = f2 / PUBLIC["where"](known, total, 1.0)
    return PUBLIC["where"](known, m[1:-2] + share * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))


def _are_known(total) -> np.ndarray:
    """Where lines change enough for weights."""
    return total > 1e-9 * (total.max() if total.size else -np.inf)


@stands_for(theirs.Akima1DInterpolator)
class Akima1DInterpolator(CubicHermiteSpline, theirs.Akima1DInterpolator):
    def __init__(self, x, y, axis=0, *, method="akima", extrapolate=None):
        if none_traced((x, y)):
            own = theirs.Akima1DInterpolator
            own.__init__(self, x, y, axis, method=method, extrapolate=extrapolate)
            return
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        x, y, axis, _ = _prepared("Akima1DInterpolator", x, y, axis)
        extrapolate = False if extrapolate is None else extrapolate
        self._hold(_hermite(x, y, _akima_slopes(x, y, method)), x, extrapolate, axis)

    extend = theirs.Akima1DInterpolator.extend
    from_spline = theirs.Akima1DInterpolator.from_spline
    from_bernstein_basis = theirs.Akima1DInterpolator.from_bernstein_basis


# --- cubic splines --------------------------------------------------------------------------------


def _conditions(bc_type, y, axis: int) -> list:
    """What holds at both ends: a name, or an order of derivative and its value."""
    shape = shape_of(y)[1:]
    if isinstance(bc_type, str):
        if bc_type == "periodic":
            if not holds("y of CubicSpline", _ends_alike, y):
                raise ValueError(
                    f"The first and last `y` point along axis {axis} must be identical (within "
                    "machine precision) when bc_type='periodic'."
                )
            return ["periodic", "periodic"]
        bc_type = (bc_type, bc_type)
    elif len(bc_type) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    return [_condition(one, shape) for one in bc_type]


def _ends_alike(y) -> bool:
    return np.allclose(y[0], y[-1], rtol=1e-15, atol=1e-15)


def _condition(one, shape: tuple):
    if isinstance(one, str):
        if one == "not-a-knot":
            return one
        if one not in ("clamped", "natural"):
            raise ValueError(
                "'periodic' `bc_type` is defined for both curve ends and cannot be used with other "
                "boundary conditions."
                if one == "periodic"
                else f"bc_type={one} is not allowed."
            )
        return (1 if one == "clamped" else 2), np.zeros((1, math.prod(shape)))
    try:
        order, value = one
    except Exception as error:
        text = "A specified derivative value must be given in the form (order, value)."
        raise ValueError(text) from error
    if order not in (1, 2):
        raise ValueError("The specified derivative order must be 1 or 2.")
    value = floats("CubicSpline", "bc_type", value)
    if shape_of(value) != shape:
        raise ValueError(f"`deriv_value` shape {shape_of(value)} is not the expected one {shape}.")
    return order, PUBLIC["reshape"](value, (1, math.prod(shape)))


def _first_row(one, dx, lines, rise):
    """The equation at the first breakpoint: two elements and the right-hand side.

    For the last one everything is given in the opposite order.
    """
    if one == "not-a-knot":
        d = dx[0] + dx[1]
        right = ((dx[0] + 2.0 * d) * dx[1] * lines[:1] + dx[0] ** 2 * lines[1:2]) / d
        return dx[1], d, right
    order, value = one
    if order == 1:
        return 1.0, 0.0, value
    return 2.0 * dx[0], dx[0], 3.0 * rise - 0.5 * value * dx[0] ** 2


def _mirrored(one):
    """The condition at the last breakpoint, where positions are counted from there."""
    if isinstance(one, str):
        return one
    order, value = one
    return order, -value if order == 2 else value


def _band(below, middle, above):
    """The diagonals of a matrix, each of which is given as numbers and vectors."""
    parts = [[np.reshape(x, (-1,)) for x in one] for one in (above, middle, below)]
    return PUBLIC["stack"]([PUBLIC["concatenate"](one) for one in parts])


def _spline_slopes(dx, y, ends):
    """The slopes of the cubic spline with continuous second derivatives, of shape (n, others)."""
    n, lines = shape_of(y)[0], PUBLIC["diff"](y, axis=0) / dx[:, None]
    if n == 2:
        ends = [(1, lines) if isinstance(one, str) else one for one in ends]
    if n == 3 and ends == ["not-a-knot"] * 2:
        return _parabola(dx, lines)
    inner = 3.0 * (dx[1:, None] * lines[:-1] + dx[:-1, None] * lines[1:])
    if ends[0] == "periodic" and n > 2:
        return _periodic_slopes(dx, lines, inner)
    middle, above, first = _first_row(ends[0], dx, lines, y[1:2] - y[:1])
    end, below, last = _first_row(_mirrored(ends[1]), dx[::-1], lines[::-1], y[-1:] - y[-2:-1])
    diagonal = 2.0 * (dx[:-1] + dx[1:])
    band = _band([dx[1:], below, 0.0], [middle, diagonal, end], [0.0, above, dx[:-1]])
    return solve_banded(band, np.concatenate([first, inner, last]), lower=1, upper=1)


def _parabola(dx, lines):
    """The slopes of a parabola through three points."""
    middle = (dx[0] * lines[1:2] + dx[1] * lines[:1]) / (dx[0] + dx[1])
    return np.concatenate([2.0 * lines[:1] - middle, middle, 2.0 * lines[1:2] - middle])


def _periodic_slopes(dx, lines, inner):
    """The slopes where the spline goes on at its begin: all equations but one are banded."""
    n = shape_of(dx)[0] + 1
    if n == 3:
        t = np.sum(lines / dx[:, None], axis=0) / np.sum(1.0 / dx)
        return PUBLIC["broadcast_to"](t, (3, *shape_of(t)))
    first = 3.0 * (dx[0] * lines[-1:] + dx[-1] * lines[:1])
    right = np.concatenate([first, inner])
    diagonal = 2.0 * np.concatenate([dx[:1] + dx[-1:], dx[:-1] + dx[1:]])
    m = n - 2
    band = _band([dx[1:m], 0.0], [diagonal[:m]], [0.0, dx[-1:], dx[: m - 2]])
    corner = np.concatenate([-dx[:1], np.zeros(m - 2), -dx[-3:-2]])[:, None]
    both = solve_banded(band, np.concatenate([right[:m], corner], axis=1), lower=1, upper=1)
    one, two = both[:, :-1], both[:, -1:]
    above = right[m:] - dx[-2] * one[:1] - dx[-1] * one[-1:]
    last = above / (2.0 * (dx[-1] + dx[-2]) + dx[-2] * two[:1] + dx[-1] * two[-1:])
    found = one + last * two
    return np.concatenate([found, last, found[:1]])


@stands_for(theirs.CubicSpline)
class CubicSpline(CubicHermiteSpline, theirs.CubicSpline):
    def __init__(self, x, y, axis=0, bc_type="not-a-knot", extrapolate=None):
        if none_traced((x, y, bc_type)):
            theirs.CubicSpline.__init__(self, x, y, axis, bc_type, extrapolate)
            return
        x, y, axis, _ = _prepared("CubicSpline", x, y, axis)
        ends, shape = _conditions(bc_type, y, axis), shape_of(y)
        if extrapolate is None:
            extrapolate = "periodic" if ends[0] == "periodic" else True
        y = columns(y)
        slopes = _spline_slopes(PUBLIC["diff"](x), y, ends) if math.prod(shape) else y
        c = PUBLIC["reshape"](_hermite(x, y, slopes), (4, shape[0] - 1, *shape[1:]))
        self._hold(c, x, extrapolate, axis)
