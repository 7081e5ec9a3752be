"""Element-wise operations that read rows of arrays at positions, or add their results to rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from ..._core.remembered import remembered
from .elementwise_flow import Flow, read_by_partials
from .elementwise_step import Elementwise, covered
from .file_fields import VIEW, grouped, listed
from .gather_step import POSITIONS
from .steps import Renumber, View
from .verify_memory import Memory, are_below, expect
from .work import is_function


class Picked(NamedTuple):
    """Rows of a view in C order, at positions: one row for each of them, int64."""

    view: View
    positions: np.ndarray


@dataclasses.dataclass
class Rowwise(Elementwise):
    """As its base, with views of negative bases: −1 − k stands for `picks[k]`, whole and in order.

    Among the operands they are rows that are read, among the sums rows that are added to, which
    start at 0.
    """

    picks: list[Picked]  # type: ignore[misc]

    plural = "element-wise on rows"
    file_fields = Elementwise.file_fields | {"picks": listed(grouped(VIEW, POSITIONS))}

    def __post_init__(self) -> None:
        self.picks = [Picked(*one) for one in self.picks]  # of a file they are plain tuples

    def flow(self, wanted: Callable[[View], bool], fresh: frozenset[int] = frozenset()) -> Flow:
        """The step as a graph. Adjoints of rows are added, also to bases that it alone reads."""
        picked = {self.real(x).base for x in self.operand_views if x.base < 0}
        flow = Flow(self.ops, self.stores, self.sums, lambda view: wanted(self.real(view)))
        flow.placed(self.shape, fresh - picked)
        flow.picks = {-1 - k: one for k, one in enumerate(self.picks)}
        reached = dict.fromkeys([self.real(flow.views[n - flow.count]) for n in flow.wanted])
        flow.cleared += [view for view in reached if view.base in fresh & picked]
        return flow

    def real(self, view: View) -> View:
        """The array that a view shows, or of which it stands for rows."""
        return self.picks[-1 - view.base].view if view.base < 0 else view

    # --- what it reads and writes -------------------------------------------------------------

    @remembered
    def views_read(self) -> list[View]:
        return [self.real(x) for x in self.operand_views]

    @remembered
    def views_written(self) -> list[View]:
        return [view for _, view in self.stores] + [covered(self.real(v)) for _, v in self.sums]

    @remembered
    def views(self) -> list[View]:
        results = [self.real(view) for _, view in (*self.stores, *self.sums)]
        return [*self.views_read, *results]

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Rowwise:
        def moved(view: View) -> View:
            return view if view.base < 0 else move(view)

        made = super().mapped(moved)
        picks = [Picked(move(view), positions) for view, positions in self.picks]
        return Rowwise(made.shape, made.ops, made.stores, made.sums, picks)

    # --- what passes ask ----------------------------------------------------------------------

    def kept(self, wanted: Callable[[View], bool], known: dict) -> Collection[View]:
        return {self.real(view) for view in self._kept(lambda view: wanted(self.real(view)))}

    def storing(self, read: Sequence[bool]) -> Elementwise:
        """Functions that are added to rows stay stored where their derivatives are read of them."""
        added = {k for k, view in self.sums if view.base < 0}
        worth = [k in added and self._is_read_back(k) for k, _ in self.stores]
        return super().storing([a or b for a, b in zip(read, worth, strict=False)])

    def _is_read_back(self, k: int) -> bool:
        """Whether a derivative reads the result of a function, which takes long to compute."""
        code, operands = self.ops[k]
        edges = tuple(range(len(operands)))
        return is_function(code) and len(operands) in read_by_partials(code, edges)

    def key(self, places: object) -> None:  # type: ignore[override]
        return None

    @property
    def pattern(self) -> None:  # type: ignore[override]
        """None: its parts have the addresses of positions."""
        return None

    def is_small(self, elements: int, products: int) -> bool:
        return False

    # --- files --------------------------------------------------------------------------------

    def check_read(self, memory: Memory, view: View) -> None:
        memory.read(self._checked(view) if view.base < 0 else view)

    def check_sum(self, memory: Memory, view: View) -> None:
        if view.base < 0:
            memory.write(self._checked(view))
        else:
            super().check_sum(memory, view)

    def _checked(self, view: View) -> View:
        """The array that a view stands for rows of."""
        expect(-view.base <= len(self.picks), f"there are no rows {view.base}")
        whole, positions = self.picks[-1 - view.base]
        is_whole = view.shape == self.shape and view.offset == 0 and view.is_contiguous
        expect(is_whole and view.size > 0 < positions.size, "rows of another shape")
        width = view.size // positions.size
        expect(width * positions.size == view.size, "rows of equally many elements")
        expect(whole.is_contiguous and whole.size % width == 0, "an array of whole rows")
        are_below(positions, whole.size // width)
        return whole
