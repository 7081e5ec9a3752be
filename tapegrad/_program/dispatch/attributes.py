"""Attributes that a method reads, as arguments of a function.

The method is called with a stand-in for its instance, which notes reads. Floats and arrays there
are inputs of the program; other attributes must be equal, or the same object. A method that writes
to its instance, or reads attributes that cannot be compared, has no program of this kind.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.tensor import runtime as rt
from ..._core.tensor.pytree import ABSENT, tree_build, tree_leaves
from ..._core.tensor.values import is_tensor, value_of
from ..._entering.stand_ins import is_compiled
from .signature import own_copy, structure
from .variants import NotRecorded

_NUMBERS = (float, np.floating, np.ndarray)
_EQUAL = (bool, int, str, bytes, type(None), np.integer, np.bool_, np.dtype)
_SAME = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, np.ufunc)
_state = threading.local()


class InstanceWritten(BaseException):
    """A method writes to an attribute of its instance; its own handlers do not catch this."""

    def __init__(self, text: str, name: str):
        super().__init__(text)
        self.name = name
        self.args_given: tuple[tuple, dict] = (), {}  # those of the method, without the instance


class MoreRead(BaseException):
    """A method has read attributes that are no inputs yet; its own handlers do not catch this."""


class Attributes:
    """The attributes of an instance that a method reads: names, values of inputs, the rest."""

    def __init__(self, instance, names: tuple[str, ...]):
        self.names = names
        self.trees = [getattr(instance, name, ABSENT) for name in names]
        self.inputs: list[Any] = []
        key: list[Any] = [type(instance), names]
        for name, tree in zip(names, self.trees, strict=True):
            leaves = [leaf for _, leaf in tree_leaves(tree)]
            key.append((structure(tree), *[self._leaf(name, leaf) for leaf in leaves]))
        self.key = tuple(key)

    def _leaf(self, name: str, leaf):
        """Enter a leaf; returns its part of the key."""
        if _is_input(leaf):
            self.inputs.append(leaf)
            return None
        check_attribute(name, leaf)
        return type(leaf), leaf

    def build(self, values, other: Callable = lambda leaf: leaf) -> dict[str, Any]:
        """The attributes with other values of the inputs, and `other` of other leaves."""
        given = iter(values)
        made = {}
        for name, tree in zip(self.names, self.trees, strict=True):
            leaves = [leaf for _, leaf in tree_leaves(tree)]
            new = [next(given) if _is_input(leaf) else other(leaf) for leaf in leaves]
            if tree is not ABSENT:
                made[name] = tree_build(tree, iter(new))
        return made


def _is_input(leaf) -> bool:
    return is_tensor(leaf) or isinstance(leaf, _NUMBERS)


def check_attribute(name: str, leaf) -> None:
    """Refuse a leaf of an attribute that is no input and cannot be compared at each call."""
    if isinstance(leaf, (np.random.Generator, np.random.RandomState)):
        raise NotRecorded(f"it draws random numbers by self.{name}; pass them as arguments")
    is_kept = leaf is ABSENT or isinstance(leaf, (*_EQUAL, *_SAME)) or is_compiled(leaf)
    if not (is_kept or _is_input(leaf)):
        raise NotRecorded(
            f"it reads self.{name}, which holds a {type(leaf).__name__}; a program follows floats, "
            "arrays and containers of them: pass that as an argument"
        )


def call_noting(f, instance, attributes: Attributes, values, args, kwargs):
    """The result of a method with other values of its attributes; the instance does not change.

    Raises `MoreRead` with the names that it has read in addition to these, InstanceWritten where it
    writes.
    """
    for value in values:
        if type(value) is rt.Array:  # a write would be lost: it is refused
            value._array.flags.writeable = False
    given = attributes.build(values)
    stand_in = _stand_in(instance, given)
    before, _state.read = getattr(_state, "read", None), set(given)
    try:
        out = f(stand_in, *args, **kwargs)
        read = _state.read
    finally:
        _state.read = before
    if more := read - set(attributes.names):
        raise MoreRead(tuple(sorted(more)))
    try:
        _check_unwritten(stand_in, instance, given, attributes)
    except InstanceWritten as error:
        error.args_given = args, kwargs
        raise
    return out


def _stand_in(instance, given: dict):
    """An instance that notes which attributes are read, and has some other ones."""
    kind: Any = type(instance)
    try:
        made = object.__new__(_noting(kind))
    except Exception as error:  # classes may refuse any subclass
        raise NotRecorded(f"its instance cannot be copied: {error}") from None
    for name, value in {**_state_of(instance), **given}.items():
        object.__setattr__(made, name, value)
    return made


def _state_of(instance) -> dict[str, Any]:
    """The attributes of an instance, by name."""
    found = dict(_dict_of(instance))
    for kind in type(instance).__mro__:
        for name, one in vars(kind).items():
            if isinstance(one, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # it has no value
                    found[name] = one.__get__(instance)
    return found


def _dict_of(instance) -> dict[str, Any]:
    try:
        return object.__getattribute__(instance, "__dict__")
    except AttributeError:
        return {}


@functools.cache
def _noting(kind: Any) -> Any:
    """The class of stand-ins for instances of a class."""

    def read(self, name):
        if name == "__dict__":
            raise NotRecorded("it reads self.__dict__; let it name the attributes")
        value = kind.__getattribute__(self, name)
        names = getattr(_state, "read", None)
        if names is None or name in names or not _is_state(kind, self, name):
            return value
        names.add(name)
        for _, leaf in tree_leaves(value):
            check_attribute(name, leaf)
        copied = own_copy(value)  # the first time a method may still write to it
        object.__setattr__(self, name, copied)
        return copied

    fields = {"__getattribute__": read, "__slots__": (), "__module__": kind.__module__}
    made = type(kind)(kind.__name__, (kind,), fields)
    made.__qualname__ = kind.__qualname__
    return made


def _is_state(kind: type, instance, name: str) -> bool:
    """Whether a name is that of a value: an instance's, or one of its class."""
    if name.startswith("__") and name.endswith("__"):
        return False
    found = inspect.getattr_static(kind, name, ABSENT)
    if isinstance(found, types.MemberDescriptorType):
        return True
    if name in _dict_of(instance):
        return True
    return found is not ABSENT and not hasattr(type(found), "__get__")


def _check_unwritten(stand_in, instance, given: dict, attributes: Attributes) -> None:
    """Check that the method has not changed its instance."""
    before, after = {**_state_of(instance), **given}, _state_of(stand_in)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name, ABSENT) is not after.get(name, ABSENT):
            raise InstanceWritten(f"it sets self.{name}, which a program would not", name)
    for name, tree in zip(attributes.names, attributes.trees, strict=True):
        if name in given and not _is_as_it_was(given[name], tree):
            text = f"it writes to self.{name}, which a program would not"
            raise InstanceWritten(text, name)


def _is_as_it_was(given, tree) -> bool:
    """Whether a method has left an attribute as it was given."""
    if structure(given) != structure(tree):
        return False
    pairs = zip(tree_leaves(given), tree_leaves(tree), strict=True)
    return all(x is y or _is_equal(value_of(x), value_of(y)) for (_, x), (_, y) in pairs)


def _is_equal(x, y) -> bool:
    if isinstance(y, _NUMBERS):
        return np.array_equal(
            np.asarray(x), np.asarray(y), equal_nan=np.asarray(y).dtype.kind == "f"
        )
    return bool(x == y)
