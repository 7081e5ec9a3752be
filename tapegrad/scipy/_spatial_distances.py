"""SciPy's `spatial` for recorded values: distances, neighbours, further functions of points."""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

import numpy as np

from .. import numpy as recorded_np
from .._core.operations import PUBLIC
from .._core.operations.pair_distances import LARGEST, SIZES, SQUARES, pair_distances
from .._core.operations.sylvester import orthogonal_procrustes
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost, refuse, steered
from .._core.tensor.values import dtype_of, is_complex, is_tensor, shape_of, value_of
from ._class_stand_ins import ClassStandIn, RefusingClass
from ._differentiable import OURS, holds, in_package, is_before, root

# --- distances ------------------------------------------------------------------------------------
# SciPy's `spatial.distance` for recorded values: distances of vectors, along the last axis.
#
# At equal points, where a distance has no derivative, it is 0.

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


# --- metrics --------------------------------------------------------------------------------------


def euclidean(u, v, w=None):
    return root(_sum((u - v) ** 2, w))


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


def seuclidean(u, v, V):
    return root(_sum((u - v) ** 2 / V))


def mahalanobis(u, v, VI):
    d = u - v
    return root(_sum(PUBLIC["matmul"](d, VI) * d))


def cosine(u, v, w=None):
    size = root(_sum(u * u, w)) * root(_sum(v * v, w))
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
    return root(0.5 * (total if base is None else total / np.log(base)))


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
    return made if kind != SQUARES or name == "sqeuclidean" else root(made)


def _cosines(metric: str, x, y, w=None):
    """The metrics of angles between all rows of two matrices, by one product of matrices."""
    if metric == "correlation":
        total = shape_of(x)[-1] if w is None else PUBLIC["sum"](w)
        x, y = (z - (_sum(z, w) / total)[..., None] for z in (x, y))
    sizes = root(_sum(x * x, w))[:, None] * root(_sum(y * y, w))
    return 1.0 - PUBLIC["matmul"](x if w is None else x * w, y.T) / sizes


def cdist(XA, XB, metric="euclidean", *, out=None, **kwargs):
    a, b = _points("XA", XA), _points("XB", XB)
    if shape_of(a)[1] != shape_of(b)[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    one, options = _metric("cdist", metric, {"out": out, **kwargs}, a, b)
    if one in (cosine, correlation):
        return _cosines(one.__name__, a, b, **options)
    made = _of_pairs(one.__name__, options, a, b, False)
    return one(a[:, None, :], b[None, :, :], **options) if made is None else made


def pdist(X, metric="euclidean", *, out=None, **kwargs):
    x = _points("X", X)
    one, options = _metric("pdist", metric, {"out": out, **kwargs}, x)
    made = _of_pairs(one.__name__, options, x, x, True)
    if made is not None:
        return made
    i, j = np.triu_indices(shape_of(x)[0], 1)
    return one(x[i], x[j], **options)


def squareform(X, force="no", checks=True):
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


# --- neighbours -----------------------------------------------------------------------------------
# SciPy's `KDTree` and `cKDTree` for recorded points: which neighbours there are is an answer.

_TREE_PLACE = "tapegrad.scipy.spatial.KDTree"
#: What a tree of recorded points tells of itself beside them.
_PLAIN = frozenset("n m leafsize boxsize size".split())
_BY_POWER = {1.0: "cityblock", 2.0: "euclidean", float("inf"): "chebyshev"}


def kinds() -> tuple[type, ...]:
    """SciPy's classes of trees."""
    spatial = importlib.import_module("scipy.spatial")
    return spatial.KDTree, spatial.cKDTree


def _nearest(x, data, tree, options):
    """The indices of neighbours; the tree is made anew if it is one of other points."""
    if not recorded_np.array_equal(tree.data, data):
        tree = type(tree)(data, tree.leafsize)
    return tree.query(x, **options)[1]


def _theirs_of(x):
    return x.theirs if isinstance(x, TreeTensor) else value_of(x) if rt.in_transform() else x


def _lost(name: str) -> DerivativeLost:
    return DerivativeLost(
        f"{_TREE_PLACE}.{name}: it has no derivative of recorded points; use query, or KDTree of "
        "x.detach().numpy()"
    )


class TreeTensor:
    """A tree of points that may be recorded, or that is asked with recorded ones.

    Distances have derivatives, at equal points 0; indices, numbers and lists have none.

    Attributes
    ----------
    data
        The points.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> from tapegrad.scipy.spatial import KDTree
    >>> places = [[0.0, 0.0], [3.0, 4.0]]
    >>> print(tg.grad(lambda x: KDTree(places).query(x)[0])(np.array([6.0, 8.0])))
    [0.6 0.8]
    """

    def __init__(self, theirs: Any, data: Any = None):
        self.theirs, self._given = theirs, data

    @property
    def stands_for(self) -> type:
        """SciPy's class, for `isinstance`."""
        return type(self.theirs)

    @property
    def plain_object(self) -> Any:
        """SciPy's object; None of recorded points."""
        return self.theirs if self._given is None else None

    @property
    def data(self):
        return self.theirs.data if self._given is None else self._given

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self.theirs, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self._given is None or name in _PLAIN:
            return getattr(self.theirs, name)
        raise _lost(name)

    def query(self, x, k=1, eps=0.0, p=2.0, distance_upper_bound=float("inf"), workers=1):
        options = {"k": k, "eps": eps, "p": p, "distance_upper_bound": distance_upper_bound}
        options["workers"] = workers
        if not none_traced((*options.values(),)):
            raise DerivativeLost(f"{_TREE_PLACE}.query: only the points may be recorded")
        if self._given is None and none_traced((x,)):
            return self.theirs.query(x, **options)
        if self.theirs.boxsize is not None:
            raise DerivativeLost(
                f"{_TREE_PLACE}.query: recorded points in a box that repeats (boxsize)"
            )
        x = _floats(x)
        index = steered(_nearest, x, self.data, tree=self.theirs, options=options)
        is_one = shape_of(index) == shape_of(x)[:-1]
        count = self.theirs.n
        found = recorded_np.take(self.data, recorded_np.minimum(index, count - 1), axis=0)
        distance = _distance(x if is_one else x[..., None, :], found, float(p))
        return recorded_np.where(index < count, distance, float("inf")), index

    def sparse_distance_matrix(self, other, max_distance, *args, **keywords):
        given = other.data if isinstance(other, TreeTensor) else other
        if self._given is not None or not none_traced((given, max_distance)):
            raise _lost("sparse_distance_matrix")
        return self.theirs.sparse_distance_matrix(
            _theirs_of(other), max_distance, *args, **keywords
        )


def _distance(x, found, p: float):
    metric: Any = METRICS[_BY_POWER.get(p, "minkowski")]
    return metric(x, found) if p in _BY_POWER else metric(x, found, p)


def _answering(name: str):
    def method(self, *args, **keywords):
        refuse(f"{name} gives lists, or numbers without derivative")
        keywords = {key: _theirs_of(x) for key, x in keywords.items()}
        return getattr(self.theirs, name)(*map(_theirs_of, args), **keywords)

    method.__name__ = name
    setattr(TreeTensor, name, method)


for _name in ("query_ball_point", "query_ball_tree", "query_pairs", "count_neighbors"):
    _answering(_name)


class TreeClass(ClassStandIn):
    """What stands for SciPy's classes of trees."""

    def __call__(self, data, *args, **keywords):
        if none_traced((data,)):
            made = self._theirs(data, *args, **keywords)
            return TreeTensor(made) if rt.in_transform() else made
        data = _floats(data)
        return TreeTensor(self._theirs(value_of(data), *args, **keywords), data)

    def is_ours(self, x) -> bool:
        return isinstance(x, TreeTensor) and isinstance(x.theirs, self._theirs)


OURS["spatial.KDTree"] = OURS["spatial.cKDTree"] = TreeClass


# --- geometry -------------------------------------------------------------------------------------
# Further functions of SciPy's `spatial`, `cluster.vq` and `constants` for recorded values.

_SPATIAL = "tapegrad.scipy.spatial"


# --- distances ------------------------------------------------------------------------------------


def _power(name: str, p) -> float:
    if not none_traced((p,)):
        raise DerivativeLost(f"{_SPATIAL}.{name}: p is recorded; give a plain number")
    if not p >= 1:
        raise DerivativeLost(f"{_SPATIAL}.{name}: with p={p} it has no derivative here; give p ≥ 1")
    return float(p)


@in_package("spatial")
def minkowski_distance_p(x, y, p=2.0):
    p = _power("minkowski_distance_p", p)
    size = recorded_np.absolute(_floats(x) - _floats(y))
    if p == math.inf:
        return recorded_np.max(size, axis=-1)
    return recorded_np.sum(size if p == 1.0 else size**p, axis=-1)


@in_package("spatial")
def minkowski_distance(x, y, p=2.0):
    p = _power("minkowski_distance", p)
    if p in (1.0, math.inf):
        return minkowski_distance_p(x, y, p)
    x, y = _floats(x), _floats(y)
    return METRICS["euclidean"](x, y) if p == 2.0 else METRICS["minkowski"](x, y, p)


@in_package("spatial")
def distance_matrix(x, y, p=2.0, threshold=1000000):
    x, y = _floats(x), _floats(y)
    if shape_of(x)[-1] != shape_of(y)[-1]:
        raise ValueError(
            f"x contains {shape_of(x)[-1]}-dimensional vectors but y contains "
            f"{shape_of(y)[-1]}-dimensional vectors"
        )
    return OURS["spatial.distance.cdist"](x, y, "minkowski", p=_power("distance_matrix", p))


# --- forms ----------------------------------------------------------------------------------------


@in_package("spatial")
def procrustes(data1, data2):
    """Two sets of points in standard form, the second turned and scaled to the first."""
    one, two = _floats(data1), _floats(data2)
    if len(shape_of(one)) != 2 or len(shape_of(two)) != 2:
        raise ValueError("Input matrices must be two-dimensional")
    if shape_of(one) != shape_of(two):
        raise ValueError("Input matrices must be of same shape")
    if not math.prod(shape_of(one)):
        raise ValueError("Input matrices must be >0 rows and >0 cols")
    one, two = one - recorded_np.mean(one, axis=0), two - recorded_np.mean(two, axis=0)
    squares = recorded_np.sum(one * one), recorded_np.sum(two * two)
    if holds((squares[0] == 0.0) | (squares[1] == 0.0), "scipy.spatial.procrustes()"):
        raise ValueError("Input matrices must contain >1 unique points")
    one, two = one / recorded_np.sqrt(squares[0]), two / recorded_np.sqrt(squares[1])
    turn, scale = orthogonal_procrustes(one, two)
    two = scale * recorded_np.matmul(two, turn.T)
    return one, two, recorded_np.sum((one - two) ** 2)


@in_package("spatial")
def geometric_slerp(start, end, t, tol=1e-7):
    """The path between two points on a sphere, at parts of its length."""
    start, end, t = _floats(start), _floats(end), _floats(t)
    if len(shape_of(t)) > 1:
        raise ValueError("The interpolation parameter value must be one dimensional.")
    if len(shape_of(start)) != 1 or shape_of(start) != shape_of(end) or shape_of(start)[0] < 2:
        raise ValueError("Start and end coordinates must be one-dimensional, of the same size ≥ 2")
    what = "scipy.spatial.geometric_slerp()"
    if is_before("1.17.0") and holds(recorded_np.any((t < 0.0) | (t > 1.0)), what):
        raise ValueError("interpolation parameter must be in [0, 1]")
    if holds(recorded_np.all(start == end), what):
        raise DerivativeLost(
            f"{_SPATIAL}.geometric_slerp: start and end are equal, where its derivative does not "
            "follow from SciPy's value; return start for such points"
        )
    for one in (start, end):
        if holds(
            recorded_np.absolute(recorded_np.sqrt(recorded_np.sum(one * one)) - 1.0) > 1e-9, what
        ):
            raise ValueError("start and end are not on a unit n-sphere")
    distance = recorded_np.sqrt(recorded_np.sum((start - end) ** 2))
    if holds(recorded_np.absolute(distance - 2.0) <= abs(tol), what):
        warnings.warn(
            "start and end are antipodes using the specified tolerance; this may cause ambiguous "
            "slerp paths",
            stacklevel=4,
        )
    length = recorded_np.sqrt(recorded_np.sum(start * start))
    first = start / length
    across = end - recorded_np.sum(first * end) * first
    size = recorded_np.sqrt(recorded_np.sum(across * across))
    angle = recorded_np.arctan2(length * size, recorded_np.sum(start * end))
    turned = (angle * t)[..., None]
    return recorded_np.cos(turned) * first + recorded_np.sin(turned) * (across / size)


for _name in "ConvexHull Delaunay HalfspaceIntersection SphericalVoronoi Voronoi".split():
    OURS[f"spatial.{_name}"] = RefusingClass


# --- clusters -------------------------------------------------------------------------------------


def _codes(points, book):
    return importlib.import_module("scipy.cluster.vq").vq(points, book)[0]


def _finite(x, check: bool, name: str):
    if check and holds(~recorded_np.all(recorded_np.isfinite(x)), name):
        raise ValueError("array must not contain infs or NaNs")
    return x


@in_package("cluster.vq")
def vq(obs, code_book, check_finite=True):
    """The nearest code of each observation, an answer, and the distances."""
    dtype = recorded_np.result_type(dtype_of(obs), dtype_of(code_book))
    obs, book = (
        _finite(_floats(x), check_finite, "scipy.cluster.vq.vq()") for x in (obs, code_book)
    )
    if len(shape_of(obs)) != len(shape_of(book)):
        raise ValueError("Observation and code_book should have the same rank")
    if len(shape_of(obs)) == 1:
        obs, book = obs[:, None], book[:, None]
    codes = steered(_codes, obs, book)
    found = METRICS["euclidean"](obs, recorded_np.take(book, codes, axis=0))
    return codes, found.astype(recorded_np.float32) if dtype == recorded_np.float32 else found


@in_package("cluster.vq")
def whiten(obs, check_finite=None):
    """Observations over the standard deviation of each column, those of deviation 0 as they are."""
    obs = _finite(obs, check_finite is not False, "scipy.cluster.vq.whiten()")
    squares = recorded_np.var(obs, axis=0)
    is_none = squares == 0.0
    if holds(recorded_np.any(is_none), "scipy.cluster.vq.whiten()"):
        warnings.warn(
            "Some columns have standard deviation zero. The values of these columns will not "
            "change.",
            RuntimeWarning,
            stacklevel=3,
        )
    return obs / recorded_np.where(is_none, 1.0, root(squares))


# --- constants ------------------------------------------------------------------------------------


def _constants() -> Any:
    return importlib.import_module("scipy.constants")


_ZERO = 273.15
#: By the first letter of a scale, the temperature in kelvin, and the other way.
_TO_KELVIN = {
    "c": lambda t: t + _ZERO,
    "k": lambda t: t,
    "f": lambda t: (t - 32) * 5 / 9 + _ZERO,
    "r": lambda t: t * 5 / 9,
}
_FROM_KELVIN = {
    "c": lambda t: t - _ZERO,
    "k": lambda t: t,
    "f": lambda t: (t - _ZERO) * 9 / 5 + 32,
    "r": lambda t: t * 9 / 5,
}


@in_package("constants")
def convert_temperature(val, old_scale, new_scale):
    _constants().convert_temperature(0.0, old_scale, new_scale)  # it knows the names
    in_kelvin = _TO_KELVIN[old_scale[0].lower()](recorded_np.asarray(val))
    return _FROM_KELVIN[new_scale[0].lower()](in_kelvin)


@in_package("constants")
def lambda2nu(lambda_):
    return _constants().c / recorded_np.asarray(lambda_)


@in_package("constants")
def nu2lambda(nu):
    return _constants().c / recorded_np.asarray(nu)
