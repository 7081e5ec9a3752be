"""SciPy's `ndimage` for recorded values: images that are shifted, zoomed, turned, sampled."""

from __future__ import annotations

import functools
import operator
import warnings

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import fixed, lost_derivative, named, steered
from .._core.tensor.values import shape_of
from . import _ndimage_splines as splines
from ._differentiable import OURS, is_before
from ._ndimage_arguments import axis_of, each, entered, floats, known_mode, numbers_of

# --- coefficients ---------------------------------------------------------------------------------


@entered(linear=True)
def spline_filter1d(input, order=3, axis=-1, output=np.float64, mode="mirror"):
    if not 0 <= operator.index(order) <= 5:
        raise RuntimeError("spline order not supported")
    if order < 2:
        return input
    return splines.along(input, order, axis_of(axis, len(shape_of(input))), known_mode(mode))


@entered(linear=True)
def spline_filter(input, order=3, output=np.float64, mode="mirror"):
    if not 2 <= operator.index(order) <= 5:
        raise RuntimeError("spline order not supported")
    return splines.coefficients(input, order, known_mode(mode), len(shape_of(input)))


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
    image = splines.prepared(input, (order, mode, cval, prefilter), ndim)
    return splines.at_points(image, [coordinates[k] for k in range(ndim)])


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
    return splines.at_points(image, coordinates)


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
    image = splines.prepared(input, (order, mode, cval, prefilter), ndim)
    if len(shape_of(matrix)) == 2:
        if shape_of(matrix)[1] != len(shape):
            raise RuntimeError("affine matrix has wrong number of columns")
        return _moved(image, matrix, offset, shape)
    if len(shape) != ndim:
        raise RuntimeError("output_shape must have as many axes as the image")
    return splines.on_grid(
        image,
        [(np.arange(n) + offset[k] / matrix[k]) * matrix[k] for k, n in enumerate(shape)],
    )


@entered("shift", "cval", linear=True)
def shift(input, shift, output=None, order=3, mode="constant", cval=0.0, prefilter=True):
    ndim = len(shape_of(input))
    if not ndim:
        raise RuntimeError("input and output rank must be > 0")
    shifts = numbers_of(shift, ndim)
    image = splines.prepared(input, (order, mode, cval, prefilter), ndim)
    pairs = zip(shape_of(input), shifts, strict=True)
    return splines.on_grid(image, [np.arange(float(n)) + -one for n, one in pairs])


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
    image = splines.prepared(input, (order, mode, cval, prefilter), len(shape))
    if all(one == 1 for one in factors) and prefilter and not is_before("1.16.0"):
        return input
    if grid_mode and mode in ("constant", "wrap"):
        warnings.warn(
            f"It is recommended to use mode = grid-{mode} instead of {mode} when grid_mode is "
            "True.",
            stacklevel=4,
        )
    sizes = [(round(n * one), n) for n, one in zip(shape, factors, strict=True)]
    return splines.on_grid(image, [_zoomed(k, n, grid_mode) for k, n in sizes])


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
    image = splines.prepared(x, (order, mode, cval, prefilter), 2)
    return PUBLIC["moveaxis"](_moved(image, matrix, offset, turned), (-2, -1), axes)
