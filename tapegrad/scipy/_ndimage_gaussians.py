"""SciPy's `ndimage` for recorded values: Gaussian filters, and filters of edges."""

from __future__ import annotations

import functools
import numbers
import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import fixed, lost_derivative, named, steered
from .._core.tensor.values import is_tensor, shape_of
from ._ndimage_arguments import along, axes_of, axis_of, each, entered, root

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
    of_axis = lambda axis, one: along(input, weights, axis, one, cval)  # noqa: E731
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
