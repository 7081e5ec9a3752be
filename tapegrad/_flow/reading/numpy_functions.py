"""Replacements of functions of NumPy, those that make arrays among them."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import TABLE
from ..._core.tensor.pytree import stop_gradient
from ..._core.tensor.registry import theirs
from ..kinds.choice_kinds import SELECT_OF
from ..kinds.step_kinds import BOOL, FLOAT, INT
from . import access, array_arithmetic, constant_arrays, exponential_sums, views
from .array_reductions import REDUCTIONS, summed
from .errors import Raises, Refused
from .forms import (
    FLOATS,
    NONE,
    SINGLE,
    Array,
    Form,
    Known,
    Ref,
    Row,
    Tuple,
    described,
    is_natural,
    value_kind,
)
from .number_functions import function_of_numbers, of_operation, refuse_strong
from .numbers import (
    applied,
    compared,
    converted,
    is_number,
    is_tensor,
    kind_of,
    of_numpy,
    refuse_mixed,
    refuse_narrow,
    rounded,
    stopped,
    truth,
    widest,
)
from .positions import natural

#: Arrays with more items are no sequence of writes, if their items are known.
_FEW = 8


def _where(s, condition, x, y):
    if any(isinstance(one, Array) for one in (condition, x, y)):
        select = functools.partial(_select, s)
        return array_arithmetic.mapped(s.reader, select, condition, x, y)
    return _select(s, condition, x, y)


def _select(s, condition: Form, x: Form, y: Form) -> Form:
    for one in (condition, x, y):
        if not is_number(one):
            raise Refused(f"np.where of {described(one)}")
    refuse_narrow(s.builder, x, y)
    test = truth(s.builder, condition)
    refuse_mixed(x, y)
    kind = widest((x, y))
    if kind == FLOAT:
        refuse_strong(s, "np.where of Python's floats")
    if isinstance(test, Known) and not s.builder.single:
        return x if test.value else y
    holds = converted(s.builder, test, BOOL)
    a, b = converted(s.builder, x, kind), converted(s.builder, y, kind)
    return of_numpy(s.builder, kind, s.builder.step(SELECT_OF[value_kind(kind)], holds, a, b))


def _clip(s, x, low=NONE, high=NONE):
    given = [form for form in (x, low, high) if form.head != NONE.head]
    if len(given) < 2:
        raise Refused("np.clip without bounds")
    if len(given) == 3 and not all(kind_of(one) in (INT, BOOL) for one in given):
        return of_operation(TABLE["clip"], np.clip)(s, *given)
    for bound, function in ((low, np.maximum), (high, np.minimum)):
        if bound.head != NONE.head:
            x = of_operation(TABLE[function.__name__], function)(s, x, bound)
    return x


def _zeros(fill: float):
    def handler(s, shape, dtype=None):
        return _filled(s, shape, Known(fill), _element_of(s, dtype))

    return handler


def _full(s, shape, value, dtype=None):
    if not is_number(value):
        raise Refused(f"np.full of {described(value)}")
    if dtype is None and kind_of(value) == FLOAT:
        refuse_strong(s, "an array of float64")
    if dtype is None:
        refuse_mixed(value)
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
    shape, items = _numbers_in(s, form) or ((), [])
    is_known = len(items) > _FEW or len(shape) > 1
    if not shape or (is_known and all(isinstance(one, Known) for one in items)):
        named = {} if dtype is None else {"dtype": dtype}
        return constant_arrays.made(s, "array", form, **named)
    kinds = {kind_of(one) for one in items}
    if dtype is None:
        refuse_mixed(*items)
    element = widest(items) if dtype is None else _element_of(s, dtype)
    if dtype is None and element in FLOATS and kinds != {SINGLE}:
        refuse_strong(s, "an array of float64")
    made = views.new(s.reader, tuple(map(Known, shape)), element)
    for place, one in zip(np.ndindex(*shape), items, strict=True):
        views.stored(s.reader, views.element(s.reader, made, [*map(Known, place)]), one)
    return made


def _numbers_in(s, form: Form) -> tuple[tuple[int, ...], list[Form]] | None:
    """The lengths of lists in lists, and their numbers; None for those that hold anything else."""
    if is_number(form):
        return (), [form]
    if not isinstance(form, (Tuple, Ref)):
        return None
    parts = [_numbers_in(s, one) for one in access.items_of(s.reader, form)]
    if not parts or None in parts or len({part[0] for part in parts if part}) > 1:
        return None
    found = [part for part in parts if part]
    return (len(parts), *found[0][0]), [one for _, items in found for one in items]


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


def handler_of(target) -> Callable | None:
    """The replacement of a function of `math`, NumPy, SciPy, of ours for these, of a user's."""
    function = theirs(target)
    handler = _functions().get(function)
    if handler is None:
        return exponential_sums.handler_of(function) or function_of_numbers(function, target)
    is_plain = target is function and function.__name__ in _MAKING
    return _of_plain_numpy(handler) if is_plain else handler


@functools.cache
def _functions() -> dict[Any, Callable]:
    found = {operator.attrgetter(name)(np): handler for name, handler in _NUMPY.items()}
    return {**found, stop_gradient: stopped}


@functools.cache
def _of_plain_numpy(make: Callable) -> Callable:
    """NumPy's own function that makes an array, which takes no tensors."""

    def handler(s, *args, **kwargs):
        for form in args:
            items = access.items_of(s.reader, form) if isinstance(form, (Tuple, Ref)) else [form]
            if any(is_tensor(one) or isinstance(one, Array) for one in items):
                raise Raises("TypeError: NumPy makes an array of tensors")
        return dataclasses.replace(make(s, *args, **kwargs), plain=True)

    return handler


_NUMPY: dict[str, Callable] = {
    "where": _where,
    "clip": _clip,
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
    "linalg.norm": _norm,
}
#: Functions that make arrays, which take no tensors where NumPy itself makes them.
_MAKING = frozenset(("zeros", "ones", "full", "empty", "array", "asarray"))
