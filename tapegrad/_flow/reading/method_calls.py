"""Replacements of methods of arrays, lists and dicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..._core.config import config
from . import access, arena_lists, array_arithmetic, container_operators, dicts, views
from .array_reductions import REDUCTIONS
from .builtin_functions import BUILTINS
from .errors import Refused
from .forms import (
    NONE,
    Array,
    Form,
    Known,
    Method,
    Number,
    Row,
    described,
)
from .numbers import is_float, is_strong, is_tensor, stopped


def method_of(reader, owner: Form, name: str) -> Callable:
    """The replacement of a method; its first argument is the owner."""
    found = None
    if is_tensor(owner) or (name == "item" and isinstance(owner, Number) and is_float(owner)):
        found = _OF_TENSORS.get(name)
    elif isinstance(owner, Array):
        found = _OF_ARRAYS.get(name)
    elif container_operators.is_list(reader, owner):
        found = _OF_LISTS.get(name)
    elif dicts.is_dict(reader, owner):
        found = _OF_DICTS.get(name)
    if found is None:
        raise Refused(f"the method {name} of {described(owner)}")
    return found


def _copy_of_array(s, array):
    return array_arithmetic.mapped(s.reader, lambda x: x, array)


def _dot(s, array, other):
    return array_arithmetic.matmul(s.reader, array, other)


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
    container_operators.append(s.reader, owner, item)
    return NONE


def _extend(s, owner, items):
    container_operators.extended(s.reader, owner, items)
    return NONE


def _pop(s, owner, index=Known(-1)):  # noqa: B008
    return container_operators.popped(s.reader, owner, index)


def _clear(s, owner):
    container_operators.emptied(s.reader, owner)
    return NONE


def _insert(s, owner, index, item):
    container_operators.inserted(s.reader, owner, index, item)
    return NONE


def _copy_of_list(s, owner):
    if isinstance(owner, Row):
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
