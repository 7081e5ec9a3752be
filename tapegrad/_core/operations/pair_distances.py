"""Distances between the rows of two matrices, and their adjoints, without an array of differences.

With u = xᵢ − yⱼ, the distance is a sum of squares (kind `SQUARES`), a sum of sizes (`SIZES`) or the
largest size (`LARGEST`). If it is of `half`, y is x, and there are the pairs of i < j alone, one
after the other.
"""

from __future__ import annotations

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
    sum_of,
    unaliased,
)
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from .declaring import declared, joint_batch

#: Kinds, by which kernels call them, too.
SQUARES, SIZES, LARGEST = 0, 1, 2


# --- kernels --------------------------------------------------------------------------------------


@helper
def add_squares(to, line, x, n):
    """Add the squares of the differences of a number and n others."""
    unaliased()
    for j in range(n):
        u = x - line[j]
        to[j] += u * u


@helper
def add_sizes(to, line, x, n):
    unaliased()
    for j in range(n):
        to[j] += abs(x - line[j])


@helper
def raise_to_sizes(to, line, x, n):
    """The larger of n numbers and the sizes of differences; NaN counts as none, as in SciPy."""
    unaliased()
    for j in range(n):
        size = abs(x - line[j])
        to[j] = size if size > to[j] else to[j]


@helper
def pull_squares(back, g, line, x, n):
    """The adjoint of a number from sums of squares; subtract those of the n others."""
    unaliased()
    total = 0.0
    for j in range(n):
        part = 2.0 * g[j] * (x - line[j]) if g[j] != 0.0 else 0.0
        total = sum_of(total, part)
        back[j] -= part
    return total


@helper
def pull_sizes(back, g, line, x, n):
    """The same from sums of sizes."""
    unaliased()
    total = 0.0
    for j in range(n):
        part = g[j] * lapack.sign(x - line[j]) if g[j] != 0.0 else 0.0
        total = sum_of(total, part)
        back[j] -= part
    return total


@helper
def count_largest(counts, largest, line, x, n):
    """Add 1 where the size of a difference is the largest of all coordinates."""
    unaliased()
    for j in range(n):
        counts[j] += 1.0 if abs(x - line[j]) == largest[j] else 0.0


@helper
def pull_largest(back, g, line, x, n, largest, counts):
    """The same from the largest sizes; coordinates with equal ones have equal parts."""
    unaliased()
    total = 0.0
    for j in range(n):
        u = x - line[j]
        is_largest = abs(u) == largest[j] and g[j] != 0.0
        part = g[j] * lapack.sign(u) / counts[j] if is_largest else 0.0
        total = sum_of(total, part)
        back[j] -= part
    return total


@helper
def turn_rows(to, source, array):
    """Copy a matrix of an array with its axes exchanged, to C order."""
    rows, width = lapack.size_along(array, 2), lapack.size_along(array, 1)
    down, along = lapack.stride_along(array, 2), lapack.stride_along(array, 1)
    for c in range(width):
        line = f64s(to + c * rows * 8)
        for j in range(rows):
            line[j] = load_f64(source, j * down + c * along)


@helper
def measure_rows(to, source, lines, array, kind, half):
    """The distances of the rows of one matrix from those of another, given with exchanged axes."""
    at, rows, width = lines
    down, along = lapack.stride_along(array, 2), lapack.stride_along(array, 1)
    for i in range(lapack.size_along(array, 2)):
        first = i + 1 if half else 0
        n = rows - first
        memset(to, 0, n * 8)
        for c in range(width):
            x = load_f64(source, i * down + c * along)
            line = f64s(at + (c * rows + first) * 8)
            if kind == 0:
                add_squares(f64s(to), line, x, n)
            elif kind == 1:
                add_sizes(f64s(to), line, x, n)
            else:
                raise_to_sizes(f64s(to), line, x, n)
        to += n * 8


def pair_distances_forward(frame, id, refs, task):
    """References: the kind and whether of half, the rows, the other rows, the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    kind, half = load_i64(words, 0), load_i64(words, 8)
    x, y = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    rows, width = lapack.size_along(y, 2), lapack.size_along(y, 1)
    own = 1 if half else 2
    size = lapack.size_along(out, 1) * (1 if half else lapack.size_along(out, 2))
    at = malloc(max(rows * width, 1) * 8)
    for k in range(lapack.batch_size(out, own)):
        turn_rows(at, lapack.batch_item(y, 2, out, own, k), y)
        source = lapack.batch_item(x, 2, out, own, k)
        to = load_i64(out, ARRAY_DATA) + k * size * 8
        measure_rows(to, source, (at, rows, width), x, kind, half)
    free(at)


@helper
def find_largest(largest, counts, at, x, sizes):
    """The largest sizes of the differences of a row from n others, and how many are so large."""
    n, first, rows, width = sizes
    for j in range(n):
        largest[j] = counts[j] = 0.0
    for c in range(width):
        raise_to_sizes(largest, f64s(at + (c * rows + first) * 8), x[c], n)
    for c in range(width):
        count_largest(counts, largest, f64s(at + (c * rows + first) * 8), x[c], n)


@helper
def pull_row(to, g, x, lines, kind, first):
    """The adjoints of one row; subtract those of the others, with exchanged axes too, in `back`."""
    at, back, held, rows, width = lines
    n = rows - first
    largest, counts = f64s(held), f64s(held + rows * 8)
    if kind == 2:
        find_largest(largest, counts, at, x, (n, first, rows, width))
    for c in range(width):
        place = (c * rows + first) * 8
        line, other = f64s(at + place), f64s(back + place)
        if kind == 0:
            to[c] = pull_squares(other, g, line, x[c], n)
        elif kind == 1:
            to[c] = pull_sizes(other, g, line, x[c], n)
        else:
            to[c] = pull_largest(other, g, line, x[c], n, largest, counts)


@helper
def pull_rows(to, g, source, lines, array, kind, half):
    """The adjoints of all rows: of the first to `to`, of the others to `back`.

    `g` is the address of the adjoints of distances, and the strides of rows and along them.
    """
    at, back, held, rows, width = lines
    data, g_down, g_along = g
    down, along = lapack.stride_along(array, 2), lapack.stride_along(array, 1)
    weights, x = f64s(held + 2 * rows * 8), f64s(held + 3 * rows * 8)
    for i in range(lapack.size_along(array, 2)):
        first = i + 1 if half else 0
        for c in range(width):
            x[c] = load_f64(source, i * down + c * along)
        for j in range(rows - first):
            weights[j] = load_f64(data, j * g_along)
        data += (rows - first) * g_along if half else g_down
        pull_row(f64s(to), weights, x, lines, kind, first)
        to += width * 8
    return to


def pair_adjoints_forward(frame, id, refs, task):
    """References: as above, the adjoints of distances, the rows, the other rows, the output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    kind, half = load_i64(words, 0), load_i64(words, 8)
    g, x = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    y, out = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    rows, width = lapack.size_along(y, 2), lapack.size_along(y, 1)
    own = 1 if half else 2
    g_down = 0 if half else lapack.stride_along(g, 2)
    size = rows * width * 8
    at = malloc(2 * size + (3 * rows + width + 1) * 8)
    for k in range(lapack.batch_size(out, 2)):
        turn_rows(at, lapack.batch_item(y, 2, out, 2, k), y)
        memset(at + size, 0, size)
        to = load_i64(out, ARRAY_DATA) + k * lapack.size_along(out, 2) * width * 8
        memset(to, 0, lapack.size_along(out, 2) * width * 8)
        source = lapack.batch_item(x, 2, out, 2, k)
        adjoints = lapack.batch_item(g, own, out, 2, k), g_down, lapack.stride_along(g, 1)
        lines = at, at + size, at + 2 * size, rows, width
        to = pull_rows(to, adjoints, source, lines, x, kind, half)
        for j in range(rows):
            for c in range(width):
                f64s(to)[j * width + c] = load_f64(at + size, (c * rows + j) * 8)
    free(at)


# --- distances ------------------------------------------------------------------------------------


def _pairs_shape(x, y, kind, half):
    """The shape of distances; raises ValueError where the value does."""
    if len(x) < 2 or len(y) < 2 or x[-1] != y[-1] or not 0 <= kind <= LARGEST:
        raise ValueError(f"distances between rows of shapes {x} and {y}")
    if half and x[-2] != y[-2]:
        raise ValueError(f"distances of pairs of rows of shapes {x} and {y}")
    front = joint_batch(x[:-2], y[:-2])
    return (*front, x[-2] * (x[-2] - 1) // 2) if half else (*front, x[-2], y[-2])


def _differences(x, y, half):
    """The differences of all pairs of rows."""
    if half:
        i, j = np.triu_indices(x.shape[-2], 1)
        return x[..., i, :] - y[..., j, :]
    return x[..., :, None, :] - y[..., None, :, :]


def _slopes(np, u, kind):
    """The derivatives of distances by differences."""
    if kind == SQUARES:
        return 2.0 * u
    if kind == SIZES:
        return np.sign(u)
    size = np.absolute(u)
    is_largest = np.where(size == np.max(size, axis=-1, keepdims=True), 1.0, 0.0)
    return np.sign(u) * is_largest / np.sum(is_largest, axis=-1, keepdims=True)


def _moved(np, moves, x, y, kind, half):
    """How distances change if the rows move, the first and the others; None where one does not."""
    if not x.shape[-1]:
        return None
    of_x, of_y = moves
    zeros = np.zeros_like(x if of_x is None else y)
    by = _differences(zeros if of_x is None else of_x, zeros if of_y is None else of_y, half)
    return np.sum(by * _slopes(np, _differences(x, y, half), kind), axis=-1)


def pair_distances_vjp(np, g, _out, x, y, *, kind, half):
    """Adjoints of all rows, from one pass over the pairs."""
    both = pair_adjoints(g, x, y, kind=kind, half=half)
    return both[..., : x.shape[-2], :], both[..., x.shape[-2] :, :]


def pair_distances_jvp(np, t, _out, x, y, *, kind, half):
    return _moved(np, t, x, y, kind, half)


_CDIST = "tg.scipy.spatial.distance.cdist({}, metric={!r})"
_EXAMPLES = [
    _CDIST.format("x, 0.5 * np.cos(x[::-1])", "sqeuclidean"),
    _CDIST.format("x, 0.5 * np.cos(x[::-1])", "cityblock"),
    _CDIST.format("x, np.sin(3.0 * x[::-1])", "chebyshev"),
]
_HELPERS = (
    *(add_squares, add_sizes, raise_to_sizes, pull_squares, pull_sizes, count_largest),
    *(pull_largest, turn_rows, measure_rows, find_largest, pull_row, pull_rows),
)


def _operations(_static, out, x, *_):
    return 3.0 * np.prod(out) * x[-1]


@declared(
    vjp=pair_distances_vjp,
    jvp=pair_distances_jvp,
    batch="loop",
    takes_complex=False,
    shape=_pairs_shape,
    value_kernel=pair_distances_forward,
    helpers=_HELPERS,
    work=_operations,
    example=_CDIST.format("x[:, None], 1.5 * x[::-1, None] + 0.1", "sqeuclidean"),
    examples=(*_EXAMPLES, "tg.scipy.spatial.distance.pdist(x, 'sqeuclidean')"),
)
def pair_distances(x, y, *, kind, half):
    """pair_distances(x, y, kind, half): distances between the rows of two matrices."""
    _pairs_shape(x.shape, y.shape, kind, half)
    u = _differences(x, y, half)
    if kind == SQUARES:
        return np.sum(u * u, axis=-1)
    if kind == SIZES:
        return np.sum(abs(u), axis=-1)
    return np.fmax.reduce(abs(u), axis=-1, initial=0.0)


# --- adjoints of rows -----------------------------------------------------------------------------


def _adjoints_shape(g, x, y, kind, half):
    """The shape of adjoints; raises ValueError where the value does."""
    wanted = _pairs_shape(x, y, kind, half)
    own = 1 if half else 2
    if len(g) < own or g[len(g) - own :] != wanted[len(wanted) - own :]:
        raise ValueError(f"adjoints of shape {g} of distances of shape {wanted}")
    front = joint_batch(g[: len(g) - own], wanted[: len(wanted) - own])
    return (*front, x[-2] + y[-2], x[-1])


def pair_adjoints_vjp(np, h, _out, g, x, y, *, kind, half):
    """They are linear in ḡ; those of squares are linear in the rows, too."""
    of_x, of_y = h[..., : x.shape[-2], :], h[..., x.shape[-2] :, :]
    of_g = lambda: _moved(np, (of_x, of_y), x, y, kind, half)
    if kind != SQUARES:
        return of_g, None, None
    both = pair_adjoints(g, of_x, of_y, kind=kind, half=half)
    return of_g, both[..., : x.shape[-2], :], both[..., x.shape[-2] :, :]


@declared(
    vjp=pair_adjoints_vjp,
    batch="loop",
    takes_complex=False,
    shape=_adjoints_shape,
    value_kernel=pair_adjoints_forward,
    helpers=_HELPERS,
    work=lambda _static, _out, g, x, _y: 5.0 * np.prod(g) * x[-1],
    example="tg.grad(lambda y: np.sum("
    + _CDIST.format("y, 1.5 * x[::-1, None] + 0.1", "sqeuclidean")
    + " ** 2))(x[:, None])",
    examples=tuple(f"tg.grad(lambda x: np.sum(np.sin(0.3 * {one})))(x)" for one in _EXAMPLES),
)
def pair_adjoints(g, x, y, *, kind, half):
    """pair_adjoints(g, x, y, kind, half): adjoints of the rows of both matrices, from distances."""
    shape = _adjoints_shape(g.shape, x.shape, y.shape, kind, half)
    u = _differences(x, y, half)
    parts = np.where(g[..., None] == 0.0, 0.0, g[..., None] * _slopes(np, u, kind))
    out = np.zeros(shape, parts.dtype)
    if not u.size:
        return out
    if half:
        i, j = np.triu_indices(x.shape[-2], 1)
        for row in range(x.shape[-2]):
            out[..., row, :] = parts[..., i == row, :].sum(-2)
            out[..., x.shape[-2] + row, :] = -parts[..., j == row, :].sum(-2)
        return out
    out[..., : x.shape[-2], :], out[..., x.shape[-2] :, :] = parts.sum(-2), -parts.sum(-3)
    return out
