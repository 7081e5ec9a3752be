"""Arrays and other objects from outside where the uses of arrays are followed: parts, writes."""

from __future__ import annotations

import collections
import inspect
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.tensor.reachable import held_by
from .followed_forms import (
    DATA,
    PLAIN,
    UNSURE,
    Derived,
    Items,
    Known,
    Method,
    Other,
    Unknown,
    is_array,
    is_operand,
    is_plain,
    key_of,
    value_of,
)

#: Items that are gone through.
_ITEMS = 20_000
#: Attributes of an array that tell how it lies.
_LAYOUT = frozenset(("shape", "ndim", "size", "dtype", "T", "mT"))
#: All parts of a container.
_ALL = object()
#: The class of the fields of named tuples.
_TUPLE_FIELD = type(vars(collections.namedtuple("_Pair", "a b"))["a"])
_GENERIC = (object.__getattribute__, types.SimpleNamespace.__getattribute__)


class Objects:
    """The arrays `given`, of which those that are `dirty` do more than enter recorded operations.

    Objects are as they are now: what the function writes to is not read any more.
    """

    def __init__(self, given: Sequence[np.ndarray]):
        self.given = {id(one): one for one in given}
        self.dirty: set[int] = set()
        self._written: set[tuple[int, Any]] = set()  # parts of objects, on any way

    # --- arrays -------------------------------------------------------------------------------

    def arrays(self, form) -> list[int]:
        """The given arrays in whose memory an operand may lie, or of which it is computed."""
        if isinstance(form, Derived):
            return [key for one in form.operands for key in self.arrays(one)]
        if isinstance(form, Items):
            return [key for one in form.items for key in self.arrays(one)]
        if isinstance(form, Method):
            return self.arrays(form.owner)
        if not isinstance(form, Known) or not isinstance(form.value, np.ndarray):
            return []
        return [k for k, one in self.given.items() if np.may_share_memory(one, form.value)]

    def spend(self, *forms) -> None:
        """Values of arrays are read by something else than recorded operations."""
        for form in forms:
            self.dirty.update(self.arrays(form))

    def spend_all(self, form) -> None:
        """The same of all that a result or an argument of unknown use holds."""
        if isinstance(form, Items):
            for one in form.items:
                self.spend_all(one)
        elif not is_operand(form):
            kind = type(form.value if isinstance(form, Known) else form).__name__
            raise Unknown(f"an object of type {kind}")
        self.spend(form)

    def computed_form(self, form):
        """A form, or data where it is computed of an array from outside."""
        if not isinstance(form, Derived):
            return form
        self.spend(form)
        return DATA

    def view(self, made, of: np.ndarray):
        """What an operation that gives views has made of an array."""
        if type(made) is np.ndarray and np.may_share_memory(made, of):
            return Known(made)
        if type(made) in PLAIN or type(made) is tuple or isinstance(made, np.dtype):
            return Known(made)
        self.spend(Known(of))
        return DATA

    # --- parts --------------------------------------------------------------------------------

    def item(self, owner, key):
        """`owner[key]`."""
        if isinstance(owner, Items):
            if isinstance(key, Known) and isinstance(key.value, (int, slice)):
                found = owner.items[key.value]
                return Items(found) if isinstance(key.value, slice) else found
            raise Unknown("an item by a computed index")
        owner = self.computed_form(owner)
        if isinstance(owner, Other):
            self.spend_all(key)
            return owner
        value, key = value_of(owner), key_of(key)
        if is_array(value):
            if key is None or not self.arrays(owner):
                self.spend(owner)
                return DATA
            return self.view(value[key[0]], value)
        if key is None or type(value) not in (list, tuple, dict):
            raise Unknown("an item of an object")
        self._check_unwritten(value, key[0] if type(value) is dict else None)
        return Known(value[key[0]])

    def write(self, owner, key) -> None:
        """A write to a part of an object from outside: what is read of it later is not known."""
        value = value_of(owner)
        if type(value) not in (list, dict):
            raise Unknown("a write to an object")
        key = key_of(key) if type(value) is dict else (None,)
        if key is None:
            raise Unknown("a write at a computed key")
        self._written.update([(id(value), key[0]), (id(value), _ALL)])

    def write_attribute(self, owner, name: str) -> None:
        """The same of an attribute."""
        value = value_of(owner)
        kind = type(value)
        is_data = hasattr(inspect.getattr_static(kind, name, None), "__set__")
        is_plain_one = kind.__setattr__ is object.__setattr__ and name in held_by(value)
        is_plain_one = is_plain_one and not is_data
        if not is_plain_one or isinstance(value, (type, types.ModuleType)):
            raise Unknown("a write to an attribute")
        self.write_name(value, name)

    def write_name(self, owner, name: str) -> None:
        """The same of a name, by what holds it."""
        self._written.add((id(owner), name))

    def name(self, owner, name: str, value) -> Known:
        """The value of a name, which has not been written to."""
        self._check_unwritten(owner, name)
        return Known(value)

    def _check_unwritten(self, owner, key) -> None:
        if (id(owner), key) in self._written:
            raise Unknown("something that the function has written")

    def attribute(self, owner, name: str):
        """`owner.name`."""
        owner = self.computed_form(owner)
        if isinstance(owner, Other):
            if callable(getattr(np.ndarray, name, None)):
                return Method(owner, name)
            return owner if name == "T" or not owner.recorded else UNSURE
        value = value_of(owner)
        if is_array(value):
            if name in _LAYOUT:
                return self.view(getattr(value, name), value)
            return Method(owner, name)
        if isinstance(value, types.ModuleType):
            is_plain_module = type(value) is types.ModuleType and name in vars(value)
            if is_plain_module or value.__name__.split(".")[0] in ("numpy", "math", "tapegrad"):
                return Known(getattr(value, name))
            raise Unknown("an attribute of a module")
        if type(value) is list and name == "append":
            return Method(owner, name)
        self._check_unwritten(value, name)
        return _attribute_of_instance(value, name)

    def iterated(self, form) -> list:
        if isinstance(form, Items):
            return [*form.items]
        value = value_of(form)
        if is_array(value) and value.ndim > 1 and len(value) <= _ITEMS:
            return [self.view(row, value) for row in value]
        self._check_unwritten(value, _ALL)
        if type(value) in (range, list, tuple, dict) and len(value) <= _ITEMS:
            return [Known(one) for one in value]
        raise Unknown("an iteration")


def _attribute_of_instance(value, name: str):
    """An attribute that an instance holds, or a method of its class."""
    kind = type(value)
    if isinstance(value, type) or kind.__getattribute__ not in _GENERIC:
        raise Unknown("an attribute of an object")
    raw, held = inspect.getattr_static(kind, name, None), getattr(value, "__dict__", {})
    if isinstance(raw, types.MemberDescriptorType):
        return Known(getattr(value, name))
    is_data = hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__")
    if type(raw) is _TUPLE_FIELD or (name in held and not is_data):
        return Known(held[name] if name in held else getattr(value, name))
    if isinstance(raw, types.FunctionType):
        return Known(types.MethodType(raw, value))
    if isinstance(raw, np.ndarray) or is_plain(raw) and raw is not None:
        return Known(raw)
    raise Unknown(f"the attribute {name} of an object")
