"""SciPy's `sparse` for recorded numbers: constructors, joined matrices, writes of elements."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost
from .._core.tensor.values import dtype_of, is_tensor, shape_of
from ._class_stand_ins import ClassStandIn
from ._differentiable import OURS, in_package
from ._sparse_tensors import (
    RecentPatterns,
    SparseTensor,
    SparsityPattern,
    array_of_operand,
    from_positions,
    in_sparse,
    is_sparse,
    merging,
    taken,
    taking,
)

# --- sparse constructors --------------------------------------------------------------------------
# SciPy's `sparse` for recorded numbers: the constructors, and functions that join matrices.

_FORMATS = ("bsr", "coo", "csc", "csr", "dia")
#: The names of the classes that take recorded numbers.
CLASSES = [f"{format}_{kind}" for format in _FORMATS for kind in ("array", "matrix")]


def without_sparse(is_plain):
    """A test of arguments that a `SparseTensor` does not pass either."""
    return lambda arguments: is_plain(arguments) and not _holds(arguments)


def none_sparse(arguments) -> bool:
    """Whether no argument, nor anything listed in them, is recorded or a `SparseTensor`."""
    return none_traced(arguments) and not _holds(arguments)


def _holds(arguments) -> bool:
    return any(
        _holds(x) if type(x) in (list, tuple) else held_matrix(x) is not None for x in arguments
    )


def held_matrix(x) -> SparseTensor | None:
    """A matrix of recorded numbers, also one in a matrix that they were written to; else None."""
    if isinstance(x, SparseTensor):
        return x
    held = getattr(x, "__dict__", None)
    return held.get("_written") if type(held) is dict else None


# --- constructors ---------------------------------------------------------------------------------


def _numbers(x):
    """Stored numbers that are given, as floats: integers have no derivative."""
    x = array_of_operand(x)
    return x if is_tensor(x) or dtype_of(x).kind in "fc" else x.astype(np.float64)


def _positions(x) -> np.ndarray:
    """The positions of the elements of an array, from 1 on, in its shape."""
    shape = shape_of(x)
    return np.arange(1, int(np.prod(shape)) + 1).reshape(shape)


def _flat(x):
    return PUBLIC["reshape"](x, (-1,)) if len(shape_of(x)) != 1 else x


def _plain(name: str, x):
    """Indices of stored numbers, which must be plain."""
    if not none_traced((x,)):
        raise DerivativeLost(
            f"tapegrad.scipy.sparse.{name}: indices are recorded; where numbers are stored must "
            "not depend on recorded values: give plain integers, or x.detach().numpy()"
        )
    return x


def constructed(name: str, arg1, shape=None, dtype=None, copy=False, **keywords):
    """What a class of SciPy's makes of recorded numbers, or of a matrix of them."""
    theirs, matrix = in_sparse(name), held_matrix(arg1)
    if matrix is not None:
        made = SparseTensor(matrix._numbers, matrix._places, name)
        if shape is not None and tuple(shape) != made.shape:
            made = made.reshape(shape)
    elif isinstance(arg1, tuple) and len(arg1) in (2, 3):
        made = _of_parts(name, theirs, _numbers(arg1[0]), arg1[1:], shape, keywords)
    elif len(shape_of(array_of_operand(arg1))) in (1, 2):
        dense = PUBLIC["atleast_2d"](array_of_operand(arg1))
        if len(shape_of(array_of_operand(arg1))) == 1 and name.endswith("_array"):
            raise DerivativeLost(
                f"tapegrad.scipy.sparse.{name}: sparse arrays of recorded numbers have two axes; "
                "give a matrix, such as x[None]"
            )
        made = from_positions(_flat(dense), in_sparse(name)(_positions(dense)))
        made._of_dense = True
    else:
        raise TypeError(
            f"{name} does not take an array of shape {shape_of(array_of_operand(arg1))}"
        )
    return made if dtype is None else made.astype(dtype)


_patterns = RecentPatterns()


def _of_parts(name: str, theirs, numbers, places, shape, keywords) -> SparseTensor:
    """A matrix of numbers and their places, in the form of a format."""
    for x in places:
        _plain(name, x)
    indices = places[0] if len(places) == 1 and isinstance(places[0], tuple) else places
    arrays = [np.asarray(x) for x in indices]
    given = shape_of(numbers)
    key = (name, given, shape if shape is None else tuple(shape), [*keywords.items()], len(places))
    arranged = lambda: _arranged(name, theirs, given, places, shape, keywords)
    arrange, found = _patterns.of((*key, [x.shape for x in arrays]), arrays, arranged)
    return SparseTensor(arrange(_flat(numbers)), found, name)


def _arranged(name: str, theirs, given: tuple, places, shape, keywords):
    """What brings numbers of a shape to the order of rows, and their places there."""
    count = int(np.prod(given))
    if len(places) == 1 and name[:3] != "dia":  # by coordinates
        positions = np.arange(1, count + 1).reshape(given)
        coo = in_sparse(f"coo_{name[4:]}")((positions, places[0]), shape=shape)
        if coo.ndim != 2:
            raise DerivativeLost(
                f"tapegrad.scipy.sparse.{name}: sparse arrays of recorded numbers have two axes"
            )
        rows, columns = coo.coords
        if name[:3] != "coo":
            return merging(rows, columns, coo.shape)
        order = np.argsort(rows, kind="stable")  # numbers in equal places are kept apart
        starts = np.searchsorted(rows[order], np.arange(coo.shape[0] + 1))
        return taking(order + 1, count), SparsityPattern(coo.shape, columns[order], starts)
    positions = np.arange(1, count + 1).reshape(given)
    csr = theirs((positions, *places), shape=shape, **keywords).tocsr()
    if len(np.unique(csr.data)) != csr.nnz:
        raise DerivativeLost(
            f"tapegrad.scipy.sparse.{name}: two numbers are in one place; give coordinates, as "
            "(numbers, (rows, columns))"
        )
    if (csr.data > count).any():
        raise DerivativeLost(f"tapegrad.scipy.sparse.{name}: blocks overlap; give coordinates")
    return taking(csr.data, count), SparsityPattern.of(csr)


for _name in CLASSES:
    OURS[f"sparse.{_name}"] = functools.partial(constructed, _name)


class MatrixClass(ClassStandIn):
    """What stands for a class of `scipy.sparse`: it makes SciPy's objects, or ours.

    `isinstance` and classes derived from it are as with SciPy's; a `SparseTensor` of the class is
    an instance, too.
    """

    def __init__(self, theirs: type, place: str, ours):
        super().__init__(theirs, place)
        self._ours = ours

    def __call__(self, *args, **kwargs):
        if none_sparse(args) and (not kwargs or none_sparse(kwargs.values())):
            return self._theirs(*args, **kwargs)
        return self._ours(*args, **kwargs)

    def is_ours(self, x) -> bool:
        return isinstance(x, SparseTensor) and issubclass(in_sparse(x._kind), self._theirs)


# --- functions ------------------------------------------------------------------------------------


_entered = in_package("sparse")


class _JoinedBlocks:
    """Numbers of several matrices in one vector, and matrices of positions in it for each."""

    def __init__(self):
        self.numbers: list = []
        self.count = 0

    def positions(self, x) -> Any:
        """A matrix of positions for a matrix, or an array of them; lists by item."""
        if x is None:
            return None
        if type(x) in (list, tuple):
            return [self.positions(one) for one in x]
        if isinstance(x, np.ndarray) and x.dtype == object:
            return np.array([self.positions(one) for one in x.ravel()], object).reshape(x.shape)
        if is_sparse(x):
            one = SparseTensor.of(x).canonical()
            found = one._places.positions(f"csr_{one._kind[4:]}")
            found.data += self.count
            self._add(one._numbers)
            return found.asformat(one.format)
        return self.dense(x)

    def dense(self, x) -> np.ndarray:
        x = _numbers(x)
        found = _positions(x).astype(np.float64) + self.count  # SciPy warns of integers
        self._add(_flat(x))
        return found

    def _add(self, numbers):
        if dtype_of(numbers).kind not in "fc":
            numbers = np.asarray(numbers, np.float64)
        self.numbers.append(numbers)
        self.count += shape_of(numbers)[0]

    def all(self):
        return PUBLIC["concatenate"](self.numbers)


def _joining(name: str):
    def function(blocks, format=None, dtype=None):
        joined = _JoinedBlocks()
        found = in_sparse(name)(joined.positions(blocks), format=format)
        made = from_positions(joined.all(), found)
        return made if dtype is None else made.astype(dtype)

    function.__name__ = name
    return _entered(function)


for _name in ("hstack", "vstack", "bmat", "block_array", "block_diag"):
    _joining(_name)


def _picking(name: str):
    def function(A, k=0, format=None):
        return SparseTensor.of(_sparse(A)).through(lambda p: in_sparse(name)(p, k, format))

    function.__name__ = name
    return _entered(function)


for _name in ("tril", "triu"):
    _picking(_name)


def _sparse(x) -> SparseTensor:
    if is_sparse(x) or none_traced((x,)):
        return SparseTensor.of(x if is_sparse(x) else in_sparse("coo_matrix")(x))
    return constructed("coo_matrix", x)


def _of_diagonals(name: str, diagonals, offsets, keywords, dtype):
    _plain(name, offsets)
    joined = _JoinedBlocks()
    found: Any
    is_one = shape_of(offsets) == () and not isinstance(offsets, (list, tuple))
    if is_one and type(diagonals) not in (list, tuple):
        found = joined.dense(PUBLIC["atleast_1d"](array_of_operand(diagonals)))
    elif is_one and all(shape_of(x) == () for x in diagonals):
        found = joined.dense(diagonals)
    else:
        found = [joined.dense(PUBLIC["atleast_1d"](array_of_operand(x))) for x in diagonals]
    made = from_positions(joined.all(), in_sparse(name)(found, offsets=offsets, **keywords))
    return made if dtype in (None, np._NoValue) else made.astype(dtype)


@_entered
def diags(diagonals, offsets=0, shape=None, format=None, dtype=None):
    return _of_diagonals("diags", diagonals, offsets, {"shape": shape, "format": format}, dtype)


@_entered
def diags_array(diagonals, /, *, offsets=0, shape=None, format=None, dtype=None):
    keywords = {"shape": shape, "format": format}
    return _of_diagonals("diags_array", diagonals, offsets, keywords, dtype)


@_entered
def spdiags(data, diags, m=None, n=None, format=None):
    data = PUBLIC["atleast_2d"](array_of_operand(data))
    found = in_sparse("spdiags")(_positions(data), _plain("spdiags", diags), m, n, format)
    return from_positions(_flat(data), found)


@_entered
def permute_dims(A, axes=None, copy=False):
    theirs = in_sparse("permute_dims")
    return _sparse(A).through(lambda p: theirs(p, axes))


@_entered
def kron(A, B, format=None):
    theirs, a, b = in_sparse("kron"), _sparse(A).canonical(), _sparse(B).canonical()
    kinds = [f"coo_{x._kind[4:]}" for x in (a, b)]
    p, q = (x._places.positions(kind) for x, kind in zip((a, b), kinds, strict=True))
    ones = [x.copy() for x in (p, q)]
    for x in ones:
        x.data[:] = 1
    of_a, of_b = theirs(p, ones[1], "csr"), theirs(ones[0], q, "csr")
    numbers = taken(a._numbers, of_a.data) * taken(b._numbers, of_b.data)
    wanted = theirs(p, ones[1], format)
    return SparseTensor(numbers, SparsityPattern.of(of_a), type(wanted).__name__)


@_entered
def kronsum(A, B, format=None):
    a, b = _sparse(A), _sparse(B)
    for x in (a, b):
        if x.shape[0] != x.shape[1]:
            raise ValueError("A is not square" if x is a else "B is not square")
    kind = "eye_array" if a.is_array or b.is_array else "eye"
    left = kron(in_sparse(kind)(b.shape[0]), a)
    made = left + kron(b, in_sparse(kind)(a.shape[0]))
    return made.asformat(format)


@_entered
def issparse(x):
    return is_sparse(x)


# --- sparse assembly ------------------------------------------------------------------------------
# SciPy's lil and dok matrices, element by element: a write of a recorded value is differentiated.
#
# What stands for such a class makes SciPy's objects, of a class derived from SciPy's, while a
# transform records. Until a recorded value is written, they are nothing else. From then on an
# object holds the numbers that were written, and where each of them is: SciPy's matrix of their
# positions.

#: The names of the classes.
WRITTEN_CLASSES = [f"{format}_{kind}" for format in ("lil", "dok") for kind in ("array", "matrix")]


class WrittenMatrix(SparseTensor):
    """A matrix of the numbers that were written to it."""

    def __init__(self, theirs):
        csr = theirs.tocsr()
        if csr.dtype != np.float64:
            raise DerivativeLost(
                f"tapegrad.scipy.sparse: a recorded value is written to a {type(theirs).__name__} "
                f"of dtype {csr.dtype}; make it with dtype=float"
            )
        self._kind, self.shape = type(theirs).__name__, tuple(theirs.shape)
        self._parts: list[Any] = [csr.data.copy()]
        self._count = len(csr.data)
        positions = SparsityPattern.of(csr).positions(f"csr_{self._kind[4:]}")
        self._positions = positions.asformat(self.format)
        self._found: tuple[Any, SparsityPattern] | None = None
        self._of_dense = True  # numbers that are 0 are kept, which SciPy leaves out

    def __setitem__(self, key, value):
        matrix = held_matrix(value)
        value = array_of_operand(value if matrix is None else matrix.toarray())
        if dtype_of(value).kind == "c":
            raise TypeError("complex values cannot be written to a matrix of float64")
        shape = shape_of(value)
        first, size = self._count + 1, int(np.prod(shape))
        self._positions[key] = np.arange(first, first + size).reshape(shape)
        self._parts.append(PUBLIC["reshape"](value, (-1,)))
        self._count, self._found = self._count + size, None

    def _both(self) -> tuple[Any, SparsityPattern]:
        if self._found is None:
            csr = self._positions.tocsr()
            every = PUBLIC["concatenate"](self._parts)
            self._found = taken(every, csr.data), SparsityPattern.of(csr)
        return self._found

    _numbers: Any = property(lambda self: self._both()[0])
    _places: Any = property(lambda self: self._both()[1])

    def copy(self):
        made = object.__new__(WrittenMatrix)
        vars(made).update(vars(self))
        made._parts, made._positions = [*self._parts], self._positions.copy()
        return made

    def __getitem__(self, key):
        return from_positions(PUBLIC["concatenate"](self._parts), self._positions[key])


def _is_plain(value) -> bool:
    return held_matrix(value) is None and none_traced((value,))


@functools.cache
def watched(theirs: type) -> type:
    """The class derived from SciPy's whose objects notice that a recorded value is written."""

    def set_item(self, key, value):
        if "_written" not in vars(self):
            if _is_plain(value):
                theirs.__setitem__(self, key, value)
                return
            vars(self)["_written"] = WrittenMatrix(self)
        vars(self)["_written"][key] = value

    def get_attribute(self, name: str):
        written = object.__getattribute__(self, "__dict__").get("_written")
        if written is None or name.startswith("__"):
            return theirs.__getattribute__(self, name)  # type: ignore[call-arg]
        return getattr(written, name)

    space: dict[str, Any] = {name: _by_operator(theirs, name) for name in _operators(theirs)}
    space |= {"__setitem__": set_item, "__getattribute__": get_attribute}
    return type(theirs.__name__, (theirs,), space | {"__module__": theirs.__module__})


#: Names of methods that are SciPy's own: they make an object, or call other methods of it.
_SCIPYS = frozenset(
    "__init__ __new__ __class__ __init_subclass__ __subclasshook__ __class_getitem__ __getattr__ "
    "__setattr__ __delattr__ __dir__ __sizeof__ __hash__ __iadd__ __isub__ __imul__ __itruediv__ "
    "__reduce__ __reduce_ex__ __getstate__ __setstate__ __setitem__ __getattribute__".split()
)


def _operators(theirs: type) -> list[str]:
    """The names that Python looks up in the class itself."""
    names = [name for name in dir(theirs) if name.startswith("__") and name not in _SCIPYS]
    found = [(name, getattr(theirs, name)) for name in names]
    return [n for n, one in found if callable(one) and one is not getattr(object, n, None)]


def _by_operator(theirs: type, name: str):
    def method(self, *args):
        written = vars(self).get("_written")
        if written is None:
            return getattr(theirs, name)(self, *args)
        if not hasattr(WrittenMatrix, name):
            raise DerivativeLost(
                f"tapegrad.scipy.sparse: {name} of a {theirs.__name__} to which recorded values "
                "were written has no derivative; use A.tocsr()"
            )
        return getattr(WrittenMatrix, name)(written, *args)

    method.__name__ = name
    return method


class WrittenClass(MatrixClass):
    """What stands for a class of matrices that are written element by element."""

    def __call__(self, *args, **kwargs):
        if rt.in_transform() and none_sparse(args) and none_sparse(kwargs.values()):
            return watched(self._theirs)(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def _refusing(name: str):
    def of_recorded(arg1, *args, **keywords):
        made = constructed(f"csr_{name[4:]}", arg1, *args, **keywords)
        raise DerivativeLost(
            f"tapegrad.scipy.sparse.{name}: a matrix of recorded numbers, {made}, cannot be "
            "written element by element; make it of its shape, and write the numbers"
        )

    of_recorded.kind = WrittenClass  # type: ignore[attr-defined]
    return of_recorded


for _name in WRITTEN_CLASSES:
    OURS[f"sparse.{_name}"] = _refusing(_name)
