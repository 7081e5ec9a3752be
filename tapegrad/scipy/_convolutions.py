"""SciPy's `signal` for recorded values: convolutions and correlations, directly and by FFT."""

from __future__ import annotations

import importlib

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import fourier_transforms as pairs
from .._core.tensor.complex_tensors import combined, imag_part, is_complex, real_part
from .._core.tensor.copies import unlisted
from .._core.tensor.registry import by_products, conjugate_of
from .._core.tensor.trace import lost_derivative
from .._core.tensor.values import dtype_of, is_recorded, is_tensor, shape_of
from ._differentiable import OURS

_MODES = ("full", "same", "valid")


def _signal():
    return importlib.import_module("scipy.signal")


def _shape(x) -> tuple[int, ...]:
    return tuple(x.shape) if is_complex(x) else shape_of(x)


def _operands(in1, in2):
    """Two operands as tensors or arrays of floats."""
    found = [unlisted(x) for x in (in1, in2)]
    return [np.asarray(x) if isinstance(x, (int, float, complex)) else x for x in found]


def _floating(x):
    return x if is_complex(x) else pairs.floating(x)


def _turned(x):
    """An operand in the opposite order along all axes."""
    return x[(slice(None, None, -1),) * len(_shape(x))]


def _is_smaller(s1, s2, axes) -> bool:
    """Whether in mode "valid" the operands are exchanged; ValueError if neither is inside."""
    if all(s1[k] >= s2[k] for k in axes):
        return False
    if all(s2[k] >= s1[k] for k in axes):
        return True
    raise ValueError(
        "For 'valid' mode, one must be at least as large as the other in every dimension"
    )


def _window(mode: str, s1, s2, axes) -> tuple[list[int], list[int]]:
    """The place of the result of a mode in the full one, and its shape, along axes."""
    full = [s1[k] + s2[k] - 1 for k in axes]
    if mode == "full":
        sizes = full
    else:
        sizes = [s1[k] if mode == "same" else s1[k] - s2[k] + 1 for k in axes]
    return [(a - b) // 2 for a, b in zip(full, sizes, strict=True)], sizes


# --- directly -------------------------------------------------------------------------------------


def _direct(x, k, starts, sizes):
    """The elements of the full convolution from `starts` on, by sums over windows."""
    if np.prod(_shape(k)) > np.prod(_shape(x)):
        x, k = k, x
    n, m = _shape(x), _shape(k)
    widths = [
        (m_ - 1 - a, a + size - n_) for n_, m_, a, size in zip(n, m, starts, sizes, strict=True)
    ]
    cut = tuple(
        slice(max(-before, 0), n_ - max(-after, 0))
        for n_, (before, after) in zip(n, widths, strict=True)
    )
    x = x[cut]
    if any(max(pair) > 0 for pair in widths):
        x = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths])
    if len(m) == 1:
        return np.correlate(x, _turned(k), "valid")
    windows = PUBLIC["sliding_window_view"](x, m)
    return np.tensordot(windows, _turned(k), len(m))


_bilinear = by_products()


def _convolved(x, k, starts, sizes):
    def direct(x, k):
        return _direct(x, k, starts, sizes)

    return _bilinear(direct, x, k) if is_complex(x) or is_complex(k) else direct(x, k)


# --- by Fourier transforms ------------------------------------------------------------------------


def _by_fft(in1, in2, axes, starts, sizes):
    """The same by transforms along axes; along the others the operands are broadcast."""
    s1, s2 = _shape(in1), _shape(in2)
    fft, ndim = importlib.import_module("scipy.fft"), len(s1)
    if not axes:
        return in1 * in2
    is_real = not is_complex(in1) and not is_complex(in2)
    points = [fft.next_fast_len(s1[k] + s2[k] - 1, is_real) for k in axes]
    places = [k - ndim for k in axes]
    if is_real:
        product = pairs.half_frequencies(in1, points, places, 0)
        product = product * pairs.half_frequencies(in2, points, places, 0)
        made = pairs.real_signals(product, points, places, 2)
    else:
        product = pairs.all_frequencies(in1, points, places, 0)
        product = product * pairs.all_frequencies(in2, points, places, 0)
        made = pairs.all_frequencies(product, points, places, 2, inverse=True)
    index = [slice(None)] * ndim
    for k, start, size in zip(axes, starts, sizes, strict=True):
        index[k] = slice(start, start + size)
    return made[tuple(index)]


def _transform_axes(s1, s2, axes) -> list[int]:
    """The axes of a convolution by FFT: one element is broadcast; ValueError as SciPy's."""
    ndim = len(s1)
    if axes is None:
        found = list(range(ndim))
    else:
        found = [int(k) for k in (axes if np.iterable(axes) else (axes,))]
        found = [k + ndim if k < 0 else k for k in found]
        if any(not 0 <= k < ndim for k in found):
            raise ValueError("axes exceeds dimensionality of input")
        if len(set(found)) != len(found):
            raise ValueError("all axes must be unique")
        if not found:
            raise ValueError("when provided, axes cannot be empty")
    found = [k for k in found if s1[k] != 1 and s2[k] != 1]
    others = [k for k in range(ndim) if k not in found]
    if not all(s1[k] == s2[k] or 1 in (s1[k], s2[k]) for k in others):
        raise ValueError(f"incompatible shapes for in1 and in2: {s1} and {s2}")
    return found


def _check_mode(mode) -> None:
    if mode not in _MODES:
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")


def _check_shapes(s1, s2) -> None:
    if len(s1) != len(s2):
        raise ValueError("in1 and in2 should have the same dimensionality")


def fftconvolve(in1, in2, mode="full", axes=None):
    in1, in2 = _operands(in1, in2)
    s1, s2 = _shape(in1), _shape(in2)
    _check_shapes(s1, s2)
    if not s1:
        return in1 * in2
    if 0 in s1 or 0 in s2:
        return np.array([])
    in1, in2 = _floating(in1), _floating(in2)
    found = _transform_axes(s1, s2, axes)
    if mode == "valid" and _is_smaller(s1, s2, found):
        in1, in2, s1, s2 = in2, in1, s2, s1
    _check_mode(mode)
    made = _by_fft(in1, in2, found, *_window(mode, s1, s2, found))
    return _centered(made, s1) if mode == "same" else made


def _centered(x, shape):
    """The middle of an array; along axes that were broadcast it is longer than the operand."""
    own = _shape(x)
    starts = [(a - b) // 2 for a, b in zip(own, shape, strict=True)]
    return x[tuple(slice(a, a + n) for a, n in zip(starts, shape, strict=True))]


# --- by either ------------------------------------------------------------------------------------


def convolve(in1, in2, mode="full", method="auto"):
    in1, in2 = _operands(in1, in2)
    s1, s2 = _shape(in1), _shape(in2)
    if not s1 and not s2:
        return in1 * in2
    _check_shapes(s1, s2)
    axes = range(len(s1))
    if mode == "valid" and _is_smaller(s1, s2, axes):
        in1, in2, s1, s2 = in2, in1, s2, s1
    if method == "auto":
        plain = [np.broadcast_to(_zero_like(x), _shape(x)) for x in (in1, in2)]
        method = _signal().choose_conv_method(*plain, mode=mode)
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method != "direct":
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    _check_mode(mode)
    if 0 in s1 or 0 in s2:
        return np.convolve(np.zeros(s1), np.zeros(s2), mode)  # which refuses it
    return _convolved(_floating(in1), _floating(in2), *_window(mode, s1, s2, axes))


def _zero_like(x) -> np.ndarray:
    return np.zeros((), x.dtype if is_complex(x) else dtype_of(x))


def correlate(in1, in2, mode="full", method="auto"):
    in1, in2 = _operands(in1, in2)
    s1, s2 = _shape(in1), _shape(in2)
    if not s1 and not s2:
        return in1 * conjugate_of(in2)
    _check_shapes(s1, s2)
    if mode not in _MODES:
        raise ValueError("Acceptable mode flags are 'valid', 'same', or 'full'.")
    return convolve(in1, _turned(conjugate_of(in2)), mode, method)


# --- of images ------------------------------------------------------------------------------------

_BOUNDARIES = {
    **dict.fromkeys(("fill", "pad"), "constant"),
    **dict.fromkeys(("wrap", "circular"), "wrap"),
    **dict.fromkeys(("symm", "symmetric"), "symmetric"),
}


def _extended(x, widths, boundary: str, fillvalue):
    """An image extended by a number of elements at each side."""
    if is_recorded(fillvalue) or is_complex(fillvalue):
        raise lost_derivative(
            "tapegrad.scipy.signal: fillvalue is recorded or complex; give a real number, or "
            "extend the image with np.pad",
            (x, fillvalue),
        )
    if is_complex(x):
        parts = ((real_part(x), fillvalue), (imag_part(x), 0))
        return combined(*[_extended(part, widths, boundary, fill) for part, fill in parts])
    how = _BOUNDARIES[boundary]
    values = {"constant_values": fillvalue} if how == "constant" else {}
    return PUBLIC["pad"](x, [(n, n) for n in widths], how, **values)


def _of_images(name, in1, in2, mode, boundary, fillvalue, correlated):
    in1, in2 = _operands(in1, in2)
    s1, s2 = _shape(in1), _shape(in2)
    if not len(s1) == len(s2) == 2:
        raise ValueError(f"{name} inputs must both be 2-D arrays")
    swapped = mode == "valid" and _is_smaller(s1, s2, (0, 1))
    if swapped:
        in1, in2, s1, s2 = in2, in1, s2, s1
    _check_mode(mode)
    if boundary not in _BOUNDARIES:
        raise ValueError(
            "Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or "
            "'symm')."
        )
    if correlated:
        in2 = _turned(conjugate_of(in2))
    starts, sizes = _window(mode, s1, s2, (0, 1))
    if correlated and mode == "same":
        starts = [n // 2 for n in s2]
    in1, in2 = _floating(in1), _floating(in2)
    widths = [n - 1 for n in s2]
    wide = _extended(in1, widths, boundary, fillvalue) if mode != "valid" else in1
    more = widths if mode != "valid" else (0, 0)
    made = _convolved(wide, in2, [a + n for a, n in zip(starts, more, strict=True)], sizes)
    return _turned(made) if correlated and swapped else made


def convolve2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    return _of_images("convolve2d", in1, in2, mode, boundary, fillvalue, False)


def correlate2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    return _of_images("correlate2d", in1, in2, mode, boundary, fillvalue, True)


# --- with other rates -----------------------------------------------------------------------------


def _sum_of_rows(rows, weights):
    return PUBLIC["sum"](rows * weights, axis=-1)


def upfirdn(h, x, up=1, down=1, axis=-1, mode="constant", cval=0):
    """A filter between a higher and a lower rate: each element of the result is a sum of a row."""
    h, x = _operands(h, x)
    h, x = (one if is_complex(one) or is_tensor(one) else np.asarray(one) for one in (h, x))
    if len(_shape(h)) != 1 or not _shape(h)[0]:
        raise ValueError("h must be 1-D with non-zero length")
    up, down = int(up), int(down)
    if up < 1 or down < 1:
        raise ValueError("Both up and down must be >= 1")
    dtype = np.result_type(h.dtype, x.dtype, np.float32)
    h, moved = h.astype(dtype), np.moveaxis(x.astype(dtype), axis, -1)
    count, n = -(-_shape(h)[0] // up), _shape(moved)[-1]
    at = down * np.arange(((n - 1) * up + _shape(h)[0] - 1) // down + 1)
    wide = _continued(moved, count - 1, max(at[-1] // up - n + 1, 0), mode, cval)
    rows = PUBLIC["sliding_window_view"](wide, count, -1)[..., at // up, :]
    phases = np.pad(h, [(0, count * up - _shape(h)[0])]).reshape(count, up).T[:, ::-1][at % up]
    is_any_complex = is_complex(rows) or is_complex(phases)
    made = (_rows_of_complex if is_any_complex else _sum_of_rows)(rows, phases)
    return np.moveaxis(made, -1, axis)


def _rows_of_complex(rows, weights):
    return _bilinear(_sum_of_rows, rows, weights)


_REFLECTED = {"edge": "edge", "wrap": "wrap", "symmetric": "symmetric", "reflect": "reflect"}


def _continued(x, before: int, after: int, mode: str, cval):
    """A signal continued along the last axis, as the modes of `upfirdn` do."""
    mode, n = mode.lower(), _shape(x)[-1]
    widths = [(0, 0)] * (len(_shape(x)) - 1) + [(before, after)]
    if mode in _REFLECTED:
        return _padded(x, widths, _REFLECTED[mode])
    if mode == "antireflect":
        return _padded(x, widths, "reflect", reflect_type="odd")
    if mode == "antisymmetric":
        turns = np.floor_divide(np.arange(-before, n + after), n) % 2
        return _padded(x, widths, "symmetric") * np.where(turns, -1.0, 1.0).astype(x.real.dtype)
    left, right = np.arange(-before, 0), np.arange(1, after + 1)
    first, last = x[..., :1], x[..., n - 1 :]
    if mode == "constant":
        ends = [cval + 0.0 * first * np.ones(count) for count in (before, after)]
    elif mode in ("smooth", "line"):
        slope = (last - first) / max(n - 1, 1)
        slopes = [slope, slope]
        if mode == "smooth":
            slopes = [x[..., 1:2] - first, last - x[..., n - 2 : n - 1]]
        ends = [first + slopes[0] * left, last + slopes[1] * right]
    else:
        raise ValueError(f"Unknown mode: {mode}")
    return np.concatenate([ends[0], x, ends[1]], axis=-1).astype(x.dtype)


def _padded(x, widths, mode, **keywords):
    if is_complex(x):
        return combined(*[_padded(one, widths, mode, **keywords) for one in (x.real, x.imag)])
    return PUBLIC["pad"](x, widths, mode, **keywords)


for _function in (fftconvolve, convolve, correlate, convolve2d, correlate2d, upfirdn):
    OURS[f"signal.{_function.__name__}"] = _function
OURS["signal.oaconvolve"] = fftconvolve
