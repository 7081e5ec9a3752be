"""Code of a function from Numba's reader of bytecode: blocks, variables, liveness."""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

from ..._core.codegen import compat
from ..._core.codegen.process import Later
from ..._core.codegen.process import numba_ir as ir
from .forms import Unread

#: An expression: a variable as it is, or nothing where it is unbound.
SAVED = "saved"
#: An expression: the text of a value, in the format that `spec` holds.
FORMATTED = "formatted"
#: Numba is imported with the first code that is read.
_reader: Any = Later(f"{__package__}.bytecode_reader")


class FunctionCode:
    """Blocks of statements by label; the first one's label is `first`."""

    def __init__(self, code: types.CodeType):
        self.code = code
        self.name = code.co_name
        self.blocks = _reader.blocks(code)
        self.saved = _saved(self.blocks)
        self.first = min(self.blocks)
        self.free = frozenset(code.co_freevars)
        #: Global names that it assigns, which are variables of no frame.
        self.assigned_globals = frozenset(
            [one.argval for one in dis.get_instructions(code) if one.opname == "STORE_GLOBAL"]
        )
        #: Whether it assigns variables of functions around it, or global ones.
        self.assigns_outside = bool(self.assigned_globals) or any(
            one.opname in ("STORE_DEREF", "DELETE_DEREF") and one.argval in self.free
            for one in dis.get_instructions(code)
        )
        self.cells = frozenset(code.co_cellvars)
        self._live_in = self._liveness()
        self._live_at: dict[tuple[int, int], frozenset[str]] = {}
        self._ends_behind: dict[int, frozenset[int]] | None = None

    def live(self, label: int, at: int) -> frozenset[str]:
        """Variables that are read from statement `at` of a block on; cells are always live."""
        if (label, at) not in self._live_at:
            body = self.blocks[label].body
            live = set().union(*[self._live_in[after] for after in _targets(body[-1])])
            for statement in reversed(body[at:]):
                _before(statement, live)
            self._live_at[label, at] = frozenset(live | self.cells)
        return self._live_at[label, at]

    def join_of(self, label: int) -> tuple[int, list[int]] | None:
        """Where all ways from the end of a block meet again, and the blocks before that.

        None where there is no such block, since a way returns or raises, or the block comes again.
        """
        if self._ends_behind is None:
            self._ends_behind = _postdominators(self.blocks)
        after = _targets(self.blocks[label].body[-1])
        common = frozenset.intersection(*[self._ends_behind[one] for one in after])
        found = [one for one in common if self._ends_behind[one] == common]
        if not found:
            return None
        between, waiting = set(), list(after)
        while waiting:
            one = waiting.pop()
            if one != found[0] and one not in between:
                between.add(one)
                waiting.extend(_targets(self.blocks[one].body[-1]))
        return None if label in between else (found[0], sorted(between))

    def _liveness(self) -> dict[int, frozenset[str]]:
        found: dict[int, frozenset[str]] = dict.fromkeys(self.blocks, frozenset())
        changed = True
        while changed:
            changed = False
            for label in sorted(self.blocks, reverse=True):
                body = self.blocks[label].body
                live = set().union(*[found[after] for after in _targets(body[-1])])
                for statement in reversed(body):
                    _before(statement, live)
                if live != found[label]:
                    found[label], changed = frozenset(live), True
        return found


def _saved(blocks: dict) -> frozenset[str]:
    """Temporaries that hold the earlier variable of a comprehension, or nothing.

    From Python 3.12 on, comprehensions are part of the function around them.
    """
    pairs = [
        (one.target.name, one.value)
        for block in blocks.values()
        for one in block.body
        if isinstance(one, ir.Assign) and one.target.name.startswith("$")
    ]
    found = {name for name, value in pairs if isinstance(value, ir.Expr) and value.op == SAVED}
    count = -1
    while found and count != len(found):
        count = len(found)
        copies = [(name, value) for name, value in pairs if isinstance(value, ir.Var)]
        found.update(name for name, value in copies if value.name in found)
    return frozenset(found)


def _targets(end) -> list[int]:
    if isinstance(end, ir.Jump):
        return [end.target]
    if isinstance(end, ir.Branch):
        return [end.truebr, end.falsebr]
    return []


def _postdominators(blocks: dict) -> dict[int, frozenset[int]]:
    """For each block those that all ways from it to a return go through, itself included."""
    every = frozenset(blocks)
    found = dict.fromkeys(blocks, every)
    changed = True
    while changed:
        changed = False
        for label in sorted(blocks, reverse=True):
            end = blocks[label].body[-1]
            after = [found[one] for one in _targets(end)]
            made = frozenset.intersection(*after) if after else frozenset()
            if isinstance(end, (ir.Raise, ir.StaticRaise)):
                made = frozenset()
            made |= {label}
            if made != found[label]:
                found[label], changed = made, True
    return found


def _before(statement, live: set[str]) -> None:
    """The variables live before a statement, from those live after it."""
    if isinstance(statement, ir.Assign):
        live.discard(statement.target.name)
    live.update(read_by(statement))


def read_by(statement) -> list[str]:
    """The variables that a statement reads."""
    if not isinstance(statement, ir.Assign):
        return [one.name for one in statement.list_vars()]
    value = statement.value
    if isinstance(value, (ir.Var, ir.Arg)):
        return [value.name]
    return [one.name for one in value.list_vars()] if isinstance(value, (ir.Expr, ir.Yield)) else []


@functools.lru_cache(128)
def code_of(code: types.CodeType) -> FunctionCode:
    """The code read; Refused if Numba's reader does not know it."""
    if not compat.holds("numba-reader", _reads):
        raise Unread(f"{code.co_name} cannot be read: numba-reader is off, or does not hold here")
    return FunctionCode(code)


def _example(x, n):
    for k in range(n):
        if x > k:
            x = x * k
    return x


def _reads() -> bool:
    """Whether a loop with a branch is read as such: its expressions, ends and variables."""
    read = FunctionCode(_example.__code__)
    branches = [one for one in read.blocks.values() if isinstance(one.body[-1], ir.Branch)]
    names = {_op(one) for block in read.blocks.values() for one in block.body}
    (loop,) = [k for k, one in read.blocks.items() if "iternext" in map(_op, one.body)]
    live = read.live(loop, 0)
    wanted = {"call", "getiter", "iternext", "pair_first", "pair_second", "binop"}
    return len(branches) == 2 and wanted <= names and "x" in live and "n" not in live


def _op(statement):
    return getattr(getattr(statement, "value", None), "op", None)
