"""Pickles of compiled functions: the function by its name, with its settings and programs."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import io
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.callers import outer
from .._core.tensor.dependencies import Contents, Dependencies, Placement, held_memory
from .._core.tensor.reachable import COMPUTING, module_of
from .composition import Composed
from .dispatch.evaluation import Compilation
from .dispatch.names_read import names_read
from .files import file_format

# --------------------------------------------------------------------------------------------------
# A digest of what a function reads from outside, which is the same in processes where that is.


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


# --- Pickles of compiled functions: the function by its name, with its settings and programs ------
# Programs are of use only if the function reads the same from outside where they are restored,
# other modules' globals say: a digest of it decides. Otherwise the function is recorded again.


def reduced(compiled: Composed, make: Callable, f: Callable, settings: dict) -> tuple:
    """The pickled state of a compiled function, which `make(f, **settings)` restores.

    Programs are pickled in the form of files, if possible. Native code is compiled again. A
    function that cannot be imported is left to a pickler that stores functions, as cloudpickle.
    """
    reference = _reference(f, _stores_functions())
    if reference is None:
        raise pickle.PicklingError(
            f"tapegrad.compile: {compiled._name} cannot be pickled, since it cannot be imported by "
            "its name; define it at the top level of a module, use cloudpickle, or save and tg.load"
        )
    programs = _programs(compiled)
    digest = None if programs is None else digest_of(names_read(f))
    state = programs, digest, _has_native(compiled)
    return restored, (make, reference, settings, *state)


def restored(make: Callable, reference: tuple, settings: dict, programs, digest, native: bool):
    """A compiled function from the result of `reduced`."""
    f = reference[0] if len(reference) == 1 else _named(*reference)
    made = make(f, **settings)
    if programs is not None and digest_of(names := names_read(f)) == digest:
        rt.start()  # programs read the recorder's state, also where no tensor is ever made
        made._install(file_format.load(programs), native, names)
    return made


def _stores_functions() -> bool:
    """Whether the pickler that asks is of a class that may store functions themselves."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tapegrad."):
        frame = frame.f_back
    if frame is None or not frame.f_code.co_argcount:
        return False
    asking = type(frame.f_locals.get(frame.f_code.co_varnames[0]))  # a method's `self`
    plain = pickle.Pickler, pickle._Pickler
    return issubclass(asking, plain) and asking not in plain


def _reference(f, stores_functions: bool) -> tuple | None:
    """The function if the pickler can store it, or module and name of the compiled one."""
    with contextlib.suppress(Exception):  # as of a closure; every kind of object has its own
        pickle.dumps(f)
        return (f,)
    with contextlib.suppress(Exception):
        names = f.__module__, f.__qualname__
        is_elsewhere = names[0] != "__main__" or not stores_functions
        if is_elsewhere and _named(*names) is f:
            return names
    return (f,) if stores_functions else None


def _named(module: str, name: str):
    """The function under a name in a module, which may be the compiled one."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found._f if hasattr(type(found), "_method_for") else found


def _programs(compiled: Composed) -> bytes | None:
    """The content of its file; None where it has no programs, or they cannot be saved."""
    stream = io.BytesIO()
    try:
        file_format.save(stream, _without_graphs(compiled._compilation()))
    except ValueError:
        return None
    return stream.getvalue()


def _without_graphs(found: Compilation) -> Compilation:
    """The programs alone: the function is there to be read, with the names it sees there."""
    derived = {name: _without_graphs(one) for name, one in found.derived.items()}
    return dataclasses.replace(found, graphs=(), derived=derived)


def _has_native(compiled: Composed) -> bool:
    """Whether it has native code, so that a copy is to have it at once."""
    families = list(compiled._families.found.values())  # other threads add to it
    own = any(variant.program.native for family in families for variant in family.found)
    return own or any(map(_has_native, list(compiled._derived.values())))
