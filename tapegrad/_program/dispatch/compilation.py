"""What a compiled function consists of, to be written to a file and read from one."""

from __future__ import annotations

import dataclasses
from typing import Any

from .flows import Flow
from .life import History
from .variants import Variants


@dataclasses.dataclass
class Compilation:
    """A compiled function: name, kind of result, differentiated arguments, programs.

    `derived` are transforms of it, such as its Hessian, by name; `reason` is that of having no
    programs; `graphs` are those of its loops and branches, `refused` the reason for having none;
    `native` is the setting.
    """

    name: str
    kind: str
    argnums: tuple[int, ...]
    single: bool
    families: dict[Any, Variants]
    derived: dict[str, Compilation]
    reason: str | None = None
    graphs: tuple[Flow, ...] = ()
    refused: tuple[str, ...] = ()
    native: bool | None = None
    changes: str | None = None  # what the function changes outside, and where
    history: History | None = None  # unless it was loaded from a file
