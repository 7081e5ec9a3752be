"""Steps appended to blocks, with constants folded immediately."""

from __future__ import annotations

import numpy as np

from ..._core.ops.table import Pointwise, find
from .flow_graph import (
    BOOL,
    FLOAT,
    INT,
    OPERATIONS,
    Block,
    Branch,
    Edge,
    Graph,
    Jump,
    Leave,
    Place,
    Return,
    Step,
    Value,
)

_KINDS = {float: "float_const", int: "int_const", bool: "bool_const"}


class Builder:
    """Puts steps at the end of a block of a graph; `block` and `line` may be set.

    `single` says that the floats of arrays are of float32.
    """

    def __init__(self, graph: Graph, block: Block, line: int = 0, single: bool = False):
        self.graph, self.block, self.line, self.single = graph, block, line, single

    def step(self, op: str, *operands: Value, payload=None) -> Value:
        """A step; returns its result. An `op` is a name in OPERATIONS or of an element-wise one."""
        kind = result_kind(op)
        result = self.graph.value(kind) if kind else None
        self.block.steps.append(Step(op, operands, result, payload, self.line))
        return result  # type: ignore[return-value]

    def constant(self, number: float | int | bool) -> Value:
        """A Python float, int or bool as a value of its kind."""
        return self.step(_KINDS[type(number)], payload=number)

    def load(self, region: int, address: Value) -> Value:
        """The word at an address."""
        kind = self.graph.regions[region].kind
        op = "load_float" if kind == FLOAT else "load_int"
        return self.step(op, address, payload=Place(region))

    def store(self, region: int, address: Value, value: Value) -> None:
        """Write a word."""
        self.graph.regions[region].written = True
        op = "store_float" if value.kind == FLOAT else "store_int"
        self.step(op, address, value, payload=Place(region))

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


def rounded_to_single(x: float) -> float:
    """The nearest number of float32, as a float."""
    with np.errstate(over="ignore"):
        return float(np.float32(x))


def result_kind(op: str) -> str:
    """FLOAT, INT, BOOL, or "" for a step without a result."""
    if op in OPERATIONS:
        return OPERATIONS[op].result
    return FLOAT


def operand_kinds(op: str) -> str:
    """The kinds of the operands of a step."""
    if op in OPERATIONS:
        return OPERATIONS[op].operands
    declared = find(op)
    if not isinstance(declared, Pointwise):
        raise ValueError(f"{op} is not element-wise")
    return FLOAT * len(declared.inputs)


__all__ = ["BOOL", "FLOAT", "INT", "Builder", "operand_kinds", "result_kind"]
