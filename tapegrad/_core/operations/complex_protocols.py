"""NumPy's protocols where an operand is a complex tensor, or a complex number and a tensor."""

from __future__ import annotations

import numpy as np

from ..tensor.apply import ELEMENTWISE_OF_COMPLEX
from ..tensor.complex_tensors import ComplexTensor, steered_complex, value_of_complex
from ..tensor.registry import PUBLIC, refused, seems_complex, written_to
from ..tensor.trace import lost_derivative
from ..tensor.values import tensor_of, value_of, wrap

#: Reductions by ufuncs that are functions.
_REDUCTIONS = {np.add: "sum", np.multiply: "prod"}
#: Functions that read shapes and dtypes alone.
_OF_SHAPES = frozenset(
    "shape ndim size result_type common_type broadcast_shapes can_cast iscomplexobj isrealobj "
    "may_share_memory shares_memory min_scalar_type".split()
)
_LIKE = {"zeros_like": 0.0, "ones_like": 1.0, "empty_like": 0.0}


def ufunc_of_complex(ufunc, inputs, found):
    """A ufunc called with a complex operand."""
    how = ELEMENTWISE_OF_COMPLEX.get(ufunc.__name__)
    if found is None and how is None:
        raise refused(ufunc.__name__, inputs)
    return how(*inputs) if found is None else found(*inputs)


def ufunc_method_of_complex(call, ufunc, method: str, inputs, out, kwargs):
    """A ufunc with keywords, or a method of one, where an operand is complex."""
    out = None if out is None else out[0]
    if method == "__call__" and not kwargs:
        return written_to(out, call(ufunc, inputs))
    if method == "reduce" and ufunc in _REDUCTIONS:
        options = {k: v for k, v in kwargs.items() if v is not np._NoValue and v is not None}
        options.setdefault("axis", 0)
        if "axis" in kwargs and kwargs["axis"] is None:
            options["axis"] = None
        if options.get("where") is True:
            del options["where"]
        return written_to(out, PUBLIC[_REDUCTIONS[ufunc]](*inputs, **options))
    if method == "outer" and not kwargs and len(inputs) == 2:
        x, y = [PUBLIC["asarray"](one) for one in inputs]
        return written_to(out, call(ufunc, (x[(..., *[None] * y.ndim)], y)))
    given = ", ".join(f"{name}=" for name in kwargs) or "this method"
    raise lost_derivative(
        f"tapegrad.{ufunc.__name__}: {given} of {method} is not supported where an operand is "
        "complex; use it on z.real and z.imag",
        inputs,
    )


def _shadow(value):
    """An array of the shape and dtype of a tensor, without its values."""
    if isinstance(value, ComplexTensor):
        return np.broadcast_to(np.zeros((), value.dtype), value.shape)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_shadow, value))
    return value_of(value)


def answer_of_complex(function, args, kwargs):
    """A function that has no derivative, of complex operands."""
    name = function.__name__
    if name in _OF_SHAPES:
        return function(*map(_shadow, args), **{k: _shadow(v) for k, v in kwargs.items()})
    if name in _LIKE:
        made = function(*map(_shadow, args), **{k: _shadow(v) for k, v in kwargs.items()})
        return PUBLIC["tensor"](made + _LIKE[name] - _LIKE[name])
    if name in ("iscomplex", "isreal"):
        part = args[0].imag if isinstance(args[0], ComplexTensor) else np.imag(args[0])
        return tensor_of(np.not_equal(part, 0.0) if name == "iscomplex" else np.equal(part, 0.0))
    named = {k: value_of_complex(v) for k, v in kwargs.items()}
    made = steered_complex(function, *args, **named)
    if isinstance(made, tuple):
        return tuple(map(_as_tensor, made))
    return _as_tensor(made)


def _as_tensor(made):
    is_array = isinstance(made, (np.ndarray, np.generic)) and made.dtype.kind in "biuf"
    return wrap(made) if is_array else made


def is_complex_call(args, kwargs) -> bool:
    """Whether an argument is complex."""
    return seems_complex(args) or bool(kwargs) and seems_complex(kwargs.values())
