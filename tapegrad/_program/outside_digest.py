"""A digest of what a function reads from outside, which is the same in processes where that is."""

from __future__ import annotations

import hashlib
import types

import numpy as np

from .._core.tensor.callers import outer
from .._core.tensor.dependencies import Contents, Dependencies, Placement, held_memory
from .._core.tensor.reachable import COMPUTING, module_of

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, slice)
#: The parts of code that say what it does; its file and lines are not among them.
_CODE = "co_code co_consts co_names co_varnames co_freevars co_cellvars co_argcount co_flags"


def digest_of(names: Dependencies) -> str:
    """The digest of all names, and of what their values hold.

    Values are compared, functions by their code. Of other objects it has the class: what the
    function reads of them is among the names.
    """
    lines = []
    for one in names:
        value = one.owner if isinstance(one, (Contents, Placement)) else one.value
        lines.append(f"{one.name} {_described(value, frozenset())}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _described(value, within: frozenset[int]) -> str:
    """A value as text; `within` are the containers that it lies in."""
    if isinstance(value, _PLAIN):
        return f"{type(value).__name__} {value!r}"
    if (held := held_memory(value)) is not None:
        value = held
    if isinstance(value, (np.ndarray, np.generic)):
        data = value.tobytes() if not value.dtype.hasobject else repr(value).encode()
        return f"{value.dtype.str} {value.shape} {hashlib.sha256(data).hexdigest()}"
    if isinstance(value, types.CodeType):
        return " ".join(_described(getattr(value, name), within) for name in _CODE.split())
    if isinstance(value, types.FunctionType) and outer(module_of(value)) in COMPUTING:
        return f"function {value.__module__}.{value.__qualname__}"
    if isinstance(value, types.FunctionType):
        return f"function {value.__qualname__} {_described(value.__code__, within)}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if id(value) in within:
        return "itself"
    inside = within | {id(value)}
    name = type(value).__qualname__
    if isinstance(value, dict):
        items = [(_described(k, inside), _described(x, inside)) for k, x in value.items()]
        return f"{name} {items}"
    if isinstance(value, (list, tuple)):
        return f"{name} {[_described(item, inside) for item in value]}"
    if isinstance(value, (set, frozenset)):
        return f"{name} {sorted(_described(item, inside) for item in value)}"
    return f"{name} {getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
