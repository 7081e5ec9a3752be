"""Element-wise operations on arrays, fused, also by rows that are picked."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..._core.ops.table import BY_CODE, Pointwise
from ..._core.remembered import remembered
from .moving_step import CODE, INTEGER, INTEGERS, NODE, POSITIONS, VIEW, grouped, listed
from .steps import GUARD, Renumber, Step, View, Visitor, WorkCounts, contiguous, is_function
from .uses import LINE, ONE, Memory, are_below, cut, expect, is_injective, slots_of

# --- Operations in words: how many, and which -----------------------------------------------------


#: More kinds of operations of one step are not listed.
_KINDS = 6


def counted(count: int, word: str) -> str:
    """A number of things."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def names_of(codes: Iterable[int]) -> list[str]:
    """Names of operations with their counts, the most frequent first."""
    counts = collections.Counter(codes).most_common()
    names = [(("guard" if op == GUARD else BY_CODE[op].name), count) for op, count in counts]
    lines = [f"{name} × {count}" if count > 1 else name for name, count in names[:_KINDS]]
    return lines + ["…"] * (len(names) > _KINDS)


# --- The element-wise dataflow of a step: values and adjoints, before any code is made ------------
# A node is what a step can read, by number: an operation or, from `Flow.count` on, a view.


Node = int
#: An operand that an adjoint flows to: its position and its node.
Edge = tuple[int, Node]


class StepFlow:
    """A step read: `live` operations, those `pulled` in reverse, `views` it reads.

    `operands` are nodes; view k is node `count` + k. `wanted` are the nodes of views that get an
    adjoint. `edges` are, by operation, the operands that its adjoint flows to; those that take it
    unchanged come last. What follows is there after `placed`, for those who make code. `terms` are
    the numbers of contributions to the adjoint of each node, apart from those to the results of its
    own operation. `ones` says of each node whether it is one number for all elements of a block.
    `direct` views can take an adjoint where they are, without a block in between: two of them never
    overlap, so that a kernel with both as targets is vectorised. Of these `set_` views are set.
    `cleared` views must be 0 before anything is added. `picks` are what views of negative bases
    stand for, by base (`Rowwise`).
    """

    def __init__(self, ops, stores, sums, wanted: Callable[[View], bool]):
        self.ops: list[Pointwise] = [BY_CODE[code] for code, _ in ops]
        self.count = count = len(ops)
        self.stores, self.sums = _by_number(stores), _by_number(sums)
        given = [operands for _, operands in ops]
        roots = [*self.stores, *self.sums]
        self.live = _needed(count, given, roots, ())
        numbers: dict[View, Node] = {}
        self.operands: list[tuple[Node, ...]] = [()] * count
        for k in self.live:
            self.operands[k] = tuple(
                [
                    x if type(x) is int else numbers.setdefault(x, count + len(numbers))
                    for x in given[k]
                ]
            )
        self.views = list(numbers)
        self.picks: dict[int, Any] = {}
        self._read: dict[int, list[Node]] = {}
        self._pull(roots, wanted)

    def view(self, node: Node) -> View | None:
        """The view that a node is, None for an operation."""
        return self.views[node - self.count] if node >= self.count else None

    def _pull(self, roots: list[int], wanted: Callable[[View], bool]) -> None:
        """Find the edges, and the operations whose adjoint is computed, last one first."""
        count, active = self.count, bytearray(self.count + len(self.views))
        self.wanted = [n for n, view in enumerate(self.views, count) if wanted(view)]
        for node in self.wanted:
            active[node] = True
        self.edges: list[list[Edge]] = [[]] * count
        for k in self.live:
            given = self.operands[k]
            found = [(j, given[j]) for j in _sloping(self.ops[k].code) if active[given[j]]]
            if found:
                self.edges[k] = found
                active[k] = True
        reached = bytearray(len(active))
        for k in roots:
            reached[k] = active[k]
        self.pulled = []
        for k in reversed(self.live):
            if reached[k]:
                self.pulled.append(k)
                for _, node in self.edges[k]:
                    reached[node] = True

    def partial_nodes(self, k: int) -> list[Node]:
        """The nodes whose values the partial derivatives along the edges of an operation read."""
        found = self._read.get(k)
        if found is None:
            found = self._read[k] = self._nodes(k, tuple([j for j, _ in self.edges[k]]))
        return found

    def read_along(self, k: int, edge: int) -> list[Node]:
        """The same of one of the edges."""
        return self._nodes(k, (edge,))

    def _nodes(self, k: int, edges: tuple[int, ...]) -> list[Node]:
        nodes = (*self.operands[k], k)
        return [nodes[j] for j in read_by_partials(self.ops[k].code, edges)]

    def computed(self, roots: Iterable[Node], known: Collection[int]) -> list[int]:
        """The operations that compute some nodes from known ones, in order."""
        return _needed(self.count, self.operands, roots, known)

    def recomputed(self) -> list[int]:
        """The operations whose values are computed again in reverse, in order."""
        read = {node for k in self.pulled for node in self.partial_nodes(k)}
        return self.computed(read, self.stores)

    def placed(self, shape: tuple[int, ...], fresh: frozenset[int]) -> StepFlow:
        """The same with the cut of the shape, and the ways in which adjoints are added."""
        views, count = self.views, self.count
        self.terms = [0] * (count + len(views))
        for k in self.pulled:
            for _, node in self.edges[k]:
                self.terms[node] += 1
        results = [view for many in (self.stores, self.sums) for v in many.values() for view in v]
        self.cut = cut(shape, [*views, *results])
        ways = [self.cut.way(view) for view in views]
        self.ones = bytearray(count) + bytearray([way == ONE for way in ways])
        spans: list[tuple[int, int, int]] = []
        lines = [n for n in self.wanted if ways[n - count] == LINE]
        self.direct = {n for n in lines if _joins(spans, views[n - count])}
        fresh_nodes = [n for n in self.wanted if views[n - count].base in fresh]
        bases = collections.Counter([views[n - count].base for n in fresh_nodes])
        self.set_ = {
            n
            for n in fresh_nodes
            if n in self.direct
            and bases[views[n - count].base] == 1
            and self.terms[n]
            and is_injective(views[n - count])
        }
        self.cleared = [views[n - count] for n in fresh_nodes if n not in self.set_]
        return self


def _needed(
    count: int, operands: list[tuple], roots: Iterable[Node], known: Collection[int]
) -> list[int]:
    """The operations that compute some nodes from known ones, in order.

    Operands that are no operations are views, or beyond all numbers of operations.
    """
    marks = bytearray(count)
    for node in roots:
        if node < count and node not in known:
            marks[node] = True
    for k in range(count - 1, -1, -1):
        if marks[k]:
            for node in operands[k]:
                if type(node) is int and node < count and node not in known:
                    marks[node] = True
    return [k for k in range(count) if marks[k]]


@functools.cache
def _sloping(code: int) -> list[int]:
    """The operands with a partial derivative, those last that get the result's adjoint itself."""
    op = BY_CODE[code]
    return sorted(op.sloping, key=lambda j: op.signs[j] == 1)


@functools.cache
def read_by_partials(code: int, edges: tuple[int, ...]) -> list[int]:
    """The operands, and the result after the last, that partial derivatives along edges read."""
    op = BY_CODE[code]
    read = op.read_by(edges)
    return [j for j, name in enumerate((*op.inputs, "out")) if name in read]


def _joins(spans: list[tuple[int, int, int]], view: View) -> bool:
    """Whether a view overlaps none of the spans, which are sorted; then its own is added."""
    base, low, high = span = view.base, *view.extent
    k = bisect.bisect_left(spans, span)
    before, after = spans[k - 1 : k], spans[k : k + 1]
    if any(b == base and low < end for b, _, end in before):
        return False
    if any(b == base and start < high for b, start, _ in after):
        return False
    spans.insert(k, span)
    return True


def _by_number(results: list[tuple[int, View]]) -> dict[int, list[View]]:
    found: dict[int, list[View]] = {}
    for number, view in results:
        found.setdefault(number, []).append(view)
    return found


# --- Element-wise operations on arrays, fused -----------------------------------------------------


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
    #: The rows that views of negative bases stand for (`Rowwise`).
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

    def flow(self, wanted: Callable[[View], bool], fresh: frozenset[int] = frozenset()) -> StepFlow:
        """The step as a graph. See `StepFlow` for what `wanted` and `fresh` say."""
        return StepFlow(self.ops, self.stores, self.sums, wanted).placed(self.shape, fresh)

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
        flow = StepFlow(self.ops, self.stores, self.sums, wanted)
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
    def work(self) -> WorkCounts:
        count, functions = math.prod(self.shape), sum(is_function(op) for op, _ in self.ops)
        return WorkCounts(
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


# --------------------------------------------------------------------------------------------------
# Element-wise operations that read rows of arrays at positions, or add their results to rows.


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

    def flow(self, wanted: Callable[[View], bool], fresh: frozenset[int] = frozenset()) -> StepFlow:
        """The step as a graph. Adjoints of rows are added, also to bases that it alone reads."""
        picked = {self.real(x).base for x in self.operand_views if x.base < 0}
        flow = StepFlow(self.ops, self.stores, self.sums, lambda view: wanted(self.real(view)))
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
