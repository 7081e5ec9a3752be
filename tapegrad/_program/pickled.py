"""Pickles of compiled functions: the function by its name, with its settings and programs."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import pickle
from collections.abc import Callable
from typing import Any

from .._core.tensor import runtime as rt
from .composition import Composed
from .dispatch.variants import Compilation
from .files import file_format


def reduced(compiled: Composed, make: Callable, f: Callable, settings: dict) -> tuple:
    """The pickled state of a compiled function, which `make(f, **settings)` restores.

    Programs are pickled in the form of files, if possible. Native code is compiled again.
    """
    reference = _reference(f)
    if reference is None:
        raise pickle.PicklingError(
            f"tapegrad.compile: {compiled._name} cannot be pickled, since it cannot be imported by "
            "its name; define it at the top level of a module, or use save and tg.load"
        )
    return restored, (make, reference, settings, _programs(compiled), _has_native(compiled))


def restored(make: Callable, reference: tuple, settings: dict, programs: bytes | None, native):
    """A compiled function from the result of `reduced`."""
    f = reference[0] if len(reference) == 1 else _named(*reference)
    made = make(f, **settings)
    if programs is not None:
        rt.start()  # programs read the recorder's state, also where no tensor is ever made
        made._install(file_format.load(programs), native)
    return made


def _reference(f) -> tuple | None:
    """The function if pickle can store it, or module and name of the compiled one."""
    with contextlib.suppress(Exception):  # as of a closure; every kind of object has its own
        pickle.dumps(f)
        return (f,)
    with contextlib.suppress(Exception):
        names = f.__module__, f.__qualname__
        if _named(*names) is f:
            return names
    return None


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
    families = compiled._families.found.values()
    own = any(variant.program.native for family in families for variant in family.found)
    return own or any(map(_has_native, compiled._derived.values()))
