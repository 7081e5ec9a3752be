"""SciPy's `KDTree` and `cKDTree` for recorded points: which neighbours there are is an answer."""

from __future__ import annotations

import importlib
from typing import Any

from .. import numpy as np
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost, refuse, steered
from .._core.tensor.values import shape_of, value_of
from ._class_stand_ins import ClassStandIn
from ._differentiable import OURS
from ._distances import METRICS, _floats

_PLACE = "tapegrad.scipy.spatial.KDTree"
#: What a tree of recorded points tells of itself beside them.
_PLAIN = frozenset("n m leafsize boxsize size".split())
_BY_POWER = {1.0: "cityblock", 2.0: "euclidean", float("inf"): "chebyshev"}


def kinds() -> tuple[type, ...]:
    """SciPy's classes of trees."""
    spatial = importlib.import_module("scipy.spatial")
    return spatial.KDTree, spatial.cKDTree


def _nearest(x, data, tree, options):
    """The indices of neighbours; the tree is made anew if it is one of other points."""
    if not np.array_equal(tree.data, data):
        tree = type(tree)(data, tree.leafsize)
    return tree.query(x, **options)[1]


def _theirs_of(x):
    return x.theirs if isinstance(x, TreeTensor) else value_of(x) if rt.in_transform() else x


def _lost(name: str) -> DerivativeLost:
    return DerivativeLost(
        f"{_PLACE}.{name}: it has no derivative of recorded points; use query, or KDTree of "
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
            raise DerivativeLost(f"{_PLACE}.query: only the points may be recorded")
        if self._given is None and none_traced((x,)):
            return self.theirs.query(x, **options)
        if self.theirs.boxsize is not None:
            raise DerivativeLost(f"{_PLACE}.query: recorded points in a box that repeats (boxsize)")
        x = _floats(x)
        index = steered(_nearest, x, self.data, tree=self.theirs, options=options)
        is_one = shape_of(index) == shape_of(x)[:-1]
        count = self.theirs.n
        found = np.take(self.data, np.minimum(index, count - 1), axis=0)
        distance = _distance(x if is_one else x[..., None, :], found, float(p))
        return np.where(index < count, distance, float("inf")), index

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
