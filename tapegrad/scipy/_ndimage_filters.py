"""SciPy's `ndimage` for recorded values: filters of images, by weights, by ranks, of transforms."""

from __future__ import annotations

import functools
import importlib
import inspect
import numbers
import operator
from collections.abc import Callable, Iterable

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import image_filters as filters
from .._core.operations.image_filters import MODES, ends_of, moving_mean, sources
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_recorded, none_traced
from .._core.tensor.trace import fixed, lost_derivative, named, steered, tensor_like
from .._core.tensor.values import (
    combined,
    dtype_of,
    imag_part,
    is_complex,
    is_tensor,
    real_part,
    shape_of,
)
from ._differentiable import OURS, root

# --- ndimage arguments ----------------------------------------------------------------------------
# What functions of images take: images, dtypes of results, axes, modes, for `scipy.ndimage`.

_DOUBLE, _SINGLE = np.dtype(np.float64), (np.float32, np.complex64)


def entered(*recorded: str, linear: bool = False) -> Callable:
    """A decorator of functions of images: other arguments than some may not be recorded.

    The function gets the first argument in double precision, and its result gets the dtype that
    SciPy's has. A `linear` one is applied to both parts of a complex image.
    """

    def enter(function):
        name, signature = function.__name__, inspect.signature(function)

        @functools.wraps(function)
        def of_images(*args, **kwargs):
            given = _bound(name, signature, args, kwargs)
            if none_recorded(given.values()):  # only choices, of a program
                return tensor_like(answer(name, given))
            for key, value in given.items():
                if key != "input" and key not in recorded:
                    given[key] = plain(name, key, value)
            return _of_parts(name, function, given, linear)

        OURS[f"ndimage.{name}"] = of_images
        return of_images

    return enter


def _bound(name: str, signature: inspect.Signature, args, kwargs) -> dict:
    """Arguments by name, with defaults."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    bound.apply_defaults()
    more = bound.arguments.pop("keywords", {})
    return {**bound.arguments, **more}


@named("ndimage.answer")
def _answer(*values, name, keys):
    """What a function of SciPy gives for values."""
    return of_scipy(name)(**dict(zip(keys, values, strict=True)))


def answer(name: str, given: dict):
    """The same, recorded as a choice in a program."""
    values = map(unlisted, given.values())
    return steered(_answer, *values, name=name, keys=tuple(given))


def of_scipy(name: str):
    return getattr(importlib.import_module("scipy.ndimage"), name)


def plain(name: str, key: str, value):
    """The value of an argument that may not be recorded; programs check that it stays."""
    if none_traced((value,)):
        return value
    if not none_recorded((value,)):
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: {key} is recorded, and the result has no derivative "
            "to it here; give a plain value, such as x.detach().numpy()",
            value,
        )
    return fixed(unlisted(value), f"{key} of ndimage.{name}()")


def _of_parts(name: str, function, given: dict, linear: bool):
    """The result of a function for an image, or for the parts of a complex one, in its dtype."""
    image = given["input"] = unlisted(given["input"])
    if is_complex(image) and not linear:
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: the image is complex; give its real and imaginary "
            "parts, z.real and z.imag, one after the other",
            image,
        )
    both = is_complex(image) or is_complex(given.get("weights"))
    dtype, cval = result_dtype(name, image, given["output"], both), given.get("cval", 0.0)
    if shape_of(unlisted(cval)):
        raise TypeError(f"tapegrad.scipy.ndimage.{name}: cval is an array; it must be a number")
    if is_complex(cval) and not is_complex(image):
        raise ValueError("Cannot provide a complex-valued cval when the input is real.")
    working, parts = _working_dtype(dtype, given), []
    for part in (real_part, imag_part) if is_complex(image) else (None,):
        given["input"] = floats(part(image) if part else image, working)
        if "cval" in given and part:
            given["cval"] = part(cval) if is_complex(cval) else (cval, 0.0)[part is imag_part]
        parts.append(function(**given))
    made = parts[0]
    if len(parts) == 2:
        made = made + 1j * parts[1] if is_complex(made) else combined(*parts)
    return made if dtype_of(made) == dtype else made.astype(dtype)


def _working_dtype(dtype, given: dict) -> np.dtype:
    """The dtype that a function computes in: SciPy's is double, but programs cannot do both.

    So it is single where the result is, and all that is recorded.
    """
    is_single = dtype in _SINGLE and dtype_of(given["input"]) in _SINGLE
    for key, one in given.items():
        if is_single and key != "input" and not none_traced((one,)):
            is_of_pixels = key in ("weights", "structure", "cval")
            is_single = is_of_pixels and dtype_of(unlisted(one)) in _SINGLE
    return np.dtype(np.float32) if is_single else _DOUBLE


def floats(x, dtype=_DOUBLE):
    """An array or a tensor in double precision, or in single."""
    x = x if is_tensor(x) else PUBLIC["asarray"](x)
    return x if dtype_of(x) == dtype else x.astype(dtype)


def like(x, image):
    """Weights, or a value beyond the ends, in the dtype of an image."""
    return floats(unlisted(x), dtype_of(image))


def result_dtype(name: str, image, output, is_of_parts: bool) -> np.dtype:
    """The dtype of a result; that of the image by default, or a complex one like it."""
    if output is not None and not isinstance(output, (type, np.dtype, str)):
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: output is an array, in which the derivative would be "
            "lost; use the result, or give a dtype",
            image,
        )
    dtype = np.dtype(dtype_of(image) if output is None else output)
    if is_of_parts:
        dtype = np.promote_types(dtype, np.complex64)
    if dtype.kind not in "fc":
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: the result has dtype {dtype}, which has no "
            "derivative; give the image as floats, or output=float",
            image,
        )
    return dtype


def axis_of(axis, ndim: int) -> int:
    """An axis, counted from the end."""
    return np.lib.array_utils.normalize_axis_index(operator.index(axis), ndim) - ndim


def axes_of(axes, ndim: int) -> list[int]:
    """Different axes, counted from the end; all of them for None."""
    if axes is None:
        return [*range(-ndim, 0)]
    found = list(axes) if isinstance(axes, Iterable) else [axes]
    for axis in found:
        if not -ndim <= operator.index(axis) < ndim:
            raise ValueError(f"specified axis: {axis} is out of range")
    found = [operator.index(axis) % ndim - ndim for axis in found]
    if len({*found}) != len(found):
        raise ValueError("axes must be unique")
    return found


def each(value, count: int) -> list:
    """An option of each axis, given for all of them or once."""
    if isinstance(value, str) or not np.iterable(value):
        return [value] * count
    found = list(value)
    if len(found) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return found


def numbers_of(values, count: int):
    """Numbers of each axis, given one by one or for all."""
    values = unlisted(values)
    if is_tensor(values) and shape_of(values):
        values = [values[k] for k in range(shape_of(values)[0])]
    return each(values, count)


#: The same modes by other names, for filters.
_ALSO = {"grid-wrap": "wrap", "grid-mirror": "reflect", "grid-constant": "constant"}


def known_mode(mode) -> str:
    if not isinstance(mode, str) or _ALSO.get(mode, mode) not in MODES:
        raise RuntimeError("boundary mode not supported")
    return mode


def number_of(mode) -> int:
    """The number of a mode of filters."""
    return MODES.index(_ALSO.get(known_mode(mode), mode))


def along(x, weights, axis: int, mode, cval, origin=0):
    """A correlation with weights along an axis."""
    static = {"axis": axis, "ndim": len(shape_of(x)), "origin": operator.index(origin)}
    weights, cval = like(weights, x), like(cval, x)
    return filters.correlated(x, weights, cval, mode=number_of(mode), **static)


# --- ndimage filters ------------------------------------------------------------------------------
# SciPy's `ndimage` for recorded values: sums with weights, and means of windows.


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


# --- ndimage gaussians ----------------------------------------------------------------------------
# SciPy's `ndimage` for recorded values: Gaussian filters, and filters of edges.


# --- Gaussian weights -----------------------------------------------------------------------------


@named("ndimage.radius")
def _radius(sigma, truncate):
    return int(truncate * float(sigma) + 0.5)


@named("ndimage.is_wide")
def _is_wide(sigma):
    return bool(sigma > 1e-15)


def _gaussian_weights(sigma, order: int, radius: int):
    """Derivatives of a normalized Gaussian: with q₀ = 1 they are qₙ φ, qₙ₊₁ = qₙ′ − qₙ x / σ²."""
    x = np.arange(-radius, radius + 1)
    square = sigma * sigma
    density = PUBLIC["exp"](-0.5 / square * x**2)
    density = density / density.sum()
    q = [1.0]
    for _ in range(order):
        slope = [(k + 1) * one for k, one in enumerate(q[1:])] + [0.0, 0.0]
        q = [a - b / square for a, b in zip(slope, [0.0, *q], strict=True)]
    return sum(one * x**k for k, one in enumerate(q)) * density if order else density


def _gaussian(x, sigma, axis: int, order, options: tuple, radius):
    mode, cval, truncate = options
    width = fixed(steered(_radius, sigma, truncate), "sigma of a Gaussian filter")
    width = int(width) if radius is None else radius
    if not isinstance(width, numbers.Integral) or width < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    if order < 0:
        raise ValueError("order must be non-negative")
    weights = _gaussian_weights(sigma, order, int(width))
    return along(x, weights[::-1], axis, mode, cval)


def _number(sigma):
    """A standard deviation: a number, also in an array of one."""
    sigma = unlisted(sigma)
    if is_tensor(sigma):
        return PUBLIC["reshape"](sigma, ()) if shape_of(sigma) else sigma
    return float(sigma)


@entered("sigma", "cval", linear=True)
def gaussian_filter1d(
    input,
    sigma,
    axis=-1,
    order=0,
    output=None,
    mode="reflect",
    cval=0.0,
    truncate=4.0,
    *,
    radius=None,
):
    axis = axis_of(axis, len(shape_of(input)))
    return _gaussian(input, _number(sigma), axis, order, (mode, cval, truncate), radius)


@entered("sigma", "cval", linear=True)
def gaussian_filter(
    input,
    sigma,
    order=0,
    output=None,
    mode="reflect",
    cval=0.0,
    truncate=4.0,
    *,
    radius=None,
    axes=None,
):
    return _of_axes(input, (sigma, order), mode, cval, truncate, radius=radius, axes=axes)


def _of_axes(x, derivatives, mode, cval, truncate=4.0, *, radius=None, axes=None):
    """Gaussian filters along axes, one after the other, of standard deviations and orders."""
    sigma, order = derivatives
    axes = axes_of(axes, len(shape_of(x)))
    sigma = unlisted(sigma) if is_tensor(sigma) else sigma
    options = [each(one, len(axes)) for one in (_listed(sigma), order, mode, radius)]
    for axis, width, degree, of_axis, size in zip(axes, *options, strict=True):
        width = _number(width)
        if fixed(steered(_is_wide, width), "sigma of a Gaussian filter"):
            x = _gaussian(x, width, axis, degree, (of_axis, cval, truncate), size)
    return x


def _listed(sigma):
    """Standard deviations of a tensor one by one."""
    if is_tensor(sigma) and shape_of(sigma):
        return [sigma[k] for k in range(shape_of(sigma)[0])]
    return sigma


# --- edges ----------------------------------------------------------------------------------------


def _of_edges(x, axis, mode, cval, smooth):
    """Differences along an axis, smoothed along the others."""
    ndim = len(shape_of(x))
    axis, modes = axis_of(axis, ndim), each(mode, ndim)
    x = along(x, np.array([-1.0, 0.0, 1.0]), axis, modes[axis], cval)
    for other in range(-ndim, 0):
        if other != axis:
            x = along(x, np.array(smooth), other, modes[other], cval)
    return x


@entered("cval")
def sobel(input, axis=-1, output=None, mode="reflect", cval=0.0):
    return _of_edges(input, axis, mode, cval, [1.0, 2.0, 1.0])


@entered("cval")
def prewitt(input, axis=-1, output=None, mode="reflect", cval=0.0):
    return _of_edges(input, axis, mode, cval, [1.0, 1.0, 1.0])


def _each_axis(x, mode, axes, of_axis):
    """What a function gives for each axis and its mode, or None for no axis."""
    axes = axes_of(axes, len(shape_of(x)))
    return [of_axis(*pair) for pair in zip(axes, each(mode, len(axes)), strict=True)]


def _sum(parts, x):
    """The sum over axes; the image where there are none."""
    return functools.reduce(operator.add, parts) if parts else x


def _of_users(name: str, x, derivative, options: tuple):
    """What a function of the user's gives for each axis; SciPy gives it an array to write to."""
    mode, cval, arguments, keywords, axes = options

    def of_axis(axis, one):
        axis += len(shape_of(x))
        found = derivative(x, axis, None, one, cval, *arguments, **(keywords or {}))
        if found is None:
            raise lost_derivative(
                f"tapegrad.scipy.ndimage.{name}: the function returns None; it gets no array to "
                "write to, since its derivative would be lost there: return the result",
                x,
            )
        return found

    return _each_axis(x, mode, axes, of_axis)


@entered("cval", "extra_arguments", "extra_keywords")
def generic_laplace(
    input,
    derivative2,
    output=None,
    mode="reflect",
    cval=0.0,
    extra_arguments=(),
    extra_keywords=None,
    *,
    axes=None,
):
    options = (mode, cval, extra_arguments, extra_keywords, axes)
    return _sum(_of_users("generic_laplace", input, derivative2, options), input)


@entered("cval", "extra_arguments", "extra_keywords")
def generic_gradient_magnitude(
    input,
    derivative,
    output=None,
    mode="reflect",
    cval=0.0,
    extra_arguments=(),
    extra_keywords=None,
    *,
    axes=None,
):
    options = (mode, cval, extra_arguments, extra_keywords, axes)
    parts = _of_users("generic_gradient_magnitude", input, derivative, options)
    return root(_sum([one**2 for one in parts], input)) if parts else input


@entered("cval")
def laplace(input, output=None, mode="reflect", cval=0.0, *, axes=None):
    weights = np.array([1.0, -2.0, 1.0])
    of_axis = lambda axis, one: along(input, weights, axis, one, cval)
    return _sum(_each_axis(input, mode, axes, of_axis), input)


def _orders(ndim: int, axis: int, order: int) -> list[int]:
    found = [0] * ndim
    found[axis] = order
    return found


@entered("sigma", "cval")
def gaussian_laplace(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **keywords):
    ndim = len(shape_of(input))
    filtered, sigmas = axes_of(axes, ndim), [0.0] * ndim
    for axis, one in zip(filtered, each(_listed(sigma), len(filtered)), strict=True):
        sigmas[axis] = one

    def of_axis(axis, one):
        return _of_axes(input, (sigmas, _orders(ndim, axis, 2)), one, cval, **keywords)

    return _sum(_each_axis(input, mode, axes, of_axis), input)


@entered("sigma", "cval")
def gaussian_gradient_magnitude(
    input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **keywords
):
    ndim = len(shape_of(input))

    def of_axis(axis, one):
        return _of_axes(input, (sigma, _orders(ndim, axis, 1)), one, cval, **keywords) ** 2

    parts = _each_axis(input, mode, axes, of_axis)
    return root(_sum(parts, input)) if parts else input


# --- ndimage ranks --------------------------------------------------------------------------------
# SciPy's `ndimage` for recorded values: filters that choose an element of each window.
#
# What is chosen depends on the order of the elements alone. So SciPy's filter of their ranks gives
# the rank of the chosen one, and no other code looks for it.

_SELECTIONS = (
    "minimum_filter1d maximum_filter1d minimum_filter maximum_filter median_filter rank_filter "
    "percentile_filter grey_erosion grey_dilation grey_opening grey_closing"
).split()


@named("ndimage.chosen")
def _chosen(x, cval, footprint, name, options):
    """Where the chosen elements are among all, of which `cval` is the last; equal ones by place."""
    every = np.append(x, cval)
    order = np.argsort(every, kind="stable")
    is_read = "constant" in str(options["mode"])
    if np.isnan(x).any() or (is_read and np.isnan(cval)):
        raise ValueError(
            f"tapegrad.scipy.ndimage.{name}: the image or cval contains NaN, which has no place "
            "in the order of elements; replace it, as by np.where(np.isnan(x), 0.0, x)"
        )
    ranks = np.empty(every.size)
    ranks[order] = np.arange(every.size)
    given = {} if footprint is None else {"footprint": footprint}
    found = of_scipy(name)(np.reshape(ranks[:-1], x.shape), cval=ranks[-1], **given, **options)
    return order[found.astype(np.intp)]


def _selected(name: str, x, cval, footprint, **options):
    """The elements of an image that a filter chooses."""
    cval = like(cval, x)
    if options.get("structure") is not None:
        return _by_structure(name, x, cval, footprint, **options)
    places = steered(_chosen, x, cval, footprint, name=name, options=options)
    every = [PUBLIC["reshape"](x, (-1,)), PUBLIC["reshape"](cval, (1,))]
    return PUBLIC["take"](PUBLIC["concatenate"](every), places)


def _enter(name: str, function) -> None:
    """Let a function have SciPy's name and arguments."""
    function.__name__, function.__signature__ = name, inspect.signature(of_scipy(name))
    entered("cval", "structure")(function)


def _by_ranks(name: str) -> None:
    def function(input, output, cval, footprint=None, **options):
        return _selected(name, input, cval, footprint, **options)

    _enter(name, function)


for _name in _SELECTIONS:
    _by_ranks(_name)


# --- images that are not flat ---------------------------------------------------------------------


def _extended(x, cval, ends: list, mode: str):
    """An image with elements beyond its ends, so many before and after along each axis."""
    for axis, (before, after) in enumerate(ends):
        places = sources(shape_of(x)[axis], before, after, number_of(mode))
        lines = PUBLIC["moveaxis"](x, axis, -1)
        if (places < 0).any():
            beyond = PUBLIC["broadcast_to"](cval, (*shape_of(lines)[:-1], 1))
            lines = PUBLIC["concatenate"]([lines, beyond], axis=-1)
        x = PUBLIC["moveaxis"](PUBLIC["take"](lines, places, axis=-1), -1, axis)
    return x


def _extreme_of_window(x, cval, window: tuple, options: tuple, is_least: bool):
    """The greatest sum, or the least difference, of windows of an image and a structure."""
    structure, footprint = window
    mode, origins = options
    ends = [ends_of(n, one) for n, one in zip(footprint.shape, origins, strict=True)]
    if any(min(pair) < 0 for pair in ends):
        raise ValueError("invalid origin")
    wide = _extended(x, cval, ends, mode)
    parts = []
    for at in np.argwhere(footprint).tolist():
        slices = (slice(k, k + n) for k, n in zip(at, shape_of(x), strict=True))
        part, one = wide[tuple(slices)], structure[tuple(at)]
        parts.append(part - one if is_least else part + one)
    return PUBLIC["min" if is_least else "max"](PUBLIC["stack"](parts), axis=0)


def _by_structure(name: str, x, cval, footprint, *, size, structure, mode, origin, axes=None):
    """Erosion, dilation, or one after the other, by an image."""
    structure, ndim = like(structure, x), len(shape_of(x))
    if len(shape_of(structure)) != ndim:
        raise RuntimeError("structure array has incorrect shape")
    if axes is not None or not isinstance(mode, str):
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: axes and several modes have no derivative together "
            "with structure here; give a structure of all axes, and one mode",
            (x, structure),
        )
    if footprint is None:
        footprint = np.ones(shape_of(structure), bool)
    footprint = np.asarray(footprint, bool)
    if footprint.shape != shape_of(structure):
        raise RuntimeError("structure array has incorrect shape")
    origin, turned = each(origin, ndim), (slice(None, None, -1),) * ndim
    opposite = [-one - (n % 2 == 0) for one, n in zip(origin, footprint.shape, strict=True)]
    steps = {
        "grey_erosion": ((structure, footprint), (mode, origin), True),
        "grey_dilation": ((structure[turned], footprint[turned]), (mode, opposite), False),
    }
    order = {"grey_opening": (*steps,), "grey_closing": (*steps,)[::-1]}
    for step in order.get(name, (name,)):
        x = _extreme_of_window(x, cval, *steps[step])
    return x


# --- differences of them --------------------------------------------------------------------------


def _of_both(name: str, parts: tuple, combine) -> None:
    """A function of the image and of what some filters choose."""

    def function(input, output, cval, footprint=None, **options):
        made = [_selected(part, input, cval, footprint, **options) for part in parts]
        return combine(input, *made)

    _enter(name, function)


_of_both(
    "morphological_gradient", ("grey_dilation", "grey_erosion"), lambda x, high, low: high - low
)
_of_both(
    "morphological_laplace",
    ("grey_dilation", "grey_erosion"),
    lambda x, high, low: high + low - x - x,
)
_of_both("white_tophat", ("grey_opening",), lambda x, opened: x - opened)
_of_both("black_tophat", ("grey_closing",), lambda x, closed: closed - x)


# --- ndimage fourier ------------------------------------------------------------------------------
# SciPy's `ndimage` for recorded values: filters of Fourier transforms, which are products.


def _frequencies(shape, n: int, axis: int) -> list[np.ndarray]:
    """The frequencies along each axis, of which one may be that of a real transform of n points."""
    found = []
    for k, count in enumerate(shape):
        is_half = n >= 0 and k == axis
        one = np.arange(count) / n if is_half else np.fft.fftfreq(count) if count else np.zeros(0)
        found.append(one.reshape(-1, *[1] * (len(shape) - 1 - k)))
    return found


def _product(factor):
    """What multiplies a transform: the product of factors of the axes."""

    def made(shape, sizes, n: int, axis: int):
        pairs = zip(sizes, _frequencies(shape, n, axis), strict=True)
        return functools.reduce(operator.mul, [factor(*pair) for pair in pairs])

    return made


def _turn(shift, frequency):
    """exp(−2πi f s) of a recorded s."""
    angle = -2.0 * np.pi * frequency * shift
    return PUBLIC["cos"](angle) + 1j * PUBLIC["sin"](angle)


#: By name: what multiplies a transform where the size, as SciPy calls it, is recorded.
_FACTORS = {
    "gaussian": _product(lambda s, f: PUBLIC["exp"](-2.0 * np.pi**2 * (s * f) ** 2)),
    "uniform": _product(lambda s, f: PUBLIC["sinc"](s * f)),
    "shift": _product(_turn),
}


def _result_dtype(name: str, made, image, output) -> np.dtype:
    """The dtype of a result, which is complex if the transform or the factor is."""
    if output is not None and type(output) is not type:
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: output is an array, in which the derivative would be "
            "lost; use the result, or give a type",
            image,
        )
    kinds = (np.complex64, np.complex128) if is_complex(made) else (np.float32, np.float64)
    if output is None:  # that of the transform, if it can be
        return np.dtype(kinds[0] if dtype_of(image) == kinds[0] else kinds[1])
    if output not in (*kinds, np.complex64, np.complex128):
        raise RuntimeError("output type not supported")
    return np.dtype(output)


def _enter_fourier(kind: str) -> None:
    name = f"fourier_{kind}"
    signature = inspect.signature(of_scipy(name))

    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if none_recorded(given.values()):
            return tensor_like(answer(name, given))
        image, size, n, axis, output = given.values()
        image, n = unlisted(image), plain(name, "n", n)
        ndim, shape = len(shape_of(image)), shape_of(image)
        if kind == "ellipsoid" or none_traced((size,)):
            factor = of_scipy(name)(np.ones(shape), plain(name, "size", size), n, axis)
        else:
            factor = _FACTORS[kind](shape, numbers_of(size, ndim), n, axis_of(axis, ndim) + ndim)
        made = (image if is_tensor(image) or is_complex(image) else np.asarray(image)) * factor
        dtype = _result_dtype(name, made, image, output)
        return made if dtype_of(made) == dtype else made.astype(dtype)

    OURS[f"ndimage.{name}"] = function


for _kind in ("gaussian", "uniform", "ellipsoid", "shift"):
    _enter_fourier(_kind)
