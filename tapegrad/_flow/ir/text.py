"""A graph as text, for people and for tests."""

from __future__ import annotations

from ..kinds.kind_lookup import kind_of
from ..kinds.step_kinds import REASON
from .flow_graph import Block, Branch, Edge, Graph, Jump, Place, Return, Step


def text_of(graph: Graph) -> str:
    """The blocks of a graph, a line for each step and end."""
    return "\n".join(line for block in graph.blocks for line in _block(graph, block))


def _block(graph: Graph, block: Block) -> list[str]:
    found = [f"block {block.number}({_listed(block.parameters)}):"]
    for step in block.steps:
        where = graph.lines[step.line]
        found.append(f"    {_step(graph, step)}" + (f"  # {where}" if where else ""))
    return [*found, f"    {_end(graph, block)}"]


def _listed(values) -> str:
    return ", ".join(map(repr, values))


def _step(graph: Graph, step: Step) -> str:
    payload = step.payload
    if isinstance(payload, Place):
        shown = f"[region {payload.region}" + (
            f", space {payload.space}]" if payload.space else "]"
        )
    elif kind_of(step.op).payload == REASON:
        shown = repr(graph.reasons[payload].text)  # type: ignore[index]
    else:
        shown = "" if payload is None else repr(payload)
    call = " ".join(filter(None, (step.op, _listed(step.operands), shown)))
    return call if step.result is None else f"{step.result!r} = {call}"


def _edge(edge: Edge) -> str:
    return f"block {edge.target.number}({_listed(edge.arguments)})"


def _end(graph: Graph, block: Block) -> str:
    end = block.end
    if isinstance(end, Jump):
        return f"jump {_edge(end.edge)}"
    if isinstance(end, Branch):
        return f"branch {end.condition!r}: {_edge(end.then)}, else {_edge(end.other)}"
    if isinstance(end, Return):
        return f"return {_listed(end.results)}".rstrip()
    return "no end" if end is None else f"leave {graph.reasons[end.reason].text!r}"
