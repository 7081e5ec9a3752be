"""Common parts of steps whose result is one array."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ..._core.remembered import remembered
from .slots import slots_of
from .steps import Renumber, Step, View
from .uses import inside
from .verify_memory import Memory
from .work import Work


class ArrayStep(Step, is_kind=False):
    """A step that writes the array `out`; it reads the other views in its fields.

    But not those that lie in `out`, which say where in it something is written.
    """

    out: View

    #: Whether `out` may lie where other arrays did that are not read any more, and they there.
    shares_memory: ClassVar[bool] = False

    @remembered
    def views_read(self) -> list[View]:
        out, views = self.out, self.views
        if not out.is_contiguous:  # others may lie between its slots
            return [view for view in views if view != out]
        return [view for view in views if view is not out and not inside(view, out)]

    @remembered
    def views_written(self) -> list[View]:
        if self.out.is_contiguous:
            return [self.out]
        return [View(slot, (1,), (1,)) for slot in slots_of(self.out).ravel().tolist()]

    @remembered
    def views(self) -> list[View]:
        views: list[View] = []
        _collect(self.values, views)
        return views

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> ArrayStep:
        return type(self)(*_moved(self.values, move))

    @property
    def reusable(self) -> list[View]:
        return self.views_written if self.shares_memory else []

    def check(self, memory: Memory) -> None:
        memory.fits(self.out)
        self.check_operands(memory)
        memory.write(self.out)

    def check_operands(self, memory: Memory) -> None:
        """Raise IllegalProgram unless the step is legal but for where `out` lies."""
        for view in self.views_read:
            memory.read(view)

    @property
    def work(self) -> Work:
        return Work(1, moved=float(self.out.size))

    def caption(self, notes: Iterable[str] = ()) -> list[str]:
        return [self.label, "×".join(map(str, self.out.shape)) or "number"]


def _collect(found: Any, views: list[View]) -> None:
    """Append the views in a list or a tuple."""
    for x in found:
        if type(x) is View:
            views.append(x)
        elif type(x) is list or type(x) is tuple:
            _collect(x, views)


def _moved(found: Any, move: Callable[[View], View]) -> Any:
    """A list or a tuple with other views."""
    return type(found)(
        [
            move(x)
            if type(x) is View
            else _moved(x, move)
            if type(x) is list or type(x) is tuple
            else x
            for x in found
        ]
    )
