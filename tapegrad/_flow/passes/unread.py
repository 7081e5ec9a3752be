"""Steps and parameters that are never read."""

from __future__ import annotations

from ..ir.flow_graph import Graph, Step, Value
from ..kinds.kind_lookup import kind_of
from .block_parameters import drop_parameters


def drop_unread(graph: Graph) -> None:
    """Drop what neither a result nor an effect depends on.

    An integer that does not fit leaves the graph, which is no effect: Python's would be right.
    """
    made: dict[Value, Step] = {
        step.result: step for step in graph.steps() if step.result is not None
    }
    waiting: list[Value] = []
    for block in graph.blocks:
        waiting.extend(block.end.reads)  # type: ignore[union-attr]
        for step in block.steps:
            if has_effect(step, made):
                waiting.extend(step.operands)
    read = _followed(graph, made, waiting)
    for block in graph.blocks:
        block.steps = [one for one in block.steps if one.result in read or has_effect(one, made)]
    parameters = {one for block in graph.blocks[1:] for one in block.parameters}
    drop_parameters(graph, parameters - read)


def has_effect(step: Step, made: dict[Value, Step]) -> bool:
    """Whether a step does more than give a result."""
    kind = kind_of(step.op)
    if kind.divides:
        divisor = made.get(step.operands[-1])
        return divisor is None or not kind_of(divisor.op).is_constant or divisor.payload == 0
    return kind.stays


def _followed(graph: Graph, made: dict[Value, Step], waiting: list[Value]) -> set[Value]:
    """All that values are computed from."""
    arguments: dict[Value, list[Value]] = {}
    for block in graph.blocks:
        for edge in block.end.edges:  # type: ignore[union-attr]
            for parameter, one in zip(edge.target.parameters, edge.arguments, strict=True):
                arguments.setdefault(parameter, []).append(one)
    read: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value not in read:
            read.add(value)
            step = made.get(value)
            waiting.extend(arguments.get(value, ()) if step is None else step.operands)
    return read
