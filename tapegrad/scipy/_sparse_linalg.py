"""SciPy's `sparse.linalg` for recorded values: equations, and the exponential times a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.sparse_products import (
    ORDERS,
    factored_solve,
    factors,
    in_linalg,
    sparse_solve,
)
from .._core.remembered import remembered
from .._core.tensor.pytree import none_traced, stop_gradient
from .._core.tensor.trace import DerivativeLost, fixed, learned, named, steered
from .._core.tensor.values import array_of, dtype_of, is_tensor, shape_of, value_of
from ._differentiable import OURS, in_package
from ._sparse_constructors import _sparse, none_sparse
from ._sparse_tensors import (
    SparseTensor,
    array_of_operand,
    common,
    floats,
    in_dtype,
    in_sparse,
    is_sparse,
    summed,
    times_dense,
)

# --- sparse equations -----------------------------------------------------------------------------
# SciPy's `sparse.linalg` for recorded values: equations, by factors and by iterations.


_entered = in_package("sparse.linalg")


def _square(name: str, A) -> SparseTensor:
    if not is_sparse(A) and len(shape_of(array_of_operand(A))) != 2:
        raise ValueError(
            f"{name}: expected a matrix, got an array of shape {shape_of(array_of_operand(A))}"
        )
    one = _sparse(A)
    if one.shape[0] != one.shape[1]:
        raise ValueError(f"matrix must be square (has shape {one.shape})")
    return one


def _wide(of_matrix: tuple[int, int], b):
    """Right sides, a vector or a matrix, as a matrix."""
    shape, n = shape_of(b), of_matrix[0]
    if not 1 <= len(shape) <= 2 or shape[0] != n:
        raise ValueError(
            f"matrix - rhs dimension mismatch ({of_matrix} - {shape[0] if shape else shape})"
        )
    return PUBLIC["reshape"](b, (n, 1)) if len(shape) == 1 else b


def _solved(one: SparseTensor, b, turned: bool, order: int):
    """The solution for a vector or a matrix."""
    wide, shape = _wide(one.shape, b), shape_of(b)
    numbers, places = floats(one._numbers), one._places.operands
    made = sparse_solve(numbers, *places, wide, turned=turned, order=order)
    made = PUBLIC["reshape"](made, (-1,)) if len(shape) == 1 else made
    return in_dtype(common(one._numbers, b), made)


def _order(permc_spec) -> int:
    if permc_spec is None:
        return 0
    if permc_spec not in ORDERS:
        raise ValueError(f"permc_spec is {permc_spec!r}; it must be one of {', '.join(ORDERS)}")
    return ORDERS.index(permc_spec)


@_entered
def spsolve(A, b, permc_spec=None, use_umfpack=True):
    one, order = _square("spsolve", A), _order(permc_spec)
    if is_sparse(b):
        raise DerivativeLost(
            "tapegrad.scipy.sparse.linalg.spsolve: b is sparse, and where the solution has numbers "
            "would depend on values; give b.toarray()"
        )
    b = array_of_operand(b)
    shape = shape_of(b)
    if len(shape) == 2 and shape[1] == 1:  # SciPy's result is a vector
        b = PUBLIC["reshape"](b, (-1,))
    return _solved(one, b, False, order)


class SparseFactors:
    """Factors of a sparse matrix, as `splu` and `factorized` give them.

    `theirs` are SciPy's, of a matrix of plain numbers; they may have been made outside of the
    function, of a matrix that is not known.
    """

    def __init__(self, one: SparseTensor | None, order: int = 0, theirs: Any = None):
        self._one, self._order, self._theirs = one, order, theirs
        known: Any = one if theirs is None else theirs
        self.shape, self.nnz = known.shape, known.nnz

    @remembered
    def _is_real(self) -> bool:
        """Whether the factors are SciPy's, of real numbers."""
        if self._theirs is None:
            return False
        return self._theirs.solve(np.zeros(self.shape[0])).dtype == np.float64

    def solve(self, rhs, trans="N"):
        """The solution of the equations, or with trans='T' or 'H' of those of the transpose."""
        if self._theirs is not None and none_traced((rhs,)) and not is_tensor(rhs):
            return self._theirs.solve(rhs, trans)
        if trans not in ("N", "T", "H"):
            raise ValueError("trans must be N, T, or H")
        b = array_of_operand(rhs)
        if self._is_real and dtype_of(b) == np.float64:
            return self._by_theirs(b, trans != "N")
        if self._one is None:
            raise DerivativeLost(
                "tapegrad.scipy.sparse.linalg.splu: factors that SciPy made outside take recorded "
                "right sides of float64 if they are real; call tapegrad.scipy.sparse.linalg.splu"
            )
        one = self._one.conj() if trans == "H" else self._one
        return _solved(one, b, trans != "N", self._order)

    def _by_theirs(self, b, turned: bool):
        wide, shape = _wide(self.shape, b), shape_of(b)
        made = factored_solve(wide, factors=self._theirs, turned=turned)
        return PUBLIC["reshape"](made, shape)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(in_linalg("SuperLU"), name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self._theirs is not None:
            return getattr(self._theirs, name)
        raise DerivativeLost(
            f"tapegrad.scipy.sparse.linalg.splu: .{name} of a matrix of recorded numbers has no "
            "derivative; use .solve(b), or the factors of A.detach()"
        )


def of_instance(theirs) -> SparseFactors:
    """What stands for factors of SciPy's that were made outside of a function."""
    return SparseFactors(None, theirs=theirs)


@_entered
def splu(A, permc_spec=None, diag_pivot_thresh=None, relax=None, panel_size=None, options=None):
    choices = (diag_pivot_thresh, relax, panel_size, options)
    if none_sparse((A,)):
        theirs = in_linalg("splu")(A, permc_spec, *choices)
        copied = in_sparse("csc_array")(A, copy=True)  # which may be written to later
        return SparseFactors(_square("splu", copied), _order(permc_spec), theirs)
    if choices != (None,) * 4:
        raise DerivativeLost(
            "tapegrad.scipy.sparse.linalg.splu: of recorded numbers it takes permc_spec= alone"
        )
    one = _square("splu", A)
    return SparseFactors(one, _checked(one, _order(permc_spec)))


def _checked(one: SparseTensor, order: int) -> int:
    """The order; SciPy's error for a singular matrix."""
    numbers = array_of(floats(one._numbers))
    rows, columns = map(np.asarray, one._places.operands)
    if factors(numbers, rows, columns, one.shape[0], order) is None:
        raise RuntimeError("Factor is exactly singular")
    return order


@_entered
def factorized(A):
    return splu(A).solve


#: Their results may be called with recorded values later.
splu.makes_objects = factorized.makes_objects = True


# --- triangular equations -------------------------------------------------------------------------


@_entered
def spsolve_triangular(A, b, lower=True, overwrite_A=False, overwrite_b=False, unit_diagonal=False):
    one = _square("spsolve_triangular", A).canonical()
    places, n = one._places, one.shape[0]
    if (places.indices > places.rows if lower else places.indices < places.rows).any():
        raise DerivativeLost(
            f"tapegrad.scipy.sparse.linalg.spsolve_triangular: with lower={lower} the matrix has "
            f"numbers in the other triangle; give sparse.{'tril' if lower else 'triu'}(A)"
        )
    if unit_diagonal:
        keep = np.flatnonzero(places.indices != places.rows)
        both = PUBLIC["concatenate"]([one._numbers[keep], np.ones(n, dtype_of(one._numbers))])
        rows = np.concatenate([places.rows[keep], np.arange(n)])
        columns = np.concatenate([places.indices[keep], np.arange(n)])
        one = one.placed("csr", summed(both, rows, columns, one.shape))
    elif not places.positions().diagonal().all():
        raise np.linalg.LinAlgError("A is singular: zero entry on diagonal.")
    return _solved(one, array_of_operand(b), False, ORDERS.index("NATURAL"))


# --- iterations -----------------------------------------------------------------------------------

#: Their results are those of SciPy; the derivatives those of the exact solution.
ITERATIONS = "bicg bicgstab cg cgs gcrotmk gmres lgmres minres qmr tfqmr".split()


@named("sparse.iterated")
def _iterated(numbers, columns, starts, b, name, shape, keywords):
    """The result of one of SciPy's iterations, and after it what it says of its success."""
    csr = in_sparse("csr_array")((numbers, columns, starts), shape=shape)
    x, info = in_linalg(name)(csr, b, **keywords)
    return np.append(x, info)


def _iterating(name: str):
    def function(A, b, x0=None, **keywords):
        place = f"tapegrad.scipy.sparse.linalg.{name}"
        if not is_sparse(A) and not isinstance(A, np.ndarray) and not is_tensor(A):
            raise DerivativeLost(
                f"{place}: A is a {type(A).__name__}; what it computes with recorded values is not "
                "known here: give a sparse matrix or an array"
            )
        if keywords.get("callback") is not None or not none_sparse([x0, *keywords.values()]):
            raise DerivativeLost(
                f"{place}: with recorded values, it takes no callback, and plain values of x0 and "
                "the other arguments: x0.detach().numpy()"
            )
        one, b = _square(name, A).canonical(), array_of_operand(b)
        if dtype_of(b).kind == "c" or one.dtype.kind == "c":
            raise DerivativeLost(f"{place}: an operand is complex; use spsolve")
        exact = _solved(one, PUBLIC["reshape"](b, (-1,)), False, 0)
        places = one._places
        given = {"x0": x0, **keywords}
        found = steered(
            _iterated,
            one._numbers,
            places.indices,
            places.indptr,
            b,
            name=name,
            shape=one.shape,
            keywords=given,
        )
        info = fixed(found[-1], f"{name}()")
        return exact + stop_gradient(found[:-1] - exact), int(info)

    function.__name__ = name
    return _entered(function)


for _name in ITERATIONS:
    _iterating(_name)


# --- sparse exponential ---------------------------------------------------------------------------
# SciPy's `expm_multiply`: the exponential of a matrix times a vector, by sums of its series.
#
# The number of terms follows from the norm of the matrix alone (Al-Mohy and Higham, 2011); SciPy
# stops earlier where terms are small, which would be a decision at each term.

_PLACE = "tapegrad.scipy.sparse.linalg.expm_multiply"
#: By numbers of terms, norms of a matrix up to which the sum is exact to half a rounding.
_NORMS = {5: 2.4e-3, 10: 0.144, 15: 0.641, 20: 1.44, 25: 2.43, 30: 3.54, 40: 6.0, 55: 9.9}


def _terms(norm: float) -> tuple[int, int]:
    """How many terms of the series, and parts of the matrix, take the fewest products."""
    parts = {m: max(int(np.ceil(norm / most)), 1) for m, most in _NORMS.items()}
    return min(parts.items(), key=lambda one: one[0] * one[1])


def _of_sparse(numbers, rows, columns, size, time):
    sums = np.zeros(size)
    shift = numbers[rows == columns].sum() / max(size, 1)
    on_diagonal = np.bincount(rows[rows == columns], minlength=size) > 0
    np.add.at(sums, columns, np.abs(numbers - np.where(rows == columns, shift, 0.0)))
    sums += np.where(on_diagonal, 0.0, abs(shift))
    return np.array(_terms(abs(time) * sums.max(initial=0.0)))


def _of_dense(a, time):
    shift = np.trace(a) / max(len(a), 1) * np.eye(len(a))
    return np.array(_terms(abs(time) * np.abs(a - shift).sum(0).max(initial=0.0)))


class _Exponential:
    """What multiplies by exp(t A)."""

    def __init__(self, a):
        if hasattr(a, "matvec") and not is_sparse(a):
            raise DerivativeLost(f"{_PLACE}: A is a LinearOperator; give the matrix")
        self._matrix = SparseTensor.of(a).canonical() if is_sparse(a) else array_of_operand(a)
        shape = self._matrix.shape if is_sparse(a) else shape_of(self._matrix)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError("expected A to be like a square matrix")
        self.size, self.is_sparse = shape[0], is_sparse(a)
        trace = self._matrix.trace() if self.is_sparse else PUBLIC["trace"](self._matrix)
        self._shift = trace / max(self.size, 1)
        self.dtype = self._matrix.dtype if self.is_sparse else dtype_of(self._matrix)

    def terms(self, time: float) -> tuple[int, int]:
        if self.is_sparse:
            places = self._matrix._places
            keywords = {"rows": places.rows, "columns": places.indices, "size": self.size}
            found = steered(_of_sparse, self._matrix._numbers, time=time, **keywords)
        else:
            found = steered(_of_dense, self._matrix, time=time)
        learned(found, "scipy.sparse.linalg.expm_multiply()")
        m, parts = value_of(found)
        return int(m), int(parts)

    def _times(self, x):
        if self.is_sparse:
            return times_dense(self._matrix, x)
        return PUBLIC["matmul"](self._matrix, x)

    def times(self, x, time: float, terms: tuple[int, int]):
        """exp(time A) x"""
        m, parts = terms
        back = PUBLIC["exp"](self._shift * (time / parts))
        for _ in range(parts):
            term = x
            for k in range(1, m + 1):
                term = (self._times(term) - self._shift * term) * (time / (parts * k))
                x = x + term
            x = back * x
        return x


def expm_multiply(A, B, start=None, stop=None, num=None, endpoint=None, traceA=None):
    if not none_traced((start, stop, num)):
        raise DerivativeLost(f"{_PLACE}: the times are recorded; multiply the matrix by them")
    exponential, x = _Exponential(A), array_of_operand(B)
    if shape_of(x)[:1] != (exponential.size,) or len(shape_of(x)) > 2:
        raise ValueError(
            f"shapes of matrices A {(exponential.size,) * 2} and B {shape_of(x)} are incompatible"
        )
    kind = common(x, exponential)
    if not is_tensor(x) and dtype_of(x) != kind:
        x = x.astype(kind)
    if all(one is None for one in (start, stop, num, endpoint)):
        return exponential.times(x, 1.0, exponential.terms(1.0))
    given = {"num": num, "endpoint": endpoint}
    times = np.linspace(start, stop, **{k: one for k, one in given.items() if one is not None})
    found = exponential.times(x, float(times[0]), exponential.terms(float(times[0])))
    every, step = [found], float(times[1] - times[0]) if len(times) > 1 else 0.0
    terms = exponential.terms(step)
    for _ in times[1:]:
        found = exponential.times(found, step, terms)
        every.append(found)
    return PUBLIC["stack"](every)


OURS["sparse.linalg.expm_multiply"] = expm_multiply
