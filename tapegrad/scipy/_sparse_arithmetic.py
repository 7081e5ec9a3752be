"""Arithmetic of sparse matrices of recorded numbers: products, sums, dense operands."""

from __future__ import annotations

import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.sparse_products import sparse_product
from .._core.tensor import runtime as rt
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.trace import DerivativeLost
from .._core.tensor.values import dtype_of, is_recorded, is_tensor, shape_of
from ._sparse_places import owned, summed


def array_of_operand(x):
    """A dense operand: a tensor, an array or a number."""
    if is_tensor(x) or isinstance(x, (rt.ComplexTensor, np.ndarray)):
        return np.asarray(x) if isinstance(x, np.matrix) else x
    return PUBLIC["asarray"](x)


def in_dtype(dtype, x):
    """A result in the dtype that SciPy's has."""
    return x if dtype_of(x) == dtype or dtype.kind not in "fc" else x.astype(dtype)


def common(*operands) -> np.dtype:
    """The dtype of results: that of NumPy's, but floats for integers, which have no derivative."""
    found = np.result_type(*[dtype_of(x) for x in operands])
    return found if found.kind in "fc" else np.dtype(np.float64)


def floats(x):
    """Numbers as operands of a product: of float64, or complex."""
    if is_tensor(x) or is_complex(x):
        return x
    return owned(x, np.complex128 if np.iscomplexobj(x) else np.float64)


def is_number(x) -> bool:
    return not hasattr(x, "tocsr") and shape_of(x) == () and not isinstance(x, (list, tuple))


def _mismatch(rows: int, columns: int):
    return ValueError(
        f"matmul: dimension mismatch with signature (n,k={rows}),(k={columns},1?)->(n,1?)"
    )


def times_dense(a, x):
    """A x."""
    return product(a._numbers, a._places.operands, x, a.shape)


def turned_times(a, x):
    """Aᵀ x."""
    return product(a._numbers, a._places.operands[::-1], x, a.shape[::-1])


def product(numbers, places, x, sizes: tuple[int, int]):
    """The product of a matrix with a vector or a matrix, in SciPy's dtype."""
    shape = shape_of(x)
    if not 1 <= len(shape) <= 2:
        raise ValueError("could not interpret dimensions")
    if shape[0] != sizes[1]:
        raise _mismatch(sizes[1], shape[0])
    wide = PUBLIC["reshape"](x, (sizes[1], 1)) if len(shape) == 1 else x
    both = is_recorded(numbers) and is_recorded(x)
    made = sparse_product(floats(numbers), *places, wide, count=sizes[0], both=both)
    made = PUBLIC["reshape"](made, (-1,)) if len(shape) == 1 else made
    return in_dtype(common(numbers, x), made)


def times_sparse(a, b):
    """A B: for each number of A those of a row of B."""
    if a.shape[1] != b.shape[0]:
        raise _mismatch(a.shape[1], b.shape[0])
    lengths = np.diff(b._places.indptr)[a._places.indices]
    of_a = np.repeat(np.arange(a._places.count), lengths)
    before = np.repeat(np.cumsum(lengths) - lengths, lengths)
    of_b = np.arange(len(of_a)) - before + b._places.indptr[a._places.indices[of_a]]
    products = a._numbers[of_a] * b._numbers[of_b]
    rows, columns = a._places.rows[of_a], b._places.indices[of_b]
    shape = a.shape[0], b.shape[1]
    numbers, places = summed(products, rows, columns, shape)
    return a.placed("csc" if a.format == "csc" else "csr", (numbers, places))


def at_places(a, x):
    """The elements of a dense operand, which broadcasts, where a matrix has numbers."""
    shape, places = shape_of(x), a._places
    if not shape:
        return x
    if len(shape) > 2 or np.broadcast_shapes(shape, a.shape) != a.shape:
        raise ValueError(f"inconsistent shapes {a.shape} and {shape}")
    columns = (
        places.indices if shape[-1] > 1 or a.shape[1] == 1 else np.zeros(a._places.count, np.intp)
    )
    if len(shape) == 1:
        return x[columns]
    rows = places.rows if shape[0] > 1 or a.shape[0] == 1 else np.zeros(a._places.count, np.intp)
    return x[rows, columns]


def by_element(a, b):
    """The products of elements of two matrices, at the places that both have."""
    if a.shape != b.shape:
        return a.multiply(b.toarray())
    a, b = a.canonical(), b.canonical()
    keys = [x._places.rows.astype(np.int64) * x.shape[1] + x._places.indices for x in (a, b)]
    _, of_a, of_b = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    rows, columns = a._places.rows[of_a], a._places.indices[of_a]
    numbers = a._numbers[of_a] * b._numbers[of_b]
    return a.placed(a.format, summed(numbers, rows, columns, a.shape))


def added(a, other):
    """A + B, dense where B is."""
    if not hasattr(other, "tocsr"):
        if is_number(other):
            if is_tensor(other) or other != 0:
                raise NotImplementedError(
                    "adding a nonzero scalar to a sparse array is not supported"
                )
            return a
        if np.broadcast_shapes(a.shape, shape_of(array_of_operand(other))) != a.shape:
            raise ValueError(f"inconsistent shapes {a.shape} and {shape_of(other)}")
        return a.toarray() + array_of_operand(other)
    b = other
    if a.shape != b.shape:
        raise ValueError(f"inconsistent shapes {a.shape} and {b.shape}")
    both = PUBLIC["concatenate"]([a._numbers, b._numbers])
    rows = np.concatenate([a._places.rows, b._places.rows])
    columns = np.concatenate([a._places.indices, b._places.indices])
    format = "csc" if a.format == "csc" else "csr"
    return a.placed(format, summed(both, rows, columns, a.shape))


def powers(numbers, n, dtype):
    """Powers of the stored numbers."""
    if not is_number(n) or dtype is not None:
        raise NotImplementedError("input is not scalar")
    if n == 0:
        raise NotImplementedError("zero power is not supported")
    return numbers**n


def total(a, axis, dtype, out):
    """The sum of all elements, or along an axis."""
    if dtype is not None or out is not None:
        raise DerivativeLost("tapegrad.scipy.sparse: sum() of recorded numbers takes axis= alone")
    if axis is None or (isinstance(axis, tuple) and len(axis) == 2):
        return PUBLIC["sum"](a._numbers)
    axis = axis[0] if isinstance(axis, tuple) else operator.index(axis)
    if not -2 <= axis < 2:
        raise ValueError("axis out of range")
    axis %= 2
    ones = np.ones(a.shape[axis], dtype_of(a._numbers))
    made = times_dense(a, ones) if axis else turned_times(a, ones)
    return made if a.is_array else made.reshape((-1, 1) if axis else (1, -1))


def extreme(name: str, a, axis, out, explicit: bool):
    """The largest or smallest of the numbers, and of 0 if an element is not stored."""
    if axis is not None or out is not None:
        raise DerivativeLost(
            f"tapegrad.scipy.sparse: {name}() of recorded numbers is that of all elements; use "
            f"A.toarray().{name}(axis)"
        )
    count = a.shape[0] * a.shape[1]
    if not count:
        raise ValueError("zero-size array to reduction operation")
    numbers = a.canonical()._numbers
    stored = a.nnz if explicit else shape_of(numbers)[0]
    if stored < count and not (explicit and stored):
        numbers = PUBLIC["concatenate"]([numbers, np.zeros(1, a.dtype)])
    return PUBLIC[name](numbers)
