"""Which values have adjoints: they vary with a differentiated input, and a result with them."""

from __future__ import annotations

import functools

from ..._core.ops.table import find, words_of
from ..ir.graph import FLOAT, OPERATIONS, Graph, Place, Step, Value


@functools.lru_cache(4096)
def with_slopes(op: str) -> tuple[bool, ...]:
    """Which operands of an operation on floats have slopes that are not 0 everywhere."""
    if op == "float_select":
        return False, True, True
    if op in OPERATIONS:
        return (False,) * len(OPERATIONS[op].operands)
    return tuple(slope != "0.0" for slope in find(op).slopes)


@functools.lru_cache(4096)
def names_read(op: str, wanted: tuple[bool, ...]) -> frozenset[str]:
    """The names of operands, and `out`, that slopes read."""
    declared = find(op)
    slopes = [slope for slope, want in zip(declared.slopes, wanted, strict=True) if want]
    texts = [*slopes, *(text for _, text in declared.needed(*slopes))]
    return frozenset(words_of(*texts) & {*declared.inputs, "out"})


class Variation:
    """Values and places with adjoints."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.values: set[Value] = set()
        self.places: set[Place] = set()
        self._begin()
        while self._forwards():
            pass
        self.values &= self._wanted()

    def __contains__(self, value: Value) -> bool:
        return value in self.values

    def wanted(self, step: Step) -> tuple[bool, ...]:
        """Which operands get something from the adjoint of the result."""
        pairs = zip(step.operands, with_slopes(step.op), strict=True)
        return tuple(slope and operand in self.values for operand, slope in pairs)

    def _begin(self) -> None:
        parameters = iter(self.graph.entry.parameters)
        for one in self.graph.inputs:
            values = [next(parameters) for _ in one.parameters]
            if one.differentiated and one.ndim is None:
                self.values.update(values)
            elif one.differentiated:
                self.places.add(Place(one.region, one.space))

    def _forwards(self) -> bool:
        """One round over the graph; whether anything was new."""
        before = len(self.values) + len(self.places)
        for block in self.graph.blocks:
            for step in block.steps:
                if step.op == "store_float":
                    if step.operands[1] in self.values:
                        self.places.add(step.payload)  # type: ignore[arg-type]
                elif step.result is not None and step.result.kind == FLOAT:
                    if step.payload in self.places or any(self.wanted(step)):
                        self.values.add(step.result)
            for edge in block.end.edges:  # type: ignore[union-attr]
                for given, parameter in zip(edge.arguments, edge.target.parameters, strict=True):
                    if given in self.values:
                        self.values.add(parameter)
        return len(self.values) + len(self.places) > before

    def _wanted(self) -> set[Value]:
        """Values that a result depends on; memory is always wanted."""
        found: set[Value] = set()
        count = -1
        while count < len(found):
            count = len(found)
            for block in reversed(self.graph.blocks):
                found.update(block.end.reads)  # type: ignore[union-attr]
                for edge in block.end.edges:  # type: ignore[union-attr]
                    pairs = zip(edge.arguments, edge.target.parameters, strict=True)
                    found.update(given for given, parameter in pairs if parameter in found)
                for step in reversed(block.steps):
                    if step.op == "store_float":
                        found.add(step.operands[1])
                    elif step.result in found:
                        pairs = zip(step.operands, with_slopes(step.op), strict=True)
                        found.update(operand for operand, slope in pairs if slope)
        return found
