"""What steps have in common whose result is one array."""

from __future__ import annotations

from collections.abc import Iterable

from .slots import slots_of
from .steps import Step, View, remembered
from .verify_memory import Memory


class ArrayStep(Step):
    """A step that writes the array `out`."""

    out: View

    @remembered
    def views_written(self) -> list[View]:
        if self.out.is_contiguous:
            return [self.out]
        return [View(slot, (1,), (1,)) for slot in slots_of(self.out).ravel().tolist()]

    @remembered
    def views(self) -> list[View]:
        return [*self.views_read, self.out]

    def check(self, memory: Memory) -> None:
        memory.fits(self.out)
        self.check_operands(memory)
        memory.write(self.out)

    def check_operands(self, memory: Memory) -> None:
        """Raise IllegalProgram unless the step is legal but for where `out` lies."""
        raise NotImplementedError

    def caption(self, notes: Iterable[str] = ()) -> list[str]:
        return [self.label, "×".join(map(str, self.out.shape)) or "number"]
