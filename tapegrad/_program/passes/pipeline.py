"""The passes that make a program faster, by name, each from program to program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..ir.cost import Size, size_of
from ..ir.rewriting import compact
from ..ir.steps import Code
from .algebra import fold, simplify
from .copy_elision import place
from .cse import share_results
from .dead_code import drop_unread
from .fusion import drop_stores, fuse
from .input_planning import leave_inputs
from .memory_reuse import share
from .row_fusion import multiply_first, pick

PASSES: dict[str, Callable[[Code], Code]] = {
    "fold": fold,
    "simplify": simplify,
    "cse": share_results,
    "drop unread": drop_unread,
    "multiply first": multiply_first,
    "fuse": fuse,
    "pick": pick,
    "drop stores": drop_stores,
    "place": place,
    "leave inputs": leave_inputs,
    "share": share,
    "compact": compact,
}
#: Those after which the operations are the same, only elsewhere.
_MOVING = {"leave inputs", "share", "compact"}


@dataclasses.dataclass
class Account:
    """The history of a recording: its rows, those needed, and the program after each pass."""

    rows: int
    needed: int
    sizes: list[tuple[str, Size]]


def optimised(
    code: Code, rows: int, needed: int, without: tuple[str, ...] = ()
) -> tuple[Code, Account]:
    """The program after all passes except some, and a record of their effects.

    The number of rows from which it was converted.
    """
    sizes = [("as recorded", size_of(code))]
    for name, one in PASSES.items():
        if name not in without:
            made = one(code)
            size = sizes[-1][1] if made is code or name in _MOVING else size_of(made)
            sizes.append((name, size._replace(slots=made.slots)))
            code = made
    return code, Account(rows, needed, sizes)
