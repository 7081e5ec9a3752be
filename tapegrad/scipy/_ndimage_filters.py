"""SciPy's `ndimage` for recorded values: sums with weights, and means of windows."""

from __future__ import annotations

import operator

from .._core.operations import PUBLIC
from .._core.operations import image_filters as filters
from .._core.operations.moving_means import moving_mean
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.copies import unlisted
from .._core.tensor.refused_derivatives import lost_derivative
from .._core.tensor.values import shape_of
from ._ndimage_arguments import along, axes_of, axis_of, each, entered, floats, number_of

# --- weights --------------------------------------------------------------------------------------


def _weights(name: str, weights, ndim: int | None = None):
    """Weights in double precision."""
    weights = unlisted(weights)
    if is_complex(weights):
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: weights are complex; filter with their real and "
            "imaginary parts, one after the other",
            weights,
        )
    weights = floats(weights)
    if ndim is not None and (len(shape_of(weights)) != ndim or 0 in shape_of(weights)):
        raise RuntimeError("no filter weights given")
    return weights


def _check_origin(origin: int, size: int, text: str) -> None:
    if not -(size // 2) <= origin <= (size - 1) // 2:
        raise ValueError(
            f"Invalid origin; origin must satisfy -({text} // 2) <= origin <= ({text}-1) // 2"
        )


@entered("weights", "cval", linear=True)
def correlate1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    weights = _weights("correlate1d", weights, 1)
    axis = axis_of(axis, len(shape_of(input)))
    _check_origin(origin, shape_of(weights)[0], "len(weights)")
    return along(input, weights, axis, mode, cval, origin)


@entered("weights", "cval", linear=True)
def convolve1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    weights = _weights("convolve1d", weights, 1)
    axis, size = axis_of(axis, len(shape_of(input))), shape_of(weights)[0]
    origin = -origin - (size % 2 == 0)
    _check_origin(origin, size, "len(weights)")
    return along(input, weights[::-1], axis, mode, cval, origin)


def _of_window(name: str, given: tuple, turned: bool):
    """A correlation, or a convolution, with weights of several axes."""
    x, weights, mode, cval, origin, axes = given
    ndim, weights = len(shape_of(x)), _weights(name, weights)
    axes = [axis + ndim for axis in axes_of(axes, ndim)]
    if len(shape_of(weights)) != len(axes) or 0 in shape_of(weights):
        raise RuntimeError(
            f"weights.ndim ({len(shape_of(weights))}) must match len(axes) ({len(axes)})"
        )
    if not isinstance(mode, str):
        raise RuntimeError("A sequence of modes is not supported")
    origins, sizes = [0] * ndim, [1] * ndim
    for axis, one, size in zip(axes, each(origin, len(axes)), shape_of(weights), strict=True):
        one = operator.index(one)
        origins[axis] = -one - (size % 2 == 0) if turned else one
        sizes[axis] = size
        _check_origin(origins[axis], size, "weights.shape[k]")
    if turned:
        weights = weights[(slice(None, None, -1),) * len(axes)]
    # SciPy, too, takes the axes of the weights in the order of those of the image
    weights = PUBLIC["expand_dims"](weights, [k for k in range(ndim) if k not in axes])
    static = {"ndim": ndim, "origin": tuple(origins)}
    return filters.correlation(x, weights, unlisted(cval), mode=number_of(mode), **static)


@entered("weights", "cval", linear=True)
def correlate(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    return _of_window("correlate", (input, weights, mode, cval, origin, axes), False)


@entered("weights", "cval", linear=True)
def convolve(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    return _of_window("convolve", (input, weights, mode, cval, origin, axes), True)


# --- equal weights --------------------------------------------------------------------------------


@entered("cval", linear=True)
def uniform_filter1d(input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    return _moving_mean(input, size, axis_of(axis, len(shape_of(input))), mode, cval, origin)


def _moving_mean(x, size, axis: int, mode, cval, origin):
    size, origin = operator.index(size), operator.index(origin)
    if size < 1:
        raise RuntimeError("incorrect filter size")
    if not 0 <= size // 2 + origin < size:
        raise ValueError("invalid origin")
    static = {"size": size, "axis": axis, "ndim": len(shape_of(x)), "origin": origin}
    return moving_mean(x, unlisted(cval), mode=number_of(mode), **static)


@entered("cval", linear=True)
def uniform_filter(input, size=3, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    axes = axes_of(axes, len(shape_of(input)))
    options = [each(one, len(axes)) for one in (size, mode, origin)]
    for axis, one, of_axis, first in zip(axes, *options, strict=True):
        if one > 1:
            input = _moving_mean(input, int(one), axis, of_axis, cval, first)
    return input
