"""What a function changes outside of itself, as counters: no step does that."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import io
import logging
import operator
import os
import types
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from ..._core.tensor.dependencies import Dependency, UnchangedPart
from ..._core.tensor.values import is_tensor
from ..ir.flow_graph import SourceLine
from ..kinds.step_kinds import INT
from .forms import (
    NONE,
    ArenaList,
    Array,
    Form,
    Known,
    Method,
    Number,
    Outdated,
    Ref,
    Refused,
    Tuple,
    Unfollowed,
    are_known,
    described,
    is_plain,
)

# --------------------------------------------------------------------------------------------------
# A record of what a function is found to change outside of itself, and of what it reads there.


BUILT_IN = (list, dict, set, collections.deque, bytearray)
CONTAINERS = (
    *(*BUILT_IN, collections.Counter, collections.defaultdict, collections.OrderedDict),
    np.ndarray,
)
#: The number of points after which readings are not begun again before their end.
_EARLY = 8
#: Whatever an object contains; how many items it has, which grows without a change of the others.
WHOLE, ORDER = object(), object()
#: The frame of names outside that the function has assigned, with what holds them.
OUTSIDE = "outside"


class Change(NamedTuple):
    """A change outside: its name, the line, and whether only plain values get there."""

    name: str
    line: SourceLine | None
    plain: bool


class Changes:
    """What a function is found to change, by owner and key, over all readings of it."""

    def __init__(self):
        self._found: dict[tuple[int, Any], Change] = {}
        self._owners: dict[int, Any] = {}
        self._names: dict[int, str] = {}
        self.refused: dict[int, str] = {}  # containers that cannot be read, and why
        self._read: set[tuple[int, Any]] = set()
        self.is_outdated = False  # something was read before a change of it was found
        self.texts: dict[
            SourceLine | None, str
        ] = {}  # lines that write a text somewhere, and by what

    def begin(self) -> None:
        """Begin another reading."""
        self._read.clear()
        self.is_outdated = False

    def check(self, followed: int) -> None:
        """Begin another reading early, where one of so many points is outdated; else at its end."""
        if self.is_outdated and followed <= _EARLY:
            raise Outdated

    def named(self, value, name: str) -> None:
        """Note a name for an object, and for what lies in it."""
        if isinstance(value, CONTAINERS):
            self._names.setdefault(id(value), name)

    def name_of(self, owner) -> str:
        return self._names.get(id(owner), f"a {type(owner).__name__}")

    def owner(self, number: int) -> Any:
        """An object by its id; None if it is not known."""
        return self._owners.get(number)

    def note_read(self, owner, key=WHOLE) -> None:
        """Note that something is read as a value."""
        self._owners[id(owner)] = owner
        self._read.add((id(owner), key))

    def note(self, owner, key, change: Change) -> None:
        """Note a change."""
        self._owners[id(owner)] = owner
        place = id(owner), key
        known = self._found.get(place)
        if known is not None and known.plain <= change.plain:
            return
        self._found[place] = known._replace(plain=False) if known else change
        self.is_outdated |= known is not None or any(
            one in self._read for one in self._places(owner, key, self._read)
        )

    def _places(self, owner, key, among) -> list[tuple[int, Any]]:
        """Places among some that overlap with one."""
        shared: set[int] = set()
        if (memory := _memory(owner)) is not None:
            others = [(one, _memory(one)) for one in self._owners.values() if one is not owner]
            shared = {
                id(one)
                for one, other in others
                if other is not None and np.may_share_memory(other, memory)
            }
        return [
            (number, other)
            for number, other in among
            if number in shared or (number == id(owner) and _overlap(key, other))
        ]

    def of(self, owner, key=WHOLE) -> Change | None:
        """A change of something, None if there is none."""
        if isinstance(owner, (np.ndarray, bytearray)):
            self._owners.setdefault(id(owner), owner)
        places = self._places(owner, key, self._found)
        return self._found[places[0]] if places else None

    def without_objects(self) -> Changes:
        """What is reported, alone."""
        made = Changes()
        made._found, made.texts = dict(self._found), dict(self.texts)
        return made

    @property
    def found(self) -> list[tuple[str, SourceLine | None]]:
        """All that the function changes: names and lines."""
        return list(dict.fromkeys((one.name, one.line) for one in self._found.values()))


def _memory(owner) -> np.ndarray | None:
    """The memory of an array or a bytearray, which others may lie in; None for others."""
    if isinstance(owner, bytearray):
        return np.frombuffer(owner, np.uint8) if owner else None
    return owner if isinstance(owner, np.ndarray) else None


def _overlap(a, b) -> bool:
    """Whether two keys may be of the same."""
    if a is WHOLE or b is WHOLE:
        return True
    return a is b if a is ORDER or b is ORDER else bool(a == b)


# --------------------------------------------------------------------------------------------------
# What a function changes outside of itself, as counters: no step does that, no result reads it.
# Containers and arrays that it changes are `Known`, and what it reads of them is `Unfollowed`.
# Where something was read as a value before a change of it was found, the function is read once
# more.


#: Methods that change containers, and those of them that give something.
_CHANGING = frozenset(
    name
    for kind in (*BUILT_IN, collections.Counter, collections.OrderedDict)
    for name in dir(kind)
    if not name.startswith("_")
    and name not in dir(tuple) + dir(frozenset) + dir(str)
    and name not in ("copy", "get", "items", "keys", "values", "fromkeys")
).union(("fill", "itemset", "partition", "put", "resize"))
_GIVING = frozenset(("pop", "popitem", "popleft", "setdefault"))
#: Classes whose instances have attributes of their own, without code of the user's.
_HOLDERS = (object, types.ModuleType, types.SimpleNamespace)
#: Objects whose methods write a text somewhere.
WRITERS = (logging.Logger, io.IOBase)


def tensor(value, name: str) -> Unfollowed:
    """A tensor from outside: without axes it does not change."""
    return _value(name or "a tensor", None, not value.shape)


def _value(name: str, change: Change | None, plain: bool = False) -> Unfollowed:
    """A value that is read of what lies outside."""
    if change is None:
        return Unfollowed(f"{name}, which lies outside of the function", plain)
    line = change.line
    where = f" at {os.path.basename(line.file)}:{line.number}" if line else ""
    return Unfollowed(f"{name}, which the function itself changes{where}", plain, True)


def is_container(form: Form) -> TypeGuard[Known]:
    """Whether a form is a container or an array from outside whose contents are not followed."""
    return isinstance(form, Known) and type(form.value) in CONTAINERS


def is_changed(reader, value, name: str) -> bool:
    """Whether the function changes something in a container or an array, which is read now."""
    if type(value) not in CONTAINERS:
        return False
    reader.changes.named(value, name)
    if reader.changes.of(value) is None:
        reader.changes.note_read(value)
        return False
    return True


def line_of(reader) -> SourceLine | None:
    """The user's line that is being followed."""
    return reader.graph.lines[reader.builder.line] or None


def unfollowed(reader, form: Form) -> Unfollowed | None:
    """What stands for a form in an expression if it is not followed; None if it is."""
    if is_container(form):
        owner = form.value
        made = _value(reader.changes.name_of(owner), reader.changes.of(owner))
        why = reader.changes.refused.get(id(owner))
        is_refused = why is not None and not made.changed
        return dataclasses.replace(made, words=f"a value: {why}") if is_refused else made
    return form if isinstance(form, Unfollowed) else None


def of_operator(reader, op, a: Form, b: Form) -> Form | None:
    """The result of an operator with what is not followed, or that makes a text; else None."""
    if op in (operator.is_, operator.is_not) and not {type(a), type(b)} & {Unfollowed}:
        return None  # which object it is, is known
    if getattr(op, "__name__", "") == "contains" and is_container(a):
        if (found := _contains(reader, a.value, b)) is not None:
            return found
    is_text = isinstance(a, Known) and isinstance(a.value, str)
    if op is operator.mod and is_text and not isinstance(b, Known):
        return TEXT
    return combined(reader, a, b)


def combined(reader, *forms: Form) -> Unfollowed | None:
    """The result of an operator if one of its operands is not followed."""
    found = [one for form in forms if (one := unfollowed(reader, form)) is not None]
    if not found:
        return None
    first = next((one for one in found if one.changed), found[0])
    return dataclasses.replace(first, plain=all(map(is_plain, forms)))


# --- names and attributes ---------------------------------------------------------------------


def namespace(owner) -> Any:
    """What holds the attributes of an object: one object for all ways to them."""
    if isinstance(owner, (dict, types.CellType, type)):
        return owner
    return getattr(owner, "__dict__", owner)


def name_read(reader, owner, name: str, value) -> Form | None:
    """A variable or an attribute that the function changes; None if it does not.

    It is what the function has assigned, if it has on all ways that lead here.
    """
    holder, key = namespace(owner), WHOLE if isinstance(owner, types.CellType) else name
    if (assigned := reader.state.variables.get(place_outside(holder, name))) is not None:
        return assigned
    reader.changes.named(value, name)
    change = reader.changes.of(holder, key)
    if change is None and holder is not owner and key is not WHOLE and key not in holder:
        kinds = type(owner).__mro__  # of which one holds it
        change = next(filter(None, [reader.changes.of(kind, key) for kind in kinds]), None)
        for kind in kinds:
            reader.changes.note_read(kind, key)
    if change is None:
        reader.changes.note_read(holder, key)
        return None
    return _value(change.name, change, change.plain and is_plain(Known(value)))


def place_outside(holder, name: str) -> tuple[Any, str]:
    """The variable of what is assigned to a name outside, see `ReadingState`."""
    return (OUTSIDE, id(holder)), name


def is_name_outside(key) -> bool:
    """Whether a variable is a name outside that the function has assigned."""
    return type(key[0]) is tuple and key[0][:1] == (OUTSIDE,)


def name_changed(reader, owner, name: str, form: Form) -> None:
    """An assignment to a variable or an attribute."""
    now, place = outside_object(reader, form), place_outside(namespace(owner), name)
    reader.state.variables.pop(place, None)
    if now is not None and Dependency(owner, name, None).now() is now:
        return  # as after `history += [x]`
    if unfollowed(reader, form) is None:
        reader.state.variables[place] = form
    key = WHOLE if isinstance(owner, types.CellType) else name
    change = Change(name, line_of(reader), is_plain(form))
    reader.changes.note(namespace(owner), key, change)


def attribute(reader, owner: Form, name: str) -> Form:
    """An attribute of a container from outside, or of a value that is not followed."""
    if is_container(owner) and not callable(getattr(type(owner.value), name, None)):
        return unfollowed(reader, owner)  # type: ignore[return-value]
    return Method(owner, name)


def attribute_changed(reader, owner, name: str, form: Form) -> None:
    """`owner.name = form` of an object from outside."""
    kind = type(owner)
    is_own = kind.__setattr__ in [one.__setattr__ for one in _HOLDERS]
    is_class = isinstance(owner, type) and kind.__setattr__ is type.__setattr__
    raw = None if is_class else inspect.getattr_static(kind, name, None)
    has_setter = hasattr(type(raw), "__set__") and not isinstance(raw, types.MemberDescriptorType)
    if not (is_own or is_class) or has_setter:
        raise Refused(f"it sets the attribute {name} of a {kind.__name__} from outside")
    name_changed(reader, owner, name, form)


# --- items ------------------------------------------------------------------------------------


def item_of(reader, owner: Form, index: Form) -> Form | None:
    """`owner[index]` of what is not followed; None for others."""
    if isinstance(owner, Known) and is_container(owner):
        return item(reader, owner, index)
    return dataclasses.replace(owner, plain=False) if isinstance(owner, Unfollowed) else None


def item(reader, owner: Known, index: Form) -> Form:
    """`owner[index]` of a container or an array from outside."""
    value, changes = owner.value, reader.changes
    key, name = _key(value, index), changes.name_of(value)
    if isinstance(value, np.ndarray):
        indices = index.items if isinstance(index, Tuple) else (index,)
        is_one = len(indices) == value.ndim
        is_one = is_one and all([one.kind == INT for one in map(_number, indices)])
        return _value(name, changes.of(value, key), value.dtype.kind in "biufc" and is_one)
    change = changes.of(value, key)
    if key is WHOLE or change is not None:
        plain = change is not None and change.plain and key is not WHOLE and _plain_now(value, key)
        return _value(name, change, plain)
    found = value[key]
    changes.named(found, name)
    changes.note_read(value, key)
    reader.dependencies.append(UnchangedPart(value, name, [found], [key], None))
    return reader.outside(found, name)


def _number(form: Form) -> Number | Known:
    """A number, or None for other forms."""
    return form if isinstance(form, (Number, Known)) else NONE


def _plain_now(value, key) -> bool:
    found = value[key]
    return is_plain(Known(found)) or (is_tensor(found) and not found.shape)


def _key(value, index: Form):
    """The key of an item that is there; `WHOLE` if it is not known which."""
    if isinstance(index, Tuple) and are_known(index.items):
        index = Known(tuple([one.value for one in index.items]))
    if not isinstance(index, Known):
        return WHOLE
    key = index.value
    if isinstance(value, np.ndarray):
        indices = key if isinstance(key, tuple) else (key,)
        is_one = len(indices) == value.ndim and all(type(one) is int for one in indices)
        return indices if is_one and min(indices, default=-1) >= 0 else WHOLE
    if isinstance(value, (list, collections.deque, bytearray)) and type(key) is int:
        return key if 0 <= key < len(value) else WHOLE  # one from the end is another when it grows
    try:
        return key if isinstance(value, dict) and key in value else WHOLE
    except TypeError:
        return WHOLE


def _new_key(value, index: Form):
    """The key of an item that a dict or a set gets; `WHOLE` if it is not known which."""
    if isinstance(value, (dict, set)) and isinstance(index, Known) and is_plain(index):
        return index.value
    return WHOLE


def item_changed(reader, owner: Form, index: Form, form: Form) -> None:
    """`owner[index] = form`."""
    value = outside_object(reader, owner)
    key = _key(value, index)
    inner = outside_object(reader, form)
    if inner is not None and key is not WHOLE and value[key] is inner:
        return  # as after `d["items"] += [x]`
    if key is WHOLE and (new := _new_key(value, index)) is not WHOLE:
        note_change(reader, owner, ORDER)
        key = new
    note_change(reader, owner, key, is_plain(form))


def note_change(reader, owner: Form, key=WHOLE, plain: bool = False) -> None:
    """Note a change of a container or an array."""
    value = outside_object(reader, owner)
    change = Change(reader.changes.name_of(value), line_of(reader), plain)
    reader.changes.note(value, key, change)


def outside_object(reader, form: Form) -> Any:
    """The container or the array from outside that a form is, or is a view of; None for others."""
    if is_container(form):
        return form.value
    if isinstance(form, Array):
        return reader.hidden_regions.get(form.region)
    sites = (
        {form.site} if isinstance(form, Ref) else form.sites if isinstance(form, ArenaList) else ()
    )
    found = [reader.changes.owner(site[1]) for site in sites if site[0] == "outside"]
    return found[0] if len(found) == len(sites) == 1 else None


def is_outside(reader, form: Form) -> bool:
    """Whether a form is a container or an array from outside."""
    return outside_object(reader, form) is not None


def changed_in_place(reader, form: Form, other: Form) -> Form | None:
    """`form op= other` where that changes a container or an array from outside; else None."""
    if is_outside(reader, form):
        note_change(reader, form)
        return form
    if isinstance(form, Unfollowed) and not form.plain:
        raise Refused(f"it changes {form.words} in place")
    return None


# --- calls ------------------------------------------------------------------------------------


def method(reader, owner: Form, name: str, args: list[Form], kwargs: dict[str, Form]) -> Form:
    """A method of a container or an array from outside."""
    value, changes = outside_object(reader, owner), reader.changes
    if name.startswith("__"):
        raise Refused(f"it calls {name} of {changes.name_of(value)}, which lies outside")
    if name == "get" and isinstance(value, dict) and args and _key(value, args[0]) is not WHOLE:
        return item(reader, Known(value), args[0])
    if name == "get" and isinstance(value, dict) and args and _new_key(value, args[0]) is not WHOLE:
        if (found := _missing(reader, value, args)) is not None:
            return found
    for form in (*args, *kwargs.values()):
        _check_stored(reader, name, form)
    if is_changing(reader, owner, name):
        _note_method(reader, owner, name, args, kwargs)
        if name not in _GIVING:
            return NONE
    return _value(changes.name_of(value), changes.of(value))


def _note_method(reader, owner: Form, name: str, args: list[Form], kwargs: dict) -> None:
    """Note what a method changes: some items, the number of them, or anything."""
    value = outside_object(reader, owner)
    is_bounded = getattr(value, "maxlen", None) is not None
    keys: list | None = None
    if name in ("append", "extend") and not is_bounded or name == "add":
        keys = [_new_key(value, args[0])] if name == "add" and args else []
    elif name in ("discard", "pop", "setdefault") and args:
        keys = [_new_key(value, args[0])]
    elif name == "update" and isinstance(value, dict):
        keys = [*kwargs]
        for form in args:
            is_dict = isinstance(form, Ref) and form.what == "dict"
            if is_dict:
                keys += reader.contents(form).keys
            elif isinstance(form, Ref) and form.what == "list":
                keys += [_new_key(value, one) for one in reader.contents(form).items]
            else:
                keys.append(WHOLE)
    if keys is None or (WHOLE in keys and name != "add"):
        note_change(reader, owner)
        return
    for key in [ORDER, *[one for one in keys if one is not WHOLE]]:
        note_change(reader, owner, key)


def is_changing(reader, owner: Form, name: str) -> bool:
    """Whether a method changes something outside."""
    return name in _CHANGING and is_outside(reader, owner)


def sets_default(reader, owner: Form, args: list[Form]) -> bool:
    """Whether `setdefault` finds the key, and changes nothing."""
    value = outside_object(reader, owner)
    return isinstance(value, dict) and bool(args) and _key(value, args[0]) is not WHOLE


def _missing(reader, value: dict, args: list[Form]) -> Form | None:
    """What `get` gives for a key that is not there; None if there may be one."""
    changes, key = reader.changes, _new_key(value, args[0])
    if changes.of(value, key) is not None or changes.of(value, ORDER) is not None:
        return None
    changes.note_read(value, key)
    changes.note_read(value, ORDER)
    reader.dependencies.append(UnchangedPart(value, changes.name_of(value), [], [], [*value]))
    return args[1] if len(args) > 1 else NONE


def _check_stored(reader, name: str, form: Form) -> None:
    """Refuse an argument that the method may call or go through: that is not followed."""
    is_data = (
        is_plain(form) or is_container(form) or isinstance(form, (Array, ArenaList, Unfollowed))
    )
    if isinstance(form, Ref):
        is_data = reader.contents(form).what in ("list", "dict", "unordered dict", "instance")
    if not (is_data or isinstance(form, Tuple)):
        raise Refused(f"the method {name} of a list or dict from outside, with {described(form)}")


def counted(reader, value, target) -> Form:
    """The length of a container from outside, or its truth."""
    name, change = reader.changes.name_of(value), reader.changes.of(value, ORDER)
    if change is not None or not isinstance(value, (list, dict)):
        return _value(name, change, True)
    reader.changes.note_read(value, ORDER)
    whole = [*value] if isinstance(value, dict) else len(value)
    reader.dependencies.append(UnchangedPart(value, name, [], [], whole))
    return Known(target(value))


def _contains(reader, value, key: Form) -> Form | None:
    """`key in value` for a dict or a set of which other items change."""
    found, name = _new_key(value, key), reader.changes.name_of(value)
    if found is WHOLE:
        return None
    change = reader.changes.of(value, found)
    if found not in value:
        change = change or reader.changes.of(value, ORDER)
    if change is not None or found not in value:
        return _value(name, change, True)
    reader.changes.note_read(value, found)
    is_dict = isinstance(value, dict)
    items: Any = [value[found]] if is_dict else {found}
    reader.dependencies.append(
        UnchangedPart(value, name, items, [found] if is_dict else None, None)
    )
    return Known(True)


#: A text that is made of values of a call.
TEXT = Unfollowed("a text that is made of values", True)
