"""Steps appended to blocks, with constants folded immediately."""

from __future__ import annotations

from ..kinds.kind_lookup import kind_of
from ..kinds.memory_kinds import LOAD_OF, STORE_OF
from ..kinds.number_kinds import CONSTANT_OF, TYPE_OF
from .flow_graph import Block, Branch, Edge, Graph, Jump, Leave, Place, Return, Step, Value

_CONSTANT_OF = {TYPE_OF[kind]: name for kind, name in CONSTANT_OF.items()}


class Builder:
    """Puts steps at the end of a block of a graph; `block` and `line` may be set.

    `single` says that the floats of arrays are of float32; `has_own_kinds` that ints and floats go
    ways of their own, as far as that can be.
    """

    def __init__(self, graph: Graph, block: Block, line: int = 0, single: bool = False):
        self.graph, self.block, self.line, self.single = graph, block, line, single
        self.has_own_kinds = False

    def step(self, op: str, *operands: Value, payload=None) -> Value:
        """A step of the kind `op`; returns its result."""
        kind = kind_of(op).result
        result = self.graph.value(kind) if kind else None
        self.block.steps.append(Step(op, operands, result, payload, self.line))
        return result  # type: ignore[return-value]

    def constant(self, number: float | int | bool) -> Value:
        """A Python float, int or bool as a value of its kind."""
        return self.step(_CONSTANT_OF[type(number)], payload=number)

    def load(self, region: int, address: Value) -> Value:
        """The word at an address."""
        op = LOAD_OF[self.graph.regions[region].kind]
        return self.step(op, address, payload=Place(region))

    def store(self, region: int, address: Value, value: Value) -> None:
        """Write a word."""
        self.graph.regions[region].written = True
        self.step(STORE_OF[value.kind], address, value, payload=Place(region))

    def check(self, condition: Value, why: str) -> None:
        """Leave the graph where a condition does not hold."""
        self.step("check", condition, payload=self.graph.reason(why, self.line))

    def jump(self, target: Block, *arguments: Value) -> None:
        self.block.end = Jump(Edge(target, list(arguments)))

    def branch(self, condition: Value, then: Edge, other: Edge) -> None:
        self.block.end = Branch(condition, then, other, self.line)

    def give(self, *results: Value) -> None:
        """Return from the graph."""
        self.block.end = Return(results)

    def leave(self, why: str) -> None:
        self.block.end = Leave(self.graph.reason(why, self.line))

    def begin(self, *kinds: str) -> Block:
        """A new block with parameters of these kinds; steps go on being put where they were."""
        block = self.graph.block()
        block.parameters = [self.graph.value(kind) for kind in kinds]
        return block
