"""Element-wise operations on arrays, fused."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..._core.ops.table import BY_CODE, Pointwise
from ..._core.remembered import remembered
from .elementwise_flow import Flow
from .file_fields import CODE, INTEGER, INTEGERS, NODE, VIEW, grouped, listed
from .operation_words import counted, names_of
from .slots import slots_of
from .steps import Renumber, Step, View, Visitor, contiguous
from .verify_memory import Memory, expect
from .work import Work, is_function


@dataclasses.dataclass
class Elementwise(Step):
    """Element-wise operations over one shape; intermediate results are not stored.

    `ops` are (code, operands); an operand is the number of an earlier operation of the step, or a
    view that broadcasts to the shape (already broadcast: strides of 0). `stores` are (number,
    view in C order) of results that are read outside; `sums` are (number, view of `shape` whose
    strides along summed axes are 0) of results that are summed into slots, which start at 0.
    """

    shape: tuple[int, ...]
    ops: list[tuple[int, tuple[int | View, ...]]]
    stores: list[tuple[int, View]]
    sums: list[tuple[int, View]]

    plural = "element-wise"
    #: The rows that views of negative bases stand for (`rowwise_step`).
    picks: ClassVar[Sequence] = ()
    may_stop = False
    can_fold = True
    sets_adjoints = True
    in_one_pass = True
    file_fields = {
        "shape": INTEGERS,
        "ops": listed(grouped(CODE, listed(NODE, tuple))),
        **dict.fromkeys(("stores", "sums"), listed(grouped(INTEGER, VIEW))),
    }

    def accept(self, visitor: Visitor) -> Any:
        return visitor.elementwise(self)

    def flow(self, wanted: Callable[[View], bool], fresh: frozenset[int] = frozenset()) -> Flow:
        """The step as a graph. See `elementwise_flow` for what `wanted` and `fresh` say."""
        return Flow(self.ops, self.stores, self.sums, wanted).placed(self.shape, fresh)

    # --- what it reads and writes -------------------------------------------------------------

    @property
    def operand_views(self) -> list[View]:
        """The operands that are views."""
        return [x for _, given in self.ops for x in given if type(x) is View]

    @remembered
    def views_read(self) -> list[View]:
        return self.operand_views

    @remembered
    def views_written(self) -> list[View]:
        return [view for _, view in self.stores] + [covered(view) for _, view in self.sums]

    @remembered
    def views(self) -> list[View]:
        return [*self.views_read, *[view for _, view in (*self.stores, *self.sums)]]

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Elementwise:
        return Elementwise(
            self.shape,
            [
                (code, tuple([move(x) if type(x) is View else x for x in operands]))
                for code, operands in self.ops
            ],
            [(k, move(view)) for k, view in self.stores],
            [(k, move(view)) for k, view in self.sums],
        )

    # --- what passes ask ----------------------------------------------------------------------

    @property
    def movable(self) -> list[View]:
        return [view for _, view in self.stores]

    @property
    def reusable(self) -> list[View]:
        return [view for _, view in self.stores]

    def kept(self, wanted: Callable[[View], bool], known: dict) -> Collection[View]:
        """The operands and stored results that the adjoints are computed from."""
        numbers: dict[View, int] = {}
        same = [numbers.setdefault(view, len(numbers)) for view in self.views]
        form = *self.pattern, *same, *map(wanted, numbers)
        if form not in known:
            kept = self._kept(wanted)
            known[form] = [k for k, view in enumerate(numbers) if view in kept]
        views = list(numbers)
        return [views[k] for k in known[form]]

    def _kept(self, wanted: Callable[[View], bool]) -> set[View]:
        flow = Flow(self.ops, self.stores, self.sums, wanted)
        nodes = {node for k in flow.pulled for node in flow.partial_nodes(k)}
        nodes |= {node for k in flow.recomputed() for node in flow.operands[k]}
        stored = {view for node in nodes for view in flow.stores.get(node, [])}
        return {flow.views[node - flow.count] for node in nodes if node >= flow.count} | stored

    def storing(self, read: Sequence[bool]) -> Elementwise:
        kept = [store for store, is_read in zip(self.stores, read, strict=False) if is_read]
        return self if len(kept) == len(self.stores) else dataclasses.replace(self, stores=kept)

    def key(self, places: Any) -> tuple:
        stored, written = [k for k, _ in self.stores], self.views_written
        sums = [(k, places.place(view, written)) for k, view in self.sums]
        return Elementwise, self.shape, *places.operations(self.ops), *stored, *sums

    # --- how it is made a part ----------------------------------------------------------------

    @property
    def pattern(self) -> tuple:
        ops = [(code, *[-1 if type(x) is View else x for x in given]) for code, given in self.ops]
        results = [k for k, _ in (*self.stores, *self.sums)]
        return self.shape, *ops, *results, len(self.stores)

    def is_small(self, elements: int, products: int) -> bool:
        known = not any(BY_CODE[code].is_apart for code, _ in self.ops)
        return known and 0 < math.prod(self.shape) <= elements

    def expand(self, numbers: Any) -> None:
        made: list[np.ndarray] = []
        for code, operands in self.ops:
            slots = [made[x] if isinstance(x, int) else numbers.of(x) for x in operands]
            made.append(numbers.apply(code, *slots))
        for number, view in self.stores:
            numbers.place[slots_of(view)] = made[number]
        for number, view in self.sums:
            numbers.sum(slots_of(view).ravel(), made[number].ravel())

    # --- files --------------------------------------------------------------------------------

    def check(self, memory: Memory) -> None:
        for k, (code, operands) in enumerate(self.ops):
            op: Any = BY_CODE.get(code)
            expect(isinstance(op, Pointwise), f"operation {code} is not element-wise")
            expect(len(operands) == len(op.inputs), f"{len(operands)} operands of {op.name}")
            for operand in operands:
                if isinstance(operand, View):
                    self.check_read(memory, operand)
                    expect(operand.shape == self.shape, "an operand of another shape")
                else:
                    expect(0 <= operand < k, "an operation reads one that comes later")
        memory.is_shaped(contiguous(0, self.shape))
        for k, view in (*self.stores, *self.sums):
            expect(0 <= k < len(self.ops), f"there is no result {k}")
            expect(view.shape == self.shape, "a result of another shape")
        for _, view in self.stores:
            memory.write(view)
        for _, view in self.sums:
            self.check_sum(memory, view)

    def check_read(self, memory: Memory, view: View) -> None:
        """Raise IllegalProgram unless an operand may be read."""
        memory.read(view)

    def check_sum(self, memory: Memory, view: View) -> None:
        """Raise IllegalProgram unless a result may be summed there, and take the slots."""
        memory.write_sums(view)

    # --- what it costs, and how it is shown -----------------------------------------------------

    @property
    def operations(self) -> int:
        return len(self.ops)

    @property
    def work(self) -> Work:
        count, functions = math.prod(self.shape), sum(is_function(op) for op, _ in self.ops)
        return Work(
            1 + len(self.ops),
            elements=float(count * (len(self.ops) - functions)),
            element_functions=float(count * functions),
        )

    @property
    def results(self) -> Iterable[tuple[int, int | None]]:
        return [(code, None) for code, _ in self.ops]

    @property
    def is_fused(self) -> bool:
        return len(self.ops) > 1

    def caption(self, notes: Iterable[str] = ()) -> list[str]:
        what = "fused" if self.is_fused else "element-wise"
        return [what, "×".join(map(str, self.shape)), *names_of(code for code, _ in self.ops)]

    def explained(self, wanted: Callable[[View], bool], fresh: frozenset[int]) -> list[str]:
        """Its fused, stored and summed operations, and those recomputed in reverse."""
        flow = self.flow(wanted, fresh)
        again = len(flow.recomputed())
        names = " ".join(BY_CODE[code].name for code, _ in self.ops)
        shape = "×".join(map(str, self.shape)) or "one"
        text = f"fused over {shape}: {counted(len(self.ops), 'operation')} ({names:.60}), "
        return [text + f"{len(self.stores)} stored, {len(self.sums)} summed, {again} recomputed"]


def covered(view: View) -> View:
    """The slots into which a result is summed."""
    low, high = view.extent
    return View(low, (high - low,), (1,))
