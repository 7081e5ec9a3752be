"""Items, attributes and methods of what has parts: tuples, lists, dicts, arrays, instances."""

from __future__ import annotations

import dataclasses
import operator

from ..ir.graph import BOOL, FLOAT, INT
from . import arrays, rows
from .errors import Again, Refused
from .forms import (
    NONE,
    Array,
    Form,
    Known,
    Maybe,
    Method,
    Number,
    Ref,
    Row,
    Tuple,
    described,
    is_natural,
)
from .numbers import Raises, arithmetic, compared, converted, folded, is_number, number, truth


def natural(form: Form) -> Form:
    """An integer known not to be negative."""
    return dataclasses.replace(form, natural=True) if isinstance(form, Number) else form


def items_of(reader, form: Form) -> list[Form]:
    """The items of a tuple or list whose items are known one by one."""
    if isinstance(form, Tuple):
        return list(form.items)
    if isinstance(form, Ref) and reader.contents(form).what == "list":
        return list(reader.contents(form).items)
    if isinstance(form, Ref) and reader.contents(form).what == "dict":
        return [Known(key) for key in reader.contents(form).keys]
    if isinstance(form, Known) and isinstance(form.value, (tuple, str, range)):
        return [Known(one) for one in form.value]
    raise Refused(f"{described(form)} where a sequence of known length is needed")


def unpacked(reader, form: Form, count: int) -> list[Form]:
    """So many items; another number raises."""
    if isinstance(form, (Array, Row)):
        given = length(reader, form)
        same = compared(reader.builder, operator.eq, given, Known(count))
        if isinstance(same, Known) and not same.value:
            raise Raises("ValueError: unpacking")
        if isinstance(same, Number):
            reader.builder.check(same.value, "another number of values to unpack")  # type: ignore[arg-type]
        return [element(reader, form, Known(k)) for k in range(count)]
    items = items_of(reader, form)
    if len(items) != count:
        raise Raises("ValueError: unpacking")
    return items


def length(reader, form: Form) -> Form:
    """What `len` gives."""
    if isinstance(form, Array):
        if not form.lengths:
            raise Raises("TypeError: len() of unsized object")
        return form.lengths[0]
    if isinstance(form, Row):
        return rows.length(reader, form)
    if isinstance(form, Known):
        return folded(len, form.value)
    return Known(len(items_of(reader, form)))


def element(reader, form: Form, index: Form) -> Form:
    """An item by a position that is known to be there."""
    if isinstance(form, Array):
        return arrays.item(reader, form, index)
    if isinstance(form, Row):
        return rows.item(reader, form, index)
    raise Refused(f"an item of {described(form)}")


def position(reader, index: Form, count: Form) -> Form:
    """An index as a position from the start, checked to be one."""
    build = reader.builder
    if isinstance(index, Known) and isinstance(index.value, bool):
        raise Refused("an index that is a truth")
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


def get_item(s, owner: Form, index: Form) -> Form:
    """`owner[index]`."""
    reader = s.reader
    if isinstance(owner, Maybe):
        raise Refused("an item of what may be None")
    if isinstance(owner, Known) and isinstance(index, Known):
        if isinstance(owner.value, (tuple, str, range)):
            return folded(operator.getitem, owner.value, index.value)
        raise Refused(f"an item of {described(owner)}, which lies outside of the function")
    if isinstance(owner, Array):
        return arrays.indexed(reader, owner, index)
    if isinstance(owner, Row):
        if _kind(index) != INT:
            raise Refused(f"a list indexed by {described(index)}")
        return rows.item(reader, owner, position(reader, index, rows.length(reader, owner)))
    contents = reader.contents(owner) if isinstance(owner, Ref) else None
    if contents is not None and contents.what == "dict":
        if not isinstance(index, Known):
            raise Refused("a dict with a key that is computed")
        if index.value not in contents.keys:
            raise Raises("KeyError")
        return contents.items[contents.keys.index(index.value)]
    items = items_of(reader, owner)
    if isinstance(index, Known):
        found = _folded_item(items, index.value)
        if not isinstance(found, list):
            return found
        if isinstance(owner, Ref):
            return new_list(reader, s.site, tuple(found))
        return Tuple(tuple(found), s.site)
    if isinstance(owner, Ref):
        raise Again({owner.site}, None)
    return _chosen(reader, items, index)


def _folded_item(items: list, index):
    try:
        return items[index]
    except (IndexError, TypeError) as error:
        raise Raises(f"{type(error).__name__}: {error}") from None


def _chosen(reader, items: list[Form], index: Form) -> Form:
    """An item of a tuple of numbers by a computed index: one of a few."""
    if len(items) > 16 or not all(map(is_number, items)) or _kind(index) != INT:
        raise Refused(f"a tuple of {len(items)} indexed by {described(index)}")
    build = reader.builder
    place = position(reader, index, Known(len(items)))
    kinds = {_kind(one) for one in items}
    kind = FLOAT if FLOAT in kinds else INT if INT in kinds else BOOL
    name = {FLOAT: "float_select", INT: "int_select", BOOL: "bool_select"}[kind]
    made = converted(build, items[-1], kind)
    for k in range(len(items) - 2, -1, -1):
        here = converted(build, compared(build, operator.eq, place, Known(k)), BOOL)
        made = build.step(name, here, converted(build, items[k], kind), made)
    return Number(kind, made, all(isinstance(x, Number) and x.tensor for x in items))


def set_item(reader, owner: Form, index: Form, value: Form) -> None:
    """`owner[index] = value`."""
    if isinstance(owner, Array):
        arrays.assigned(reader, owner, index, value)
        return
    if isinstance(owner, Row):
        place = position(reader, index, rows.length(reader, owner))
        rows.assign(reader, owner, place, value)
        return
    if not isinstance(owner, Ref):
        raise Refused(f"it writes to {described(owner)}")
    contents = reader.contents(owner)
    if contents.what == "dict":
        if not isinstance(index, Known):
            raise Refused("a dict with a key that is computed")
        made = dict(zip(contents.keys, contents.items, strict=True))
        made[index.value] = value
        reader.update(owner, tuple(made), tuple(made.values()))
        return
    if contents.what != "list":
        raise Refused(f"it writes to {described(owner)}")
    if not isinstance(index, Known) or not isinstance(index.value, int):
        raise Again({owner.site}, None)
    items = list(contents.items)
    try:
        items[index.value] = value
    except IndexError as error:
        raise Raises(str(error)) from None
    reader.update(owner, (), tuple(items))


def new_list(reader, site, items: tuple[Form, ...]) -> Form:
    """A list: in the heap, or in the arena if an earlier reading asked for that."""
    if site in reader.choices:
        return rows.new(reader, site, items)
    return reader.make(site, "list", (), items)


def attribute(reader, owner: Form, name: str) -> Form:
    """`owner.name`."""
    if isinstance(owner, Known):
        return reader.outside_attribute(owner.value, name)
    if isinstance(owner, Array):
        return arrays.attribute(reader, owner, name)
    if isinstance(owner, Ref) and reader.contents(owner).what == "instance":
        contents = reader.contents(owner)
        names = contents.keys[1]
        if name in names:
            return contents.items[names.index(name)]
        found = getattr(contents.keys[0], name, None)
        if found is None:
            raise Raises(f"AttributeError: {name}")
        if callable(found):
            return Method(owner, name)
        return reader.outside_attribute(contents.keys[0], name)
    if isinstance(owner, Number) and name in ("real", "T"):
        return owner
    return Method(owner, name)


def set_attribute(reader, owner: Form, name: str, value: Form) -> None:
    """`owner.name = value`."""
    if not (isinstance(owner, Ref) and reader.contents(owner).what == "instance"):
        raise Refused(f"it sets the attribute {name} of what it has not made")
    contents = reader.contents(owner)
    kind, names = contents.keys
    made = dict(zip(names, contents.items, strict=True))
    made[name] = value
    reader.state.heap[owner.site] = dataclasses.replace(
        contents, keys=(kind, tuple(made)), items=tuple(made.values())
    )


def truth_of(reader, form: Form) -> Form:
    """The truth of anything."""
    if isinstance(form, Maybe):
        there = converted(reader.builder, form.there, BOOL)
        inner = converted(reader.builder, truth(reader.builder, form.form), BOOL)
        return number(reader.builder.step("bool_and", there, inner))
    if is_number(form) or isinstance(form, Known):
        return form
    if isinstance(form, Array):
        raise Refused("the truth of an array")
    if isinstance(form, (Row, Tuple)) or (
        isinstance(form, Ref) and reader.contents(form).what in ("list", "dict")
    ):
        return compared(reader.builder, operator.gt, length(reader, form), Known(0))
    raise Refused(f"the truth of {described(form)}")


def operator_of(s, op, a: Form, b: Form):
    """A binary operator of other things than two numbers."""
    reader = s.reader
    if op in (operator.is_, operator.is_not, operator.eq, operator.ne) and NONE.head in (
        a.head,
        b.head,
    ):
        return _is_none(reader, b if a.head == NONE.head else a, op)
    if isinstance(a, Known) and isinstance(b, Known):
        return folded(op, a.value, b.value)
    if isinstance(a, Array) or isinstance(b, Array):
        return arrays.operator_of(reader, op, a, b)
    if op is operator.mul and (_is_list(reader, a) or _is_list(reader, b)):
        sequence, count = (a, b) if _is_list(reader, a) else (b, a)
        return _repeated(s, sequence, count)
    if op is operator.add and _is_list(reader, a) and _is_list(reader, b):
        return new_list(reader, s.site, (*items_of(reader, a), *items_of(reader, b)))
    if op is operator.add and isinstance(a, Tuple) and isinstance(b, Tuple):
        return Tuple((*a.items, *b.items), s.site)
    if op is operator.contains or getattr(op, "__name__", "") == "contains":
        found = [operator_of_equal(reader, item, b) for item in items_of(reader, a)]
        return _any(reader, found)
    raise Refused(f"{op.__name__} of {described(a)} and {described(b)}")


def operator_of_equal(reader, a: Form, b: Form) -> Form:
    if is_number(a) and is_number(b):
        return compared(reader.builder, operator.eq, a, b)
    if isinstance(a, Known) and isinstance(b, Known):
        return Known(a.value == b.value)
    raise Refused("a comparison of other things than numbers")


def _any(reader, found: list[Form]) -> Form:
    if any(isinstance(one, Known) and one.value for one in found):
        return Known(True)
    left = [converted(reader.builder, x, BOOL) for x in found if not isinstance(x, Known)]
    if not left:
        return Known(False)
    value = left[0]
    for one in left[1:]:
        value = reader.builder.step("bool_or", value, one)
    return number(value)


def _is_none(reader, form: Form, op) -> Form:
    is_there = op in (operator.is_not, operator.ne)
    if isinstance(form, Maybe):
        there = converted(reader.builder, form.there, BOOL)
        return number(there if is_there else reader.builder.step("bool_not", there))
    if isinstance(form, Known):
        return Known((form.value is not None) == is_there)
    return Known(is_there)


def _is_list(reader, form: Form) -> bool:
    is_static = isinstance(form, Ref) and reader.contents(form).what == "list"
    return is_static or isinstance(form, Row)


def _repeated(s, sequence: Form, count: Form) -> Form:
    """`[…] * n`."""
    reader, site = s.reader, (*s.site, "*")
    if isinstance(sequence, Row):
        raise Refused("a list made by *, of a list that changes")
    items = items_of(reader, sequence)
    if any(isinstance(one, Ref) for one in items):
        raise Refused("a list made by *, of lists")
    if site not in reader.choices and isinstance(count, Known) and len(items) * count.value <= 32:
        return reader.make(site, "list", (), tuple(items * count.value))
    if site not in reader.choices:
        raise Again({site}, rows.element_of(reader, items))
    if len(items) != 1:
        raise Refused("a list of several items made by *")
    return rows.filled(reader, site, items[0], count)


def unary_of(s, op, form: Form) -> Form:
    """A unary operator of other things than numbers."""
    if isinstance(form, Array):
        return arrays.unary(s.reader, op, form)
    if isinstance(form, Known):
        return folded(op, form.value)
    raise Refused(f"{op} of {described(form)}")


def in_place(s, op, a: Form, b: Form) -> Form | None:
    """`a op= b` of what is changed in place; None for numbers and the like."""
    if isinstance(a, Array):
        return arrays.in_place(s.reader, op, a, b)
    if op is operator.iadd and _is_list(s.reader, a):
        for item in items_of(s.reader, b):
            append(s.reader, a, item)
        return a
    return None


def append(reader, owner: Form, item: Form) -> None:
    """`owner.append(item)`."""
    if isinstance(owner, Row):
        rows.append(reader, owner, item)
        return
    contents = reader.contents(owner)  # type: ignore[arg-type]
    reader.update(owner, (), (*contents.items, item))


def popped(reader, owner: Form, index: Form | None) -> Form:
    """`owner.pop()`."""
    if isinstance(owner, Row):
        if index is not None:
            raise Refused("pop of another item than the last")
        return rows.popped(reader, owner)
    items = list(reader.contents(owner).items)  # type: ignore[arg-type]
    at = -1 if index is None else getattr(index, "value", None)
    if not isinstance(at, int):
        raise Refused("pop at a computed place")
    item = _folded_item(items, at)
    del items[at]
    reader.update(owner, (), tuple(items))
    return item


def _kind(form: Form) -> str | None:
    return form.kind if isinstance(form, (Number, Known)) else None
