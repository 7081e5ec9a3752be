"""Convolution of vectors, linear recursions, and windows."""

from __future__ import annotations

import importlib
import math

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import helper, load_f64, load_i64, store_f64
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.strided_memory import Line
from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.trace import fixed, lost_derivative
from ..tensor.values import differentiates, is_recorded, is_tensor, shape_of, value_of, wrap
from .declaring import declared
from .einsum import as_tensor, shown
from .joining import concatenate
from .linear_algebra import matmul
from .reductions import sum as sum_of
from .shapes import reshape, sliding_window_view, transpose
from .without_derivative import unrecorded

# --- The window whose shape may be recorded; those of a number of points alone are NumPy's --------


@function("kaiser")
def kaiser(M, beta):
    """Compute the Kaiser window I₀(β √(1 − t²)) / I₀(β), with t from −1 to 1.

    Parameters
    ----------
    M : int
        The number of points.
    beta : number
        The shape β, which may be recorded.
    """
    if differentiates(M):
        raise lost_derivative(
            "tapegrad.kaiser: the number of points is recorded; it must be an integer, such as "
            "len(x)",
            M,
        )
    count = fixed(M, "the length of kaiser()")
    if not is_recorded(beta):
        made = np.kaiser(count, value_of(beta))
        return wrap(made) if is_tensor(M) or is_tensor(beta) else made
    if shape_of(beta):
        raise TypeError(
            f"tapegrad.kaiser: beta has shape {shape_of(beta)}; it must be one number; call kaiser "
            "once for each window"
        )
    if count == 1:
        return np.ones(1)
    t = (np.arange(0, count) - (count - 1) / 2) / ((count - 1) / 2)
    top = apply("i0", apply("multiply", beta, np.sqrt(1 - t**2)))
    return apply("divide", top, apply("i0", beta))


# --- Convolution and correlation of vectors, as products with the matrix of sliding windows -------


#: Up to this many weights each result is one product of a window with all of them.
_FEW = 32
_MODES = ("full", "same", "valid")


def _valid(a, v):
    """The sums of a[k + j] · v[j] over j, for all k for which v lies within a.

    Many weights are cut into rows of B: the products of each row with all windows of B elements are
    one product of matrices, of which shifted rows are added. It needs √m times the memory of `a`,
    not m times, and BLAS does all of the work.
    """
    n, m = shape_of(a)[0], shape_of(v)[0]
    if m <= _FEW:
        return matmul(sliding_window_view(a, m), v)
    width = math.isqrt(m)
    rows = -(-m // width)
    rest = np.zeros(rows * width - m)
    if len(rest):
        a, v = concatenate([a, _like(rest, a)]), concatenate([v, _like(rest, v)])
    windows = sliding_window_view(a, width)
    products = matmul(reshape(v, (rows, width)), transpose(windows))
    values = value_of(products)
    down, along = values.strides
    shape, strides = (rows, n - m + 1), (down + width * along, along)
    shifted = np.lib.stride_tricks.as_strided(values, shape, strides)
    return sum_of(shown(products, shifted), 0)


def _like(array, x):
    """An array in the dtype of another."""
    return array.astype(np.asarray(value_of(x)).dtype)


def _padded(a, left, right):
    ends = [_like(np.zeros(n), a) for n in (left, right)]
    return concatenate([ends[0], a, ends[1]]) if left or right else a


def _correlated(a, v, mode):
    """The correlation of `a` with v, which is not longer."""
    m = shape_of(v)[0]
    left = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    right = {"full": m - 1, "same": m - m // 2 - 1, "valid": 0}[mode]
    return _valid(_padded(a, left, right), v)


def _check(name, a, v, mode):
    if mode not in _MODES:
        raise ValueError(f"tapegrad.{name}: mode is {mode!r}; it must be 'full', 'same' or 'valid'")
    for operand in (a, v):
        if len(shape_of(operand)) != 1 or not shape_of(operand)[0]:
            raise ValueError(
                f"tapegrad.{name}: an operand has shape {shape_of(operand)}; it must be a vector "
                "of at least one element"
            )


@function("convolve")
def convolve(a, v, mode="full"):
    """Compute the discrete convolution of two vectors: the sums of a[i] · v[k − i].

    Parameters
    ----------
    mode : {"full", "same", "valid"}, optional
        Whether the result has all sums ("full"), as many as the longer vector ("same"), or those
        for which one vector lies within the other ("valid").

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda v: np.convolve([1.0, 2.0, 3.0], v)[1])(np.array([0.0, 1.0]))
    array([2., 1.])
    """
    a, v = unlisted(a), unlisted(v)
    if not differentiates(a, v):
        return unrecorded(np.convolve, a, v, mode=mode)
    a, v = (_vector("convolve", x) for x in (a, v))
    _check("convolve", a, v, mode)
    if shape_of(v)[0] > shape_of(a)[0]:
        a, v = v, a
    return _correlated(a, v[::-1], mode)


@function("correlate")
def correlate(a, v, mode="valid"):
    """Compute the cross-correlation of two vectors: the sums of a[k + i] · v[i].

    Parameters
    ----------
    mode : {"valid", "same", "full"}, optional
        Which sums the result has, as in `convolve`.
    """
    a, v = unlisted(a), unlisted(v)
    if not differentiates(a, v):
        return unrecorded(np.correlate, a, v, mode=mode)
    a, v = as_tensor("correlate", a), as_tensor("correlate", v)
    _check("correlate", a, v, mode)
    if shape_of(v)[0] > shape_of(a)[0]:
        return _correlated(v, a, mode)[::-1]
    return _correlated(a, v, mode)


def _vector(name, x):
    """A number as a vector of one element."""
    x = as_tensor(name, x)
    return x if shape_of(x) else reshape(x, (1,))


# --- Linear recursions along the last axis: what filters with feedback compute --------------------


def _recursion_shape(a, x):
    """The shape of an output; raises ValueError where there is none."""
    if len(a) != 1 or not a[0] or not x:
        raise ValueError(f"recursion does not accept operands of shapes {a} and {x}")
    return x


def _no_recursion(answer):
    return ValueError("filter coefficient a[0] == 0 is not supported")


@helper
def run_recursion(to, x, weights):
    """One line: the elements before an element were computed earlier."""
    scale = 1.0 / load_f64(weights.data, 0)
    for i in range(to.n):
        found = load_f64(x.data, i * x.step)
        for k in range(1, min(weights.n, i + 1)):
            weight = load_f64(weights.data, k * weights.step)
            found -= weight * load_f64(to.data, (i - k) * to.step)
        store_f64(to.data, i * to.step, found * scale)


@helper
def line_from(array, data):
    """The line from `data` on along the last axis of an array."""
    return Line(data, lapack.size_along(array, 1), lapack.stride_along(array, 1))


def recursion_forward(frame, id, refs, task):
    """References: no parameters, the weights, the signals, the output."""
    a, x = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    weights = line_from(a, load_i64(a, ARRAY_DATA))
    if load_f64(weights.data, 0) == 0.0:
        lapack.refuse(frame, 1)
        return
    for k in range(lapack.batch_size(out, 1)):
        to = line_from(out, lapack.batch_item(out, 1, out, 1, k))
        run_recursion(to, line_from(x, lapack.batch_item(x, 1, out, 1, k)), weights)


def _earlier(np, x, k: int):
    """x k elements earlier along the last axis, with zeros before the first."""
    n = x.shape[-1]
    zeros = np.zeros((*x.shape[:-1], min(k, n)), x.dtype)
    return np.concatenate([zeros, x[..., : max(n - k, 0)]], axis=-1)


def recursion_vjp(np, g, out, a, _x):
    """With A y = x, A the banded matrix of `a`: x̄ = A⁻ᵀ ȳ, the recursion backwards, and
    āₖ = −Σₙ x̄ₙ yₙ₋ₖ."""
    back = recursion(a, g[..., ::-1])[..., ::-1]
    axes = tuple(range(-out.ndim, 0))

    def weights():
        parts = [-np.sum(back * _earlier(np, out, k), axis=axes) for k in range(a.shape[-1])]
        return np.stack(parts, axis=-1)

    return (weights, back)


def recursion_jvp(np, t, out, a, _x):
    """A ẏ = ẋ − Ȧ y."""
    right, beside = t[1], (..., *(None,) * out.ndim)
    for k in range(0 if t[0] is None else a.shape[-1]):
        part = t[0][..., k][beside] * _earlier(np, out, k)
        right = -part if right is None else right - part
    return recursion(a, right)


@declared(
    vjp=recursion_vjp,
    jvp=recursion_jvp,
    batch="loop",
    shape=_recursion_shape,
    value_kernel=recursion_forward,
    helpers=(run_recursion, line_from),
    refusal=_no_recursion,
    work=lambda _static, out, a, _x: 0.5 * math.prod(out) * a[0],
    example="tg.scipy.signal.lfilter([1.0], np.concatenate([[2.0], x]), x)",
    examples=("tg.scipy.signal.lfilter([1.0], np.concatenate([[2.0], x.sum(0)]), x, 0)",),
)
def recursion(a, x):
    """The y of Σₖ aₖ yₙ₋ₖ = xₙ, with zeros before the first, along the last axis."""
    shape = _recursion_shape(a.shape, x.shape)
    if a[0] == 0.0:
        raise _no_recursion(1)
    if not x.size:
        return np.zeros(shape, x.dtype)
    return importlib.import_module("scipy.signal").lfilter(np.ones(1, x.dtype), a, x)
