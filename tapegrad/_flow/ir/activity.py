"""The values and the memory of a graph that vary with inputs."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..kinds.kind_lookup import kind_of
from ..kinds.step_kinds import FLOAT
from .flow_graph import Graph, Place, Step, Value


class Variation(NamedTuple):
    """Values, and places in memory, with a derivative."""

    values: set[Value]
    places: set[Place]

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def has(self, step: Step) -> bool:
        """Whether the result of a step varies, or the memory that it writes."""
        if step.result is None:
            return step.payload in self.places
        return step.result in self.values

    def wanted(self, step: Step) -> tuple[bool, ...]:
        """The operands that get a contribution from the adjoint of the result."""
        sloping = kind_of(step.op).sloping
        return tuple(j in sloping and one in self.values for j, one in enumerate(step.operands))

    def read(self, step: Step) -> dict[str, Value]:
        """The values that the adjoint of a step reads, by name."""
        if not self.has(step):
            return {}
        kind = kind_of(step.op)
        named = dict(zip(kind.inputs, step.operands, strict=True))
        if kind.is_linear:
            return {name: one for name, one in named.items() if one.kind != FLOAT}
        if step.result is not None:
            named["out"] = step.result
        names = names_read(step.op, self.wanted(step))
        return {name: one for name, one in named.items() if name in names}


def varying(graph: Graph, inputs: Iterable[int] | None = None) -> Variation:
    """The floats, and the memory, with a derivative with respect to some inputs.

    Parameters
    ----------
    graph : Graph
    inputs : iterable of int, optional
        Numbers of inputs; by default of those that are differentiated.
    """
    if inputs is None:
        inputs = [k for k, one in enumerate(graph.inputs) if one.differentiated]
    passed_on = _passed_on(graph)
    found, waiting = set(), _seeds(graph, set(inputs))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += passed_on.get(one, ())
    values = {one for one in found if isinstance(one, Value)}
    return Variation(values, {one for one in found if isinstance(one, Place)})


def differentiable_operands(step: Step) -> list[Value]:
    """The operands of a step to which the partial derivative is not always 0."""
    return [step.operands[j] for j in kind_of(step.op).sloping]


@functools.lru_cache(4096)
def names_read(op: str, wanted: tuple[bool, ...]) -> frozenset[str]:
    """The names of operands, and `out`, that the partial derivatives wanted read."""
    return frozenset(kind_of(op).read_by([j for j, want in enumerate(wanted) if want]))


def _seeds(graph: Graph, inputs: set[int]) -> list[Value | Place]:
    seeds: list[Value | Place] = []
    at = 0
    for k, one in enumerate(graph.inputs):
        if k in inputs:
            is_number = one.ndim is None
            seeds.append(graph.entry.parameters[at] if is_number else Place(one.region, one.space))
        at += len(one.parameters)
    return seeds


def _passed_on(graph: Graph) -> dict[Value | Place, list[Value | Place]]:
    """For a value, or a place, what varies with it directly."""
    found: dict[Value | Place, list[Value | Place]] = {}
    for step in graph.steps():
        kind = kind_of(step.op)
        to: Any = step.payload if kind.is_store else step.result
        for one in [step.payload] if kind.is_load else differentiable_operands(step):
            found.setdefault(one, []).append(to)  # type: ignore[arg-type]
    for block in graph.blocks:
        for edge in block.end.edges if block.end else ():
            for argument, parameter in zip(edge.arguments, edge.target.parameters, strict=True):
                if parameter.kind == FLOAT:
                    found.setdefault(argument, []).append(parameter)
    return found
