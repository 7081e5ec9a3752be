"""Sparse matrices, whose stored numbers and places are given: products, equations."""

from __future__ import annotations

import copy
import importlib
import math
import threading
import warnings
from typing import Any, NamedTuple

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import f64s, free, helper, load_i64, malloc, memset, unaliased
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from .declaring import conjugate, declared, joint_batch
from .image_filters import copy_axes, is_whole_image

# --- Kernels of `sparse_products`: rows and columns are arrays of floats, as all operands are -----
# Loops go over the stored numbers, not over rows: where rows are short, their ends are not foreseen
# by the processor, which takes longer than the sums. Operands are read in C order; others are
# copied. A place outside of the matrix ends a loop where it is read.


class StoredPlaces(NamedTuple):
    """Where the stored numbers of an m by n matrix are, and how many."""

    rows: Any
    columns: Any
    stored: int
    m: int
    n: int


# --- operands -------------------------------------------------------------------------------------


@helper
def operand(refs, k):
    """The array of reference k."""
    return load_i64(refs, k * REFERENCE_BYTES)


@helper
def room_for(array, own):
    """The bytes that a copy of the last axes of an array takes; 0 if it needs none."""
    if is_whole_image(array, own):
        return 0
    count = 8
    for back in range(1, own + 1):
        count *= lapack.size_along(array, back)
    return count


@helper
def in_order(array, own, out, out_own, k, room):
    """The address of element k of the output's batch in an array, or of its copy in C order."""
    at = lapack.batch_item(array, own, out, out_own, k)
    if is_whole_image(array, own):
        return at
    copy_axes(room, array, at, own)
    return room


@helper
def room_for_places(rows, columns):
    """The bytes that `read_places` takes."""
    return room_for(rows, 1) + room_for(columns, 1)


@helper
def read_places(rows, columns, room, m, n):
    """The places of an m by n matrix."""
    first = in_order(rows, 1, rows, 1, 0, room)
    second = in_order(columns, 1, columns, 1, 0, room + room_for(rows, 1))
    return StoredPlaces(f64s(first), f64s(second), lapack.size_along(rows, 1), m, n)


# --- loops over the stored numbers ----------------------------------------------------------------


@helper
def is_inside(p, row, column):
    return 0 <= row < p.m and 0 <= column < p.n


@helper
def line(address, row, width):
    """Row `row` of a matrix in C order."""
    return f64s(address + row * width * 8)


@helper
def add_scaled(to, x, factor, n):
    """Add a multiple of n numbers to others."""
    unaliased()
    for j in range(n):
        to[j] += factor * x[j]


@helper
def inner(x, y, n):
    """The sum of products of n numbers."""
    total = 0.0
    for j in range(n):
        total += x[j] * y[j]
    return total


@helper
def times_vector(p, numbers, x, to):
    """Add A x; whether all places are within the matrix."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[row] += numbers[k] * x[column]
    return True


@helper
def times_matrix(p, numbers, x, to, width):
    """The same of several vectors side by side."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        add_scaled(line(to, row, width), line(x, column, width), numbers[k], width)
    return True


@helper
def samples_of_vectors(p, u, v, to):
    """Write u vᵀ at the places."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[k] = u[row] * v[column]
    return True


@helper
def samples_of_matrices(p, u, v, to, width):
    """The same, u and v of several columns."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[k] = inner(line(u, row, width), line(v, column, width), width)
    return True


@helper
def adjoints_of_vector(p, numbers, u, v, to, added):
    """The same of vectors, and add Aᵀ u to `added`, in one pass."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[k] = u[row] * v[column]
        added[column] += numbers[k] * u[row]
    return True


@helper
def adjoints_of_matrix(p, numbers, u, v, to, added, width):
    """The same, u and v of several columns."""
    for k in range(p.stored):
        row, column = int(p.rows[k]), int(p.columns[k])
        if not is_inside(p, row, column):
            return False
        to[k] = inner(line(u, row, width), line(v, column, width), width)
        add_scaled(line(added, column, width), line(u, row, width), numbers[k], width)
    return True


# --- kernels --------------------------------------------------------------------------------------


def sparse_product_forward(frame, id, refs, task):
    """References: parameters, the numbers, rows, columns, the operand, the output."""
    numbers, rows, columns = operand(refs, 1), operand(refs, 2), operand(refs, 3)
    x, out = operand(refs, 4), operand(refs, 5)
    m, width, is_right = lapack.size_along(out, 2), lapack.size_along(out, 1), True
    of_numbers, of_x = room_for(numbers, 1), room_for(x, 2)
    room = malloc(of_numbers + of_x + room_for_places(rows, columns))
    p = read_places(rows, columns, room + of_numbers + of_x, m, lapack.size_along(x, 2))
    for k in range(lapack.batch_size(out, 2)):
        at = f64s(in_order(numbers, 1, out, 2, k, room))
        given = in_order(x, 2, out, 2, k, room + of_numbers)
        to = load_i64(out, ARRAY_DATA) + k * m * width * 8
        memset(to, 0, m * width * 8)
        if width == 1:
            is_right &= times_vector(p, at, f64s(given), f64s(to))
        else:
            is_right &= times_matrix(p, at, given, to, width)
    free(room)
    if not is_right:
        lapack.refuse(frame, 1)


def sparse_samples_forward(frame, id, refs, task):
    """References: no parameters, rows, columns, the operands by row and by column, the output."""
    rows, columns = operand(refs, 1), operand(refs, 2)
    u, v, out = operand(refs, 3), operand(refs, 4), operand(refs, 5)
    width, of_u, of_v, is_right = lapack.size_along(u, 1), room_for(u, 2), room_for(v, 2), True
    room = malloc(of_u + of_v + room_for_places(rows, columns))
    m, n = lapack.size_along(u, 2), lapack.size_along(v, 2)
    p = read_places(rows, columns, room + of_u + of_v, m, n)
    for k in range(lapack.batch_size(out, 1)):
        by_row = in_order(u, 2, out, 1, k, room)
        by_column = in_order(v, 2, out, 1, k, room + of_u)
        to = f64s(load_i64(out, ARRAY_DATA) + k * p.stored * 8)
        if width == 1:
            is_right &= samples_of_vectors(p, f64s(by_row), f64s(by_column), to)
        else:
            is_right &= samples_of_matrices(p, by_row, by_column, to, width)
    free(room)
    if not is_right:
        lapack.refuse(frame, 1)


def sparse_adjoints_forward(frame, id, refs, task):
    """References: no parameters, numbers, rows, columns, adjoints, the operand, the output."""
    numbers, rows, columns = operand(refs, 1), operand(refs, 2), operand(refs, 3)
    u, v, out = operand(refs, 4), operand(refs, 5), operand(refs, 6)
    m, n, width = lapack.size_along(u, 2), lapack.size_along(v, 2), lapack.size_along(v, 1)
    of_numbers, of_u, of_v, is_right = room_for(numbers, 1), room_for(u, 2), room_for(v, 2), True
    room = malloc(of_numbers + of_u + of_v + room_for_places(rows, columns))
    p = read_places(rows, columns, room + of_numbers + of_u + of_v, m, n)
    for k in range(lapack.batch_size(out, 1)):
        at = f64s(in_order(numbers, 1, out, 1, k, room))
        by_row = in_order(u, 2, out, 1, k, room + of_numbers)
        by_column = in_order(v, 2, out, 1, k, room + of_numbers + of_u)
        to = load_i64(out, ARRAY_DATA) + k * (p.stored + n * width) * 8
        added = to + p.stored * 8
        memset(added, 0, n * width * 8)
        if width == 1:
            x, g = f64s(by_column), f64s(by_row)
            is_right &= adjoints_of_vector(p, at, g, x, f64s(to), f64s(added))
        else:
            is_right &= adjoints_of_matrix(p, at, by_row, by_column, f64s(to), added, width)
    free(room)
    if not is_right:
        lapack.refuse(frame, 1)


_KERNEL_OPERANDS = (
    *(copy_axes, is_whole_image, StoredPlaces, operand, room_for, in_order, room_for_places),
    *(read_places, is_inside, line),
)
PRODUCT_HELPERS = (*_KERNEL_OPERANDS, add_scaled, times_vector, times_matrix)
SAMPLE_HELPERS = (*_KERNEL_OPERANDS, inner, samples_of_vectors, samples_of_matrices)
ADJOINT_HELPERS = (*_KERNEL_OPERANDS, add_scaled, inner, adjoints_of_vector, adjoints_of_matrix)


# --- Products with sparse matrices, of which the stored numbers, and their places, are given ------
# The places are the row and the column of each stored number, in any order; both are arrays of
# floats, as all operands of an operation are. The three operations are the derivatives of one sum
# over the stored numbers, Σₖ numbersₖ u[rowₖ] v[columnₖ], and so of each other. The product with
# the transpose is that with rows and columns exchanged.


_OPERANDS = "a sparse matrix with operands of shapes {}"


def in_sparse(name: str):
    return getattr(importlib.import_module("scipy.sparse"), name)


def _check(rows, columns, numbers, *operands):
    fits = len(rows) == 1 and rows == columns == numbers[-1:]
    if not fits or not all(len(x) >= 2 for x in operands):
        raise ValueError(_OPERANDS.format((numbers, rows, columns, *operands)))


def _outside(answer):
    return ValueError("the places of a sparse matrix are not within its shape")


def whole(rows, columns, m: int, n: int) -> list[np.ndarray]:
    """Places as integers; raises ValueError for those that are not within an m by n matrix."""
    found = [x.real.astype(np.intp) for x in (rows, columns)]
    for at, size in zip(found, (m, n), strict=True):
        if at.size and not 0 <= at.min() <= at.max() < size:
            raise _outside(1)
    return found


def _product_of_each(numbers, places, x, shape):
    """The products of a batch of matrices and operands."""
    out, front = np.empty(shape, np.result_type(numbers, x)), shape[:-2]
    numbers = np.broadcast_to(numbers, (*front, numbers.shape[-1]))
    x = np.broadcast_to(x, (*front, *x.shape[-2:]))
    for at in np.ndindex(front):
        one = numbers[at], tuple(places)
        out[at] = in_sparse("coo_array")(one, shape=(shape[-2], x.shape[-2])) @ x[at]
    return out


# --- A x ------------------------------------------------------------------------------------------


def _product_shape(numbers, rows, columns, x, count, both=False):
    """The shape of a product; raises ValueError where the value does."""
    _check(rows, columns, numbers, x)
    if count < 0:
        raise ValueError(_OPERANDS.format((numbers, rows, columns, x)))
    return (*joint_batch(numbers[:-1], x[:-2]), count, x[-1])


def _parted(np, both, columns, x):
    """Numbers of a vector for those of a sparse matrix, and for those of an operand."""
    count = columns.shape[-1]
    rest = both[..., count:]
    return both[..., :count], np.reshape(rest, (*rest.shape[:-1], *x.shape[-2:]))


def sparse_product_vjp(np, g, _out, numbers, rows, columns, x, *, count, both=False):
    """With y = A x: x̄ = Aᴴ ȳ, and of ȳ xᴴ the elements that are stored."""
    if both and g.dtype.kind != "c":
        found = sparse_adjoints(numbers, rows, columns, g, x)
        of_numbers, of_x = _parted(np, found, columns, x)
        return of_numbers, None, None, of_x
    return (
        lambda: sparse_samples(rows, columns, g, conjugate(np, x)),
        None,
        None,
        lambda: sparse_product(conjugate(np, numbers), columns, rows, g, count=x.shape[-2]),
    )


_NUMBERS = "np.concatenate([x.ravel() ** 2, x.ravel()])"
_AT = "(np.arange(2 * x.size) % 3, np.arange(2 * x.size) % max(len(x), 1))"
_EXAMPLE = f"tg.scipy.sparse.coo_array(({_NUMBERS}, {_AT}), shape=(3, len(x)))"


def _stored(_static, out, numbers, *_):
    return 2.0 * numbers[-1] * out[-1] * math.prod(out[:-2])


@declared(
    vjp=sparse_product_vjp,
    batch="loop",
    shape=_product_shape,
    value_kernel=sparse_product_forward,
    helpers=PRODUCT_HELPERS,
    refusal=_outside,
    work=_stored,
    example=f"{_EXAMPLE} @ x",
    examples=(
        f"{_EXAMPLE} @ x",
        f"{_EXAMPLE.replace(_NUMBERS, 'np.ones(2 * x.size)')} @ x[:, 0]",
        f"np.resize(x, (2, 3)) @ {_EXAMPLE}",
    ),
    complex_example=f"{_EXAMPLE.replace(_NUMBERS, '(1.0 + 2.0j) * ' + _NUMBERS)} @ (1j * x)",
)
def sparse_product(numbers, rows, columns, x, *, count, both=False):
    """sparse_product(numbers, rows, columns, x, count): A @ x for a sparse matrix A.

    `x` has shape (…, N, K), the numbers of A (…, stored), and A has `count` rows. With `both`, the
    adjoints of numbers and operand are computed together: where A is large, that takes half the
    time.
    """
    shape = _product_shape(numbers.shape, rows.shape, columns.shape, x.shape, count)
    return _product_of_each(numbers, whole(rows, columns, count, x.shape[-2]), x, shape)


# --- both adjoints of A x -------------------------------------------------------------------------


def _adjoints_shape(numbers, rows, columns, g, x):
    """The shape of both adjoints; raises ValueError where the value does."""
    _check(rows, columns, numbers, g, x)
    if g[-1] != x[-1]:
        raise ValueError(_OPERANDS.format((numbers, rows, columns, g, x)))
    front = joint_batch(numbers[:-1], joint_batch(g[:-2], x[:-2]))
    return (*front, columns[0] + x[-2] * x[-1])


def sparse_adjoints_vjp(np, h, _out, *operands):
    """They are linear in the numbers, in ȳ and in x, each."""
    numbers, rows, columns, g, x = operands
    of_numbers, of_x = _parted(np, h, columns, x)
    m, n = g.shape[-2], x.shape[-2]
    return (
        lambda: sparse_samples(rows, columns, g, of_x),
        None,
        None,
        lambda: (
            sparse_product(of_numbers, rows, columns, x, count=m)
            + sparse_product(numbers, rows, columns, of_x, count=m)
        ),
        lambda: sparse_product(of_numbers, columns, rows, g, count=n),
    )


@declared(
    vjp=sparse_adjoints_vjp,
    batch="loop",
    takes_complex=False,
    shape=_adjoints_shape,
    value_kernel=sparse_adjoints_forward,
    helpers=ADJOINT_HELPERS,
    refusal=_outside,
    work=lambda _static, out, _n, _r, _c, g, _x: 4.0 * math.prod(out) * g[-1],
    example=f"tg.grad(lambda x: np.sum(np.sin(0.1 * ({_EXAMPLE} @ x))))(x)",
    examples=(f"tg.grad(lambda x: np.sum(np.sin(0.1 * ({_EXAMPLE} @ x))))(x)",),
)
def sparse_adjoints(numbers, rows, columns, g, x):
    """sparse_adjoints(numbers, rows, columns, g, x): adjoints of A @ x: of the numbers, of x."""
    shape = _adjoints_shape(numbers.shape, rows.shape, columns.shape, g.shape, x.shape)
    front, (m, n) = shape[:-1], (g.shape[-2], x.shape[-2])
    rows, columns = whole(rows, columns, m, n)
    of_x = _product_of_each(numbers, (columns, rows), g, (*front, *x.shape[-2:]))
    samples = (g[..., rows, :] * x[..., columns, :]).sum(-1)
    parts = np.broadcast_to(samples, (*front, len(rows))), of_x.reshape(*front, -1)
    return np.concatenate(parts, axis=-1)


# --- elements of u vᵀ -----------------------------------------------------------------------------


def _samples_shape(rows, columns, u, v):
    """The shape of samples; raises ValueError where the value does."""
    _check(rows, columns, columns, u, v)
    if u[-1] != v[-1]:
        raise ValueError(_OPERANDS.format((rows, columns, u, v)))
    return (*joint_batch(u[:-2], v[:-2]), *columns)


def sparse_samples_vjp(np, g, _out, rows, columns, u, v):
    """The products with the matrix of the adjoints."""
    m, n = u.shape[-2], v.shape[-2]
    return (
        None,
        None,
        lambda: sparse_product(g, rows, columns, conjugate(np, v), count=m),
        lambda: sparse_product(g, columns, rows, conjugate(np, u), count=n),
    )


@declared(
    vjp=sparse_samples_vjp,
    batch="loop",
    shape=_samples_shape,
    value_kernel=sparse_samples_forward,
    helpers=SAMPLE_HELPERS,
    refusal=_outside,
    work=lambda _static, out, _r, _c, u, _v: 2.0 * math.prod(out) * u[-1],
    example=f"tg.grad(lambda n: np.sum(({_EXAMPLE.replace(_NUMBERS, 'n')} @ np.ones(len(x))) ** 2))"
    f"({_NUMBERS})",
)
def sparse_samples(rows, columns, u, v):
    """sparse_samples(rows, columns, u, v): elements of u vᵀ at the places of stored numbers."""
    _samples_shape(rows.shape, columns.shape, u.shape, v.shape)
    rows, columns = whole(rows, columns, u.shape[-2], v.shape[-2])
    return (u[..., rows, :] * v[..., columns, :]).sum(-1)


# --------------------------------------------------------------------------------------------------
# Equations with sparse matrices, whose numbers and places are given as in `sparse_products`.
# The factors of a matrix are kept until those of others are computed, for the equation with the
# transpose that its derivative needs, and for further right-hand sides.


#: SciPy's orders of columns; an operation has the number of one.
ORDERS = ("COLAMD", "NATURAL", "MMD_ATA", "MMD_AT_PLUS_A")
_ADVICE = "a sparse matrix of shapes {} of numbers and places, right-hand sides of shape {}"


def in_linalg(name: str):
    return getattr(importlib.import_module("scipy.sparse.linalg"), name)


class SparsePattern:
    """Where the numbers of an n by n matrix are, and how they come to SciPy's format csc."""

    def __init__(self, rows, columns, n: int):
        self.rows, self.columns, self.n = rows, columns, n
        self._positions: dict[int, np.ndarray] = {}  # of columns, by the number of an order
        self._ordered: dict[int, SparsePattern] = {}  # with the columns at these positions
        at_rows, at_columns = whole(rows, columns, n, n)
        self._order = np.lexsort((at_rows, at_columns))
        at_rows, at_columns = at_rows[self._order], at_columns[self._order]
        is_new = np.append(True, (np.diff(at_rows) != 0) | (np.diff(at_columns) != 0))
        self._first = np.flatnonzero(is_new[: len(at_rows)])
        starts = np.searchsorted(at_columns[self._first], np.arange(n + 1))
        self._empty = in_sparse("csc_array")((n, n))
        self._empty.indices = at_rows[self._first].astype(np.intc)
        self._empty.indptr = starts.astype(np.intc)
        self._empty.has_canonical_format = True

    def is_of(self, rows, columns, n: int) -> bool:
        return n == self.n and all(
            x is y or np.array_equal(x, y) for x, y in ((self.rows, rows), (self.columns, columns))
        )

    def csc(self, numbers):
        """The matrix of numbers, of which those in one place are added."""
        data = numbers[self._order]
        if len(self._first) < len(data):
            data = np.add.reduceat(data, self._first)
        made = copy.copy(self._empty)
        made.data = data
        return made

    def factored(self, numbers, order: int) -> SuperLUFactors:
        """The factors of a matrix of numbers.

        SuperLU's order of columns follows from the pattern alone. From the second matrix on, the
        columns are given in that order, which takes less time and makes the same factors, bit for
        bit.
        """
        positions = self._positions.get(order)
        if positions is None:
            lu = in_linalg("splu")(self.csc(numbers), ORDERS[order])
            self._positions[order] = np.array(lu.perm_c)
        else:
            if order not in self._ordered:
                columns = positions[self.columns.astype(np.intp)]
                self._ordered[order] = SparsePattern(self.rows, columns, self.n)
            lu = in_linalg("splu")(self._ordered[order].csc(numbers), "NATURAL")
        return SuperLUFactors(lu, positions)


class SuperLUFactors(NamedTuple):
    """SciPy's factors of a matrix, or of one with column c at `positions[c]`."""

    lu: Any
    positions: np.ndarray | None

    def solve(self, b, turned: bool):
        """The solutions of equations with the matrix, or of those with its transpose."""
        way, positions = "T" if turned else "N", self.positions
        if positions is None:
            return self.lu.solve(b, way)
        if not turned:
            return self.lu.solve(b, way)[positions]
        placed = np.empty_like(b)
        placed[positions] = b
        return self.lu.solve(placed, way)


class FactorsKept(NamedTuple):
    """The factors of a matrix, and what they were computed from; None for a singular one."""

    numbers: np.ndarray
    pattern: SparsePattern
    order: int
    found: SuperLUFactors | None

    def are_of(self, numbers, pattern: SparsePattern, order: int) -> bool:
        is_alike = pattern is self.pattern and numbers.dtype == self.numbers.dtype
        if not is_alike or order != self.order:
            return False
        first = slice(8)  # other numbers mostly differ from the beginning
        return (numbers[first] == self.numbers[first]).all() and (numbers == self.numbers).all()


#: The last patterns and factors of each thread, the newest first.
_last = threading.local()
_KEPT = 2


def _pattern(rows, columns, n: int) -> SparsePattern:
    kept = getattr(_last, "patterns", ())
    for one in kept:
        if one.is_of(rows, columns, n):
            return one
    made = SparsePattern(np.array(rows), np.array(columns), n)
    _last.patterns = (made, *kept)[:_KEPT]
    return made


def factors(numbers, rows, columns, n: int, order: int) -> SuperLUFactors | None:
    """The factors of a matrix; None if it is singular."""
    pattern, kept = _pattern(rows, columns, n), getattr(_last, "factors", ())
    for one in kept:
        if one.are_of(numbers, pattern, order):
            return one.found
    try:
        found = pattern.factored(numbers, order)
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        found = None
    made = FactorsKept(np.array(numbers), pattern, order, found)
    _last.factors = (made, *kept)[:_KEPT]
    return found


def _solve_shape(numbers, rows, columns, b):
    """The shape of a solution; raises ValueError where there is none."""
    if len(rows) != 1 or not rows == columns == numbers[-1:] or len(b) < 2:
        raise ValueError(_ADVICE.format((numbers, rows, columns), b))
    return (*joint_batch(numbers[:-1], b[:-2]), *b[-2:])


def sparse_solve_vjp(np, g, out, numbers, rows, columns, b, *, turned=False, order=0):
    """With a x = b: b̄ = a⁻ᴴ x̄, and of −b̄ xᴴ the elements that are stored."""
    conjugated = conjugate(np, numbers)
    back = sparse_solve(conjugated, rows, columns, g, turned=not turned, order=order)

    def of_numbers():
        right = conjugate(np, out)
        pair = (right, back) if turned else (back, right)
        return -sparse_samples(rows, columns, *pair)

    return of_numbers, None, None, back


@declared(
    vjp=sparse_solve_vjp,
    batch="loop",
    example="tg.scipy.sparse.linalg.spsolve(tg.scipy.sparse.diags_array("
    "[x + 3.0, x[1:]], offsets=[0, 1]).tocsc(), x) if x.size else x",
    examples=(
        "tg.scipy.sparse.linalg.spsolve(tg.scipy.sparse.csc_array(np.diag(x[0, :3] + 3.0)"
        " + np.outer(x[1, :3], x[0, :3])), x.T[:3])",
    ),
    takes_complex=True,
    complex_example="tg.scipy.sparse.linalg.spsolve(tg.scipy.sparse.diags_array("
    "[(1.0 + 0.5j) * x + 3.0, 1j * x[1:]], offsets=[0, 1]).tocsc(), x) if x.size else x",
    complex_examples=(
        "tg.scipy.sparse.linalg.spsolve(tg.scipy.sparse.csc_array(np.diag(x[0, :3] + 3.0)"
        " + np.outer(x[1, :3], x[0, :3])), 1j * x.T[:3])",
    ),
)
def sparse_solve(numbers, rows, columns, b, *, turned=False, order=0):
    """sparse_solve(numbers, rows, columns, b, turned, order): x of a @ x = b, a sparse.

    `b` has shape (…, N, K); the matrix is transposed if `turned`. A singular matrix gives NaN, and
    SciPy's warning.
    """
    shape = _solve_shape(numbers.shape, rows.shape, columns.shape, b.shape)
    dtype = np.result_type(numbers, b)
    out, front = np.empty(shape, dtype), shape[:-2]
    numbers = np.broadcast_to(numbers, (*front, numbers.shape[-1]))
    b = np.broadcast_to(b, shape)
    rows, columns = rows.real, columns.real
    for at in np.ndindex(front if b.size else (0,)):
        found = factors(numbers[at], rows, columns, shape[-2], order)
        if found is None:
            warned = in_linalg("MatrixRankWarning")
            warnings.warn("Matrix is exactly singular", warned, stacklevel=2)
            out[at] = np.nan
        elif dtype.kind == "c" and numbers.dtype.kind != "c":
            real, imag = b[at].real, b[at].imag
            out[at] = found.solve(real.copy(), turned) + 1j * found.solve(imag.copy(), turned)
        else:
            out[at] = found.solve(np.array(b[at], numbers.dtype, order="F"), turned)
    return out


# --- factors that are given -----------------------------------------------------------------------


def factored_solve_vjp(np, g, _out, _b, *, factors, turned=False):
    """Equations with the transpose."""
    return (factored_solve(g, factors=factors, turned=not turned),)


@declared(
    vjp=factored_solve_vjp,
    batch="loop",
    example="tg.scipy.sparse.linalg.splu(tg.scipy.sparse.csc_array(np.eye(len(x)) + 1.0)).solve(x)"
    " if x.size else x",
)
def factored_solve(b, *, factors, turned=False):
    """factored_solve(b, factors, turned): solutions of equations by factors of SciPy's `splu`.

    `b` has shape (…, N, K).
    """
    out = np.empty(b.shape)
    for at in np.ndindex(b.shape[:-2] if b.size else (0,)):
        out[at] = factors.solve(np.array(b[at], np.float64, order="F"), "T" if turned else "N")
    return out
