"""SciPy's `signal` for recorded values: analytic signals, trends, smoothing by polynomials."""

from __future__ import annotations

import importlib
import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import fourier_transforms as pairs
from .._core.tensor.complex_tensors import combined, is_complex
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import lost_derivative
from .._core.tensor.values import dtype_of, is_tensor, shape_of
from ._differentiable import OURS


def _entered(function):
    OURS[f"signal.{function.__name__}"] = function
    return function


# --- analytic signals -----------------------------------------------------------------------------


def _real_signal(x):
    x = unlisted(x)
    if is_complex(x):
        raise ValueError("x must be real.")
    return pairs.floating(x)


def _doubled(n: int) -> np.ndarray:
    """The weights of the frequencies of a signal, up to half of all, in its analytic signal."""
    weights = np.full(n // 2 + 1, 2.0)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    return weights


@_entered
def hilbert(x, N=None, axis=-1):
    x = _real_signal(x)
    n = shape_of(x)[axis] if N is None else operator.index(N)
    if n <= 0:
        raise ValueError("N must be positive.")
    axis -= len(shape_of(x)) if axis >= 0 else 0
    weights = _doubled(n).astype(dtype_of(x)).reshape(-1, *(1,) * -axis)
    half = pairs.frequencies(x, n, axis, 0) * weights
    return pairs.complex_of(pairs.transformed(half, n, axis, 2, True))


@_entered
def hilbert2(x, N=None, axes=(-2, -1)):
    x = _real_signal(x)
    x = PUBLIC["reshape"](x, (1,) * (2 - len(shape_of(x))) + shape_of(x))
    shape, ndim = shape_of(x), len(shape_of(x))
    if len(axes) != 2:
        raise ValueError("axes must be a tuple of length 2")
    if axes[0] == axes[1]:
        raise ValueError("axes must contain 2 distinct axes")
    sizes = [shape[k] for k in axes] if N is None else N
    if isinstance(sizes, int):
        if sizes <= 0:
            raise ValueError("N must be positive.")
        sizes = (sizes, sizes)
    if len(sizes) != 2 or any(n <= 0 for n in sizes):
        raise ValueError("When given as a tuple, N must hold exactly two positive integers")
    places = [k - ndim if k >= 0 else k for k in axes]
    made = pairs.pairs_of(pairs.all_frequencies(x, list(sizes), places, 0))
    for n, axis in zip(sizes, places, strict=True):
        weights = np.zeros(n, dtype_of(x))
        weights[: (n + 1) // 2] = 2.0
        weights[0] = 1.0
        made = made * weights.reshape(-1, *(1,) * -axis)
    for n, axis in zip(sizes, places, strict=True):
        made = pairs.transformed(made, n, axis, 2, True)
    return pairs.complex_of(made)


# --- trends ---------------------------------------------------------------------------------------


def _without_line(x):
    """The part along the last axis that is orthogonal to lines."""
    n = shape_of(x)[-1]
    q, _ = np.linalg.qr(np.stack([np.ones(n), np.arange(1.0, n + 1.0) / n], 1))
    q = q[:, : min(n, 2)].astype(dtype_of(x))
    return x - PUBLIC["matmul"](PUBLIC["matmul"](x, q), q.T)


@_entered
def detrend(data, axis=-1, type="linear", bp=0, overwrite_data=False):
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x = unlisted(data)
    if is_complex(x):
        return combined(*[detrend(part, axis, type, bp) for part in (x.real, x.imag)])
    x = pairs.floating(x)
    if type in ("constant", "c"):
        return x - np.mean(x, axis=axis, keepdims=True)
    n = shape_of(x)[axis]
    ends = np.unique([0, *np.ravel(bp), n]).astype(int)
    if np.any(ends > n):
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    moved = np.moveaxis(x, axis, -1)
    spans = zip(ends[:-1], ends[1:], strict=True)
    pieces = [_without_line(moved[..., start:stop]) for start, stop in spans]
    return np.moveaxis(np.concatenate(pieces, axis=-1), -1, axis)


# --- smoothing ------------------------------------------------------------------------------------

_CONTINUED = {"mirror": "reflect", "nearest": "edge", "wrap": "wrap", "constant": "constant"}


@_entered
def savgol_filter(
    x, window_length, polyorder, deriv=0, delta=1.0, axis=-1, mode="interp", cval=0.0
):
    if mode not in (*_CONTINUED, "interp"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    if is_tensor(cval):
        raise lost_derivative(
            "tapegrad.scipy.signal.savgol_filter: cval is recorded, so its derivative would be "
            "lost; give it as a number",
            cval,
        )
    if is_tensor(delta):
        return savgol_filter(x, window_length, polyorder, deriv, 1.0, axis, mode, cval) / (
            delta**deriv
        )
    x = unlisted(x)
    x = x if is_complex(x) else pairs.floating(x)
    n, width = x.shape[axis], operator.index(window_length)
    signal, half = importlib.import_module("scipy.signal"), width // 2
    weights = signal.savgol_coeffs(width, polyorder, deriv, delta, use="dot")
    dtype = x.real.dtype if is_complex(x) else dtype_of(x)
    moved = np.moveaxis(x, axis, -1)
    if mode != "interp":
        lead = [(0, 0)] * (len(moved.shape) - 1)
        values = {"constant_values": cval} if mode == "constant" else {}
        moved = np.pad(moved, [*lead, ((width - 1) // 2, half)], _CONTINUED[mode], **values)
        windows = PUBLIC["sliding_window_view"](moved, width, -1)
        return np.moveaxis(np.matmul(windows, weights.astype(dtype)), -1, axis)
    if width > n:
        raise ValueError(
            "If mode is 'interp', window_length must be less than or equal to the size of x."
        )
    every = signal.savgol_filter(np.eye(width), width, polyorder, deriv, delta, axis=0)
    every = every.astype(dtype)
    middle = np.matmul(PUBLIC["sliding_window_view"](moved, width, -1), weights.astype(dtype))
    middle = middle[..., half - (width - 1) // 2 :][..., : n - 2 * half]
    first = np.matmul(moved[..., :width], every[:half].T)
    last = np.matmul(moved[..., n - width :], every[width - half :].T)
    return np.moveaxis(np.concatenate([first, middle, last], axis=-1), -1, axis)
