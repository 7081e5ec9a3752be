"""Indices and slices as positions from the start, checked."""

from __future__ import annotations

import dataclasses
import operator

from ..kinds.step_kinds import BOOL, INT
from .errors import Raises, Refused
from .forms import (
    NONE,
    Form,
    Known,
    Method,
    Number,
    described,
    is_natural,
)
from .numbers import (
    arithmetic,
    compared,
    converted,
    kind_of,
    number,
)


def natural(form: Form) -> Form:
    """An integer known not to be negative."""
    return dataclasses.replace(form, natural=True) if isinstance(form, Number) else form


def position(reader, index: Form, count: Form) -> Form:
    """An index as a position from the start, checked to be one."""
    build = reader.builder
    if isinstance(index, Number):
        index = dataclasses.replace(index, strong=False)
    if kind_of(index) != INT:
        raise Refused(f"an item by {described(index)}")
    if isinstance(index, Known) and isinstance(count, Known):
        if not -count.value <= index.value < count.value:
            raise Raises("IndexError")
        return Known(index.value % count.value if count.value else 0)
    if isinstance(index, Known) and index.value < 0:
        index = natural(arithmetic(build, operator.add, count, index))
        _check(build, compared(build, operator.ge, index, Known(0)))
        return index
    if not is_natural(index):
        is_negative = converted(build, compared(build, operator.lt, index, Known(0)), BOOL)
        moved = converted(build, arithmetic(build, operator.add, index, count), INT)
        index = number(build.step("int_select", is_negative, moved, converted(build, index, INT)))
        _check(build, compared(build, operator.ge, index, Known(0)))
    _check(build, compared(build, operator.lt, index, count))
    return natural(index)


def _check(build, holds: Form) -> None:
    if isinstance(holds, Known):
        if not holds.value:
            raise Raises("IndexError")
        return
    build.check(converted(build, holds, BOOL), "an index out of bounds")


def is_slice(form: Form) -> bool:
    if isinstance(form, Known):
        return isinstance(form.value, slice)
    return isinstance(form, Method) and form.name == "slice"


def sliced(reader, form: Form, length: Form) -> tuple[Form, Form, Form]:
    """Start, number and step of a slice."""
    if isinstance(form, Known):
        given = [Known(x) for x in (form.value.start, form.value.stop, form.value.step)]
    else:
        given = list(form.owner.items)  # type: ignore[attr-defined]
    start, stop, step = given
    if isinstance(step, Known) and step.value in (None, 1):
        first = _bound(reader, start, length, Known(0))
        last = _bound(reader, stop, length, length)
        count = arithmetic(reader.builder, operator.sub, last, first)
        return first, _at_least_0(reader, count), Known(1)
    if isinstance(step, Known) and step.value == -1 and start.head == stop.head == NONE.head:
        return arithmetic(reader.builder, operator.sub, length, Known(1)), length, step
    if isinstance(step, Known) and type(step.value) is int and step.value > 1:
        return _stepped(reader, start, stop, step, length)
    both = all(isinstance(x, Known) for x in (start, stop, step, length))
    if not both:
        raise Refused("a slice with a step, of a length that is computed")
    indices = range(length.value)[slice(start.value, stop.value, step.value)]  # type: ignore[attr-defined]
    return Known(indices.start if len(indices) else 0), Known(len(indices)), Known(indices.step)


def _stepped(reader, start: Form, stop: Form, step: Known, length: Form) -> tuple:
    """The same for a step of two or more."""
    first = _bound(reader, start, length, Known(0))
    last = _bound(reader, stop, length, length)
    gap = arithmetic(reader.builder, operator.sub, last, first)
    wide = arithmetic(reader.builder, operator.add, gap, Known(step.value - 1))
    count = arithmetic(reader.builder, operator.floordiv, wide, step)
    return first, _at_least_0(reader, count), step


def _bound(reader, given: Form, length: Form, default: Form) -> Form:
    """An end of a slice as a position from 0 to the length."""
    if isinstance(given, Known) and given.value is None:
        return default
    return clamped(reader, given, length)


def clamped(reader, given: Form, length: Form) -> Form:
    """An index as a position from 0 to the length; one that is beyond these is the nearer."""
    build = reader.builder
    if isinstance(given, Known) and isinstance(length, Known):
        return Known(slice(given.value, None).indices(length.value)[0])
    value, count = converted(build, given, INT), converted(build, length, INT)
    zero = build.constant(0)
    is_negative = build.step("int_less", value, zero)
    moved = build.step("int_select", is_negative, build.step("int_add", value, count), value)
    inside = build.step("int_min", build.step("int_max", moved, zero), count)
    return Number(INT, inside, natural=True)


def _at_least_0(reader, form: Form) -> Form:
    if isinstance(form, Known):
        return Known(max(form.value, 0))
    build = reader.builder
    value = build.step("int_max", converted(build, form, INT), build.constant(0))
    return Number(INT, value, natural=True)
