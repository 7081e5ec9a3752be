"""Values for the numbers of a form, from a form that is an instance of it."""

from __future__ import annotations

from ..ir.flow_graph import Value
from ..kinds.step_kinds import BOOL, FLOAT, INT
from .forms import (
    ABSENT,
    NONE,
    Choice,
    Form,
    Maybe,
    Number,
    Possible,
    kinds_of,
    shape_of,
)
from .joins import aligned
from .numbers import converted, joined_value
from .unfollowed import Unfollowed

_ZERO = {FLOAT: 0.0, INT: 0, BOOL: False}


def matched(builder, wanted: Form, given: Form) -> list[Value]:
    """A value for each number of `wanted`, in order; 0 where `given` lacks it."""
    if given is ABSENT and not isinstance(wanted, Possible):
        return [builder.constant(_ZERO[kind]) for kind in kinds_of(wanted)]
    if isinstance(wanted, Unfollowed):
        return []
    if isinstance(wanted, Number):
        return [joined_value(builder, given, wanted.kind)]
    if isinstance(wanted, Choice):
        return [_place(builder, wanted, given)]
    if isinstance(wanted, (Maybe, Possible)) and type(given) is not type(wanted):
        missing = given is ABSENT or (isinstance(wanted, Maybe) and given.head == NONE.head)
        rest = matched(builder, wanted.form, ABSENT if missing else given)
        return [builder.constant(not missing), *rest]
    wanted, given = aligned(wanted, given)
    pairs = zip(wanted.parts, given.parts, strict=True)
    return [value for part, other in pairs for value in matched(builder, part, other)]


def _place(builder, wanted: Choice, given: Form) -> Value:
    """The place among the options of `wanted`."""
    places = {shape_of(option): k for k, option in enumerate(wanted.options)}
    if not isinstance(given, Choice):
        return builder.constant(places[shape_of(given)])
    index = converted(builder, given.index, INT)
    found = [places[shape_of(option)] for option in given.options]
    if found == [*range(len(found))]:
        return index
    value = builder.constant(found[0])
    for k, place in enumerate(found[1:], 1):
        here = builder.step("int_equal", index, builder.constant(k))
        value = builder.step("int_select", here, builder.constant(place), value)
    return value
