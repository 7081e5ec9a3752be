"""Sparse matrices whose stored numbers are recorded, or that are used with recorded values."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import lost_derivatives
from .._core.tensor.trace import DerivativeLost
from .._core.tensor.values import dtype_of, shape_of
from ._sparse_arithmetic import (
    added,
    array_of_operand,
    at_places,
    by_element,
    extreme,
    is_number,
    powers,
    times_dense,
    times_sparse,
    total,
    turned_times,
)
from ._sparse_places import StoredPlaces, in_sparse, summed, taken

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

    def __init__(self, numbers, places: StoredPlaces, kind: str):
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
        return cls(csr.data.copy(), StoredPlaces.of(csr), type(matrix).__name__)

    @property
    def format(self) -> str:
        return self._kind[:3]

    @property
    def is_array(self) -> bool:
        """Whether it is of one of SciPy's classes of arrays, in which `*` is by element."""
        return self._kind.endswith("_array")

    def _as(self, format: str, numbers=None, places: StoredPlaces | None = None) -> SparseTensor:
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
        if lost_derivatives.left_by(sys._getframe(1)):
            return lost_derivatives.left(self)
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
    def T(self) -> SparseTensor:  # noqa: N802
        return self.transpose()

    def transpose(self, axes=None, copy=False) -> SparseTensor:
        if axes not in (None, (1, 0), (-1, 0), (1, -2)):
            return self.through(lambda p: p.transpose(axes))
        made = self._places.positions("csr_array").T.tocsr()
        format = {"csr": "csc", "csc": "csr"}.get(self.format, self.format)
        return self._as(format, taken(self._numbers, made.data), StoredPlaces.of(made))

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
        self._places = StoredPlaces(self.shape, places.indices[order], places.indptr)

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
    return SparseTensor(taken(numbers, csr.data), StoredPlaces.of(csr), kind)


# --- plain matrices with recorded values ----------------------------------------------------------


def operate(name: str, tensor, matrix, is_reflected: bool):
    """An operator of a tensor and a sparse matrix of SciPy's: `name` is that of Python's."""
    one = SparseTensor.of(matrix)
    method = getattr(one, f"__{name}__" if is_reflected else f"__r{name}__", None)
    return NotImplemented if method is None else method(tensor)
