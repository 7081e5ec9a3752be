"""Sums and what is made of them."""

from __future__ import annotations

import numpy as np

from . import runtime as rt
from .apply import apply
from .linking import LINK, SUM, unlisted
from .namespace import function
from .values import is_tensor, records, value_of, wrap


def axes_of(name: str, axis, ndim: int) -> tuple[int, ...]:
    """Axes as a sorted tuple without negative ones; None means all."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    fixed = []
    for one in axes:
        if not -ndim <= one < ndim:
            raise ValueError(
                f"tapegrad.{name}: axis {one} does not exist, the tensor has {ndim} axes"
            )
        fixed.append(int(one) % ndim)
    if len(set(fixed)) != len(fixed):
        raise ValueError(f"tapegrad.{name}: axis {tuple(axes)} names an axis twice")
    return tuple(sorted(fixed))


def kept_shape(shape, axes) -> tuple[int, ...]:
    """The shape with the reduced axes kept as 1."""
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def plain(function_of_numpy, x, *args, **kwargs):
    """A function of NumPy's on what is not recorded."""
    result = function_of_numpy(value_of(x), *args, **kwargs)
    return wrap(result) if is_tensor(x) else result


@function("sum", method="sum")
def sum(x, axis=None, keepdims=False):
    """sum(x, axis, keepdims): sum over all elements or over the given axes.

    >>> import tapegrad as tg
    >>> tg.sum(tg.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    tensor([4., 6.])
    """
    x = unlisted(x)
    if not records(x):
        return plain(np.sum, x, axis=axis, keepdims=keepdims)
    if type(x) is rt.Scalar:
        axes_of("sum", axis, 0)
        return x
    array = x._array
    axes = axes_of("sum", axis, array.ndim)
    if len(axes) == array.ndim and not keepdims and array.dtype == np.float64:
        return rt.row(SUM, float(array.sum()), x)
    out = np.asarray(np.sum(array, axis=axes, keepdims=True), order="C")
    shown = np.broadcast_to(out, array.shape)
    if not keepdims:
        out = out.reshape([n for k, n in enumerate(array.shape) if k not in axes])
    return rt.row(LINK, out, x, shown)


def count_along(x, axes) -> int:
    """How many elements are reduced into one."""
    shape = np.shape(value_of(x))
    return int(np.prod([shape[k] for k in axes], dtype=np.int64))


@function("mean", method="mean")
def mean(x, axis=None, keepdims=False):
    """mean(x, axis, keepdims): arithmetic mean over all elements or over the given axes."""
    x = unlisted(x)
    if not records(x):
        return plain(np.mean, x, axis=axis, keepdims=keepdims)
    n = count_along(x, axes_of("mean", axis, np.ndim(value_of(x))))
    return apply("multiply", sum(x, axis, keepdims), 1.0 / n if n else np.nan)


@function("var", method="var")
def var(x, axis=None, ddof=0, keepdims=False):
    """var(x, axis, ddof, keepdims): mean squared deviation; the divisor is n − ddof."""
    x = unlisted(x)
    if not records(x):
        return plain(np.var, x, axis=axis, ddof=ddof, keepdims=keepdims)
    n = count_along(x, axes_of("var", axis, np.ndim(value_of(x))))
    deviation = x - mean(x, axis, keepdims=True)
    return apply("divide", sum(apply("square", deviation), axis, keepdims), float(n - ddof))


@function("std", method="std")
def std(x, axis=None, ddof=0, keepdims=False):
    """std(x, axis, ddof, keepdims): square root of `var`; its slope is infinite at 0."""
    x = unlisted(x)
    if not records(x):
        return plain(np.std, x, axis=axis, ddof=ddof, keepdims=keepdims)
    return apply("sqrt", var(x, axis, ddof, keepdims))

