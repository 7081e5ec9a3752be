"""Python lists in the arena: their length, capacity and data are found by their handle."""

from __future__ import annotations

import operator

import numpy as np

from ..ir.flow_graph import Edge, Value
from ..kinds.step_kinds import FLOAT, INT
from . import views
from .forms import (
    NONE,
    NOTHING,
    Again,
    ArenaList,
    Choice,
    Form,
    Known,
    Number,
    Raises,
    Ref,
    Refused,
    Tuple,
    Unfollowed,
    bound,
    described,
    kinds_of,
    shape_of,
    unbound,
)
from .joins import element_joined, is_option, joined, matched
from .numbers import EXACT, arithmetic, converted, number
from .views import clamped, position

# --- Lists of numbers from outside as words of memory: the data of a list in the arena ------------


#: Integers of the kind that graphs compute with.
_LARGEST = 2**62


def words_of(items: tuple[Form, ...], wanted: Form | None) -> tuple[Form, np.ndarray] | None:
    """The form of the items, which holds `wanted` too, and their words; None if there is none.

    Items are numbers, or tuples of these. An integer or a truth is a word that is no float.
    """
    element = wanted
    try:
        for one in {shape_of(form): form for form in map(_lifted_list, items)}.values():
            element = element_joined(element, one, _one_region)
    except Refused:
        return None
    if element is None or not _is_of_numbers(element):
        return None
    kinds = kinds_of(element)
    words = np.zeros((len(items), len(kinds)))
    columns = zip(*map(_values, items), strict=True) if items else [()] * len(kinds)
    for k, (kind, column) in enumerate(zip(kinds, columns, strict=True)):
        if kind == FLOAT:
            if any([type(x) is int and abs(x) > EXACT for x in column]):
                return None
            words[:, k] = list(map(float, column))
        elif max(map(abs, column), default=0) >= _LARGEST:
            return None
        else:
            words.view(np.int64)[:, k] = list(map(int, column))
    return element, words.reshape(-1)


def _one_region(a: int, b: int) -> None:
    """Numbers are in no memory of their own."""


def _lifted_list(form: Form) -> Form:
    if isinstance(form, Known) and form.kind is not None:
        return Number(form.kind, None)
    if isinstance(form, Tuple):
        return form.with_parts(tuple(map(_lifted_list, form.items)))
    raise Refused("an item that is no number")


def _is_of_numbers(form: Form) -> bool:
    if isinstance(form, Tuple):
        return all(map(_is_of_numbers, form.items))
    return isinstance(form, Number)


def _values(form: Form) -> list:
    if isinstance(form, Known):
        return [form.value]
    return [value for part in form.parts for value in _values(part)]


# --- Python lists in the arena: their length, capacity and data are found by their handle ---------


_LENGTH, _ROOM, _DATA, _HEAD = 0, 1, 2, 3


def element_of(reader, items: list[Form]) -> Form | None:
    """The form that all items have, without values."""
    found: Form | None = None
    for item in items:
        form = _lifted(reader, item)
        found = form if found is None else unbound(joined(found, form, reader.unite))
    return found


def _lifted(reader, form: Form) -> Form:
    if isinstance(form, Known) and form.kind is not None:
        return Number(form.kind, None)
    if isinstance(form, (Number, ArenaList)):
        return _plain(unbound(form))
    if isinstance(form, Tuple):
        return form.with_parts(tuple([_lifted(reader, one) for one in form.items]))
    if isinstance(form, (Choice, Unfollowed)) or form.head == NONE.head:
        return unbound(form)
    if isinstance(form, Ref) and form.what == "list":
        raise Again({form.site}, None)
    if is_option(form):
        return Choice(Number(INT, None), (form,))
    raise Refused(f"a list of {described(form)}")


def _plain(form: Form) -> Form:
    if isinstance(form, Number):
        return Number(form.kind, None, mixed=form.mixed, strong=form.strong)
    return form


def new(reader, site, items: tuple[Form, ...]) -> ArenaList:
    """A list with items."""
    element = reader.choices[site]
    if items:
        own = element_of(reader, list(items))
        _check_fits(reader, {site}, element, own)
    return with_items(reader, site, element or NOTHING, items)


def with_items(reader, site, element: Form, items: tuple[Form, ...]) -> ArenaList:
    """A list of items that fit the form of its elements."""
    made = _allocated(reader, site, element, Known(len(items)), Known(max(len(items), 4)))
    for k, item in enumerate(items):
        _set(reader, made, Known(k), item)
    return made


def _check_fits(reader, sites, element: Form | None, own: Form | None) -> None:
    """Restart if an item has another form than those seen so far."""
    widest = element_joined(element, own, reader.unite)
    if element is None or shape_of(widest) != shape_of(element):  # type: ignore[arg-type]
        raise Again(set(sites), widest)


def filled(reader, site, item: Form, count: Form) -> ArenaList:
    """`[item] * count`."""
    element = reader.choices[site]
    own = element_of(reader, [item])
    _check_fits(reader, {site}, element, own)
    build = reader.builder
    size = converted(build, count, INT)
    zero = build.constant(0)
    size = build.step("int_max", size, zero)
    form = number(size)
    made = _allocated(reader, site, element, form, form)
    if not (isinstance(item, Known) and repr(item.value) in ("0", "0.0", "False")):

        def body(k: Value, _: list) -> list:
            _set(reader, made, Number(INT, k, natural=True), item)
            return []

        views.counted(build, size, body, [])
    return made


def copied(reader, site, *parts: tuple[ArenaList, Form, Form, Form]) -> ArenaList:
    """A list of items of others; of each the first place, the number of items, and the step."""
    build = reader.builder
    element: Form | None = reader.choices.get(site)
    total: Form = Known(0)
    for row, _, count, _ in parts:
        element = element_joined(element, row.element, reader.unite)
        total = arithmetic(build, operator.add, total, count)
    made = _allocated(reader, site, element or NOTHING, total, total)
    before: Form = Known(0)
    for row, first, count, step in parts:
        if row.element is not NOTHING:
            _copy(reader, made, before, (row, first, count, step))
        before = arithmetic(build, operator.add, before, count)
    return made


def _copy(reader, made: ArenaList, before: Form, part: tuple[ArenaList, Form, Form, Form]) -> None:
    build, (row, first, count, step) = reader.builder, part

    def body(k: Value, _: list) -> list:
        index = Number(INT, k, natural=True)
        place = arithmetic(build, operator.add, first, arithmetic(build, operator.mul, index, step))
        target = arithmetic(build, operator.add, before, index)
        _set(reader, made, target, item(reader, row, place))
        return []

    views.counted(build, converted(build, count, INT), body, [])


def whole(reader, row: ArenaList) -> tuple[ArenaList, Form, Form, Form]:
    """All items of a list, as `copied` takes them."""
    return row, Known(0), length(reader, row), Known(1)


def extended(reader, row: ArenaList, other: ArenaList) -> None:
    """`row.extend(other)`."""

    def body(k: Value, _: list) -> list:
        append(reader, row, item(reader, other, Number(INT, k, natural=True)))
        return []

    if other.element is not NOTHING:
        views.counted(reader.builder, length(reader, other).value, body, [])  # type: ignore[arg-type]


def _allocated(reader, site, element: Form, count: Form, room: Form) -> ArenaList:
    build = reader.builder
    width = max(len(kinds_of(element)), 1)
    words = arithmetic(build, operator.mul, room, Known(width))
    data = build.step("allocate", converted(build, words, INT))
    return with_data(reader, site, element, (count, room, number(data)))


def with_data(reader, site, element: Form, parts: tuple[Form, Form, Form]) -> ArenaList:
    """A list whose length, capacity, and address of its data are given."""
    build = reader.builder
    handle = build.step("allocate", build.constant(_HEAD))
    head = reader.row_region("head", INT)
    for place, form in zip((_LENGTH, _ROOM, _DATA), parts, strict=True):
        build.store(head, _at(build, handle, place), converted(build, form, INT))
    return ArenaList(number(handle), element, frozenset({site}))


def _at(build, address: Value, offset: int) -> Value:
    return build.step("int_add", address, build.constant(offset)) if offset else address


def _word(reader, row: ArenaList, place: int) -> Value:
    build = reader.builder
    address = _at(build, converted(build, row.handle, INT), place)
    return build.load(reader.row_region("head", INT), address)


def length(reader, row: ArenaList) -> Number:
    return Number(INT, _word(reader, row, _LENGTH), natural=True)


def _places(reader, row: ArenaList, position: Form) -> list[tuple[int, Value]]:
    """Region and address of each number of an element."""
    build, kinds = reader.builder, kinds_of(row.element)
    data = _word(reader, row, _DATA)
    offset = (
        converted(build, arithmetic(build, operator.mul, position, Known(len(kinds))), INT)
        if len(kinds) != 1
        else converted(build, position, INT)
    )
    first = build.step("int_add", data, offset)
    shape = shape_of(row.element)
    found = []
    for k, kind in enumerate(kinds):
        region = reader.row_region(shape, k, "f" if kind == "f" else INT)
        found.append((region, _at(build, first, k)))
    return found


def item(reader, row: ArenaList, position: Form) -> Form:
    """The item at a position that is there."""
    if row.element is NOTHING:
        raise Raises("IndexError: list index out of range")
    build, values = reader.builder, []
    kinds = kinds_of(row.element)
    for (region, address), kind in zip(_places(reader, row, position), kinds, strict=True):
        value = build.load(region, address)
        if kind == "b":
            value = build.step("bool_not", build.step("int_equal", value, build.constant(0)))
        values.append(value)
    return bound(row.element, iter(values))


def assign(reader, row: ArenaList, position: Form, form: Form) -> None:
    """Set the item at a position that is there."""
    _check_changeable(row)
    _set(reader, row, position, form)


def _check_changeable(row: ArenaList) -> None:
    if row.is_given:
        raise Refused("it changes a list that is an argument or from outside")


def _set(reader, row: ArenaList, position: Form, form: Form) -> None:
    own = _lifted(reader, form)
    _check_fits(reader, row.sites, row.element, own)
    values = matched(reader.builder, row.element, form)
    for (region, address), value in zip(_places(reader, row, position), values, strict=True):
        if value.kind == "b":
            value = reader.builder.step("bool_to_int", value)
        reader.builder.store(region, address, value)


def append(reader, row: ArenaList, form: Form) -> None:
    """Add an item at the end; if there is no room the items move."""
    _check_changeable(row)
    own = _lifted(reader, form)
    _check_fits(reader, row.sites, row.element, own)
    build, head = reader.builder, reader.row_region("head", INT)
    handle = converted(build, row.handle, INT)
    count, room = _word(reader, row, _LENGTH), _word(reader, row, _ROOM)
    grow, after = build.begin(), build.begin()

    build.branch(build.step("int_less", count, room), Edge(after, []), Edge(grow, []))
    build.block = grow
    _grown(reader, row, handle, count, room)
    build.jump(after)
    build.block = after
    more = build.step("int_add", count, build.constant(1))
    build.store(head, _at(build, handle, _LENGTH), more)
    _set(reader, row, Number(INT, count, natural=True), form)


def _grown(reader, row: ArenaList, handle: Value, count: Value, room: Value) -> None:
    build, head = reader.builder, reader.row_region("head", INT)
    kinds = kinds_of(row.element)
    wider = build.step(
        "int_add", build.step("int_multiply", room, build.constant(2)), build.constant(4)
    )
    words = build.step("int_multiply", wider, build.constant(max(len(kinds), 1)))
    data = build.step("allocate", words)
    old = _word(reader, row, _DATA)
    shape = shape_of(row.element)
    for k, kind in enumerate(kinds):
        region = reader.row_region(shape, k, "f" if kind == "f" else INT)

        def body(j: Value, _: list, k=k, region=region) -> list:
            offset = build.step("int_multiply", j, build.constant(len(kinds)))
            source = _at(build, build.step("int_add", old, offset), k)
            target = _at(build, build.step("int_add", data, offset), k)
            build.store(region, target, build.load(region, source))
            return []

        views.counted(build, count, body, [])
    build.store(head, _at(build, handle, _ROOM), wider)
    build.store(head, _at(build, handle, _DATA), data)


def _moved(reader, row: ArenaList, first: Value, last: Value, by: int) -> None:
    """Move the items from `first` up to `last`, which is not one of them, by one place.

    `by` is 1 for the place after, -1 for the place before.
    """
    build = reader.builder
    start = build.step("int_subtract", last, build.constant(1)) if by > 0 else first

    def body(j: Value, _: list) -> list:
        here = build.step("int_subtract" if by > 0 else "int_add", start, j)
        there = build.step("int_add", here, build.constant(by))
        places = [_places(reader, row, number(one)) for one in (here, there)]
        for (region, source), (_, target) in zip(*places, strict=True):
            build.store(region, target, build.load(region, source))
        return []

    views.counted(build, build.step("int_subtract", last, first), body, [])


def emptied(reader, row: ArenaList) -> None:
    """All items go."""
    _check_changeable(row)
    build = reader.builder
    at = _at(build, converted(build, row.handle, INT), _LENGTH)
    build.store(reader.row_region("head", INT), at, build.constant(0))


def popped(reader, row: ArenaList, index: Form) -> Form:
    """The item at an index, which is removed; those after it move."""
    _check_changeable(row)
    build = reader.builder
    count = length(reader, row)
    place = position(reader, index, count)
    found = item(reader, row, place)
    left = build.step("int_subtract", count.value, build.constant(1))
    if not (isinstance(index, Known) and index.value == -1):
        after = build.step("int_add", converted(build, place, INT), build.constant(1))
        _moved(reader, row, after, count.value, -1)  # type: ignore[arg-type]
    handle = converted(build, row.handle, INT)
    build.store(reader.row_region("head", INT), _at(build, handle, _LENGTH), left)
    return found


def inserted(reader, row: ArenaList, index: Form, form: Form) -> None:
    """Put an item before an index; one that is too small or large means an end."""
    build = reader.builder
    count = length(reader, row)
    place = clamped(reader, index, count)
    append(reader, row, form)  # makes room
    _moved(reader, row, converted(build, place, INT), count.value, 1)  # type: ignore[arg-type]
    _set(reader, row, place, form)
