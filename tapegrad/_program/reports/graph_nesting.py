"""A graph as nested loops and branches, as the user's code has them, from its blocks and edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ..._flow.ir.flow_graph import (
    Block,
    Branch,
    Edge,
    Graph,
    Leave,
    Return,
    dominators,
    ordered,
    spans,
    ways_in,
)
from ..._flow.kinds.step_kinds import CHOICE, kind_of

#: Deeper branches are put in sequence.
_DEEPEST = 40


@dataclasses.dataclass
class Node:
    """A block, a branch or a loop in its place.

    Attributes
    ----------
    kind : str
        "block", "branch", "loop", or "select" for a branch of which both arms are computed.
    block : Block
        The block itself, that of the branch or select, or the first one of the loop.
    line : int
        Of the branch, select or loop, an index into the graph's lines.
    parts : list of list of Node
        The two arms of a branch; the body of a loop.
    edges : list of int
        Numbers of the edges of the branch, as in `covered`, or of those that decide at the loop's
        line whether it goes on.
    """

    kind: str
    block: Block
    line: int = 0
    parts: list[list[Node]] = dataclasses.field(default_factory=list)
    edges: list[int] = dataclasses.field(default_factory=list)


def nested(graph: Graph) -> list[Node]:
    """The blocks of a graph in order, each once."""
    blocks = ordered(graph)
    return _Nesting(graph, blocks).sequence(blocks, None, 0)


def _edge_numbers(graph: Graph) -> dict[int, int]:
    """The number of each edge by its id."""
    edges = [edge for block in graph.blocks for edge in block.end.edges]  # type: ignore[union-attr]
    return {id(edge): number for number, edge in enumerate(edges)}


class _Nesting:
    def __init__(self, graph: Graph, blocks: list[Block]):
        self.graph, self.numbers = graph, _edge_numbers(graph)
        self.ways = ways_in(blocks)
        self.spans = dict(zip(blocks, spans(dominators(blocks, self.ways)), strict=True))
        self.loops = self._find_loops(blocks)

    def dominates(self, a: Block, b: Block) -> bool:
        """Whether each call reaches b through a."""
        first, last = self.spans[a]
        return first <= self.spans[b][0] <= last

    def _find_loops(self, blocks: list[Block]) -> dict[Block, set[Block]]:
        """The blocks of each loop by its first one."""
        found: dict[Block, set[Block]] = {}
        for block in blocks:
            for edge in _edges(block):
                if self.dominates(edge.target, block):
                    body = found.setdefault(edge.target, {edge.target})
                    waiting = [block]
                    while waiting:
                        one = waiting.pop()
                        if one not in body:
                            body.add(one)
                            waiting.extend(before for before, _ in self.ways[one])
        return found

    def sequence(self, blocks: list[Block], loop: Block | None, depth: int) -> list[Node]:
        """Nodes of the blocks of a loop, which its first block identifies."""
        found: list[Node] = []
        done: set[Block] = set()
        for block in blocks:
            if block in done:
                continue
            if block in self.loops and block is not loop:
                body = [one for one in blocks if one in self.loops[block]]
                nodes = [self._loop(block, body, depth)]
            else:
                rest = [one for one in blocks if one not in done and one is not block]
                nodes = [Node("block", block), *self._selects(block)]
                nodes += self._branch(block, rest, loop, depth)
            done.update(one.block for one in every(nodes))
            found += nodes
        return found

    def _loop(self, first: Block, body: list[Block], depth: int) -> Node:
        line = self._line_of_loop(first, body)
        nodes = self.sequence(body, first, depth + 1)
        decides = [one for one in nodes if one.kind == "branch" and one.line == line]
        parts = [[one for one in nodes if one not in decides]]
        return Node("loop", first, line, parts, [edge for one in decides for edge in one.edges])

    def _selects(self, block: Block) -> list[Node]:
        """The branches that have become selects in a block."""
        choices = [one for one in block.steps if kind_of(one.op).payload == CHOICE]
        found = [one for one in choices if one.payload is not None]
        first = [len(self.numbers) + 2 * int(step.payload) for step in found]  # type: ignore[arg-type]
        return [
            Node("select", block, step.line, [], [flag, flag + 1])
            for step, flag in zip(found, first, strict=True)
        ]

    def _line_of_loop(self, first: Block, body: list[Block]) -> int:
        """The place where a loop is decided: before a round, after it, or nowhere."""
        ends = [before for before, _ in self.ways[first] if before in self.loops[first]]
        lines = [
            block.end.line
            for block in (first, *ends)
            if isinstance(block.end, Branch) and self._leaves(block, first)
        ]
        lines = lines or [step.line for block in body for step in block.steps]
        return min(lines, key=self._number, default=0)

    def _number(self, line: int) -> int:
        place = self.graph.lines[line]
        return place.number if place else 0

    def _leaves(self, block: Block, loop: Block | None) -> bool:
        """Whether an edge leaves a loop, but where the function raises."""
        return loop is not None and any(
            edge.target not in self.loops[loop] and not isinstance(edge.target.end, Leave)
            for edge in _edges(block)
        )

    def _branch(self, block: Block, rest: list[Block], loop: Block | None, depth: int) -> list:
        """The branch at the end of a block, with those arms that return to the rest."""
        if not isinstance(block.end, Branch):
            return []
        is_flat = depth >= _DEEPEST or self._leaves(block, loop)
        arms = [[], []] if is_flat else self._arms(block, rest, loop)
        parts = [self.sequence(arm, loop, depth + 1) for arm in arms]
        edges = [self.numbers[id(edge)] for edge in _edges(block)]
        node = Node("branch", block, block.end.line, parts, edges)
        return self._joined(node)

    def _arms(self, block: Block, rest: list[Block], loop: Block | None) -> list[list[Block]]:
        """The blocks that are reached through one edge of a branch only.

        If an arm ends the call, the code after the other one is no arm: it is not indented.
        """
        arms = [self._reached(block, edge.target, rest) for edge in _edges(block)]
        others = [set(rest).difference(arm) for arm in arms]
        comes_back = [
            any(
                edge.target is loop
                or (edge.target in other and not isinstance(edge.target.end, Return))
                for one in arm
                for edge in _edges(one)
            )
            for arm, other in zip(arms, others, strict=True)
        ]
        plain = [not any(isinstance(one.end, Branch) for one in arm) for arm in arms]
        if all(arms) and not all(comes_back) and not all(plain):
            sizes = [len(arm) for arm in arms]
            goes_on = comes_back if any(comes_back) else [size == max(sizes) for size in sizes]
            arms[goes_on.index(True)] = []
        return arms

    def _reached(self, block: Block, target: Block, rest: list[Block]) -> list[Block]:
        """The blocks of the rest that are reached through the edge to a target only."""
        ways = [one for one, _ in self.ways[target] if not self.dominates(target, one)]
        if ways != [block]:
            return []
        return [one for one in rest if self.dominates(target, one)]

    def _joined(self, node: Node) -> list[Node]:
        """A branch; a test before a loop that the loop repeats after each round belongs to it."""
        taken = [part for part in node.parts if part]
        if len(taken) == 1:
            for one in taken[0]:
                if one.kind == "loop" and one.line == node.line:
                    one.edges += node.edges
                    return taken[0]
        return [node]


def every(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes with those inside."""
    for node in nodes:
        yield node
        for part in node.parts:
            yield from every(part)


def _edges(block: Block) -> tuple[Edge, ...]:
    return block.end.edges  # type: ignore[union-attr]
