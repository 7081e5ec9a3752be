"""Derivatives of sampled functions by differences of neighbours: `gradient`, `ediff1d`."""

from __future__ import annotations

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.values import differentiates, dtype_of, is_recorded, is_tensor, shape_of, value_of
from .cumulative import diff
from .joining import checked_axis, concatenate
from .shapes import ravel, reshape
from .unrecorded import unrecorded


@function("gradient")
def gradient(f, *varargs, axis=None, edge_order=1):
    """Compute central differences, with one-sided differences at the ends.

    Parameters
    ----------
    f : array_like
        The samples.
    *varargs : array_like
        The distance between samples, or their positions, for all axes or for each; by default 1.
        They may be recorded.
    axis : int or tuple of ints, optional
        The axes; by default all.
    edge_order : {1, 2}, optional
        The order of the differences at the ends.

    Returns
    -------
    Tensor or ndarray, or tuple of them
        A tuple for several axes.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.gradient(tg.tensor([1.0, 2.0, 4.0]), [0.0, 1.0, 3.0])
    tensor([1., 1., 1.])
    """
    f, spacings = unlisted(f), [unlisted(part) for part in varargs]
    if not differentiates(f, *spacings):
        return unrecorded(np.gradient, f, *spacings, axis=axis, edge_order=edge_order)
    f = f if is_tensor(f) else np.asarray(f)
    f = f if dtype_of(f).kind == "f" else f.astype(float)
    shape = shape_of(f)
    axes = _axes(axis, len(shape))
    if edge_order not in (1, 2):
        raise ValueError(f"tapegrad.gradient: edge_order is {edge_order}; it must be 1 or 2")
    for k in axes:
        if shape[k] < edge_order + 1:
            raise ValueError(
                f"tapegrad.gradient: axis {k} of the tensor has length {shape[k]}; edge_order "
                f"{edge_order} needs {edge_order + 1}"
            )
    steps = _steps(spacings, shape, axes)
    made = [_along(f, k, step, edge_order) for k, step in zip(axes, steps, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def _axes(axis, ndim):
    """The axes in the order given; all by default."""
    if axis is None:
        return range(ndim)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [checked_axis("gradient", one, ndim) for one in given]
    if len(set(axes)) < len(axes):
        raise ValueError(f"tapegrad.gradient: axis {axis} names an axis twice")
    return axes


def _steps(spacings, shape, axes):
    """For each axis a distance, or the distances of neighbours."""
    if not spacings:
        return [1.0] * len(axes)
    if len(spacings) == 1 and not shape_of(spacings[0]):
        return spacings * len(axes)
    if len(spacings) != len(axes):
        raise TypeError(
            f"tapegrad.gradient: got {len(spacings)} spacings for {len(axes)} axes; give none, a "
            "number, or one for each axis"
        )
    return [_distances(x, shape[k]) for x, k in zip(spacings, axes, strict=True)]


def _distances(places, n):
    if not shape_of(places):
        return places
    if shape_of(places) != (n,):
        raise ValueError(
            f"tapegrad.gradient: places have shape {shape_of(places)}; there are {n} samples"
        )
    if dtype_of(places).kind != "f":
        places = places.astype(float)
    steps = diff(places)
    # One distance, as NumPy has it, unless the places are recorded: each has a derivative then.
    if not is_recorded(places) and np.all(value_of(steps) == value_of(steps)[0]):
        return float(value_of(steps)[0]) if dtype_of(steps) == np.float64 else value_of(steps)[0]
    return steps


def _along(f, axis, h, edge_order):
    """Differences along an axis; `h` is a distance or the distances of neighbours."""
    n, before = shape_of(f)[axis], (slice(None),) * axis
    at = lambda start, stop: f[(*before, slice(start, stop))]  # noqa: E731
    uniform = not shape_of(h)
    if not uniform:
        h = reshape(h, [-1 if k == axis else 1 for k in range(len(shape_of(f)))])
        of = lambda start, stop: h[(*before, slice(start, stop))]  # noqa: E731
        first, second, last = of(0, 1), of(1, 2), of(n - 2, n - 1)
    else:
        of, first, second, last = None, h, h, h
    parts = []
    if edge_order == 1:
        parts.append((at(1, 2) - at(0, 1)) / first)
    elif uniform:
        parts.append(-1.5 / h * at(0, 1) + 2.0 / h * at(1, 2) + -0.5 / h * at(2, 3))
    else:
        parts.append(_at_start(at(0, 1), at(1, 2), at(2, 3), first, second))
    if n > 2:
        ends = at(0, n - 2), at(1, n - 1), at(2, n)
        middle = (ends[2] - ends[0]) / (2.0 * h) if uniform else _inside(*ends, of(0, -1), of(1, n))
        parts.append(middle)
    if edge_order == 1:
        parts.append((at(n - 1, n) - at(n - 2, n - 1)) / last)
    elif uniform:
        parts.append(
            0.5 / h * at(n - 3, n - 2) + -2.0 / h * at(n - 2, n - 1) + 1.5 / h * at(n - 1, n)
        )
    else:
        ends = at(n - 3, n - 2), at(n - 2, n - 1), at(n - 1, n)
        parts.append(_at_end(*ends, of(n - 3, n - 2), last))
    made = concatenate(parts, axis)
    return made if dtype_of(made) == dtype_of(f) else made.astype(dtype_of(f))


def _inside(below, here, above, h, k):
    """The slope of the parabola through three samples, at distances h and k, in the middle."""
    a, b, c = -k / (h * (h + k)), (k - h) / (h * k), h / (k * (h + k))
    return a * below + b * here + c * above


def _at_start(first, second, third, h, k):
    """Its slope at the first one."""
    a, b, c = -(2.0 * h + k) / (h * (h + k)), (h + k) / (h * k), -h / (k * (h + k))
    return a * first + b * second + c * third


def _at_end(first, second, third, h, k):
    """Its slope at the last one."""
    a, b, c = k / (h * (h + k)), -(k + h) / (h * k), (2.0 * k + h) / (k * (h + k))
    return a * first + b * second + c * third


@function("ediff1d")
def ediff1d(ary, to_end=None, to_begin=None):
    """Compute differences between neighbours of the flattened operand.

    Parameters
    ----------
    ary : array_like
        The operand.
    to_end, to_begin : array_like, optional
        Values that are joined to the result, which may be recorded.
    """
    x, end, begin = unlisted(ary), unlisted(to_end), unlisted(to_begin)
    if not differentiates(x, end, begin):
        options = {k: v for k, v in (("to_end", end), ("to_begin", begin)) if v is not None}
        return unrecorded(np.ediff1d, x, **options)
    x = ravel(x)
    parts = [begin, apply("subtract", x[1:], x[:-1]), end]
    for name, part in (("to_begin", begin), ("to_end", end)):
        if part is not None and not np.can_cast(dtype_of(part), dtype_of(x), "same_kind"):
            raise TypeError(
                f"tapegrad.ediff1d: {name} has dtype {dtype_of(part)}, the tensor {dtype_of(x)}; "
                "convert one of them"
            )
    parts = [ravel(part) for part in parts if part is not None]
    return concatenate(parts, dtype=dtype_of(x)) if len(parts) > 1 else parts[0]
