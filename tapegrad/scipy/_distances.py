"""SciPy's `spatial.distance` for recorded values: distances of vectors, along the last axis.

At equal points, where a distance has no derivative, it is 0.
"""

from __future__ import annotations

import importlib

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.pair_distances import LARGEST, SIZES, SQUARES, pair_distances
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost
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


def hamming(u, v, w=None):
    parts = PUBLIC["where"](u != v, 1.0, 0.0)
    return _sum(parts, w) / (shape_of(u)[-1] if w is None else PUBLIC["sum"](w))


def jensenshannon(u, v):
    return _divergence(u, v, None, False)


def _divergence(u, v, base, keepdims):
    p, q = (x / PUBLIC["sum"](x, axis=-1, keepdims=True) for x in (u, v))
    m = 0.5 * (p + q)
    parts = OURS["special.rel_entr"](p, m) + OURS["special.rel_entr"](q, m)
    total = PUBLIC["sum"](parts, axis=-1, keepdims=keepdims)
    return _root(0.5 * (total if base is None else total / np.log(base)))


METRICS = {
    one.__name__: one
    for one in (
        *(euclidean, sqeuclidean, cityblock, chebyshev, minkowski, seuclidean),
        *(mahalanobis, cosine, correlation, canberra, braycurtis, hamming, jensenshannon),
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
        one = METRICS[name]
        if name == "correlation" and not keywords.pop("centered", True):
            one = cosine
        if name == "chebyshev" and (args or keywords):
            raise DerivativeLost(f"{_PLACE}.chebyshev: w has no derivative here; leave it out")
        u, v = _vector(name, u), _vector(name, v)
        if shape_of(u) != shape_of(v):
            raise ValueError(f"vectors of shapes {shape_of(u)} and {shape_of(v)}")
        args = [_option(name, "", x) for x in args]
        return one(u, v, *args, **{k: _option(name, k, x) for k, x in keywords.items()})

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


def _jensenshannon(p, q, base=None, *, axis=0, keepdims=False):
    if not none_traced((base,)):
        raise DerivativeLost(f"{_PLACE}.jensenshannon: base is recorded; give a plain number")
    p, q = (PUBLIC["moveaxis"](_floats(x), axis, -1) for x in (p, q))
    made = _divergence(p, q, base, keepdims)
    return PUBLIC["moveaxis"](made, -1, axis) if keepdims else made


OURS["spatial.distance.jensenshannon"] = _jensenshannon


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
        options["VI"] = _inverse_covariance(PUBLIC["concatenate"](list(every)))
    return METRICS[known], options


def _inverse_covariance(points):
    """That of rows as observations, with SciPy's error where it does not exist."""
    count, width = shape_of(points)
    if count <= width:
        raise ValueError(
            f"The number of observations ({count}) is too small; the covariance matrix is "
            f"singular. For observations with {width} dimensions, at least {width + 1} "
            "observations are required."
        )
    return PUBLIC["inv"](PUBLIC["atleast_2d"](PUBLIC["cov"](points.T)))


def _points(what: str, x):
    x = _floats(x)
    if len(shape_of(x)) != 2:
        raise ValueError(f"{what} must be a 2-dimensional array.")
    return x


def _scaled(metric: str, options):
    """A kind of `pair_distances`, and factors of coordinates with which that gives a metric.

    None where the metric is none of these, or weights are recorded: the derivative by a weight
    exists at 0, that by its root does not.
    """
    w = options.get("w")
    if metric == "minkowski":
        known = {1.0: "cityblock", 2.0: "euclidean", np.inf: "chebyshev"}
        metric = known.get(float(options.get("p", 2.0)), metric)
    if metric == "seuclidean":
        return SQUARES, 1.0 / PUBLIC["sqrt"](options["V"])
    if metric == "chebyshev" and w is None:
        return LARGEST, None
    if metric not in ("euclidean", "sqeuclidean", "cityblock") or not none_traced((w,)):
        return None
    if metric == "cityblock":
        return SIZES, w
    return SQUARES, None if w is None else np.sqrt(w)


def _of_pairs(name: str, options, x, y, half: bool):
    """Distances of the rows of two matrices by the compiled operation; None if it has them not."""
    if not none_traced((options.get("p"),)):
        return None
    found = _scaled(name, options)
    if found is None:
        return None
    kind, factors = found
    if factors is not None:
        x, y = x * factors, y * factors
    made = pair_distances(x, y, kind=kind, half=half)
    return made if kind != SQUARES or name == "sqeuclidean" else _root(made)


def _cosines(metric: str, x, y, w=None):
    """The metrics of angles between all rows of two matrices, by one product of matrices."""
    if metric == "correlation":
        total = shape_of(x)[-1] if w is None else PUBLIC["sum"](w)
        x, y = (z - (_sum(z, w) / total)[..., None] for z in (x, y))
    sizes = _root(_sum(x * x, w))[:, None] * _root(_sum(y * y, w))
    return 1.0 - PUBLIC["matmul"](x if w is None else x * w, y.T) / sizes


def cdist(XA, XB, metric="euclidean", *, out=None, **kwargs):  # noqa: N803
    a, b = _points("XA", XA), _points("XB", XB)
    if shape_of(a)[1] != shape_of(b)[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    one, options = _metric("cdist", metric, {"out": out, **kwargs}, a, b)
    if one in (cosine, correlation):
        return _cosines(one.__name__, a, b, **options)
    made = _of_pairs(one.__name__, options, a, b, False)
    return one(a[:, None, :], b[None, :, :], **options) if made is None else made


def pdist(X, metric="euclidean", *, out=None, **kwargs):  # noqa: N803
    x = _points("X", X)
    one, options = _metric("pdist", metric, {"out": out, **kwargs}, x)
    made = _of_pairs(one.__name__, options, x, x, True)
    if made is not None:
        return made
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


def directed_hausdorff(u, v, rng=0, *, seed=None):
    """The distance of the point of u that is farthest from v, and the two points' indices."""
    u, v = _points("u", u), _points("v", v)
    if shape_of(u)[1] != shape_of(v)[1]:
        raise ValueError("u and v need to have the same number of columns")
    every = cdist(u, v)
    i = PUBLIC["argmax"](PUBLIC["min"](every, axis=1))
    j = PUBLIC["argmin"](every[i])
    return euclidean(u[i], v[j]), i, j


for _one in (cdist, pdist, squareform, directed_hausdorff):
    OURS[f"spatial.distance.{_one.__name__}"] = _one
