"""The passes that make a program faster, by name, each from program to program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..ir.compaction import compact
from ..ir.cost import Size, size_of
from ..ir.steps import Code
from ..lowering.iterations import Short
from .algebra import simplify
from .constant_folding import fold
from .continuation import continued, last_written
from .copy_elision import place
from .cse import share_results
from .dead_code import drop_unread
from .fusion import drop_stores, fuse
from .input_planning import leave_inputs
from .memory_reuse import share
from .row_fusion import pick

PASSES: dict[str, Callable[[Code], Code]] = {
    "fold": fold,
    "simplify": simplify,
    "cse": share_results,
    "drop unread": drop_unread,
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

    def after(self, names: list[str], code: Code, short: Short | None = None) -> Code:
        """The program after some passes; of a loop it may have few iterations."""
        for name in names:
            made = PASSES[name](code)
            size = self.sizes[-1][1]
            if made is not code:
                size = size._replace(slots=made.slots) if name in _MOVING else sized(made, short)
            self.sizes.append((name, size))
            code = made
        return code


def sized(code: Code, short: Short | None = None) -> Size:
    """The size of a program, as if it had all iterations of a loop."""
    size = size_of(code)
    if short is None:
        return size
    begin, end = short.slots[short.before - 1 : short.before + 1]
    steps = [step for step in code.steps if begin <= last_written(step) < end]
    each = size_of(dataclasses.replace(code, steps=steps))
    each = each._replace(slots=short.size + short.width)
    return Size(*[a + short.left_out * b for a, b in zip(size, each, strict=True)])


def optimised(
    code: Code, rows: int, needed: int, without: tuple[str, ...] = (), short: Short | None = None
) -> tuple[Code, Account] | None:
    """The program after all passes except some, and a record of their effects.

    The number of rows from which it was converted. With `short` it has few iterations of a loop so
    far; None where they do not show how it continues.
    """
    account = Account(rows, needed, [("as recorded", sized(code, short))])
    names = list(PASSES)
    fusing, moving = names.index("fuse"), names.index("drop stores")
    before, between, after = (
        [name for name in some if name not in without]
        for some in (names[:fusing], names[fusing:moving], names[moving:])
    )
    code = account.after(before, code, short)
    sizes = list(account.sizes)
    fused = account.after(between, code, short)
    made = fused if short is None else continued(fused, short)
    if made is None and short is not None and (made := continued(code, short)) is not None:
        account.sizes = sizes
        made = account.after(between, made)
    return None if made is None else (account.after(after, made), account)
