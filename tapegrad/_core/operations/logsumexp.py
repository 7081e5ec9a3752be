"""Sums of exponentials along axes, without overflow: logsumexp."""

from __future__ import annotations

import numpy as np

from ..codegen.intrinsics import (
    f32s,
    f64s,
    free,
    helper,
    larger_of,
    load_f64,
    load_i64,
    malloc,
    sum_of,
    unaliased,
)
from ..codegen.layout import ARRAY, ARRAY_DATA, FRAME_SEEDS, REFERENCE_BYTES
from ..codegen.shared_kernels import cell
from ..codegen.strided_memory import SHORT_GROUP, SIDE_BY_SIDE
from ..codegen.sweep_frame import adjoint_place
from ..codegen.vector_math import select
from ..ops.axis_groups import (
    REDUCTION_HELPERS,
    add_groups,
    add_partials,
    buffered,
    count_of_groups,
    extreme_of,
    group_in,
    groups_of,
    of_reduction,
    read_group,
    read_groups,
    reduced_value,
)
from ..ops.table import structural
from ..tensor import runtime as rt
from ..tensor.apply import apply, compute
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.runtime import silence
from ..tensor.trace import named, steered
from ..tensor.values import FLOATS, current, differentiates, is_tensor, value_of, wrap
from .reductions import kept_shape, reduced, reduced_axes, sum
from .shapes import numpy_call


def floating(name: str, x):
    """A recorded operand with a buffer, or the value of one that is not recorded, as floats."""
    x = unlisted(x)
    if differentiates(x):
        return current(x) if type(x) is rt.Array else x
    value = np.asarray(value_of(x))
    return value if value.dtype in FLOATS else value.astype(np.float64)


def result(x, value):
    return wrap(value[()]) if is_tensor(unlisted(x)) else value[()]


def shifted_by_top(name, value, axes):
    """The largest along axes, 0 where it is not finite; and the values less it."""
    with silence():
        top = numpy_call(name, np.max, value, axis=axes, keepdims=True)
        if not np.isfinite(top).all():
            top = np.where(np.isfinite(top), top, top.dtype.type(0.0))
        return top, np.subtract(value, top)


def _log_sum(value, axes):
    """The value of logsumexp with the axes kept as 1; −inf for no elements."""
    if not value.size:
        return np.full(kept_shape(value.shape, axes), -np.inf, value.dtype)
    top, moved = shifted_by_top("logsumexp", value, axes)
    with silence():
        return np.log(np.sum(compute("exp", [moved]), axis=axes, keepdims=True)) + top


def logsumexp_vjp(np, g, out, x, axes):
    return (np.times(g, np.exp(x - out)),)


def logsumexp_jvp(np, t, out, x, axes):
    return np.sum(np.times(t[0], np.exp(x - out)), axis=axes, keepdims=True)


@helper
def read_numbers(data, first, count, to, width):
    """Numbers `first` … of an array with contiguous elements, as doubles."""
    for g in range(count):
        to[g] = load_f64(data, (first + g) * 8) if width == 8 else f32s(data)[first + g] * 1.0


@helper
def short_softmaxes(frame, id, out, groups, n, found):
    """Adjoints of short groups, many at once; returns the number computed."""
    total, width = count_of_groups(groups), groups.width
    if n > SHORT_GROUP or total < SIDE_BY_SIDE:
        return 0
    data, own = load_i64(load_i64(out, 0), ARRAY_DATA), load_i64(cell(frame, id), 0)
    block = malloc((n + 1) * SIDE_BY_SIDE * 8)
    numbers = f64s(block + n * SIDE_BY_SIDE * 8)
    for first in range(0, total, SIDE_BY_SIDE):
        count = min(SIDE_BY_SIDE, total - first)
        step = read_groups(groups, first, count, block)
        read_numbers(data, first, count, numbers, width)
        exponentials_beside(f64s(block), step, numbers, n)
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_numbers(adjoint_place(own, data, seed), first, count, numbers, width)
            to, factors = buffered(groups, found, seed), block + n * SIDE_BY_SIDE * 8
            add_groups(to, first, count, block, step, factors)
    free(block)
    return total


def logsumexp_adjoint(frame, id, refs, task):
    """References: the operand, lines of a group, the output. The gradient is the softmax."""
    groups, n, found = groups_of(frame, refs)
    if n == 0:
        return
    out = refs + 2 * REFERENCE_BYTES
    done = short_softmaxes(frame, id, out, groups, n, found)
    block = malloc(n * 8)
    x = f64s(block)
    for group in range(done, count_of_groups(groups)):
        read_group(groups, group, block)
        total = reduced_value(frame, id, out, group, groups.width)
        for i in range(n):
            x[i] = np.exp(x[i] - total)
        add_partials(frame, id, out, groups, group, found, block)
    free(block)


@helper
def finite(top):
    """The reference of exponentials, given the largest element: 0 for infinity or NaN."""
    return select(np.absolute(top) <= 1.7976931348623157e308, top, 0.0)


@helper
def exponentials(x, n, top, block):
    """Their sum; they are left in the block, which may be where `x` is."""
    to, total = f64s(block), 0.0
    for i in range(n):
        to[i] = np.exp(x[i] - top)
    for i in range(n):
        total = sum_of(total, to[i])
    return total


@helper
def exponentials_beside(x, width, tops, n):
    """The same in place for contiguous groups, each relative to a number of its own."""
    unaliased()
    for i in range(n):
        for g in range(width):
            x[i * width + g] -= tops[g]
    for i in range(n * width):
        x[i] = np.exp(x[i])


@helper
def logsumexps_beside(x, width, tops, totals, n):
    """Values of contiguous groups, left in `totals`."""
    unaliased()
    for g in range(width):
        tops[g], totals[g] = float("-inf"), 0.0
    for i in range(n):
        for g in range(width):
            tops[g] = larger_of(tops[g], x[i * width + g])
    for g in range(width):
        tops[g] = finite(tops[g])
    exponentials_beside(x, width, tops, n)
    for i in range(n):
        for g in range(width):
            totals[g] += x[i * width + g]
    for g in range(width):
        totals[g] = np.log(totals[g]) + tops[g]


@helper
def short_logsumexps(groups, n, total, out):
    """Values of short groups, many at once; returns the number computed."""
    if n > SHORT_GROUP or total < SIDE_BY_SIDE:
        return 0
    block = malloc((n + 2) * SIDE_BY_SIDE * 8)
    tops = block + n * SIDE_BY_SIDE * 8
    totals = tops + SIDE_BY_SIDE * 8
    for first in range(0, total, SIDE_BY_SIDE):
        count = min(SIDE_BY_SIDE, total - first)
        step = read_groups(groups, first, count, block)
        logsumexps_beside(f64s(block), step, f64s(tops), f64s(totals), n)
        for g in range(count):
            out[first + g] = load_f64(totals, g * 8)
    free(block)
    return total


def logsumexp_forward(frame, id, refs, task):
    groups, n, count, out = of_reduction(refs)
    done = short_logsumexps(groups, n, count, out)
    block = malloc(n * 8)
    for group in range(done, count):
        x = f64s(group_in(groups, group, block))
        top = finite(extreme_of(x, n, 1.0))
        out[group] = np.log(exponentials(x, n, top, block)) + top
    free(block)


_LOGSUMEXP = structural(
    "logsumexp",
    logsumexp_adjoint,
    value=_log_sum,
    vjp=logsumexp_vjp,
    jvp=logsumexp_jvp,
    value_kernel=logsumexp_forward,
    layout="reduction",
    helpers=(
        *(read_groups, *REDUCTION_HELPERS, add_groups, read_numbers, finite, exponentials),
        *(exponentials_beside, logsumexps_beside, short_softmaxes, short_logsumexps),
    ),
    example="tg.logsumexp(x)",
    examples=("tg.logsumexp(x, 0)", "tg.logsumexp(x.T, 0, keepdims=True)"),
    doc="logarithm of the sum of exponentials along axes",
    awkward="where the result is infinite, elements equal to it have derivative NaN, others 0",
)


@function()
def logsumexp(x, axis=None, b=None, keepdims=False):
    """Compute the logarithm of the sum of exp(x), without overflow.

    Where the result is infinite, elements equal to it have derivative NaN, others 0.

    Parameters
    ----------
    axis : int or tuple of ints, optional
        Axes that are reduced; by default all.
    b : array_like, optional
        Factors of the exponentials.

    Examples
    --------
    >>> import tapegrad as tg
    >>> float(tg.logsumexp([1000.0, 1000.0]))
    1000.6931471805599
    """
    if b is not None:
        return _weighted(x, axis, b, keepdims)
    given, x = x, floating("logsumexp", x)
    if type(x) is rt.Scalar:
        reduced_axes("logsumexp", axis, 0)
        return x
    array = value_of(x)
    axes = reduced_axes("logsumexp", axis, array.ndim)
    value = _LOGSUMEXP.value(array, axes)
    if is_tensor(x):
        return reduced(ARRAY + _LOGSUMEXP.code, value, x, axes, keepdims)
    return result(given, value if keepdims else np.squeeze(value, axes))


def _weighted(x, axis, b, keepdims):
    """log of the sum of b·exp(x): shifted by the largest x, which cancels in the derivative.

    An x that is not counted has no part in it, however large; exp(x) is its derivative to b.
    """
    x, b = unlisted(x), unlisted(b)
    top = steered(_top, x, b, axis=axis)
    powers = apply("exp", apply("subtract", x, top))
    total = sum(apply("weighted", b, powers), axis, None, None, keepdims)
    return apply("add", apply("log", total), top if keepdims else steered(np.squeeze, top, axis))


@named("scans.top")
def _top(x, b, axis):
    """The largest with b ≠ 0 along axes, kept as 1; 0 where it is not finite."""
    value = np.where(np.equal(b, 0.0), -np.inf, x)
    top = np.max(value, axis=axis, keepdims=True) if value.size else 0.0
    return np.where(np.isfinite(top), top, 0.0)
