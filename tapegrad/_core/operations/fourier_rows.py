"""Fourier, cosine and sine transforms along one axis as operations on real arrays."""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import numpy as np

from ..codegen import lapack, pocketfft
from ..codegen.intrinsics import (
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    memset,
    store_f64,
)
from ..codegen.layout import ARRAY_DATA, ARRAY_NDIM, REFERENCE_BYTES
from ..tensor import copies
from .declaring import declared

# --- Values of Fourier transforms in programs: lines of arrays through NumPy's own loops ----------
# Complex arrays are real ones whose last axis holds real and imaginary parts. Lines with another
# stride or length than the loops take are copied.


class Lines(NamedTuple):
    """Lines of an array, of one or two parts an element, which have consecutive places.

    The address of the first, elements of one; bytes between elements, parts, and lines.
    """

    data: int
    size: int
    step: int
    part: int
    across: int
    parts: int


class Transform(NamedTuple):
    """The number of NumPy's loop, the number of points, and a factor.

    With `weighted`, it is twice that of the frequencies at the ends, or half of it.
    """

    loop: int
    n: int
    scale: float
    weighted: bool


@helper
def lines_of(array, parts, along, inner):
    """An array as lines.

    Axes are counted from the end from 1 on, without that of the parts.
    """
    first = parts - 1
    part = lapack.stride_along(array, 1) if parts == 2 else 8
    has_inner = load_i32(array, ARRAY_NDIM) - first >= inner
    across = lapack.stride_along(array, first + inner) if has_inner else 0
    size, step = lapack.size_along(array, first + along), lapack.stride_along(array, first + along)
    return Lines(load_i64(array, ARRAY_DATA), size, step, part, across, parts)


@helper
def lines_from(lines, data):
    """Such lines from another address on."""
    return Lines(data, lines.size, lines.step, lines.part, lines.across, lines.parts)


@helper
def line_groups(array, parts, along, inner):
    """The number of lines along `inner` of an array, and the number of such groups."""
    first, count, groups = parts - 1, 1, 1
    for back in range(1, load_i32(array, ARRAY_NDIM) - first + 1):
        if back == inner:
            count = lapack.size_along(array, first + back)
        elif back != along:
            groups *= lapack.size_along(array, first + back)
    return count, groups


@helper
def group_address(array, parts, along, inner, k):
    """The address of group k of lines: of one index along all axes but `along` and `inner`."""
    at, first = load_i64(array, ARRAY_DATA), parts - 1
    for back in range(1, load_i32(array, ARRAY_NDIM) - first + 1):
        if back != along and back != inner:
            size = lapack.size_along(array, first + back)
            at += k % size * lapack.stride_along(array, first + back)
            k //= size
    return at


@helper
def copy_line(to, source, n):
    """Copy the first n elements of a line."""
    for i in range(n):
        for j in range(source.parts):
            value = load_f64(source.data, i * source.step + j * source.part)
            store_f64(to.data, i * to.step + j * to.part, value)


@helper
def transform_copy(room, how, whole, x, y):
    """Transform one line by a copy; the first of `whole` elements are kept, or zeros follow."""
    source = Lines(room + pocketfft.CALL_BYTES, max(x.size, 1), 8 * x.parts, 8, 0, x.parts)
    target = Lines(source.data + (x.size + 1) * 16, whole, 8 * y.parts, 8, 0, y.parts)
    memset(source.data, 0, 16)  # a line without elements is one of a zero
    copy_line(source, x, x.size)
    transform_lines(room, how, 1, source, target)
    common = min(whole, y.size)
    copy_line(y, target, common)
    for i in range(common, y.size):
        for j in range(y.parts):
            store_f64(y.data, i * y.step + j * y.part, 0.0)


@helper
def transform_lines(room, how, count, x, y):
    """Transform lines by NumPy's loop, which takes parts that are contiguous."""
    given, made = (x.data, x.size, x.step, x.across), (y.data, y.size, y.step, y.across)
    pocketfft.lines(room, how.loop, count, given, made, how.scale)


@helper
def halve_ends(y, n):
    """Halve the frequencies of a line that have no conjugate: the others count twice."""
    for j in range(2):
        if y.size > 0:
            store_f64(y.data, j * y.part, 0.5 * load_f64(y.data, j * y.part))
        if n % 2 == 0 and y.size > n // 2:
            last = n // 2 * y.step + j * y.part
            store_f64(y.data, last, 0.5 * load_f64(y.data, last))


@helper
def add_ends(y, x, n, scale):
    """Add once more what those frequencies contribute to a line: the others count half."""
    is_last = n % 2 == 0 and x.size > n // 2
    first = scale * load_f64(x.data, 0) if x.size > 0 else 0.0
    last = scale * load_f64(x.data, n // 2 * x.step) if is_last else 0.0
    for i in range(min(y.size, n)):
        more = first - last if i % 2 else first + last
        store_f64(y.data, i * y.step, load_f64(y.data, i * y.step) + more)


@helper
def transform(how, along, array, in_parts, out, out_parts):
    """Transform an array of one or two parts an element along an axis."""
    n, inner = how.n, 2 if along == 1 else 1
    x, y = lines_of(array, in_parts, along, inner), lines_of(out, out_parts, along, inner)
    count, groups = line_groups(out, out_parts, along, inner)
    whole = n // 2 + 1 if in_parts < out_parts else n
    room = malloc(pocketfft.CALL_BYTES + (x.size + 1 + whole) * 16)
    is_direct = x.size > 0 and x.part == 8 and y.part == 8 and y.size == whole
    for k in range(groups if count > 0 else 0):
        at = lines_from(x, group_address(array, in_parts, along, inner, k))
        to = lines_from(y, group_address(out, out_parts, along, inner, k))
        if is_direct:
            transform_lines(room, how, count, at, to)
        for i in range(0 if is_direct and not how.weighted else count):
            one, made = (
                lines_from(at, at.data + i * x.across),
                lines_from(to, to.data + i * y.across),
            )
            if not is_direct:
                transform_copy(room, how, whole, one, made)
            if how.weighted and out_parts == 2:
                halve_ends(made, n)
            elif how.weighted:
                add_ends(made, one, n, how.scale)
    free(room)


HELPERS = (
    *(Lines, Transform, lines_of, lines_from, line_groups, group_address, copy_line),
    *(transform_lines, transform_copy, halve_ends, add_ends, transform),
)


def complex_fourier_forward(frame, id, refs, task):
    """References: n, axis, kept, power, inverse; the array; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    n, along, power = load_i64(words, 0), -load_i64(words, 8), load_i64(words, 24)
    number = pocketfft.BACKWARD if load_i64(words, 32) != 0 else pocketfft.FORWARD
    scale = pocketfft.scale_of(n, power)
    array, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    transform(Transform(number, n, scale, False), along, array, 2, out, 2)


def real_fourier_forward(frame, id, refs, task):
    """References: n, axis, kept, power, doubled; the array; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    n, along, power = load_i64(words, 0), -load_i64(words, 8), load_i64(words, 24)
    doubled = load_i64(words, 32) != 0
    number = pocketfft.REAL_ODD if n % 2 else pocketfft.REAL_EVEN
    scale = pocketfft.scale_of(n, power) * (2.0 if doubled else 1.0)
    array, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    transform(Transform(number, n, scale, doubled), along, array, 1, out, 2)


def hermitian_fourier_forward(frame, id, refs, task):
    """References: n, axis, kept, power, halved; the array; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    n, along, power = load_i64(words, 0), -load_i64(words, 8), load_i64(words, 24)
    halved = load_i64(words, 32) != 0
    scale = pocketfft.scale_of(n, power) * (0.5 if halved else 1.0)
    array, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    transform(Transform(pocketfft.HERMITIAN, n, scale, halved), along, array, 2, out, 1)


# --- Fourier transforms along one axis as operations on real arrays -------------------------------
# A complex array is a real one whose last axis holds the real and imaginary parts: `pairs`. Axes
# are negative and count without it. The three operations are linear, and adjoint to each other: x
# of any length is cut, or continued by zeros, to `n` points; the first `kept` elements of the
# transform are given, zeros after them. All are divided by n to the power of half of `power`.


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


_complex_shape = _shape("fft", 1, 1)


@declared(
    vjp=complex_fourier_vjp,
    is_linear=True,
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


_real_shape = _shape("rfft", 0, 1)


@declared(
    vjp=real_fourier_vjp,
    is_linear=True,
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


_hermitian_shape = _shape("irfft", 1, 0)


@declared(
    vjp=hermitian_fourier_vjp,
    is_linear=True,
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


# --- Discrete cosine and sine transforms of types 1 to 4, SciPy's, as one linear operation --------
# It is eᵃ C eᵇ, where C is SciPy's transform of `n` points (not orthogonalized), divided by its
# logical size to the power of half of `power`; e multiplies the elements at the ends by √2, and a
# and b are `after` and `before`. The ends are the first and the last element for cosines of type 1,
# the first for cosines and the last for sines of types 2 and 3; the others have none. With w = e⁻²,
#
#     C₁ᵀ = w C₁ w⁻¹ for cosines,   C₂ᵀ = C₃ e²,   C₃ᵀ = e⁻² C₂,
#
# and the others are symmetric, so that the transposed is of the same form.


def _ends(kind: int, sine: bool) -> tuple[int, ...]:
    """The places of the elements that differ from the others."""
    if kind == 1:
        return () if sine else (0, -1)
    return () if kind == 4 else (-1,) if sine else (0,)


def _with_ends(x: np.ndarray, axis: int, ends, exponent: int) -> np.ndarray:
    """The array with its end elements multiplied by √2 to the power of `exponent`; a copy."""
    made = x.copy()
    for place in ends:
        made[along(axis, place)] *= made.dtype.type(2.0 ** (exponent / 2))
    return made


def cosine_transform_vjp(np, g, _out, _x, *, axis, kind, sine=False, before=0, after=0, **static):
    """The transposed, by the identities above."""
    before, after = after, before
    if kind == 1 and not sine:
        before, after = before + 2, after - 2
    elif kind == 2:
        before += 2
    elif kind == 3:
        after -= 2
    static |= {"axis": axis, "kept": _x.shape[axis], "sine": sine, "before": before, "after": after}
    return (cosine_transform(g, kind={2: 3, 3: 2}.get(kind, kind), **static),)


@declared(
    vjp=cosine_transform_vjp,
    is_linear=True,
    example="tg.scipy.fft.dct(x)",
    examples=(
        "tg.scipy.fft.dct(x, 1, 5, norm='ortho') if x.size else tg.scipy.fft.dct(x)",
        "tg.scipy.fft.idct(x, 2, 2, 0, 'forward')",
    ),
)
def cosine_transform(x, *, n, axis, kept, kind, sine=False, power=0, before=0, after=0):
    """A discrete cosine or sine transform, SciPy's, along an axis."""
    fft, ends = importlib.import_module("scipy.fft"), _ends(kind, sine)
    x = cut(x, axis, n)
    x = _with_ends(x, axis, ends, before) if before else x
    out = (fft.dst if sine else fft.dct)(
        x, kind, axis=axis, norm=FORWARD_NORMS[power], orthogonalize=False
    )
    out = _with_ends(out, axis, ends, after) if after else out
    return cut(out, axis, kept)
