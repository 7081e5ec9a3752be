"""Correlation of images with weights, SciPy's, in all boundary modes; with it its derivatives.

With the image extended beyond its ends, and wₖ the weights, the result is yᵢ = Σₖ wₖ xᵢ₊ₖ₋ᵣ, where
r is the number of weights before the middle. The sum Σᵢ gᵢ yᵢ is linear in g, in the weights, and
in the image, but for what it is extended by if that is a constant: the operations are derivatives
of it by each, and so of each other. SciPy's code in C computes the values and the adjoints.

`axis` is that of weights of one axis, counted from the end; for None they have as many axes as the
image, `ndim`. `mode` is one of `MODES`. Operands may have more axes in front, those of a batch.
"""

from __future__ import annotations

import functools
import importlib
import operator
from typing import Any

import numpy as np

from .declaring import declared

#: SciPy's modes, and the mode of `np.pad` with the same elements; None for a constant.
MODES: dict[str, Any] = {
    "nearest": "edge",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "constant": None,
    "grid-constant": None,
}


def _in_ndimage(name: str):
    return getattr(importlib.import_module("scipy.ndimage"), name)


def sources(n: int, before: int, after: int, mode: str) -> np.ndarray:
    """The element of an axis that each of the extended axis is; −1 for a constant."""
    padding = MODES[mode]
    if padding is None:
        ends = [np.full(count, -1) for count in (before, after)]
        return np.concatenate([ends[0], np.arange(n), ends[1]])
    return np.pad(np.arange(n), (before, after), padding)


def _ends(size: int, origin: int) -> tuple[int, int]:
    """How many elements before and after one its window has."""
    before = size // 2 + origin
    return before, size - 1 - before


def _extended(x, axis: int, ends: tuple[int, int], mode: str, cval):
    found = np.moveaxis(x, axis, -1)
    if MODES[mode] is None:
        padding = [(0, 0)] * (x.ndim - 1) + [ends]
        found = np.pad(found, padding, constant_values=cval)
    else:
        found = found[..., sources(x.shape[axis], ends[0], ends[1], mode)]
    return np.moveaxis(found, -1, axis)


def _folded(x, axis: int, ends, mode: str):
    """The transpose of `_extended`: what was added is added to the elements that it comes from."""
    x = np.moveaxis(x, axis, 0)
    n = x.shape[0] - sum(ends)
    out = x[ends[0] : ends[0] + n].copy()
    found = sources(n, ends[0], ends[1], mode)
    for k in (*range(ends[0]), *range(ends[0] + n, len(found))):
        if found[k] >= 0:
            out[found[k]] += x[k]
    return np.moveaxis(out, 0, axis)


def _spread(g, sizes, correlate):
    """Σₖ wₖ gₚ₋ₖ for all p, by a correlation with the weights in opposite order from an origin."""
    wide = np.pad(g, [(0, size - 1) for size in sizes])
    return correlate(wide, [(size - 1) // 2 for size in sizes])


def _line_back(g, window, axis: int, mode: str, correlate, is_even: bool):
    """The transpose of a filter along an axis: the ends alone have more to be added to.

    `window` is its size and origin; `is_even` says whether weights are the same from both ends.
    `correlate` is the filter with the weights in opposite order, from an origin, with zeros beyond
    the ends, or in another mode.
    """
    size, ends, n, axis = window[0], _ends(*window), g.shape[axis], axis % g.ndim
    if MODES[mode] == "wrap" or (MODES[mode] == "symmetric" and is_even and ends[0] == ends[1]):
        return correlate(g, ends[1] - size // 2, mode)
    sizes = [size if k == axis else 1 for k in range(g.ndim)]
    if n < 2 * size:
        wide = _spread(g, sizes, lambda x, origins: correlate(x, origins[axis]))
        return _folded(wide, axis, ends, mode)
    out = correlate(g, ends[1] - size // 2)
    if MODES[mode] is not None:
        found, to = sources(n, ends[0], ends[1], mode), np.moveaxis(out, axis, 0)
        before, after = (slice(0, ends[0]), slice(n - ends[1], n))
        for part, places in ((before, found[: ends[0]]), (after, found[n + ends[0] :])):
            strip = np.moveaxis(np.moveaxis(g, axis, 0)[part], 0, axis)
            wide = _spread(strip, sizes, lambda x, origins: correlate(x, origins[axis]))
            wide = np.moveaxis(wide, axis, 0)
            beyond = wide[: ends[0]] if part is before else wide[size - 1 :][-len(places) :]
            for place, values in zip(places, beyond, strict=False):
                to[place] += values
    return out


def _of_each(function, numbers, operands, **static):
    """A function for each element of a batch: `numbers` are those of the axes of each operand."""
    fronts = [x.shape[: x.ndim - n] for x, n in zip(operands, numbers, strict=True)]
    if not any(fronts):
        return function(*operands, **static)
    front = np.broadcast_shapes(*fronts)
    wide = [
        np.broadcast_to(x, (*front, *x.shape[x.ndim - n :]))
        for x, n in zip(operands, numbers, strict=True)
    ]
    made = [function(*[x[at] for x in wide], **static) for at in np.ndindex(front)]
    return np.reshape(np.stack(made), (*front, *made[0].shape))


def _total(t, *parts):
    """The sum of what the tangents of operands contribute."""
    found = [part(one) for part, one in zip(parts, t, strict=True) if one is not None]
    return functools.reduce(operator.add, found)


def _last(ndim: int) -> tuple[int, ...]:
    return tuple(range(-ndim, 0))


def _beside(x, ndim: int):
    """Numbers, which are multiplied with arrays of some axes."""
    return x[(..., *(None,) * ndim)]


def _constants(np, x) -> tuple:
    """The images of zeros, and the numbers 0 and 1."""
    return np.zeros(x.shape, x.dtype), np.zeros((), x.dtype), np.ones((), x.dtype)


# --- weights --------------------------------------------------------------------------------------


def _axes_of_weights(axis, ndim: int) -> int:
    return ndim if axis is None else 1


def correlation_vjp(np, g, _out, x, w, cval, *, axis, ndim, **static):
    zeros, _, one = _constants(np, x)
    static |= {"axis": axis, "ndim": ndim}
    shape = w.shape[len(w.shape) - _axes_of_weights(axis, ndim) :]
    return (
        lambda: correlation_transposed(g, w, **static),
        lambda: correlation_weights(g, x, cval, shape=shape, **static),
        lambda: np.sum(g * correlation(zeros, w, one, **static), axis=_last(ndim)),
    )


def correlation_jvp(np, t, _out, x, w, cval, *, ndim, **static):
    zeros, zero, one = _constants(np, x)
    static |= {"ndim": ndim}
    return _total(
        t,
        lambda t: correlation(t, w, zero, **static),
        lambda t: correlation(x, t, cval, **static),
        lambda t: _beside(t, ndim) * correlation(zeros, w, one, **static),
    )


_WEIGHTS = "np.array([0.5, -1.0, 2.0, 0.25])"


@declared(
    vjp=correlation_vjp,
    jvp=correlation_jvp,
    batch="loop",
    example=f"tg.scipy.ndimage.correlate1d(x, {_WEIGHTS} * x.sum(), mode='mirror')",
    examples=(
        f"tg.scipy.ndimage.correlate1d(x, {_WEIGHTS}, 0, cval=x.sum(), mode='constant')",
        "tg.scipy.ndimage.correlate(x, x.sum() * np.eye(3)[:2], mode='nearest', origin=(0, -1))",
    ),
)
def correlation(x, w, cval, *, axis, ndim, mode, origin):
    """The correlation of an image with weights."""
    static = {"axis": axis, "mode": mode, "origin": origin}
    return _of_each(_correlation, (ndim, _axes_of_weights(axis, ndim), 0), (x, w, cval), **static)


def _correlation(x, w, cval, *, axis, **options):
    options["cval"] = float(cval)
    if axis is None:
        return _in_ndimage("correlate")(x, w, **options)
    return _in_ndimage("correlate1d")(x, w, axis, **options)


def correlation_transposed_vjp(np, h, _out, g, w, *, axis, ndim, **static):
    _, zero, _ = _constants(np, g)
    static |= {"axis": axis, "ndim": ndim}
    shape = w.shape[len(w.shape) - _axes_of_weights(axis, ndim) :]
    return (
        lambda: correlation(h, w, zero, **static),
        lambda: correlation_weights(g, h, zero, shape=shape, **static),
    )


def correlation_transposed_jvp(np, t, _out, g, w, **static):
    return _total(
        t,
        lambda t: correlation_transposed(t, w, **static),
        lambda t: correlation_transposed(g, t, **static),
    )


@declared(
    vjp=correlation_transposed_vjp,
    jvp=correlation_transposed_jvp,
    batch="loop",
    example=f"tg.grad(lambda y: np.sum(tg.scipy.ndimage.correlate1d(y, {_WEIGHTS}) ** 2))(x)",
)
def correlation_transposed(g, w, *, axis, ndim, mode, origin):
    """The adjoint of the image from that of a correlation."""
    static = {"axis": axis, "mode": mode, "origin": origin}
    return _of_each(_transposed, (ndim, _axes_of_weights(axis, ndim)), (g, w), **static)


def _transposed(g, w, *, axis, mode, origin):
    if not g.size:
        return g.copy()
    turned = w[(slice(None, None, -1),) * w.ndim]
    if axis is not None:
        correlate1d = _in_ndimage("correlate1d")

        def along(x, origin, mode="constant"):
            return correlate1d(x, turned, axis, mode=mode, origin=origin)

        return _line_back(g, (w.size, origin), axis, mode, along, (w == turned).all())

    def within(x, origins):
        return _in_ndimage("correlate")(x, turned, mode="constant", origin=origins)

    out = _spread(g, w.shape, within)
    for k, (size, one) in enumerate(zip(w.shape, origin, strict=True)):
        out = _folded(out, k, _ends(size, one), mode)
    return out


def correlation_weights_vjp(np, h, _out, g, x, cval, *, shape, **static):
    zeros, _, one = _constants(np, x)
    return (
        lambda: correlation(x, h, cval, **static),
        lambda: correlation_transposed(g, h, **static),
        lambda: np.sum(
            h * correlation_weights(g, zeros, one, shape=shape, **static), axis=_last(len(shape))
        ),
    )


def correlation_weights_jvp(np, t, _out, g, x, cval, *, shape, **static):
    zeros, zero, one = _constants(np, x)
    static |= {"shape": shape}
    return _total(
        t,
        lambda t: correlation_weights(t, x, cval, **static),
        lambda t: correlation_weights(g, t, zero, **static),
        lambda t: _beside(t, len(shape)) * correlation_weights(g, zeros, one, **static),
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
    return _of_each(_weights, (ndim, ndim, 0), (g, x, cval), **static)


def _weights(g, x, cval, *, shape, axis, mode, origin):
    if not g.size:
        return np.zeros(shape, g.dtype)
    origins, sizes = origin, shape
    if axis is not None:
        axis %= x.ndim
        sizes = [shape[0] if k == axis else 1 for k in range(x.ndim)]
        origins = [origin if k == axis else 0 for k in range(x.ndim)]
    for k, (size, one) in enumerate(zip(sizes, origins, strict=True)):
        x = _extended(x, k, _ends(size, one), mode, cval) if size > 1 else x
    out = np.empty(sizes, np.result_type(g, x))
    for at in np.ndindex(*sizes):
        part = tuple(slice(k, k + n) for k, n in zip(at, g.shape, strict=True))
        out[at] = np.vdot(g, x[part])
    return out.reshape(shape)


# --- equal weights --------------------------------------------------------------------------------


def moving_mean_vjp(np, g, _out, x, _cval, *, ndim, **static):
    zeros, _, one = _constants(np, x)
    static |= {"ndim": ndim}
    return (
        lambda: moving_mean_transposed(g, **static),
        lambda: np.sum(g * moving_mean(zeros, one, **static), axis=_last(ndim)),
    )


def moving_mean_jvp(np, t, _out, x, _cval, *, ndim, **static):
    zeros, zero, one = _constants(np, x)
    static |= {"ndim": ndim}
    return _total(
        t,
        lambda t: moving_mean(t, zero, **static),
        lambda t: _beside(t, ndim) * moving_mean(zeros, one, **static),
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
    static = {"size": size, "axis": axis, "mode": mode, "origin": origin}
    return _of_each(_moving_mean, (ndim, 0), (x, cval), **static)


def _moving_mean(x, cval, *, size, axis, **options):
    return _in_ndimage("uniform_filter1d")(x, size, axis, cval=float(cval), **options)


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
    return _of_each(_mean_back, (ndim,), (g,), **static)


def _mean_back(g, *, size, axis, mode, origin):
    if not g.size:
        return g.copy()
    filtered = _in_ndimage("uniform_filter1d")

    def along(x, origin, mode="constant"):
        return filtered(x, size, axis, mode=mode, origin=origin)

    return _line_back(g, (size, origin), axis, mode, along, True)
