"""SciPy's distributions for recorded values: objects, moments and draws.

An object stands for each distribution. Its methods have SciPy's arguments; with plain ones they are
SciPy's.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any, cast

import numpy as np

from .._core.codegen.vector_math import NoPartial
from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced, stop_gradient
from .._core.tensor.trace import DerivativeLost, refuse
from .._core.tensor.values import is_recorded, is_tensor
from ._distribution_methods import (
    DENSITY,
    DISTRIBUTION,
    DistributionArguments,
    density,
    distribution,
    formulas_of,
    is_all,
    operand,
    same,
)
from ._distribution_quantiles import correction, quantile
from ._distribution_table import METHODS, POINTS, REFUSED, RELEASED

where = PUBLIC["where"]


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
        classes = importlib.import_module("tapegrad.scipy._distribution_classes")
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
