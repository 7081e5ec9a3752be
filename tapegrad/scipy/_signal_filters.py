"""SciPy's `signal` for recorded values: convolutions, filters, analytic signals, trends."""

from __future__ import annotations

import importlib
import operator
import warnings

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import fourier_transforms as pairs
from .._core.operations.convolving import recursion
from .._core.tensor.copies import unlisted
from .._core.tensor.registry import by_products, conjugate_of
from .._core.tensor.trace import fixed, lost_derivative, named, steered
from .._core.tensor.values import (
    combined,
    dtype_of,
    imag_part,
    is_complex,
    is_recorded,
    is_tensor,
    real_part,
    shape_of,
    value_of,
)
from ._copied_code import copy_of
from ._differentiable import OURS, in_package

# --- convolutions ---------------------------------------------------------------------------------
# SciPy's `signal` for recorded values: convolutions and correlations, directly and by FFT.

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
    wide = _continued_by_mode(moved, count - 1, max(at[-1] // up - n + 1, 0), mode, cval)
    rows = PUBLIC["sliding_window_view"](wide, count, -1)[..., at // up, :]
    phases = np.pad(h, [(0, count * up - _shape(h)[0])]).reshape(count, up).T[:, ::-1][at % up]
    is_any_complex = is_complex(rows) or is_complex(phases)
    made = (_rows_of_complex if is_any_complex else _sum_of_rows)(rows, phases)
    return np.moveaxis(made, -1, axis)


def _rows_of_complex(rows, weights):
    return _bilinear(_sum_of_rows, rows, weights)


_REFLECTED = {"edge": "edge", "wrap": "wrap", "symmetric": "symmetric", "reflect": "reflect"}


def _continued_by_mode(x, before: int, after: int, mode: str, cval):
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


# --- filters --------------------------------------------------------------------------------------
# SciPy's `signal` for recorded values: filters with feedback, by order, and responses.


_entered = in_package("signal")


def _real(name: str, x):
    """A real operand of floats; complex ones are refused."""
    x = unlisted(x)
    if is_complex(x):
        raise lost_derivative(
            f"tapegrad.scipy.signal.{name}: an operand is complex; filter its real and imaginary "
            "parts, z.real and z.imag",
            x,
        )
    return pairs.floating(x if is_tensor(x) else np.asarray(x))


def _vector(name: str, what: str, x):
    """Weights of a filter: a vector of at least one; a number is one."""
    x = _real(name, x)
    x = PUBLIC["reshape"](x, (1,)) if not shape_of(x) else x
    if len(shape_of(x)) != 1 or not shape_of(x)[0]:
        raise ValueError(
            f"Parameter {what} is not a non-empty 1d array, since its shape is {shape_of(x)}!"
        )
    return x


# --- filters --------------------------------------------------------------------------------------


def _moving(b, x):
    """Σₖ bₖ xₙ₋ₖ along the last axis, for the length of x and after it."""
    m = shape_of(b)[0]
    if m == 1:
        return b[0] * x
    lead = [(0, 0)] * (len(shape_of(x)) - 1)
    wide = np.pad(x, [*lead, (m - 1, m - 1)])
    windows = PUBLIC["sliding_window_view"](wide, m, -1)
    return PUBLIC["matmul"](windows, b[::-1])


def _filtered(b, a, x, zi):
    """A filter along the last axis from a state: the output, and the state afterwards."""
    n, count = shape_of(x)[-1], max(shape_of(a)[0], shape_of(b)[0]) - 1
    right = _moving(b, x)
    if zi is not None and count:
        lead = [(0, 0)] * (len(shape_of(x)) - 1)
        length = max(shape_of(right)[-1], count)
        right = np.pad(right, [*lead, (0, length - shape_of(right)[-1])])
        right = right + np.pad(a[0] * zi, [*lead, (0, length - count)])
    out = recursion(a, right[..., :n])
    if zi is None:
        return out, None
    return out, _state(a, out, right[..., n:], count)


def _state(a, out, rest, count: int):
    """The contribution of the outputs so far to later ones, for a filter with a₀ = 1."""
    lead = [(0, 0)] * (len(shape_of(out)) - 1)
    rest = rest[..., :count]
    rest = np.pad(rest, [*lead, (0, count - shape_of(rest)[-1])])
    m = shape_of(a)[0]
    if m > 1:
        last = out[..., max(shape_of(out)[-1] - (m - 1), 0) :]
        last = np.pad(last, [*lead, (m - 1 - shape_of(last)[-1], 0)])
        tail = _moving(a, last)[..., m - 1 : m - 1 + count]
        rest = rest - np.pad(tail, [*lead, (0, count - shape_of(tail)[-1])])
    return rest / a[0]


@_entered
def lfilter(b, a, x, axis=-1, zi=None):
    b, a = _vector("lfilter", "b", b), _vector("lfilter", "a", a)
    x = _real("lfilter", x)
    axis = operator.index(axis)
    moved = np.moveaxis(x, axis, -1)
    if zi is None:
        out, _ = _filtered(b, a, moved, None)
        return np.moveaxis(out, -1, axis)
    zi = _real("lfilter", zi)
    wanted = [*shape_of(x)]
    wanted[axis] = max(shape_of(b)[0], shape_of(a)[0]) - 1
    fits = len(wanted) == len(shape_of(zi)) and all(
        n == m or (n == 1 and k != axis % len(wanted))
        for k, (n, m) in enumerate(zip(shape_of(zi), wanted, strict=True))
    )
    if not fits:
        raise ValueError(
            f"Unexpected shape for parameter zi: expected {tuple(wanted)}, found {shape_of(zi)}."
        )
    zi = np.moveaxis(PUBLIC["broadcast_to"](zi, tuple(wanted)), axis, -1)
    out, state = _filtered(b, a, moved, zi)
    return np.moveaxis(out, -1, axis), np.moveaxis(state, -1, axis)


# --- states and ends of signals -------------------------------------------------------------------


def _steady(b, a):
    """The state at which a filter stays for a signal of ones."""
    b, a = b / a[0], a / a[0]
    count = max(shape_of(a)[0], shape_of(b)[0])
    b, a = (np.pad(x, [(0, count - shape_of(x)[0])]) for x in (b, a))
    rest = b[1:] - a[1:] * b[0]
    first = np.sum(rest) / np.sum(a)
    before = np.cumsum(rest)[:-1]
    return np.cumsum(a)[:-1] * first - np.pad(before, [(1, 0)])


def _continued(x, padtype, padlen, taps: int):
    """A signal with elements added at its ends along the last axis; and their number."""
    if padtype not in ("even", "odd", "constant", None):
        raise ValueError(
            f"Unknown value '{padtype}' given to padtype. padtype must be 'even', 'odd', "
            "'constant', or None."
        )
    edge = taps * 3 if padlen is None else padlen
    edge = 0 if padtype is None else edge
    if shape_of(x)[-1] <= edge:
        raise ValueError(
            f"The length of the input vector x must be greater than padlen, which is {edge}."
        )
    if not edge:
        return x, 0
    lead = [(0, 0)] * (len(shape_of(x)) - 1)
    how = {"mode": "edge"} if padtype == "constant" else {"mode": "reflect"}
    if padtype == "odd":
        how["reflect_type"] = "odd"
    return PUBLIC["pad"](x, [*lead, (edge, edge)], **how), edge


# --- sections -------------------------------------------------------------------------------------


@named("signal.are_normalised")
def _are_normalised(sos):
    return bool((sos[:, 3] == 1.0).all())


@named("signal.sections_of_order_1")
def _sections_of_order_1(sos):
    """How many there are at least, as SciPy counts them for its padding."""
    return int((sos[:, 2::3] == 0.0).sum(axis=0).min())


def _sections(name: str, sos):
    """Sections of second order; their weights are checked, by programs too."""
    sos = _real(name, sos)
    sos = sos[None] if len(shape_of(sos)) == 1 else sos
    if len(shape_of(sos)) != 2 or shape_of(sos)[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    if not fixed(steered(_are_normalised, sos), f"{name}()"):
        raise ValueError("sos[:, 3] should be all ones")
    return sos


def _through_sections(sos, x, states):
    """The output of all sections, and their states afterwards."""
    after = []
    for k in range(shape_of(sos)[0]):
        state = None if states is None else states[k]
        x, state = _filtered(sos[k, :3], sos[k, 3:], x, state)
        after.append(state)
    return x, after


@_entered
def sosfilt(sos, x, axis=-1, zi=None):
    sos, x = _sections("sosfilt", sos), _real("sosfilt", x)
    moved, axis = np.moveaxis(x, axis, -1), operator.index(axis) % len(shape_of(x))
    if zi is None:
        return np.moveaxis(_through_sections(sos, moved, None)[0], -1, axis)
    zi, wanted = _real("sosfilt", zi), [*shape_of(x)]
    wanted[axis] = 2
    if shape_of(zi) != (shape_of(sos)[0], *wanted):
        raise ValueError(
            f"Invalid zi shape. With axis={axis}, an input with shape {shape_of(x)}, and an sos "
            f"array with {shape_of(sos)[0]} sections, zi must have shape "
            f"{(shape_of(sos)[0], *wanted)}, got {shape_of(zi)}."
        )
    out, states = _through_sections(sos, moved, np.moveaxis(zi, axis + 1, -1))
    return np.moveaxis(out, -1, axis), np.moveaxis(np.stack(states), -1, axis + 1)


@_entered
def sosfiltfilt(sos, x, axis=-1, padtype="odd", padlen=None):
    sos = _sections("sosfiltfilt", sos)
    x = np.moveaxis(_real("sosfiltfilt", x), axis, -1)
    taps = (
        2 * shape_of(sos)[0] + 1 - int(fixed(steered(_sections_of_order_1, sos), "sosfiltfilt()"))
    )
    x, edge = _continued(x, padtype, padlen, taps)
    steady, scale = [], 1.0
    for k in range(shape_of(sos)[0]):
        steady.append(scale * _steady(sos[k, :3], sos[k, 3:]))
        scale = scale * (np.sum(sos[k, :3]) / np.sum(sos[k, 3:]))
    for _ in range(2):
        x, _ = _through_sections(sos, x, [zi * x[..., :1] for zi in steady])
        x = x[..., ::-1]
    return np.moveaxis(x[..., edge : shape_of(x)[-1] - edge], -1, axis)


# --- by order -------------------------------------------------------------------------------------


@named("signal.ranked")
def _places_by_rank(x, name: str, sizes, kept, rank: int):
    """Where, in the array with zeros around it, the elements are that SciPy's function gives."""
    signal = importlib.import_module("scipy.signal")
    if name == "order_filter":
        chosen = signal.order_filter(x, kept, rank)
    else:
        with warnings.catch_warnings():  # what they say has been said
            warnings.simplefilter("ignore")
            chosen = getattr(signal, name)(x, sizes)
    wide = np.pad(x, [(n // 2, n // 2) for n in sizes])
    places = np.arange(wide.size).reshape(wide.shape)
    every = [np.lib.stride_tricks.sliding_window_view(one, sizes) for one in (wide, places)]
    found, places = (one.reshape(*x.shape, -1)[..., np.flatnonzero(kept)] for one in every)
    wanted = chosen.reshape(*x.shape, 1)
    same = (found == wanted) | ((found != found) & (wanted != wanted))
    return np.take_along_axis(places, same.argmax(-1)[..., None], -1)[..., 0]


def _by_rank(name: str, x, kept: np.ndarray, rank: int):
    """At each place, the element of a rank among those around it that are kept; zeros outside."""
    if is_complex(x) or dtype_of(x).kind != "f":
        raise lost_derivative(f"tapegrad.scipy.signal.{name}: the operand is complex", x)
    if kept.ndim != len(shape_of(x)):
        raise RuntimeError(f"a domain of {kept.ndim} axes for {len(shape_of(x))} of the operand")
    if not -kept.sum() <= rank < kept.sum():
        raise RuntimeError("rank not within filter footprint size")
    if not np.prod(shape_of(x)):
        return x
    places = steered(_places_by_rank, x, name=name, sizes=kept.shape, kept=kept, rank=rank)
    wide = np.pad(x, [(n // 2, n // 2) for n in kept.shape])
    return PUBLIC["reshape"](wide, (-1,))[places]


@_entered
def order_filter(a, domain, rank):
    domain = np.asarray(domain) != 0
    if any(n % 2 != 1 for n in domain.shape):
        raise ValueError("Each dimension of domain argument should have an odd number of elements.")
    return _by_rank("order_filter", unlisted(a), domain, operator.index(rank))


def _median(name: str, x, sizes):
    sizes = np.asarray(3 if sizes is None else sizes)
    sizes = tuple(int(n) for n in np.broadcast_to(sizes, (len(shape_of(x)),)))
    if any(n % 2 != 1 for n in sizes):
        raise ValueError("Each element of kernel_size should be odd.")
    if name == "medfilt" and any(n > m for n, m in zip(sizes, shape_of(x), strict=True)):
        warnings.warn(
            "kernel_size exceeds volume extent: the volume will be zero-padded.", stacklevel=4
        )
    return _by_rank(name, x, np.ones(sizes, bool), int(np.prod(sizes)) // 2)


@_entered
def medfilt(volume, kernel_size=None):
    return _median("medfilt", PUBLIC["atleast_1d"](unlisted(volume)), kernel_size)


@_entered
def medfilt2d(input, kernel_size=3):
    input = unlisted(input)
    if len(shape_of(input)) != 2:
        raise ValueError("medfilt2d takes an image, an array of two axes")
    return _median("medfilt2d", input, kernel_size)


# --- responses ------------------------------------------------------------------------------------


@_entered
def freqz(
    b,
    a=1,
    worN=512,
    whole=False,
    plot=None,
    fs=2 * np.pi,
    include_nyquist=False,
):
    """By a Fourier transform for a filter without feedback, else by SciPy's own code."""
    theirs = importlib.import_module("scipy.signal").freqz
    by_code = copy_of(theirs)
    b, a = unlisted(b), unlisted(a)
    taps, n = np.shape(value_of(b)), 512 if worN is None else worN
    if np.size(value_of(a)) != 1 or not isinstance(n, (int, np.integer)):
        return by_code(b, a, worN, whole, plot, fs, include_nyquist)
    a = PUBLIC["reshape"](PUBLIC["asarray"](a), (1,))
    padded = np.concatenate([a, np.zeros(1, dtype_of(a))])  # by its polynomial
    if len(taps) != 1:
        return by_code(b, padded, worN, whole, plot, fs, include_nyquist)
    points = n if whole else 2 * (n - 1) if include_nyquist else 2 * n
    if points < max(taps[0], 1) or is_complex(a):
        return by_code(b, padded, worN, whole, plot, fs, include_nyquist)
    b = b if is_complex(b) or is_tensor(b) else np.asarray(b)
    narrow = np.float32 if dtype_of(a).char == "f" else np.float64
    some = np.array([1.0, 0.0], np.result_type(b.real.dtype, narrow))
    w = by_code(some, some, n, whole, None, fs, include_nyquist)[0]
    h = importlib.import_module("tapegrad.scipy.fft").fft(b, n=points)[:n]
    h = (h / a).astype(h.dtype)
    if plot is not None:
        plot(w, h)
    return w, h


# --- analytic -------------------------------------------------------------------------------------
# SciPy's `signal` for recorded values: analytic signals, trends, smoothing by polynomials.


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
