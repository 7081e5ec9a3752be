"""Equations with sparse matrices, whose numbers and places are given as in `sparse_products`.

The factors of a matrix are kept until those of others are computed, for the equation with the
transpose that its derivative needs, and for further right-hand sides.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from typing import Any, NamedTuple

import numpy as np

from .declaring import conjugate, declared, joint_batch
from .sparse_products import check_places, in_sparse, sparse_samples, whole

#: SciPy's orders of columns; an operation has the number of one.
ORDERS = ("COLAMD", "NATURAL", "MMD_ATA", "MMD_AT_PLUS_A")
_ADVICE = "the matrix of equations has shape {}, the right-hand sides {}"


def in_linalg(name: str):
    return getattr(importlib.import_module("scipy.sparse.linalg"), name)


class FactorsKept(NamedTuple):
    """The factors of a matrix, and what they were computed from; None for a singular one."""

    numbers: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    order: int
    lu: Any

    def are_of(self, numbers, columns, starts, order: int) -> bool:
        given = (numbers, columns, starts)
        kept = self[:3]
        return order == self.order and all(
            x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(kept, given, strict=True)
        )


#: The last factors of each thread, the newest first.
_last = threading.local()
_KEPT = 2


def factors(numbers, columns, starts, order: int):
    """SciPy's factors of a matrix; None if it is singular."""
    kept = getattr(_last, "kept", ())
    for one in kept:
        if one.are_of(numbers, columns, starts, order):
            return one.lu
    n = len(starts) - 1
    columns_of, starts_of = whole(columns, starts)
    check_places(columns_of, starts_of, len(numbers), n)
    of_numbers = (np.array(numbers), columns_of.astype(np.intc), starts_of.astype(np.intc))
    csc = in_sparse("csr_array")(of_numbers, shape=(n, n)).tocsc()
    csc.sum_duplicates()
    try:
        lu = in_linalg("splu")(csc, permc_spec=ORDERS[order])
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        lu = None
    made = FactorsKept(np.array(numbers), np.array(columns), np.array(starts), order, lu)
    _last.kept = (made, *kept)[:_KEPT]
    return lu


def _solve_shape(numbers, columns, starts, b):
    """The shape of a solution; raises ValueError where there is none."""
    n = starts[-1] - 1 if starts else -1
    if len(columns) != 1 or len(starts) != 1 or numbers[-1:] != columns or b[-2:-1] != (n,):
        raise ValueError(_ADVICE.format((n, n), b))
    return (*joint_batch(numbers[:-1], b[:-2]), *b[-2:])


def sparse_solve_vjp(np, g, out, numbers, columns, starts, b, *, turned=False, order=0):
    """With a x = b: b̄ = a⁻ᴴ x̄, and of −b̄ xᴴ the elements that are stored."""
    conjugated = conjugate(np, numbers)
    back = sparse_solve(conjugated, columns, starts, g, turned=not turned, order=order)

    def of_numbers():
        right = conjugate(np, out)
        pair = (right, back) if turned else (back, right)
        return -sparse_samples(columns, starts, *pair)

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
)
def sparse_solve(numbers, columns, starts, b, *, turned=False, order=0):
    """sparse_solve(numbers, columns, starts, b, turned, order): x of a @ x = b, a sparse.

    `b` has shape (…, N, K); the matrix is transposed if `turned`. A singular matrix gives NaN, and
    SciPy's warning.
    """
    shape = _solve_shape(numbers.shape, columns.shape, starts.shape, b.shape)
    dtype = np.result_type(numbers, b)
    out, front = np.empty(shape, dtype), shape[:-2]
    numbers = np.broadcast_to(numbers, (*front, numbers.shape[-1]))
    b = np.broadcast_to(b, shape)
    columns, starts = columns.real, starts.real
    for at in np.ndindex(front if b.size else (0,)):
        lu = factors(numbers[at], columns, starts, order)
        if lu is None:
            warned = in_linalg("MatrixRankWarning")
            warnings.warn("Matrix is exactly singular", warned, stacklevel=2)
            out[at] = np.nan
        elif dtype.kind == "c" and numbers.dtype.kind != "c":
            real, imag = b[at].real, b[at].imag
            way = "T" if turned else "N"
            out[at] = lu.solve(real.copy(), way) + 1j * lu.solve(imag.copy(), way)
        else:
            out[at] = lu.solve(np.array(b[at], numbers.dtype, order="F"), "T" if turned else "N")
    return out
