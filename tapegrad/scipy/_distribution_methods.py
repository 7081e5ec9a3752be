"""Densities, distribution functions and quantiles of SciPy's distributions, for recorded values.

They do what SciPy's methods do around a formula such as `_logpdf` with operations that programs
repeat: support and valid parameters by `where`. The formulas are copies of SciPy's.
"""

from __future__ import annotations

import functools
import importlib
import operator
import types
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import stop_gradient
from .._core.tensor.trace import DerivativeLost, learned, steered
from .._core.tensor.values import dtype_of, is_recorded, is_tensor, value_of
from ._copied_code import STANDING, copy_of
from ._distribution_formulas import BY_SHAPE, OWN
from ._distribution_parts import CALLED
from ._distribution_sums import OWN_SUMS
from ._distribution_table import ANSWER_NAN, SUMMED, ZERO_SHAPES

where = PUBLIC["where"]
_log = PUBLIC["log"]
OWN |= OWN_SUMS
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
        out = _inside(given, safe, formula, True, beyond, beyond)
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
