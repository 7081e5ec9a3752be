"""Which values and memory vary with the differentiated inputs."""

from __future__ import annotations

from ..._core.ops.comparisons import STEERING
from ..._core.ops.table import TABLE
from ..ir.graph import FLOAT, Graph, Place, Step, Value


def varying(graph: Graph) -> tuple[set[Value], set[Place]]:
    """The active values and places: only these have adjoints."""
    values, places = _given(graph)
    before = -1
    while before != len(values) + len(places):
        before = len(values) + len(places)
        for block in graph.blocks:
            for step in block.steps:
                _pass_on(step, values, places)
            for edge in block.end.edges:  # type: ignore[union-attr]
                pairs = zip(edge.arguments, edge.target.parameters, strict=True)
                values.update(parameter for argument, parameter in pairs if argument in values)
    return values, places


def _given(graph: Graph) -> tuple[set[Value], set[Place]]:
    values, places, first = set(), set(), 0
    for one in graph.inputs:
        if one.differentiated:
            if one.ndim is None:
                values.add(graph.entry.parameters[first])
            else:
                places.add(Place(one.region, one.space))
        first += len(one.parameters)
    return values, places


def _pass_on(step: Step, values: set[Value], places: set[Place]) -> None:
    if step.op == "store_float":
        if step.operands[1] in values:
            places.add(step.payload)  # type: ignore[arg-type]
    elif step.result is not None and step.result.kind == FLOAT and step.result not in values:
        if step.op == "load_float":
            active = step.payload in places
        elif step.op == "float_select":
            active = not values.isdisjoint(step.operands[1:])
        else:
            active = any(one in values for one in sloped(step))
        if active:
            values.add(step.result)


def sloped(step: Step) -> list[Value]:
    """The operands of an element-wise step to which it has a slope; none of other steps."""
    op = TABLE.get(step.op) or STEERING.get(step.op)
    if op is None:
        return []
    return [one for one, text in zip(step.operands, op.slopes, strict=True) if text != "0.0"]
