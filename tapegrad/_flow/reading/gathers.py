"""Items of arrays by arrays of integers or of truths: new arrays."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..ir.flow_graph import Value
from ..kinds.step_kinds import BOOL, INT
from . import views
from .forms import NARROW, Array, Form, Known, Number, Ref, Refused, Tuple, described
from .numbers import converted, number
from .views import is_slice, natural, position


def indexed(reader, array: Array, index: Form) -> Form:
    """`array[index]`: an element, a view, or a new array of items."""
    parts = [_as_array(reader, one) for one in views.parts_of(array, index)]
    arrays = [(k, one) for k, one in enumerate(parts) if isinstance(one, Array)]
    if not arrays:
        return views.indexed(reader, array, index)
    at, chosen = arrays[0]
    if len(arrays) > 1 or not all(map(is_slice, (*parts[:at], *parts[at + 1 :]))):
        raise Refused("an array indexed by several arrays, or by an array and numbers")
    whole = Tuple((*parts[:at], Known(slice(None)), *parts[at + 1 :]))
    array = views.view(reader, array, whole)
    if chosen.element == BOOL and len(chosen.lengths) == 1:
        chosen = _places(reader, array.lengths[at], chosen)
    if chosen.element not in (INT, NARROW):
        raise Refused(f"an array indexed by {described(chosen)} that are no integers")
    return _gathered(reader, array, at, chosen)


def _as_array(reader, form: Form) -> Form:
    """A list of known integers as an array, which it is as an index; others as they are."""
    if not isinstance(form, Ref):
        return form
    contents = reader.contents(form)
    items = contents.items if contents.what == "list" else (form,)
    places = [getattr(one, "value", None) for one in items]
    if not all(type(one) is int for one in places):
        raise Refused(f"an array indexed by {described(form)}")
    return reader.constant(("array", repr(places)), np.array(places, np.int64))


def _gathered(reader, array: Array, axis: int, chosen: Array) -> Array:
    """The items at places along an axis."""
    build, count = reader.builder, len(chosen.lengths)
    lengths = (*array.lengths[:axis], *chosen.lengths, *array.lengths[axis + 1 :])
    made = views.new(reader, lengths, array.element)

    def body(indices: list[Value], _: list) -> list:
        every: list[Form] = [Number(INT, k, natural=True) for k in indices]
        before, own, after = every[:axis], every[axis : axis + count], every[axis + count :]
        place = position(reader, views.of(reader, chosen, own), array.lengths[axis])
        item = views.of(reader, array, [*before, place, *after])
        views.stored(reader, views.element(reader, made, every), item)
        return []

    views.nested(build, [converted(build, one, INT) for one in lengths], body, [])
    return dataclasses.replace(made, plain=array.plain)


def _places(reader, length: Form, chosen: Array) -> Array:
    """The places of an array of truths that are set."""
    views.same_length(reader, chosen.lengths[0], length)
    build, zero = reader.builder, reader.builder.constant(0)
    size = converted(build, length, INT)

    def is_set(k: Value) -> Value:
        here = views.of(reader, chosen, [Number(INT, k, natural=True)])
        return build.step("bool_to_int", converted(build, here, BOOL))

    def counted(k: Value, found: list) -> list:
        return [build.step("int_add", found[0], is_set(k))]

    (count,) = views.counted(build, size, counted, [zero])
    room = natural(number(build.step("int_add", count, build.constant(1))))
    made = views.new(reader, (room,), INT)

    def written(k: Value, found: list) -> list:  # a place that is not wanted is written over
        here = natural(number(found[0]))
        views.stored(reader, views.element(reader, made, [here]), number(k))
        return [build.step("int_add", found[0], is_set(k))]

    views.counted(build, size, written, [zero])
    return dataclasses.replace(made, lengths=(natural(number(count)),))
