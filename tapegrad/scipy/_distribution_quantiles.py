"""Quantiles of SciPy's distributions, for recorded values: derivatives by the density."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import stop_gradient
from .._core.tensor.trace import DerivativeLost, learned, steered
from .._core.tensor.values import is_recorded, value_of
from ._distribution_methods import (
    DENSITY,
    DistributionArguments,
    check_density,
    distribution_formula,
)
from ._distribution_table import APPROXIMATE

where = PUBLIC["where"]


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
