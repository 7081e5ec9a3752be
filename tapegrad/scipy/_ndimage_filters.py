"""SciPy's `ndimage` for recorded values: sums with weights, and means of windows."""

from __future__ import annotations

import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import image_filters as filters
from .._core.operations.image_filters import moving_mean
from .._core.tensor.complex_tensors import combined, imag_part, is_complex, real_part
from .._core.tensor.copies import unlisted
from .._core.tensor.values import is_tensor, shape_of
from ._ndimage_arguments import along, axes_of, axis_of, each, entered, like, number_of

# --- weights --------------------------------------------------------------------------------------


def _by_parts(filtered, weights, sign: float):
    """A filter with weights; if these are complex, with both parts of them, or of the conjugate."""
    weights = unlisted(weights)
    if not is_complex(weights):
        return filtered(weights if is_tensor(weights) else np.asarray(weights))
    parts = [filtered(part(weights)) for part in (real_part, imag_part)]
    return combined(parts[0], sign * parts[1])


def _check_line(weights) -> int:
    """The number of weights."""
    if len(shape_of(weights)) != 1 or not shape_of(weights)[0]:
        raise RuntimeError("no filter weights given")
    return shape_of(weights)[0]


def _check_origin(origin: int, size: int, text: str) -> None:
    if not -(size // 2) <= origin <= (size - 1) // 2:
        raise ValueError(
            f"Invalid origin; origin must satisfy -({text} // 2) <= origin <= ({text}-1) // 2"
        )


@entered("weights", "cval", linear=True)
def correlate1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    axis = axis_of(axis, len(shape_of(input)))

    def filtered(weights):
        _check_origin(origin, _check_line(weights), "len(weights)")
        return along(input, weights, axis, mode, cval, origin)

    return _by_parts(filtered, weights, -1.0)


@entered("weights", "cval", linear=True)
def convolve1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    axis = axis_of(axis, len(shape_of(input)))

    def filtered(weights):
        turned = -origin - (_check_line(weights) % 2 == 0)
        _check_origin(turned, shape_of(weights)[0], "len(weights)")
        return along(input, weights[::-1], axis, mode, cval, turned)

    return _by_parts(filtered, weights, 1.0)


def _of_window(x, weights, options: tuple, turned: bool):
    """A correlation, or a convolution, with real weights of several axes."""
    mode, cval, origin, axes = options
    ndim = len(shape_of(x))
    axes = [axis + ndim for axis in axes_of(axes, ndim)]
    if len(shape_of(weights)) != len(axes) or 0 in shape_of(weights):
        raise RuntimeError(
            f"weights.ndim ({len(shape_of(weights))}) must match len(axes) ({len(axes)})"
        )
    if not isinstance(mode, str):
        raise RuntimeError("A sequence of modes is not supported")
    # in SciPy, too, the axes of the weights are in the order of those of the image, and origins
    # in the order of `axes` only if these are fewer
    weights = PUBLIC["expand_dims"](weights, [k for k in range(ndim) if k not in axes])
    origins, given = [0] * ndim, [operator.index(one) for one in each(origin, len(axes))]
    for axis, one in zip(axes if len(axes) < ndim else range(ndim), given, strict=True):
        origins[axis] = one
    if turned:
        weights = weights[(slice(None, None, -1),) * ndim]
        pairs = zip(origins, shape_of(weights), strict=True)
        origins = [-one - (size % 2 == 0) for one, size in pairs]
    for one, size in zip(origins, shape_of(weights), strict=True):
        _check_origin(one, size, "weights.shape[k]")
    static = {"ndim": ndim, "origin": tuple(origins)}
    weights, cval = like(weights, x), like(cval, x)
    return filters.correlation(x, weights, cval, mode=number_of(mode), **static)


@entered("weights", "cval", linear=True)
def correlate(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    options = (mode, cval, origin, axes)
    return _by_parts(lambda w: _of_window(input, w, options, False), weights, -1.0)


@entered("weights", "cval", linear=True)
def convolve(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    options = (mode, cval, origin, axes)
    return _by_parts(lambda w: _of_window(input, w, options, True), weights, 1.0)


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
    return moving_mean(x, like(cval, x), mode=number_of(mode), **static)


@entered("cval", linear=True)
def uniform_filter(input, size=3, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    axes = axes_of(axes, len(shape_of(input)))
    options = [each(one, len(axes)) for one in (size, mode, origin)]
    for axis, one, of_axis, first in zip(axes, *options, strict=True):
        if one > 1:
            input = _moving_mean(input, int(one), axis, of_axis, cval, first)
    return input
