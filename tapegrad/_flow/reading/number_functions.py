"""Element-wise operations called as functions, of numbers and of arrays, by their declarations."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import Pointwise
from ..._core.tensor.registry import declared_by
from ..ir.expressions import tested
from ..kinds.kind_lookup import kind_of as kind_of_steps
from ..kinds.step_kinds import BOOL, FLOAT, INT
from . import array_arithmetic
from .builtin_functions import rounded_to_int
from .errors import Raises, Refused
from .forms import SINGLE, Array, Form, Known, Number, described
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
    refuse_narrow,
    settled,
)


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
        if all(isinstance(x, Known) for x in forms):
            with np.errstate(all="ignore"):
                made = folded(function, *[x.value for x in forms])
            return Known(made.value.item()) if isinstance(made.value, np.generic) else made
        if op.test:
            return _tested(s, op, forms)
        kinds = tuple([kind_of(x) for x in forms])
        if {*kinds} <= {INT, BOOL} and _result_of(function, kinds) is not np.float64:
            return _of_integers(s, op, kinds, forms)
        made = applied(s.builder, op.name, *[array_arithmetic.quiet(x) for x in forms])
        return dataclasses.replace(made, tensor=True)

    def handler(s, *args):
        given = _given(s, op, args)
        if any(isinstance(x, Array) for x in given):
            return array_arithmetic.mapped(s.reader, lambda *x: one(s, *x), *given)
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
        if all(isinstance(x, Known) for x in given):
            return folded(function, *[x.value for x in given])
        if op.test:
            return _tested(s, op, given)
        is_of_tensors = any(map(is_tensor, given))
        if is_of_tensors and not takes_tensors:
            raise Raises(f"TypeError: math.{function.__name__} of a tensor")
        made = applied(s.builder, op.name, *[array_arithmetic.quiet(x) for x in given])
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
