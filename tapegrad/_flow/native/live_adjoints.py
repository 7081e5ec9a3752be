"""The values that have adjoints: they vary with a differentiated input, and a result with them."""

from __future__ import annotations

import functools

from ..._core.ops.table import find, words_of
from ..ir.activity import differentiable_operands, varying, with_slopes
from ..ir.flow_graph import Graph, Step, Value


@functools.lru_cache(4096)
def names_read(op: str, wanted: tuple[bool, ...]) -> frozenset[str]:
    """The names of operands, and `out`, that partial derivatives read."""
    declared = find(op)
    slopes = [slope for slope, want in zip(declared.slopes, wanted, strict=True) if want]
    texts = [*slopes, *(text for _, text in declared.needed(*slopes))]
    return frozenset(words_of(*texts) & {*declared.inputs, "out"})


class Variation:
    """Values and places with adjoints."""

    def __init__(self, graph: Graph):
        self.values, self.places = varying(graph)
        self.values &= _read_by_results(graph)

    def __contains__(self, value: Value) -> bool:
        return value in self.values

    def wanted(self, step: Step) -> tuple[bool, ...]:
        """The operands that get a contribution from the adjoint of the result."""
        pairs = zip(step.operands, with_slopes(step.op), strict=True)
        return tuple(slope and operand in self.values for operand, slope in pairs)


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
                if step.op == "store_float" or step.result in found:
                    found.update(differentiable_operands(step))
    return found
