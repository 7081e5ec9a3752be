"""Linear recursions along the last axis: what filters with feedback compute."""

from __future__ import annotations

import importlib
import math

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import helper, load_f64, load_i64, store_f64
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.strided_memory import Line
from .declaring import declared


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
