"""The passes that make a program faster, by name, each from program to program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..ir.rewriting import compact
from ..ir.steps import Code
from ..ir.uses import Size, size_of
from .fusion import drop_stores, fuse, multiply_first, pick, place
from .memory_reuse import leave_inputs, share
from .simplification import drop_unread, fold, share_results, simplify

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
