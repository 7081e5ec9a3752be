"""SciPy's classes of distributions, `Normal` and the like, for recorded values.

An object of ours asks the distribution of the same name in lower case, such as `scipy.stats.norm`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost
from ._class_stand_ins import ClassStandIn
from ._distributions import Distribution, of_instance

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


def _are_plain(args, kwds) -> bool:
    return none_traced(args) and none_traced(kwds.values())


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
