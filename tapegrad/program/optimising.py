"""The passes that make a program faster, by name, each from program to program."""

from __future__ import annotations

from collections.abc import Callable

from ..replay.steps import Code
from .fusing import drop_stores, fuse
from .placing import place
from .planning import compact, leave_inputs
from .sharing import share

PASSES: dict[str, Callable[[Code], Code]] = {
    "fuse": fuse,
    "drop stores": drop_stores,
    "place": place,
    "leave inputs": leave_inputs,
    "share": share,
    "compact": compact,
}


def optimised(code: Code) -> Code:
    """The program after all passes."""
    for one in PASSES.values():
        code = one(code)
    return code
