"""The values and the memory of a graph that vary with inputs."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ..._core.ops.table import find
from .flow_graph import FLOAT, OPERATIONS, Graph, Place, Step, Value


def varying(graph: Graph, inputs: Iterable[int] | None = None) -> tuple[set[Value], set[Place]]:
    """The floats, and the memory, with a derivative with respect to some inputs.

    Parameters
    ----------
    graph : Graph
    inputs : iterable of int, optional
        Numbers of inputs; by default of those that are differentiated.
    """
    if inputs is None:
        inputs = [k for k, one in enumerate(graph.inputs) if one.differentiated]
    values, places = _seeds(graph, set(inputs))
    steps = [step for step in graph.steps() if _may_pass_on(step)]
    joins = [
        (argument, parameter)
        for block in graph.blocks
        for edge in (block.end.edges if block.end else ())
        for argument, parameter in zip(edge.arguments, edge.target.parameters, strict=True)
        if parameter.kind == FLOAT
    ]
    before = -1
    while before < len(values) + len(places):
        before = len(values) + len(places)
        for step in steps:
            _pass_on(step, values, places)
        values.update(parameter for argument, parameter in joins if argument in values)
    return values, places


@functools.lru_cache(4096)
def with_slopes(op: str) -> tuple[bool, ...]:
    """The operands of a step whose partial derivatives are not 0 everywhere."""
    if op == "float_select":
        return False, True, True
    if op == "store_float":
        return False, True
    if op in OPERATIONS:
        return (False,) * len(OPERATIONS[op].operands)
    return tuple(slope != "0.0" for slope in find(op).slopes)


def differentiable_operands(step: Step) -> list[Value]:
    """The operands of a step to which the partial derivative is not always 0."""
    pairs = zip(step.operands, with_slopes(step.op), strict=True)
    return [operand for operand, has_slope in pairs if has_slope]


def _seeds(graph: Graph, inputs: set[int]) -> tuple[set[Value], set[Place]]:
    values, places, at = set(), set(), 0
    for k, one in enumerate(graph.inputs):
        if k in inputs:
            if one.ndim is None:
                values.add(graph.entry.parameters[at])
            else:
                places.add(Place(one.region, one.space))
        at += len(one.parameters)
    return values, places


def _may_pass_on(step: Step) -> bool:
    return step.op == "load_float" or any(with_slopes(step.op))


def _pass_on(step: Step, values: set[Value], places: set[Place]) -> None:
    if step.op == "load_float":
        if step.payload in places:
            values.add(step.result)  # type: ignore[arg-type]
    elif not values.isdisjoint(differentiable_operands(step)):
        if step.op == "store_float":
            places.add(step.payload)  # type: ignore[arg-type]
        else:
            values.add(step.result)  # type: ignore[arg-type]
