"""SciPy's `spatial.distance` for recorded values: distances of vectors, along the last axis.

At equal points, where a distance has no derivative, it is 0.
"""

from __future__ import annotations

import importlib

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.recorded_arguments import none_traced
from .._core.tensor.refused_derivatives import DerivativeLost
from .._core.tensor.values import dtype_of, is_tensor, shape_of
from ._differentiable import OURS

_PLACE = "tapegrad.scipy.spatial.distance"


def _floats(x):
    """Vectors as SciPy takes them: of float64."""
    x = x if is_tensor(x) or is_complex(x) else PUBLIC["asarray"](x)
    if is_complex(x) or dtype_of(x).kind == "c":
        raise DerivativeLost(f"{_PLACE}: an operand is complex; distances are of real vectors")
    return x if dtype_of(x) == np.float64 else x.astype(np.float64)


def _sum(x, w=None):
    return PUBLIC["sum"](x if w is None else x * w, axis=-1)


def _over(x, y):
    """A quotient, 0 where the denominator is 0."""
    is_none = y == 0.0
    return PUBLIC["where"](is_none, 0.0, x / PUBLIC["where"](is_none, 1.0, y))


def _root(x):
    """A square root with derivative 0 at 0."""
    is_none = x == 0.0
    return PUBLIC["where"](is_none, 0.0, PUBLIC["sqrt"](PUBLIC["where"](is_none, 1.0, x)))


# --- metrics --------------------------------------------------------------------------------------


def euclidean(u, v, w=None):
    return _root(_sum((u - v) ** 2, w))


def sqeuclidean(u, v, w=None):
    return _sum((u - v) ** 2, w)


def cityblock(u, v, w=None):
    return _sum(PUBLIC["absolute"](u - v), w)


def chebyshev(u, v):
    return PUBLIC["max"](PUBLIC["absolute"](u - v), axis=-1)


def minkowski(u, v, p=2, w=None):
    if not none_traced((p,)):
        raise DerivativeLost(f"{_PLACE}.minkowski: p is recorded; give a plain number")
    if not p > 0:
        raise ValueError("p must be greater than 0")
    if p == np.inf and w is None:
        return chebyshev(u, v)
    if p < 1 or p == np.inf:
        raise DerivativeLost(
            f"{_PLACE}.minkowski: with p={p} it has no derivative here; give p ≥ 1"
        )
    size = PUBLIC["absolute"](u - v)
    total = _sum(size**p, w)
    is_none = total == 0.0
    return PUBLIC["where"](is_none, 0.0, PUBLIC["where"](is_none, 1.0, total) ** (1.0 / p))


def seuclidean(u, v, V):  # noqa: N803
    return _root(_sum((u - v) ** 2 / V))


def mahalanobis(u, v, VI):  # noqa: N803
    d = u - v
    return _root(_sum(PUBLIC["matmul"](d, VI) * d))


def cosine(u, v, w=None):
    size = _root(_sum(u * u, w)) * _root(_sum(v * v, w))
    return 1.0 - _sum(u * v, w) / size


def correlation(u, v, w=None):
    total = shape_of(u)[-1] if w is None else PUBLIC["sum"](w)
    u, v = (x - (_sum(x, w) / total)[..., None] for x in (u, v))
    return cosine(u, v, w)


def canberra(u, v, w=None):
    size = PUBLIC["absolute"]
    return _sum(_over(size(u - v), size(u) + size(v)), w)


def braycurtis(u, v, w=None):
    size = PUBLIC["absolute"]
    return _sum(size(u - v), w) / _sum(size(u + v), w)


METRICS = {
    one.__name__: one
    for one in (
        *(euclidean, sqeuclidean, cityblock, chebyshev, minkowski, seuclidean),
        *(mahalanobis, cosine, correlation, canberra, braycurtis),
    )
}


def _vector(name: str, x):
    x = _floats(x)
    if len(shape_of(x)) != 1:
        raise ValueError("Input vector should be 1-D.")
    return x


def _of_two(name: str):
    def function(u, v, *args, **keywords):
        keywords = {key: x for key, x in keywords.items() if x is not None}
        if name == "correlation" and not keywords.pop("centered", True):
            raise DerivativeLost(f"{_PLACE}.correlation: centered=False; use cosine(u, v)")
        if name == "chebyshev" and (args or keywords):
            raise DerivativeLost(f"{_PLACE}.chebyshev: w has no derivative here; leave it out")
        u, v = _vector(name, u), _vector(name, v)
        if shape_of(u) != shape_of(v):
            raise ValueError(f"vectors of shapes {shape_of(u)} and {shape_of(v)}")
        args = [_option(name, "", x) for x in args]
        return METRICS[name](u, v, *args, **{k: _option(name, k, x) for k, x in keywords.items()})

    function.__name__ = name
    OURS[f"spatial.distance.{name}"] = function
    return function


def _option(name: str, key: str, x):
    """An option of a metric: weights, variances, an inverse covariance as arrays."""
    if x is None or key == "p" or shape_of(x) == ():
        return x
    x = _floats(x)
    if key == "w" and none_traced((x,)) and (np.asarray(x) < 0.0).any():
        raise ValueError("Input weights should be all non-negative")
    return x


for _name in METRICS:
    _of_two(_name)


# --- distances of many ----------------------------------------------------------------------------


def _metric(name: str, metric, keywords, *every):
    """A metric, and its options."""
    known = metric.lower() if isinstance(metric, str) else None
    if known not in METRICS:
        raise DerivativeLost(
            f"{_PLACE}.{name}: metric={metric!r} has no derivative here; these have: "
            f"{', '.join(METRICS)}"
        )
    if keywords.get("out") is not None:
        raise DerivativeLost(f"{_PLACE}.{name}: out= of recorded values; use the result")
    options = {k: _option(known, k, x) for k, x in keywords.items() if x is not None}
    if known == "seuclidean" and "V" not in options:
        options["V"] = PUBLIC["var"](PUBLIC["concatenate"](list(every)), axis=0, ddof=1)
    if known == "mahalanobis" and "VI" not in options:
        raise DerivativeLost(f"{_PLACE}.{name}: mahalanobis of recorded values needs VI=")
    return METRICS[known], options


def _points(what: str, x):
    x = _floats(x)
    if len(shape_of(x)) != 2:
        raise ValueError(f"{what} must be a 2-dimensional array.")
    return x


def cdist(XA, XB, metric="euclidean", *, out=None, **kwargs):  # noqa: N803
    a, b = _points("XA", XA), _points("XB", XB)
    if shape_of(a)[1] != shape_of(b)[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    one, options = _metric("cdist", metric, {"out": out, **kwargs}, a, b)
    return one(a[:, None, :], b[None, :, :], **options)


def pdist(X, metric="euclidean", *, out=None, **kwargs):  # noqa: N803
    x = _points("X", X)
    one, options = _metric("pdist", metric, {"out": out, **kwargs}, x)
    i, j = np.triu_indices(shape_of(x)[0], 1)
    return one(x[i], x[j], **options)


def squareform(X, force="no", checks=True):  # noqa: N803
    x = _floats(X)
    theirs, shape = importlib.import_module("scipy.spatial.distance").squareform, shape_of(x)
    if len(shape) == 1:
        positions = theirs(np.arange(1.0, shape[0] + 1.0), force).astype(np.intp)
        wide = PUBLIC["concatenate"]([np.zeros(1), x])
        return wide[positions]
    if checks:
        raise DerivativeLost(
            f"{_PLACE}.squareform: a recorded matrix is not looked at for its symmetry; give "
            "checks=False"
        )
    n = shape[0]
    theirs(np.zeros(shape), force, False)
    return x[np.triu_indices(n, 1)]


for _one in (cdist, pdist, squareform):
    OURS[f"spatial.distance.{_one.__name__}"] = _one
