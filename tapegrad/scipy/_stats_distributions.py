"""SciPy's distributions for recorded values: their methods, quantiles, objects and classes."""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import types
from typing import Any, cast

import numpy as np

from .._core.codegen.vector_math import NoPartial
from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced, stop_gradient
from .._core.tensor.trace import DerivativeLost, learned, refuse, steered
from .._core.tensor.values import dtype_of, is_recorded, is_tensor, value_of
from ._class_stand_ins import ClassStandIn
from ._copied_code import STANDING, copy_of
from ._stats_formulas import (
    ANSWER_NAN,
    APPROXIMATE,
    BY_SHAPE,
    CALLED,
    METHODS,
    OWN,
    POINTS,
    REFUSED,
    RELEASED,
    SUMMED,
    ZERO_SHAPES,
)

# --- distribution methods -------------------------------------------------------------------------
# What SciPy's methods do around a formula such as `_logpdf` is done with operations that programs
# repeat: support and valid parameters by `where`. The formulas are copies of SciPy's.

where = PUBLIC["where"]
_log = PUBLIC["log"]
for _place in ("special._ufuncs", "stats._continuous_distns"):
    STANDING |= {f"{_place}.{name}": copy_of(ours) for name, ours in CALLED.items()}
#: Classes of SciPy whose formulas are quadratures, searches and differences.
_GENERIC = ("rv_generic", "rv_continuous", "rv_discrete", "rv_sample")


class _Formulas:
    """What copies of a distribution's formulas take for `self`: its attributes, and more copies."""

    def __init__(self, theirs):
        self.__dict__["_theirs"] = theirs

    @property  # type: ignore[misc]
    def __class__(self):  # as super() asks in the formulas
        return type(self._theirs)

    def __getattr__(self, name: str):
        theirs = self._theirs
        if (theirs.name, name) in OWN:
            return types.MethodType(copy_of(OWN[theirs.name, name]), self)
        for kind in type(theirs).__mro__:
            found = vars(kind).get(name)
            if isinstance(found, staticmethod):
                return copy_of(found.__func__)
            if isinstance(found, types.FunctionType):
                return types.MethodType(copy_of(found), self)
        return getattr(theirs, name)

    def has(self, name: str) -> bool:
        """Whether the distribution has a formula of its own."""
        if (self._theirs.name, name) in OWN:
            return True
        kinds = [one for one in type(self._theirs).__mro__ if name in vars(one)]
        return bool(kinds) and kinds[0].__name__ not in _GENERIC


@functools.cache
def formulas_of(theirs) -> _Formulas:
    return _Formulas(theirs)


# --- parts of methods -----------------------------------------------------------------------------


def is_all(condition, plainly) -> bool:
    """Whether a plain condition is the same everywhere; False if it is recorded."""
    return not is_recorded(condition) and bool(np.all(np.asarray(condition) == plainly))


class DistributionArguments:
    """The arguments of a call: shapes, place and scale, and the formulas of the distribution."""

    def __init__(self, theirs, args, kwds):
        shapes, loc, scale = theirs._parse_args(*args, **kwds)
        self.theirs, self.formulas = theirs, formulas_of(theirs)
        self.shapes = tuple(map(operand, shapes))
        if self.is_continuous:  # SciPy's formulas get floats
            self.shapes = tuple(map(_floating, self.shapes))
        self.loc, self.scale = operand(loc), operand(scale)
        for shape, width in zip(self.shapes, ZERO_SHAPES.get(theirs.name, ()), strict=False):
            _check_shape(theirs.name, shape, width)

    def standard(self, x):
        """The argument of the formulas at a point, in float64 after steps in its own dtype."""
        moved = x if is_all(self.loc, 0) else x - self.loc
        if moved is x and dtype_of(x) == np.float32 and dtype_of(self.loc) != np.float32:
            moved = x.astype(np.float64)
        moved = moved if is_all(self.scale, 1) else moved / self.scale
        return moved.astype(np.float64) if dtype_of(moved) == np.float32 else moved

    def placed(self, z):
        """The point at an argument of the formulas."""
        wide = z if is_all(self.scale, 1) else z * self.scale
        return wide if is_all(self.loc, 0) else wide + self.loc

    def checked(self, out):
        """A result, NaN where parameters are not valid, and its derivatives, too."""
        valid = self.formulas._argcheck(*self.shapes)
        valid = valid if is_recorded(valid) else np.asarray(valid, bool)  # SciPy's may be 1
        valid = valid & (self.scale > 0)
        return out if is_all(valid, True) else out * where(valid, 1.0, np.nan)

    def beyond(self, y, closed: bool):
        """Where an argument is below and above the support; None where that is nowhere.

        An infinite end is not in an open one. The normal distribution's formulas have its limits.
        """
        a, b = self.formulas._get_support(*self.shapes)
        if closed:
            below = None if is_all(a, -np.inf) else y < a
            return below, None if is_all(b, np.inf) else y > b
        return (None, None) if self.theirs.name == "norm" else (y <= a, y >= b)

    def inner(self):
        """An argument inside of the support."""
        a, b = self.formulas._get_support(*self.shapes)
        if not is_recorded(a) and not is_recorded(b):
            a, b = np.asarray(a), np.asarray(b)
        a, b = stop_gradient(a), stop_gradient(b)
        low = where(np.isfinite(a), a, where(np.isfinite(b), b, 2.5) - 2.0)
        high = where(np.isfinite(b), b, where(np.isfinite(a), a, -1.5) + 2.0)
        found = (low + high) / 2.0
        return found if self.is_continuous else np.floor(found)

    @property
    def is_continuous(self) -> bool:
        return hasattr(self.theirs, "pdf")

    def formula(self, names: dict[str, Any]):
        """The first formula that the distribution has, and what is made of its result."""
        for name, made in names.items():
            if self.formulas.has(name):
                found = getattr(self.formulas, name)
                return lambda y: made(self.called(found, y))
        raise DerivativeLost(
            f"it has no formula for it in SciPy, but {' or '.join(names)} by quadrature"
        )

    def called(self, formula, y):
        """A formula at a point: SciPy's own are of vectors, into which some of them write."""
        given = (y, *self.shapes)
        if any(map(np.ndim, given)):
            return formula(*given)
        every = PUBLIC["broadcast_arrays"](*given)
        out = formula(*[PUBLIC["reshape"](one, (-1,)) for one in every])
        return PUBLIC["reshape"](out, np.shape(every[0]))


def _check_shape(distribution: str, shape, width: float) -> None:
    if is_recorded(shape):
        is_lost = np.any(np.abs(stop_gradient(shape)) < width)
        learned(is_lost, f"a shape of {distribution}")
        if value_of(is_lost):
            raise DerivativeLost(
                f"a shape parameter is less than {width:g} from 0, where SciPy takes the formula "
                "for 0, or one without digits for the derivative; keep it away from 0"
            )


def operand(x):
    x = unlisted(x)
    return x if is_tensor(x) else np.asarray(x)


def _floating(x):
    return x.astype(np.float64) if dtype_of(x).kind in "biu" else x


def same(y):
    return y


def _inside(
    given: DistributionArguments, y, formula, closed: bool, below_value: float, above_value: float
):
    """A formula on the support, and values beyond it, without derivatives there."""
    below, above = given.beyond(y, closed)
    return _by_places(given, y, formula, below, above, (below_value, above_value))


def _by_places(given: DistributionArguments, y, formula, below, above, values: tuple[float, float]):
    """The same of masks; and NaN of NaN, to which some formulas have a number."""
    is_nan = np.isnan(y) if given.theirs.name in ANSWER_NAN else False
    masks = [one for one in (below, above) if one is not None]
    if not is_all(is_nan, False):
        masks.append(is_nan)
    outside = functools.reduce(operator.or_, masks, np.False_)
    if is_all(outside, False):
        return formula(y)
    out = where(outside, values[0], formula(where(outside, given.inner(), y)))
    if values[0] != values[1] and above is not None:
        out = where(above, values[1], out)
    return out if is_all(is_nan, False) else out * where(is_nan, np.nan, 1.0)


DENSITY = {
    "pdf": ({"_pdf": same, "_logpdf": PUBLIC["exp"]}, 0.0),
    "logpdf": ({"_logpdf": same, "_pdf": _log}, -np.inf),
    "pmf": ({"_pmf": same, "_logpmf": PUBLIC["exp"]}, 0.0),
    "logpmf": ({"_logpmf": same, "_pmf": _log}, -np.inf),
}


def _has_own_support(theirs) -> bool:
    """Whether SciPy's density is 0 at some of the ends of the support, too."""
    general = importlib.import_module("scipy.stats").rv_continuous._support_mask
    return type(theirs)._support_mask is not general or (theirs.name, "_support_mask") in OWN


def density(name: str, given: DistributionArguments, x):
    names, beyond = DENSITY[name]
    y = given.standard(x)
    formula = given.formula(names)
    if not given.is_continuous:
        y = stop_gradient(y)
        is_whole = np.floor(y) == y
        safe = y if is_all(is_whole, True) else np.floor(y)
        out, is_far = _inside(given, safe, formula, True, beyond, beyond), np.isinf(y)
        if not is_all(is_far, False):  # a constant, where the derivative of the formula is NaN
            near = _inside(given, where(is_far, 0.0, safe), formula, True, beyond, beyond)
            out = where(is_far, stop_gradient(out), near)
        return given.checked(
            out if safe is y else where(is_whole, out, where(np.isnan(y), y, beyond))
        )
    if _has_own_support(given.theirs):
        outside = ~(given.formulas._support_mask(y, *given.shapes) | np.isnan(y))
        out = _by_places(given, y, formula, outside, None, (beyond, beyond))
    else:
        out = _inside(given, y, formula, True, beyond, beyond)
    if not is_all(given.scale, 1):
        out = out - _log(given.scale) if name == "logpdf" else out / given.scale
    return given.checked(out)


def _complement(p):
    return 1.0 - p


def _log_complement(p):
    return PUBLIC["log1p"](-p)


DISTRIBUTION = {
    "cdf": ({"_cdf": same, "_sf": _complement, "_logcdf": PUBLIC["exp"]}, (0.0, 1.0)),
    "sf": ({"_sf": same, "_cdf": _complement, "_logsf": PUBLIC["exp"]}, (1.0, 0.0)),
    "logcdf": ({"_logcdf": same}, (-np.inf, 0.0)),
    "logsf": ({"_logsf": same}, (0.0, -np.inf)),
}


#: Places and weight of Gauss's quadrature.
_NODES = (0.5 - 12**-0.5, 0.5 + 12**-0.5)


def _by_derivatives(name: str, given: DistributionArguments):
    """A distribution function of SciPy's values and known partial derivatives.

    From the point where it is, which counts as a constant, it is the integral of its derivatives
    along a line. The quadrature is exact for derivatives up to the fourth.
    """
    sign = 1.0 if name == "cdf" else -1.0
    density, partials = given.formulas, BY_SHAPE[given.theirs.name]
    if not partials:  # the shapes have their derivatives by the formula
        formula = given.formula(DISTRIBUTION[name][0])

    def function(y):
        moving = (y, *given.shapes) if partials else (y,)
        fixed = [stop_gradient(one) for one in moving]
        steps = [one - base for one, base in zip(moving, fixed, strict=True)]
        out = steered(getattr(given.theirs, name), *moving) if partials else formula(fixed[0])
        check_density(given, density._pdf(*fixed, *(() if partials else given.shapes)))
        for node in _NODES:
            at = [base + node * step for base, step in zip(fixed, steps, strict=True)]
            shapes = at[1:] if partials else given.shapes
            slopes = [density._pdf(at[0], *shapes), *[copy_of(one)(*at) for one in partials]]
            for step, slope in zip(steps, slopes, strict=True):
                out = out + (0.5 * sign) * step * slope
        return out

    return function


#: The most probabilities that are added for a distribution function.
_MOST = 100_000


def _summed(name: str, given: DistributionArguments):
    """A distribution function of a discrete distribution as the sum of the probabilities."""
    a, b = given.formulas._get_support(*given.shapes)
    mass = given.formula(DENSITY["pmf"][0])

    def function(k):
        low, high = steered(np.min, a), steered(np.max, b)
        is_tail = name == "sf" and value_of(high) - value_of(low) <= _MOST
        top = high if is_tail else steered(np.max, k, initial=0.0)
        for one in (low, top):
            learned(one, f"the whole numbers of {given.theirs.name}.{name}")
        if value_of(top) - value_of(low) > _MOST:
            raise DerivativeLost(
                f"it is a sum of the probabilities of all whole numbers below k, of more than "
                f"{_MOST}; keep k smaller"
            )
        every = np.arange(float(value_of(low)), int(value_of(top)) + 1.0)
        every = every.reshape(-1, *(1,) * max(map(np.ndim, (k, *given.shapes))))
        is_added = (every >= a) & (every <= b) & ((every > k) if is_tail else (every <= k))
        total = np.sum(where(is_added, mass(where(is_added, every, a)), 0.0), axis=0)
        total = total + where(np.isnan(k), np.nan, 0.0)
        return total if name == "cdf" or is_tail else 1.0 - total

    return function


def distribution_formula(name: str, given: DistributionArguments):
    """The formula of a distribution function; a logarithm that SciPy does not have by parts."""
    names = DISTRIBUTION[name][0]
    if not name.startswith("log"):
        if given.theirs.name in BY_SHAPE:
            return _by_derivatives(name, given)
        if given.theirs.name in SUMMED:
            return _summed(name, given)
    is_known = given.theirs.name not in SUMMED.union(BY_SHAPE)
    if not name.startswith("log") or (is_known and given.formulas.has(next(iter(names)))):
        return given.formula(names)
    near, far = ("cdf", "sf") if name == "logcdf" else ("sf", "cdf")
    near, far = distribution_formula(near, given), distribution_formula(far, given)

    def by_parts(y):
        p, q = near(y), far(y)
        return where(p < 0.5, _log(where(p < 0.5, p, 0.5)), _log_complement(where(p < 0.5, 0.5, q)))

    return by_parts


def distribution(name: str, given: DistributionArguments, x):
    y = given.standard(x)
    formula = distribution_formula(name, given)
    if not given.is_continuous:
        y = np.floor(stop_gradient(y))
        return given.checked(_inside_discrete(given, y, formula, *DISTRIBUTION[name][1]))
    return given.checked(_inside(given, y, formula, False, *DISTRIBUTION[name][1]))


def _inside_discrete(
    given: DistributionArguments, k, formula, below_value: float, above_value: float
):
    a, b = given.formulas._get_support(*given.shapes)
    below = (k < a) | (k == -np.inf)
    return _by_places(given, k, formula, below, k >= b, (below_value, above_value))


def check_density(given: DistributionArguments, density, at=None) -> None:
    """Refuse a derivative that is infinite, or at quantiles the quotient of one.

    A formula at an infinite quantile may give NaN for a density of 0.
    """
    known = stop_gradient(density)
    is_lost = known == np.inf
    if at is not None:
        is_lost = (is_lost | (known == 0.0) | np.isnan(known)) & ~np.isnan(at)
    is_lost = np.any(is_lost)
    learned(is_lost, f"the density of {given.theirs.name}")
    if value_of(is_lost):
        kinds = "infinite" if at is None else "0 or infinite at a quantile"
        raise DerivativeLost(
            f"the density is {kinds}, as it may be at the ends of the support, so there is no "
            "finite derivative; keep the argument away from there"
        )


# --- distribution quantiles -----------------------------------------------------------------------
# Quantiles of SciPy's distributions, for recorded values: derivatives by the density.


def _by_formula(name: str, given: DistributionArguments, q):
    """A quantile by SciPy's formula, and what SciPy's method gives at the ends and beyond them."""
    is_upper, is_own = name == "isf", given.formulas.has(f"_{name}")
    is_inside = (q > 0) & (q < 1)
    safe = where(is_inside, q, 0.5)
    if is_own or not is_upper:
        found = given.called(getattr(given.formulas, f"_{name}"), safe)
    else:
        found = given.called(given.formulas._ppf, 1.0 - safe)
    low, high = given.formulas._get_support(*given.shapes)
    low, high = low if given.is_continuous else low - 1, high
    low, high = (high, low) if is_upper else (low, high)
    return where(is_inside, found, where(q == 0, low, where(q == 1, high, np.nan)))


def _recorded_formula(name: str, given: DistributionArguments, q):
    """The same while a program is recorded, which takes no Python then; None where it does not do.

    That is so where SciPy has no formula, or one that is compiled or asks Python about values.
    """
    trace: Any = rt.trace()
    before = len(trace.guards), trace.refusal, trace.is_faithful
    names = ("_isf", "_ppf") if name == "isf" else ("_ppf",)
    if not any(map(given.formulas.has, names)):
        return None
    try:
        found = _by_formula(name, given, q)
    except (AttributeError, DerivativeLost, NotImplementedError, TypeError, ValueError):
        rt.take_refusal()
        found = None
    if found is None or (len(trace.guards), trace.refusal) != before[:2]:
        del trace.guards[before[0] :]
        _, trace.refusal, trace.is_faithful = before
        return None
    return found


def _value_of_quantile(name: str, given: DistributionArguments, q):
    """A quantile without derivatives: SciPy's, in programs by its formula if that is the same."""
    found = steered(getattr(given.theirs, name), q, *given.shapes)
    if rt.trace() is None or not is_recorded(found):
        return found
    made = _recorded_formula(name, given, q)
    if made is None:
        return found
    is_close = np.allclose(value_of(made), value_of(found), rtol=1e-9, atol=1e-9, equal_nan=True)
    return stop_gradient(made) if is_close else found


def quantile(name: str, given: DistributionArguments, q):
    z = _value_of_quantile(name, given, q)
    if not given.is_continuous:
        return given.checked(given.placed(z))
    if any(map(is_recorded, (q, *given.shapes))):
        if given.theirs.name in APPROXIMATE:
            _check_quantile(given)
        if given.theirs.name == "genhalflogistic":
            z = z + _moved_half_logistic(name, given, q)
        else:
            z = z + correction(name, given, q, z)
    return given.checked(given.placed(z))


def _moved_half_logistic(name: str, given: DistributionArguments, q):
    """0 with the derivatives of genhalflogistic's quantile, which SciPy has a formula for.

    For a large c the density has no digits near the end of the support.
    """
    p = q if name == "ppf" else 1.0 - q
    check_density(given, where((p == 1.0) & (given.shapes[0] < 1.0), np.inf, 1.0))
    found = given.formulas._ppf(p, *given.shapes)
    return found - stop_gradient(found)


def _check_quantile(given: DistributionArguments) -> None:
    limit, shape = APPROXIMATE[given.theirs.name], given.shapes[0]
    is_lost = np.any(stop_gradient(shape) >= limit) & is_recorded(shape)
    learned(is_lost, f"a shape of {given.theirs.name}")
    if value_of(is_lost):
        raise DerivativeLost(
            f"from a shape of {limit:g} on, SciPy's distribution function is an approximation; use "
            "the normal distribution, whose variance is 1 / kappa"
        )


def correction(name: str, given: DistributionArguments, q, z):
    """0 with the derivatives of a quantile to third order: two steps of Newton's method."""
    density = given.formula(DENSITY["pdf"][0])
    function = distribution_formula("cdf" if name == "ppf" else "sf", given)
    sign = 1.0 if name == "ppf" else -1.0
    check_density(given, density(stop_gradient(z)), stop_gradient(z))
    found = z
    for _ in range(2):
        missing = function(found) - q
        found = found - sign * (missing - stop_gradient(missing)) / density(found)
    return found - stop_gradient(found)


# --- distributions --------------------------------------------------------------------------------
# An object stands for each distribution. Its methods have SciPy's arguments; with plain ones they
# are SciPy's.


# --- moments --------------------------------------------------------------------------------------


def _moments(given: DistributionArguments, wanted: str):
    """The mean and the variance, skewness and excess of the standard distribution."""
    formulas, shapes = given.formulas, given.shapes
    keywords = {"moments": wanted} if given.theirs._stats_has_moments else {}
    found = formulas._stats(*shapes, **keywords) if formulas.has("_stats") else (None,) * 4
    mean, variance, skew, excess = cast(tuple[Any, ...], found)

    @functools.cache
    def raw(n: int):
        if not formulas.has("_munp"):
            raise DerivativeLost("it has no formula for it in SciPy, but a quadrature")
        return formulas._munp(n, *shapes)

    is_open = ("s" in wanted and skew is None) or ("k" in wanted and excess is None)
    needs_variance = variance is None and ("v" in wanted or is_open)
    if mean is None and ("m" in wanted or needs_variance or is_open):
        mean = raw(1)
    if needs_variance:
        variance = where(np.isinf(mean), np.inf, raw(2) - mean**2)
    if "s" in wanted and skew is None:
        third = (-mean * mean - 3 * variance) * mean + raw(3)
        skew = third / variance**1.5
    if "k" in wanted and excess is None:
        third = (
            (-mean * mean - 3 * variance) * mean + raw(3) if skew is None else skew * variance**1.5
        )
        fourth = ((-(mean**2) - 6 * variance) * mean - 4 * third) * mean + raw(4)
        excess = fourth / variance**2 - 3.0
    return mean, variance, skew, excess


def _statistics(given: DistributionArguments, moments: str = "mv"):
    found = _moments(given, moments)
    scales = (given.placed, lambda v: v * given.scale * given.scale, same, same)
    out = [
        given.checked(scale(one))
        for letter, one, scale in zip("mvsk", found, scales, strict=True)
        if letter in moments
    ]
    return out[0] if len(out) == 1 else tuple(out)


def _mean(given: DistributionArguments):
    return _statistics(given, "m")


def _var(given: DistributionArguments):
    return _statistics(given, "v")


def _std(given: DistributionArguments):
    return PUBLIC["sqrt"](_var(given))


def _entropy(given: DistributionArguments):
    if not given.formulas.has("_entropy"):
        raise DerivativeLost("it has no formula for it in SciPy, but a quadrature")
    out = given.formulas._entropy(*given.shapes)
    return given.checked(out if is_all(given.scale, 1) else out + PUBLIC["log"](given.scale))


def _median(given: DistributionArguments):
    return quantile("ppf", given, 0.5)


def _support(given: DistributionArguments):
    return tuple(
        given.checked(given.placed(one)) for one in given.formulas._get_support(*given.shapes)
    )


def _nnlf(theirs, theta, x):
    """The negative log likelihood, infinite where SciPy has no likelihood."""
    *shapes, loc, scale = theta
    x = operand(x)
    given = DistributionArguments(theirs, shapes, {})
    found = density("logpdf", given, (x - loc) / scale)
    out = len(x) * PUBLIC["log"](scale) - PUBLIC["sum"](found, axis=0)
    return where(np.isnan(out), np.inf, out)


_OF_PARAMETERS = {
    **{"mean": _mean, "var": _var, "std": _std, "entropy": _entropy},
    **{"median": _median, "support": _support},
}


# --- draws ----------------------------------------------------------------------------------------


def _plain(x):
    return stop_gradient(x).numpy() if is_tensor(x) else x


def _last(name: str, usual, theirs, args, kwds):
    """The argument after the parameters, by its name or its place, and the arguments before it."""
    parameters = theirs.numargs + (2 if hasattr(theirs, "pdf") else 1)
    if len(args) == parameters + 1 and name not in kwds:
        return args[-1], args[:-1]
    return kwds.pop(name, usual), args


def _draws(theirs, args, kwds):
    """Draws of SciPy's, that move with the parameters so that their probabilities stay."""
    size, args = _last("size", None, theirs, args, kwds)
    random_state = kwds.pop("random_state", None)
    given = DistributionArguments(theirs, args, kwds)
    refuse(f"scipy.stats.{theirs.name}.rvs() draws random numbers", faithful=True)
    plain = [*map(_plain, given.shapes), _plain(given.loc)]
    plain += [_plain(given.scale)] if given.is_continuous else []
    found = theirs.rvs(*plain, size=size, random_state=random_state)
    if not given.is_continuous:
        raise DerivativeLost("whole numbers that are drawn have no derivative by parameters")
    if "ppf" not in RELEASED[theirs.name] and any(map(is_recorded, given.shapes)):
        raise DerivativeLost(_reason(theirs.name, "ppf"))
    z = (found - _plain(given.loc)) / _plain(given.scale)
    if any(map(is_recorded, given.shapes)):
        z = z + correction("ppf", given, 0.0, z)
    moved = given.placed(z)
    return found + (moved - stop_gradient(moved))


# --- objects --------------------------------------------------------------------------------------


def _are_plain(args, kwds) -> bool:
    return none_traced(args) and (not kwds or none_traced(kwds.values()))


class Distribution:
    """What stands for a distribution of SciPy's: methods with SciPy's arguments."""

    takes_parameters = True  # a call gives an object with them

    def __init__(self, theirs):
        self._theirs = theirs
        self.__doc__ = theirs.__doc__
        self.__module__ = "tapegrad.scipy.stats"

    @property  # type: ignore[misc]
    def __class__(self):
        return type(self._theirs)

    @property
    def __wrapped__(self):
        return self._theirs

    def __reduce__(self):
        return of_instance, (self._theirs,)

    def __repr__(self) -> str:
        return repr(self._theirs)

    def __dir__(self):
        return dir(self._theirs)

    def __call__(self, *args, **kwds):
        return Frozen(self, args, kwds)

    freeze = __call__

    def __getattr__(self, name: str):
        theirs = self.__dict__["_theirs"]
        if name.startswith("_"):  # a formula that another distribution's takes
            return getattr(formulas_of(theirs), name)
        found = getattr(theirs, name)
        return _method_of_plain(theirs, name, found) if callable(found) else found

    def __setattr__(self, name: str, value) -> None:
        is_own = name in ("_theirs", "__doc__", "__module__")
        object.__setattr__(self if is_own else self._theirs, name, value)


def _method_of_plain(theirs, name: str, method):
    """A method that takes plain values."""

    @functools.wraps(method)
    def function(*args, **kwds):
        if _are_plain(args, kwds):
            return method(*args, **kwds)
        raise _lost(theirs.name, name, _reason(theirs.name, name))

    return function


def _method(name: str, point: str):
    def method(self, *args, **kwds):
        theirs = self._theirs
        if _are_plain(args, kwds):
            return getattr(theirs, name)(*args, **kwds)
        if point and point in kwds:
            args = (kwds.pop(point), *args)
        try:
            return _computed(name, theirs, args, kwds)
        except (DerivativeLost, NoPartial) as error:
            raise _lost(theirs.name, name, str(error)) from error

    method.__name__ = method.__qualname__ = name
    method.is_element_wise = name in (*POINTS, *_OF_ELEMENTS)  # type: ignore[attr-defined]
    return method


#: Methods without a point of which each result is of the parameters at one place alone.
_OF_ELEMENTS = ("mean", "var", "std", "median", "entropy")


def _lost(distribution: str, name: str, reason: str) -> DerivativeLost:
    return DerivativeLost(
        f"tapegrad: scipy.stats.{distribution}.{name}() has no derivative with these arguments, of "
        f"which one is recorded: {reason}"
    )


def _reason(distribution: str, name: str) -> str:
    """Why a method has no derivative, and what does instead."""
    why = REFUSED.get(distribution) or REFUSED.get(name) or REFUSED["others"]
    return f"{why}; or use t.detach().numpy() if no derivative is needed"


@functools.cache
def _frozen_class(is_continuous: bool) -> type:
    stats = importlib.import_module("scipy.stats")
    return type(stats.norm() if is_continuous else stats.bernoulli(0.5))


class Frozen:
    """What stands for a distribution with parameters."""

    is_made_of_state = True  # the parameters are those of SciPy's object
    is_parametrised = True  # its methods are those of `dist`, which get the parameters, too

    def __init__(self, dist: Distribution, args: tuple, kwds: dict, theirs=None):
        self.dist, self.args, self.kwds = dist, args, kwds
        if theirs is None and _are_plain(args, kwds):
            theirs = dist._theirs(*args, **kwds)
        self._theirs = theirs  # SciPy's object, if all parameters are plain

    @property  # type: ignore[misc]
    def __class__(self):
        return _frozen_class(hasattr(self.dist._theirs, "pdf"))

    def __reduce__(self):
        return Frozen, (self.dist, self.args, self.kwds, self._theirs)

    def __dir__(self):
        return dir(self.dist._theirs())

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("a", "b"):
            return self._support()["ab".index(name)]
        if self._theirs is None:
            return functools.partial(self._call, name, getattr(self.dist, name), None)
        found = getattr(self._theirs, name)
        if not callable(found):
            return found
        return functools.partial(self._call, name, getattr(self.dist, name, None), found)

    def __setattr__(self, name: str, value) -> None:
        is_theirs = name == "random_state" and self._theirs is not None
        object.__setattr__(self._theirs if is_theirs else self, name, value)

    def _support(self):
        given = DistributionArguments(self.dist._theirs, self.args, self.kwds)
        return given.formulas._get_support(*given.shapes)

    def _call(self, name, method, plain, *points, **keywords):
        if plain is not None and _are_plain(points, keywords):
            return plain(*points, **keywords)
        given = _signature(self.__class__, name).bind(self, *points, **keywords).arguments
        given.pop("self")
        if name in ("rvs", "stats"):  # which have no point
            return method(*self.args, **self.kwds, **given)
        return method(*given.values(), *self.args, **self.kwds)


@functools.cache
def _signature(frozen: type, name: str) -> inspect.Signature:
    return inspect.signature(getattr(frozen, name))


def of_instance(theirs) -> Any:
    """The stand-in of a distribution of SciPy's, or of one with parameters; else None."""
    if isinstance(theirs, (Distribution, Frozen)):
        return theirs
    if hasattr(theirs, "dist") and hasattr(theirs, "kwds"):
        found = of_instance(theirs.dist)
        return None if found is None else Frozen(found, theirs.args, theirs.kwds, theirs)
    if not hasattr(theirs, "_parse_args") or not hasattr(theirs, "logsf"):
        made = importlib.import_module("tapegrad.scipy._multivariate").of_instance(theirs)
        classes = importlib.import_module("tapegrad.scipy._stats_distributions")
        return classes.of_object(theirs) if made is None else made
    public = getattr(importlib.import_module("scipy.stats"), theirs.name or "", None)
    return _of_public(public) if type(public) is type(theirs) else None


@functools.cache
def _of_public(theirs) -> Distribution:
    return Distribution(theirs)


def _computed(name: str, theirs, args, kwds):
    released = RELEASED.get(theirs.name, frozenset())
    if name not in released:
        raise DerivativeLost(_reason(theirs.name, name))
    if name == "rvs":
        return _draws(theirs, args, kwds)
    if name == "stats":
        moments, args = _last("moments", "mv", theirs, args, kwds)
        return _statistics(DistributionArguments(theirs, args, kwds), moments)
    if name in _OF_PARAMETERS:
        return _OF_PARAMETERS[name](DistributionArguments(theirs, args, kwds))
    if name == "nnlf":
        return _nnlf(theirs, *args, **kwds)
    point, given = operand(args[0]), DistributionArguments(theirs, args[1:], kwds)
    if name == "interval":
        low, high = (1.0 - point) / 2, (1.0 + point) / 2
        return quantile("ppf", given, low), quantile("ppf", given, high)
    if name in DENSITY:
        return density(name, given, point)
    if name in DISTRIBUTION:
        return distribution(name, given, point)
    return quantile(name, given, point)


for _name in METHODS:
    setattr(Distribution, _name, _method(_name, POINTS.get(_name, "")))


def released(name: str):
    """The method of a name as "stats.norm.logpdf", if it has derivatives; else None."""
    _, distribution, method = (*name.split("."), "", "")[:3]
    return getattr(Distribution, method) if method in RELEASED.get(distribution, ()) else None


# --- distribution classes -------------------------------------------------------------------------
# An object of ours, such as a `Normal`, asks the distribution of the same name in lower case.

#: By classes of SciPy: a distribution, and the arguments of its methods by the class's parameters.
_CLASSES: dict[str, tuple[str, Any]] = {
    "Normal": ("norm", lambda mu=0.0, sigma=1.0: {"loc": mu, "scale": sigma}),
    "StandardNormal": ("norm", lambda: {}),
    "Logistic": ("logistic", lambda: {}),
    "Uniform": ("uniform", lambda a, b: {"loc": a, "scale": b - a}),
    "Binomial": ("binom", lambda n, p: {"n": n, "p": p}),
}
#: Methods by those of distributions.
_METHODS = {
    **{
        name: name
        for name in "pdf logpdf pmf logpmf cdf logcdf mean median entropy support".split()
    },
    **{"ccdf": "sf", "logccdf": "logsf", "icdf": "ppf", "iccdf": "isf"},
    **{"variance": "var", "standard_deviation": "std"},
}


class NewDistribution:
    """An object of a class as `Normal`, of which parameters or points are recorded."""

    def __init__(self, kind: type, of: Distribution, given: dict, parameters: dict, theirs=None):
        self.__dict__.update(parameters)
        self._kind, self._of, self._given, self._theirs = kind, of, given, theirs

    @property  # type: ignore[misc]
    def __class__(self):
        return self._kind

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._kind, name)
        if not callable(method):
            return getattr(self._theirs, name)

        @functools.wraps(method)
        def function(*args, **kwds):
            if self._theirs is not None and _are_plain(args, kwds):
                return getattr(self._theirs, name)(*args, **kwds)
            return self._computed(name, args, kwds)

        return function

    def _computed(self, name: str, args, kwds):
        if kwds.pop("method", None) is not None or (name not in _METHODS and name not in _FURTHER):
            raise DerivativeLost(
                f"tapegrad: scipy.stats.{self._kind.__name__}.{name}() has no derivative with "
                f"these arguments; use the methods of scipy.stats.{self._of._theirs.name}, or "
                "t.detach().numpy() if no derivative is needed"
            )
        if name in _FURTHER and (name != "cdf" or len(args) == 2 or "y" in kwds):
            return _FURTHER[name](self, *args, **kwds)
        return getattr(self._of, _METHODS[name])(*args, **kwds, **self._given)


def _between(self, x, y):
    """The probability of an interval."""
    return self._of.cdf(y, **self._given) - self._of.cdf(x, **self._given)


def _skewness(self):
    return self._of.stats(**self._given, moments="s")


def _kurtosis(self, convention="non-excess"):
    return self._of.stats(**self._given, moments="k") + (3.0 if convention == "non-excess" else 0.0)


_FURTHER: dict[str, Any] = {
    "cdf": _between,
    "ilogcdf": lambda self, logp: self._of.ppf(PUBLIC["exp"](logp), **self._given),
    "ilogccdf": lambda self, logp: self._of.isf(PUBLIC["exp"](logp), **self._given),
    "skewness": _skewness,
    "kurtosis": _kurtosis,
}


def _made(kind: type, parameters: dict, theirs=None) -> NewDistribution:
    name, arguments = _CLASSES[kind.__name__]
    distribution = of_instance(getattr(importlib.import_module("scipy.stats"), name))
    return NewDistribution(kind, distribution, arguments(**parameters), parameters, theirs)


class DistributionClass(ClassStandIn):
    """What stands for a class as `Normal`: it makes objects that take recorded points."""

    def __call__(self, *, tol=None, validation_policy=None, cache_policy=None, **parameters):
        policies = {"validation_policy": validation_policy, "cache_policy": cache_policy}
        if tol is not None:
            policies["tol"] = tol
        theirs = self._theirs(**policies, **parameters) if _are_plain((), parameters) else None
        return _made(self._theirs if theirs is None else type(theirs), parameters, theirs)

    def is_ours(self, x) -> bool:
        return isinstance(x, NewDistribution) and issubclass(x._kind, self._theirs)


def of_class(theirs: type, place: str) -> DistributionClass | None:
    """What stands for a class of SciPy's; None for others."""
    is_known = theirs.__module__ == "scipy.stats._new_distributions" and theirs.__name__ in _CLASSES
    return DistributionClass(theirs, place) if is_known else None


def of_object(theirs) -> NewDistribution | None:
    """What stands for an object that SciPy's class has made."""
    kind = type(theirs)
    if kind.__module__ != "scipy.stats._new_distributions" or kind.__name__ not in _CLASSES:
        return None
    names = inspect.signature(_CLASSES[kind.__name__][1]).parameters
    return _made(kind, {name: getattr(theirs, name) for name in names}, theirs)
