"""Sparse matrices of recorded numbers: where the stored ones are, arithmetic, the class itself."""

from __future__ import annotations

import importlib
import operator
import sys
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.declaring import Own
from .._core.operations.sparse_products import sparse_product
from .._core.remembered import remembered
from .._core.tensor import conversions
from .._core.tensor import runtime as rt
from .._core.tensor.trace import DerivativeLost
from .._core.tensor.values import dtype_of, is_complex, is_recorded, is_tensor, shape_of

# --- sparse places --------------------------------------------------------------------------------
# Where the stored numbers of sparse matrices are, and functions of SciPy that only move them.
#
# Such a function is called with matrices that hold, instead of numbers, the positions of the
# numbers, counted from 1: what it returns says where each number goes.


def in_sparse(name: str):
    return getattr(importlib.import_module("scipy.sparse"), name)


def owned(array, dtype: Any = np.float64) -> Own:
    """A copy of an array as an operand that is not copied again."""
    return np.array(array, dtype, order="C").view(Own)


class SparsityPattern:
    """Where stored numbers are: row by row, as in SciPy's format csr. They never change."""

    def __init__(self, shape, indices, indptr):
        self.shape = tuple(map(int, shape))
        self.indices, self.indptr = indices.view(), indptr.view()
        for one in (self.indices, self.indptr):  # other matrices may have the same places
            one.flags.writeable = False
        self.count = len(indices)

    @classmethod
    def of(cls, matrix) -> SparsityPattern:
        """Those of a matrix of SciPy's in format csr, which may be changed later."""
        return cls(matrix.shape, matrix.indices.copy(), matrix.indptr.copy())

    @remembered
    def operands(self) -> tuple[Own, Own]:
        """The row and the column of each number, as operands of `sparse_products`."""
        return owned(self.rows), owned(self.indices)

    @remembered
    def rows(self) -> np.ndarray:
        """The row of each number."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @remembered
    def is_canonical(self) -> bool:
        """Whether the numbers are in order, and no two of them in one place."""
        keys = self.rows.astype(np.int64) * self.shape[1] + self.indices
        return bool((np.diff(keys) > 0).all())

    def positions(self, kind: str = "csr_array"):
        """The matrix of positions of the numbers, from 1 on, of one of SciPy's classes."""
        places = (np.arange(1, self.count + 1), self.indices.copy(), self.indptr.copy())
        return in_sparse(f"csr_{kind[4:]}")(places, shape=self.shape).asformat(kind[:3])


def taking(positions: np.ndarray, count: int):
    """What takes numbers at positions, which count from 1, of `count`; 0 where a position is 0."""
    positions = np.asarray(positions, np.intp)
    if not count:
        return lambda numbers: np.zeros(positions.shape, dtype_of(numbers))
    if positions.size == count and positions.ndim == 1 and positions[0] == 1:
        if (np.diff(positions) == 1).all():
            return lambda numbers: numbers
    if positions.all():
        places = positions - 1
        return lambda numbers: numbers[places]
    places, is_one = np.maximum(positions - 1, 0), positions > 0
    return lambda numbers: PUBLIC["where"](is_one, numbers[places], 0.0)


def taken(numbers, positions):
    """The numbers at positions, which count from 1; 0 where a position is 0."""
    return taking(positions, shape_of(numbers)[0])(numbers)


def merging(rows: np.ndarray, columns: np.ndarray, shape):
    """Places in order for numbers at any places; what brings numbers there, and adds equal ones."""
    rows, columns = np.asarray(rows, np.intp), np.asarray(columns, np.intp)
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (np.diff(rows) != 0) | (np.diff(columns) != 0)
    first = np.flatnonzero(is_new)
    indptr = np.searchsorted(rows[first], np.arange(shape[0] + 1))
    places = SparsityPattern(shape, columns[first], indptr)
    if len(first) == len(rows):
        return taking(order + 1, len(rows)), places
    operands = owned(np.ones(len(rows))), owned(np.cumsum(is_new) - 1), owned(order)

    def merge(numbers):
        wide = PUBLIC["reshape"](numbers, (-1, 1))
        made = sparse_product(*operands, wide, count=len(first))
        return PUBLIC["reshape"](made, (-1,))

    return merge, places


def summed(numbers, rows: np.ndarray, columns: np.ndarray, shape):
    """Numbers at any places as those of places in order: such with equal places are added."""
    merge, places = merging(rows, columns, shape)
    return merge(numbers), places


class RecentPatterns:
    """What was made for the last index arrays: these are compared, since anyone may write them."""

    def __init__(self, most: int = 4):
        self._most = most
        self._held: list[tuple] = []

    def of(self, key, arrays, make):
        """What `make()` returned for an equal key and equal arrays."""
        for held, copies, found in self._held:
            if held == key and all(map(np.array_equal, copies, arrays)):
                return found
        made = make()
        copies = [x.copy() for x in arrays]
        self._held = [(key, copies, made), *self._held[: self._most - 1]]
        return made


# --- sparse arithmetic ----------------------------------------------------------------------------
# Arithmetic of sparse matrices of recorded numbers: products, sums, dense operands.


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


# --- sparse tensors -------------------------------------------------------------------------------
# Sparse matrices whose stored numbers are recorded, or that are used with recorded values.

#: What of a sparse matrix of SciPy's is not there, by name: the words of the error.
_ADVICE = (
    "use @, *, +, -, .T, multiply, diagonal, sum, mean, toarray, tocsr, indices and slices, or "
    ".detach() for SciPy's matrix of the values alone"
)


def is_sparse(x) -> bool:
    """Whether a value is a sparse matrix, one of SciPy's or a `SparseTensor`."""
    return isinstance(x, SparseTensor) or in_sparse("issparse")(x)


class SparseTensor:
    """A sparse matrix whose stored numbers may be recorded; where they are is fixed.

    The constructors of `scipy.sparse`, given recorded numbers inside of a transform or through
    `tapegrad.scipy.sparse`, make one. As there, `*` multiplies matrices of the classes that end in
    `_matrix`, and elements of those that end in `_array`. Sums and products keep all places where
    one of the operands has a number, also where the result is 0.

    Attributes
    ----------
    shape, dtype, ndim, nnz, size, T, format
        As of SciPy's sparse matrices.
    data, indices, indptr
        The stored numbers, and their places, of the formats csr and csc.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> from tapegrad.scipy import sparse
    >>> def energy(stiffness):
    ...     a = sparse.csr_array((stiffness, ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    ...     return np.sum((a @ np.array([1.0, 2.0])) ** 2)
    >>> print(tg.grad(energy)(np.array([1.0, 1.0, 1.0])))
    [ 6. 12.  8.]
    """

    #: NumPy's arrays and numbers leave operators to this class.
    __array_ufunc__ = None
    __array_priority__ = 2000.0
    ndim = 2
    stands_for = property(lambda self: in_sparse(self._kind), doc="SciPy's class.")
    #: Whether all elements of a dense array are stored, where SciPy leaves out those that are 0.
    _of_dense = False

    def __init__(self, numbers, places: SparsityPattern, kind: str):
        self._numbers, self._places, self._kind = numbers, places, kind
        self.shape = places.shape

    @classmethod
    def of(cls, matrix) -> SparseTensor:
        """A sparse matrix of SciPy's, of any format, or one of these as it is."""
        if isinstance(matrix, cls):
            return matrix
        if matrix.ndim != 2:
            raise DerivativeLost(
                f"tapegrad: a sparse array of shape {matrix.shape} meets recorded values; only "
                "those of two axes do: use A.reshape(1, -1)"
            )
        csr = matrix.tocsr()
        if isinstance(csr, cls):  # of one to which recorded values were written
            return csr
        return cls(csr.data.copy(), SparsityPattern.of(csr), type(matrix).__name__)

    @property
    def format(self) -> str:
        return self._kind[:3]

    @property
    def is_array(self) -> bool:
        """Whether it is of one of SciPy's classes of arrays, in which `*` is by element."""
        return self._kind.endswith("_array")

    def _as(self, format: str, numbers=None, places: SparsityPattern | None = None) -> SparseTensor:
        kind = f"{format}_{'array' if self.is_array else 'matrix'}"
        numbers = self._numbers if numbers is None else numbers
        return SparseTensor(numbers, self._places if places is None else places, kind)

    def placed(self, format: str, found) -> SparseTensor:
        """A matrix of the same kind of classes, of numbers and their places."""
        return self._as(format, *found)

    def __repr__(self) -> str:
        count = self._places.count
        return f"SparseTensor({self._kind}, shape={self.shape}, dtype={self.dtype}, nnz={count})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(in_sparse(self._kind), name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise DerivativeLost(
            f"tapegrad.scipy.sparse: .{name} of a {self._kind} of recorded numbers has no "
            f"derivative here; {_ADVICE}"
        )

    def __array__(self, dtype=None, copy=None):
        if conversions.left_by(sys._getframe(1)):
            return conversions.left(self)
        raise DerivativeLost(
            "tapegrad.scipy.sparse: a sparse matrix of recorded numbers cannot become an "
            "array, since its derivative would be lost; use .toarray(), or its method of "
            "the same name"
        )

    def __bool__(self):
        raise ValueError(
            "The truth value of an array with more than one element is ambiguous. Use a.any() or "
            "a.all()."
        )

    def _compared(self, other):
        raise DerivativeLost("tapegrad.scipy.sparse: elements are not compared; use A.toarray()")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compared
    __hash__ = object.__hash__

    def __len__(self):
        raise TypeError("sparse array length is ambiguous; use getnnz() or shape[0]")

    def __iter__(self):
        raise DerivativeLost(
            "tapegrad.scipy.sparse: a sparse matrix of recorded numbers has no iterator; use "
            "A[i : i + 1] for its rows"
        )

    # --- numbers and places -----------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype:
        return dtype_of(self._numbers)

    @property
    def nnz(self) -> int:
        if self._of_dense and not np.all(self._numbers != 0.0):
            raise DerivativeLost(
                "tapegrad: the number of stored elements is asked for of a sparse matrix that was "
                "made of a dense recorded array, where SciPy leaves out those that are 0; use "
                "np.count_nonzero of the array"
            )
        return self._places.count

    size = nnz

    def getnnz(self, axis=None):
        if axis is None:
            return self.nnz
        return self._places.positions().getnnz(axis)

    def _compressed(self) -> SparseTensor:
        if self.format == "csr":
            return self
        if self.format == "csc":
            return self.T
        return self.__getattr__("data")

    @property
    def data(self):
        """The stored numbers, in the order of the format csr or csc."""
        return self._compressed()._numbers

    @property
    def indices(self) -> np.ndarray:
        return self._compressed()._places.indices

    @property
    def indptr(self) -> np.ndarray:
        return self._compressed()._places.indptr

    def detach(self):
        """SciPy's matrix of the values, without derivative."""
        numbers = self._numbers
        plain = numbers.detach().numpy() if hasattr(numbers, "detach") else np.array(numbers)
        places = plain, self._places.indices.copy(), self._places.indptr.copy()
        return in_sparse(f"csr_{self._kind[4:]}")(places, shape=self.shape).asformat(self.format)

    def canonical(self) -> SparseTensor:
        """The same with no two numbers in one place, row by row in the order of columns."""
        if self._places.is_canonical:
            return self
        places = self._places
        numbers, found = summed(self._numbers, places.rows, places.indices, self.shape)
        return SparseTensor(numbers, found, self._kind)

    def through(self, theirs, kind: str | None = None):
        """What a function of SciPy that moves numbers gives, called with a matrix of positions."""
        one = self.canonical()
        return from_positions(one._numbers, theirs(one._places.positions(kind or one._kind)))

    # --- forms ------------------------------------------------------------------------------------

    @property
    def T(self) -> SparseTensor:
        return self.transpose()

    def transpose(self, axes=None, copy=False) -> SparseTensor:
        if axes not in (None, (1, 0), (-1, 0), (1, -2)):
            return self.through(lambda p: p.transpose(axes))
        made = self._places.positions("csr_array").T.tocsr()
        format = {"csr": "csc", "csc": "csr"}.get(self.format, self.format)
        return self._as(format, taken(self._numbers, made.data), SparsityPattern.of(made))

    def tocsr(self, copy=False):
        return self._as("csr")

    def tocsc(self, copy=False):
        return self._as("csc")

    def tocoo(self, copy=False):
        return self._as("coo")

    def asformat(self, format, copy=False):
        if format is None or format == self.format:
            return self
        if format in ("csr", "csc", "coo"):
            return self._as(format)
        return self.__getattr__(f"to{format}")

    def copy(self):
        return self._as(self.format, self._numbers.copy())

    def conj(self, copy=True):
        return self._as(self.format, PUBLIC["conj"](self._numbers))

    conjugate = conj

    def astype(self, dtype, casting="unsafe", copy=True):
        return self._as(self.format, self._numbers.astype(dtype))

    def sum_duplicates(self):
        """Add numbers in equal places, in place as SciPy does, in the order of columns."""
        one = self.canonical()
        self._numbers, self._places = one._numbers, one._places

    def sort_indices(self):
        """Put the numbers of each row in the order of columns, in place as SciPy does."""
        places = self._places
        order = np.lexsort((places.indices, places.rows))
        self._numbers = taken(self._numbers, order + 1)
        self._places = SparsityPattern(self.shape, places.indices[order], places.indptr)

    def toarray(self, order=None, out=None):
        if out is not None:
            raise DerivativeLost(
                "tapegrad.scipy.sparse: toarray(out=) of recorded numbers has no derivative; use "
                "its result"
            )
        return self.through(lambda p: p.toarray(), "csr_array")

    def todense(self, order=None, out=None):
        return self.toarray(order, out)

    def diagonal(self, k=0):
        return self.through(lambda p: p.diagonal(k))

    def trace(self, offset=0):
        return PUBLIC["sum"](self.diagonal(offset))

    def reshape(self, *shape, **keywords):
        return self.through(lambda p: p.reshape(*shape, **keywords))

    def __getitem__(self, key):
        if self.format not in ("csr", "csc"):
            raise TypeError(f"'{self._kind}' object is not subscriptable; use A.tocsr()")
        return self.through(lambda p: p[key])

    def __setitem__(self, key, value):
        raise DerivativeLost(
            "tapegrad.scipy.sparse: elements of a sparse matrix of recorded numbers cannot be "
            "written; add a matrix, or make it of all numbers and their places"
        )

    def getrow(self, i):
        return self.through(lambda p: p[[i], :])

    def getcol(self, j):
        return self.through(lambda p: p[:, [j]])

    # --- sums -------------------------------------------------------------------------------------

    def sum(self, axis=None, dtype=None, out=None):
        return total(self, axis, dtype, out)

    def mean(self, axis=None, dtype=None, out=None):
        count = self.shape[0] * self.shape[1] if axis is None else self.shape[axis]
        return total(self, axis, dtype, out) / count

    def max(self, axis=None, out=None, *, explicit=False):
        return extreme("max", self, axis, out, explicit)

    def min(self, axis=None, out=None, *, explicit=False):
        return extreme("min", self, axis, out, explicit)

    # --- products ---------------------------------------------------------------------------------

    def __matmul__(self, other):
        if is_number(other):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self._dot(other)

    def __rmatmul__(self, other):
        if is_number(other):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self._reverse_dot(other)

    def dot(self, other):
        return self * other if is_number(other) else self._dot(other)

    def _dot(self, other):
        if is_sparse(other):
            return times_sparse(self, SparseTensor.of(other))
        return times_dense(self, array_of_operand(other))

    def _reverse_dot(self, other):
        if is_sparse(other):
            return SparseTensor.of(other)._dot(self)
        other = array_of_operand(other)
        turned = turned_times(self, other.T if len(shape_of(other)) > 1 else other)
        return turned.T if len(shape_of(turned)) > 1 else turned

    def __mul__(self, other):
        return self.multiply(other) if self.is_array or is_number(other) else self._dot(other)

    def __rmul__(self, other):
        if not self.is_array and not is_number(other):
            return self._reverse_dot(other)
        return SparseTensor.of(other).multiply(self) if is_sparse(other) else self.multiply(other)

    def multiply(self, other):
        if is_sparse(other):
            return by_element(self, SparseTensor.of(other))
        format = self.format if is_number(other) else "coo"
        return self._as(format, self._numbers * at_places(self, array_of_operand(other)))

    def __truediv__(self, other):
        if is_sparse(other):
            return self.toarray() / SparseTensor.of(other).toarray()
        format = self.format if is_number(other) else "coo"
        return self._as(format, self._numbers / at_places(self, array_of_operand(other)))

    def __pow__(self, power):
        if not self.is_array:
            return self.__getattr__("__pow__") if power != 2 else self._dot(self)
        return self.power(power)

    def power(self, n, dtype=None):
        one = self.canonical()
        return self._as(self.format, powers(one._numbers, n, dtype), one._places)

    # --- sums of matrices -------------------------------------------------------------------------

    def __neg__(self):
        return self._as(self.format, -self._numbers)

    def __pos__(self):
        return self

    def __abs__(self):
        one = self.canonical()
        return self._as(self.format, PUBLIC["abs"](one._numbers), one._places)

    def __add__(self, other):
        return added(self, SparseTensor.of(other) if is_sparse(other) else other)

    def __radd__(self, other):
        return added(SparseTensor.of(other), self) if is_sparse(other) else added(self, other)

    def __sub__(self, other):
        return added(
            self, -SparseTensor.of(other) if is_sparse(other) else -array_of_operand(other)
        )

    def __rsub__(self, other):
        return (-self).__radd__(other)


for _name in "sqrt sin tan arcsin arctan sinh tanh arcsinh arctanh expm1 log1p".split():

    def _of_each(self, name=_name):
        one = self.canonical()
        return self._as(self.format, PUBLIC[name](one._numbers), one._places)

    _of_each.__name__ = _name
    setattr(SparseTensor, _name, _of_each)


def from_positions(numbers, found):
    """Numbers where a result of SciPy's has their positions: a matrix, an array, or a number."""
    if not in_sparse("issparse")(found):
        found = np.asarray(found)
        return taken(numbers, found) if found.ndim else taken(numbers, found.reshape(1))[0]
    if found.ndim != 2:
        raise DerivativeLost(
            f"tapegrad.scipy.sparse: the result has shape {found.shape}; sparse arrays of recorded "
            "numbers have two axes: use A[i : i + 1], or A[[i]]"
        )
    kind, csr = type(found).__name__, found.tocsr()
    return SparseTensor(taken(numbers, csr.data), SparsityPattern.of(csr), kind)


# --- plain matrices with recorded values ----------------------------------------------------------


def operate(name: str, tensor, matrix, is_reflected: bool):
    """An operator of a tensor and a sparse matrix of SciPy's: `name` is that of Python's."""
    one = SparseTensor.of(matrix)
    method = getattr(one, f"__{name}__" if is_reflected else f"__r{name}__", None)
    return NotImplemented if method is None else method(tensor)
