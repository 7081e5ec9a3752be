"""Operations on numbers."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..._core.ops.table import BY_CODE, COMPLEX, MOST_CODES, POWERS, STEERING, TABLE, Pointwise
from ..._core.remembered import remembered
from ..._core.tape.sweeps import memory_of
from .elementwise_step import counted, names_of
from .moving_step import CODES, INTEGER, SLOTS
from .steps import GUARD, Renumber, Step, View, Visitor, WorkCounts, is_function
from .uses import Memory, are_below, expect, marked

#: Operations on numbers have no more operands.
OPERANDS = 3
#: More operations are not looked through for whether they are linear.
_FEW = 64


@dataclasses.dataclass
class Scalars(Step):
    """Operations on numbers, one after the other: operation k writes slot first + k.

    `op` holds codes of element-wise operations (`ops.table.BY_CODE`) or GUARD; `a`, `b`, `c` the
    slots of the operands, −1 for none. All are int32 and of one length; `c` is empty if no
    operation has three operands.
    """

    first: int
    op: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    plural = "of numbers"
    is_whole = False
    needs_values = False
    file_fields = {"first": INTEGER, "op": CODES, **dict.fromkeys("abc", SLOTS)}

    def accept(self, visitor: Visitor) -> Any:
        return visitor.scalars(self)

    def cut(self, start: int, stop: int) -> Scalars:
        """Some of the operations."""
        columns = [column[start:stop] for column in (self.op, self.a, self.b, self.c)]
        return Scalars(self.first + start, *columns)

    # --- what it reads and writes -------------------------------------------------------------

    @remembered
    def views_read(self) -> list[View]:
        return []

    @property
    def slots_read(self) -> list[np.ndarray]:
        return [self.a, self.b, self.c]

    @remembered
    def views_written(self) -> list[View]:
        return [View(self.first, (len(self.op),), (1,))]

    @remembered
    def views(self) -> list[View]:
        return []

    @property
    def slots_written(self) -> np.ndarray:
        return self.first + np.flatnonzero(self.op != GUARD)

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Scalars:
        return self if renumber is None else renumbered([self], renumber)[0]

    # --- what passes ask ----------------------------------------------------------------------

    @remembered
    def addresses(self) -> list[int]:
        """Where the columns are in memory, 0 for none; they are in C order there."""
        columns = [self.op, self.a, self.b, self.c]
        if not all([x.flags.c_contiguous and x.dtype == np.int32 for x in columns]):
            columns = [np.ascontiguousarray(x, np.int32) for x in columns]
            self.op, self.a, self.b, self.c = columns
        return [memory_of(x) if len(x) else 0 for x in columns]

    @property
    def movable(self) -> list[View]:
        return []

    @remembered
    def guards(self) -> np.ndarray:
        """The numbers of the operations that are guards."""
        return np.flatnonzero(self.op == GUARD)

    def is_linear(self, wanted: Any) -> bool:
        if len(self.op) > _FEW:
            return False
        varies = [wanted.of_slots(column).tolist() for column in (self.a, self.b)]
        for op, a, b in zip(self.op.tolist(), *varies, strict=True):
            name = BY_CODE[op].name if op != GUARD else ""
            linear = name in ("add", "subtract", "negative") or (
                name == "multiply" and not (a and b)
            )
            if not (linear or (name == "divide" and not b)):
                return False
        return True

    # --- files --------------------------------------------------------------------------------

    def check(self, memory: Memory) -> None:
        n, columns = len(self.op), (self.a, self.b, self.c)
        for k, column in enumerate((self.op, *columns)):
            expect(column.dtype == np.int32 and column.ndim == 1, "a column is not of int32")
            left_out = k == OPERANDS and not len(column)
            expect(len(column) == n or left_out, "columns of two lengths")
        known = (self.op >= 0) & (self.op < MOST_CODES)
        expect(bool(known.all()), "an unknown operation")
        arity = _arities()[self.op]
        expect(bool((arity >= 0).all()), "an operation that is not one on numbers")
        whole = View(self.first, (n,), (1,))
        memory.fits(whole)
        expect(not marked(memory.taken, whole).any(), "a slot is written twice")
        gives = self.op != GUARD
        for j, column in enumerate(columns):
            if len(column):
                self._check_column(memory, column, arity > j, gives)
            else:
                expect(not (arity > j).any(), "an operand is missing")
        marked(memory.taken, whole)[...] = True
        marked(memory.ready, whole)[...] = gives

    def _check_column(self, memory: Memory, column, used, gives) -> None:
        """Operands: slots that are ready before, or results of operations further up."""
        expect(bool((column[~used] == -1).all()), "an operand that the operation does not take")
        at, slots = np.flatnonzero(used), column[used].astype(np.int64)
        are_below(slots, memory.slots)
        inner = slots - self.first
        above = (inner >= 0) & (inner < at)
        found = memory.ready[slots]
        found[above] = gives[inner[above]]
        expect(bool(found.all()), "a slot is read before it is written")

    # --- what it costs, and how it is shown -----------------------------------------------------

    @remembered
    def operations(self) -> int:
        return int(np.count_nonzero(self.op != GUARD))

    @property
    def stored(self) -> int:
        return self.operations

    @property
    def work(self) -> WorkCounts:
        codes, counts = np.unique(self.op, return_counts=True)
        functions = sum(n for op, n in zip(codes, counts, strict=True) if is_function(int(op)))
        return WorkCounts(
            1, numbers=len(self.op) - float(functions), number_functions=float(functions)
        )

    @property
    def results(self) -> Iterable[tuple[int, int | None]]:
        pairs = enumerate(self.op.tolist(), self.first)
        return [(code, slot) for slot, code in pairs if code != GUARD]

    @property
    def title(self) -> str:
        return "operations on numbers"

    def caption(self, notes: Iterable[str] = ()) -> list[str]:
        return [f"numbers: {len(self.op)}", *notes, *names_of(self.op.tolist())]

    def explained(self, wanted: Callable[[View], bool], fresh: frozenset[int]) -> list[str]:
        checks = counted(len(self.guards), "guard")
        return [f"numbers: {counted(self.operations, 'operation')}, all stored; {checks}"]

    def operation_at(self, slot: int) -> str:
        k = slot - self.first
        return f"operation {k}, {BY_CODE[int(self.op[k])].name},"


def renumbered(steps: list[Scalars], renumber: Renumber) -> list[Scalars]:
    """Steps with other slots, all at once: there may be thousands of few operations."""
    if not steps:
        return []
    firsts = renumber(np.array([step.first for step in steps])).tolist()
    columns = [
        _split(renumber(np.concatenate(given)).astype(np.int32), given)
        for given in zip(*[step.slots_read for step in steps], strict=True)
    ]
    rows = zip(steps, firsts, *columns, strict=True)
    return [Scalars(first, step.op, a, b, c) for step, first, a, b, c in rows]


def _split(column: np.ndarray, like: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Parts of a column, as long as others."""
    ends = itertools.accumulate([len(one) for one in like])
    return [column[end - len(one) : end] for one, end in zip(like, ends, strict=True)]


@functools.cache
def _arities() -> np.ndarray:
    """Operands of operations on numbers, by code; −1 for codes that are none."""
    found = np.full(MOST_CODES, -1)
    found[GUARD] = 2
    for op in (*TABLE.values(), *STEERING.values(), *POWERS.values(), *COMPLEX.values()):
        if isinstance(op, Pointwise) and len(op.inputs) <= OPERANDS:
            found[op.code] = len(op.inputs)
    return found
