"""The statements of native code about loops, checked against the operations that it stands for.

The search for loops and `loop_operands` determine the kind of every operand inside of loops: the
result of an iteration before, a slot that moves, an entry of a table. Here each is derived again
from the words of the text alone, for all counters, and must be the slot that the operation reads.
Values read from memory must have been stored there.
"""

from __future__ import annotations

import numpy as np

from ..ir.steps import GUARD
from .loop_operands import CARRIED, FIXED, LOCAL, NUMBER, Chain, Operand, Operands, spread
from .loop_values import Stores


class _Slots:
    """V in an expression: the operand is the slot itself."""

    def __getitem__(self, slot):
        return slot


class Claims:
    """The kinds of the operands of a region. `read` and `at_once` are what must be stored.

    These are by operation of the step: results that are read in memory, and those of them that are
    read there before the loops around them have ended.
    """

    def __init__(self, operands: Operands):
        self.operands, self.region = operands, operands.region
        self.first, count = self.region.step.first, len(self.region.step.op)
        self.read, self.at_once = np.zeros(count, bool), np.zeros(count, bool)
        table = operands.data.array()
        self._names = {
            "V": _Slots(),
            "T": table.view(operands.initial.dtype),
            "INF": np.inf,
            "NAN": np.nan,
            "data": table.view(np.int32),
            "load_i32": lambda data, offset: data[offset // 4],
        }

    def check(self) -> None:
        """RuntimeError unless all hold."""
        for k, found in self.operands.of.items():
            chain = self.region.chain(k)
            for j, operand in enumerate(found):
                slots = self.region.slots_of(k, j, chain)
                if not self._holds(operand, slots, chain, k):
                    raise RuntimeError(_fault(f"operand {j} of operation {k} is {operand.value}"))
        if np.any(self.read & ~self.region.read):
            raise RuntimeError(_fault("a result that is read in memory is not stored there"))

    def _holds(self, operand: Operand, slots: np.ndarray, chain: Chain, k: int) -> bool:
        """Whether an operand that operation k reads, in loops, is the value of these slots."""
        if operand.kind == NUMBER:
            return _equal(self._evaluated(operand.value, chain), self.operands.initial[slots])
        if operand.kind == LOCAL:
            return self._is_result(operand.result, slots, chain, len(chain), k)
        if operand.kind == CARRIED:
            return self._is_carried(operand, slots, chain)
        self._note(slots, chain)
        if operand.kind == FIXED:  # which is read before the outermost loop
            is_before = self.region.is_before(slots.flat[:1].reshape(()), chain[:1])
            return is_before and bool((slots == operand.slot).all())
        return _equal(self._evaluated(operand.value, chain), slots)

    def _is_result(
        self, result: int, slots: np.ndarray, chain: Chain, most: int, before: int
    ) -> bool:
        """Whether slots are a result as it was computed last before an operation of the text.

        At most this number of loops of the chain are in the same iteration, in others the result is
        that of their last one.
        """
        home, common = self.region.chain(result), 0
        while common < min(len(home), most) and home[common] is chain[common]:
            common += 1
        last = result + sum(x.length * (x.count - 1) for x in home[common:])
        strides = [x.length for x in chain[:common]] + [0] * (len(chain) - common)
        return last < before and _equal(spread(self.first + last, strides, [*slots.shape]), slots)

    def _is_carried(self, operand: Operand, slots: np.ndarray, chain: Chain) -> bool:
        """Whether slots are an initial value in iteration 0 of a loop, then results of it."""
        register = operand.register
        if register is None or register.loop not in chain or register.result != operand.result:
            return False
        axis, loop = chain.index(register.loop), register.loop
        result, start = register.result, slots.take(0, axis)
        initial = start.reshape(*start.shape[:axis], -1)
        if not (initial == initial[..., :1]).all() or register not in self.operands.carried(loop):
            return False
        after = slots[(slice(None),) * axis + (slice(1, None),)]
        inside = self.region.chain(result)[: axis + 1] == chain[: axis + 1]
        return (
            inside
            and self.region.is_before(initial[..., 0], chain[: axis + 1])
            and self._is_result(result, after, chain, axis + 1, loop.start + loop.length)
            and self._holds(register.initial, initial[..., 0], chain[:axis], loop.start)
        )

    def _evaluated(self, text: str, chain: Chain):
        """An expression of counters, for all of them."""
        names = dict(self._names)
        for axis, loop in enumerate(chain):
            shape = [loop.count if d == axis else 1 for d in range(len(chain))]
            names[f"i{self.region.numbers[loop]}"] = np.arange(loop.count).reshape(shape)
        return eval(text, names)

    def _note(self, slots: np.ndarray, chain: Chain) -> None:
        """Note which results some slots are."""
        results = slots.astype(np.int64).ravel() - self.first
        results = results[(results >= 0) & (results < len(self.read))]
        self.read[results] = True
        if chain:
            inside = (results >= chain[0].start) & (results < chain[0].stop)
            self.at_once[results[inside]] = True

    def check_stores(self, stores: Stores) -> None:
        """RuntimeError unless values read from memory are stored in time."""
        region, made = self.region, np.zeros(len(self.read), bool)
        flags = self.operands.data.array().view(np.uint8)
        for k, (depth, mask) in stores.of.items():
            chain = region.chain(k)
            positions = region.positions(k, chain)
            if depth < len(chain):
                positions = region.last_positions(k, chain, depth)
                positions = positions[~self.at_once[positions]]
            elif mask >= 0:
                table = flags[mask : mask + positions.size].reshape(positions.shape)
                positions = positions[table != 0]
            made[positions] = True
        wanted = (region.read | region.held) & (region.step.op != GUARD)
        own = slice(region.start, region.stop)
        if np.any(wanted[own] & ~made[own]):
            raise RuntimeError(_fault("a result that is read in memory is not stored in time"))


def _equal(found, expected: np.ndarray) -> bool:
    """Whether values, which are broadcast, are the same to the bit; NaN is NaN."""
    found = np.broadcast_to(found, expected.shape)
    if expected.dtype.kind != "f":
        return bool((found == expected).all())
    same = (found == expected) & (np.signbit(found) == np.signbit(expected))
    return bool((same | (np.isnan(found) & np.isnan(expected))).all())


def _fault(what: str) -> str:
    return f"a loop that was found in a program does not hold: {what}; please report this"
