"""Names of public packages that are imported on first use."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any


def later(package: dict[str, Any], places: dict[str, str]) -> tuple[Callable, Callable]:
    """`__getattr__` and `__dir__` of a package, given by its globals; private names are not listed.

    `places` says what a name refers to: a module (".nn") or a name in a module
    ("._program.compile:compile"), relative to the package. Pickles name functions and classes by
    the package, wherever the code moves.
    """
    own = package["__name__"]

    def find(name: str):
        if name not in places:
            raise AttributeError(f"module {own!r} has no attribute {name!r}")
        module, _, attribute = places[name].partition(":")
        found: Any = importlib.import_module(module, own)
        if attribute:
            found = getattr(found, attribute)
            if isinstance(found, (type, types.FunctionType)):
                found.__module__, found.__qualname__ = own, name
        package[name] = found
        return found

    def names() -> list[str]:
        every = {*package, *places}
        return sorted(name for name in every if not name.startswith("_") or name.endswith("__"))

    return find, names
