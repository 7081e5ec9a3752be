"""Products with sparse matrices, of which the stored numbers, and their places, are given.

The places are the row and the column of each stored number, in any order; both are arrays of
floats, as all operands of an operation are. The three operations are the derivatives of one sum
over the stored numbers, Σₖ numbersₖ u[rowₖ] v[columnₖ], and so of each other. The product with the
transpose is that with rows and columns exchanged.
"""

from __future__ import annotations

import importlib
import math

import numpy as np

from .declaring import conjugate, declared, joint_batch
from .sparse_kernels import (
    ADJOINT_HELPERS,
    PRODUCT_HELPERS,
    SAMPLE_HELPERS,
    sparse_adjoints_forward,
    sparse_product_forward,
    sparse_samples_forward,
)

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
