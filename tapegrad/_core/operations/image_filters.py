"""Correlation of images with weights, SciPy's, in all boundary modes; with it its derivatives.

With the image extended beyond its ends, and wₖ the weights, the result is yᵢ = Σₖ wₖ xᵢ₊ₖ₋ᵣ, where
r is the number of weights before the middle. The sum Σᵢ gᵢ yᵢ is linear in g, in the weights, and
in the image, but for what it is extended by if that is a constant: the operations are derivatives
of it by each, and so of each other. SciPy's code in C computes the values and the adjoints.

With `axis` None weights have as many axes as the image, `ndim`; else they are along that axis,
counted from the end. Operands may have more axes in front, those of a batch.
"""

from __future__ import annotations

import math

import numpy as np

from . import filter_kernels as kernels
from .declaring import declared
from .image_extensions import (
    beside,
    constants,
    ends_of,
    extended,
    folded,
    in_ndimage,
    last_axes,
    line_back,
    of_each,
    spread_out,
    total,
)

# --- weights --------------------------------------------------------------------------------------


def _axes_of_weights(axis, ndim: int) -> int:
    return ndim if axis is None else 1


def correlation_vjp(np, g, _out, x, w, cval, *, ndim, axis=None, **static):
    zeros, _, one = constants(np, x)
    static |= {"axis": axis, "ndim": ndim}
    shape = w.shape[len(w.shape) - _axes_of_weights(axis, ndim) :]
    return (
        lambda: spread(g, w, **static),
        lambda: correlation_weights(g, x, cval, shape=shape, **static),
        lambda: np.sum(g * correlated(zeros, w, one, **static), axis=last_axes(ndim)),
    )


def correlation_jvp(np, t, _out, x, w, cval, *, ndim, **static):
    zeros, zero, one = constants(np, x)
    static |= {"ndim": ndim}
    return total(
        t,
        lambda t: correlated(t, w, zero, **static),
        lambda t: correlated(x, t, cval, **static),
        lambda t: beside(t, ndim) * correlated(zeros, w, one, **static),
    )


def transposed_vjp(np, h, _out, g, w, *, ndim, axis=None, **static):
    _, zero, _ = constants(np, g)
    static |= {"axis": axis, "ndim": ndim}
    shape = w.shape[len(w.shape) - _axes_of_weights(axis, ndim) :]
    return (
        lambda: correlated(h, w, zero, **static),
        lambda: correlation_weights(g, h, zero, shape=shape, **static),
    )


def transposed_jvp(np, t, _out, g, w, **static):
    return total(t, lambda t: spread(t, w, **static), lambda t: spread(g, t, **static))


def correlated(x, w, cval, *, axis=None, **static):
    """A correlation, by the operation for one axis or that for all."""
    if axis is None:
        return correlation(x, w, cval, **static)
    return line_correlation(x, w, cval, axis=axis, **static)


def spread(g, w, *, axis=None, **static):
    """The adjoint of the image from that of a correlation."""
    if axis is None:
        return correlation_transposed(g, w, **static)
    return line_correlation_transposed(g, w, axis=axis, **static)


@declared(
    vjp=correlation_vjp,
    jvp=correlation_jvp,
    batch="loop",
    example="tg.scipy.ndimage.correlate(x, x.sum() * np.array([1.0, -2.0]), mode='wrap')",
    examples=(
        "tg.scipy.ndimage.correlate(x, x.sum() * np.eye(3)[:2], mode='nearest', origin=(0, -1))",
    ),
)
def correlation(x, w, cval, *, ndim, mode, origin):
    """The correlation of an image with weights."""
    static = {"mode": kernels.MODES[mode], "origin": origin}
    return of_each(_correlation, (ndim, ndim, 0), (x, w, cval), **static)


def _correlation(x, w, cval, **options):
    return in_ndimage("correlate")(x, w, cval=float(cval), **options)


@declared(
    vjp=transposed_vjp,
    jvp=transposed_jvp,
    batch="loop",
    example="tg.grad(lambda y: np.sum(tg.scipy.ndimage.correlate(y, [1.0, -2.0]) ** 2))(x)",
)
def correlation_transposed(g, w, *, ndim, mode, origin):
    """The adjoint of the image from that of a correlation."""
    return of_each(_transposed, (ndim, ndim), (g, w), mode=mode, origin=origin)


def _transposed(g, w, *, mode, origin):
    if not g.size:
        return g.copy()
    turned = w[(slice(None, None, -1),) * w.ndim]

    def within(x, origins):
        return in_ndimage("correlate")(x, turned, mode="constant", origin=origins)

    out = spread_out(g, w.shape, within)
    for k, (size, one) in enumerate(zip(w.shape, origin, strict=True)):
        out = folded(out, k, ends_of(size, one), mode)
    return out


# --- weights along an axis ------------------------------------------------------------------------


def _check(x, w, axis: int, ndim: int, origin: int) -> None:
    size = w[-1] if w else 0
    if not 0 <= size // 2 + origin < max(size, 1) or not -len(x) <= -ndim <= axis < 0 or not size:
        raise ValueError(f"a correlation of shapes {x} and {w}, origin {origin} is not defined")


def _line_shape(x, w, cval, *, axis, ndim, mode, origin):
    """The shape of a result; raises ValueError where there is none."""
    _check(x, w, axis, ndim, origin)
    front = len(x) - ndim
    return (*np.broadcast_shapes(x[:front], w[:-1], cval), *x[front:])


def _transposed_shape(g, w, *, axis, ndim, mode, origin):
    """The shape of a result; raises ValueError where there is none."""
    return _line_shape(g, w, (), axis=axis, ndim=ndim, mode=mode, origin=origin)


def _sums(_static, out, _x, w, *_):
    return 2.0 * math.prod(out) * w[-1]


_WEIGHTS = "np.array([0.5, -1.0, 2.0, 0.25])"


@declared(
    vjp=correlation_vjp,
    jvp=correlation_jvp,
    batch="loop",
    takes_complex=False,
    shape=_line_shape,
    value_kernel=kernels.line_correlation_forward,
    helpers=kernels.HELPERS,
    work=_sums,
    example=f"tg.scipy.ndimage.correlate1d(x, {_WEIGHTS} * x.sum(), mode='mirror')",
    examples=(
        f"tg.scipy.ndimage.correlate1d(x, {_WEIGHTS}, 0, cval=x.sum(), mode='constant')",
        "tg.scipy.ndimage.gaussian_filter(x, 1.0 + x.sum(), mode='nearest', radius=2)",
    ),
)
def line_correlation(x, w, cval, *, axis, ndim, mode, origin):
    """The correlation of an image with weights along an axis."""
    _line_shape(x.shape, w.shape, cval.shape, axis=axis, ndim=ndim, mode=mode, origin=origin)
    static = {"axis": axis, "mode": kernels.MODES[mode], "origin": origin}
    return of_each(_along, (ndim, 1, 0), (x, w, cval), **static)


def _along(x, w, cval, *, axis, **options):
    return in_ndimage("correlate1d")(x, w, axis, cval=float(cval), **options)


@declared(
    vjp=transposed_vjp,
    jvp=transposed_jvp,
    batch="loop",
    takes_complex=False,
    shape=_transposed_shape,
    value_kernel=kernels.line_correlation_transposed_forward,
    helpers=kernels.HELPERS,
    work=_sums,
    example=f"tg.grad(lambda y: np.sum(tg.scipy.ndimage.correlate1d(y, {_WEIGHTS}) ** 2))(x)",
)
def line_correlation_transposed(g, w, *, axis, ndim, mode, origin):
    """The adjoint of the image from that of a correlation along an axis."""
    _transposed_shape(g.shape, w.shape, axis=axis, ndim=ndim, mode=mode, origin=origin)
    static = {"axis": axis, "mode": mode, "origin": origin}
    return of_each(_along_back, (ndim, 1), (g, w), **static)


def _along_back(g, w, *, axis, mode, origin):
    if not g.size:
        return g.copy()
    turned, correlate1d = w[::-1], in_ndimage("correlate1d")

    def along(x, origin, mode="constant"):
        return correlate1d(x, turned, axis, mode=mode, origin=origin)

    return line_back(g, (w.size, origin), axis, mode, along, (w == turned).all())


# --- the adjoint of weights -----------------------------------------------------------------------


def correlation_weights_vjp(np, h, _out, g, x, cval, *, shape, **static):
    zeros, _, one = constants(np, x)
    return (
        lambda: correlated(x, h, cval, **static),
        lambda: spread(g, h, **static),
        lambda: np.sum(
            h * correlation_weights(g, zeros, one, shape=shape, **static),
            axis=last_axes(len(shape)),
        ),
    )


def correlation_weights_jvp(np, t, _out, g, x, cval, *, shape, **static):
    zeros, zero, one = constants(np, x)
    static |= {"shape": shape}
    return total(
        t,
        lambda t: correlation_weights(t, x, cval, **static),
        lambda t: correlation_weights(g, t, zero, **static),
        lambda t: beside(t, len(shape)) * correlation_weights(g, zeros, one, **static),
    )


@declared(
    vjp=correlation_weights_vjp,
    jvp=correlation_weights_jvp,
    batch="loop",
    example="tg.grad(lambda w: np.sum(tg.scipy.ndimage.correlate1d(x, w) ** 2))(x.sum() * "
    f"{_WEIGHTS})",
)
def correlation_weights(g, x, cval, *, shape, axis, ndim, mode, origin):
    """The adjoint of the weights from that of a correlation."""
    static = {"shape": shape, "axis": axis, "mode": mode, "origin": origin}
    return of_each(_weights, (ndim, ndim, 0), (g, x, cval), **static)


def _weights(g, x, cval, *, shape, axis, mode, origin):
    if not g.size:
        return np.zeros(shape, g.dtype)
    origins, sizes = origin, shape
    if axis is not None:
        axis %= x.ndim
        sizes = [shape[0] if k == axis else 1 for k in range(x.ndim)]
        origins = [origin if k == axis else 0 for k in range(x.ndim)]
    for k, (size, one) in enumerate(zip(sizes, origins, strict=True)):
        x = extended(x, k, ends_of(size, one), mode, cval) if size > 1 else x
    out = np.empty(sizes, np.result_type(g, x))
    for at in np.ndindex(*sizes):
        part = tuple(slice(k, k + n) for k, n in zip(at, g.shape, strict=True))
        out[at] = np.vdot(g, x[part])
    return out.reshape(shape)
