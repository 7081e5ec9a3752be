"""Dicts whose keys are known, though some may be missing after some branches."""

from __future__ import annotations

import operator

from ..kinds.step_kinds import BOOL, INT
from .forms import (
    ABSENT,
    Contents,
    Form,
    Known,
    Number,
    Possible,
    Raises,
    Ref,
    Refused,
    Tuple,
    are_known,
    described,
)
from .joins import selected
from .numbers import compared, converted

#: Dicts in the heap: those whose order is known, and those whose keys may be missing.
DICT, UNORDERED = "dict", "unordered dict"


def contents_of(reader, form: Form) -> Contents | None:
    """The contents of a dict, None for other forms."""
    if not isinstance(form, Ref):
        return None
    contents = reader.contents(form)
    return contents if contents.what in (DICT, UNORDERED) else None


def is_dict(reader, form: Form) -> bool:
    return contents_of(reader, form) is not None


def _key(form: Form):
    if isinstance(form, Tuple) and are_known(form.items):
        return tuple([one.value for one in form.items])
    if not isinstance(form, Known):
        raise Refused(f"a dict with the key {described(form)}")
    try:
        hash(form.value)
    except TypeError as error:
        raise Raises(f"TypeError: {error}") from None
    return form.value


def _found(contents: Contents, key: Form) -> Form:
    """The value of a key, ABSENT or `Possible` where that is so."""
    name = _key(key)
    return contents.items[contents.keys.index(name)] if name in contents.keys else ABSENT


def _there(form: Form) -> Form:
    """Whether it is there, a truth."""
    return form.there if isinstance(form, Possible) else Known(form is not ABSENT)


def contains(reader, owner: Form, key: Form) -> Form:
    """`key in owner`."""
    return _there(_found(reader.contents(owner), key))


def place_of(reader, contents: Contents, key: Form) -> Form:
    """The place of a computed integer among the keys, checked to be there."""
    build, names = reader.builder, keys_and_items(contents)[0]
    if not names or not all(type(name) is int for name in names):
        raise Refused(f"a dict with the key {described(key)}")
    place = build.constant(-1)
    for k, name in enumerate(names):
        here = converted(build, compared(build, operator.eq, key, Known(name)), BOOL)
        place = build.step("int_select", here, build.constant(k), place)
    found = Number(INT, place, natural=True)
    there = compared(build, operator.ge, found, Known(0))
    build.check(converted(build, there, BOOL), "a key that is missing")
    return found


def item(reader, owner: Form, key: Form) -> Form:
    """`owner[key]`."""
    form = _found(reader.contents(owner), key)
    if form is ABSENT:
        raise Raises("KeyError")
    if isinstance(form, Possible):
        reader.builder.check(converted(reader.builder, form.there, BOOL), "a key that is missing")
        return form.form
    return form


def item_or(reader, owner: Form, key: Form, default: Form) -> Form:
    """`owner.get(key, default)`."""
    form = _found(reader.contents(owner), key)
    if isinstance(form, Possible):
        there = converted(reader.builder, form.there, BOOL)
        return selected(reader, there, form.form, default)
    return default if form is ABSENT else form


def assign(reader, owner: Form, key: Form, value: Form) -> None:
    """`owner[key] = value`."""
    _updated(reader, owner, {_key(key): value})


def _updated(reader, owner: Form, changes: dict) -> None:
    """Set items, or take out those that become ABSENT."""
    contents = reader.contents(owner)
    made = dict(zip(contents.keys, contents.items, strict=True)) | changes
    made = {key: form for key, form in made.items() if form is not ABSENT}
    reader.update(owner, tuple(made), tuple(made.values()))


def taken(reader, owner: Form, key: Form) -> Form:
    """The item of a key, which is removed."""
    form = item(reader, owner, key)
    _updated(reader, owner, {_key(key): ABSENT})
    return form


def taken_or(reader, owner: Form, key: Form, default: Form) -> Form:
    """`owner.pop(key, default)`."""
    form = item_or(reader, owner, key, default)
    _updated(reader, owner, {_key(key): ABSENT})
    return form


def item_or_set(reader, owner: Form, key: Form, default: Form) -> Form:
    """`owner.setdefault(key, default)`."""
    form = item_or(reader, owner, key, default)
    _updated(reader, owner, {_key(key): form})
    return form


def updated(reader, owner: Form, other: Form) -> None:
    """`owner.update(other)`."""
    contents = contents_of(reader, other)
    if contents is None or contents.what == UNORDERED:
        raise Refused(f"the update of a dict by {described(other)}")
    _updated(reader, owner, dict(zip(contents.keys, contents.items, strict=True)))


def length(reader, contents: Contents) -> Form:
    """The number of keys."""
    build, possible = reader.builder, []
    for form in contents.items:
        if isinstance(form, Possible):
            possible.append(converted(build, form.there, INT))
    sure = len(contents.items) - len(possible)
    if not possible:
        return Known(sure)
    total = build.constant(sure)
    for one in possible:
        total = build.step("int_add", total, one)
    return Number(INT, total, natural=True)


def keys_and_items(contents: Contents) -> tuple[tuple, tuple[Form, ...]]:
    """Keys and items in their order."""
    if contents.what == UNORDERED:
        raise Refused("it iterates over a dict whose keys have another order on some paths")
    return contents.keys, contents.items
