"""Arrays in the arena: elements, views, writes, and operands of other lengths."""

from __future__ import annotations

import dataclasses
import operator

import numpy as np

from ..ir.flow_graph import Value
from ..kinds.step_kinds import BOOL, FLOAT, INT
from . import loops
from .errors import Again, Raises, Refused
from .forms import (
    FLOATS,
    NARROW,
    SINGLE,
    Array,
    Form,
    Known,
    Method,
    Number,
    Tuple,
    described,
)
from .numbers import (
    arithmetic,
    compared,
    converted,
    is_number,
    is_tensor,
    number,
    of_numpy,
    refuse_narrow,
)
from .positions import is_slice, natural, position, sliced


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
        elif is_number(one) and one.kind == INT:  # type: ignore[attr-defined]
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

    loops.nested(build, [converted(build, one, INT) for one in lengths], body, [])


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
    reader.builder.check(same.value, "arrays of other lengths")  # type: ignore[attr-defined]


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
