"""Python floats among the data of a recording, where they raise errors or become complex.

`1.0 / d`, `10.0 ** d` and `d ** 0.5` of Python floats raise ZeroDivisionError or OverflowError, or
give a complex number, where NumPy's numbers and the rows of a tape give infinity or NaN. A guard
for each such operation keeps programs away from there. Which numbers are Python's follows from the
rows: those computed from arguments that are, and from nothing else but constants.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..._core.codegen.layout import ARRAY, FIRST_CODE, LEAF, ROW_CONSTANT, ROW_ROW, ROWS, ROWS_BITS
from ..._core.ops.table import TABLE
from ..._core.tape.row_reader import Reader, constant_of
from ..._core.tensor.trace import Guard, Trace, steered
from ..._derivatives.tape_traversal import tensor_at

_DIVISIONS = frozenset(TABLE[name].code for name in ("divide", "floor_divide", "remainder"))
_POWERS = frozenset(TABLE[name].code for name in ("power", "square"))
_OPS = np.array([4 * (code + 1) for code in sorted(_DIVISIONS | _POWERS)])
_OF_TWO = np.setdiff1d(_OPS, [4 * (TABLE["square"].code + 1)])
_DIVIDED, _RAISED = "a division", "a power"


def refused_by_python(trace: Trace, first: int, end: int) -> str | None:
    """Add the guards; returns what Python does otherwise at these arguments, if it does."""
    numbers = {row: kind for row, kind in trace.data.items() if kind in (float, np.float64)}
    if not numbers:
        return None
    rows, guarded = _Rows(numbers), set()
    for row in rows.of_operations(first, end):
        found, kinds = rows.condition(row), rows.kinds(row)
        if found is None or kinds is None or found in guarded:
            continue
        if kinds != {float}:
            trace.is_exact = True  # NumPy's do not raise
            continue
        guarded.add(found)
        number, is_divisor, how = found
        tensor = tensor_at(number, value=float(rows.reader.row(number)["value"]))
        holds = steered(np.not_equal, tensor, 0.0) if is_divisor else steered(np.isfinite, tensor)
        if not holds._array:
            return f"{how} of Python's floats does not give a float"
        trace.held.append(holds)
        trace.guards.append(Guard(holds, 0, 1.0, trace.now(), (), f"{how} of Python's floats"))
    return None


class _Rows:
    """The rows of numbers that are computed from some inputs and constants alone."""

    def __init__(self, inputs: Mapping[int, type]):
        self.reader = Reader()
        self._kinds: dict[int, set[type] | None] = {n: {kind} for n, kind in inputs.items()}

    def of_operations(self, first: int, end: int) -> list[int]:
        """The operations that Python may refuse, in order, without most that have other operands.

        Each number has an oldest one that it is computed from by its first operands: those where
        this is no input are left out.
        """
        begin, last = (self.reader.place[row >> ROWS_BITS] for row in (first, end))
        slots = [*self.reader.place][begin : last + 1]
        chunks = [self.reader.filled(slot) for slot in slots]
        op = np.concatenate([rows["op"] for rows in chunks])
        found = np.isin(op & ~3, _OPS)
        if not found.any():
            return []
        sizes = np.array([len(rows) for rows in chunks])
        ids = np.concatenate([np.arange(n) for n in sizes]) + np.repeat(slots, sizes) * ROWS
        starts = np.full(max(slots) + 2, -1)
        starts[slots] = np.cumsum(sizes) - sizes
        outside = len(op)

        def at(name: str):
            """The places of operands; those outside have a place after all others."""
            numbers = np.concatenate([rows[name] for rows in chunks])
            start = starts[np.clip(numbers >> ROWS_BITS, -1, len(starts) - 1)]
            return np.where(start < 0, outside, start + (numbers & (ROWS - 1)))

        is_scalar = (op >= 4 * FIRST_CODE) & (op < ARRAY)
        fits = np.append(np.isin(ids, [*self._kinds]), False)
        may_fit = fits | np.append(is_scalar, False)
        a = np.append(np.where(is_scalar, at("a"), np.arange(outside)), outside)
        has_two = found & (op & 3 == ROW_ROW) & np.isin(op & ~3, _OF_TWO)
        b = np.where(has_two, at("b"), a[:-1])
        found &= may_fit[a[:-1]] & may_fit[b]
        if not found.any():
            return []
        while not np.array_equal(older := a[a], a):
            a = older
        found &= fits[a[:-1]] & fits[a[b]]
        return ids[found].tolist()

    def condition(self, number: int) -> tuple[int, bool, str] | None:
        """A number that must be finite, or not 0 if it is a divisor, and the kind of operation."""
        row = self.reader.row(number)
        op = int(row["op"])
        if op // 4 - 1 in _POWERS:
            return number, False, _RAISED
        if op & 3 == ROW_CONSTANT:
            return None if constant_of(row) else (number, False, _DIVIDED)
        return int(row["b" if op & 3 == ROW_ROW else "a"]), True, _DIVIDED

    def kinds(self, number: int) -> set[type] | None:
        """The types of the inputs that a number is computed from; None if of anything else."""
        waiting = [number]
        while waiting:
            row = waiting[-1]
            if row in self._kinds:
                waiting.pop()
                continue
            op = int(self.reader.row(row)["op"])
            is_scalar = 4 * FIRST_CODE <= op < ARRAY and op != LEAF
            operands = self.reader.operands(row) if is_scalar else []
            left = [one for one in operands if one not in self._kinds]
            if any(one in self._kinds and self._kinds[one] is None for one in operands) or not left:
                found = [self._kinds.get(one) or set() for one in operands]
                self._kinds[row] = set().union(*found) if found and all(found) else None
            else:
                waiting.extend(left)
        return self._kinds[number]
