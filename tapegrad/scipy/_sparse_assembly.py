"""SciPy's lil and dok matrices, element by element: a write of a recorded value is differentiated.

What stands for such a class makes SciPy's objects, of a class derived from SciPy's, while a
transform records. Until a recorded value is written, they are nothing else. From then on an object
holds the numbers that were written, and where each of them is: SciPy's matrix of their positions.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import DerivativeLost
from .._core.tensor.values import dtype_of, shape_of
from ._differentiable import OURS
from ._sparse_arithmetic import array_of_operand
from ._sparse_constructors import MatrixClass, constructed, held_matrix, none_sparse
from ._sparse_places import StoredPlaces, taken
from ._sparse_tensors import SparseTensor, from_positions

#: The names of the classes.
CLASSES = [f"{format}_{kind}" for format in ("lil", "dok") for kind in ("array", "matrix")]


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
        positions = StoredPlaces.of(csr).positions(f"csr_{self._kind[4:]}")
        self._positions = positions.asformat(self.format)
        self._found: tuple[Any, StoredPlaces] | None = None
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

    def _both(self) -> tuple[Any, StoredPlaces]:
        if self._found is None:
            csr = self._positions.tocsr()
            every = PUBLIC["concatenate"](self._parts)
            self._found = taken(every, csr.data), StoredPlaces.of(csr)
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


for _name in CLASSES:
    OURS[f"sparse.{_name}"] = _refusing(_name)
