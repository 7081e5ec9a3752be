"""Along an axis: running sums and products, differences, integrals."""

from __future__ import annotations

import operator

import numpy as np

from ..codegen.intrinsics import f64s, free, helper, load_i64, malloc
from ..codegen.layout import ARRAY, FRAME_SEEDS, REFERENCE_BYTES
from ..ops.axis_groups import (
    SAME_SHAPE_HELPERS,
    add_adjoint,
    count_of_groups,
    groups_in,
    groups_of,
    of_same_shape,
    read_adjoint,
    read_group,
    write_group,
)
from ..ops.table import structural
from ..tape.sweeps import dense, memory_axes
from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.operators import written_to
from ..tensor.registry import function
from ..tensor.values import differentiates, shape_of, value_of, wrap
from .joining import checked_axis, concatenate
from .reductions import (
    axes_of,
    grouped,
    kept_shape,
    operand,
    plain,
    product_before,
    sum,
    wide_enough,
)
from .shapes import array_tensor, broadcast_to, ravel
from .without_derivative import unrecorded


def same_shape(op, out: np.ndarray, x, axes):
    """Record an operation along axes that keeps the shape."""
    order = memory_axes(out)
    if order is not None:
        x = rt.view_of(x, x._array.transpose(order))
        axes = tuple(sorted(order.index(axis) for axis in axes))
        return rt.view_of(same_shape(op, out.transpose(order), x, axes), out)
    moved, lines = grouped(x, axes)
    seen, _ = grouped(wrap(out), axes)
    return rt.row(ARRAY + op.code, out, moved, lines, seen._array)


def _running(op, x, axis, dtype, out):
    if out is not None:
        return written_to(op.name, _running(op, x, axis, wide_enough(x, dtype, out), None), out)
    x = operand(op.name, x, dtype)
    if not differentiates(x):
        return plain(getattr(np, op.name), x, axis=axis, dtype=dtype)
    if axis is None or (not shape_of(x) and operator.index(axis) in (0, -1)):
        x, axis = ravel(x), 0
    x = array_tensor(x)
    axis = checked_axis(op.name, axis, x._array.ndim)
    value = op.value(x._array, axes=(axis,))
    return same_shape(op, dense(value), x, (axis,))


def backwards(x):
    """The elements in the opposite order along the last axis."""
    return x[..., ::-1]


def cumsum_vjp(np, g, _out, _x, axes):
    return (backwards(np.cumsum(backwards(g), -1)),)


def cumsum_jvp(np, t, _out, _x, axes):
    return np.cumsum(t[0], -1)


def cumsum_adjoint(frame, id, refs, task):
    """References: the operand, 1, the output as seen from it, the output."""
    groups, n, found = groups_of(frame, refs)
    if n == 0:
        return
    out = groups_in(load_i64(refs, 2 * REFERENCE_BYTES), groups.lines, groups.width)
    block = malloc(n * 8)
    g = f64s(block)
    for group in range(count_of_groups(groups)):
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_adjoint(frame, id, out, group, block, seed)
            for i in range(n - 2, -1, -1):
                g[i] += g[i + 1]
            add_adjoint(groups, found, group, block, seed)
    free(block)


@helper
def running_forward(refs, products):
    """Running products, or sums."""
    groups, out, n, count = of_same_shape(refs)
    block = malloc(n * 8)
    x = f64s(block)
    for group in range(count):
        read_group(groups, group, block)
        for i in range(1, n):
            x[i] = x[i] * x[i - 1] if products else x[i] + x[i - 1]
        write_group(out, group, block)
    free(block)


def cumsum_forward(frame, id, refs, task):
    running_forward(refs, False)


_CUMSUM = structural(
    "cumsum",
    cumsum_adjoint,
    value=lambda x, axes: np.cumsum(x, axes[0]),
    vjp=cumsum_vjp,
    jvp=cumsum_jvp,
    value_kernel=cumsum_forward,
    layout="same shape",
    helpers=(*SAME_SHAPE_HELPERS, running_forward),
    example="np.cumsum(x)",
    examples=("np.cumsum(x, 0)", "np.cumsum(x[:, ::-1], 1)"),
    doc="running sums along an axis",
)


@function("cumsum", method="cumsum")
def cumsum(x, axis=None, dtype=None, out=None):
    """Compute cumulative sums along an axis.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.cumsum(tg.tensor([1.0, 2.0, 3.0]))
    tensor([1., 3., 6.])
    """
    return _running(_CUMSUM, x, axis, dtype, out)


def cumprod_vjp(np, g, out, x, axes):
    if np.may_hold_zeros(x):
        return (np.times(sums_of_products_after(np, g, x), product_before(np, x)),)
    return (backwards(np.cumsum(backwards(g * out), -1)) / x,)


def sums_of_products_after(np, g, x):
    """Along the last axis, s with s[i] = g[i] + x[i + 1] · s[i + 1].

    Segments of 1, 2, 4, … elements are combined: each has its sum, and the product of the elements
    of x that multiply the sum of the next segment; the last has none.
    """
    size, step = x.shape[-1], 1
    if size < 2:
        return g
    factors = np.concatenate([x[..., 1:], np.zeros((*x.shape[:-1], 1), x.dtype)], -1)
    sums = g
    while step < size:
        passed = np.times(sums[..., step:], factors[..., :-step])
        sums = np.concatenate([sums[..., :-step] + passed, sums[..., -step:]], -1)
        both = factors[..., :-step] * factors[..., step:]
        factors = np.concatenate([both, factors[..., -step:]], -1)
        step *= 2
    return sums


def cumprod_jvp(np, t, _out, x, axes):
    """Segments of 1, 2, 4, … elements are combined: there is no division, and zeros are right.

    Two neighbouring ones with products p, q and tangents s, t have p·q and s·q + p·t.
    """
    (tangent,), size, step = t, x.shape[-1], 1
    while step < size:
        p, q = x[..., :-step], x[..., step:]
        both = np.times(tangent[..., :-step], q) + np.times(tangent[..., step:], p)
        tangent = np.concatenate([tangent[..., :step], both], -1)
        x = np.concatenate([x[..., :step], p * q], -1)
        step *= 2
    return tangent


def cumprod_adjoint(frame, id, refs, task):
    """References: the operand, 1, the output as seen from it, the output.

    x[i] has adjoint before[i]·s[i], where s[i] = g[i] + x[i+1]·s[i+1]: no division, right at 0.
    """
    groups, n, found = groups_of(frame, refs)
    if n == 0:
        return
    out = groups_in(load_i64(refs, 2 * REFERENCE_BYTES), groups.lines, groups.width)
    block = malloc(n * 24)
    x, before, g = f64s(block), f64s(block + n * 8), f64s(block + n * 16)
    for group in range(count_of_groups(groups)):
        read_group(groups, group, block)
        before[0] = 1.0
        for i in range(1, n):
            before[i] = before[i - 1] * x[i - 1]
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_adjoint(frame, id, out, group, block + n * 16, seed)
            for i in range(n - 2, -1, -1):
                g[i] += x[i + 1] * g[i + 1] if g[i + 1] != 0.0 else 0.0
            for i in range(n):
                g[i] = g[i] * before[i] if g[i] != 0.0 else 0.0
            add_adjoint(groups, found, group, block + n * 16, seed)
    free(block)


def cumprod_forward(frame, id, refs, task):
    running_forward(refs, True)


_CUMPROD = structural(
    "cumprod",
    cumprod_adjoint,
    value=lambda x, axes: np.cumprod(x, axes[0]),
    vjp=cumprod_vjp,
    jvp=cumprod_jvp,
    value_kernel=cumprod_forward,
    layout="same shape",
    helpers=(*SAME_SHAPE_HELPERS, running_forward),
    example="np.cumprod(x)",
    examples=("np.cumprod(x, 0)", "np.cumprod(x[:, ::-1], 1)"),
    doc="running products along an axis, right with zeros",
)


@function("cumprod", method="cumprod")
def cumprod(x, axis=None, dtype=None, out=None):
    """Compute cumulative products along an axis.

    The derivative is right where elements are zero too: nothing is divided by them.
    """
    return _running(_CUMPROD, x, axis, dtype, out)


def _cumulative(name: str, running):
    def cumulative(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
        x = unlisted(x)
        if axis is None and len(shape_of(x)) > 1:
            raise ValueError(f"tapegrad.{name}: the tensor has shape {shape_of(x)}; give axis=")
        made = running(x, 0 if axis is None else axis, dtype, out)
        if not include_initial:
            return made
        axis = 0 if axis is None else axis
        shape = kept_shape(shape_of(made), axes_of(name, axis, len(shape_of(made))))
        first = np.full(shape, float(name == "cumulative_prod"), made.dtype)
        return concatenate([first, made], axis)

    cumulative.__name__ = name
    cumulative.__doc__ = (
        f"Compute `{running.__name__}` along an axis, as the Array API standard has it.\n\n"
        f"Parameters\n----------\naxis : int, optional\n    The axis; operands with one axis need "
        "none.\ninclude_initial : bool, optional\n    Whether the result begins with the value of "
        "no elements."
    )
    return function(name)(cumulative)


cumulative_sum = _cumulative("cumulative_sum", cumsum)
cumulative_prod = _cumulative("cumulative_prod", cumprod)


@function("diff")
def diff(x, n=1, axis=-1, prepend=None, append=None):
    """Compute differences between neighbours along an axis.

    Parameters
    ----------
    n : int, optional
        The number of times that differences are computed.
    prepend, append : array_like, optional
        Values to insert before and after the operand before differences are computed.
    """
    x, prepend, append = (unlisted(part) for part in (x, prepend, append))
    parts = [part for part in (prepend, x, append) if part is not None]
    if not differentiates(*parts):
        given = {"prepend": prepend, "append": append}
        return unrecorded(
            np.diff, x, n=n, axis=axis, **{k: v for k, v in given.items() if v is not None}
        )
    axis = checked_axis("diff", axis, len(shape_of(x)))
    if n < 0:
        raise ValueError(f"tapegrad.diff: n is {n}; it must be 0 or more")
    if n == 0:
        return x
    if len(parts) > 1:
        shape = kept_shape(shape_of(x), (axis,))
        ends = [p if np.ndim(value_of(p)) else broadcast_to(p, shape) for p in parts]
        x = concatenate(
            [x if part is x else end for part, end in zip(parts, ends, strict=True)], axis
        )
    before = (slice(None),) * axis
    for _ in range(n):
        x = apply("subtract", x[(*before, slice(1, None))], x[(*before, slice(None, -1))])
    return x


@function("trapezoid", "trapz")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """Integrate along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : array_like
        The values.
    x : array_like, optional
        The positions, in the shape of `y` or with one axis. They may be recorded.
    dx : number, optional
        The distance between positions, if `x` is not given.
    """
    y, x = unlisted(y), unlisted(x)
    axis = checked_axis("trapezoid", axis, len(shape_of(y)))
    width = dx
    if x is not None:
        width = diff(x, axis=0 if len(shape_of(x)) == 1 else axis)
        if len(shape_of(x)) == 1:
            width = width.reshape([-1 if k == axis else 1 for k in range(len(shape_of(y)))])
    before = (slice(None),) * axis
    ends = apply("add", y[(*before, slice(1, None))], y[(*before, slice(None, -1))])
    return sum(apply("multiply", apply("multiply", ends, width), 0.5), axis)
