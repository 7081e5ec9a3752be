"""Means of windows of images along an axis, SciPy's, and their transpose."""

from __future__ import annotations

from .declaring import declared
from .filter_kernels import MODES
from .image_extensions import beside, constants, in_ndimage, last_axes, line_back, of_each, total


def moving_mean_vjp(np, g, _out, x, _cval, *, ndim, **static):
    zeros, _, one = constants(np, x)
    static |= {"ndim": ndim}
    return (
        lambda: moving_mean_transposed(g, **static),
        lambda: np.sum(g * moving_mean(zeros, one, **static), axis=last_axes(ndim)),
    )


def moving_mean_jvp(np, t, _out, x, _cval, *, ndim, **static):
    zeros, zero, one = constants(np, x)
    static |= {"ndim": ndim}
    return total(
        t,
        lambda t: moving_mean(t, zero, **static),
        lambda t: beside(t, ndim) * moving_mean(zeros, one, **static),
    )


@declared(
    vjp=moving_mean_vjp,
    jvp=moving_mean_jvp,
    batch="loop",
    example="tg.scipy.ndimage.uniform_filter1d(x, 3, mode='mirror')",
    examples=("tg.scipy.ndimage.uniform_filter(x, (4, 2), cval=x.sum(), mode='constant')",),
)
def moving_mean(x, cval, *, size, axis, ndim, mode, origin):
    """Means of windows along an axis."""
    static = {"size": size, "axis": axis, "mode": MODES[mode], "origin": origin}
    return of_each(_moving_mean, (ndim, 0), (x, cval), **static)


def _moving_mean(x, cval, *, size, axis, **options):
    return in_ndimage("uniform_filter1d")(x, size, axis, cval=float(cval), **options)


def moving_mean_transposed_vjp(np, h, _out, g, **static):
    return (moving_mean(h, np.zeros((), g.dtype), **static),)


def moving_mean_transposed_jvp(np, t, _out, _g, **static):
    return moving_mean_transposed(t[0], **static)


@declared(
    vjp=moving_mean_transposed_vjp,
    jvp=moving_mean_transposed_jvp,
    batch="loop",
    example="tg.grad(lambda y: np.sum(tg.scipy.ndimage.uniform_filter1d(y, 3) ** 2))(x)",
)
def moving_mean_transposed(g, *, size, axis, ndim, mode, origin):
    """The adjoint of the image from that of means of windows."""
    static = {"size": size, "axis": axis, "mode": mode, "origin": origin}
    return of_each(_mean_back, (ndim,), (g,), **static)


def _mean_back(g, *, size, axis, mode, origin):
    if not g.size:
        return g.copy()
    filtered = in_ndimage("uniform_filter1d")

    def along(x, origin, mode="constant"):
        return filtered(x, size, axis, mode=mode, origin=origin)

    return line_back(g, (size, origin), axis, mode, along, True)
