"""Calls without derivative, such as masks and positions, for all elements of a batch at once.

Calls that work element by element are unchanged, calls along axes have one more in front, others
are described in `OF_EACH`; the rest is called for each element.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from .._core.operations.creation import converted
from .._core.tensor import runtime as rt
from .._core.tensor.registry import declared_by
from .._core.tensor.trace import OF_EACH, Call, named, steered
from .._core.tensor.values import is_tensor, value_of

#: Functions that work element by element, beside ufuncs and those that are declared.
_ELEMENTWISE = {
    *(np.isclose, np.asarray, np.array, converted, operator.pos, operator.invert),
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
}
#: Functions of one array along axes, the second argument, and which axis it is by default.
_ALONG: dict[Callable, int | None] = {
    **dict.fromkeys((np.sum, np.prod, np.mean, np.var, np.std, np.median, np.ptp)),
    **dict.fromkeys((np.max, np.min, np.any, np.all, np.argmax, np.argmin, np.count_nonzero)),
    **dict.fromkeys((np.cumsum, np.cumprod)),
    **dict.fromkeys((np.sort, np.argsort), -1),
}
#: Calls whose result has the shape of the operand.
_KEEPING = {np.cumsum, np.cumprod, np.sort, np.argsort}


def call_of_each(call: Call, t: list, alone: list, ndim: int):
    """The result of a call for all elements: an array, or a recorded tensor in a trace.

    `t` are its operands with an axis of elements in front, None for one that is the same for all
    and among `alone`; `ndim` is the number of axes of the result for one element.
    """
    given, mapped = [], []
    for is_operand, what in call.arguments:
        one = t[what] if is_operand else None
        mapped.append(one is not None)
        given.append(one if one is not None else alone[what] if is_operand else what)
    function, keywords = call.function, call.keywords
    if _is_elementwise(function):
        pairs = zip(given, mapped, strict=True)
        given = [spread(x, ndim) if is_mapped else x for x, is_mapped in pairs]
        return steered(function, *given, **keywords)
    if function in _ALONG and mapped in ([True], [True, False]) and "where" not in keywords:
        axis = given[1] if len(given) == 2 else keywords.get("axis", _ALONG[function])
        rest = {name: x for name, x in keywords.items() if name != "axis"}
        return steered(_along, given[0], function=function, axis=axis, rest=rest)
    known = OF_EACH.get(function)
    if known is not None:
        return steered(known, *given, mapped=tuple(mapped), **keywords)
    return steered(_each, *given, function=function, mapped=tuple(mapped), keywords=keywords)


def _is_elementwise(function) -> bool:
    if isinstance(function, np.ufunc):
        return function.signature is None and function.nout == 1
    return declared_by(function) is not None or function in _ELEMENTWISE


def spread(value, ndim: int):
    """An operand with the axis of elements first and `ndim` axes after it, for broadcasting."""
    array = value_of(value)
    if array.ndim > ndim:
        return value
    seen = array[(slice(None), *[None] * (ndim + 1 - array.ndim))]
    return rt.view_of(value, seen) if is_tensor(value) else seen


@named("batching.each")
def _each(*values, function, mapped, keywords):
    """A function called for each element."""
    pairs = [*zip(values, mapped, strict=True)]
    count = next(len(x) for x, is_mapped in pairs if is_mapped)
    found = [
        function(*[x[k] if is_mapped else x for x, is_mapped in pairs], **keywords)
        for k in range(count)
    ]
    return np.stack(found)


@named("batching.along")
def _along(x, function, axis, rest):
    """A function along axes of each element; None means all of them, as one."""
    shape = x.shape[1:]
    if axis is not None and shape:
        axes = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(one % len(shape) + 1 for one in axes)
        return function(x, axis=axes if isinstance(axis, tuple) else axes[0], **rest)
    keepdims = rest.get("keepdims", False)
    others = {name: value for name, value in rest.items() if name != "keepdims"}
    made = function(x.reshape(len(x), math.prod(shape)), axis=-1, **others)
    if function in _KEEPING and not shape:
        return made.reshape(x.shape)
    return made.reshape(len(x), *[1] * len(shape)) if keepdims is True else made
