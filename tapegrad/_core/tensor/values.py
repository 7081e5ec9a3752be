"""The contents of a tensor: its value for NumPy, whether it is recorded, its buffer's owner."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import compat, layout
from ..tape import store
from . import runtime as rt
from .complex_values import complex_of

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


class Storage:
    """The buffer that a tensor which is not recorded shares with its views.

    The first recorded write makes it a row; then every view belongs to that row, whose tensor is
    `tensor`. Before, that is None, or the listeners of writes (see `aliases`): compiled code writes
    only where it is None.
    """

    __slots__ = ("owner", "tensor")

    def __init__(self, owner: np.ndarray, tensor: Any = None):
        self.owner = owner
        self.tensor = tensor


def _is_laid_out() -> bool:
    """Whether the Storage of a tensor lies where `layout` says, and compiled code reads it."""
    array = np.zeros(1)
    tensor, storage = rt.wrap(array), Storage(array)
    tensor._meta, storage.tensor = storage, tensor
    word = ctypes.c_int64.from_address
    try:
        return word(id(tensor) + layout.TENSOR_META).value == id(storage) and word(
            id(storage) + layout.STORAGE_TENSOR
        ).value == id(tensor)
    finally:
        storage.tensor = None


rt.on_start.append(lambda: compat.require("slot-layout", _is_laid_out))


class Leaf:
    """The state that only an input has: its gradient and hooks (or None).

    `alias` is the Storage of memory that it shares with rows or tensors of before, or None.
    """

    __slots__ = ("alias", "grad", "watch")

    def __init__(self):
        self.alias = None
        self.grad = None
        self.watch = None


def meta_of(tensor):
    """The Storage or Leaf of an array tensor, None if it has neither."""
    try:
        return tensor._meta
    except AttributeError:
        return None


def storage_of(tensor) -> Storage:
    """The Storage of a tensor that is not recorded, made if need be."""
    storage = meta_of(tensor)
    if storage is None:
        storage = tensor._meta = Storage(tensor._array)
    return storage


def current(tensor):
    """The tensor, made part of its buffer's row if the buffer has become one."""
    if tensor._id < 0:
        storage = meta_of(tensor)
        if type(storage) is Storage and type(storage.tensor) is rt.Array:
            owner = storage.tensor
            rt.attach(tensor, owner._id, owner._chunk)
    return tensor


def is_tensor(value) -> bool:
    return isinstance(value, rt.Tensor)


def tensor_of(value):
    """A tensor as it is, an array or a number as one."""
    return value if isinstance(value, rt.Tensor) else wrap(value)


#: Classes of arrays that are taken for NumPy's own; `tapegrad.numpy` adds its `ndarray`.
AS_PLAIN: set[type] = {np.memmap}


def plain_array(array: np.ndarray) -> np.ndarray:
    """An array of NumPy's own class, or of an equivalent one; others raise TypeError.

    Masks, products of matrices and whatever other classes do would be ignored.
    """
    kind = type(array)
    if kind is np.ndarray:
        return array
    if kind in AS_PLAIN:
        return np.asarray(array)
    advice = "convert it with np.asarray(x)"
    if isinstance(array, np.ma.MaskedArray):
        advice = "its mask would be ignored: use x.filled(value), or x.compressed()"
    raise TypeError(
        f"tapegrad: an operand is an instance of {kind.__module__}.{kind.__qualname__}; such "
        f"subclasses of ndarray are not supported: {advice}"
    )


#: Packages whose objects count as the arrays that they hold.
CONTAINERS = frozenset(("pandas", "xarray", "polars"))


def is_container(value) -> bool:
    """Whether a value is a series, a frame or the like, which NumPy makes an array."""
    return type(value).__module__.partition(".")[0] in CONTAINERS


def value_of(operand):
    """The argument of NumPy for an operand: an array, a number; a complex tensor stays one."""
    kind = type(operand)
    if kind is rt.Scalar:
        return np.float64(operand._value)
    if kind is rt.Array:
        return operand._array
    return operand


def array_of(operand) -> np.ndarray:
    """The value of an operand as an array."""
    if type(operand) is rt.ComplexTensor:
        return np.asarray(complex_of(value_of(operand._re), value_of(operand._im)))
    return np.asarray(value_of(operand))


def is_recorded(operand) -> bool:
    """Whether a derivative with respect to the operand may be wanted."""
    kind = type(operand)
    if kind is rt.Scalar:
        return operand._id >= 0
    if kind is rt.Array:
        return current(operand)._id >= 0
    return kind is rt.ComplexTensor and (is_recorded(operand._re) or is_recorded(operand._im))


def records(*operands) -> bool:
    """Whether an operation on these operands is to be recorded."""
    return rt.is_recording() and any([is_recorded(operand) for operand in operands])


def differentiates(*operands) -> bool:
    """Whether an operation on these operands may have a derivative: masks and indices have none."""
    return records(*operands) and (
        rt.trace() is None or any([is_recorded(o) and _is_float(o) for o in operands])
    )


def _is_float(operand) -> bool:
    return type(operand) is rt.ComplexTensor or dtype_of(operand) in FLOATS


def dtype_of(operand) -> np.dtype:
    kind = type(operand)
    if kind is rt.Array:
        return operand._array.dtype
    if kind is rt.ComplexTensor:
        return np.result_type(dtype_of(operand._re), np.complex64)
    return np.asarray(value_of(operand)).dtype


def check_recordable(name: str, array: np.ndarray) -> None:
    """Refuse a buffer that compiled code cannot read as the row of a tensor."""
    if array.dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.{name}: the tensor has dtype {array.dtype}; only float64 and float32 have "
            "derivatives: make it with dtype=float"
        )
    if not array.flags.aligned:
        raise ValueError(
            f"tapegrad.{name}: the elements are not aligned, as in a packed structured array; make "
            "a copy() of the tensor"
        )


def check_casting(name: str, dtype: np.dtype, target) -> None:
    """Refuse a result that would change its kind when written in place, as NumPy does."""
    if not np.can_cast(dtype, dtype_of(target), "same_kind"):
        raise TypeError(
            f"tapegrad.{name}: a result of dtype {dtype} cannot be written in place to a tensor of "
            f"dtype {dtype_of(target)}; convert one of them with astype"
        )


#: Makes a tensor on a complex array; `complex_tensors` sets it.
wrap_complex: list[Callable] = []


def wrap(value):
    """A tensor that is not recorded, on a result of NumPy; a number stays a number."""
    rt.start()
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return wrap_complex[0](array)
    if not isinstance(value, np.ndarray):
        array.flags.writeable = False
    return rt.wrap(array)


def scalar_of(operand):
    """A recorded float64 tensor without axes as a scalar; other operands as they are."""
    if type(operand) is rt.Array and operand._id >= 0 and operand._array.ndim == 0:
        if operand._array.dtype == np.float64:
            return rt.load(operand)
    return operand


def is_number(tensor) -> bool:
    """Whether NumPy has a number for a tensor without axes, which `+=` replaces and never writes.

    This holds for elements that were read and for results, not for arrays made to be written.
    """
    array = tensor._array
    if array.ndim or not array.flags.writeable:
        return not array.ndim
    made = tensor._id < 0 or type(meta_of(tensor)) is Storage or tensor._id in store.leaves
    return array.flags.owndata and not made


def shape_of(operand) -> tuple[int, ...]:
    return np.shape(value_of(operand))


def name_of(operand) -> str:
    """Dtype or type of an operand, for messages."""
    value = value_of(operand)
    return str(getattr(value, "dtype", type(value).__name__))
