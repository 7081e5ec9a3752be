"""Replacements of functions of NumPy: of numbers, of arrays, those that make arrays."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import TABLE, Pointwise
from ..._core.tensor.pytree import stop_gradient
from ..._core.tensor.registry import declared_by, theirs
from ..ir.expressions import tested
from ..kinds.step_kinds import BOOL, FLOAT, INT, SELECT_OF
from ..kinds.step_kinds import kind_of as kind_of_steps
from . import access, arrays, views
from .arrays import REDUCTIONS, summed
from .builtin_functions import rounded_to_int
from .forms import (
    FLOATS,
    NONE,
    SINGLE,
    ArenaList,
    Array,
    Form,
    Known,
    Number,
    Raises,
    Ref,
    Refused,
    Tuple,
    are_known,
    described,
    is_natural,
    value_kind,
)
from .numbers import (
    applied,
    compared,
    converted,
    float_value,
    folded,
    is_number,
    is_tensor,
    kind_of,
    of_numpy,
    refuse_mixed,
    refuse_narrow,
    rounded,
    settled,
    stopped,
    truth,
    widest,
)
from .views import natural

# --- Arrays that are the same in each call: functions of known numbers, called while reading ------


#: Functions of NumPy that make arrays of numbers.
_NAMES = "arange linspace logspace geomspace eye identity tri".split()


def value_of(s, form: Form) -> Any:
    """The object that a form is; Refused where a call computes it."""
    if isinstance(form, Known):
        return form.value
    if isinstance(form, Tuple):
        return tuple([value_of(s, one) for one in form.items])
    if isinstance(form, Ref) and form.what == "list":
        return [value_of(s, one) for one in s.reader.contents(form).items]
    raise Refused(f"an array made of {described(form)}")


def made_once(s, name: str, *args: Form, **kwargs: Form) -> Form:
    """The array that a function of NumPy makes; the graph does not change it."""
    values = [value_of(s, one) for one in args]
    named = {key: value_of(s, one) for key, one in kwargs.items()}
    try:
        array = getattr(np, name)(*values, **named)
    except Exception as error:
        raise Raises(f"{type(error).__name__}: {error}") from None
    return s.reader.constant((name, repr(values), repr(named)), array)


def _creator(name: str) -> Callable:
    def handler(s, *args, **kwargs):
        return made_once(s, name, *args, **kwargs)

    return handler


CREATORS: dict[str, Callable] = {name: _creator(name) for name in _NAMES}


# --------------------------------------------------------------------------------------------------
# Element-wise operations called as functions, of numbers and of arrays, by their declarations.


def function_of_numbers(function: Any, target) -> Callable | None:
    """The replacement of a declared function, of a library's or a user's, called as `target`."""
    op = declared_by(function)
    if op is None or op.name.startswith("complex_"):
        return None
    if hasattr(function, "declaration"):
        return functools.partial(_of_user, function)
    if getattr(operator, function.__name__, None) is function:
        is_binary = len(op.inputs) == 2
        return (lambda s, x, y: s.operator(function, x, y)) if is_binary else None
    is_of_math = getattr(math, function.__name__, None) is function
    if not is_of_math:
        return of_operation(op, function)
    if type(function(*[0.5 * sum(ends) for ends in op.domain])) is int:
        return rounded_to_int(op.name, function)
    return _of_math(op, function, target is not function)


def refuse_strong(s, what: str) -> None:
    """Refuse a number that NumPy makes of Python's, where arrays are of float32."""
    if s.builder.single:
        raise Refused(f"{what}, whose result makes float64 of float32")


def _given(s, op: Pointwise, args) -> list[Form]:
    if len(args) != len(op.inputs):
        raise Refused(f"{op.name} of {len(args)} arguments")
    return [settled(s.builder, x) for x in args]


def _check_numbers(op: Pointwise, forms) -> None:
    for one in forms:
        if not is_number(one):
            raise Refused(f"{op.name} of {described(one)}")


@functools.cache
def of_operation(op: Pointwise, function: Callable) -> Callable:
    """The replacement of a function that computes an operation as NumPy does."""

    def one(s, *forms):
        if s.builder.single and not any(kind_of(x) == SINGLE for x in forms):
            refuse_strong(s, f"np.{op.name} of other numbers than float32")
        if are_known(forms):
            with np.errstate(all="ignore"):
                made = folded(function, *[x.value for x in forms])
            return Known(made.value.item()) if isinstance(made.value, np.generic) else made
        if op.test:
            return _tested(s, op, forms)
        kinds = tuple([kind_of(x) for x in forms])
        if {*kinds} <= {INT, BOOL} and _result_of(function, kinds) is not np.float64:
            return _of_integers(s, op, kinds, forms)
        made = applied(s.builder, op.name, *[arrays.quiet(x) for x in forms])
        return dataclasses.replace(made, tensor=True)

    def handler(s, *args):
        given = _given(s, op, args)
        if any(isinstance(x, Array) for x in given):
            return arrays.mapped(s.reader, lambda *x: one(s, *x), *given)
        _check_numbers(op, given)
        return one(s, *given)

    return handler


@functools.cache
def _result_of(function: Callable, kinds: tuple[str, ...]) -> type:
    """The type that a function gives of integers and truths."""
    with np.errstate(all="ignore"):
        return type(function(*[np.int64(1) if kind == INT else np.True_ for kind in kinds]))


def _of_integers(s, op: Pointwise, kinds: tuple[str, ...], forms) -> Number:
    of_ints = kind_of_steps(op.name).of_ints
    if not of_ints or INT not in kinds:
        raise Refused(f"{op.name} of integers")
    refuse_narrow(s.builder, *forms)
    values = [converted(s.builder, x, INT) for x in forms]
    count = len(kind_of_steps(of_ints).operands) // len(values)  # a square is a product
    return of_numpy(s.builder, INT, s.builder.step(of_ints, *values * count))


def _tested(s, op: Pointwise, forms) -> Form:
    for name in op.functions:
        module, _, last = name.rpartition(".")
        if module == "operator":
            return compared(s.builder, getattr(operator, last), *forms)
    values = [float_value(s.builder, x) for x in forms]
    return of_numpy(s.builder, BOOL, tested(op, values, s.builder))


@functools.cache
def _of_math(op: Pointwise, function: Callable, takes_tensors: bool) -> Callable:
    """The replacement of one of Python's functions, which raise where they have no result."""

    def handler(s, *args):
        given = _given(s, op, args)
        _check_numbers(op, given)
        if are_known(given):
            return folded(function, *[x.value for x in given])
        if op.test:
            return _tested(s, op, given)
        is_of_tensors = any(map(is_tensor, given))
        if is_of_tensors and not takes_tensors:
            raise Raises(f"TypeError: math.{function.__name__} of a tensor")
        made = applied(s.builder, op.name, *[arrays.quiet(x) for x in given])
        if made.kind == SINGLE:
            raise Refused(f"math.{function.__name__} of float32, which gives float64")
        finite = s.builder.step("is_finite", made.value)
        s.builder.check(finite, f"math.{function.__name__} may raise")
        return Number(FLOAT, made.value, is_of_tensors)

    return handler


def _of_user(function, s, *args, **kwargs):
    """A call of an operation that `tg.elementwise` has made, which may have defaults."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise Raises(f"TypeError: {error}") from None
    given = [
        bound[name] if name in bound else s.reader.outside(one.default)
        for name, one in signature.parameters.items()
    ]
    return of_operation(function.declaration, function)(s, *given)


# --- Replacements of functions of NumPy, those that make arrays among them ------------------------


#: Arrays with more items are no sequence of writes, if their items are known.
_FEW = 8


def _where(s, condition, x, y):
    if any(isinstance(one, Array) for one in (condition, x, y)):
        select = functools.partial(_select, s)
        return arrays.mapped(s.reader, select, condition, x, y)
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
    def handler(s, array, dtype=None):
        return _filled_like(s, array, Known(fill), dtype)

    return handler


def _full_like(s, array, value, dtype=None):
    if not is_number(value):
        raise Refused(f"np.full_like of {described(value)}")
    return _filled_like(s, array, value, dtype)


def _filled_like(s, array: Form, value: Form, dtype: Form | None) -> Array:
    has_own = dtype is None or dtype.head == NONE.head
    if not isinstance(array, Array) or (has_own and array.element not in FLOATS):
        raise Refused(f"an array like {described(array)}")
    element = array.element if has_own else _element_of(s, dtype)
    made = views.new(s.reader, array.lengths, element)
    if not (isinstance(value, Known) and value.value == 0):
        views.fill(s.reader, array.lengths, made, value)
    return made


def _array(s, form, dtype=None):
    if isinstance(form, Array):
        if dtype is not None and _element_of(s, dtype) != form.element:
            raise Refused("an array of another dtype")
        return arrays.mapped(s.reader, lambda x: x, form)
    if isinstance(form, ArenaList):
        raise Refused("an array of a list that changes")
    shape, items = _numbers_in(s, form) or ((), [])
    is_known = len(items) > _FEW or len(shape) > 1
    if not shape or (is_known and are_known(items)):
        named = {} if dtype is None else {"dtype": dtype}
        return made_once(s, "array", form, **named)
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
    return arrays.matmul(s.reader, a, b)


def _dot(s, a, b):
    if all(isinstance(one, Array) and len(one.lengths) > 2 for one in (a, b)):
        raise Refused("np.dot of stacks of matrices")
    return arrays.matmul(s.reader, a, b)


def _norm(s, form):
    if not isinstance(form, Array) or len(form.lengths) != 1 or form.element not in FLOATS:
        raise Refused(f"a norm of {described(form)}")
    square = lambda x: applied(s.builder, "square", x)
    squares = arrays.mapped(s.reader, square, arrays.in_doubles(form))
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
        return arrays.handler_of(function) or function_of_numbers(function, target)
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
    "full_like": _full_like,
    "array": _array,
    "asarray": _as_array,
    **CREATORS,
    **REDUCTIONS,
    "amax": REDUCTIONS["max"],
    "amin": REDUCTIONS["min"],
    "dot": _dot,
    "matmul": _matmul,
    "linalg.norm": _norm,
}
#: Functions that make arrays, which take no tensors where NumPy itself makes them.
_MAKING = frozenset(("zeros", "ones", "full", "empty", "array", "asarray"))
