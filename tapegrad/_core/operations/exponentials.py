"""Exponentials along axes: logsumexp, softmax, log_softmax."""

from __future__ import annotations

import numpy as np

from ..codegen.layout import ARRAY
from ..ops import axis_adjoints, axis_values
from ..ops.table import structural
from ..tensor import runtime as rt
from ..tensor.apply import apply, compute
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.trace import named, steered
from ..tensor.values import FLOATS, current, differentiates, is_tensor, value_of, wrap
from .cumulative import same_shape
from .reductions import axes_of, kept_shape, reduced, sum
from .shapes import numpy_call


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


def _log_sum(value, axes):
    """The value of logsumexp with the axes kept as 1; that of nothing is −inf."""
    if not value.size:
        return np.full(kept_shape(value.shape, axes), -np.inf, value.dtype)
    top, shifted = _shifted("logsumexp", value, axes)
    with np.errstate(all="ignore"):
        return np.log(np.sum(compute("exp", [shifted]), axis=axes, keepdims=True)) + top


def logsumexp_vjp(np, g, out, x, axes):
    return (np.times(g, np.exp(x - out)),)


def logsumexp_jvp(np, t, out, x, axes):
    return np.sum(np.times(t[0], np.exp(x - out)), axis=axes, keepdims=True)


_LOGSUMEXP = structural(
    "logsumexp",
    axis_adjoints.logsumexp_adjoint,
    value=_log_sum,
    vjp=logsumexp_vjp,
    jvp=logsumexp_jvp,
    value_kernel=axis_values.logsumexp_forward,
    layout="reduction",
    helpers=axis_adjoints.LOGSUMEXP_HELPERS,
    example="tg.logsumexp(x)",
    examples=("tg.logsumexp(x, 0)", "tg.logsumexp(x.T, 0, keepdims=True)"),
    doc="logarithm of the sum of exponentials along axes",
    awkward="where the result is infinite, elements equal to it have slope NaN, others 0",
)


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
    value = _LOGSUMEXP.value(array, axes)
    if is_tensor(x):
        return reduced(ARRAY + _LOGSUMEXP.code, value, x, axes, keepdims)
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


def _exponentials(x, axes):
    """The value of softmax."""
    with np.errstate(all="ignore"):
        top = np.max(x, axis=axes, keepdims=True) if x.size else 0.0
        value = np.array(compute("exp", [np.subtract(x, top)]), x.dtype)
        value /= np.sum(value, axis=axes, keepdims=True)
    return value


def softmax_vjp(np, g, out, _x, axes):
    return (out * (g - np.sum(g * out, axis=axes, keepdims=True)),)


def softmax_jvp(np, t, out, _x, axes):
    mean = np.sum(np.times(t[0], out), axis=axes, keepdims=True)
    return np.times(t[0] - mean, out)


_SOFTMAX = structural(
    "softmax",
    axis_adjoints.softmax_adjoint,
    value=_exponentials,
    vjp=softmax_vjp,
    jvp=softmax_jvp,
    value_kernel=axis_values.softmax_forward,
    layout="same shape",
    helpers=axis_adjoints.SAME_SHAPE_HELPERS,
    example="tg.softmax(x)",
    examples=("tg.softmax(x, 0)", "tg.softmax(x[:, ::2])"),
    doc="exponentials divided by their sum",
)


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
    value = _SOFTMAX.value(array, axes)
    return same_shape(_SOFTMAX, value, x, axes) if is_tensor(x) else _result(given, value)


def _log_exponentials(x, axes):
    """The value of log_softmax."""
    if not x.size:
        return np.array(x)
    _, shifted = _shifted("log_softmax", x, axes)
    with np.errstate(all="ignore"):
        value = shifted - np.log(np.sum(compute("exp", [shifted]), axis=axes, keepdims=True))
    return np.array(value, x.dtype)


def log_softmax_vjp(np, g, out, _x, axes):
    return (g - np.exp(out) * np.sum(g, axis=axes, keepdims=True),)


def log_softmax_jvp(np, t, out, _x, axes):
    return t[0] - np.sum(np.times(t[0], np.exp(out)), axis=axes, keepdims=True)


_LOG_SOFTMAX = structural(
    "log_softmax",
    axis_adjoints.log_softmax_adjoint,
    value=_log_exponentials,
    vjp=log_softmax_vjp,
    jvp=log_softmax_jvp,
    value_kernel=axis_values.log_softmax_forward,
    layout="same shape",
    helpers=axis_adjoints.SAME_SHAPE_HELPERS,
    example="tg.log_softmax(x)",
    examples=("tg.log_softmax(x, 0)", "tg.log_softmax(x[:, ::2])"),
    doc="logarithm of softmax",
)


@function()
def log_softmax(x, axis=None):
    """log_softmax(x, axis): logarithm of `softmax`, accurate where that underflows."""
    given, x = x, _floating("log_softmax", x)
    if type(x) is rt.Scalar:
        return apply("multiply", x, 0.0)
    array = value_of(x)
    axes = axes_of("log_softmax", axis, array.ndim)
    value = _LOG_SOFTMAX.value(array, axes)
    return same_shape(_LOG_SOFTMAX, value, x, axes) if is_tensor(x) else _result(given, value)
