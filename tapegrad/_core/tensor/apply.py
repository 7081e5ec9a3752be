"""Element-wise operations on anything: value by NumPy, one row; dtypes are made equal first."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

import numpy as np

from ..codegen.layout import ARRAY, BLOCK
from ..codegen.vector_math import OF_SCIPY
from ..ops import complex_elementwise as _of_complex
from ..ops import elementwise as _declarations
from ..ops.elementwise import STEERING
from ..ops.powers import OF_ARRAYS
from ..ops.table import POWERS, TABLE, Pointwise, find
from ..sweep import kernels
from ..tape import native_types
from . import copies
from . import runtime as rt
from .copies import as_number, backwards, in_dtype, in_order, order_of, transposed, unlisted
from .registry import refused
from .runtime import silence
from .trace import note_copy, steering_tensor
from .values import (
    FLOATS,
    differentiates,
    dtype_of,
    holds_tensors,
    is_complex,
    is_recorded,
    is_tensor,
    name_of,
    scalar_of,
    value_of,
    wrap,
)

assert _declarations and _of_complex


@functools.cache
def ufunc_of(name: str):
    """NumPy's or SciPy's function of an operation; a compiled one where they have none."""
    op = find(name)
    module, _, function = op.numpy.rpartition(".")
    found = getattr(importlib.import_module(module), function, None) if module else None
    if found is not None and name in OF_SCIPY and OF_SCIPY[name].whole:
        return _of_whole(found)
    return found or kernels.ufunc(op)


def _of_whole(function):
    """SciPy's function, which takes whole degrees as integers, of degrees that may be floats."""

    def called(n, *rest):
        degrees = np.asarray(n)
        if degrees.dtype.kind == "f" and np.array_equal(degrees, np.rint(degrees)):
            n = degrees.astype(np.int64)[()]
        return function(n, *rest)

    return called


#: Operations whose compiled loop is faster than NumPy's: they call a function per element. So is
#: `where`, which in NumPy jumps for each element.
COMPILED = frozenset(
    name
    for name, op in TABLE.items()
    if isinstance(op, Pointwise)
    and (
        "np." in op.value
        and len(op.inputs) == 1
        and name not in ("sqrt", "absolute", "sign", "floor", "ceil", "rint", "trunc", *OF_SCIPY)
    )
)


@functools.cache
def value_kernel(name: str):
    """The compiled loop of an operation, callable with (n, address of addresses)."""
    return kernels.callable_value(TABLE[name])


def compute(name: str, values):
    """The value of an operation, in NumPy's memory order, with errors that name it."""
    try:
        compute_fast = _fast(name, values)
        if compute_fast is None:
            with silence():
                return ufunc_of(name)(*values)
        axes = order_of(values)
        if axes is None:
            return compute_fast(name, *values)
        return backwards(compute_fast(name, *[transposed(v, axes) for v in values]), axes)
    except ValueError as error:
        if "broadcast" not in str(error):
            raise
        shapes = " and ".join(str(np.shape(value)) for value in values)
        raise ValueError(
            f"tapegrad.{name}: the operands have shapes {shapes}, which do not broadcast; make "
            "each axis equal or 1, for instance with x[:, None]"
        ) from error
    except TypeError as error:
        kinds = " and ".join(name_of(value) for value in values)
        raise TypeError(
            f"tapegrad.{name}: the operands have types {kinds}, which NumPy cannot combine; "
            "convert them to arrays of numbers first"
        ) from error


def _fast(name: str, values):
    """The function that computes an operation faster than NumPy, in C order; or None."""
    if len(values) == 1 and name in COMPILED:
        (x,) = values
        if type(x) is np.ndarray and x.size >= 4 * BLOCK and x.dtype == np.float64:
            return compiled_value
    if name == "where":
        return compiled_value if is_large(values[1:]) else None
    return _in_memory_kept if is_large(values) and type(ufunc_of(name)) is np.ufunc else None


def _in_memory_kept(name: str, *values) -> np.ndarray:
    """The result of NumPy's function, in memory that is used again."""
    shape = np.broadcast_shapes(*[np.shape(value) for value in values])
    with silence():
        return ufunc_of(name)(*values, out=copies.empty(shape))


def is_large(values) -> bool:
    """Whether the result is float64 and worth memory that is used again."""
    large = False
    for value in values:
        if type(value) is np.ndarray:
            if value.dtype != np.float64:
                return False
            large = large or value.nbytes >= copies.LARGE
        elif not isinstance(value, float):
            return False
    return large


def compiled_value(name: str, *values) -> np.ndarray:
    """The value of an operation by its compiled loop."""
    if len(values) > 1:
        values = np.broadcast_arrays(*values)
    values = tuple([np.ascontiguousarray(value, np.float64) for value in values])
    out = copies.empty(values[0].shape)
    addresses = np.array([value.ctypes.data for value in (*values, out)], np.int64)
    value_kernel(name)(out.size, addresses.ctypes.data)
    return out


def check_operand(name: str, operand) -> None:
    if not isinstance(operand, (bool, int, float, np.ndarray, np.generic)):
        raise TypeError(
            f"tapegrad.{name}: an operand has type {type(operand).__name__}; it must be a tensor, "
            "an array or a number"
        )


def apply(name: str, *operands):
    """Compute an element-wise operation and record it if a derivative may be wanted."""
    items = [unlisted(operand) for operand in operands]
    plain = True
    for operand in items:
        if is_tensor(operand):
            plain = False
        elif is_complex(operand):
            return _of_complex_operands(name, items)
        else:
            check_operand(name, operand)
    if plain:
        return compute(name, items)
    is_recorded_here = differentiates(*items)
    if name == "power":
        name, items = _by_products(items, is_recorded_here)
    if not is_recorded_here:
        return _unrecorded(name, items)
    items = [scalar_of(operand) for operand in items]
    values = [value_of(operand) for operand in items]
    out = compute(name, values)
    if rt.trace() is not None and out.dtype.kind in "biu":
        return steering_tensor(ufunc_of(name), *items)
    op = find(name)
    if name == "multiply" and any([value.dtype == bool for value in map(np.asanyarray, values)]):
        op, items = STEERING["masked"], _mask_last(items, values)
    check_dtype(name, out)
    if np.ndim(out) == 0 and op.of_numbers and out.dtype == np.float64:
        numbers = [as_number(operand) for operand in items]
        return rt.row(4 * (op.code + 1), float(out), *numbers)
    return scalar_of(record_array(op, np.asarray(out), items))


def _by_products(items: list, is_recorded_here: bool) -> tuple[str, list]:
    """A power as an operation for its exponent, if there is one.

    Products differ from NumPy's powers in the last places: they are for what is recorded.
    """
    x, y = items
    is_constant = isinstance(y, (int, float, np.number)) and not isinstance(y, bool)
    op = OF_ARRAYS.get(y) if is_constant and is_tensor(x) else None
    if op is None or dtype_of(x) not in FLOATS:
        return "power", items
    if isinstance(y, np.generic) and np.result_type(dtype_of(x), y) != dtype_of(x):
        return "power", items
    is_array = type(x) is rt.Array and x._array.ndim > 0
    if op.name in POWERS and not (is_array and is_recorded_here):
        return "power", items
    if is_array:
        native_types.add_power(float(y), ufunc_of(op.name), op.code)
    return op.name, [x]


def _mask_last(items, values) -> list:
    return items[::-1] if np.asanyarray(values[0]).dtype == bool else items


#: The treatment of complex operands by an element-wise operation, by its name.
ELEMENTWISE_OF_COMPLEX: dict[str, Callable] = {}


def _of_complex_operands(name: str, operands):
    """An element-wise operation where an operand is complex; among constants it is NumPy's."""
    if not any(map(holds_tensors, operands)):
        return compute(name, operands)
    how = ELEMENTWISE_OF_COMPLEX.get(name)
    if how is None:
        raise refused(name, operands)
    return how(*operands)


def _unrecorded(name, operands):
    """A result that is not recorded; a number if it was computed from one, as in compiled code."""
    if rt.trace() is not None and any([is_recorded(operand) for operand in operands]):
        return steering_tensor(ufunc_of(name), *operands)
    out = compute(name, [value_of(operand) for operand in operands])
    if type(out) is np.float64 and any([type(operand) is rt.Scalar for operand in operands]):
        return rt.scalar_at(float(out), -1, 0)
    return wrap(out)


def check_dtype(name: str, out) -> None:
    if out.dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.{name}: the result has dtype {out.dtype}; only float64 and float32 can be "
            "recorded: convert the operands, or use detach() if no derivative is needed"
        )


def record_array(op: Pointwise, out: np.ndarray, operands):
    """Append the row of an array operation whose value is known."""
    if not out.flags.c_contiguous:
        return in_order(out, operands, functools.partial(record_array, op))
    read = op.used
    return rt.row(
        ARRAY + op.code,
        out,
        *[operand_for(o, out.dtype, read >> k & 1) for k, o in enumerate(operands)],
    )


def operand_for(operand, dtype, read):
    """An operand of an element-wise row: scalars stay, arrays are brought to the dtype.

    A constant array whose values the partial derivatives `read` is copied, since the caller may
    write to it.
    """
    if type(operand) is rt.Scalar:
        return operand
    if type(operand) is not rt.Array and isinstance(operand, (bool, int, float, np.generic)):
        return float(operand)
    made = in_dtype(operand, dtype)
    if read and type(made) is np.ndarray and np.may_share_memory(made, value_of(operand)):
        return note_copy(copies.copy_of(made), made)
    return made
