"""Attributes as classes and instances hold them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator

import numpy as np

from ..._core.tensor.dependencies import ABSENT, Dependency
from ..._core.tensor.reachable import held_by

_PLAIN = (bool, int, float, str)


def is_code(value) -> bool:
    """Whether a value is a part of a program, or none: a function, a class, a module."""
    return value is ABSENT or callable(value) or isinstance(value, types.ModuleType)


def arrays_and_holders(one) -> list:
    """The arrays and the objects of SciPy that an object has in its dict and slots."""
    if isinstance(one, np.flatiter):
        return [one.base]
    members = [raw for kind in type(one).__mro__ for raw in vars(kind).values()]
    slots = [raw for raw in members if isinstance(raw, types.MemberDescriptorType)]
    held = [*held_by(one).values(), *(getattr(one, slot.__name__, None) for slot in slots)]
    return [x for x in held if isinstance(x, np.ndarray) or type(x).__module__.startswith("scipy.")]


def state_of(one) -> list[Dependency]:
    """The arrays and plain values that an object of SciPy has, by their names.

    They are in its dict, with dicts of public names as the arguments of a distribution, in its
    slots, or in memory of its class.
    """
    members = [raw for kind in type(one).__mro__ for raw in vars(kind).values()]
    slots = [raw for raw in members if isinstance(raw, types.MemberDescriptorType)]
    fields = [raw for raw in members if isinstance(raw, types.GetSetDescriptorType)]
    held = [(name, x) for name, x in held_by(one).items() if getattr(one, name, None) is x]
    held += [(raw.__name__, getattr(one, raw.__name__, None)) for raw in slots]
    found = [(name, x) for name, x in held if _is_state(name, x)]
    arrays = [(raw.__name__, getattr(one, raw.__name__, None)) for raw in fields]
    found += [  # not those that are made anew each time
        (name, x) for name, x in arrays if isinstance(x, np.ndarray) and getattr(one, name) is x
    ]
    return [Dependency(one, name, x) for name, x in found]


def _is_state(name: str, value) -> bool:
    is_dict = type(value) is dict and not name.startswith("_")
    return is_dict or isinstance(value, (np.ndarray, tuple, *_PLAIN))


def is_empty(one, name: str) -> bool:
    """Whether an attribute is a slot that has no value."""
    raw = inspect.getattr_static(type(one), name, None)
    return isinstance(raw, types.MemberDescriptorType) and not hasattr(one, name)


def has(raw, method: str) -> bool:
    """Whether what a class holds is a descriptor with this method."""
    return hasattr(type(raw), method)


def holding(kind: type, name: str) -> Iterator[type]:
    """The classes that have an attribute themselves, in the order in which they are searched."""
    return (base for base in kind.__mro__ if name in vars(base))
