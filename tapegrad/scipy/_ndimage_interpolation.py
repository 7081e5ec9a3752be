"""SciPy's `ndimage` for recorded values: splines of images, shifted and turned images."""

from __future__ import annotations

import functools
import math
import operator
import warnings
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import image_filters as splines
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import fixed, lost_derivative, named, steered
from .._core.tensor.values import is_complex, shape_of
from ._differentiable import OURS, is_before
from ._ndimage_filters import axis_of, each, entered, floats, known_mode, like, numbers_of, of_scipy

# --- ndimage splines ------------------------------------------------------------------------------
# Splines for `scipy.ndimage`: their coefficients, and values at places given by coordinates.
#
# A value is a sum over the neighbours of a place along each axis: of a coefficient and of the basis
# functions of that axis. The neighbours are a choice by the coordinates; the basis functions are
# polynomials in the distance from them.

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


# --- ndimage interpolation ------------------------------------------------------------------------
# SciPy's `ndimage` for recorded values: images that are shifted, zoomed, turned, sampled.


# --- coefficients ---------------------------------------------------------------------------------


@entered(linear=True)
def spline_filter1d(input, order=3, axis=-1, output=np.float64, mode="mirror"):
    if not 0 <= operator.index(order) <= 5:
        raise RuntimeError("spline order not supported")
    if order < 2:
        return input
    return along(input, order, axis_of(axis, len(shape_of(input))), known_mode(mode))


@entered(linear=True)
def spline_filter(input, order=3, output=np.float64, mode="mirror"):
    if not 2 <= operator.index(order) <= 5:
        raise RuntimeError("spline order not supported")
    return coefficients(input, order, known_mode(mode), len(shape_of(input)))


# --- points ---------------------------------------------------------------------------------------


@entered("coordinates", "cval", linear=True)
def map_coordinates(
    input, coordinates, output=None, order=3, mode="constant", cval=0.0, prefilter=True
):
    coordinates = unlisted(coordinates)
    if is_complex(coordinates):
        raise TypeError("Complex type not supported")
    coordinates, ndim = floats(coordinates), len(shape_of(input))
    if not ndim or len(shape_of(coordinates)) < 2:
        raise RuntimeError("input and output rank must be > 0")
    if shape_of(coordinates)[0] != ndim:
        raise RuntimeError("invalid shape for coordinate array")
    image = prepared(input, (order, mode, cval, prefilter), ndim)
    return at_points(image, [coordinates[k] for k in range(ndim)])


def _refused(input, mapping, *args, **kwargs):
    raise lost_derivative(
        "tapegrad.scipy.ndimage.geometric_transform: SciPy calls the mapping with plain numbers, "
        "for one point after the other; compute the coordinates of all points, and call "
        "map_coordinates with them",
        input,
        args,
        kwargs,
    )


OURS["ndimage.geometric_transform"] = _refused


# --- linear maps ----------------------------------------------------------------------------------


@named("ndimage.is_last_row")
def _is_last_row(row):
    return bool(np.all(row == [0.0] * (len(row) - 1) + [1.0]))


def _homogeneous(matrix, offset, ndim: int):
    """The matrix and the offset, which a matrix of one more column contains."""
    rows, *columns = shape_of(matrix)
    if columns != [ndim + 1] or rows not in (ndim, ndim + 1):
        return matrix, offset
    if rows == ndim + 1:
        if not fixed(steered(_is_last_row, matrix[ndim]), "matrix of affine_transform()"):
            raise ValueError("the last row of a homogeneous matrix must be 0, …, 0, 1")
    return matrix[:ndim, :ndim], matrix[:ndim, ndim]


def _moved(image, matrix, offset, shape):
    """Values at the points b + A p for all points p of a grid.

    The sums are SciPy's to the bit, since points at the ends would else be beyond them.
    """
    points, coordinates = np.ogrid[tuple(slice(0.0, n) for n in shape)], []
    for k in range(len(image.axes)):
        parts = [along * matrix[k, axis] for axis, along in enumerate(points)]
        parts = [*parts, offset[k]] if is_before("1.16.0") else [offset[k], *parts]
        coordinates.append(functools.reduce(operator.add, parts))
    return at_points(image, coordinates)


@entered("matrix", "offset", "cval", linear=True)
def affine_transform(
    input,
    matrix,
    offset=0.0,
    output_shape=None,
    output=None,
    order=3,
    mode="constant",
    cval=0.0,
    prefilter=True,
):
    ndim, matrix = len(shape_of(input)), floats(unlisted(matrix))
    shape = shape_of(input) if output_shape is None else tuple(map(operator.index, output_shape))
    if not ndim or not shape:
        raise RuntimeError("input and output rank must be > 0")
    if len(shape_of(matrix)) not in (1, 2) or shape_of(matrix)[0] < 1:
        raise RuntimeError("no proper affine matrix provided")
    matrix, offset = _homogeneous(matrix, offset, ndim)
    if shape_of(matrix)[0] != ndim:
        raise RuntimeError("affine matrix has wrong number of rows")
    offset = numbers_of(offset, ndim)
    image = prepared(input, (order, mode, cval, prefilter), ndim)
    if len(shape_of(matrix)) == 2:
        if shape_of(matrix)[1] != len(shape):
            raise RuntimeError("affine matrix has wrong number of columns")
        return _moved(image, matrix, offset, shape)
    if len(shape) != ndim:
        raise RuntimeError("output_shape must have as many axes as the image")
    return on_grid(
        image,
        [(np.arange(n) + offset[k] / matrix[k]) * matrix[k] for k, n in enumerate(shape)],
    )


@entered("shift", "cval", linear=True)
def shift(input, shift, output=None, order=3, mode="constant", cval=0.0, prefilter=True):
    ndim = len(shape_of(input))
    if not ndim:
        raise RuntimeError("input and output rank must be > 0")
    shifts = numbers_of(shift, ndim)
    image = prepared(input, (order, mode, cval, prefilter), ndim)
    pairs = zip(shape_of(input), shifts, strict=True)
    return on_grid(image, [np.arange(float(n)) + -one for n, one in pairs])


def _zoomed(k: int, n: int, is_cells: bool) -> np.ndarray:
    """The coordinates of k elements in place of n: of their middles, or of the cells they are."""
    places = np.arange(float(k))
    if is_cells:
        return (places + 0.5) * (n / k) - 0.5 if k else places
    return places * ((n - 1) / (k - 1) if k != 1 else 1.0)


@entered("cval", linear=True)
def zoom(
    input,
    zoom,
    output=None,
    order=3,
    mode="constant",
    cval=0.0,
    prefilter=True,
    *,
    grid_mode=False,
):
    shape = shape_of(input)
    if not shape:
        raise RuntimeError("input and output rank must be > 0")
    factors = each(zoom, len(shape))
    image = prepared(input, (order, mode, cval, prefilter), len(shape))
    if all(one == 1 for one in factors) and prefilter and not is_before("1.16.0"):
        return input
    if grid_mode and mode in ("constant", "wrap"):
        warnings.warn(
            f"It is recommended to use mode = grid-{mode} instead of {mode} when grid_mode is "
            "True.",
            stacklevel=4,
        )
    sizes = [(round(n * one), n) for n, one in zip(shape, factors, strict=True)]
    return on_grid(image, [_zoomed(k, n, grid_mode) for k, n in sizes])


@named("ndimage.turned_shape")
def _turned_shape(cos, sin, height, width):
    """The shape of a rectangle around a turned one."""
    corners = np.array([[0, 0, height, height], [0, width, 0, width]])
    bounds = np.array([[cos, sin], [-sin, cos]]) @ corners
    return (np.ptp(bounds, axis=1) + 0.5).astype(int)


def _plane(axes, ndim: int) -> list[int]:
    """Two axes, in order."""
    found = [*axes]
    if ndim < 2:
        raise ValueError("input array should be at least 2D")
    if len(found) != 2:
        raise ValueError("axes should contain exactly two values")
    if not all(float(one).is_integer() for one in found):
        raise ValueError("axes should contain only integer values")
    if not all(-ndim <= one < ndim for one in found):
        raise ValueError("invalid rotation plane specified")
    return sorted(int(one) % ndim for one in found)


@entered("angle", "cval", linear=True)
def rotate(
    input,
    angle,
    axes=(1, 0),
    reshape=True,
    output=None,
    order=3,
    mode="constant",
    cval=0.0,
    prefilter=True,
):
    axes = _plane(axes, len(shape_of(input)))
    angle = unlisted(angle)
    cos, sin = (OURS[f"special.{name}"](angle) for name in ("cosdg", "sindg"))
    x = PUBLIC["moveaxis"](input, axes, (-2, -1))
    shape = shape_of(x)[-2:]
    turned = shape
    if reshape:
        found = fixed(steered(_turned_shape, cos, sin, *shape), "angle of rotate()")
        turned = tuple(int(n) for n in found)
    matrix = PUBLIC["reshape"](PUBLIC["stack"]([cos, sin, -sin, cos]), (2, 2))
    middle, of_image = ((np.array(one) - 1) / 2 for one in (turned, shape))
    offset = of_image - PUBLIC["matmul"](matrix, middle)
    image = prepared(x, (order, mode, cval, prefilter), 2)
    return PUBLIC["moveaxis"](_moved(image, matrix, offset, turned), (-2, -1), axes)
