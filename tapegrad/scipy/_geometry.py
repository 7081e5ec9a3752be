"""Further functions of SciPy's `spatial`, `cluster.vq` and `constants` for recorded values."""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

from .. import numpy as np
from .._core.operations.sylvester import orthogonal_procrustes
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost, learned, steered
from .._core.tensor.values import dtype_of, shape_of, value_of
from ._class_stand_ins import RefusingClass
from ._differentiable import OURS, is_before
from ._distances import METRICS, _floats, _root

_PLACE = "tapegrad.scipy.spatial"


def _entered(package: str):
    def enter(function):
        OURS[f"{package}.{function.__name__}"] = function
        return function

    return enter


def _holds(answer, what: str) -> bool:
    learned(answer, what)
    return bool(value_of(answer))


# --- distances ------------------------------------------------------------------------------------


def _power(name: str, p) -> float:
    if not none_traced((p,)):
        raise DerivativeLost(f"{_PLACE}.{name}: p is recorded; give a plain number")
    if not p >= 1:
        raise DerivativeLost(f"{_PLACE}.{name}: with p={p} it has no derivative here; give p ≥ 1")
    return float(p)


@_entered("spatial")
def minkowski_distance_p(x, y, p=2.0):
    p = _power("minkowski_distance_p", p)
    size = np.absolute(_floats(x) - _floats(y))
    if p == math.inf:
        return np.max(size, axis=-1)
    return np.sum(size if p == 1.0 else size**p, axis=-1)


@_entered("spatial")
def minkowski_distance(x, y, p=2.0):
    p = _power("minkowski_distance", p)
    if p in (1.0, math.inf):
        return minkowski_distance_p(x, y, p)
    x, y = _floats(x), _floats(y)
    return METRICS["euclidean"](x, y) if p == 2.0 else METRICS["minkowski"](x, y, p)


@_entered("spatial")
def distance_matrix(x, y, p=2.0, threshold=1000000):
    x, y = _floats(x), _floats(y)
    if shape_of(x)[-1] != shape_of(y)[-1]:
        raise ValueError(
            f"x contains {shape_of(x)[-1]}-dimensional vectors but y contains "
            f"{shape_of(y)[-1]}-dimensional vectors"
        )
    return OURS["spatial.distance.cdist"](x, y, "minkowski", p=_power("distance_matrix", p))


# --- forms ----------------------------------------------------------------------------------------


@_entered("spatial")
def procrustes(data1, data2):
    """Two sets of points in standard form, the second turned and scaled to the first."""
    one, two = _floats(data1), _floats(data2)
    if len(shape_of(one)) != 2 or len(shape_of(two)) != 2:
        raise ValueError("Input matrices must be two-dimensional")
    if shape_of(one) != shape_of(two):
        raise ValueError("Input matrices must be of same shape")
    if not math.prod(shape_of(one)):
        raise ValueError("Input matrices must be >0 rows and >0 cols")
    one, two = one - np.mean(one, axis=0), two - np.mean(two, axis=0)
    squares = np.sum(one * one), np.sum(two * two)
    if _holds((squares[0] == 0.0) | (squares[1] == 0.0), "scipy.spatial.procrustes()"):
        raise ValueError("Input matrices must contain >1 unique points")
    one, two = one / np.sqrt(squares[0]), two / np.sqrt(squares[1])
    turn, scale = orthogonal_procrustes(one, two)
    two = scale * np.matmul(two, turn.T)
    return one, two, np.sum((one - two) ** 2)


@_entered("spatial")
def geometric_slerp(start, end, t, tol=1e-7):
    """The path between two points on a sphere, at parts of its length."""
    start, end, t = _floats(start), _floats(end), _floats(t)
    if len(shape_of(t)) > 1:
        raise ValueError("The interpolation parameter value must be one dimensional.")
    if len(shape_of(start)) != 1 or shape_of(start) != shape_of(end) or shape_of(start)[0] < 2:
        raise ValueError("Start and end coordinates must be one-dimensional, of the same size ≥ 2")
    what = "scipy.spatial.geometric_slerp()"
    if is_before("1.17.0") and _holds(np.any((t < 0.0) | (t > 1.0)), what):
        raise ValueError("interpolation parameter must be in [0, 1]")
    if _holds(np.all(start == end), what):
        raise DerivativeLost(
            f"{_PLACE}.geometric_slerp: start and end are equal, where its derivative does not "
            "follow from SciPy's value; return start for such points"
        )
    for one in (start, end):
        if _holds(np.absolute(np.sqrt(np.sum(one * one)) - 1.0) > 1e-9, what):
            raise ValueError("start and end are not on a unit n-sphere")
    distance = np.sqrt(np.sum((start - end) ** 2))
    if _holds(np.absolute(distance - 2.0) <= abs(tol), what):
        warnings.warn(
            "start and end are antipodes using the specified tolerance; this may cause ambiguous "
            "slerp paths",
            stacklevel=4,
        )
    length = np.sqrt(np.sum(start * start))
    first = start / length
    across = end - np.sum(first * end) * first
    size = np.sqrt(np.sum(across * across))
    angle = np.arctan2(length * size, np.sum(start * end))
    turned = (angle * t)[..., None]
    return np.cos(turned) * first + np.sin(turned) * (across / size)


for _name in "ConvexHull Delaunay HalfspaceIntersection SphericalVoronoi Voronoi".split():
    OURS[f"spatial.{_name}"] = RefusingClass


# --- clusters -------------------------------------------------------------------------------------


def _codes(points, book):
    return importlib.import_module("scipy.cluster.vq").vq(points, book)[0]


def _finite(x, check: bool, name: str):
    if check and _holds(~np.all(np.isfinite(x)), name):
        raise ValueError("array must not contain infs or NaNs")
    return x


@_entered("cluster.vq")
def vq(obs, code_book, check_finite=True):
    """The nearest code of each observation, an answer, and the distances."""
    dtype = np.result_type(dtype_of(obs), dtype_of(code_book))
    obs, book = (
        _finite(_floats(x), check_finite, "scipy.cluster.vq.vq()") for x in (obs, code_book)
    )
    if len(shape_of(obs)) != len(shape_of(book)):
        raise ValueError("Observation and code_book should have the same rank")
    if len(shape_of(obs)) == 1:
        obs, book = obs[:, None], book[:, None]
    codes = steered(_codes, obs, book)
    found = METRICS["euclidean"](obs, np.take(book, codes, axis=0))
    return codes, found.astype(np.float32) if dtype == np.float32 else found


@_entered("cluster.vq")
def whiten(obs, check_finite=None):
    """Observations over the standard deviation of each column, those of deviation 0 as they are."""
    obs = _finite(obs, check_finite is not False, "scipy.cluster.vq.whiten()")
    squares = np.var(obs, axis=0)
    is_none = squares == 0.0
    if _holds(np.any(is_none), "scipy.cluster.vq.whiten()"):
        warnings.warn(
            "Some columns have standard deviation zero. The values of these columns will not "
            "change.",
            RuntimeWarning,
            stacklevel=3,
        )
    return obs / np.where(is_none, 1.0, _root(squares))


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


@_entered("constants")
def convert_temperature(val, old_scale, new_scale):
    _constants().convert_temperature(0.0, old_scale, new_scale)  # it knows the names
    in_kelvin = _TO_KELVIN[old_scale[0].lower()](np.asarray(val))
    return _FROM_KELVIN[new_scale[0].lower()](in_kelvin)


@_entered("constants")
def lambda2nu(lambda_):
    return _constants().c / np.asarray(lambda_)


@_entered("constants")
def nu2lambda(nu):
    return _constants().c / np.asarray(nu)
