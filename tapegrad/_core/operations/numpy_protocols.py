"""NumPy's protocols: `np.sin(t)`, `np.sum(t, axis=0)` and SciPy's ufuncs find our functions."""

from __future__ import annotations

import inspect
import operator
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen.layout import OF_PYTHON
from ..codegen.ufunc import loop_of_doubles
from ..ops.table import TABLE, Pointwise
from ..tape import native_types
from ..tensor import runtime as rt
from ..tensor.apply import ELEMENTWISE_OF_COMPLEX, ufunc_of
from ..tensor.copies import unlisted
from ..tensor.plain_data import plain
from ..tensor.registry import OF_NUMPY, PUBLIC, implementation, refused, seems_complex, written_to
from ..tensor.trace import fixed, lost_derivative, name_of, note_equal, steered, steering_tensor
from ..tensor.values import (
    ComplexTensor,
    differentiates,
    dtype_of,
    is_container,
    is_recorded,
    is_tensor,
    plain_array,
    steered_complex,
    tensor_of,
    value_of,
    value_of_complex,
    wrap,
)
from .ufunc_methods import accumulate, called, change_at, outer, reduce, reduceat
from .without_derivative import answered, unsupported

# --- NumPy's protocols where an operand is a complex tensor, or a complex number and a tensor -----


#: Reductions by ufuncs that are functions.
_REDUCTIONS = {np.add: "sum", np.multiply: "prod"}
#: Functions that read shapes and dtypes alone.
_SHAPES_OF_COMPLEX = frozenset(
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
    if name in _SHAPES_OF_COMPLEX:
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
        return tuple(map(_as_complex_tensor, made))
    return _as_complex_tensor(made)


def _as_complex_tensor(made):
    is_array = isinstance(made, (np.ndarray, np.generic)) and made.dtype.kind in "biuf"
    return wrap(made) if is_array else made


def is_complex_call(args, kwargs) -> bool:
    """Whether an argument is complex."""
    return seems_complex(args) or bool(kwargs) and seems_complex(kwargs.values())


# --- NumPy's protocols: `np.sin(t)`, `np.sum(t, axis=0)` and SciPy's ufuncs find our functions ----


#: NumPy's functions that answer as they do for arrays, by why their derivative is zero.
UNRECORDED = {
    "integers, which do not change where their arguments do little": (
        "argmax argmin argsort argpartition nonzero flatnonzero argwhere count_nonzero "
        "searchsorted digitize unravel_index triu_indices_from tril_indices_from "
        "diag_indices_from packbits unpackbits"
    ),
    "truths": (
        "all any allclose isclose array_equal array_equiv isin isposinf isneginf isreal iscomplex "
        "iscomplexobj isrealobj may_share_memory shares_memory can_cast"
    ),
    "shapes and dtypes": (
        "shape ndim size result_type min_scalar_type common_type broadcast_shapes"
    ),
    "arrays of constants": "zeros_like ones_like empty_like",
    "text": "array2string array_repr array_str",
}
_OF_SHAPES = frozenset(
    "shape ndim size zeros_like ones_like empty_like result_type common_type broadcast_shapes "
    "can_cast iscomplexobj isrealobj may_share_memory shares_memory triu_indices_from "
    "tril_indices_from diag_indices_from".split()
)
_NAMES = " ".join(UNRECORDED.values()).split()
_PLAIN = {getattr(np, name): name for name in _NAMES if hasattr(np, name)}
_EQUALITIES = frozenset((np.array_equal, np.array_equiv, np.allclose))
COMPARISONS = frozenset(
    "less less_equal greater greater_equal equal not_equal logical_and logical_or logical_xor "
    "logical_not isnan isinf isfinite signbit bitwise_and bitwise_or bitwise_xor invert".split()
)


def _find(ufunc):
    """Our function for a ufunc. SciPy's are found by name, if they are the ones of that name."""
    found = OF_NUMPY.get(ufunc)
    if found is not None:
        return found
    special = sys.modules.get("scipy.special")
    name = ufunc.__name__
    return OF_NUMPY.get(name) if getattr(special, name, None) is ufunc else None


def array_ufunc(self, ufunc, method, *inputs, out=None, **kwargs):
    """A ufunc on operands among which there is a tensor."""
    for operand in inputs:
        if issubclass(type(operand), np.ndarray):
            plain_array(operand)
        elif not is_tensor(operand) and is_container(operand):
            inputs = tuple([unlisted(one) if is_container(one) else one for one in inputs])
    if method == "__call__" and out is None and not kwargs:
        return _call(ufunc, inputs)
    if is_complex_call(inputs, {"out": out}):
        return ufunc_method_of_complex(_call, ufunc, method, inputs, out, kwargs)
    if method == "__call__":
        return called(_call, ufunc, inputs, out, **kwargs)
    if method == "at":
        change_at(_call, ufunc, *inputs)
        return None
    if method == "outer":
        return outer(_call, ufunc, *inputs, out=out, **kwargs)
    kwargs = {k: v for k, v in kwargs.items() if v is not _NO_VALUE}
    return _METHODS[method](ufunc, *inputs, out=None if out is None else out[0], **kwargs)


_NO_VALUE = np._NoValue
_METHODS = {"reduce": reduce, "accumulate": accumulate, "reduceat": reduceat}


def _call(ufunc, inputs):
    found, name = _find(ufunc), ufunc.__name__
    if found is not None:
        return found(*inputs)
    if is_complex_call(inputs, {}):
        return ufunc_of_complex(ufunc, inputs, found)
    if name in COMPARISONS or not differentiates(*inputs):
        made = steering_tensor(ufunc, *inputs)
        if ufunc is np.equal and np.ndim(inputs[0]):
            note_equal(made)
        is_object = is_tensor(made) and dtype_of(made).kind == "O"  # from np.frompyfunc
        return value_of(made) if is_object else made
    raise unsupported(ufunc, inputs)


def _valued(argument):
    """Arguments for NumPy: tensors in lists too become arrays."""
    if isinstance(argument, (list, tuple)):
        return type(argument)(_valued(item) for item in argument)
    return value_of(argument)


def array_function(self, function, types, args, kwargs):
    """A NumPy function on arguments among which there is a tensor."""
    for kind in types:
        if kind is not np.ndarray and issubclass(kind, np.ndarray):
            _refuse_class(kind, (args, tuple(kwargs.values())))
    found = OF_NUMPY.get(function) or implementation(function)
    if found is not None:
        if kwargs:
            kwargs = {
                k: v
                for k, v in kwargs.items()
                if v is not _NO_VALUE and (v is not None or k not in ("dtype", "out"))
            }
        try:
            return found(*args, **kwargs)
        except TypeError as error:
            renamed = _renamed(function, found, args, kwargs, error)
        return array_function(self, function, types, args, renamed)
    if is_complex_call(args, kwargs):
        return _of_complex(function, args, kwargs)
    if function in _PLAIN:
        result = _steered(function, args, kwargs)
        if function in _EQUALITIES:
            note_equal(result)
        if isinstance(result, tuple) and function is not np.shape:
            return tuple([_as_tensor(part) for part in result])
        return _as_tensor(result)
    return answered(function, args, kwargs)


def _of_complex(function, args, kwargs):
    """A function without ours, where an argument is complex."""
    if function in _PLAIN:
        return answer_of_complex(function, args, kwargs)
    raise refused(function.__name__, args, kwargs)


def _as_tensor(result):
    wanted = isinstance(result, (np.ndarray, np.generic)) and result.dtype != object
    return wrap(result) if wanted else result


def _renamed(function, found, args: tuple, kwargs: dict, error: TypeError) -> dict:
    """Keywords renamed to the names of our parameters at the same positions, such as x for a.

    The error of our function, by name, if all arguments have a counterpart here.
    """
    text = str(error)
    if not text.startswith((f"{found.__name__}() ", f"{found.__qualname__}() ")):
        raise error
    if re.search(r"takes .*positional arguments? but \d+ were given$", text):
        raise TypeError(
            f"tapegrad.{function.__name__}: {len(args)} arguments were given, more than are "
            "supported on tensors; pass out= and similar arguments by name"
        ) from None
    if "unexpected keyword" not in text:
        raise error
    names = _names_of_ours(function, found)
    renamed = {names.get(name, name): value for name, value in kwargs.items()}
    if [*renamed] == [*kwargs]:
        raise TypeError(
            f"tapegrad.{function.__name__}: the argument {text.rpartition(' ')[2]} is not "
            "supported on tensors"
        ) from None
    return renamed


def _names_of_ours(function, found) -> dict[str, str]:
    """Names of arguments that differ between NumPy's function and ours."""
    try:
        theirs, ours = inspect.signature(function), inspect.signature(found)
    except ValueError:
        return {}
    pairs = zip(theirs.parameters.values(), ours.parameters.values(), strict=False)
    return {
        one.name: other.name
        for one, other in pairs
        if one.kind == other.kind == inspect.Parameter.POSITIONAL_OR_KEYWORD
        and one.name not in ours.parameters
        and other.name not in theirs.parameters
    }


def _refuse_class(kind: Any, arguments) -> None:
    """Raise for the argument that is of another class than NumPy's arrays."""
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            _refuse_class(kind, argument)
        elif type(argument) is kind:
            plain_array(argument)


def _steered(function, args, kwargs):
    """A function that has no derivative; in a trace a row if it reads values, and not shapes."""
    if rt.trace() is None or function.__name__ in _OF_SHAPES:
        given = _as_data if function in (np.result_type, np.can_cast) else _valued
        return function(*map(given, args), **{k: given(v) for k, v in kwargs.items()})
    args = [unlisted(a) if isinstance(a, list) else a for a in args]
    if any([is_tensor(v) and is_recorded(v) for v in kwargs.values()]):
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        args, kwargs = [*bound.args], bound.kwargs
    args = [a if is_tensor(a) else _fixed(a, function) for a in args]
    return steered(function, *args, **{k: _fixed(v, function) for k, v in kwargs.items()})


def _as_data(argument):
    """As `_valued`, but Python's floats among data are floats, which have the dtype of others."""
    data = plain(argument) if is_tensor(argument) and rt.trace() is not None else None
    return _valued(argument) if data is None else data


def _fixed(argument, function):
    """As `_valued`, for arguments that cannot have another value in the program."""
    if isinstance(argument, (list, tuple)):
        return type(argument)(_fixed(item, function) for item in argument)
    return fixed(argument, name_of(function))


_COMPARING: dict[Any, Callable] = {
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
}
_tried: set[Any] = set()


def _ufunc_of_numbers(self, ufunc, method, *inputs, **keywords):
    """A ufunc where a number is recorded, which compiled code does not compute, or not yet."""
    compare = _COMPARING.get(ufunc)
    if compare is not None and method == "__call__" and not keywords and rt.trace() is None:
        values = [value_of(operand) for operand in inputs]
        if all([isinstance(value, float) or _is_float64(value) for value in values]):
            return wrap(compare(*values))
    function = _find(ufunc)
    if function is not None:
        _note_tried(ufunc, function)
    return rt.Tensor.__array_ufunc__(self, ufunc, method, *inputs, **keywords)


def _is_float64(value) -> bool:
    """Whether a value is an array without axes, as which NumPy compares its numbers."""
    return type(value) is np.ndarray and value.ndim == 0 and value.dtype == np.float64


def _note_tried(ufunc, function) -> None:
    if ufunc not in _tried:
        _tried.add(ufunc)
        _let_compute(ufunc, function)


def _let_compute(ufunc, function) -> None:
    """Let compiled code compute a ufunc of numbers, if it is that of an element-wise operation.

    A power by a constant is a square, say, of which only Python knows.
    """
    op = TABLE.get(function.__name__)
    if not isinstance(op, Pointwise) or PUBLIC.get(op.name) is not function or not op.of_numbers:
        return
    if ufunc_of(op.name) is ufunc:
        loop = loop_of_doubles(ufunc)
        if loop is not None:
            native_types.add_ufunc(ufunc, 4 * (op.code + 1), loop, op.name == "power")


class _OfNumbers(dict):
    """By the name of an element-wise operation what is fastest for numbers in `math`."""

    def __missing__(self, name: str):
        rt.start()
        ufunc, ours = ufunc_of(name), PUBLIC[name]
        if _find(ufunc) is not ours:
            return self.setdefault(name, lambda *numbers: rt.as_float(ours(*numbers)))
        _note_tried(ufunc, ours)
        return self.setdefault(name, native_types.calling(ufunc, ours, OF_PYTHON))


OF_NUMBERS = _OfNumbers()


def _start() -> None:
    native_types.set_array_ufunc(rt.Scalar, _ufunc_of_numbers)


rt.on_start.append(_start)
PROTOCOLS = {"__array_ufunc__": array_ufunc, "__array_function__": array_function}
for _name, _method in PROTOCOLS.items():
    setattr(rt.Tensor, _name, _method)
    setattr(ComplexTensor, _name, _method)
