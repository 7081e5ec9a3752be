"""NumPy's protocols: `np.sin(t)`, `np.sum(t, axis=0)` and SciPy's ufuncs find our functions."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

import numpy as np

from ..tensor import runtime as rt
from ..tensor.copies import unlisted
from ..tensor.indexing import set_item
from ..tensor.lost_derivatives import written
from ..tensor.registry import OF_NUMPY, PUBLIC
from ..tensor.trace import fixed, is_steering, name_of, steered, steering_tensor
from ..tensor.values import (
    check_casting,
    dtype_of,
    is_recorded,
    is_tensor,
    plain_array,
    value_of,
    wrap,
)
from .ufunc_at import AT, change_at
from .unsupported import answered, unsupported

#: NumPy's functions that answer as they do for arrays, by why their derivative is zero.
UNRECORDED = {
    "integers, which do not change where their arguments do little": (
        "argmax argmin argsort nonzero flatnonzero argwhere count_nonzero searchsorted digitize "
        "lexsort unravel_index"
    ),
    "truths": (
        "all any allclose isclose array_equal isin iscomplexobj isrealobj may_share_memory "
        "shares_memory can_cast"
    ),
    "shapes and dtypes": (
        "shape ndim size result_type min_scalar_type common_type broadcast_shapes"
    ),
    "arrays of constants": "zeros_like ones_like empty_like",
    "text": "array_repr array_str",
}
_OF_SHAPES = frozenset("shape ndim size zeros_like ones_like empty_like result_type".split())
_NAMES = " ".join(UNRECORDED.values()).split()
_PLAIN = {getattr(np, name): name for name in _NAMES if hasattr(np, name)}
COMPARISONS = frozenset(
    "less less_equal greater greater_equal equal not_equal logical_and logical_or logical_xor "
    "logical_not isnan isinf isfinite signbit bitwise_and bitwise_or bitwise_xor invert".split()
)


def _find(ufunc):
    """Our function for a ufunc; SciPy's are found by name, and told from others of that name."""
    found = OF_NUMPY.get(ufunc)
    if found is not None:
        return found
    special = sys.modules.get("scipy.special")
    name = ufunc.__name__
    return OF_NUMPY.get(name) if getattr(special, name, None) is ufunc else None


def array_ufunc(self, ufunc, method, *inputs, out=None, where=True, **kwargs):
    """A ufunc on operands among which there is a tensor."""
    name = ufunc.__name__
    for operand in inputs:
        if isinstance(operand, np.ndarray):
            plain_array(operand)
    if method == "__call__" and out is None and where is True and not kwargs:
        return _call(ufunc, name, inputs)
    if method == "at" and name in AT:
        change_at(name, *inputs)
        return None
    if method == "reduce":
        if out is not None:
            kwargs["out"] = out[0]
        if where is not True:
            kwargs["where"] = where
        return _reduce(name, *inputs, **{k: v for k, v in kwargs.items() if v is not None})
    if method == "outer" and len(inputs) == 2:
        a, b = (i if is_tensor(i) else np.asarray(i) for i in map(unlisted, inputs))
        a = a[(...,) + (None,) * np.ndim(value_of(b))]
        return array_ufunc(self, ufunc, "__call__", a, b, out=out, where=where, **kwargs)
    if method != "__call__":
        raise unsupported(f"{name}.{method}")
    dtype = kwargs.pop("dtype", None)
    if kwargs or where is not True:
        extra = sorted(kwargs) + (["where"] if where is not True else [])
        raise TypeError(f"tapegrad.{name}: the argument {extra[0]} is not supported on tensors")
    result = _call(ufunc, name, inputs)
    if dtype is not None:
        result = result.astype(dtype)
    if out is None:
        return result
    return _written(name, result, out)


def _written(name: str, result, out: tuple):
    """A ufunc's result in the array that `out=` names."""
    if len(out) > 1:
        raise TypeError(f"tapegrad.{name}: out= of several results is not supported on tensors")
    (target,) = out
    if not is_tensor(target):
        if is_recorded(result) and not is_steering(result):
            raise written(f".{name}: out=")
        target[...] = fixed(result, f"{name}(out=)")
        return target
    check_casting(name, dtype_of(result), target)
    set_item(target, ..., result)
    return target


def _call(ufunc, name, inputs):
    found = _find(ufunc)
    if found is not None:
        return found(*inputs)
    if name in COMPARISONS or not any(is_recorded(i) for i in inputs):
        made = steering_tensor(ufunc, *inputs)
        is_object = is_tensor(made) and dtype_of(made).kind == "O"  # as of np.frompyfunc
        return value_of(made) if is_object else made
    raise unsupported(name)


_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logaddexp": "logsumexp",
}


def _reduce(name, x, axis=0, keepdims=False, **kwargs):
    if name in _REDUCTIONS and _REDUCTIONS[name] in PUBLIC:
        return PUBLIC[_REDUCTIONS[name]](x, axis=axis, keepdims=keepdims, **kwargs)
    if name in ("logical_and", "logical_or"):
        return steering_tensor(getattr(np, name).reduce, x, axis=axis, keepdims=keepdims)
    raise unsupported(f"{name}.reduce")


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
    found = OF_NUMPY.get(function)
    if found is not None:
        kwargs = {k: v for k, v in kwargs.items() if v is not None or k not in ("dtype", "out")}
        try:
            return found(*args, **kwargs)
        except TypeError as error:
            given = _in_place(function, args, kwargs, error)
        return array_function(self, function, types, *given)
    if function in _PLAIN:
        result = _steered(function, args, kwargs)
        if is_tensor(result):
            return result
        wanted = isinstance(result, (np.ndarray, np.generic)) and result.dtype != object
        return wrap(result) if wanted else result
    return answered(function, args, kwargs)


def _in_place(function, args: tuple, kwargs: dict, error: TypeError):
    """The arguments with one that NumPy names otherwise than we do in its place.

    Where none is, the error is raised that came of calling our function with them, by name.
    """
    text = str(error)
    if re.search(r"takes .*positional arguments? but \d+ were given$", text):
        raise TypeError(
            f"tapegrad.{function.__name__}: {len(args)} arguments are given, more than are "
            "supported on tensors; give out= and the likes by name"
        ) from None
    if "unexpected keyword" not in text:
        raise error
    word = text.rpartition(" ")[2]
    name = word.strip("'")
    if name not in [*inspect.signature(function).parameters][: len(args) + 1]:
        raise TypeError(
            f"tapegrad.{function.__name__}: the argument {word} is not supported on tensors"
        ) from None
    return (*args, kwargs[name]), {key: x for key, x in kwargs.items() if key != name}


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
        return function(*map(_valued, args), **{k: _valued(v) for k, v in kwargs.items()})
    args = [unlisted(a) if isinstance(a, list) else a for a in args]
    args = [a if is_tensor(a) else _fixed(a, function) for a in args]
    return steered(function, *args, **{k: _fixed(v, function) for k, v in kwargs.items()})


def _fixed(argument, function):
    """As `_valued`, of what the program cannot give another value."""
    if isinstance(argument, (list, tuple)):
        return type(argument)(_fixed(item, function) for item in argument)
    return fixed(argument, name_of(function))


PROTOCOLS = {"__array_ufunc__": array_ufunc, "__array_function__": array_function}
for _name, _method in PROTOCOLS.items():
    setattr(rt.Tensor, _name, _method)
