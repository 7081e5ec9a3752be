"""Checkpoints of the reverse pass of a region: recomputed, saved by iteration, or read in the slot.

Inside loops the body of an iteration is recomputed from the values carried into it: a trajectory
keeps these, and the results of functions that take longer than a load; of short loops all results.
Outside of loops results are read where they are stored, and so are results of a loop that the code
after it reads.

A loop may be cut into blocks of about the square root of its iterations: then carried values are
saved where a block begins, and reverse runs each block forwards before it goes back.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection

from ..._core.codegen.layout import CACHE_LINE
from ..._core.ops.elementwise_text import ElementwiseText
from ..._core.ops.table import BY_CODE, POWERS, Pointwise
from ..ir.steps import GUARD
from .loop_finding import Loop
from .loop_operands import CARRIED, FIXED, LOCAL, Chain, Operand, Operands, Register

#: The number of slots that stay in the cache. Up to it all results of loops that carry something
#: are saved: forward waits for what it carries and has time to write them.
IN_CACHE = 1 << 16
#: Loops of fewer iterations are not cut into blocks.
LONG = 64
#: Functions that are computed in a few instructions.
QUICK = {"sqrt", "absolute", "sign", "floor", "ceil", "rint", "trunc", "maximum", "minimum"}


@dataclasses.dataclass(frozen=True)
class Blocks:
    """`count` blocks of `length` iterations; one of them is kept in slots from `slots` on."""

    length: int
    count: int
    slots: int


class Kept:
    """What the reverse pass of a region needs. `recomputed` are results, those of bodies of loops.

    `cut` says that long loops are cut into blocks.
    """

    def __init__(self, operands: Operands, wanted, new_slots: Callable[[int], int], cut: bool):
        self.operands, self.region = operands, operands.region
        self.wanted = wanted
        self._line = CACHE_LINE // operands.item  # slots of a cache line
        self._wanted: dict[int, bool] = {}  # by operation
        self.blocks: dict[Loop, Blocks] = {}  # of loops with checkpoints at intervals
        #: By loop whose entries are contiguous over iterations: the slots of one entry.
        self.columns: dict[Loop, int] = {}
        self.slots: dict[Loop, int] = {}
        self._find(set())
        carrying = {loop for loop in self.entries if self.registers(loop)}
        long = {loop for loop in carrying if cut and not loop.loops and loop.count >= LONG}
        self._find(carrying - long)
        if sum(self.total(x, len(kept)) for x, kept in self.entries.items()) > IN_CACHE:
            self._find(set())
        for loop in self.region.numbers:
            if loop in long:
                self._cut(loop, new_slots)

    def allot(self, new_slots: Callable[[int], int], columns: Collection[Loop]) -> None:
        """Give the entries of all loops their slots, those of `columns` side by side."""
        self.columns = {loop: self._apart(loop.count) for loop in columns}
        for loop, kept in self.entries.items():
            if kept:
                total = self.total(loop, len(kept))
                place = self.in_lines(new_slots, total) if loop in columns else new_slots(total)
                self.slots[loop] = place

    def _apart(self, count: int) -> int:
        """Slots of `count` iterations: an odd number of cache lines, so that columns spread."""
        return self._line * (-(-count // self._line) | 1)

    def in_lines(self, new_slots: Callable[[int], int], count: int) -> int:
        """The given number of new slots, which begin with a cache line."""
        return -(-new_slots(count + self._line - 1) // self._line) * self._line

    def registers(self, loop: Loop) -> list[Register]:
        """The carried values of a loop that reverse needs."""
        return [entry for entry in self.entries[loop] if isinstance(entry, Register)]

    def _cut(self, loop: Loop, new_slots: Callable[[int], int]) -> None:
        """Cut a loop into blocks; what its iterations need to be computed again is needed too."""
        chain, known = (*self.region.around[loop], loop), 0
        while known < len(self.entries[loop]):
            entry = self.entries[loop][known]
            known += 1
            if isinstance(entry, Register):
                self._need(Operand(LOCAL, "", result=entry.result), chain, entry.result)
                continue
            for name in self._names(entry):
                self._need(self._operand(entry, name), chain, entry)
        length = math.isqrt(loop.count - 1) + 1
        slots = new_slots(length * len(self.entries[loop]))
        self.blocks[loop] = Blocks(length, math.ceil(loop.count / length), slots)

    def _find(self, whole: set[Loop]) -> None:
        """Find recomputed and saved values; of the loops in `whole` all results are saved."""
        self.whole = whole
        self.recomputed: set[int] = set()
        #: By loop: what is saved of each iteration, registers and results.
        self.entries: dict[Loop, list[Register | int]] = {x: [] for x in self.region.numbers}
        #: By loop (None: outside of loops): results of loops inside that are read after them.
        self.last: dict[Loop | None, set[int]] = {x: set() for x in (None, *self.region.numbers)}
        #: By outermost loop or operation outside of loops: results and slots that are read.
        self.outer: dict[Loop | int, set[int]] = {}
        self.fixed: set[tuple[Loop, int]] = set()
        self._visit()

    def size(self, loop: Loop, width: int) -> int:
        """The slots of a number of values of each iteration, for one run of a loop."""
        times = self.blocks[loop].count if loop in self.blocks else loop.count
        return self.columns.get(loop, times) * width

    def total(self, loop: Loop, width: int) -> int:
        """The same for all its runs."""
        total = self.size(loop, width)
        for around in self.region.around[loop]:
            total *= around.count
        return total

    def is_wanted(self, k: int) -> bool:
        """Whether the adjoint of an operation's result is wanted."""
        if k not in self._wanted:
            slots = self.region.step.first + self.region.positions(k, self.region.chain(k))
            self._wanted[k] = bool(self.wanted[slots].any())
        return self._wanted[k]

    def op(self, k: int) -> Pointwise:
        return BY_CODE[int(self.region.step.op[k])]

    def edges(self, k: int) -> dict[int, str]:
        """Operands, by number, whose adjoint operation k adds to, with the partial derivatives."""
        if self.region.step.op[k] == GUARD or not self.is_wanted(k):
            return {}
        op, operands = self.op(k), self.operands.of[k]
        return ElementwiseText(op, lambda _: None).slopes(
            [j for j in op.sloping if operands[j].wanted]
        )

    def _visit(self) -> None:
        for k in self.operands.of:
            edges = self.edges(k)
            for name in self.op(k).read_by(edges) if edges else ():
                self._need(self._operand(k, name), self.region.chain(k), k)

    def _names(self, k: int) -> set[str]:
        """The inputs that the value of operation k reads."""
        return self.op(k).read(self.op(k).value)

    def _operand(self, k: int, name: str) -> Operand:
        if name == "out":
            return Operand(LOCAL, f"v{k}", result=k)
        return self.operands.of[k][self.op(k).inputs.index(name)]

    def _need(self, operand: Operand, chain: Chain, k: int) -> None:
        """Note how reverse gets the value of an operand, and what that requires."""
        todo = [(operand, chain)]
        while todo:
            operand, chain = todo.pop()
            if operand.kind == CARRIED:
                self._keep(operand.register)
            elif operand.kind == FIXED:
                self.fixed.add((chain[0], operand.slot))
            elif operand.kind == LOCAL:
                todo += self._need_result(operand.result, chain, k)

    def _keep(self, entry) -> None:
        loop = self.region.chain(entry)[-1] if isinstance(entry, int) else entry.loop
        if entry not in self.entries[loop]:
            self.entries[loop].append(entry)

    def _need_result(self, result: int, chain: Chain, k: int) -> list[tuple[Operand, Chain]]:
        home = self.region.chain(result)
        common = 0
        while common < min(len(home), len(chain)) and home[common] is chain[common]:
            common += 1
        if common < len(home):
            self.last[chain[common - 1] if common else None].add(result)
            self.region.held[self.region.last_positions(result, home, common)] = True
        if not common:
            node = chain[0] if chain else k
            self.outer.setdefault(node, set()).add(result)
            if not home:
                self.region.held[result] = True
        if common < len(home) or not home or result in self.recomputed:
            return []
        self.recomputed.add(result)
        if (home and home[-1] in self.whole) or self.takes_long(result):
            self._keep(result)
            return []
        return [(self._operand(result, name), home) for name in self._names(result)]

    def takes_long(self, k: int) -> bool:
        """Whether an operation calls a function that is more than a few instructions."""
        op = self.op(k)
        functions = functions_of(op.value, *[text for _, text in op.needed(op.value)])
        return not (op.name in POWERS or functions <= QUICK)


def functions_of(*texts: str) -> set[str]:
    """The functions under NumPy's names that expressions call."""
    return set(re.findall(r"\bnp\.(\w+)", " ".join(texts)))
