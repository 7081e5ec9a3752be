"""What the reverse pass of a graph needs: values with adjoints, and the tape of a call."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ..ir.flow_graph import (
    Block,
    Edge,
    Graph,
    Place,
    Return,
    Step,
    Value,
    Variation,
    differentiable_operands,
    ordered,
    varying,
)
from ..kinds.step_kinds import kind_of

# --------------------------------------------------------------------------------------------------
# The values that have adjoints: they vary with a differentiated input, and a result with them.


def live(graph: Graph) -> Variation:
    """Values and places with adjoints."""
    values, places = varying(graph)
    return Variation(values & _read_by_results(graph), places)


def _read_by_results(graph: Graph) -> set[Value]:
    """Values on which a result depends; writes to memory always count."""
    found: set[Value] = set()
    count = -1
    while count < len(found):
        count = len(found)
        for block in reversed(graph.blocks):
            found.update(block.end.reads)  # type: ignore[union-attr]
            for edge in block.end.edges:  # type: ignore[union-attr]
                pairs = zip(edge.arguments, edge.target.parameters, strict=True)
                found.update(given for given, parameter in pairs if parameter in found)
            for step in reversed(block.steps):
                if step.result is None or step.result in found:
                    found.update(differentiable_operands(step))
    return found


# --- The tape of a call for its reverse pass: words for each block that runs ----------------------
# Blocks with one predecessor share a frame with it: a tree, entered at its root. A frame has the
# number of the edge to its root, then what is saved in each of the blocks, in order. What is cheap
# is recomputed from what is saved.


#: The number of cheap operations that are recomputed to avoid saving a number.
_CHEAP = 3


class Ways:
    """Blocks in the order in which they are reached, and the edges by their numbers."""

    def __init__(self, graph: Graph):
        self.numbers: dict[int, int] = {}
        counter = itertools.count()
        for block in graph.blocks:
            for edge in block.end.edges:  # type: ignore[union-attr]
                self.numbers[id(edge)] = next(counter)
        self.blocks = ordered(graph)
        self.place = {id(block): k for k, block in enumerate(self.blocks)}
        self.incoming: dict[int, list[tuple[Block, Edge]]] = {id(one): [] for one in self.blocks}
        for block, edge in self.edges():
            self.incoming[id(edge.target)].append((block, edge))

    def edges(self) -> Iterator[tuple[Block, Edge]]:
        """Edges that a call may take, each with its block."""
        for block in self.blocks:
            for edge in block.end.edges:  # type: ignore[union-attr]
                yield block, edge

    def number(self, edge: Edge) -> int:
        return self.numbers[id(edge)]

    def back(self, block: Block, edge: Edge) -> bool:
        """Whether an edge may close a loop."""
        return self.place[id(edge.target)] <= self.place[id(block)]


class TapePlan:
    """The values that each block saves, and their places."""

    def __init__(self, graph: Graph, ways: Ways, variation: Variation):
        self.graph, self.ways, self.variation = graph, ways, variation
        self.made: dict[Value, Step] = {
            step.result: step
            for block in ways.blocks
            for step in block.steps
            if step.result is not None
        }
        self.inputs = {value: k for k, value in enumerate(graph.entry.parameters)}
        self.root: dict[int, Block] = {}
        self.begin: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.saved: dict[int, dict[Value, int]] = {}  # in the block itself
        self.known: dict[int, dict[Value, int]] = {}  # in the blocks before in the tree, too
        self.most: dict[int, int] = {}  # words of a tree
        self.returns = [block for block in ways.blocks if isinstance(block.end, Return)]
        for block in ways.blocks:
            self._allot(block)

    def is_root(self, block: Block) -> bool:
        return self.root[id(block)] is block

    def _allot(self, block: Block) -> None:
        incoming = self.ways.incoming[id(block)]
        before = incoming[0][0] if len(incoming) == 1 else None
        self.root[id(block)] = self.root[id(before)] if before else block
        first = self.end[id(before)] if before else int(bool(incoming))
        self.begin[id(block)] = first
        self.known[id(block)] = dict(self.known[id(before)]) if before else {}
        self.saved[id(block)] = {}
        for value in self._needed(block):
            if self._cost(block, value) > _CHEAP:
                at = first + len(self.saved[id(block)])
                self.saved[id(block)][value] = self.known[id(block)][value] = at
        self.end[id(block)] = first + len(self.saved[id(block)])
        root = id(self.root[id(block)])
        last = self.end[id(block)] + isinstance(block.end, Return)  # a word for which of them
        self.most[root] = max(self.most.get(root, 0), last)

    def _cost(self, block: Block, value: Value) -> int:
        if self.position(block, value) is not None or value in self.inputs:
            return 0
        step = self.made.get(value)
        if step is None:
            return _CHEAP + 1
        if kind_of(step.op).is_constant:
            return 0
        cost = 1
        for operand in step.operands if self.again(step) else ():
            cost += self._cost(block, operand)
            if cost > _CHEAP:
                break
        return cost if self.again(step) else _CHEAP + 1

    def again(self, step: Step) -> bool:
        """Whether a step can be recomputed in the reverse pass."""
        place = step.payload
        changes = isinstance(place, Place) and self.graph.regions[place.region].written
        return kind_of(step.op).again and not changes

    def position(self, block: Block, value: Value) -> tuple[bool, int] | None:
        """The word of a value in the reverse pass: of the first block's frame or of its own."""
        if (own := self.known[id(block)].get(value)) is not None:
            return False, own
        first = self.saved[id(self.graph.entry)].get(value)
        return None if first is None else (True, first)

    def _needed(self, block: Block) -> list[Value]:
        """Values that the reverse pass of a block reads, each once, in the order of definition."""
        found: dict[Value, None] = {}
        for step in block.steps:
            found.update(dict.fromkeys(self.variation.read(step).values()))
        return list(found)
