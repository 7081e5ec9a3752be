"""The element-wise dataflow of a step: values and adjoints, before any code is made.

A node is what a step can read, by number: an operation or, from `Flow.count` on, a view.
"""

from __future__ import annotations

import bisect
import collections
import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any

from ..._core.ops.table import BY_CODE, Pointwise
from .blocks import LINE, ONE, cut, is_injective
from .steps import View

Node = int
#: An operand that an adjoint flows to: its position and its node.
Edge = tuple[int, Node]


class Flow:
    """A step read: `live` operations, those `pulled` in reverse, `views` it reads.

    `operands` are nodes; view k is node `count` + k. `wanted` are the nodes of views that get an
    adjoint. `edges` are, by operation, the operands that its adjoint flows to; those that take it
    unchanged come last. What follows is there after `placed`, for those who make code. `terms` are
    the numbers of contributions to the adjoint of each node, apart from those to the results of its
    own operation. `ones` says of each node whether it is one number for all elements of a block.
    `direct` views can take an adjoint where they are, without a block in between: two of them never
    overlap, so that a kernel with both as targets is vectorised. Of these `set_` views are set.
    `cleared` views must be 0 before anything is added. `picks` are what views of negative bases
    stand for, by base (`rowwise_step`).
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

    def placed(self, shape: tuple[int, ...], fresh: frozenset[int]) -> Flow:
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
