"""The values and the memory of a graph that vary with inputs."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

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
    passed_on = _passed_on(graph)
    found, waiting = set(), _seeds(graph, set(inputs))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += passed_on.get(one, ())
    values = {one for one in found if isinstance(one, Value)}
    return values, {one for one in found if isinstance(one, Place)}


@functools.lru_cache(4096)
def with_partials(op: str) -> tuple[bool, ...]:
    """The operands of a step whose partial derivatives are not 0 everywhere."""
    if op == "float_select":
        return False, True, True
    if op == "store_float":
        return False, True
    if op == "to_single":
        return (True,)
    if op in OPERATIONS:
        return (False,) * len(OPERATIONS[op].operands)
    return tuple(partial != "0.0" for partial in find(op).partials)


def differentiable_operands(step: Step) -> list[Value]:
    """The operands of a step to which the partial derivative is not always 0."""
    pairs = zip(step.operands, with_partials(step.op), strict=True)
    return [operand for operand, has_partial in pairs if has_partial]


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
        to: Any = step.payload if step.op == "store_float" else step.result
        for one in [step.payload] if step.op == "load_float" else differentiable_operands(step):
            found.setdefault(one, []).append(to)  # type: ignore[arg-type]
    for block in graph.blocks:
        for edge in block.end.edges if block.end else ():
            for argument, parameter in zip(edge.arguments, edge.target.parameters, strict=True):
                if parameter.kind == FLOAT:
                    found.setdefault(argument, []).append(parameter)
    return found
