"""Values without derivative that the stand-ins of `math`, SciPy and `random` need in programs.

They have names in files, so they are here, where every process that loads a file has them.
"""

from __future__ import annotations

import importlib
import math

import numpy as np

from ..tensor.trace import named


@named("math.fsum")
def sum_of_floats(numbers):
    """`math.fsum`, NaN where that raises."""
    try:
        return np.float64(math.fsum(numbers))
    except (ValueError, OverflowError):
        return np.float64(math.nan)


@named("math.sumprod")
def sum_of_products(p, q):
    """`math.sumprod`, NaN where that raises."""
    try:
        return np.float64(math.sumprod(p.tolist(), q.tolist()))
    except (ValueError, OverflowError):
        return np.float64(math.nan)


@named("math.fma")
def multiplied_and_added(x, y, z):
    """`math.fma`, NaN where that raises."""
    try:
        return np.float64(math.fma(float(x), float(y), float(z)))
    except (ValueError, OverflowError):
        return np.float64(math.nan)


@named("math.isclose")
def are_close(a, b, rel_tol, abs_tol):
    """`math.isclose`."""
    return np.bool_(math.isclose(a, b, rel_tol=float(rel_tol), abs_tol=float(abs_tol)))


@named("scipy.all_finite")
def all_finite(*parts):
    """Whether no element is infinite or NaN, of an array or of both parts of a complex one."""
    return np.bool_(all(np.isfinite(x).all() for x in parts))


@named("scipy.any_zero")
def any_zero(*parts):
    """Whether an element is 0, of an array or of both parts of a complex one."""
    return np.any(np.logical_and.reduce([np.equal(x, 0.0) for x in parts]))


@named("scipy.asked_of_matrix")
def asked_of_matrix(*parts, name, **keywords):
    """A property of a matrix by a function of `scipy.linalg`, such as whether it is symmetric."""
    a = parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]
    return np.asarray(getattr(importlib.import_module("scipy.linalg"), name)(a, **keywords))


@named("random.accepted")
def accepted_parameters(*parameters, name):
    """Whether a distribution of NumPy accepts these parameters."""
    try:
        getattr(np.random.default_rng(0), name)(*parameters)
    except (ValueError, OverflowError):
        return np.bool_(False)
    return np.bool_(True)
