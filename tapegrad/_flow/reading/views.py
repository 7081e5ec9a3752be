"""Arrays in the arena: elements, positions, views, writes, loops over elements."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable

import numpy as np

from ..ir.flow_graph import Edge, Value
from ..kinds.step_kinds import BOOL, FLOAT, INT
from .forms import (
    FLOATS,
    NARROW,
    NONE,
    SINGLE,
    Again,
    Array,
    Form,
    Known,
    Method,
    Number,
    Raises,
    Refused,
    Tuple,
    are_known,
    described,
    is_natural,
)
from .numbers import (
    arithmetic,
    compared,
    converted,
    is_number,
    is_tensor,
    kind_of,
    number,
    of_numpy,
    refuse_narrow,
)

# --- Loops that the reader itself puts into the graph: over elements of arrays and lists ----------


def counted(
    builder, count: Value, body: Callable[[Value, list[Value]], list[Value]], carried: list[Value]
) -> list[Value]:
    """`carried = body(k, carried)` for k from 0 to `count`; returns the last carried values."""
    kinds = [one.kind for one in carried]
    head = builder.begin(INT, *kinds)
    zero = builder.constant(0)
    builder.jump(head, zero, *carried)
    builder.block = head
    k, *inside = head.parameters
    round_, after = builder.begin(), builder.begin()
    builder.branch(builder.step("int_less", k, count), Edge(round_, []), Edge(after, []))
    builder.block = round_
    made = body(k, inside)
    builder.jump(head, builder.step("int_add", k, builder.constant(1)), *made)
    builder.block = after
    return inside


def nested(
    builder,
    counts: list[Value],
    body: Callable[[list[Value], list[Value]], list[Value]],
    carried: list[Value],
) -> list[Value]:
    """The same for several counts, the last one innermost; `body` gets all of the indices."""

    def level(done: list[Value], inside: list[Value]) -> list[Value]:
        if len(done) == len(counts):
            return body(done, inside)
        count = counts[len(done)]
        return counted(builder, count, lambda k, now: level([*done, k], now), inside)

    return level([], carried)


# --- Indices and slices as positions from the start, checked --------------------------------------


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
    both = are_known((start, stop, step, length))
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


# --- Arrays in the arena: elements, views, writes, and operands of other lengths ------------------


def product(reader, forms) -> Form:
    made: Form = Known(1)
    for form in forms:
        made = natural(arithmetic(reader.builder, operator.mul, made, form))
    return made


def new(reader, lengths: tuple[Form, ...], element: str = FLOAT) -> Array:
    """An array of zeros."""
    build = reader.builder
    words = converted(build, product(reader, lengths), INT)
    address = build.step("allocate", words)
    region = reader.row_region("array", element, FLOAT if element in FLOATS else INT)
    return Array(number(address), lengths, strides_of(reader, lengths), region, element)


def strides_of(reader, lengths) -> tuple[Form, ...]:
    """Strides in C order, in words."""
    found: list[Form] = []
    step: Form = Known(1)
    for length in reversed(lengths):
        found.insert(0, step)
        step = arithmetic(reader.builder, operator.mul, step, length)
    return tuple(found)


def _moved(reader, address: Form, position: Form, stride: Form) -> Form:
    offset = arithmetic(reader.builder, operator.mul, position, stride)
    return arithmetic(reader.builder, operator.add, address, offset)


def item(reader, array: Array, position: Form) -> Form:
    """`array[position]`, of a position that is there."""
    address = _moved(reader, array.address, position, array.strides[0])
    part = dataclasses.replace(
        array, address=address, lengths=array.lengths[1:], strides=array.strides[1:]
    )
    return part if part.lengths else loaded(reader, part)


def turned(reader, array: Array, last: Form) -> Array:
    """The array with its first axis reversed; `last` is the position of the last item."""
    address = _moved(reader, array.address, last, array.strides[0])
    back = arithmetic(reader.builder, operator.mul, array.strides[0], Known(-1))
    return dataclasses.replace(array, address=address, strides=(back, *array.strides[1:]))


def loaded(reader, array: Array) -> Form:
    """The element of an array without dimensions."""
    build = reader.builder
    value = build.load(array.region, converted(build, array.address, INT))
    if array.element in FLOATS:
        return Number(array.element, value, not array.plain)
    if array.element == NARROW:
        return Number(INT, build.step("float_to_int", value), strong=True)
    if array.element == INT:
        value = build.step("float_to_int", value) if array.as_doubles else value
    else:
        is_set = compared(build, operator.ne, number(value), Known(0))
        value = converted(build, is_set, BOOL)
    return of_numpy(build, array.element, value)


def stored(reader, array: Array, form: Form) -> None:
    if (site := reader.constant_sites.get(array.region)) is not None:
        raise Again({site}, None)
    if not array.writable or array.as_doubles:
        raise Refused("it writes to an array that it is given as data of another type")
    if array.plain and is_tensor(form):
        raise Raises("TypeError: a tensor is written to a NumPy array")
    build = reader.builder
    refuse_narrow(build, form)
    value = converted(build, form, array.element)
    if value.kind == BOOL:
        value = build.step("bool_to_int", value)
    build.store(array.region, converted(build, array.address, INT), value)


def indexed(reader, array: Array, index: Form) -> Form:
    """`array[index]`: an element, or a view."""
    part = view(reader, array, index)
    return part if part.lengths or _has_ellipsis(index) else loaded(reader, part)


def _has_ellipsis(index: Form) -> bool:
    parts = index.items if isinstance(index, Tuple) else (index,)
    return any(isinstance(one, Known) and one.value is Ellipsis for one in parts)


def view(reader, array: Array, index: Form) -> Array:
    """The part of an array that an index of integers and slices names."""
    parts = parts_of(array, index)
    address = array.address
    lengths: list[Form] = []
    strides: list[Form] = []
    rest = list(zip(array.lengths, array.strides, strict=True))
    for one in parts:
        if isinstance(one, Known) and one.value is None:
            lengths.append(Known(1))
            strides.append(Known(0))
            continue
        if not rest:
            raise Raises("IndexError: too many indices")
        length, stride = rest.pop(0)
        if is_slice(one):
            start, count, step = sliced(reader, one, length)
            address = _moved(reader, address, start, stride)
            lengths.append(count)
            strides.append(arithmetic(reader.builder, operator.mul, stride, step))
        elif is_number(one) and one.kind == INT:
            place = position(reader, one, length)
            address = _moved(reader, address, place, stride)
        else:
            raise Refused(f"an array indexed by {described(one)}")
    lengths += [length for length, _ in rest]
    strides += [stride for _, stride in rest]
    return dataclasses.replace(
        array, address=address, lengths=tuple(lengths), strides=tuple(strides)
    )


def parts_of(array: Array, index: Form) -> tuple[Form, ...]:
    """The parts of an index, with a slice for each axis that `...` stands for."""
    if isinstance(index, Known) and isinstance(index.value, tuple):
        index = Tuple(tuple(map(Known, index.value)))
    parts = index.items if isinstance(index, Tuple) else (index,)
    known = [isinstance(one, Known) and one.value is Ellipsis for one in parts]
    if True not in known:
        return parts
    if known.count(True) > 1:
        raise Raises("IndexError: an index can only have a single ellipsis")
    at = known.index(True)
    axes = sum([not (isinstance(one, Known) and one.value in (None, Ellipsis)) for one in parts])
    whole = [Known(slice(None))] * (len(array.lengths) - axes)
    return *parts[:at], *whole, *parts[at + 1 :]


def fill(reader, lengths, target: Array, value: Form) -> None:
    build = reader.builder

    def body(indices: list[Value], _: list) -> list:
        places = [Number(INT, k, natural=True) for k in indices]
        stored(reader, element(reader, target, places), of(reader, value, places))
        return []

    nested(build, [converted(build, one, INT) for one in lengths], body, [])


def element(reader, array: Array, places: list) -> Array:
    address = array.address
    for place, stride in zip(places, array.strides, strict=True):
        address = _moved(reader, address, place, stride)
    return dataclasses.replace(array, address=address, lengths=(), strides=())


def of(reader, form: Form, places: list) -> Form:
    if not isinstance(form, Array):
        return form
    return loaded(reader, element(reader, form, places))


def broadcast(reader, form: Form, lengths: tuple[Form, ...]) -> Form:
    """An operand with the lengths of a result, which it must fit."""
    if not isinstance(form, Array):
        return form
    missing = len(lengths) - len(form.lengths)
    if missing < 0:
        raise Raises("ValueError: could not broadcast")
    strides: list[Form] = [Known(0)] * missing
    for own, stride, length in zip(form.lengths, form.strides, lengths[missing:], strict=True):
        if isinstance(own, Known) and own.value == 1:
            strides.append(Known(0))
            continue
        same_length(reader, own, length)
        strides.append(stride)
    return dataclasses.replace(form, lengths=lengths, strides=tuple(strides))


def same_length(reader, a: Form, b: Form) -> None:
    same = compared(reader.builder, operator.eq, a, b)
    if isinstance(same, Known):
        if not same.value:
            raise Raises("ValueError: could not broadcast")
        return
    reader.builder.check(same.value, "arrays of other lengths")


def common(reader, forms: list[Form]) -> tuple[Form, ...]:
    """The lengths of an element-wise result."""
    arrays = [form for form in forms if isinstance(form, Array)]
    ndim = max(len(one.lengths) for one in arrays)
    found: list[Form] = []
    for axis in range(ndim):
        lengths = [
            one.lengths[axis - ndim + len(one.lengths)]
            for one in arrays
            if axis - ndim + len(one.lengths) >= 0
        ]
        others = [x for x in lengths if not (isinstance(x, Known) and x.value == 1)]
        found.append(others[0] if others else Known(1))
    return tuple(found)


def attribute(reader, a: Array, name: str) -> Form:
    """`array.name`."""
    if name == "shape":
        return Tuple(a.lengths)
    if name == "ndim":
        return Known(len(a.lengths))
    if name == "size":
        return product(reader, a.lengths)
    if name == "dtype" and a.element in FLOATS:
        return Known(np.dtype(np.float32 if a.element == SINGLE else np.float64))
    if name == "T":
        return dataclasses.replace(a, lengths=a.lengths[::-1], strides=a.strides[::-1])
    return Method(a, name)
