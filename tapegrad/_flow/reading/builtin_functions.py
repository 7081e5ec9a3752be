"""Replacements of Python's built-in functions, of operators and of methods."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

from ..._core.config import config
from ..._core.tensor.dependencies import is_open, method_dependencies
from ..kinds.step_kinds import BOOL, FLOAT, INT
from . import access, arena_lists, arrays, dicts, outside_changes, prelude, views
from .access import folded_item, is_fixed, items_of, length, new_list
from .arrays import REDUCTIONS
from .forms import (
    NONE,
    Again,
    ArenaList,
    Array,
    Choice,
    Form,
    Known,
    LocalFunction,
    Maybe,
    Method,
    Number,
    Raises,
    Range,
    Ref,
    Refused,
    Tuple,
    are_known,
    dependence,
    described,
)
from .joins import is_option
from .numbers import (
    applied,
    arithmetic,
    compared,
    converted,
    float_value,
    folded,
    is_float,
    is_number,
    is_strong,
    is_tensor,
    kind_of,
    number,
    refuse_mixed,
    refuse_narrow,
    settled,
    stopped,
    truth,
)
from .reader import Inline

# --- Operators of other things than two numbers ---------------------------------------------------


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
    if isinstance(form, (ArenaList, Tuple)) or (
        is_list(reader, form) or dicts.is_dict(reader, form)
    ):
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
        return arrays.operator_of(reader, op, a, b)
    if op is operator.mul and (is_list(reader, a) or is_list(reader, b)):
        sequence, count = (a, b) if is_list(reader, a) else (b, a)
        return _repeated(s, sequence, count)
    if op is operator.add and is_list(reader, a) and is_list(reader, b):
        if isinstance(a, ArenaList) or isinstance(b, ArenaList):
            return _added(s, a, b)
        return new_list(reader, s.site, (*items_of(reader, a), *items_of(reader, b)))
    if op is operator.add and isinstance(a, Tuple) and isinstance(b, Tuple):
        return Tuple((*a.items, *b.items), s.site)
    if is_contains:
        if dicts.is_dict(reader, a):
            return dicts.contains(reader, a, b)
        found = [operator_of_equal(reader, item, b) for item in items_of(reader, a)]
        return access.any_or_all(reader, found, True)
    raise Refused(f"{op.__name__} of {described(a)} and {described(b)}")


def _are_one(a: Form, b: Form) -> bool | None:
    """Whether two forms are one object; None where that is not known."""
    if not all(isinstance(one, (LocalFunction, Known, Ref)) and is_option(one) for one in (a, b)):
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
    return is_static or isinstance(form, ArenaList)


def _repeated(s, sequence: Form, count: Form) -> Form:
    """`[…] * n`."""
    reader, site = s.reader, (*s.site, "*")
    if isinstance(sequence, ArenaList):
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
        return arrays.unary(s.reader, op, form)
    if isinstance(form, Known) and is_fixed(form.value):
        return folded(op, form.value)
    raise Refused(f"{op} of {described(form)}")


def in_place(s, op, a: Form, b: Form) -> Form | None:
    """`a op= b` for values that change in place; None for numbers and the like."""
    if isinstance(a, Array):
        return arrays.in_place(s.reader, op, a, b)
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
    if isinstance(b, ArenaList):
        if isinstance(a, Ref):
            raise Again({a.site}, None)
        arena_lists.extended(reader, a, b)  # type: ignore[arg-type]
        return
    for item in items_of(reader, b):
        append(reader, a, item)


def append(reader, owner: Form, item: Form) -> None:
    """`owner.append(item)`."""
    if isinstance(owner, ArenaList):
        arena_lists.append(reader, owner, item)
        return
    contents = reader.contents(owner)
    reader.update(owner, (), (*contents.items, item))


def emptied(reader, owner: Form) -> None:
    """`owner.clear()`."""
    if isinstance(owner, ArenaList):
        arena_lists.emptied(reader, owner)
        return
    reader.update(owner, (), ())


def popped(reader, owner: Form, index: Form) -> Form:
    """`owner.pop(index)`."""
    if isinstance(owner, ArenaList):
        return arena_lists.popped(reader, owner, index)
    items = list(reader.contents(owner).items)
    at = _known_index(owner, index)
    item = folded_item(items, at)
    del items[at]
    reader.update(owner, (), tuple(items))
    return item


def inserted(reader, owner: Form, index: Form, item: Form) -> None:
    """`owner.insert(index, item)`."""
    if isinstance(owner, ArenaList):
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


# --- Replacements of Python's built-in functions --------------------------------------------------


def _follow(function: Callable):
    def handler(s, *args, **kwargs):
        return s.inline(Known(function), list(args), kwargs)

    return handler


def iterator(s, form: Form):
    """`iter(form)`."""
    if (made := s.special(form, "__iter__")) is not None:
        return made
    return access.over(s.reader, s.site, settled(s.builder, form))


def _len(s, form):
    if (made := s.special(form, "__len__")) is not None:
        return made
    return access.length(s.reader, form)


def _range(s, first, second=None, step=None):
    start, stop = (Known(0), first) if second is None else (first, second)
    step = step or Known(1)
    for one in (start, stop, step):
        if kind_of(one) not in (INT, BOOL):
            raise Refused(f"a range of {described(one)}")
    if not isinstance(step, Known):
        raise Refused("a range whose step is computed")
    if step.value == 0:
        raise Raises("ValueError: range() arg 3 must not be zero")
    ends = [dataclasses.replace(x, strong=False) if is_strong(x) else x for x in (start, stop)]
    return Range(*ends, step.value)


def _enumerate(s, form, start=None):
    inner = access.over(s.reader, (*s.site, 0), form)
    _only_fresh(s, [form], [inner])
    return s.reader.make(s.site, "enumerate", (), (inner, start or Known(0)))


def _zip(s, *args, strict=Known(False)):  # noqa: B008  (it does not change)
    inner = [access.over(s.reader, (*s.site, k), one) for k, one in enumerate(args)]
    _only_fresh(s, args, inner)
    if not inner:
        return access.over(s.reader, s.site, Tuple(()))
    if not isinstance(strict, Known):
        raise Refused("zip with a strict that is computed")
    return s.reader.make(s.site, "zip", (bool(strict.value),), tuple(inner))


def _only_fresh(s, given, inner) -> None:
    """Refuse iterators that other code advances, and generators."""
    if any(s.reader.contents(one).what == "generator" for one in inner):
        raise Refused("zip or enumerate of a generator")
    old = [form.site for form, one in zip(given, inner, strict=True) if form is one]
    if len({*old}) < len(old) or any(s.reader.is_used_after(site) for site in old):
        raise Refused("zip or enumerate of an iterator that is used elsewhere")


def _reversed(s, form):
    if isinstance(form, Known) and isinstance(form.value, range):
        return access.over(s.reader, s.site, Known(form.value[::-1]))
    if isinstance(form, Range):
        if form.step not in (1, -1):
            raise Refused("a range with a step, reversed")
        last = arithmetic(s.builder, operator.sub, form.stop, Known(form.step))
        before = arithmetic(s.builder, operator.sub, form.start, Known(form.step))
        return access.over(s.reader, s.site, Range(last, before, -form.step))
    if isinstance(form, Array) and form.lengths:
        last = arithmetic(s.builder, operator.sub, form.lengths[0], Known(1))
        return access.over(s.reader, s.site, views.turned(s.reader, form, last))
    if is_list(s.reader, form):
        return access.backwards(s.reader, s.site, form)
    return access.over(s.reader, s.site, Tuple(tuple(access.items_of(s.reader, form)[::-1])))


def _smallest(name: str):
    def handler(s, *args, key=None, default=None):
        if key is not None and key.head != NONE.head:
            follow = [*([Tuple(args)] if len(args) > 1 else args), key]
            if default is not None:
                raise Refused(f"{name} with key and default")
            return s.inline(Known(getattr(prelude, f"{name}_by")), follow, {})
        if default is not None:
            return s.inline(Known(getattr(prelude, f"{name}_or")), [*args, default], {})
        if len(args) == 2:
            return s.inline(Known(getattr(prelude, f"{name}_2")), list(args), {})
        several = Known(getattr(prelude, f"{name}_of"))
        return s.inline(several, [args[0] if len(args) == 1 else Tuple(args)], {})

    return handler


def absolute(s, form):
    """`abs(form)`."""
    form = settled(s.builder, form)
    if isinstance(form, Array):
        return arrays.mapped(s.reader, lambda x: absolute(s, x), form)
    if isinstance(form, Known):
        return folded(abs, form.value)
    if is_float(form):
        return applied(s.builder, "absolute", form)
    if kind_of(form) != INT:
        raise Refused(f"abs of {described(form)}")
    refuse_narrow(s.builder, form)
    made = s.builder.step("int_absolute", converted(s.builder, form, INT))
    return Number(INT, made, strong=is_strong(form))


def _float(s, form):
    form = settled(s.builder, form)
    if isinstance(form, Known):
        return folded(float, form.value)
    if is_float(form) and is_tensor(form):
        return form if config.enter else s.reader.without_derivative(form)
    return Number(FLOAT, converted(s.builder, form, FLOAT), False)


def _round(s, form, digits=NONE):
    form = settled(s.builder, form)
    if digits.head == NONE.head:
        return _rounded_to_int(s, form)
    if isinstance(form, Known) and isinstance(digits, Known):
        return folded(round, form.value, digits.value)
    if kind_of(form) != FLOAT or not isinstance(digits, Known) or digits.value not in range(12):
        raise Refused(f"round of {described(form)} to {described(digits)} digits")
    refuse_mixed(form)
    return _rounded(s.builder, form, 10.0**digits.value)


def _rounded(build, form: Number, power: float) -> Form:
    """A multiple of 1 / power; the call leaves where rounding of the product could decide."""
    large = applied(build, "multiply", form, Known(power))
    whole = applied(build, "rint", large)
    beyond = applied(build, "absolute", applied(build, "subtract", large, whole))
    for a, b in ((beyond, Known(0.499)), (applied(build, "absolute", large), Known(2.0**40))):
        build.check(compared(build, operator.lt, a, b).value, "a number that is hard to round")
    return applied(build, "divide", whole, Known(power))


def _int(s, form):
    form = settled(s.builder, form)
    if isinstance(form, Known):
        return folded(int, form.value)
    if is_float(form):
        return number(s.builder.step("float_to_int", float_value(s.builder, form)))
    return number(converted(s.builder, form, INT))


def _bool(s, form=None):
    if form is None:
        return Known(False)
    found = truth(s.builder, truth_of(s.reader, form))
    return dataclasses.replace(found, strong=False) if is_strong(found) else found


def rounded_to_int(op: str, plain: Callable):
    """A function of a number that gives an int."""

    def handler(s, form):
        form = settled(s.builder, form)
        if isinstance(form, Known):
            return folded(plain, form.value)
        if not is_float(form):
            return number(converted(s.builder, form, INT))
        made = applied(s.builder, op, form)
        return number(s.builder.step("float_to_int", float_value(s.builder, made)))

    return handler


_rounded_to_int = rounded_to_int("rint", round)


def _list(s, form=None):
    if form is None:
        return access.new_list(s.reader, s.site, ())
    if isinstance(form, ArenaList):
        return arena_lists.copied(s.reader, s.site, arena_lists.whole(s.reader, form))
    return s.inline(Known(prelude.list), [form], {})


def _tuple(s, form=None):
    return Tuple(() if form is None else tuple(access.items_of(s.reader, form)), s.site)


def _dict(s, **kwargs):
    return s.reader.make(s.site, "dict", tuple(kwargs), tuple(kwargs.values()))


def _slice(s, first, second=None, step=None):
    start, stop = (NONE, first) if second is None else (first, second)
    step = step or NONE
    if are_known((start, stop, step)):
        return folded(slice, start.value, stop.value, step.value)
    return Method(Tuple((start, stop, step)), "slice")


def _isinstance(s, form, kinds):
    if isinstance(form, Known) and isinstance(kinds, Known) and not form.of_numpy:
        return folded(isinstance, form.value, kinds.value)
    raise Refused("isinstance of a value that is computed")


def _getattr(s, owner, name, default=None):
    if not (isinstance(name, Known) and isinstance(name.value, str)):
        raise Refused(f"getattr of the name {described(name)}")
    try:
        return s.attribute(owner, name.value)
    except Raises as error:
        if default is None or "AttributeError" not in str(error):
            raise
        if not isinstance(owner, Known) or isinstance(owner.value, type):
            raise Refused(
                "getattr with a default of an object that it makes, or of a class"
            ) from None
        s.reader.absent(owner.value, name.value)
        return default


def _hasattr(s, owner, name):
    absent = Known(None)
    found = _getattr(s, owner, name, absent)
    if isinstance(found, Inline):
        raise Refused("hasattr of a property")
    return Known(found is not absent)


BUILTINS: dict[Any, Callable] = {
    len: _len,
    range: _range,
    enumerate: _enumerate,
    zip: _zip,
    reversed: _reversed,
    min: _smallest("min"),
    max: _smallest("max"),
    sum: _follow(prelude.sum),
    any: _follow(prelude.any),
    all: _follow(prelude.all),
    map: _follow(prelude.map),
    abs: absolute,
    float: _float,
    int: _int,
    bool: _bool,
    list: _list,
    tuple: _tuple,
    dict: _dict,
    slice: _slice,
    isinstance: _isinstance,
    getattr: _getattr,
    hasattr: _hasattr,
    iter: iterator,
    round: _round,
}


# --- Replacements of methods of arrays, lists and dicts -------------------------------------------


def method_of(reader, owner: Form, name: str) -> Callable:
    """The replacement of a method; its first argument is the owner."""
    found = None
    if is_tensor(owner) or (name == "item" and isinstance(owner, Number) and is_float(owner)):
        found = _OF_TENSORS.get(name)
    elif isinstance(owner, Array):
        found = _OF_ARRAYS.get(name)
    elif is_list(reader, owner):
        found = _OF_LISTS.get(name)
    elif dicts.is_dict(reader, owner):
        found = _OF_DICTS.get(name)
    if found is None:
        raise Refused(f"the method {name} of {described(owner)}")
    return found


def _copy_of_array(s, array):
    return arrays.mapped(s.reader, lambda x: x, array)


def _dot(s, array, other):
    return arrays.matmul(s.reader, array, other)


def _item(s, owner):
    if isinstance(owner, Array):
        for one in owner.lengths:
            views.same_length(s.reader, one, Known(1))
        owner = views.of(s.reader, owner, [Known(0)] * len(owner.lengths))
    if is_float(owner):
        number = owner if config.enter else stopped(s, owner)
        return dataclasses.replace(BUILTINS[float](s, number), tensor=False)
    return dataclasses.replace(owner, strong=False) if is_strong(owner) else owner


def _append(s, owner, item):
    append(s.reader, owner, item)
    return NONE


def _extend(s, owner, items):
    extended(s.reader, owner, items)
    return NONE


def _pop(s, owner, index=Known(-1)):  # noqa: B008
    return popped(s.reader, owner, index)


def _clear(s, owner):
    emptied(s.reader, owner)
    return NONE


def _insert(s, owner, index, item):
    inserted(s.reader, owner, index, item)
    return NONE


def _copy_of_list(s, owner):
    if isinstance(owner, ArenaList):
        return arena_lists.copied(s.reader, s.site, arena_lists.whole(s.reader, owner))
    return access.new_list(s.reader, s.site, tuple(access.items_of(s.reader, owner)))


def _view(name: str):
    def handler(s, owner):
        return Method(owner, f"{name}()")

    return handler


def _get(s, owner, key, default=NONE):
    return dicts.item_or(s.reader, owner, key, default)


def _pop_key(s, owner, key, default=None):
    if default is None:
        return dicts.taken(s.reader, owner, key)
    return dicts.taken_or(s.reader, owner, key, default)


def _set_default(s, owner, key, default=NONE):
    return dicts.item_or_set(s.reader, owner, key, default)


def _update(s, owner, other):
    dicts.updated(s.reader, owner, other)
    return NONE


_OF_ARRAYS: dict[str, Callable] = {
    **REDUCTIONS,
    "copy": _copy_of_array,
    "dot": _dot,
    "item": _item,
}
_OF_TENSORS: dict[str, Callable] = {"detach": stopped, "item": _item}
_OF_LISTS: dict[str, Callable] = {
    "append": _append,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
    "clear": _clear,
    "copy": _copy_of_list,
}
_OF_DICTS: dict[str, Callable] = {
    "items": _view("items"),
    "values": _view("values"),
    "keys": _view("keys"),
    "get": _get,
    "pop": _pop_key,
    "setdefault": _set_default,
    "update": _update,
}
