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

from .declaring import conjugate, declared, joint_batch
from .sparse_kernels import (
    PRODUCT_HELPERS,
    SAMPLE_HELPERS,
    sparse_adjoints_forward,
    sparse_product_forward,
    sparse_samples_forward,
    sparse_transposed_product_forward,
)

_OPERANDS = "a sparse matrix with operands of shapes {}"


def in_sparse(name: str):
    return getattr(importlib.import_module("scipy.sparse"), name)


def _check(columns, starts, numbers, *operands):
    fits = len(columns) == len(starts) == 1 and starts[0] and numbers[-1:] == columns
    if not fits or not all(len(x) >= 2 for x in operands):
        raise ValueError(_OPERANDS.format((numbers, columns, starts, *operands)))


def _outside(answer):
    return ValueError("the places of a sparse matrix are not within its shape")


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


def _product_shape(numbers, columns, starts, x, both=False):
    """The shape of a product; raises ValueError where the value does."""
    _check(columns, starts, numbers, x)
    return (*joint_batch(numbers[:-1], x[:-2]), starts[0] - 1, x[-1])


def _parted(np, both, columns, x):
    """Numbers of a vector for those of a sparse matrix, and for those of an operand."""
    count = columns.shape[-1]
    rest = both[..., count:]
    return both[..., :count], np.reshape(rest, (*rest.shape[:-1], *x.shape[-2:]))


def sparse_product_vjp(np, g, _out, numbers, columns, starts, x, *, both=False):
    """With y = A x: x̄ = Aᴴ ȳ, and of ȳ xᴴ the elements that are stored."""
    if both and g.dtype.kind != "c":
        found = sparse_adjoints(numbers, columns, starts, g, x)
        of_numbers, of_x = _parted(np, found, columns, x)
        return of_numbers, None, None, of_x
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
    helpers=PRODUCT_HELPERS,
    refusal=_outside,
    work=_stored,
    example=f"{_EXAMPLE} @ x",
    examples=(f"{_EXAMPLE} @ x", f"{_EXAMPLE.replace(_NUMBERS, 'np.ones(2 * x.size)')} @ x[:, 0]"),
    complex_example=f"{_EXAMPLE.replace(_NUMBERS, '(1.0 + 2.0j) * ' + _NUMBERS)} @ (1j * x)",
)
def sparse_product(numbers, columns, starts, x, *, both=False):
    """sparse_product(numbers, columns, starts, x): A @ x for a sparse matrix A.

    `x` has shape (…, N, K), the numbers of A (…, count). With `both`, the adjoints of numbers and
    operand are computed together: where A is large, that takes half the time.
    """
    shape = _product_shape(numbers.shape, columns.shape, starts.shape, x.shape)
    return _each("csr", numbers, columns, starts, x, (shape[-2], x.shape[-2]), shape)


# --- both adjoints of A x -------------------------------------------------------------------------


def _adjoints_shape(numbers, columns, starts, g, x):
    """The shape of both adjoints; raises ValueError where the value does."""
    _check(columns, starts, numbers, g, x)
    if g[-2] != starts[0] - 1 or g[-1] != x[-1]:
        raise ValueError(_OPERANDS.format((numbers, columns, starts, g, x)))
    front = joint_batch(numbers[:-1], joint_batch(g[:-2], x[:-2]))
    return (*front, columns[0] + x[-2] * x[-1])


def sparse_adjoints_vjp(np, h, _out, *operands):
    """They are linear in the numbers, in ȳ and in x, each."""
    numbers, columns, starts, g, x = operands
    of_numbers, of_x = _parted(np, h, columns, x)
    return (
        lambda: sparse_samples(columns, starts, g, of_x),
        None,
        None,
        lambda: (
            sparse_product(of_numbers, columns, starts, x)
            + sparse_product(numbers, columns, starts, of_x)
        ),
        lambda: sparse_transposed_product(of_numbers, columns, starts, g, count=x.shape[-2]),
    )


@declared(
    vjp=sparse_adjoints_vjp,
    batch="loop",
    takes_complex=False,
    shape=_adjoints_shape,
    value_kernel=sparse_adjoints_forward,
    helpers=SAMPLE_HELPERS,
    refusal=_outside,
    work=lambda _static, out, _n, _c, _s, g, _x: 4.0 * math.prod(out) * g[-1],
    example=f"tg.grad(lambda x: np.sum(np.sin(0.1 * ({_EXAMPLE} @ x))))(x)",
    examples=(f"tg.grad(lambda x: np.sum(np.sin(0.1 * ({_EXAMPLE} @ x))))(x)",),
)
def sparse_adjoints(numbers, columns, starts, g, x):
    """sparse_adjoints(numbers, columns, starts, g, x): adjoints of A @ x: of the numbers, of x."""
    shape = _adjoints_shape(numbers.shape, columns.shape, starts.shape, g.shape, x.shape)
    front = shape[:-1]
    back = (*front, *x.shape[-2:])
    of_x = _each("csc", numbers, columns, starts, g, (g.shape[-2], x.shape[-2]), back)
    places = whole(columns, starts)
    rows = np.repeat(np.arange(g.shape[-2]), np.diff(places[1]))
    samples = (g[..., rows, :] * x[..., places[0], :]).sum(-1)
    parts = np.broadcast_to(samples, (*front, len(rows))), of_x.reshape(*front, -1)
    return np.concatenate(parts, axis=-1)


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
    helpers=PRODUCT_HELPERS,
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
    helpers=SAMPLE_HELPERS,
    refusal=_outside,
    work=lambda _static, out, _c, _s, u, _v: 2.0 * math.prod(out) * u[-1],
    example=f"tg.grad(lambda n: np.sum(({_EXAMPLE.replace(_NUMBERS, 'n')} @ np.ones(len(x))) ** 2))"
    f"({_NUMBERS})",
)
def sparse_samples(columns, starts, u, v):
    """sparse_samples(columns, starts, u, v): elements of u vᵀ at the places of stored numbers."""
    _samples_shape(columns.shape, starts.shape, u.shape, v.shape)
    columns, starts = whole(columns, starts)
    check_places(columns, starts, len(columns), v.shape[-2])
    rows = np.repeat(np.arange(u.shape[-2]), np.diff(starts))
    return (u[..., rows, :] * v[..., columns, :]).sum(-1)
