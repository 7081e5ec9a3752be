"""Which parts of loops are done in SIMD lanes: several iterations at once.

Values. Operations that depend on nothing that a loop carries are independent from iteration to
iteration. They are computed first, block by block, if there are many of them, or functions.

Adjoints. If a loop only sums, all iterations are independent in reverse. Otherwise the adjoints of
carried values depend on each other, so that their computation is sequential. But an iteration only
multiplies them with a small matrix, its Jacobian, and adds contributions from outside. Hence one
loop that carries little is replaced by these:

1. The Jacobian of each iteration: its operations in reverse, with a seed of 1 at one carried result
   after the other. Iterations do not depend on each other.
2. The adjoints of what is carried, from iteration to iteration, by these matrices.
3. The adjoints of all else, from those: iterations do not depend on each other again.

(Preaccumulation: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 10.) The Jacobians
are computed ahead, along with the values: those depend on each other as well, and the processor
has time while it waits for them.

An adjoint of 0 gives 0 whatever the partial derivative is, but a seed of 1 multiplies all of them.
So partial derivatives are tested as well: unless all are finite, the loop runs with tests, as
others do.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

from ..._core.codegen.vector_math import VECTOR, widest
from ..._core.ops.slopes import NEAR
from ..ir.steps import DOUBLE, GUARD
from .checkpoints import QUICK, Kept, functions_of
from .finite_partials import Finite
from .loop_finding import Loop
from .loop_operands import LOCAL, Chain, Operand
from .loop_values import Stores

#: Iterations of a block: their saved values stay in the first cache.
BLOCK = 256
#: The fewest iterations of a loop that is done in lanes.
FEWEST = 32
#: The fewest partial derivatives in the body of one with Jacobians, the most that it carries, and
#: the most partial derivatives in its text, which takes long to compile.
BODY, CARRIED, TEXT = 16, 4, 2000
#: The number of independent operations that are computed first even without a function among them.
MANY = 12
#: Functions that are computed in lanes.
_WIDE = {*VECTOR, *QUICK, *NEAR, "power", "hypot", "sigmoid"}


class Lanes:
    """The computations in SIMD lanes of a region, and the memory for that.

    `independent` by loop: operations whose values are computed first. `sums`: loops that only add
    up. `apart`: those with Jacobians, and `jacobians` by loop: the first slot of them. `block`: the
    first slot for numbers of the iterations of a block.
    """

    def __init__(self, kept: Kept, stores: Stores, finite: Finite):
        self.kept, self.stores, self.finite = kept, stores, finite
        self.operands = kept.operands
        #: Iterations whose Jacobians are computed at once, ahead: as many as vectors have lanes.
        self.group = widest() * DOUBLE.itemsize // kept.operands.item
        loops = [loop for loop in kept.region.numbers if self._is_suited(loop)]
        self.independent = {loop: found for loop in loops if (found := self._independent(loop))}
        backwards = [loop for loop in loops if self._is_suited_backwards(loop)]
        self.sums = [loop for loop in backwards if self._adds_up(loop)]
        self.apart = [x for x in backwards if x not in self.sums and self._carries_little(x)]
        self.jacobians: dict[Loop, int] = {}
        self.block = 0

    def allot(self, new_slots: Callable[[int], int], widths: dict[Loop, int]) -> None:
        """Give it slots; `widths` by loop: how many numbers a Jacobian has."""
        for loop, width in widths.items():
            self.jacobians[loop] = self.kept.in_lines(new_slots, self.kept.total(loop, width))
        numbers = [len(self.carried(loop)) for loop in self.apart]
        numbers += [len(self.independent[loop]) for loop in self.independent]
        if numbers:
            self.block = self.kept.in_lines(new_slots, max(numbers) * BLOCK)

    @property
    def columns(self) -> set[Loop]:
        """Loops whose numbers are saved contiguously over iterations."""
        return {*self.independent, *self.sums, *self.apart}

    @property
    def operations(self) -> set[int]:
        """Operations whose partial derivatives are finite where the code in lanes is used."""
        return self.finite.operations.union(*map(self.body, self.apart))

    def carried(self, loop: Loop) -> list[int]:
        """The results that a loop carries, those with an adjoint."""
        return [k for k in self.operands.registers[loop] if self.kept.is_wanted(k)]

    def body(self, loop: Loop) -> range:
        return range(loop.start, loop.start + loop.length)

    def chain(self, loop: Loop) -> Chain:
        return (*self.kept.region.around[loop], loop)

    def _is_suited(self, loop: Loop) -> bool:
        return not loop.loops and loop not in self.kept.blocks and loop.count >= FEWEST

    # --- values -------------------------------------------------------------------------------

    def _independent(self, loop: Loop) -> list[int]:
        """Operations that are computed first; none if that is not worth it."""
        found: set[int] = set()
        for k in self.body(loop):
            if self.kept.region.step.op[k] != GUARD and self._is_wide(k):
                if all(self._is_known(x, loop, found) for x in self.operands.of[k]):
                    found.add(k)
        worth = len(found) >= MANY or any(map(self.kept.takes_long, found))
        return sorted(found) if worth else []

    def _is_wide(self, k: int) -> bool:
        op = self.kept.op(k)
        return functions_of(op.value, *[text for _, text in op.needed(op.value)]) <= _WIDE

    def _is_known(self, operand: Operand, loop: Loop, found: set[int]) -> bool:
        """Whether an operand is known before the loop begins, or is also computed first."""
        if operand.register is not None and operand.register.loop is loop:
            return False
        if operand.kind == LOCAL and operand.result in self.body(loop):
            return operand.result in found
        return not operand.inside

    # --- adjoints -----------------------------------------------------------------------------

    def _is_suited_backwards(self, loop: Loop) -> bool:
        registers, partials = self.operands.registers[loop], self._partials(loop)
        carried = self.carried(loop)
        if not partials or not all(registers[k] for k in carried):
            return False
        if any(x.initial.wanted for k in registers.keys() - carried for x in registers[k]):
            return False
        return functions_of(*partials) <= _WIDE and not self._meets_itself(loop)

    def _partials(self, loop: Loop) -> list[str]:
        return [partial for k in self.body(loop) for partial in self.kept.edges(k).values()]

    def _meets_itself(self, loop: Loop) -> bool:
        """Whether results of a loop are read in memory while it runs."""
        region, at_once = self.kept.region, self.operands.read_at_once
        chain = self.chain(loop)
        return any(at_once[region.positions(k, chain)].any() for k in self.body(loop))

    def _carries_little(self, loop: Loop) -> bool:
        partials, carried = len(self._partials(loop)), len(self.carried(loop))
        return partials >= BODY and carried <= CARRIED and partials * (carried + 1) <= TEXT

    def _adds_up(self, loop: Loop) -> bool:
        """Whether all that is carried passes its adjoint on as it is."""
        return all(self._is_sum(k, loop) for k in self.carried(loop))

    def _is_sum(self, k: int, loop: Loop) -> bool:
        """Whether a result is that of the iteration before and other summands.

        The one before has no other reader, and neither have the sums between both; others read the
        result after the loop only.
        """
        registers = self.operands.registers[loop][k]
        read = [x for j in self.body(loop) for x in self.operands.of[j]]
        times = collections.Counter(x.result for x in read if x.kind == LOCAL)
        if times[k] or sum(x.register in registers for x in read) != 1:
            return False
        todo = [k]
        while todo:
            k = todo.pop()
            first, *others = self.operands.of[k]
            summands = {"add": [first, *others], "subtract": [first]}.get(self.kept.op(k).name, [])
            if not summands or self._is_read_outside(k, loop):
                continue
            if any(x.register in registers for x in summands):
                return True
            inside = [x.result for x in summands if x.kind == LOCAL]
            todo += [j for j in inside if j in self.body(loop) and times[j] == 1]
        return False

    def _is_read_outside(self, k: int, loop: Loop) -> bool:
        """Whether others read a result of each iteration, or of some."""
        return k in self.stores.read and self.stores.of[k][0] == len(self.chain(loop))
