"""Exponentials along axes by their sums: softmax and its logarithm."""

from __future__ import annotations

import numpy as np

from ..codegen.intrinsics import f64s, free, load_i64, malloc
from ..codegen.layout import FRAME_SEEDS, REFERENCE_BYTES
from ..ops.axis_groups import (
    SAME_SHAPE_HELPERS,
    add_adjoint,
    count_of_groups,
    extreme_of,
    group_in,
    groups_in,
    groups_of,
    of_same_shape,
    read_adjoint,
    read_group,
    write_group,
)
from ..ops.table import structural
from ..tensor import runtime as rt
from ..tensor.apply import apply, compute
from ..tensor.registry import function
from ..tensor.runtime import silence
from ..tensor.values import is_tensor, shape_of, value_of
from .cumulative import same_shape
from .logsumexp import exponentials, finite, floating, result, shifted_by_top
from .reductions import reduced_axes


def _exponentials(x, axes):
    """The value of softmax."""
    with silence():
        top = np.max(x, axis=axes, keepdims=True) if x.size else 0.0
        value = np.array(compute("exp", [np.subtract(x, top)]), x.dtype)
        value /= np.sum(value, axis=axes, keepdims=True)
    return value


def softmax_vjp(np, g, out, _x, axes):
    return (out * (g - np.sum(g * out, axis=axes, keepdims=True)),)


def softmax_jvp(np, t, out, _x, axes):
    mean = np.sum(np.times(t[0], out), axis=axes, keepdims=True)
    return np.times(t[0] - mean, out)


def softmax_adjoint(frame, id, refs, task):
    """References: the operand, lines of a group, the output as seen from it, the output."""
    groups, n, found = groups_of(frame, refs)
    if n == 0:
        return
    out = groups_in(load_i64(refs, 2 * REFERENCE_BYTES), groups.lines, groups.width)
    block = malloc(n * 16)
    y, g = f64s(block), f64s(block + n * 8)
    for group in range(count_of_groups(groups)):
        read_group(out, group, block)
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_adjoint(frame, id, out, group, block + n * 8, seed)
            total = 0.0
            for i in range(n):
                total += g[i] * y[i] if g[i] != 0.0 else 0.0
            for i in range(n):
                g[i] = y[i] * (g[i] - total)
            add_adjoint(groups, found, group, block + n * 8, seed)
    free(block)


def softmax_forward(frame, id, refs, task):
    groups, out, n, count = of_same_shape(refs)
    block = malloc(n * 8)
    y = f64s(block)
    for group in range(count):
        x = f64s(group_in(groups, group, block))
        total = exponentials(x, n, extreme_of(x, n, 1.0), block)
        for i in range(n):
            y[i] /= total
        write_group(out, group, block)
    free(block)


_SOFTMAX = structural(
    "softmax",
    softmax_adjoint,
    value=_exponentials,
    vjp=softmax_vjp,
    jvp=softmax_jvp,
    value_kernel=softmax_forward,
    layout="same shape",
    helpers=(*SAME_SHAPE_HELPERS, finite, exponentials),
    example="tg.softmax(x)",
    examples=("tg.softmax(x, 0)", "tg.softmax(x[:, ::2])"),
    doc="exponentials divided by their sum",
)


@function()
def softmax(x, axis=None):
    """Compute exp(x) divided by its sum.

    Parameters
    ----------
    axis : int or tuple of ints, optional
        The axes of the sum; by default all.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.softmax(tg.tensor([0.0, 0.0]))
    tensor([0.5, 0.5])
    """
    given, x = x, floating("softmax", x)
    axes = reduced_axes("softmax", axis, len(shape_of(x)))
    if type(x) is rt.Scalar:
        return apply("multiply", x, 0.0) + 1.0
    array = value_of(x)
    value = _SOFTMAX.value(array, axes)
    return same_shape(_SOFTMAX, value, x, axes) if is_tensor(x) else result(given, value)


def _log_exponentials(x, axes):
    """The value of log_softmax."""
    if not x.size:
        return np.array(x)
    _, moved = shifted_by_top("log_softmax", x, axes)
    with silence():
        value = moved - np.log(np.sum(compute("exp", [moved]), axis=axes, keepdims=True))
    return np.array(value, x.dtype)


def log_softmax_vjp(np, g, out, _x, axes):
    return (g - np.exp(out) * np.sum(g, axis=axes, keepdims=True),)


def log_softmax_jvp(np, t, out, _x, axes):
    return t[0] - np.sum(np.times(t[0], np.exp(out)), axis=axes, keepdims=True)


def log_softmax_adjoint(frame, id, refs, task):
    """References: the operand, lines of a group, the output as seen from it, the output."""
    groups, n, found = groups_of(frame, refs)
    if n == 0:
        return
    out = groups_in(load_i64(refs, 2 * REFERENCE_BYTES), groups.lines, groups.width)
    block = malloc(n * 16)
    y, g = f64s(block), f64s(block + n * 8)
    for group in range(count_of_groups(groups)):
        read_group(out, group, block)
        for i in range(n):
            y[i] = np.exp(y[i])
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_adjoint(frame, id, out, group, block + n * 8, seed)
            total = 0.0
            for i in range(n):
                total += g[i]
            if total != 0.0:
                for i in range(n):
                    g[i] -= total * y[i]
            add_adjoint(groups, found, group, block + n * 8, seed)
    free(block)


def log_softmax_forward(frame, id, refs, task):
    groups, out, n, count = of_same_shape(refs)
    block, exps = malloc(n * 8), malloc(n * 8)
    y = f64s(block)
    for group in range(count):
        x = f64s(group_in(groups, group, block))
        top = finite(extreme_of(x, n, 1.0))
        log = np.log(exponentials(x, n, top, exps))
        for i in range(n):
            y[i] = x[i] - top - log
        write_group(out, group, block)
    free(block)
    free(exps)


_LOG_SOFTMAX = structural(
    "log_softmax",
    log_softmax_adjoint,
    value=_log_exponentials,
    vjp=log_softmax_vjp,
    jvp=log_softmax_jvp,
    value_kernel=log_softmax_forward,
    layout="same shape",
    helpers=(*SAME_SHAPE_HELPERS, finite, exponentials),
    example="tg.log_softmax(x)",
    examples=("tg.log_softmax(x, 0)", "tg.log_softmax(x[:, ::2])"),
    doc="logarithm of softmax",
)


@function()
def log_softmax(x, axis=None):
    """Compute the logarithm of `softmax`, accurately even if `softmax` underflows.

    Parameters
    ----------
    axis : int or tuple of ints, optional
        The axes of the sum; by default all.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.log_softmax(tg.tensor([0.0, 1000.0]))
    tensor([-1000.,     0.])
    """
    given, x = x, floating("log_softmax", x)
    axes = reduced_axes("log_softmax", axis, len(shape_of(x)))
    if type(x) is rt.Scalar:
        return apply("multiply", x, 0.0)
    array = value_of(x)
    value = _LOG_SOFTMAX.value(array, axes)
    return same_shape(_LOG_SOFTMAX, value, x, axes) if is_tensor(x) else result(given, value)
