"""Splines for `scipy.ndimage`: their coefficients, and values at places given by coordinates.

A value is a sum over the neighbours of a place along each axis: of a coefficient and of the basis
functions of that axis. The neighbours are a choice by the coordinates; the basis functions are
polynomials in the distance from them.
"""

from __future__ import annotations

import functools
import math
import operator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import image_filters as splines
from .._core.tensor.trace import named, steered
from .._core.tensor.values import shape_of
from ._ndimage_arguments import known_mode, like, of_scipy

#: The modes in which coefficients beyond the ends are those of the mirrored image.
_MIRRORED = ("constant", "wrap")
#: How many elements SciPy adds at each end in modes that its splines do not have.
PADDED = 12


class Axis(NamedTuple):
    """What places on an axis depend on: its length, the order of splines, and the mode."""

    n: int
    order: int
    mode: str


# --- coefficients ---------------------------------------------------------------------------------


def along(x, order: int, axis: int, mode: str):
    """Coefficients of splines along an axis, counted from the end."""
    n = shape_of(x)[axis]
    if splines.is_exact(n, mode):
        return splines.spline_coefficients(x, order=order, axis=axis, mode=mode)
    matrix = of_scipy("spline_filter1d")(np.eye(n), order, 0, mode=mode)
    made = PUBLIC["matmul"](PUBLIC["moveaxis"](x, axis, -1), like(matrix.T, x))
    return PUBLIC["moveaxis"](made, -1, axis)


def coefficients(x, order: int, mode: str, ndim: int):
    """Coefficients along the last axes."""
    for axis in range(-ndim, 0) if order > 1 else ():
        x = along(x, order, axis, mode)
    return x


class Image(NamedTuple):
    """Coefficients, of which the last axes are interpolated along, and what else SciPy needs."""

    coefficients: Any
    axes: list[Axis]
    cval: Any
    #: How many elements were added at each end.
    added: int

    @property
    def is_cut(self) -> bool:
        """Whether places beyond the ends have another value."""
        return self.axes[0].mode == "constant"


def prepared(x, options: tuple, ndim: int) -> Image:
    """What SciPy interpolates by; options are order, mode, cval, and prefilter."""
    order, mode, cval, prefilter = options
    if not 0 <= operator.index(order) <= 5:
        raise RuntimeError("spline order not supported")
    mode, cval, added = known_mode(mode), like(cval, x), 0
    if prefilter and order > 1:
        if mode in ("nearest", "grid-constant"):
            added = PADDED
            widths = [(0, 0)] * (len(shape_of(x)) - ndim) + [(added, added)] * ndim
            how = {"mode": "edge"} if mode == "nearest" else {"constant_values": cval}
            x = PUBLIC["pad"](x, widths, **how)
        x = coefficients(x, order, mode, ndim)
    lengths = shape_of(x)[len(shape_of(x)) - ndim :]
    return Image(x, [Axis(n, order, mode) for n in lengths], cval, added)


# --- places ---------------------------------------------------------------------------------------


def _inside(x: np.ndarray, n: int, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates as those of elements of an axis, as SciPy's code has it; −1 for constants.

    And whether they increase with those given, 1, decrease, −1, or stay, 0. In the modes "nearest"
    and "grid-constant" they are given, and the neighbours may be beyond the ends.
    """
    stays, moves = np.zeros(x.shape), np.ones(x.shape)
    if mode in ("nearest", "grid-constant"):
        return x, moves
    is_below, is_above = x < 0, x > n - 1
    if mode == "constant" or n <= 1:
        other = -1.0 if mode == "constant" else 0.0
        is_beyond = is_below | is_above
        return np.where(is_beyond, other, x), np.where(is_beyond, stays, moves)
    below, turns_below = _from_below(x, n, mode)
    above, turns_above = _from_above(x, n, mode)
    turned = (is_below & turns_below) | (is_above & turns_above)
    return np.where(is_below, below, np.where(is_above, above, x)), np.where(turned, -1.0, moves)


def _from_below(x, n: int, mode: str):
    """Coordinates below the first element, and where they are turned round."""
    if mode == "mirror":
        period = 2 * n - 2
        x = period * np.trunc(-x / period) + x
        turned = x > 1 - n
        return np.where(turned, -x, x + period), turned
    if mode in ("reflect", "grid-mirror"):
        period = 2 * n
        x = np.where(x < -period, period * np.trunc(-x / period) + x, x)
        turned = x >= -n
        return np.where(turned, np.where(x > -1e-15, 1e-15, -x) - 1, x + period), turned
    if mode == "wrap":
        return x + (n - 1) * (np.trunc(-x / (n - 1)) + 1), False
    return x + n * (np.trunc((-1 - x) / n) + 1), False


def _from_above(x, n: int, mode: str):
    """Coordinates above the last element, and where they are turned round."""
    periods = {"mirror": 2 * n - 2, "wrap": n - 1, "grid-wrap": n}
    period = periods.get(mode, 2 * n)
    x = x - period * np.trunc(x / period)
    if mode in ("wrap", "grid-wrap"):
        return x, False
    turned = x >= n
    return np.where(turned, period - x - (mode != "mirror"), x), turned


def _first(mapped, axis: Axis):
    """The element that the place is measured from."""
    return np.floor(mapped if axis.order % 2 else mapped + 0.5)


@named("ndimage.neighbours")
def _neighbours(x, n, order, mode):
    """The elements that contribute to values at places, along a new last axis; −1 for constants."""
    if not np.isfinite(x).all():
        raise ValueError("tapegrad.scipy.ndimage: a coordinate is not finite")
    axis = Axis(n, order, mode)
    mapped, _ = _inside(np.asarray(x, float), n, mode)
    at = _first(mapped, axis)[..., None] - order // 2 + np.arange(order + 1)
    if mode == "grid-constant":
        return np.where((at < 0) | (at >= n), -1, at).astype(np.intp)
    at, _ = _inside(at, n, "mirror" if mode in _MIRRORED else mode)
    return np.clip(at, 0, n - 1).astype(np.intp)


@named("ndimage.distances")
def _distances(x, n, order, mode):
    """The distances of places from an element."""
    mapped, _ = _inside(np.asarray(x, float), n, mode)
    return mapped - _first(mapped, Axis(n, order, mode))


@named("ndimage.directions")
def _directions(x, n, order, mode):
    """Whether places on the axis increase with coordinates, as numbers."""
    return _inside(np.asarray(x, float), n, mode)[1]


@named("ndimage.is_inside")
def _is_inside(x, n):
    return (np.asarray(x) >= 0) & (np.asarray(x) <= n - 1)


def _itself(x):
    return np.array(x, float)


named("ndimage.itself")(_itself)


# --- basis functions ------------------------------------------------------------------------------


@functools.cache
def _polynomials(order: int) -> np.ndarray:
    """Coefficients of the basis functions of the neighbours, by power of the distance.

    The distance is from the element below the place, or from the nearest if the order is even.
    """
    half = Fraction(1 - order % 2, 2)
    found = [[Fraction(0)] * (order + 1) for _ in range(order + 1)]
    for k in range(order + 1):
        for j in range(order - k + 1):
            factor = Fraction((-1) ** j * math.comb(order + 1, j), math.factorial(order))
            shift = half + order - k - j
            for power in range(order + 1):
                part = math.comb(order, power) * shift ** (order - power)
                found[power][k] += factor * part
    return np.array(found, float)


def weights(x, axis: Axis):
    """The basis functions of the neighbours of places, along a new last axis."""
    static = axis._asdict()
    distances = steered(_distances, x, **static)
    # the derivative to the coordinates, added to distances that are exact
    moved = steered(_directions, x, **static) * (x - steered(_itself, x))
    t = PUBLIC["expand_dims"](distances + moved, -1)
    powers = _polynomials(axis.order)
    made = powers[-1]
    for one in powers[-2::-1]:
        made = made * t + one
    return made + 0.0 * t if axis.order == 0 else made


# --- values ---------------------------------------------------------------------------------------


@named("ndimage.flat_places")
def _flat_places(*neighbours, shape):
    """The places of products of neighbours along the axes; the last one for constants."""
    size, ndim = math.prod(shape), len(shape)
    total, is_outside = 0, False
    for k, at in enumerate(neighbours):
        at = np.reshape(at, (*at.shape[:-1], *[1] * k, at.shape[-1], *[1] * (ndim - 1 - k)))
        total = total * shape[k] + at
        is_outside = is_outside | (at < 0)
    return np.where(is_outside, size, total)


def _with_constant(x, cval, ndim: int):
    """The elements of the last axes in one line, and after them the value beyond the ends."""
    front = shape_of(x)[: len(shape_of(x)) - ndim]
    x = PUBLIC["reshape"](x, (*front, math.prod(shape_of(x)[len(front) :])))
    return PUBLIC["concatenate"]([x, PUBLIC["broadcast_to"](cval, (*front, 1))], axis=-1)


def at_points(image: Image, coordinates: list):
    """Values at points, of which each has a coordinate of every axis."""
    count, shape = len(coordinates), tuple(axis.n for axis in image.axes)
    places = [one + image.added if image.added else one for one in coordinates]
    pairs = [*zip(places, image.axes, strict=True)]
    neighbours = [steered(_neighbours, one, **axis._asdict()) for one, axis in pairs]
    flat = steered(_flat_places, *neighbours, shape=shape)
    made = PUBLIC["take"](_with_constant(image.coefficients, image.cval, count), flat, axis=-1)
    for k, (one, axis) in reversed([*enumerate(pairs)]):
        by = like(weights(one, axis), image.coefficients)
        by = PUBLIC["reshape"](by, (*shape_of(by)[:-1], *[1] * k, shape_of(by)[-1]))
        made = PUBLIC["sum"](made * by, axis=-1)
    if not image.is_cut:
        return made
    found = [steered(_is_inside, one, n=axis.n) for one, axis in pairs]
    return PUBLIC["where"](functools.reduce(operator.and_, found), made, image.cval)


def on_grid(image: Image, coordinates: list):
    """Values at all points of a grid, given by the coordinates along each axis."""
    x, inside = image.coefficients, True
    for k, (one, axis) in enumerate(zip(coordinates, image.axes, strict=True)):
        one = one + image.added if image.added else one
        places = steered(_neighbours, one, **axis._asdict())
        lines = _with_constant(PUBLIC["moveaxis"](x, k, -1), image.cval, 1)
        made = PUBLIC["take"](lines, places, axis=-1)
        made = PUBLIC["sum"](made * like(weights(one, axis), x), axis=-1)
        x = PUBLIC["moveaxis"](made, -1, k)
        if image.is_cut:
            found = steered(_is_inside, one, n=axis.n)
            inside = inside & PUBLIC["reshape"](found, (-1, *[1] * (len(coordinates) - 1 - k)))
    return PUBLIC["where"](inside, x, image.cval) if image.is_cut else x
