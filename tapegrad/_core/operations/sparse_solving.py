"""Equations with sparse matrices, whose numbers and places are given as in `sparse_products`.

The factors of a matrix are kept until those of others are computed, for the equation with the
transpose that its derivative needs, and for further right-hand sides.
"""

from __future__ import annotations

import copy
import importlib
import threading
import warnings
from typing import Any, NamedTuple

import numpy as np

from .declaring import conjugate, declared, joint_batch
from .sparse_products import in_sparse, sparse_samples, whole

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
