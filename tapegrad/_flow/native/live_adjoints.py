"""The values that have adjoints: they vary with a differentiated input, and a result with them."""

from __future__ import annotations

import functools

from ..._core.ops.table import find, words_of
from ..ir.activity import differentiable_operands, varying, with_partials
from ..ir.flow_graph import Graph, Step, Value


@functools.lru_cache(4096)
def names_read(op: str, wanted: tuple[bool, ...]) -> frozenset[str]:
    """The names of operands, and `out`, that partial derivatives read."""
    declared = find(op)
    partials = [partial for partial, want in zip(declared.partials, wanted, strict=True) if want]
    texts = [*partials, *(text for _, text in declared.needed(*partials))]
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
        pairs = zip(step.operands, with_partials(step.op), strict=True)
        return tuple(partial and operand in self.values for operand, partial in pairs)


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
