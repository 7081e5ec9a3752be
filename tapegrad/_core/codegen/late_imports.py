"""Modules that are imported when something of them is first asked for.

What was compiled when the package was built, or before, needs no compiler.
"""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """A module, imported when it is first used."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name), attribute)
        self.__dict__[attribute] = found
        return found


llvmlite: Any = Later("llvmlite")
ir: Any = Later("llvmlite.ir")
llvm: Any = Later("llvmlite.binding")
#: The statements that Numba reads bytecode as.
numba_ir: Any = Later("numba.core.ir")
