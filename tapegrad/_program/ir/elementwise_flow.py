"""The element-wise dataflow of a step: values and adjoints, before any code is made.

A node is what a step can read: the number of an operation, or a view.
"""

from __future__ import annotations

import bisect
import collections
import functools
from collections.abc import Callable, Iterable

from ..._core.ops.table import BY_CODE, Pointwise, words_of
from .blocks import LINE, cut, is_injective
from .steps import View

Node = int | View


class Flow:
    """A step read: `live` operations, those `pulled` in reverse, `views` it reads.

    `wanted` views get an adjoint. What follows is there after `placed`, for those who make code.
    `terms` are the numbers of contributions to the adjoint of each node, apart from those to the
    results of its own operation. `direct` views can take it where they are, without a block in
    between: two of them never overlap, so that a kernel with both as targets is vectorised. Of
    these `set_` views are set. `cleared` views must be 0 before anything is added.
    """

    def __init__(self, ops, stores, sums, wanted: Callable[[View], bool]):
        self.ops: list[Pointwise] = [BY_CODE[code] for code, _ in ops]
        self.operands: list[tuple[Node, ...]] = [operands for _, operands in ops]
        self.stores = _by_number(stores)
        self.sums = _by_number(sums)
        self.live = self.computed({*self.stores, *self.sums}, set())
        read = [v for k in self.live for v in self.operands[k] if isinstance(v, View)]
        self.views = list(dict.fromkeys(read))
        self.wanted = [view for view in self.views if wanted(view)]
        self.active: set[Node] = set(self.wanted)
        self._edges = {k: self._found_edges(k) for k in self.live}
        self.pulled = self._pulled()

    def edges(self, k: int) -> list[tuple[int, Node]]:
        """The operands of an operation that its adjoint flows to, with their positions.

        Those that take it unchanged come last.
        """
        return self._edges[k]

    def _found_edges(self, k: int) -> list[tuple[int, Node]]:
        """The edges of an operation, which is active if it has any: those before it are known."""
        operands, active = self.operands[k], self.active
        found = [(j, operands[j]) for j in _sloping(self.ops[k].code) if operands[j] in active]
        if found:
            active.add(k)
        return found

    def partial_nodes(self, k: int, edge: int | None = None) -> list[Node]:
        """The nodes whose values the partial derivatives along these edges read, or one of them."""
        edges = (edge,) if edge is not None else tuple([j for j, _ in self._edges[k]])
        nodes = (*self.operands[k], k)
        return [nodes[j] for j in _read_by_partials(self.ops[k].code, edges)]

    def computed(self, roots: Iterable[Node], known: set[int]) -> list[int]:
        """The operations that compute some nodes from known ones, in order."""
        wanted = {node for node in roots if isinstance(node, int)} - known
        for k in range(len(self.ops) - 1, -1, -1):
            if k in wanted:
                wanted |= {node for node in self.operands[k] if isinstance(node, int)} - known
        return sorted(wanted)

    def _pulled(self) -> list[int]:
        """The operations whose adjoint is computed, last one first."""
        reached: set[Node] = {k for k in (*self.stores, *self.sums) if k in self.active}
        for k in reversed(self.live):
            if k in reached:
                reached.update([node for _, node in self._edges[k]])
        return [k for k in reversed(self.live) if k in reached]

    def placed(self, shape: tuple[int, ...], fresh: frozenset[int]) -> Flow:
        """The same with the cut of the shape, and the ways in which adjoints are added."""
        edges = [node for k in self.pulled for _, node in self._edges[k]]
        self.terms = collections.Counter(edges)
        results = [view for many in (self.stores, self.sums) for v in many.values() for view in v]
        self.cut = cut(shape, [*self.views, *results])
        spans: list[tuple[int, int, int]] = []
        lines = [view for view in self.wanted if self.cut.way(view) == LINE]
        self.direct = {view: None for view in lines if _joins(spans, view)}
        count = collections.Counter(view.base for view in self.wanted)
        self.set_ = {
            view
            for view in self.direct
            if view.base in fresh
            and count[view.base] == 1
            and view in self.terms
            and is_injective(view)
        }
        self.cleared = [v for v in self.wanted if v.base in fresh and v not in self.set_]
        return self


@functools.cache
def _sloping(code: int) -> list[int]:
    """The operands with a partial derivative, those last that get the result's adjoint itself."""
    partials = BY_CODE[code].partials
    found = [j for j, partial in enumerate(partials) if partial != "0.0"]
    return sorted(found, key=lambda j: partials[j] == "1.0")


@functools.cache
def _read_by_partials(code: int, edges: tuple[int, ...]) -> list[int]:
    """The operands, and the result after the last, that partial derivatives along edges read."""
    op = BY_CODE[code]
    partials = [op.partials[j] for j in edges]
    read = words_of(*partials, *[text for _, text in op.needed(*partials)])
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
