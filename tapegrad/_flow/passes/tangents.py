"""The graph of a derivative along directions, from that of a function."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..ir.flow_graph import (
    Block,
    Branch,
    Builder,
    Edge,
    Graph,
    GraphStep,
    Jump,
    Leave,
    MemoryRegion,
    Place,
    Return,
    Value,
    varying,
)
from ..ir.tangent_steps import TangentSteps
from ..kinds.step_kinds import FLOAT, kind_of


def with_tangents(
    graph: Graph, which: Sequence[int], *, differentiate_tangents: bool = False
) -> Graph:
    """The graph that computes results and their derivatives along directions.

    Parameters
    ----------
    graph : Graph
        It stays as it is.
    which : sequence of int
        Numbers of the inputs that have tangents.
    differentiate_tangents : bool
        Whether the tangents among the inputs are differentiated.

    Returns
    -------
    Graph
        The inputs are followed by the tangents of `which`, in this order; the results by the
        tangents of those that are floats. A space of the arena has its tangents `graph.spaces`
        further on.
    """
    return _TangentBlocks(graph, which, differentiate_tangents).made


class _TangentBlocks:
    """Blocks copied, with the tangent of each value that varies."""

    def __init__(self, graph: Graph, which: Sequence[int], differentiated: bool):
        self.graph = graph
        self.variation = varying(graph, which)
        self.made = Graph(
            inputs=[dataclasses.replace(one) for one in graph.inputs],
            blocks=[Block(one.number, [*one.parameters]) for one in graph.blocks],
            regions=[MemoryRegion(one.kind, one.written) for one in graph.regions],
            lines=[*graph.lines],
            reasons=[*graph.reasons],
            spaces=2 * graph.spaces,
            selects=graph.selects,
            values=graph.values,
        )
        self.blocks = dict(zip(map(id, graph.blocks), self.made.blocks, strict=True))
        self.tangents: dict[Value, Value] = {}
        self.builder = Builder(self.made, self.made.entry)
        zero = self.builder.constant(0.0)
        self._steps = TangentSteps(self.builder, zero, self.variation, self.tangents)
        self._add_inputs(which, differentiated)
        for block in graph.blocks[1:]:
            self._add_parameters(block)
        for block in self._in_order():
            self._copy(block)

    def _add_inputs(self, which: Sequence[int], differentiated: bool) -> None:
        parameters, at, first = self.graph.entry.parameters, 0, []
        for one in self.graph.inputs:
            first.append(at)
            at += len(one.parameters)
        for k in which:
            one = self.graph.inputs[k]
            made = dataclasses.replace(one, differentiated=differentiated)
            if one.ndim is None:
                tangent = self.made.value(FLOAT)
                self.made.entry.parameters.append(tangent)
                self.tangents[parameters[first[k]]] = tangent
            else:
                made.tangent_of = k if one.tangent_of is None else one.tangent_of
                made.space = one.space + self.graph.spaces
            self.made.inputs.append(made)

    def _add_parameters(self, block: Block) -> None:
        for parameter in block.parameters:
            if parameter in self.variation:
                self.tangents[parameter] = self.made.value(FLOAT)
                self.blocks[id(block)].parameters.append(self.tangents[parameter])

    def _in_order(self) -> list[Block]:
        """Blocks such that definitions come before uses; others are left out."""
        order: list[Block] = []
        seen, waiting = {id(self.graph.entry)}, [(self.graph.entry, False)]
        while waiting:
            block, done = waiting.pop()
            if done:
                order.append(block)
                continue
            waiting.append((block, True))
            for edge in block.end.edges:
                if id(edge.target) not in seen:
                    seen.add(id(edge.target))
                    waiting.append((edge.target, False))
        kept = {id(self.blocks[id(block)]) for block in order}
        self.made.blocks = [block for block in self.made.blocks if id(block) in kept]
        return order[::-1]

    def _copy(self, block: Block) -> None:
        self.builder.block = made = self.blocks[id(block)]
        for step in block.steps:
            made.steps.append(dataclasses.replace(step))
            self.builder.line = step.line
            self._differentiate(step)
        made.end = self._end(block.end)

    def _differentiate(self, step: GraphStep) -> None:
        """Put the steps of a step's tangent after it."""
        if not self.variation.has(step):
            return
        made = self._linear(step) if kind_of(step.op).is_linear else self._steps.made(step)
        if step.result is not None:
            self.tangents[step.result] = made

    def _linear(self, step: GraphStep) -> Value:
        """The step itself, on the tangents of floats, in the memory beside."""
        operands = [self._steps.of(one) if one.kind == FLOAT else one for one in step.operands]
        place = self._beside(step.payload) if isinstance(step.payload, Place) else None
        return self.builder.step(step.op, *operands, payload=place)

    def _beside(self, place) -> Place:
        return Place(place.region, place.space + self.graph.spaces)

    def _end(self, end):
        if isinstance(end, Jump):
            return Jump(self._edge(end.edge))
        if isinstance(end, Branch):
            then, other = self._edge(end.then), self._edge(end.other)
            return Branch(end.condition, then, other, end.line)
        if isinstance(end, Return):
            floats = [one for one in end.results if one.kind == FLOAT]
            return Return((*end.results, *map(self._steps.of, floats)))
        return Leave(end.reason)

    def _edge(self, edge: Edge) -> Edge:
        pairs = zip(edge.arguments, edge.target.parameters, strict=True)
        tangents = [self._steps.of(a) for a, p in pairs if p in self.variation]
        return Edge(self.blocks[id(edge.target)], [*edge.arguments, *tangents])
