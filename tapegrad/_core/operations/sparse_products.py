"""Products with sparse matrices, of which the stored numbers, and their places, are given.

The places are those of SciPy's format csr: `columns` has the column of each stored number, row by
row, and `starts` where each row begins, and at last how many there are. Both are arrays of floats,
as all operands of an operation are. The three operations are the derivatives of one sum over the
stored numbers, Σₖ numbersₖ u[rowₖ] v[columnₖ], and so of each other.
"""

from __future__ import annotations

import importlib
import math

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import helper, load_f64, load_i64, memset, store_f64
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from .declaring import conjugate, declared, joint_batch

_OPERANDS = "a sparse matrix with operands of shapes {}"


def in_sparse(name: str):
    return getattr(importlib.import_module("scipy.sparse"), name)


def _check(columns, starts, numbers, *operands):
    fits = len(columns) == len(starts) == 1 and starts[0] and numbers[-1:] == columns
    if not fits or not all(len(x) >= 2 for x in operands):
        raise ValueError(_OPERANDS.format((numbers, columns, starts, *operands)))


def _outside(answer):
    return ValueError("the places of a sparse matrix are not within its shape")


@helper
def row_range(frame, starts, count, row):
    """Where a row begins and ends; where it is not among `count` numbers the kernel refuses."""
    data, step = load_i64(starts, ARRAY_DATA), lapack.stride_along(starts, 1)
    first, last = load_f64(data, row * step), load_f64(data, (row + 1) * step)
    if not 0.0 <= first <= last <= count:
        lapack.refuse(frame, 1)
        return 0, 0
    return int(first), int(last)


@helper
def column_at(frame, data, offset, size):
    """The column of a stored number; 0, and the kernel refuses, where there is none."""
    column = load_f64(data, offset)
    if not 0.0 <= column < size:
        lapack.refuse(frame, 1)
        return 0
    return int(column)


@helper
def add_scaled(to, source, step, factor, n):
    """Add a multiple of n numbers to others, which are side by side."""
    for j in range(n):
        store_f64(to, j * 8, load_f64(to, j * 8) + factor * load_f64(source, j * step))


@helper
def add_rows(frame, places, at, matrix, x, to, width):
    """Add the rows of a product to an output: `places` are columns, their stride, and starts."""
    columns, apart, starts, count = places
    step, rows, size = matrix
    data, down, along = x
    for row in range(rows):
        first, last = row_range(frame, starts, count, row)
        if width == 1:
            total = 0.0
            for k in range(first, last):
                column = column_at(frame, columns, k * apart, size)
                total += load_f64(at, k * step) * load_f64(data, column * down)
            store_f64(to, row * 8, total)
        else:
            for k in range(first, last):
                source = data + column_at(frame, columns, k * apart, size) * down
                add_scaled(to + row * width * 8, source, along, load_f64(at, k * step), width)


@helper
def add_columns(frame, places, at, matrix, x, to, width):
    """The same for the product with the transpose."""
    columns, apart, starts, count = places
    step, rows, size = matrix
    data, down, along = x
    for row in range(rows):
        first, last = row_range(frame, starts, count, row)
        for k in range(first, last):
            target = to + column_at(frame, columns, k * apart, size) * width * 8
            add_scaled(target, data + row * down, along, load_f64(at, k * step), width)


@helper
def multiply_each(frame, refs, out, is_turned):
    """The products of a batch; references: parameters, the numbers, columns, starts, operands."""
    numbers, columns = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    starts, x = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    rows, width = lapack.size_along(out, 2), lapack.size_along(out, 1)
    places = (
        load_i64(columns, ARRAY_DATA),
        lapack.stride_along(columns, 1),
        starts,
        lapack.size_along(columns, 1),
    )
    step, down = lapack.stride_along(numbers, 1), lapack.stride_along(x, 2)
    size, along = lapack.size_along(x, 2), lapack.stride_along(x, 1)
    for k in range(lapack.batch_size(out, 2) if rows * width > 0 else 0):
        at = lapack.batch_item(numbers, 1, out, 2, k)
        data = lapack.batch_item(x, 2, out, 2, k)
        to = load_i64(out, ARRAY_DATA) + k * rows * width * 8
        memset(to, 0, rows * width * 8)
        if is_turned:
            add_columns(frame, places, at, (step, size, rows), (data, down, along), to, width)
        else:
            add_rows(frame, places, at, (step, rows, size), (data, down, along), to, width)


def sparse_product_forward(frame, id, refs, task):
    """References: no parameters, the numbers, columns, starts, the operand, the output."""
    multiply_each(frame, refs, load_i64(refs, 5 * REFERENCE_BYTES), False)


def sparse_transposed_product_forward(frame, id, refs, task):
    """References: the number of columns, the numbers, columns, starts, the operand, the output."""
    multiply_each(frame, refs, load_i64(refs, 5 * REFERENCE_BYTES), True)


def sparse_samples_forward(frame, id, refs, task):
    """References: no parameters, columns, starts, the operands by row and by column, the output."""
    columns, starts = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    u, v = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    out = load_i64(refs, 5 * REFERENCE_BYTES)
    count, rows = lapack.size_along(columns, 1), lapack.size_along(u, 2)
    size, width = lapack.size_along(v, 2), lapack.size_along(u, 1)
    places, apart = load_i64(columns, ARRAY_DATA), lapack.stride_along(columns, 1)
    down, along = lapack.stride_along(u, 2), lapack.stride_along(u, 1)
    step, beside = lapack.stride_along(v, 2), lapack.stride_along(v, 1)
    for b in range(lapack.batch_size(out, 1)):
        of_rows, of_columns = (
            lapack.batch_item(u, 2, out, 1, b),
            lapack.batch_item(v, 2, out, 1, b),
        )
        to = load_i64(out, ARRAY_DATA) + b * count * 8
        memset(to, 0, count * 8)
        for row in range(rows if size > 0 else 0):
            first, last = row_range(frame, starts, count, row)
            for k in range(first, last):
                at, total = of_columns + column_at(frame, places, k * apart, size) * step, 0.0
                for j in range(width):
                    total += load_f64(of_rows, row * down + j * along) * load_f64(at, j * beside)
                store_f64(to, k * 8, total)


_HELPERS = (row_range, column_at, add_scaled, add_rows, add_columns, multiply_each)


def whole(*places) -> list[np.ndarray]:
    """Places as integers."""
    return [x.real.astype(np.intp) for x in places]


def check_places(columns, starts, count: int, size: int) -> None:
    """Raise ValueError for places that are not within a matrix."""
    ends = starts[0] == 0 and starts[-1] == count == len(columns) and (np.diff(starts) >= 0).all()
    if not ends or (count and not 0 <= columns.min() <= columns.max() < size):
        raise _outside(1)


def _matrix(kind: str, numbers, columns, starts, shape):
    columns, starts = whole(columns, starts)
    check_places(columns, starts, len(numbers), shape[1])
    made = in_sparse("csr_array")((shape[0], shape[1]), dtype=numbers.dtype)
    made.data, made.indices, made.indptr = numbers, columns, starts
    return made if kind == "csr" else made.T


def _each(kind: str, numbers, columns, starts, x, of_matrix, shape):
    """The products of a batch of matrices and operands."""
    out, front = np.empty(shape, np.result_type(numbers, x)), shape[:-2]
    numbers = np.broadcast_to(numbers, (*front, numbers.shape[-1]))
    x = np.broadcast_to(x, (*front, *x.shape[-2:]))
    for at in np.ndindex(front):
        out[at] = _matrix(kind, numbers[at], columns, starts, of_matrix) @ x[at]
    return out


# --- A x ------------------------------------------------------------------------------------------


def _product_shape(numbers, columns, starts, x):
    """The shape of a product; raises ValueError where the value does."""
    _check(columns, starts, numbers, x)
    return (*joint_batch(numbers[:-1], x[:-2]), starts[0] - 1, x[-1])


def sparse_product_vjp(np, g, _out, numbers, columns, starts, x):
    """With y = A x: x̄ = Aᴴ ȳ, and of ȳ xᴴ the elements that are stored."""
    return (
        lambda: sparse_samples(columns, starts, g, conjugate(np, x)),
        None,
        None,
        lambda: sparse_transposed_product(
            conjugate(np, numbers), columns, starts, g, count=x.shape[-2]
        ),
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
    helpers=_HELPERS,
    refusal=_outside,
    work=_stored,
    example=f"{_EXAMPLE} @ x",
    examples=(f"{_EXAMPLE} @ x", f"{_EXAMPLE.replace(_NUMBERS, 'np.ones(2 * x.size)')} @ x[:, 0]"),
    complex_example=f"{_EXAMPLE.replace(_NUMBERS, '(1.0 + 2.0j) * ' + _NUMBERS)} @ (1j * x)",
)
def sparse_product(numbers, columns, starts, x):
    """sparse_product(numbers, columns, starts, x): A @ x for a sparse matrix A.

    `x` has shape (…, N, K), the numbers of A (…, count).
    """
    shape = _product_shape(numbers.shape, columns.shape, starts.shape, x.shape)
    return _each("csr", numbers, columns, starts, x, (shape[-2], x.shape[-2]), shape)


# --- Aᵀ x -----------------------------------------------------------------------------------------


def _transposed_shape(numbers, columns, starts, x, count):
    """The shape of a product; raises ValueError where the value does."""
    _check(columns, starts, numbers, x)
    if x[-2] != starts[0] - 1 or count < 0:
        raise ValueError(_OPERANDS.format((numbers, columns, starts, x)))
    return (*joint_batch(numbers[:-1], x[:-2]), count, x[-1])


def sparse_transposed_product_vjp(np, g, _out, numbers, columns, starts, x, *, count):
    """With y = Aᵀ x: x̄ = conj(A) ȳ, and of conj(x) ȳᵀ the elements that are stored."""
    return (
        lambda: sparse_samples(columns, starts, conjugate(np, x), g),
        None,
        None,
        lambda: sparse_product(conjugate(np, numbers), columns, starts, g),
    )


@declared(
    vjp=sparse_transposed_product_vjp,
    batch="loop",
    shape=_transposed_shape,
    value_kernel=sparse_transposed_product_forward,
    helpers=_HELPERS,
    refusal=_outside,
    work=_stored,
    example=f"np.resize(x, 3) @ {_EXAMPLE}",
    examples=(f"np.resize(x, (2, 3)) @ {_EXAMPLE}",),
    complex_example=f"np.resize(x, 3) @ {_EXAMPLE.replace(_NUMBERS, '1j * ' + _NUMBERS)}",
)
def sparse_transposed_product(numbers, columns, starts, x, *, count):
    """sparse_transposed_product(numbers, columns, starts, x, count): Aᵀ @ x for a sparse matrix A.

    `count` is the number of columns of A, and so of rows of the result.
    """
    shape = _transposed_shape(numbers.shape, columns.shape, starts.shape, x.shape, count)
    return _each("csc", numbers, columns, starts, x, (x.shape[-2], count), shape)


# --- elements of u vᵀ -----------------------------------------------------------------------------


def _samples_shape(columns, starts, u, v):
    """The shape of samples; raises ValueError where the value does."""
    _check(columns, starts, columns, u, v)
    if u[-2] != starts[0] - 1 or u[-1] != v[-1]:
        raise ValueError(_OPERANDS.format((columns, starts, u, v)))
    return (*joint_batch(u[:-2], v[:-2]), *columns)


def sparse_samples_vjp(np, g, _out, columns, starts, u, v):
    """The products with the matrix of the adjoints."""
    return (
        None,
        None,
        lambda: sparse_product(g, columns, starts, conjugate(np, v)),
        lambda: sparse_transposed_product(g, columns, starts, conjugate(np, u), count=v.shape[-2]),
    )


@declared(
    vjp=sparse_samples_vjp,
    batch="loop",
    shape=_samples_shape,
    value_kernel=sparse_samples_forward,
    helpers=_HELPERS,
    refusal=_outside,
    work=lambda _static, out, _c, _s, u, _v: 2.0 * math.prod(out) * u[-1],
    example=f"tg.grad(lambda n: np.sum(({_EXAMPLE.replace(_NUMBERS, 'n')} @ x) ** 2))({_NUMBERS})",
)
def sparse_samples(columns, starts, u, v):
    """sparse_samples(columns, starts, u, v): elements of u vᵀ at the places of stored numbers."""
    _samples_shape(columns.shape, starts.shape, u.shape, v.shape)
    columns, starts = whole(columns, starts)
    check_places(columns, starts, len(columns), v.shape[-2])
    rows = np.repeat(np.arange(u.shape[-2]), np.diff(starts))
    return (u[..., rows, :] * v[..., columns, :]).sum(-1)
