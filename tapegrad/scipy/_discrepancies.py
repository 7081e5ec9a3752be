"""Discrepancies of points in a unit cube, for recorded values (Zhou 2013)."""

from __future__ import annotations

import importlib

from .. import numpy as np
from ._copied_code import copy_of
from ._differentiable import differentiable


def _pairs(x):
    return x[:, None], x[None, :]


def _both(one_of_each, of_pairs, n: int):
    """What all formulas have: a sum over the points, and one over all pairs of them."""
    single = np.sum(np.prod(one_of_each, axis=1))
    return np.sum(np.prod(of_pairs, axis=-1)) / n**2 - 2.0 * single / n


def _centered(sample, n: int, d: int):
    off = np.abs(sample - 0.5)
    (a, b), (x, y) = _pairs(off), _pairs(sample)
    pairs = 1.0 + 0.5 * a + 0.5 * b - 0.5 * np.abs(x - y)
    return (13.0 / 12.0) ** d + _both(1.0 + 0.5 * off - 0.5 * off**2, pairs, n)


def _wrap_around(sample, n: int, d: int):
    x, y = _pairs(sample)
    apart = np.abs(x - y)
    return np.sum(np.prod(1.5 - apart * (1.0 - apart), axis=-1)) / n**2 - (4.0 / 3.0) ** d


def _mixture(sample, n: int, d: int):
    off = np.abs(sample - 0.5)
    (a, b), (x, y) = _pairs(off), _pairs(sample)
    apart = np.abs(x - y)
    pairs = 15.0 / 8.0 - 0.25 * a - 0.25 * b - 0.75 * apart + 0.5 * apart**2
    return (19.0 / 12.0) ** d + _both(5.0 / 3.0 - 0.25 * off - 0.25 * off**2, pairs, n)


def _l2_star(sample, n: int, d: int):
    pairs = 1.0 - np.maximum(*_pairs(sample))
    single = np.sum(np.prod(1.0 - sample**2, axis=1))
    return np.sqrt(3.0**-d - 2.0 ** (1 - d) * single / n + np.sum(np.prod(pairs, axis=-1)) / n**2)


_METHODS = {"CD": _centered, "WD": _wrap_around, "MD": _mixture, "L2-star": _l2_star}


@differentiable("stats.qmc.discrepancy")
def discrepancy(sample, *, iterative=False, method="CD", workers=1):
    theirs = importlib.import_module("scipy.stats._qmc")
    sample = copy_of(theirs._ensure_in_unit_hypercube)(sample)
    theirs._validate_workers(workers)
    if method not in _METHODS:
        raise ValueError(f"{method!r} is not a valid method. It must be one of {set(_METHODS)!r}")
    return _METHODS[method](sample, len(sample) + bool(iterative), sample.shape[1])
