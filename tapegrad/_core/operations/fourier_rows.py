"""Fourier transforms along one axis as operations on real arrays.

A complex array is a real one whose last axis holds the real and imaginary parts: `pairs`. Axes are
negative and count without it. The three operations are linear, and adjoint to each other: x of any
length is cut, or continued by zeros, to `n` points; the first `kept` elements of the transform are
given, zeros after them. All are divided by n to the power of half of `power`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..codegen import pocketfft
from ..tensor import copies
from .declaring import declared
from .fourier_kernels import (
    HELPERS,
    complex_fourier_forward,
    hermitian_fourier_forward,
    real_fourier_forward,
)

#: NumPy's names for a power, of forward and of inverse transforms.
FORWARD_NORMS = ("backward", "ortho", "forward")
INVERSE_NORMS = FORWARD_NORMS[::-1]


def as_complex(pairs: np.ndarray) -> np.ndarray:
    """Pairs as complex numbers: a view if the parts are contiguous."""
    if pairs.strides[-1] != pairs.itemsize or not pairs.dtype.isnative:
        pairs = np.array(pairs, order="C")
    return pairs.view(np.result_type(pairs.dtype, 1j))[..., 0]


def _is_near(n: int, size: int, kept: int) -> bool:
    """Whether a number of points is one that transforms of this size and their adjoints have.

    Programs from files may hold any, and the memory for them is not checked.
    """
    return 1 <= n <= 2 * max(size, kept, 8)


def _shape(name: str, ins: int, outs: int):
    """The function that gives the shape of an output; `ins` and `outs` count the axes of parts."""

    def shape(x, *, n, axis, kept, power=0, **_):
        lines = x[: len(x) - ins]
        fits = -len(lines) <= axis < 0 and kept >= 0 and power in (0, 1, 2)
        if not fits or x[len(lines) :] != (2,) * ins or not _is_near(n, lines[axis], kept):
            raise ValueError(f"{name} does not accept an operand of shape {x}")
        place = len(lines) + axis
        return (*lines[:place], kept, *lines[place + 1 :], *(2,) * outs)

    return shape


def _work(static, out, x) -> float:
    """Numbers times stages of a transform, of which a fast one has one for every factor of 4."""
    return max(math.prod(out), math.prod(x)) * math.log(static["n"] + 1, 4) / 3.0


def along(axis: int, index) -> tuple[Any, ...]:
    """An index along an axis, counted from the end."""
    return (..., index, *(slice(None),) * (-axis - 1))


def cut(x: np.ndarray, axis: int, n: int) -> np.ndarray:
    """The first n elements along an axis, counted from the end, or zeros after all."""
    if x.shape[axis] == n:
        return x
    if x.shape[axis] > n:
        return x[along(axis, slice(n))]
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, n - x.shape[axis])
    return np.pad(x, widths)


def _computed(function, x, n, axis, norm, out) -> None:
    """Write a NumPy transform, or its first elements and zeros, to `out`."""
    if not out.size:
        return
    x = cut(x, axis, 1) if x.shape[axis] == 0 else x
    kept = out.shape[axis]
    if kept == (n // 2 + 1 if function is np.fft.rfft else n):
        function(x, n, axis, norm, out=out)
    else:
        out[...] = cut(function(x, n, axis, norm), axis, kept)


def _in_twos(axis: int, n: int) -> tuple[Any, ...]:
    """The index of the frequencies along an axis that represent two of n points."""
    return along(axis, slice(1, (n + 1) // 2))


def _native(kernel) -> dict:
    """What a declaration says of a kernel that calls NumPy's loops, where they are found."""
    return dict(value_kernel=kernel, helpers=HELPERS) if pocketfft.is_available() else {}


# --- complex to complex ---------------------------------------------------------------------------


def complex_fourier_vjp(np, g, _out, _x, *, axis, inverse=False, **static):
    """The adjoint of F is Fᴴ, the transform of the other sign."""
    static |= {"axis": axis, "kept": _x.shape[axis - 1]}
    return (complex_fourier(g, inverse=not inverse, **static),)


def complex_fourier_jvp(np, t, _out, _x, **static):
    return complex_fourier(t[0], **static)


_complex_shape = _shape("fft", 1, 1)


@declared(
    vjp=complex_fourier_vjp,
    jvp=complex_fourier_jvp,
    shape=_complex_shape,
    **_native(complex_fourier_forward),
    work=_work,
    graph="FftC2CBackward0",
    example="np.fft.fft(1j * x).real",
    examples=("np.fft.ifft(x * (1 + 2j), 5, 0, 'ortho').imag",),
)
def complex_fourier(x, *, n, axis, kept, power=0, inverse=False):
    """The discrete Fourier transform of pairs."""
    shape = _complex_shape(x.shape, n=n, axis=axis, kept=kept, power=power)
    out = copies.empty(shape, x.dtype)
    norm = (INVERSE_NORMS if inverse else FORWARD_NORMS)[power]
    transform = np.fft.ifft if inverse else np.fft.fft
    _computed(transform, as_complex(x), n, axis, norm, as_complex(out))
    return out


# --- real to complex ------------------------------------------------------------------------------


def real_fourier_vjp(np, g, _out, _x, *, axis, doubled=False, **static):
    """x̄ⱼ = Re Σₖ ḡₖ exp(2πi jk/n), k ≤ n/2: frequencies that represent two count half."""
    static |= {"axis": axis, "kept": _x.shape[axis]}
    return (hermitian_fourier(g, halved=not doubled, **static),)


def real_fourier_jvp(np, t, _out, _x, **static):
    return real_fourier(t[0], **static)


_real_shape = _shape("rfft", 0, 1)


@declared(
    vjp=real_fourier_vjp,
    jvp=real_fourier_jvp,
    shape=_real_shape,
    **_native(real_fourier_forward),
    work=_work,
    graph="FftR2CBackward0",
    example="np.fft.rfft(x).real",
    examples=("np.fft.rfft(x, 5, 0, 'ortho').imag",),
)
def real_fourier(x, *, n, axis, kept, power=0, doubled=False):
    """The frequencies of real signals, in pairs; with `doubled` those that represent two, twice."""
    shape = _real_shape(x.shape, n=n, axis=axis, kept=kept, power=power)
    out = copies.empty(shape, x.dtype)
    made = as_complex(out)
    _computed(np.fft.rfft, x, n, axis, FORWARD_NORMS[power], made)
    if doubled:
        made[_in_twos(axis, n)] *= 2.0
    return out


# --- complex to real ------------------------------------------------------------------------------


def hermitian_fourier_vjp(np, g, _out, _x, *, axis, halved=False, **static):
    """The transpose: r2c, where frequencies that represent two count twice."""
    static |= {"axis": axis, "kept": _x.shape[axis - 1]}
    return (real_fourier(g, doubled=not halved, **static),)


def hermitian_fourier_jvp(np, t, _out, _x, **static):
    return hermitian_fourier(t[0], **static)


_hermitian_shape = _shape("irfft", 1, 0)


@declared(
    vjp=hermitian_fourier_vjp,
    jvp=hermitian_fourier_jvp,
    shape=_hermitian_shape,
    **_native(hermitian_fourier_forward),
    work=_work,
    graph="FftC2RBackward0",
    example="np.fft.irfft(x)",
    examples=("np.fft.irfft(x, 5, 0, 'ortho')",),
)
def hermitian_fourier(x, *, n, axis, kept, power=0, halved=False):
    """Real signals of frequencies in pairs; with `halved` those that represent two count half."""
    shape = _hermitian_shape(x.shape, n=n, axis=axis, kept=kept, power=power)
    out = copies.empty(shape, x.dtype)
    frequencies = as_complex(x)
    if halved:
        halves = copies.copy_of(frequencies)
        halves[_in_twos(axis, n)] *= 0.5
        frequencies = halves
    _computed(np.fft.irfft, frequencies, n, axis, INVERSE_NORMS[power], out)
    return out
