"""The values that have adjoints: they vary with a differentiated input, and a result with them."""

from __future__ import annotations

from ..ir.activity import Variation, differentiable_operands, varying
from ..ir.flow_graph import Graph, Value


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
