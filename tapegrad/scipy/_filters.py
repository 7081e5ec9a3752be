"""SciPy's `signal` for recorded values: filters with feedback, by order, and responses."""

from __future__ import annotations

import importlib
import operator
import warnings

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import fourier_transforms as pairs
from .._core.operations.convolving import recursion
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import fixed, lost_derivative, named, steered
from .._core.tensor.values import dtype_of, is_tensor, shape_of, value_of
from ._copied_code import copy_of
from ._differentiable import OURS


def _entered(function):
    OURS[f"signal.{function.__name__}"] = function
    return function


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
    include_nyquist=False,  # noqa: N803
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
