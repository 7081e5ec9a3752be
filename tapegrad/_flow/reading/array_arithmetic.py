"""Element-wise operations, sums and products of arrays, as loops."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable

from ..ir.flow_graph import Block, Value
from ..kinds.step_kinds import BOOL, FLOAT, INT
from . import views
from .forms import (
    FLOATS,
    NARROW,
    SINGLE,
    Array,
    Form,
    Number,
    Raises,
    Refused,
    described,
    value_kind,
)
from .numbers import (
    COMPARISONS,
    IN_PLACE,
    arithmetic,
    compared,
    converted,
    is_mixed,
    is_number,
    is_tensor,
    negated,
    negative,
    of_numpy,
    rounded,
)
from .views import broadcast, common, element, fill, new, of, same_length, stored, view

_OF_TRUTHS = frozenset((*COMPARISONS, operator.and_, operator.or_, operator.xor))


def mapped(reader, function: Callable[..., Form], *forms: Form) -> Array:
    """A new array with `function` of the elements of arrays and numbers."""
    lengths = common(reader, list(forms))
    operands = [broadcast(reader, form, lengths) for form in forms]
    kind = _result_kind(reader, function, operands)
    made = new(reader, lengths, kind)
    build = reader.builder

    def body(indices: list[Value], _: list) -> list:
        places = [Number(INT, k, natural=True) for k in indices]
        result = function(*[of(reader, one, places) for one in operands])
        stored(reader, element(reader, made, places), result)
        return []

    views.nested(build, [converted(build, one, INT) for one in lengths], body, [])
    return made


def _result_kind(reader, function: Callable[..., Form], operands: list) -> str:
    """The kind of the elements of a function's result; the steps that it makes are dropped."""

    block, reader.builder.block = reader.builder.block, Block(-1)
    try:
        samples = [_sample(reader, x) if isinstance(x, Array) else x for x in operands]
        result = function(*samples)
    finally:
        reader.builder.block = block
    kind = getattr(result, "kind", None)
    if kind is None or is_mixed(result):
        raise Refused(f"an array of {described(result)}")
    return kind


def _sample(reader, array: Array) -> Number:
    """A number like the elements of an array."""
    kind = value_kind(array.element)
    of = INT if array.element == NARROW else array.element
    made = of_numpy(reader.builder, of, reader.graph.value(kind))
    return dataclasses.replace(made, strong=made.strong or array.element == NARROW)


def operator_of(reader, op, a: Form, b: Form) -> Form:
    """A binary operator with an array."""
    if op is operator.matmul:
        return matmul(reader, a, b)
    if (
        isinstance(a, Array)
        and isinstance(b, Array)
        and BOOL in (a.element, b.element)
        and op not in _OF_TRUTHS
    ):
        raise Refused(f"{op.__name__} of an array of truths")
    for one in (a, b):
        if not (isinstance(one, Array) or is_number(one)):
            raise Refused(f"{op.__name__} of {described(a)} and {described(b)}")
    build = reader.builder

    if op in COMPARISONS:
        return mapped(reader, lambda x, y: compared(build, op, x, y), a, b)
    return mapped(reader, lambda x, y: arithmetic(build, op, quiet(x), quiet(y)), a, b)


def quiet(form: Form) -> Form:
    """An operand of a NumPy operation: it raises no error."""
    if isinstance(form, Number) and form.kind == FLOAT:
        return dataclasses.replace(form, tensor=True)
    return form


def in_place(reader, op, a: Array, b: Form) -> Array:
    """`a op= b`."""
    if op not in IN_PLACE:
        raise Refused(f"{op.__name__} of an array")
    result = operator_of(reader, IN_PLACE[op], a, b)
    if not isinstance(result, Array) or len(result.lengths) != len(a.lengths):
        raise Raises("ValueError: could not broadcast")
    is_plain = b.plain if isinstance(b, Array) else not is_tensor(b)
    if a.plain and is_plain:  # then no element of the result is a tensor
        result = dataclasses.replace(result, plain=True)
    fill(reader, a.lengths, a, broadcast(reader, result, a.lengths))
    return a


def unary(reader, op, a: Array) -> Form:
    if op in (operator.neg, "-"):
        return mapped(reader, lambda x: negative(reader.builder, x), a)
    if op in (operator.pos, "+"):
        return mapped(reader, lambda x: x, a)
    if op in (operator.invert, "~") and a.element == BOOL:
        return mapped(reader, lambda x: negated(reader.builder, x), a)
    raise Refused(f"{op} of an array")


def assigned(reader, array: Array, index: Form, value: Form) -> None:
    """`array[index] = value`."""
    target = view(reader, array, index)
    if isinstance(value, Array):
        # a copy, since source and target may overlap
        value = dataclasses.replace(mapped(reader, lambda x: x, value), plain=value.plain)
        value = broadcast(reader, value, target.lengths)
    fill(reader, target.lengths, target, value)


def in_doubles(a: Array) -> Array:
    """An array of float32 as one of float64: sums are added up in float64 and rounded once."""
    return dataclasses.replace(a, element=FLOAT) if a.element == SINGLE else a


def _check_product(a: Form, b: Form) -> None:
    """Refuse other operands of a product than vectors and matrices of floats."""
    if not (isinstance(a, Array) and isinstance(b, Array)):
        raise Refused(f"a matrix product of {described(a)} and {described(b)}")
    if not a.lengths or len(b.lengths) not in (1, 2) or len(a.lengths) > 3 - (len(b.lengths) > 1):
        raise Refused("a product of stacks of matrices")
    kinds = {a.element, b.element}
    if kinds.isdisjoint(FLOATS) or (SINGLE in kinds and len(kinds) > 1):
        raise Refused("a matrix product of integers, or of them and float32")


def matmul(reader, a: Form, b: Form) -> Form:
    """The product of vectors and matrices."""
    _check_product(a, b)
    assert isinstance(a, Array) and isinstance(b, Array)
    is_single = a.element == SINGLE
    a, b = in_doubles(a), in_doubles(b)
    build = reader.builder
    first_lengths = a.lengths[:-1]
    last_lengths = b.lengths[1:]
    same_length(reader, a.lengths[-1], b.lengths[0])
    depth = converted(build, a.lengths[-1], INT)

    def dot(places: list) -> Form:
        first, second = places[: len(first_lengths)], places[len(first_lengths) :]

        def body(k: Value, carried: list[Value]) -> list[Value]:
            here = Number(INT, k, natural=True)
            x = of(reader, a, [*first, here])
            y = of(reader, b, [here, *second])
            made = arithmetic(build, operator.mul, x, y)
            total = arithmetic(build, operator.add, Number(FLOAT, carried[0]), made)
            return [converted(build, total, FLOAT)]

        found = views.counted(build, depth, body, [build.constant(0.0)])
        result = Number(FLOAT, found[0], True)
        return rounded(build, result) if is_single else result

    lengths = (*first_lengths, *last_lengths)
    if not lengths:
        return dot([])
    made = new(reader, lengths, SINGLE if is_single else FLOAT)

    def each(indices: list[Value], _: list) -> list:
        places = [Number(INT, k, natural=True) for k in indices]
        stored(reader, element(reader, made, places), dot(places))
        return []

    views.nested(build, [converted(build, one, INT) for one in lengths], each, [])
    return made
