"""Along an axis: running sums and products, differences, integrals; softmax and its kin."""

from __future__ import annotations

import builtins

import numpy as np

from ..codegen.layout import ARRAY
from ..ops import axis_adjoints as _declarations
from ..ops.table import TABLE
from ..tape.memory_order import dense, memory_axes
from ..tensor import runtime as rt
from ..tensor.apply import apply, compute
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.trace import named, steered
from ..tensor.values import FLOATS, current, differentiates, is_tensor, shape_of, value_of, wrap
from .joining import checked_axis, concatenate
from .reductions import axes_of, grouped, kept_shape, operand, plain, reduced, sum
from .shapes import array_tensor, broadcast_to, numpy_call, ravel

assert _declarations
CUMSUM, CUMPROD, LOGSUMEXP, SOFTMAX, LOG_SOFTMAX = (
    ARRAY + TABLE[name].code
    for name in ("cumsum", "cumprod", "logsumexp", "softmax", "log_softmax")
)


def same_shape(op: int, out: np.ndarray, x, axes):
    """Record an operation along axes that keeps the shape."""
    order = memory_axes(out)
    if order is not None:
        x = rt.view(x, x._array.transpose(order))
        axes = tuple(sorted(order.index(axis) for axis in axes))
        return rt.view(same_shape(op, out.transpose(order), x, axes), out)
    moved, lines = grouped(x, axes)
    seen, _ = grouped(wrap(out), axes)
    return rt.row(op, out, moved, lines, seen._array)


def _running(name: str, op: int, x, axis, dtype, out):
    x = operand(name, x, dtype, out)
    if not differentiates(x):
        return plain(getattr(np, name), x, axis=axis, dtype=dtype)
    if axis is None:
        x, axis = ravel(x), 0
    x = array_tensor(x)
    axis = checked_axis(name, axis, x._array.ndim)
    value = getattr(np, name)(x._array, axis)
    return same_shape(op, dense(value), x, (axis,))


@function("cumsum", method="cumsum")
def cumsum(x, axis=None, dtype=None, out=None):
    """cumsum(x, axis, dtype): running sums along an axis, or of the flattened tensor.

    >>> import tapegrad as tg
    >>> tg.cumsum(tg.tensor([1.0, 2.0, 3.0]))
    tensor([1., 3., 6.])
    """
    return _running("cumsum", CUMSUM, x, axis, dtype, out)


@function("cumprod", method="cumprod")
def cumprod(x, axis=None, dtype=None, out=None):
    """cumprod(x, axis, dtype): running products along an axis, or of the flattened tensor.

    The derivative divides by nothing: it is right also where elements are zero.
    """
    return _running("cumprod", CUMPROD, x, axis, dtype, out)


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
        f"{name}(x, axis, include_initial): {running.__name__} along an axis, needed unless x has "
        "only one;\nwith `include_initial` the empty one comes first."
    )
    return function(name)(cumulative)


cumulative_sum = _cumulative("cumulative_sum", cumsum)
cumulative_prod = _cumulative("cumulative_prod", cumprod)


@function("diff")
def diff(x, n=1, axis=-1, prepend=None, append=None):
    """diff(x, n, axis, prepend, append): n-th differences of neighbours along an axis."""
    x, prepend, append = (unlisted(part) for part in (x, prepend, append))
    parts = [part for part in (prepend, x, append) if part is not None]
    if not builtins.any(is_tensor(part) for part in parts):
        given = {"prepend": prepend, "append": append}
        return np.diff(x, n, axis, **{k: v for k, v in given.items() if v is not None})
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
    """trapezoid(y, x, dx, axis): integral along an axis by the trapezoidal rule.

    `x` are the places, of the shape of y or with one axis; they may be recorded. Without them the
    places are `dx` apart.
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


# --- exponentials -----------------------------------------------------------------------------


def _floating(name: str, x):
    """A recorded operand with a buffer, or the value of one that is not recorded, as floats."""
    x = unlisted(x)
    if differentiates(x):
        return current(x) if type(x) is rt.Array else x
    value = np.asarray(value_of(x))
    return value if value.dtype in FLOATS else value.astype(np.float64)


def _result(x, value):
    return wrap(value) if is_tensor(unlisted(x)) else value[()]


def _shifted(name, value, axes):
    """The largest along axes, 0 where it is not finite; and the values less it."""
    with np.errstate(all="ignore"):
        top = numpy_call(name, np.max, value, axis=axes, keepdims=True)
        if not np.isfinite(top).all():
            top = np.where(np.isfinite(top), top, top.dtype.type(0.0))
        return top, np.subtract(value, top)


def _log_sum(value, axes, keepdims):
    """The value of logsumexp with the axes kept as 1; that of nothing is −inf."""
    if not value.size:
        return np.full(kept_shape(value.shape, axes), -np.inf, value.dtype)
    top, shifted = _shifted("logsumexp", value, axes)
    with np.errstate(all="ignore"):
        return np.log(np.sum(compute("exp", [shifted]), axis=axes, keepdims=True)) + top


@function()
def logsumexp(x, axis=None, b=None, keepdims=False):
    """logsumexp(x, axis, b, keepdims): log of the sum of exp(x), of all elements or along axes.

    With `b` the exponentials are multiplied by it before they are summed. Computed without
    overflow; −inf and inf are right. Where the result is infinite, elements equal to it have
    derivative NaN, others 0.

    >>> import tapegrad as tg
    >>> float(tg.logsumexp([1000.0, 1000.0]))
    1000.6931471805599
    """
    if b is not None:
        return _weighted(x, axis, b, keepdims)
    given, x = x, _floating("logsumexp", x)
    if type(x) is rt.Scalar:
        axes_of("logsumexp", axis, 0)
        return x
    array = value_of(x)
    axes = axes_of("logsumexp", axis, array.ndim)
    value = _log_sum(array, axes, keepdims)
    if is_tensor(x):
        return reduced(LOGSUMEXP, value, x, axes, keepdims)
    return _result(given, value if keepdims else np.squeeze(value, axes))


def _weighted(x, axis, b, keepdims):
    """log of the sum of b·exp(x): shifted by the largest x, which cancels in the derivative."""
    x, b = unlisted(x), unlisted(b)
    top = steered(_top, x, axis=axis)
    total = sum(
        apply("multiply", b, apply("exp", apply("subtract", x, top))), axis, None, None, keepdims
    )
    return apply("add", apply("log", total), top if keepdims else steered(np.squeeze, top, axis))


@named("scans.top")
def _top(value, axis):
    """The largest along axes, kept as 1; 0 where it is not finite."""
    top = np.max(value, axis=axis, keepdims=True) if np.size(value) else 0.0
    return np.where(np.isfinite(top), top, 0.0)


@function()
def softmax(x, axis=None):
    """softmax(x, axis): exp(x) divided by its sum over all elements or along axes.

    >>> import tapegrad as tg
    >>> tg.softmax(tg.tensor([0.0, 0.0]))
    tensor([0.5, 0.5])
    """
    given, x = x, _floating("softmax", x)
    if type(x) is rt.Scalar:
        return apply("multiply", x, 0.0) + 1.0
    array = value_of(x)
    axes = axes_of("softmax", axis, array.ndim)
    with np.errstate(all="ignore"):
        top = np.max(array, axis=axes, keepdims=True) if array.size else 0.0
        value = np.array(compute("exp", [np.subtract(array, top)]), array.dtype)
        value /= np.sum(value, axis=axes, keepdims=True)
    return same_shape(SOFTMAX, value, x, axes) if is_tensor(x) else _result(given, value)


@function()
def log_softmax(x, axis=None):
    """log_softmax(x, axis): logarithm of `softmax`, accurate where that underflows."""
    given, x = x, _floating("log_softmax", x)
    if type(x) is rt.Scalar:
        return apply("multiply", x, 0.0)
    array = value_of(x)
    axes = axes_of("log_softmax", axis, array.ndim)
    if array.size:
        _, shifted = _shifted("log_softmax", array, axes)
        with np.errstate(all="ignore"):
            value = shifted - np.log(np.sum(compute("exp", [shifted]), axis=axes, keepdims=True))
    else:
        value = array
    value = np.array(value, array.dtype)
    return same_shape(LOG_SOFTMAX, value, x, axes) if is_tensor(x) else _result(given, value)
