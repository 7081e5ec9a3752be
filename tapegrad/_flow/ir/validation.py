"""A graph checked: kinds, arguments, and that every value is set before it is read."""

from __future__ import annotations

from .block_builder import operand_kinds, result_kind
from .flow_graph import Block, Graph, Place, Value


def validate(graph: Graph) -> None:
    """ValueError where a graph is none."""
    blocks = {id(block) for block in graph.blocks}
    _check(len(_parameters(graph)) == len(graph.entry.parameters), "inputs and parameters differ")
    for block in graph.blocks:
        _check(block.end is not None, f"block {block.number} has no end")
        for step in block.steps:
            kinds = "".join(one.kind for one in step.operands)
            _check(kinds == operand_kinds(step.op), f"{step.op} of {kinds}")
            kind = step.result.kind if step.result is not None else ""
            _check(kind == result_kind(step.op), f"{step.op} gives {kind}")
            if isinstance(step.payload, Place):
                _check(step.payload.region < len(graph.regions), f"region {step.payload}")
        for edge in block.end.edges:  # type: ignore[union-attr]
            _check(id(edge.target) in blocks, f"an edge of block {block.number} leads nowhere")
            _check(edge.target is not graph.entry, "an edge leads to the first block")
            pairs = zip(edge.arguments, edge.target.parameters, strict=True)
            _check(all(a.kind == p.kind for a, p in pairs), "arguments and parameters differ")
    _check_order(graph)


def _parameters(graph: Graph) -> str:
    return "".join(one.parameters for one in graph.inputs)


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_order(graph: Graph) -> None:
    """Every path to a block sets the values that it reads."""
    known: dict[int, set[Value]] = {id(graph.entry): set()}
    waiting: list[Block] = [graph.entry]
    while waiting:
        block = waiting.pop()
        here = {*known[id(block)], *block.parameters}
        for step in block.steps:
            _check(here.issuperset(step.operands), f"{step.op} reads what is not set")
            if step.result is not None:
                here.add(step.result)
        _check(here.issuperset(block.end.reads), "an end reads what is not set")  # type: ignore[union-attr]
        for edge in block.end.edges:  # type: ignore[union-attr]
            _check(here.issuperset(edge.arguments), "an edge reads what is not set")
            before = known.get(id(edge.target))
            after = here if before is None else before & here
            if before is None or len(after) < len(before):
                known[id(edge.target)] = set(after)
                waiting.append(edge.target)
