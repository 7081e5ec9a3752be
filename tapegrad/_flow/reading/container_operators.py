"""Operators of other things than two numbers."""

from __future__ import annotations

import operator

from ..._core.tensor.dependencies import is_open, method_dependencies
from ..kinds.step_kinds import BOOL, INT
from . import arena_lists, array_arithmetic, dicts, outside_changes
from .access import folded_item, is_fixed, items_of, length, new_list
from .errors import Again, Refused
from .forms import (
    NONE,
    Array,
    Choice,
    Form,
    Function,
    Known,
    Maybe,
    Number,
    Ref,
    Row,
    Tuple,
    described,
)
from .joins import is_option
from .numbers import (
    compared,
    converted,
    folded,
    is_number,
    kind_of,
    number,
    truth,
)
from .unfollowed import dependence


def truth_of(reader, form: Form) -> Form:
    """The truth of anything."""
    if (form_ := outside_changes.unfollowed(reader, form)) is not None:
        raise dependence("a branch", form_)
    if isinstance(form, Maybe):
        there = converted(reader.builder, form.there, BOOL)
        inner = converted(reader.builder, truth(reader.builder, form.form), BOOL)
        return number(reader.builder.step("bool_and", there, inner))
    if is_number(form):
        return form
    if isinstance(form, Known):
        if is_fixed(form.value) or _has_no(reader, form.value, "__bool__", "__len__"):
            return Known(bool(form.value))
        raise Refused(f"the truth of {described(form)}")
    if isinstance(form, Array):
        raise Refused("the truth of an array")
    if isinstance(form, (Row, Tuple)) or (is_list(reader, form) or dicts.is_dict(reader, form)):
        return compared(reader.builder, operator.gt, length(reader, form), Known(0))
    raise Refused(f"the truth of {described(form)}")


def operator_of(s, op, a: Form, b: Form):
    """A binary operator of other things than two numbers."""
    reader = s.reader
    is_contains = getattr(op, "__name__", "") == "contains"
    if is_contains and (made := s.special(a, "__contains__", b)) is not None:
        return made
    is_asked = op in (operator.is_, operator.is_not, operator.eq, operator.ne)
    if is_asked and NONE.head in (a.head, b.head):
        return _is_none(reader, b if a.head == NONE.head else a, op)
    if isinstance(a, Known) and isinstance(b, Known):
        return _of_known(reader, op, a.value, b.value)
    if op in (operator.is_, operator.is_not) and (same := _are_one(a, b)) is not None:
        return Known(same == (op is operator.is_))
    if op in (operator.eq, operator.ne) and (isinstance(a, Choice) or isinstance(b, Choice)):
        return _is_chosen(reader, op, *((a, b) if isinstance(a, Choice) else (b, a)))
    if isinstance(a, Array) or isinstance(b, Array):
        return array_arithmetic.operator_of(reader, op, a, b)
    if op is operator.mul and (is_list(reader, a) or is_list(reader, b)):
        sequence, count = (a, b) if is_list(reader, a) else (b, a)
        return _repeated(s, sequence, count)
    if op is operator.add and is_list(reader, a) and is_list(reader, b):
        if isinstance(a, Row) or isinstance(b, Row):
            return _added(s, a, b)
        return new_list(reader, s.site, (*items_of(reader, a), *items_of(reader, b)))
    if op is operator.add and isinstance(a, Tuple) and isinstance(b, Tuple):
        return Tuple((*a.items, *b.items), s.site)
    if is_contains:
        if dicts.is_dict(reader, a):
            return dicts.contains(reader, a, b)
        found = [operator_of_equal(reader, item, b) for item in items_of(reader, a)]
        return _any(reader, found)
    raise Refused(f"{op.__name__} of {described(a)} and {described(b)}")


def _are_one(a: Form, b: Form) -> bool | None:
    """Whether two forms are one object; None where that is not known."""
    if not all(isinstance(one, (Function, Known, Ref)) and is_option(one) for one in (a, b)):
        return None
    if isinstance(a, Ref) and isinstance(b, Ref):
        return a.site == b.site
    # a function that is made again is another one
    return False if type(a) is not type(b) or a.head != b.head else None


def _is_chosen(reader, op, choice, other: Form) -> Form:
    """Whether one of several strings is one that is known."""
    strings = [getattr(one, "value", None) for one in choice.options]
    if not isinstance(other, Known) or not all(type(one) is str for one in (*strings, other.value)):
        raise Refused(f"{op.__name__} of {described(choice)} and {described(other)}")
    if other.value not in strings:
        return Known(op is operator.ne)
    return compared(reader.builder, op, choice.index, Known(strings.index(other.value)))


def _of_known(reader, op, a, b) -> Form:
    """An operator of known objects, if its result cannot change."""
    if op in (operator.is_, operator.is_not):
        if is_fixed(a) and is_fixed(b) and type(a) is not bool:  # equal ones may be one, or two
            reader.is_of_objects = True
            if type(a) is type(b) and not isinstance(a, str) and a == b:  # perhaps NumPy's
                raise Refused(f"whether two numbers, both {a!r}, are one object")
        return folded(op, a, b)
    if is_fixed(a) and is_fixed(b):
        return folded(op, a, b)
    if op in (operator.eq, operator.ne) and all(
        _has_no(reader, one, "__eq__", "__ne__") for one in (a, b) if not is_fixed(one)
    ):
        return folded(op, a, b)
    raise Refused(f"{op.__name__} of {a!r} and {b!r}")


def _has_no(reader, value, *names: str) -> bool:
    """Whether a class defines none of some methods, which is noted where that can change."""
    kind = type(value)
    if is_open(kind):
        reader.dependencies += [one for name in names for one in method_dependencies(kind, name)]
    return all(getattr(kind, name, None) is getattr(object, name, None) for name in names)


def operator_of_equal(reader, a: Form, b: Form) -> Form:
    if is_number(a) and is_number(b):
        return compared(reader.builder, operator.eq, a, b)
    if isinstance(a, Known) and isinstance(b, Known):
        return _of_known(reader, operator.eq, a.value, b.value)
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
    if op in (operator.eq, operator.ne) and not (
        isinstance(form, (Number, Maybe)) or (isinstance(form, Known) and is_fixed(form.value))
    ):
        raise Refused(f"{described(form)} compared with None")
    if isinstance(form, Maybe):
        there = converted(reader.builder, form.there, BOOL)
        return number(there if is_there else reader.builder.step("bool_not", there))
    if isinstance(form, Known):
        return Known((form.value is not None) == is_there)
    return Known(is_there)


def is_list(reader, form: Form) -> bool:
    is_static = isinstance(form, Ref) and reader.contents(form).what == "list"
    return is_static or isinstance(form, Row)


def _repeated(s, sequence: Form, count: Form) -> Form:
    """`[…] * n`."""
    reader, site = s.reader, (*s.site, "*")
    if isinstance(sequence, Row):
        raise Refused("a list made by *, of a list that changes")
    if kind_of(count) != INT:
        raise Refused(f"a list times {described(count)}")
    items = items_of(reader, sequence)
    if any(isinstance(one, Ref) for one in items):
        raise Refused("a list made by *, of lists")
    if site not in reader.choices and isinstance(count, Known) and len(items) * count.value <= 32:
        return reader.make(site, "list", (), tuple(items * count.value))
    if site not in reader.choices:
        raise Again({site}, arena_lists.element_of(reader, items))
    if len(items) != 1:
        raise Refused("a list of several items made by *")
    return arena_lists.filled(reader, site, items[0], count)


def unary_of(s, op, form: Form) -> Form:
    """A unary operator of other things than numbers."""
    if isinstance(form, Array):
        return array_arithmetic.unary(s.reader, op, form)
    if isinstance(form, Known) and is_fixed(form.value):
        return folded(op, form.value)
    raise Refused(f"{op} of {described(form)}")


def in_place(s, op, a: Form, b: Form) -> Form | None:
    """`a op= b` for values that change in place; None for numbers and the like."""
    if isinstance(a, Array):
        return array_arithmetic.in_place(s.reader, op, a, b)
    if op is operator.iadd and is_list(s.reader, a):
        extended(s.reader, a, b)
        return a
    return None


def _added(s, a: Form, b: Form) -> Form:
    """The sum of two lists, one of which lies in the arena."""
    for one in (a, b):
        if isinstance(one, Ref):
            raise Again({one.site}, arena_lists.element_of(s.reader, items_of(s.reader, one)))
    whole = [arena_lists.whole(s.reader, one) for one in (a, b)]  # type: ignore[arg-type]
    return arena_lists.copied(s.reader, s.site, *whole)


def extended(reader, a: Form, b: Form) -> None:
    """`a.extend(b)`."""
    if isinstance(b, Row):
        if isinstance(a, Ref):
            raise Again({a.site}, None)
        arena_lists.extended(reader, a, b)  # type: ignore[arg-type]
        return
    for item in items_of(reader, b):
        append(reader, a, item)


def append(reader, owner: Form, item: Form) -> None:
    """`owner.append(item)`."""
    if isinstance(owner, Row):
        arena_lists.append(reader, owner, item)
        return
    contents = reader.contents(owner)
    reader.update(owner, (), (*contents.items, item))


def emptied(reader, owner: Form) -> None:
    """`owner.clear()`."""
    if isinstance(owner, Row):
        arena_lists.emptied(reader, owner)
        return
    reader.update(owner, (), ())


def popped(reader, owner: Form, index: Form) -> Form:
    """`owner.pop(index)`."""
    if isinstance(owner, Row):
        return arena_lists.popped(reader, owner, index)
    items = list(reader.contents(owner).items)
    at = _known_index(owner, index)
    item = folded_item(items, at)
    del items[at]
    reader.update(owner, (), tuple(items))
    return item


def inserted(reader, owner: Form, index: Form, item: Form) -> None:
    """`owner.insert(index, item)`."""
    if isinstance(owner, Row):
        arena_lists.inserted(reader, owner, index, item)
        return
    items = list(reader.contents(owner).items)
    items.insert(_known_index(owner, index), item)
    reader.update(owner, (), tuple(items))


def _known_index(owner: Form, index: Form) -> int:
    """A known index; for a computed one the list lies in the arena."""
    if isinstance(index, Known) and type(index.value) is int:
        return index.value
    if kind_of(index) != INT:
        raise Refused(f"a list indexed by {described(index)}")
    raise Again({owner.site}, None)  # type: ignore[attr-defined]
