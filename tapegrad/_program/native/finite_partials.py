"""The places where the reverse pass of a loop need not test whether an adjoint is exactly 0.

An adjoint of 0 gives 0 even where the partial derivative is infinite or NaN. Sums and products with
operands that are not finite are not finite either. So if the values that a loop carries are finite
when it ends, everything that entered them by sums and products only is finite, and so are the
partial derivatives of those products: a plain product is sufficient for them. The carried values
are tested once, after the loop.
"""

from __future__ import annotations

from ..ir.steps import GUARD
from .checkpoints import Kept
from .loop_finding import Loop
from .loop_operands import CARRIED, LOCAL, Register

#: Operations whose result is not finite if an operand is not; their partial derivatives are
#: operands or 1.
_PASS_ON = {"add", "subtract", "multiply", "negative", "square"}


class Finite:
    """`carried`, by loop, is tested; the partials of `operations` are finite if it is."""

    def __init__(self, kept: Kept):
        self.kept, self.operands = kept, kept.operands
        self.carried: dict[Loop, list[Register]] = {}
        self.operations: set[int] = set()
        for loop in self.operands.region.numbers:
            if not loop.loops:
                self._visit(loop)

    def _visit(self, loop: Loop) -> None:
        """Find the registers of a loop that pass on from iteration to iteration to its end."""
        lasting = self.operands.carried(loop)
        while True:
            reaching = self._reaching(loop, {register.result for register in lasting})
            still = [register for register in lasting if register in reaching]
            if len(still) == len(lasting):
                break
            lasting = still
        found = {k for k in reaching if isinstance(k, int) and self._passes_on(k)}
        if any(self.kept.edges(k) for k in found):
            self.carried[loop] = lasting
            self.operations |= found

    def _passes_on(self, k: int) -> bool:
        step = self.operands.region.step
        return step.op[k] != GUARD and self.kept.op(k).name in _PASS_ON

    def _reaching(self, loop: Loop, results: set[int]) -> set[int | Register]:
        """The results and registers that go into some results by sums and products."""
        found: set[int | Register] = {*results}
        for k in reversed(range(loop.start, loop.start + loop.length)):
            if k in found and self._passes_on(k):
                for operand in self.operands.of[k]:
                    if operand.kind == LOCAL:
                        found.add(operand.result)
                    elif operand.kind == CARRIED and operand.register is not None:
                        found.add(operand.register)
        return found & {*range(loop.start, loop.start + loop.length), *self.operands.carried(loop)}
