"""Replacements of functions of `math` and NumPy."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import TABLE, Pointwise
from ..._core.tensor.stop_gradient import stop_gradient
from ..kinds.choice_kinds import SELECT_OF
from ..kinds.step_kinds import BOOL, FLOAT, INT
from . import access, array_arithmetic, builtin_functions, constant_arrays, views
from .array_reductions import REDUCTIONS, summed
from .errors import Raises, Refused
from .forms import (
    FLOATS,
    SINGLE,
    Array,
    Form,
    Known,
    Number,
    Ref,
    Row,
    Tuple,
    described,
    is_natural,
    value_kind,
)
from .numbers import (
    applied,
    arithmetic,
    compared,
    converted,
    float_value,
    folded,
    is_number,
    is_tensor,
    kind_of,
    number,
    of_numpy,
    rounded,
    settled,
    stopped,
    truth,
    widest,
)
from .positions import natural

#: Arrays with more items are no sequence of writes, if their items are known.
_FEW = 8


def refuse_strong(s, what: str) -> None:
    """Refuse a number that NumPy makes of Python's, where arrays are of float32."""
    if s.builder.single:
        raise Refused(f"{what}, whose result makes float64 of float32")


def _elementwise(name: str, plain: Callable | None, raises: bool, tensors: bool = True):
    """An element-wise function: of numbers, or of arrays."""

    def one(s, *forms):
        if s.builder.single and not raises and not any(kind_of(x) == SINGLE for x in forms):
            refuse_strong(s, f"np.{name} of other numbers than float32")
        if plain is not None and all(isinstance(x, Known) for x in forms):
            with np.errstate(all="ignore"):
                made = folded(plain, *[x.value for x in forms])
            return Known(float(made.value)) if isinstance(made.value, np.generic) else made
        ints = all(kind_of(x) in (INT, BOOL) for x in forms)
        if ints and name in _OF_INTS:
            return _OF_INTS[name](s, *forms)
        if ints and name not in _ALWAYS_FLOAT:
            raise Refused(f"{name} of integers")
        if not tensors and any(map(is_tensor, forms)):
            raise Raises(f"TypeError: math.{name} of a tensor")
        made = applied(s.builder, name, *[array_arithmetic.quiet(x) for x in forms])
        if raises:
            if made.kind == SINGLE:
                raise Refused(f"math.{name} of float32, which gives float64")
            finite = s.builder.step("is_finite", made.value)
            s.builder.check(finite, f"math.{name} may raise")
            return Number(FLOAT, made.value, any(map(is_tensor, forms)))
        return dataclasses.replace(made, tensor=True)

    def handler(s, *args):
        if len(args) != len(TABLE[name].inputs):
            raise Refused(f"{name} of {len(args)} arguments")
        given = [settled(s.builder, x) for x in args]
        if any(isinstance(x, Array) for x in given) and not raises:
            return array_arithmetic.mapped(s.reader, lambda *x: one(s, *x), *given)
        for x in given:
            if not is_number(x):
                raise Refused(f"{name} of {described(x)}")
        return one(s, *given)

    return handler


_OF_INTS = {
    "absolute": builtin_functions.absolute,
    "square": lambda s, x: arithmetic(s.builder, operator.mul, x, x),
    "negative": lambda s, x: arithmetic(s.builder, operator.sub, Known(0), x),
    "add": lambda s, x, y: arithmetic(s.builder, operator.add, x, y),
    "subtract": lambda s, x, y: arithmetic(s.builder, operator.sub, x, y),
    "multiply": lambda s, x, y: arithmetic(s.builder, operator.mul, x, y),
    "maximum": lambda s, x, y: _extreme(s, "int_max", x, y),
    "minimum": lambda s, x, y: _extreme(s, "int_min", x, y),
}


_ALWAYS_FLOAT = frozenset(
    "divide sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 "
    "hypot sinh cosh tanh arcsinh arccosh arctanh degrees radians sigmoid erf erfc gammaln".split()
)


def _extreme(s, op: str, x: Form, y: Form) -> Form:
    a, b = converted(s.builder, x, INT), converted(s.builder, y, INT)
    return number(s.builder.step(op, a, b))


def _where(s, condition, x, y):
    if any(isinstance(one, Array) for one in (condition, x, y)):
        select = functools.partial(_select, s)
        return array_arithmetic.mapped(s.reader, select, condition, x, y)
    return _select(s, condition, x, y)


def _select(s, condition: Form, x: Form, y: Form) -> Form:
    for one in (condition, x, y):
        if not is_number(one):
            raise Refused(f"np.where of {described(one)}")
    test = truth(s.builder, condition)
    kind = widest((x, y))
    if kind == FLOAT:
        refuse_strong(s, "np.where of Python's floats")
    if isinstance(test, Known) and not s.builder.single:
        return x if test.value else y
    holds = converted(s.builder, test, BOOL)
    a, b = converted(s.builder, x, kind), converted(s.builder, y, kind)
    return of_numpy(s.builder, kind, s.builder.step(SELECT_OF[value_kind(kind)], holds, a, b))


def _zeros(fill: float):
    def handler(s, shape, dtype=None):
        return _filled(s, shape, Known(fill), _element_of(s, dtype))

    return handler


def _full(s, shape, value, dtype=None):
    if not is_number(value):
        raise Refused(f"np.full of {described(value)}")
    if dtype is None and kind_of(value) == FLOAT:
        refuse_strong(s, "an array of float64")
    element = kind_of(value) if dtype is None else _element_of(s, dtype)
    return _filled(s, shape, value, element)


def _filled(s, shape: Form, value: Form, element) -> Array:
    if isinstance(shape, Known) and isinstance(shape.value, tuple):
        shape = Tuple(tuple(map(Known, shape.value)))
    lengths = shape.items if isinstance(shape, Tuple) else (shape,)
    if not all(kind_of(one) == INT for one in lengths):
        raise Refused(f"an array of lengths {described(shape)}")
    if any(isinstance(one, Known) and one.value < 0 for one in lengths):
        raise Raises("ValueError: negative dimensions are not allowed")
    for one in lengths:
        if not is_natural(one):
            holds = compared(s.builder, operator.ge, one, Known(0))
            s.builder.check(converted(s.builder, holds, BOOL), "an array of a negative length")
    made = views.new(s.reader, tuple(map(natural, lengths)), element)
    if not (isinstance(value, Known) and value.value == 0):
        views.fill(s.reader, made.lengths, made, value)
    return made


def _element_of(s, dtype: Form | None) -> str:
    if dtype is None or (isinstance(dtype, Known) and dtype.value in (None, float, np.float64)):
        refuse_strong(s, "an array of float64")
        return FLOAT
    if s.builder.single and isinstance(dtype, Known) and dtype.value == np.float32:
        return SINGLE
    if isinstance(dtype, Known) and dtype.value in (int, np.int64):
        return INT
    if isinstance(dtype, Known) and dtype.value in (bool, np.bool_):
        return BOOL
    raise Refused(f"an array of dtype {described(dtype)}")


def _zeros_like(fill: float):
    def handler(s, array):
        if not isinstance(array, Array) or array.element not in FLOATS:
            raise Refused(f"zeros_like of {described(array)}")
        made = views.new(s.reader, array.lengths, array.element)
        if fill:
            views.fill(s.reader, array.lengths, made, Known(fill))
        return made

    return handler


def _array(s, form, dtype=None):
    if isinstance(form, Array):
        if dtype is not None and _element_of(s, dtype) != form.element:
            raise Refused("an array of another dtype")
        return array_arithmetic.mapped(s.reader, lambda x: x, form)
    if isinstance(form, Row):
        raise Refused("an array of a list that changes")
    items = access.items_of(s.reader, form)
    is_known = len(items) > _FEW and all(isinstance(one, Known) for one in items)
    if not items or is_known or not all(map(is_number, items)):
        named = {} if dtype is None else {"dtype": dtype}
        return constant_arrays.made(s, "array", form, **named)
    kinds = {kind_of(one) for one in items}
    element = widest(items) if dtype is None else _element_of(s, dtype)
    if dtype is None and element in FLOATS and kinds != {SINGLE}:
        refuse_strong(s, "an array of float64")
    made = views.new(s.reader, (Known(len(items)),), element)
    for k, one in enumerate(items):
        views.stored(s.reader, views.element(s.reader, made, [Known(k)]), one)
    return made


def _as_array(s, form, dtype=None):
    if isinstance(form, Array) and (dtype is None or _element_of(s, dtype) == form.element):
        return form
    return _array(s, form, dtype)


def _matmul(s, a, b):
    return array_arithmetic.matmul(s.reader, a, b)


def _dot(s, a, b):
    if all(isinstance(one, Array) and len(one.lengths) > 2 for one in (a, b)):
        raise Refused("np.dot of stacks of matrices")
    return array_arithmetic.matmul(s.reader, a, b)


def _norm(s, form):
    if not isinstance(form, Array) or len(form.lengths) != 1 or form.element not in FLOATS:
        raise Refused(f"a norm of {described(form)}")
    square = lambda x: applied(s.builder, "square", x)  # noqa: E731
    squares = array_arithmetic.mapped(s.reader, square, array_arithmetic.in_doubles(form))
    total = summed(s.reader, squares)
    is_zero = compared(s.builder, operator.gt, total, Known(0.0))
    s.builder.check(converted(s.builder, is_zero, BOOL), "a norm of 0")
    norm = applied(s.builder, "sqrt", total)
    return rounded(s.builder, norm) if form.element == SINGLE else norm


def _finite(name: str):
    def handler(s, form):
        if not is_number(form):
            raise Refused(f"{name} of {described(form)}")
        value = float_value(s.builder, form)
        finite = s.builder.step("is_finite", value)
        if name == "isfinite":
            return of_numpy(s.builder, BOOL, finite)
        same = s.builder.step("float_equal", value, value)
        if name == "isnan":
            return of_numpy(s.builder, BOOL, s.builder.step("bool_not", same))
        infinite = s.builder.step("bool_not", finite)
        return of_numpy(s.builder, BOOL, s.builder.step("bool_and", infinite, same))

    return handler


_MATH = {
    **{x: x for x in "sqrt cbrt exp exp2 expm1 log2 log10 log1p sin cos tan sinh cosh tanh "
       "hypot copysign fmod degrees radians erf erfc gamma".split()},
    **{"log": "log", "fabs": "absolute", "atan": "arctan", "asin": "arcsin", "acos": "arccos",
       "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
       "pow": "power", "lgamma": "gammaln"},
}  # fmt: skip


def numpy_functions() -> dict[Any, Callable]:
    """Replacements of functions of `math` and NumPy, and of ours for these."""
    # a function that calls ours has imported them
    return _of_modules(
        sys.modules.get("tapegrad.math", math), sys.modules.get("tapegrad.numpy", np)
    )


@functools.cache
def _of_modules(*ours) -> dict[Any, Callable]:
    found: dict[Any, Callable] = {stop_gradient: stopped}
    for module in (math, ours[0]):
        found.update(_of_math(module))
    for module in (np, ours[1]):
        for name, op in list(TABLE.items()):  # to which imports add
            plain = getattr(np, name, None)
            if isinstance(op, Pointwise) and isinstance(plain, np.ufunc) and hasattr(module, name):
                found[getattr(module, name)] = _elementwise(name, plain, False)
        found.update({getattr(module, name): handler for name, handler in _NUMPY.items()})
        found[module.linalg.norm] = _norm
    for name in ("zeros", "ones", "full", "empty", "array", "asarray"):
        found[getattr(np, name)] = _of_plain_numpy(_NUMPY[name])
    return found


def _of_plain_numpy(make: Callable) -> Callable:
    """A function that makes an array, which takes no tensors where NumPy itself makes it."""

    def handler(s, *args, **kwargs):
        for form in args:
            items = access.items_of(s.reader, form) if isinstance(form, (Tuple, Ref)) else [form]
            if any(is_tensor(one) or isinstance(one, Array) for one in items):
                raise Raises("TypeError: NumPy makes an array of tensors")
        return dataclasses.replace(make(s, *args, **kwargs), plain=True)

    return handler


def _of_math(module) -> dict[Any, Callable]:
    found = {}
    for name, op in _MATH.items():
        if hasattr(module, name):
            found[getattr(module, name)] = _elementwise(
                op, getattr(math, name), True, module is not math
            )
    for name in ("floor", "ceil", "trunc"):
        plain = getattr(math, name)
        found[getattr(module, name)] = builtin_functions.rounded_to_int(name, plain)
    for name in ("isnan", "isinf", "isfinite"):
        found[getattr(module, name)] = _finite(name)
    return found


_NUMPY: dict[str, Callable] = {
    "where": _where,
    "zeros": _zeros(0.0),
    "ones": _zeros(1.0),
    "full": _full,
    "empty": _zeros(0.0),
    "zeros_like": _zeros_like(0.0),
    "ones_like": _zeros_like(1.0),
    "empty_like": _zeros_like(0.0),
    "array": _array,
    "asarray": _as_array,
    **constant_arrays.CREATORS,
    **REDUCTIONS,
    "amax": REDUCTIONS["max"],
    "amin": REDUCTIONS["min"],
    "dot": _dot,
    "matmul": _matmul,
    "isnan": _finite("isnan"),
    "isfinite": _finite("isfinite"),
    "isinf": _finite("isinf"),
}
