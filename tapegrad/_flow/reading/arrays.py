"""Arrays in the arena: items, views, writes, element-wise operations and sums as loops."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable

from ..ir.graph import BOOL, FLOAT, INT, Value
from . import access, loops
from .errors import Refused
from .forms import Array, Form, Known, Method, Number, Tuple, described
from .numbers import (
    Raises,
    arithmetic,
    compared,
    converted,
    is_number,
    negative,
    number,
)


def _product(reader, forms) -> Form:
    made: Form = Known(1)
    for form in forms:
        made = access.natural(arithmetic(reader.builder, operator.mul, made, form))
    return made


def new(reader, lengths: tuple[Form, ...], element: str = FLOAT) -> Array:
    """An array of zeros."""
    build = reader.builder
    words = converted(build, _product(reader, lengths), INT)
    address = build.step("allocate", words)
    region = reader.row_region("array", element, FLOAT if element == FLOAT else INT)
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


def loaded(reader, array: Array) -> Form:
    """The element of an array without dimensions."""
    build = reader.builder
    value = build.load(array.region, converted(build, array.address, INT))
    if array.element == FLOAT:
        return Number(FLOAT, value, True)
    if array.as_doubles:
        if array.element == BOOL:
            return compared(build, operator.ne, Number(FLOAT, value), Known(0.0))
        return number(build.step("float_to_int", value))
    if array.element == BOOL:
        return compared(build, operator.ne, number(value), Known(0))
    return number(value)


def _stored(reader, array: Array, form: Form) -> None:
    if not array.writable or array.as_doubles:
        raise Refused("it writes to an array that it is given as data of another type")
    build = reader.builder
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
    if isinstance(index, Known) and isinstance(index.value, tuple):
        index = Tuple(tuple(map(Known, index.value)))
    parts = index.items if isinstance(index, Tuple) else (index,)
    address, lengths, strides = array.address, [], []
    rest = list(zip(array.lengths, array.strides, strict=True))
    for one in parts:
        if isinstance(one, Known) and one.value is None:
            lengths.append(Known(1))
            strides.append(Known(0))
            continue
        if not rest:
            raise Raises("IndexError: too many indices")
        length, stride = rest.pop(0)
        if _is_slice(one):
            start, count, step = _sliced(reader, one, length)
            address = _moved(reader, address, start, stride)
            lengths.append(count)
            strides.append(arithmetic(reader.builder, operator.mul, stride, step))
        elif is_number(one) and one.kind == INT:  # type: ignore[attr-defined]
            place = access.position(reader, one, length)
            address = _moved(reader, address, place, stride)
        else:
            raise Refused(f"an array indexed by {described(one)}")
    lengths += [length for length, _ in rest]
    strides += [stride for _, stride in rest]
    return dataclasses.replace(
        array, address=address, lengths=tuple(lengths), strides=tuple(strides)
    )


def _is_slice(form: Form) -> bool:
    if isinstance(form, Known):
        return isinstance(form.value, slice)
    return isinstance(form, Method) and form.name == "slice"


def _sliced(reader, form: Form, length: Form) -> tuple[Form, Form, Form]:
    """Start, number and step of what a slice names."""
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
    both = all(isinstance(x, Known) for x in (start, stop, step, length))
    if not both:
        raise Refused("a slice with a step, of a length that is computed")
    indices = range(length.value)[slice(start.value, stop.value, step.value)]  # type: ignore[attr-defined]
    return Known(indices.start if len(indices) else 0), Known(len(indices)), Known(indices.step)


def _bound(reader, given: Form, length: Form, default: Form) -> Form:
    """An end of a slice as a position from 0 to the length."""
    if isinstance(given, Known) and given.value is None:
        return default
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


def assigned(reader, array: Array, index: Form, value: Form) -> None:
    """`array[index] = value`."""
    target = view(reader, array, index)
    if isinstance(value, Array):
        value = mapped(reader, lambda x: x, value)  # what is read may be what is written
        value = broadcast(reader, value, target.lengths)
    _each(reader, target.lengths, target, value)


def _each(reader, lengths, target: Array, value: Form) -> None:
    build = reader.builder

    def body(indices: list[Value], _: list) -> list:
        places = [Number(INT, k, natural=True) for k in indices]
        _stored(reader, _element(reader, target, places), _of(reader, value, places))
        return []

    loops.nested(build, [converted(build, one, INT) for one in lengths], body, [])


def _element(reader, array: Array, places: list) -> Array:
    address = array.address
    for place, stride in zip(places, array.strides, strict=True):
        address = _moved(reader, address, place, stride)
    return dataclasses.replace(array, address=address, lengths=(), strides=())


def _of(reader, form: Form, places: list) -> Form:
    if not isinstance(form, Array):
        return form
    return loaded(reader, _element(reader, form, places))


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
        _same_length(reader, own, length)
        strides.append(stride)
    return dataclasses.replace(form, lengths=lengths, strides=tuple(strides))


def _same_length(reader, a: Form, b: Form) -> None:
    same = compared(reader.builder, operator.eq, a, b)
    if isinstance(same, Known):
        if not same.value:
            raise Raises("ValueError: could not broadcast")
        return
    reader.builder.check(same.value, "arrays of other lengths")  # type: ignore[attr-defined]


def _common(reader, forms: list[Form]) -> tuple[Form, ...]:
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


def mapped(reader, function: Callable[..., Form], *forms: Form) -> Array:
    """A new array with `function` of the elements of arrays and numbers."""
    lengths = _common(reader, list(forms))
    operands = [broadcast(reader, form, lengths) for form in forms]
    kind = _result_kind(reader, function, operands)
    made = new(reader, lengths, kind)
    build = reader.builder

    def body(indices: list[Value], _: list) -> list:
        places = [Number(INT, k, natural=True) for k in indices]
        result = function(*[_of(reader, one, places) for one in operands])
        _stored(reader, _element(reader, made, places), result)
        return []

    loops.nested(build, [converted(build, one, INT) for one in lengths], body, [])
    return made


def _result_kind(reader, function: Callable[..., Form], operands: list) -> str:
    """The kind of the elements that a function gives; what it puts into the graph is dropped."""
    from ..ir.graph import Block

    block, reader.builder.block = reader.builder.block, Block(-1)
    try:
        samples = [
            Number(x.element, reader.graph.value(x.element), True) if isinstance(x, Array) else x
            for x in operands
        ]
        result = function(*samples)
    finally:
        reader.builder.block = block
    kind = getattr(result, "kind", None)
    if kind is None:
        raise Refused(f"an array of {described(result)}")
    return kind


def operator_of(reader, op, a: Form, b: Form) -> Form:
    """A binary operator with an array."""
    if op is operator.matmul:
        return matmul(reader, a, b)
    for one in (a, b):
        if not (isinstance(one, Array) or is_number(one)):
            raise Refused(f"{op.__name__} of {described(a)} and {described(b)}")
    build = reader.builder
    from .numbers import COMPARISONS

    if op in COMPARISONS:
        return mapped(reader, lambda x, y: compared(build, op, x, y), a, b)
    return mapped(reader, lambda x, y: arithmetic(build, op, _quiet(x), _quiet(y)), a, b)


def _quiet(form: Form) -> Form:
    """An operand of an operation of NumPy's: it raises nothing."""
    if isinstance(form, Number) and form.kind == FLOAT:
        return dataclasses.replace(form, tensor=True)
    return form


def in_place(reader, op, a: Array, b: Form) -> Array:
    """`a op= b`."""
    from .statements import _INPLACE

    result = operator_of(reader, _INPLACE[op], a, b)
    if not isinstance(result, Array) or len(result.lengths) != len(a.lengths):
        raise Raises("ValueError: could not broadcast")
    _each(reader, a.lengths, a, broadcast(reader, result, a.lengths))
    return a


def unary(reader, op, a: Array) -> Form:
    if op in (operator.neg, "-"):
        return mapped(reader, lambda x: negative(reader.builder, x), a)
    if op in (operator.pos, "+"):
        return mapped(reader, lambda x: x, a)
    raise Refused(f"{op} of an array")


def summed(reader, a: Array) -> Form:
    """The sum of all elements."""
    build = reader.builder
    if a.element == BOOL:
        zero: Form = Known(0)
    else:
        zero = Known(0.0 if a.element == FLOAT else 0)

    def body(indices: list[Value], carried: list[Value]) -> list[Value]:
        places = [Number(INT, k, natural=True) for k in indices]
        total = number(carried[0])
        made = arithmetic(build, operator.add, total, _of(reader, a, places))
        return [made.value]  # type: ignore[attr-defined]

    counts = [converted(build, one, INT) for one in a.lengths]
    kind = FLOAT if a.element == FLOAT else INT
    found = loops.nested(build, counts, body, [converted(build, zero, kind)])
    return Number(kind, found[0], kind == FLOAT)


def mean(reader, a: Array) -> Form:
    size = _product(reader, a.lengths)
    total = summed(reader, a)
    return arithmetic(reader.builder, operator.truediv, _quiet(total), size)


def matmul(reader, a: Form, b: Form) -> Form:
    """The product of vectors and matrices."""
    if not (isinstance(a, Array) and isinstance(b, Array)):
        raise Refused(f"a matrix product of {described(a)} and {described(b)}")
    if len(a.lengths) not in (1, 2) or len(b.lengths) not in (1, 2):
        raise Refused("a product of stacks of matrices")
    build = reader.builder
    rows = a.lengths[:-1]
    columns = b.lengths[1:]
    _same_length(reader, a.lengths[-1], b.lengths[0])
    depth = converted(build, a.lengths[-1], INT)

    def dot(places: list) -> Form:
        first, second = places[: len(rows)], places[len(rows) :]

        def body(k: Value, carried: list[Value]) -> list[Value]:
            here = Number(INT, k, natural=True)
            x = _of(reader, a, [*first, here])
            y = _of(reader, b, [here, *second])
            made = arithmetic(build, operator.mul, x, y)
            total = arithmetic(build, operator.add, Number(FLOAT, carried[0]), made)
            return [converted(build, total, FLOAT)]

        found = loops.counted(build, depth, body, [build.constant(0.0)])
        return Number(FLOAT, found[0], True)

    lengths = (*rows, *columns)
    if not lengths:
        return dot([])
    made = new(reader, lengths)

    def each(indices: list[Value], _: list) -> list:
        places = [Number(INT, k, natural=True) for k in indices]
        _stored(reader, _element(reader, made, places), dot(places))
        return []

    loops.nested(build, [converted(build, one, INT) for one in lengths], each, [])
    return made


def attribute(reader, a: Array, name: str) -> Form:
    """`array.name`."""
    if name == "shape":
        return Tuple(a.lengths)
    if name == "ndim":
        return Known(len(a.lengths))
    if name == "size":
        return _product(reader, a.lengths)
    if name == "T":
        return dataclasses.replace(a, lengths=a.lengths[::-1], strides=a.strides[::-1])
    return Method(a, name)
