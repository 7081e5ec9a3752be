"""SciPy's `expm_multiply`: the exponential of a matrix times a vector, by sums of its series.

The number of terms follows from the norm of the matrix alone (Al-Mohy and Higham, 2011); SciPy
stops earlier where terms are small, which would be a decision at each term.
"""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost, learned, steered
from .._core.tensor.values import dtype_of, is_tensor, shape_of, value_of
from ._differentiable import OURS
from ._sparse_arithmetic import array_of_operand, common, times_dense
from ._sparse_tensors import SparseTensor, is_sparse

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


def expm_multiply(A, B, start=None, stop=None, num=None, endpoint=None, traceA=None):  # noqa: N803
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
