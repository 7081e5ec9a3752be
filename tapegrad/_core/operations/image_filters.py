"""Filters of images, SciPy's, in all boundary modes: correlation, means, splines."""

from __future__ import annotations

import functools
import importlib
import math
import operator
from typing import Any

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import (
    f64s,
    free,
    helper,
    load_f64,
    load_i64,
    malloc,
    memset,
    store_f64,
    store_i64,
    unaliased,
)
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from .declaring import declared

# --- Correlation with weights along an axis, and its transpose, in the language of kernels --------
# An axis is seen as rows: elements that are side by side in memory, or, for the last axis, parts of
# one line with its extension. A sum over weights is one sum of rows for each weight, or for each
# two that are equal, or opposite, in the order in which SciPy adds. Modes are numbers, see `MODES`.


#: SciPy's modes by number, as kernels have them.
MODES = ("nearest", "wrap", "reflect", "mirror", "constant")


@helper
def source_of(i, n, mode):
    """The element of an axis that one of the extended axis is; −1 for a constant."""
    if 0 <= i < n:
        return i
    if mode == 0:
        return 0 if i < 0 else n - 1
    if mode == 1:
        return i % n
    if mode == 4:
        return -1
    if mode == 2:
        i %= 2 * n
        return i if i < n else 2 * n - 1 - i
    if n == 1:
        return 0
    i %= 2 * n - 2
    return i if i < n else 2 * n - 2 - i


@helper
def parity_of(w, m):
    """1 if the weights are equal from both ends, −1 if they are opposite, else 0.

    SciPy takes weights for equal that differ by one unit in the last place of 1.
    """
    even, odd = m % 2 == 1, m % 2 == 1
    for k in range(m // 2):
        even &= abs(w[k] - w[m - 1 - k]) <= 2.0**-52
        odd &= abs(w[k] + w[m - 1 - k]) <= 2.0**-52
    return 1 if even else -1 if odd else 0


@helper
def begin(to, x, w, n):
    """to = w x"""
    unaliased()
    for j in range(n):
        to[j] = w * x[j]


@helper
def add(to, x, w, n):
    """to += w x"""
    unaliased()
    for j in range(n):
        to[j] += x[j] * w


@helper
def add_both(to, x, y, sign, w, n):
    """to += w (x ± y)"""
    unaliased()
    for j in range(n):
        to[j] += (x[j] + sign * y[j]) * w


@helper
def row(table, p):
    return f64s(load_i64(table, p * 8))


@helper
def correlate_rows(to, table, first, w, m, parity, n):
    """The sum of m rows from number `first` of a table of addresses on, with weights."""
    middle = m // 2
    if parity != 0:
        begin(to, row(table, first + middle), w[middle], n)
        for k in range(middle):
            x, y = row(table, first + k), row(table, first + m - 1 - k)
            add_both(to, x, y, float(parity), w[k], n)
    else:
        begin(to, row(table, first + m - 1), w[m - 1], n)
        for k in range(m - 1):
            add(to, row(table, first + k), w[k], n)


@helper
def shape_of_axis(out, back):
    """The numbers of elements before an axis, along it, and behind it, of one image."""
    inner = 1
    for k in range(1, back):
        inner *= lapack.size_along(out, k)
    return lapack.size_along(out, back), inner


@helper
def copy_axes(to, array, at, ndim):
    """Copy the last axes of an array, from an address on, to memory in C order."""
    count = 1
    for back in range(1, ndim + 1):
        count *= lapack.size_along(array, back)
    inner = lapack.size_along(array, 1)
    step = lapack.stride_along(array, 1)
    for first in range(0, count, max(inner, 1)):
        rest, source = first // inner, at
        for back in range(2, ndim + 1):
            size = lapack.size_along(array, back)
            source += rest % size * lapack.stride_along(array, back)
            rest //= size
        for j in range(inner):
            store_f64(to, (first + j) * 8, load_f64(source, j * step))
    return count


@helper
def is_whole_image(array, ndim):
    """Whether the last axes of an array are in C order."""
    step = 8
    for back in range(1, ndim + 1):
        if lapack.stride_along(array, back) != step:
            return False
        step *= lapack.size_along(array, back)
    return True


@helper
def extend(line, x, n, before, total, mode, cval):
    """Write a line of n elements with its extension."""
    for p in range(total):
        s = p - before
        if not 0 <= s < n:
            s = source_of(s, n, mode)
        line[p] = x[s] if s >= 0 else cval


@helper
def correlate_image(to, x, size, axis, weights, beyond):
    """Of one image, in C order; `axis` is length, elements behind it, and number of weights."""
    n, inner, m = axis
    w, parity, before = weights
    mode, cval = beyond
    total = n + m - 1
    table = malloc((total + 1) * 8 + (inner + total) * 8)
    spare = table + (total + 1) * 8
    for j in range(inner):
        store_f64(spare, j * 8, cval)
    for first in range(0, size, n * inner):
        if inner == 1:
            line = spare + 8
            extend(f64s(line), f64s(x + first * 8), n, before, total, mode, cval)
            for p in range(m):
                store_i64(table, p * 8, line + p * 8)
            correlate_rows(f64s(to + first * 8), table, 0, w, m, parity, n)
        else:
            for p in range(total):
                s = source_of(p - before, n, mode)
                store_i64(table, p * 8, x + (first + s * inner) * 8 if s >= 0 else spare)
            for i in range(n):
                at = f64s(to + (first + i * inner) * 8)
                correlate_rows(at, table, i, w, m, parity, inner)
    free(table)


@helper
def spread_rows(to, g, p, axis, weights):
    """Add to a row what the extended row p contributes to all rows of a result."""
    n, inner, m = axis
    w, parity, _ = weights
    for k in range(m):
        i, other = p - k, p - (m - 1 - k)
        if parity != 0 and 0 <= i < n and 0 <= other < n:
            if k < m // 2:
                x, y = f64s(g + i * inner * 8), f64s(g + other * inner * 8)
                add_both(to, x, y, float(parity), w[k], inner)
            elif k == m // 2:
                add(to, f64s(g + i * inner * 8), w[k], inner)
        elif 0 <= i < n:
            add(to, f64s(g + i * inner * 8), w[k], inner)


@helper
def spread_line(spare, g, axis, weights):
    """The contributions of a line to its extension, which are left in the first part of memory."""
    n, _, m = axis
    w, parity, _ = weights
    total = n + m - 1
    wide = spare + total * 8
    memset(wide, 0, (total + m - 1) * 8)
    for i in range(n):
        store_f64(wide, (m - 1 + i) * 8, load_f64(g, i * 8))
    to = f64s(spare)
    begin(to, f64s(wide + (m - 1 - m // 2) * 8), w[m // 2], total)
    for k in range(m // 2):
        x, y = f64s(wide + (m - 1 - k) * 8), f64s(wide + k * 8)
        if parity != 0:
            add_both(to, x, y, float(parity), w[k], total)
        else:
            add(to, x, w[k], total)
            if m - 1 - k != m // 2:
                add(to, y, w[m - 1 - k], total)


@helper
def spread_image(to, g, size, axis, weights, mode):
    """The transpose of `correlate_image`."""
    n, inner, m = axis
    _, _, before = weights
    total = n + m - 1
    spare = malloc((2 * total + m) * 8)
    memset(to, 0, size * 8)
    for first in range(0, size, n * inner):
        at, from_ = to + first * 8, g + first * 8
        if inner == 1:
            spread_line(spare, from_, axis, weights)
        for p in range(total):
            s = source_of(p - before, n, mode)
            if s >= 0 and inner == 1:
                store_f64(at, s * 8, load_f64(at, s * 8) + load_f64(spare, p * 8))
            elif s >= 0:
                spread_rows(f64s(at + s * inner * 8), from_, p, axis, weights)
    free(spare)


@helper
def each_image(refs, x, w, out, cval, is_turned):
    """All images of a batch; references: axis, ndim, mode, origin; the operands; the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    back, ndim, mode, origin = (
        -load_i64(words, 0),
        load_i64(words, 8),
        load_i64(words, 16),
        load_i64(words, 24),
    )
    n, inner = shape_of_axis(out, back)
    m, size = lapack.size_along(w, 1), 1
    for k in range(1, ndim + 1):
        size *= lapack.size_along(out, k)
    if size == 0:
        return
    is_direct = is_whole_image(x, ndim)
    line = malloc((m + (0 if is_direct else size)) * 8)
    room = line + m * 8
    for b in range(lapack.batch_size(out, ndim)):
        at = lapack.batch_item(x, ndim, out, ndim, b)
        if not is_direct:
            copy_axes(room, x, at, ndim)
            at = room
        copy_axes(line, w, lapack.batch_item(w, 1, out, ndim, b), 1)
        weights = f64s(line), parity_of(f64s(line), m), m // 2 + origin
        to = load_i64(out, ARRAY_DATA) + b * size * 8
        if is_turned:
            spread_image(to, at, size, (n, inner, m), weights, mode)
        else:
            beyond = load_f64(lapack.batch_item(cval, 0, out, ndim, b), 0)
            correlate_image(to, at, size, (n, inner, m), weights, (mode, beyond))
    free(line)


def line_correlation_forward(frame, id, refs, task):
    """References: parameters; the image, the weights, the value beyond the ends; the output."""
    x, w = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    cval, out = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    each_image(refs, x, w, out, cval, False)


def line_correlation_transposed_forward(frame, id, refs, task):
    """References: parameters; the adjoint of a result, the weights; the output."""
    g, w = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    each_image(refs, g, w, load_i64(refs, 3 * REFERENCE_BYTES), w, True)


HELPERS = (
    *(source_of, parity_of, begin, add, add_both, row, correlate_rows, shape_of_axis, copy_axes),
    *(is_whole_image, extend, correlate_image, spread_rows, spread_line, spread_image, each_image),
)


# --- Images that are extended beyond their ends, and the transpose of that; batches of images -----


#: For the modes by number the mode of `np.pad` with the same elements; None for a constant.
_PADDING: tuple[Any, ...] = ("edge", "wrap", "symmetric", "reflect", None)


def in_ndimage(name: str):
    return getattr(importlib.import_module("scipy.ndimage"), name)


def sources(n: int, before: int, after: int, mode: int) -> np.ndarray:
    """The element of an axis that each of the extended axis is; −1 for a constant."""
    padding = _PADDING[mode]
    if padding is None:
        ends = [np.full(count, -1) for count in (before, after)]
        return np.concatenate([ends[0], np.arange(n), ends[1]])
    return np.pad(np.arange(n), (before, after), padding)


def ends_of(size: int, origin: int) -> tuple[int, int]:
    """How many elements before and after one its window has."""
    before = size // 2 + origin
    return before, size - 1 - before


def extended(x, axis: int, ends: tuple[int, int], mode: int, cval):
    found = np.moveaxis(x, axis, -1)
    if _PADDING[mode] is None:
        padding = [(0, 0)] * (x.ndim - 1) + [ends]
        found = np.pad(found, padding, constant_values=cval)
    else:
        found = found[..., sources(x.shape[axis], ends[0], ends[1], mode)]
    return np.moveaxis(found, -1, axis)


def folded(x, axis: int, ends, mode: int):
    """The transpose of `_extended`: what was added is added to the elements that it comes from."""
    x = np.moveaxis(x, axis, 0)
    n = x.shape[0] - sum(ends)
    out = x[ends[0] : ends[0] + n].copy()
    found = sources(n, ends[0], ends[1], mode)
    for k in (*range(ends[0]), *range(ends[0] + n, len(found))):
        if found[k] >= 0:
            out[found[k]] += x[k]
    return np.moveaxis(out, 0, axis)


def spread_out(g, sizes, correlate):
    """Σₖ wₖ gₚ₋ₖ for all p, by a correlation with the weights in opposite order from an origin."""
    wide = np.pad(g, [(0, size - 1) for size in sizes])
    return correlate(wide, [(size - 1) // 2 for size in sizes])


def line_back(g, window, axis: int, mode: int, correlate, is_even: bool):
    """The transpose of a filter along an axis: the ends alone have more to be added to.

    `window` is its size and origin; `is_even` says whether weights are the same from both ends.
    `correlate` is the filter with the weights in opposite order, from an origin, with zeros beyond
    the ends, or in another mode.
    """
    size, ends, n, axis = window[0], ends_of(*window), g.shape[axis], axis % g.ndim
    if _PADDING[mode] == "wrap" or (
        _PADDING[mode] == "symmetric" and is_even and ends[0] == ends[1]
    ):
        return correlate(g, ends[1] - size // 2, MODES[mode])
    sizes = [size if k == axis else 1 for k in range(g.ndim)]
    if n < 2 * size:
        wide = spread_out(g, sizes, lambda x, origins: correlate(x, origins[axis]))
        return folded(wide, axis, ends, mode)
    out = correlate(g, ends[1] - size // 2)
    if _PADDING[mode] is not None:
        found, to = sources(n, ends[0], ends[1], mode), np.moveaxis(out, axis, 0)
        before, after = (slice(0, ends[0]), slice(n - ends[1], n))
        for part, places in ((before, found[: ends[0]]), (after, found[n + ends[0] :])):
            strip = np.moveaxis(np.moveaxis(g, axis, 0)[part], 0, axis)
            wide = spread_out(strip, sizes, lambda x, origins: correlate(x, origins[axis]))
            wide = np.moveaxis(wide, axis, 0)
            beyond = wide[: ends[0]] if part is before else wide[size - 1 :][-len(places) :]
            for place, values in zip(places, beyond, strict=False):
                to[place] += values
    return out


def of_each(function, numbers, operands, **static):
    """A function for each element of a batch: `numbers` are those of the axes of each operand."""
    fronts = [x.shape[: x.ndim - n] for x, n in zip(operands, numbers, strict=True)]
    if not any(fronts):
        return function(*operands, **static)
    front = np.broadcast_shapes(*fronts)
    wide = [
        np.broadcast_to(x, (*front, *x.shape[x.ndim - n :]))
        for x, n in zip(operands, numbers, strict=True)
    ]
    made = [function(*[x[at] for x in wide], **static) for at in np.ndindex(front)]
    return np.reshape(np.stack(made), (*front, *made[0].shape))


def total(t, *parts):
    """The sum of what the tangents of operands contribute."""
    found = [part(one) for part, one in zip(parts, t, strict=True) if one is not None]
    return functools.reduce(operator.add, found)


def last_axes(ndim: int) -> tuple[int, ...]:
    return tuple(range(-ndim, 0))


def beside(x, ndim: int):
    """Numbers, which are multiplied with arrays of some axes."""
    return x[(..., *(None,) * ndim)]


def constants(np, x) -> tuple:
    """The images of zeros, and the numbers 0 and 1."""
    return np.zeros(x.shape, x.dtype), np.zeros((), x.dtype), np.ones((), x.dtype)


# --------------------------------------------------------------------------------------------------
# Correlation of images with weights, SciPy's, in all boundary modes; with it its derivatives.
# With the image extended beyond its ends, and wₖ the weights, the result is yᵢ = Σₖ wₖ xᵢ₊ₖ₋ᵣ,
# where r is the number of weights before the middle. The sum Σᵢ gᵢ yᵢ is linear in g, in the
# weights, and in the image, but for what it is extended by if that is a constant: the operations
# are derivatives of it by each, and so of each other. SciPy's code in C computes the values and the
# adjoints.
#
# With `axis` None weights have as many axes as the image, `ndim`; else they are along that axis,
# counted from the end. Operands may have more axes in front, those of a batch.


# --- weights --------------------------------------------------------------------------------------


def _axes_of_weights(axis, ndim: int) -> int:
    return ndim if axis is None else 1


def correlation_vjp(np, g, _out, x, w, cval, *, ndim, axis=None, **static):
    zeros, _, one = constants(np, x)
    static |= {"axis": axis, "ndim": ndim}
    shape = w.shape[len(w.shape) - _axes_of_weights(axis, ndim) :]
    return (
        lambda: spread(g, w, **static),
        lambda: correlation_weights(g, x, cval, shape=shape, **static),
        lambda: np.sum(g * correlated(zeros, w, one, **static), axis=last_axes(ndim)),
    )


def correlation_jvp(np, t, _out, x, w, cval, *, ndim, **static):
    zeros, zero, one = constants(np, x)
    static |= {"ndim": ndim}
    return total(
        t,
        lambda t: correlated(t, w, zero, **static),
        lambda t: correlated(x, t, cval, **static),
        lambda t: beside(t, ndim) * correlated(zeros, w, one, **static),
    )


def transposed_vjp(np, h, _out, g, w, *, ndim, axis=None, **static):
    _, zero, _ = constants(np, g)
    static |= {"axis": axis, "ndim": ndim}
    shape = w.shape[len(w.shape) - _axes_of_weights(axis, ndim) :]
    return (
        lambda: correlated(h, w, zero, **static),
        lambda: correlation_weights(g, h, zero, shape=shape, **static),
    )


def transposed_jvp(np, t, _out, g, w, **static):
    return total(t, lambda t: spread(t, w, **static), lambda t: spread(g, t, **static))


def correlated(x, w, cval, *, axis=None, **static):
    """A correlation, by the operation for one axis or that for all."""
    if axis is None:
        return correlation(x, w, cval, **static)
    return line_correlation(x, w, cval, axis=axis, **static)


def spread(g, w, *, axis=None, **static):
    """The adjoint of the image from that of a correlation."""
    if axis is None:
        return correlation_transposed(g, w, **static)
    return line_correlation_transposed(g, w, axis=axis, **static)


@declared(
    vjp=correlation_vjp,
    jvp=correlation_jvp,
    batch="loop",
    example="tg.scipy.ndimage.correlate(x, x.sum() * np.array([1.0, -2.0]), mode='wrap')",
    examples=(
        "tg.scipy.ndimage.correlate(x, x.sum() * np.eye(3)[:2], mode='nearest', origin=(0, -1))",
    ),
)
def correlation(x, w, cval, *, ndim, mode, origin):
    """The correlation of an image with weights."""
    static = {"mode": MODES[mode], "origin": origin}
    return of_each(_correlation, (ndim, ndim, 0), (x, w, cval), **static)


def _correlation(x, w, cval, **options):
    return in_ndimage("correlate")(x, w, cval=float(cval), **options)


@declared(
    vjp=transposed_vjp,
    jvp=transposed_jvp,
    batch="loop",
    example="tg.grad(lambda y: np.sum(tg.scipy.ndimage.correlate(y, [1.0, -2.0]) ** 2))(x)",
)
def correlation_transposed(g, w, *, ndim, mode, origin):
    """The adjoint of the image from that of a correlation."""
    return of_each(_transposed, (ndim, ndim), (g, w), mode=mode, origin=origin)


def _transposed(g, w, *, mode, origin):
    if not g.size:
        return g.copy()
    turned = w[(slice(None, None, -1),) * w.ndim]

    def within(x, origins):
        return in_ndimage("correlate")(x, turned, mode="constant", origin=origins)

    out = spread_out(g, w.shape, within)
    for k, (size, one) in enumerate(zip(w.shape, origin, strict=True)):
        out = folded(out, k, ends_of(size, one), mode)
    return out


# --- weights along an axis ------------------------------------------------------------------------


def _check(x, w, axis: int, ndim: int, origin: int) -> None:
    size = w[-1] if w else 0
    if not 0 <= size // 2 + origin < max(size, 1) or not -len(x) <= -ndim <= axis < 0 or not size:
        raise ValueError(f"a correlation of shapes {x} and {w}, origin {origin} is not defined")


def _line_shape(x, w, cval, *, axis, ndim, mode, origin):
    """The shape of a result; raises ValueError where there is none."""
    _check(x, w, axis, ndim, origin)
    front = len(x) - ndim
    return (*np.broadcast_shapes(x[:front], w[:-1], cval), *x[front:])


def _transposed_shape(g, w, *, axis, ndim, mode, origin):
    """The shape of a result; raises ValueError where there is none."""
    return _line_shape(g, w, (), axis=axis, ndim=ndim, mode=mode, origin=origin)


def _sums(_static, out, _x, w, *_):
    return 2.0 * math.prod(out) * w[-1]


_WEIGHTS = "np.array([0.5, -1.0, 2.0, 0.25])"


@declared(
    vjp=correlation_vjp,
    jvp=correlation_jvp,
    batch="loop",
    takes_complex=False,
    shape=_line_shape,
    value_kernel=line_correlation_forward,
    helpers=HELPERS,
    work=_sums,
    example=f"tg.scipy.ndimage.correlate1d(x, {_WEIGHTS} * x.sum(), mode='mirror')",
    examples=(
        f"tg.scipy.ndimage.correlate1d(x, {_WEIGHTS}, 0, cval=x.sum(), mode='constant')",
        "tg.scipy.ndimage.gaussian_filter(x, 1.0 + x.sum(), mode='nearest', radius=2)",
    ),
)
def line_correlation(x, w, cval, *, axis, ndim, mode, origin):
    """The correlation of an image with weights along an axis."""
    _line_shape(x.shape, w.shape, cval.shape, axis=axis, ndim=ndim, mode=mode, origin=origin)
    static = {"axis": axis, "mode": MODES[mode], "origin": origin}
    return of_each(_along, (ndim, 1, 0), (x, w, cval), **static)


def _along(x, w, cval, *, axis, **options):
    return in_ndimage("correlate1d")(x, w, axis, cval=float(cval), **options)


@declared(
    vjp=transposed_vjp,
    jvp=transposed_jvp,
    batch="loop",
    takes_complex=False,
    shape=_transposed_shape,
    value_kernel=line_correlation_transposed_forward,
    helpers=HELPERS,
    work=_sums,
    example=f"tg.grad(lambda y: np.sum(tg.scipy.ndimage.correlate1d(y, {_WEIGHTS}) ** 2))(x)",
)
def line_correlation_transposed(g, w, *, axis, ndim, mode, origin):
    """The adjoint of the image from that of a correlation along an axis."""
    _transposed_shape(g.shape, w.shape, axis=axis, ndim=ndim, mode=mode, origin=origin)
    static = {"axis": axis, "mode": mode, "origin": origin}
    return of_each(_along_back, (ndim, 1), (g, w), **static)


def _along_back(g, w, *, axis, mode, origin):
    if not g.size:
        return g.copy()
    turned, correlate1d = w[::-1], in_ndimage("correlate1d")

    def along(x, origin, mode="constant"):
        return correlate1d(x, turned, axis, mode=mode, origin=origin)

    return line_back(g, (w.size, origin), axis, mode, along, (w == turned).all())


# --- the adjoint of weights -----------------------------------------------------------------------


def correlation_weights_vjp(np, h, _out, g, x, cval, *, shape, **static):
    zeros, _, one = constants(np, x)
    return (
        lambda: correlated(x, h, cval, **static),
        lambda: spread(g, h, **static),
        lambda: np.sum(
            h * correlation_weights(g, zeros, one, shape=shape, **static),
            axis=last_axes(len(shape)),
        ),
    )


def correlation_weights_jvp(np, t, _out, g, x, cval, *, shape, **static):
    zeros, zero, one = constants(np, x)
    static |= {"shape": shape}
    return total(
        t,
        lambda t: correlation_weights(t, x, cval, **static),
        lambda t: correlation_weights(g, t, zero, **static),
        lambda t: beside(t, len(shape)) * correlation_weights(g, zeros, one, **static),
    )


@declared(
    vjp=correlation_weights_vjp,
    jvp=correlation_weights_jvp,
    batch="loop",
    example="tg.grad(lambda w: np.sum(tg.scipy.ndimage.correlate1d(x, w) ** 2))(x.sum() * "
    f"{_WEIGHTS})",
)
def correlation_weights(g, x, cval, *, shape, axis, ndim, mode, origin):
    """The adjoint of the weights from that of a correlation."""
    static = {"shape": shape, "axis": axis, "mode": mode, "origin": origin}
    return of_each(_weights, (ndim, ndim, 0), (g, x, cval), **static)


def _weights(g, x, cval, *, shape, axis, mode, origin):
    if not g.size:
        return np.zeros(shape, g.dtype)
    origins, sizes = origin, shape
    if axis is not None:
        axis %= x.ndim
        sizes = [shape[0] if k == axis else 1 for k in range(x.ndim)]
        origins = [origin if k == axis else 0 for k in range(x.ndim)]
    for k, (size, one) in enumerate(zip(sizes, origins, strict=True)):
        x = extended(x, k, ends_of(size, one), mode, cval) if size > 1 else x
    out = np.empty(sizes, np.result_type(g, x))
    for at in np.ndindex(*sizes):
        part = tuple(slice(k, k + n) for k, n in zip(at, g.shape, strict=True))
        out[at] = np.vdot(g, x[part])
    return out.reshape(shape)


# --- Means of windows of images along an axis, SciPy's, and their transpose -----------------------


def moving_mean_vjp(np, g, _out, x, _cval, *, ndim, **static):
    zeros, _, one = constants(np, x)
    static |= {"ndim": ndim}
    return (
        lambda: moving_mean_transposed(g, **static),
        lambda: np.sum(g * moving_mean(zeros, one, **static), axis=last_axes(ndim)),
    )


def moving_mean_jvp(np, t, _out, x, _cval, *, ndim, **static):
    zeros, zero, one = constants(np, x)
    static |= {"ndim": ndim}
    return total(
        t,
        lambda t: moving_mean(t, zero, **static),
        lambda t: beside(t, ndim) * moving_mean(zeros, one, **static),
    )


@declared(
    vjp=moving_mean_vjp,
    jvp=moving_mean_jvp,
    batch="loop",
    example="tg.scipy.ndimage.uniform_filter1d(x, 3, mode='mirror')",
    examples=("tg.scipy.ndimage.uniform_filter(x, (4, 2), cval=x.sum(), mode='constant')",),
)
def moving_mean(x, cval, *, size, axis, ndim, mode, origin):
    """Means of windows along an axis."""
    static = {"size": size, "axis": axis, "mode": MODES[mode], "origin": origin}
    return of_each(_moving_mean, (ndim, 0), (x, cval), **static)


def _moving_mean(x, cval, *, size, axis, **options):
    return in_ndimage("uniform_filter1d")(x, size, axis, cval=float(cval), **options)


def moving_mean_transposed_vjp(np, h, _out, g, **static):
    return (moving_mean(h, np.zeros((), g.dtype), **static),)


@declared(
    vjp=moving_mean_transposed_vjp,
    is_linear=True,
    batch="loop",
    example="tg.grad(lambda y: np.sum(tg.scipy.ndimage.uniform_filter1d(y, 3) ** 2))(x)",
)
def moving_mean_transposed(g, *, size, axis, ndim, mode, origin):
    """The adjoint of the image from that of means of windows."""
    static = {"size": size, "axis": axis, "mode": mode, "origin": origin}
    return of_each(_mean_back, (ndim,), (g,), **static)


def _mean_back(g, *, size, axis, mode, origin):
    if not g.size:
        return g.copy()
    filtered = in_ndimage("uniform_filter1d")

    def along(x, origin, mode="constant"):
        return filtered(x, size, axis, mode=mode, origin=origin)

    return line_back(g, (size, origin), axis, mode, along, True)


# --- Coefficients of splines through the elements of an array along an axis, SciPy's --------------
# They are S x with a matrix S. With the extension of mode "mirror", which SciPy takes for those of
# constants and "wrap", too, Sᵀ = D S D⁻¹, where D halves the elements at both ends; with that of
# "grid-wrap" S is symmetric. So it is with the others, but for fewer than `MOST_INEXACT` elements,
# for which SciPy begins its recursion inexactly: such S are to be multiplied with as matrices.


#: SciPy's S differs by less than 1e-16 from a symmetric matrix for more elements: z²ⁿ for the
#: largest of the poles z, −0.43.
MOST_INEXACT = 32
_MIRRORED = ("mirror", "constant", "wrap", "grid-constant")


def is_exact(n: int, mode: str) -> bool:
    """Whether S of n elements is as above."""
    return n > MOST_INEXACT or n < 2 or mode == "grid-wrap" or mode in _MIRRORED


def _halves(n: int, axis: int) -> np.ndarray:
    """The diagonal of D, along an axis."""
    found = np.ones((n, *[1] * (-1 - axis)))
    if n > 1:
        found[[0, -1]] = 0.5
    return found


def spline_coefficients_vjp(np, g, _out, _x, *, axis, mode, order):
    static = {"axis": axis, "mode": mode, "order": order}
    if mode not in _MIRRORED:
        return (spline_coefficients(g, **static),)
    halves = _halves(_x.shape[axis], axis).astype(_x.dtype)
    return (halves * spline_coefficients(g / halves, **static),)


@declared(
    vjp=spline_coefficients_vjp,
    is_linear=True,
    example="tg.scipy.ndimage.spline_filter1d(x)",
    examples=(
        "tg.scipy.ndimage.spline_filter1d(x, 2, 0, mode='mirror')",
        "tg.scipy.ndimage.spline_filter1d(x, 5, 1, mode='grid-wrap')",
    ),
)
def spline_coefficients(x, *, order, axis, mode):
    """The coefficients of a spline along an axis."""
    filtered = importlib.import_module("scipy.ndimage").spline_filter1d
    return filtered(x, order, axis, output=x.dtype, mode=mode)
