"""Complex tensors: pairs of real tensors; only the real tensors are recorded.

The gradient of a real L with respect to z = x + iy is ∂L/∂x + i ∂L/∂y, PyTorch's convention.
"""

from __future__ import annotations

import numpy as np

from . import runtime as rt
from .tensor_classes import ComplexTensor
from .values import complex_of, dtype_of, is_recorded, shape_of, value_of, wrap, wrap_complex

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
