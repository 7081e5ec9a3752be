"""Tensors, plain arrays and numbers, complex ones too: their data, dtypes and shapes."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import compat, layout
from ..codegen.layout import ARRAY
from ..ops import copy_add as _declarations
from ..ops.table import TABLE
from ..tape import store
from ..tape.tape import Reader
from . import runtime as rt
from .tensor_classes import ComplexTensor

# --- values ---------------------------------------------------------------------------------------
# The contents of tensors: values for NumPy, complex values, tensors on shared memory.


# --------------------------------------------------------------------------------------------------
# Values of complex functions by NumPy, part by part: of arrays or numbers x and y, z = x + iy.


def complex_of(x, y):
    """The complex array of two real parts, or the number; complex64 where both are float32."""
    dtype = np.result_type(np.result_type(x, y), np.complex64)
    x, y = np.asarray(x), np.asarray(y)
    if x.shape == y.shape:
        made = np.empty_like(x, dtype)
    else:
        made = np.empty(np.broadcast_shapes(x.shape, y.shape), dtype)
    made.real, made.imag = x, y
    return made if made.ndim else made[()]


def _part(function, name: str):
    def part(x, y):
        found = getattr(function(complex_of(x, y)), name)
        return np.array(found, order="K") if np.ndim(found) else found

    return part


exp_real, exp_imag = _part(np.exp, "real"), _part(np.exp, "imag")
sinh_real, sinh_imag = _part(np.sinh, "real"), _part(np.sinh, "imag")
cosh_real, cosh_imag = _part(np.cosh, "real"), _part(np.cosh, "imag")
tanh_real, tanh_imag = _part(np.tanh, "real"), _part(np.tanh, "imag")
sqrt_real, sqrt_imag = _part(np.sqrt, "real"), _part(np.sqrt, "imag")
log_real, log_imag = _part(np.log, "real"), _part(np.log, "imag")
inverse_real, inverse_imag = _part(np.reciprocal, "real"), _part(np.reciprocal, "imag")


def divisor_first(x, y):
    """The factor of the same part of a numerator, in Smith's quotient by x + iy."""
    return np.where(np.abs(x) < np.abs(y), np.divide(x, y), _like(1.0, x))[()]


def divisor_second(x, y):
    """The factor of the other part of a numerator, 0 for a divisor of 0."""
    ratio = np.where((x == 0.0) & (y == 0.0), _like(0.0, x), np.divide(y, x))
    return np.where(np.abs(x) < np.abs(y), _like(1.0, x), ratio)[()]


def divisor_scale(x, y):
    """What both parts of a numerator are multiplied by then, infinity for a divisor of 0."""
    swap = np.abs(x) < np.abs(y)
    big, small = np.where(swap, y, x), np.where(swap, x, y)
    is_zero = (x == 0.0) & (y == 0.0)
    return np.where(is_zero, 1.0 / np.abs(x), 1.0 / (big + small * (small / big)))[()]


def _like(number: float, x):
    """A number in the dtype of an operand."""
    return np.asarray(number, np.result_type(x))


def multiple_real(x, y, z):
    """The real part of x (y + iz), in which NumPy takes a real x for x + 0i."""
    return x * y - 0.0 * z


def multiple_imag(x, y, z):
    """The imaginary part of x (y + iz)."""
    return x * z + 0.0 * y


def fraction_real(x, y, z):
    """The real part of (x + iy) / z, in which NumPy takes a real z for z + 0i."""
    z = np.asarray(z, np.result_type(x, z))
    return np.where(z == 0.0, x / np.abs(z), (x + y * (0.0 / z)) * (1.0 / z))[()]


def fraction_imag(x, y, z):
    """The imaginary part of (x + iy) / z."""
    z = np.asarray(z, np.result_type(x, z))
    return np.where(z == 0.0, y / np.abs(z), (y - x * (0.0 / z)) * (1.0 / z))[()]


def ratio_real(x, y, z):
    """The real part of x / (y + iz), by NumPy's quotient."""
    return _ratio(x, y, z).real


def ratio_imag(x, y, z):
    """The imaginary part of x / (y + iz)."""
    return _ratio(x, y, z).imag


def _ratio(x, y, z):
    return np.divide(x, complex_of(y, z))


def phase(x, y):
    """The angle of x + iy."""
    return np.arctan2(y, x)


# --- The contents of a tensor: its value for NumPy, whether it is recorded, its buffer's owner ----


FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


class Storage:
    """The buffer that a tensor which is not recorded shares with its views.

    The first recorded write makes it a row; then every view belongs to that row, whose tensor is
    `tensor`. Before, that is None, or the listeners of writes (see below): compiled code writes
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


#: Makes a tensor on a complex array; it is set below.
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


# --------------------------------------------------------------------------------------------------
# Tensors without derivative on shared memory: listeners that are notified before it is written.
# A detached tensor shares the buffer of a row, and a `Function` keeps saved tensors. Compiled code
# leaves writes to such a tensor to Python (`recorder.rows.is_apart`), which notifies them first.


assert _declarations
WRITE = ARRAY + TABLE["write"].code


class Told:
    """The listeners of the memory of a tensor that is not recorded; in the place of its row.

    Each has a method `before_write(array)`, which returns whether to be notified of the next write,
    too. Listeners in `others` live as long as another object refers to them.
    """

    __slots__ = ("others", "own")

    def __init__(self, *own):
        self.own = list(own)
        self.others: Any = ()  # or a WeakSet

    def tell(self, array) -> bool:
        """Notify all listeners of a write; returns whether one is left."""
        self.own = [one for one in self.own if one.before_write(array)]
        self.others = weakref.WeakSet(one for one in self.others if one.before_write(array))
        return bool(self.own or self.others)


def told_of(tensor) -> Told:
    """The listeners of writes to a tensor that is not recorded."""
    storage = storage_of(tensor)
    if type(storage.tensor) is not Told:
        storage.tensor = Told()
    return storage.tensor


def is_relied_on(tensor) -> bool:
    """Whether there is a listener of writes to a tensor."""
    meta = meta_of(tensor)
    storage = meta.alias if type(meta) is Leaf else meta
    return type(storage) is Storage and type(storage.tensor) is Told


def before_write(tensor) -> None:
    """Notify the listeners of the memory of a tensor that it is about to be written."""
    if is_relied_on(tensor):
        meta = meta_of(tensor)
        storage = meta.alias if type(meta) is Leaf else meta
        if not storage.tensor.tell(storage.owner):
            storage.tensor = None


class Origin:
    """A row whose buffer another tensor shows."""

    __slots__ = ("leaf", "number")

    def __init__(self, tensor):
        self.number = tensor._id
        self.leaf = store.leaves.get(tensor._id)

    def before_write(self, array) -> bool:
        leaf = self.leaf() if self.leaf else None
        if leaf is not None and type(meta_of(leaf)) is Leaf:
            renew(leaf)
            return True
        return self._is_shown_by(array) and self._change(array)

    def _is_shown_by(self, array) -> bool:
        """Whether the row still has its buffer, and a sweep may read it."""
        slot, position = self.number >> layout.ROWS_BITS, self.number & (layout.ROWS - 1)
        if store.table[slot] == 0:
            return False
        reader = Reader()
        if position >= store.word(slot, layout.USED_ROWS):
            return False
        if int(reader.row(self.number)["op"]) < 0:  # used up
            return False
        base = reader.base(self.number)
        return base is not None and np.may_share_memory(base, array)

    def _change(self, array) -> bool:
        """Let sweeps find the old values, but refuse sweeps from reads after the write.

        Once is enough, except for inputs of functions, for which the rows that a sweep reaches are
        not known.
        """
        if self.number >> layout.ROWS_BITS in store.input_slots:
            store.change_input(self.number)
            return False
        chunk = int(store.table[self.number >> layout.ROWS_BITS])
        view = rt.attach(rt.wrap(array), self.number, chunk)
        kept = array.copy(order="C")
        unknown = rt.attach(rt.wrap(kept), layout.UNKNOWN, 0)
        rt.row(WRITE, None, view, kept, unknown)
        return int(Reader().row(self.number)["op"]) == layout.LEAF


def renew(leaf) -> None:
    """Give an input that is about to be written another row: rows that have read it are stale."""
    number, chunk = store.renew_input(leaf)
    rt.attach(leaf, number, chunk)
    store.watch(leaf, number)
    if is_relied_on(leaf):
        store.never_unread(number)


def tell_each_other(leaf, storage: Storage) -> None:
    """Notify an input of writes to others in its memory, and their listeners of its own."""
    told = storage.tensor if type(storage.tensor) is Told else Told()
    told.own = [one for one in told.own if one.leaf is None or one.leaf() is not leaf]
    if told.own or told.others:
        leaf._meta.alias = aside = Storage(storage.owner)
        aside.tensor = Told(*told.own)
        aside.tensor.others = told.others
        store.never_unread(leaf._id)
    told.own.append(Origin(leaf))
    storage.tensor = told


def tell_rows(made, tensor) -> None:
    """Notify the rows of a recorded tensor of writes to another tensor on its memory."""
    told_of(made).own.append(Origin(tensor))


def rely(tensor, one) -> None:
    """Register `one`, while it is alive, as a listener of writes to an unrecorded tensor."""
    told = told_of(tensor)
    if not told.others:
        told.others = weakref.WeakSet()
    told.others.add(one)


# --- complex tensors ------------------------------------------------------------------------------
# Complex tensors: pairs of real tensors; only the real tensors are recorded.
#
# The gradient of a real L with respect to z = x + iy is ∂L/∂x + i ∂L/∂y, PyTorch's convention.

#: Dtypes of complex tensors by those of their parts, and back.
OF_PARTS = {np.dtype("f8"): np.dtype("c16"), np.dtype("f4"): np.dtype("c8")}
PARTS_OF = {whole: part for part, whole in OF_PARTS.items()}


def is_complex_number(value) -> bool:
    """Whether a value that is not a tensor is a complex number or an array of them."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind == "c"
    return isinstance(value, complex)


#: Types of values that are not complex and hold no complex value; with those of real tensors.
REAL: set[type] = {float, int, bool, str, type(None), slice, np.float64, np.int64, type(Ellipsis)}
rt.on_start.append(lambda: REAL.update((rt.Array, rt.Scalar)))


def is_complex(value) -> bool:
    """Whether a value is a complex tensor, a complex number, or a list that holds one."""
    kind = type(value)
    if kind in REAL:
        return False
    if kind is np.ndarray:
        return value.dtype.kind == "c"
    if kind is list or kind is tuple:
        for item in value:
            if type(item) not in REAL and is_complex(item):
                return True
        return False
    return kind is ComplexTensor or is_complex_number(value)


def real_part(value):
    """The real part of anything: of a real value itself."""
    if type(value) is ComplexTensor:
        return value._re
    if type(value) in (list, tuple):
        return type(value)(map(real_part, value))
    if isinstance(value, np.ndarray):
        return value.real
    return value.real if is_complex_number(value) else value


def imag_part(value):
    """The imaginary part of anything: of a real value zeros of its shape and dtype."""
    if type(value) is ComplexTensor:
        return value._im
    if type(value) in (list, tuple):
        return type(value)(map(imag_part, value))
    if is_complex_number(value):
        return value.imag
    if isinstance(value, (rt.Tensor, np.ndarray)) and shape_of(value):
        dtype = dtype_of(value)
        return np.zeros(shape_of(value), dtype if dtype.kind == "f" else np.float64)
    return np.float32(0.0) if isinstance(value, np.float32) else 0.0


def is_single(part) -> bool:
    """Whether a part is a recorded number or a Python float: operators take it, one row each."""
    return type(part) is rt.Scalar or type(part) is float


def combined(re, im):
    """The complex value of two parts: a tensor if one of them is, else as NumPy has it."""
    if type(re) is rt.Scalar or type(im) is rt.Scalar:
        if is_single(re) and is_single(im):
            made = object.__new__(ComplexTensor)
            made._re, made._im = [
                rt.scalar_at(x, -1, 0) if type(x) is float else x for x in (re, im)
            ]
            return made
    if isinstance(re, (list, tuple)):
        return type(re)([combined(*pair) for pair in zip(re, im, strict=True)])
    if not isinstance(re, rt.Tensor) and not isinstance(im, rt.Tensor):
        return complex_of(re, im)
    shape = np.broadcast_shapes(shape_of(re), shape_of(im))
    dtypes = [np.float64 if isinstance(x, (int, float)) else dtype_of(x) for x in (re, im)]
    weak = [isinstance(x, (int, float)) and not isinstance(x, np.generic) for x in (re, im)]
    dtype = np.result_type(*[d for d, is_weak in zip(dtypes, weak, strict=True) if not is_weak])
    dtype = dtype if dtype == np.float32 else np.dtype(np.float64)
    made = object.__new__(ComplexTensor)
    made._re, made._im = _as_part(re, shape, dtype), _as_part(im, shape, dtype)
    return made


@wrap_complex.append
def _wrapped(array: np.ndarray):
    """A complex tensor on a complex array, which is copied."""
    return combined(wrap(np.array(array.real)), wrap(np.array(array.imag)))


def _as_part(part, shape, dtype):
    """A part as a tensor of a shape and dtype."""
    if not isinstance(part, rt.Tensor):
        return wrap(np.array(np.broadcast_to(np.asarray(part, dtype), shape)))
    if shape_of(part) != shape:
        part = part + np.zeros(shape, dtype)
    return part if dtype_of(part) == dtype else part.astype(dtype)


def value_of_complex(value):
    """The value of a complex tensor as NumPy has it; other values as they are."""
    if type(value) is ComplexTensor:
        return complex_of(value_of(value._re), value_of(value._im))
    if type(value) in (list, tuple):
        return type(value)(map(value_of_complex, value))
    return value_of(value)


def is_recorded_complex(value) -> bool:
    """Whether one of the parts is recorded."""
    return type(value) is ComplexTensor and (is_recorded(value._re) or is_recorded(value._im))


def holds_tensors(value) -> bool:
    """Whether a value is a tensor or a list or tuple that holds one."""
    if type(value) in (list, tuple):
        return any(map(holds_tensors, value))
    return isinstance(value, (rt.Tensor, ComplexTensor))


def steered_complex(function, /, *operands, **keywords):
    """`trace.steered` of operands some of which are complex: the function gets complex values."""
    trace = rt.trace()
    if trace is None or not any(map(holds_tensors, operands)):
        return function(*map(value_of_complex, operands), **keywords)
    trace.refuse(f"{getattr(function, '__name__', function)} reads complex numbers")
    return function(*map(value_of_complex, operands), **keywords)


class Pair(tuple):
    """A complex value whose parts are not numbers, such as a description of an operation."""

    __slots__ = ()


def joined_parts(re, im):
    """The complex value of two leaves of a tree; of two complex ones, derivatives of parts."""
    if isinstance(re, dict):
        return {key: joined_parts(re[key], im[key]) for key in re}
    if isinstance(re, (list, tuple)) and not isinstance(re, Pair):
        return type(re)([joined_parts(*pair) for pair in zip(re, im, strict=True)])
    if type(re) is float and type(im) is float:
        return complex(re, im)
    kinds = (rt.Tensor, np.ndarray, np.generic, int, float)
    return combined(re, im) if isinstance(re, kinds) else Pair((re, im))
