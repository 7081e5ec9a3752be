"""Functions shared by passes: values replaced by others."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.flow_graph import Branch, Graph, Value


def replace(graph: Graph, replaced: dict[Value, Value]) -> None:
    """Replace values in all steps, edges and ends; a replacement may be replaced, too."""
    if not replaced:
        return
    for value in replaced:
        replaced[value] = last(replaced, value)
    for block in graph.blocks:
        for step in block.steps:
            step.operands = renamed(replaced, step.operands)
        end = block.end
        for edge in end.edges:  # type: ignore[union-attr]
            edge.arguments = [replaced.get(one, one) for one in edge.arguments]
        if isinstance(end, Branch):
            end.condition = replaced.get(end.condition, end.condition)
        elif end.reads:  # type: ignore[union-attr]
            end.results = renamed(replaced, end.results)  # type: ignore[union-attr]


def renamed(replaced: Mapping[Value, Value], values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Values, with others for those that are replaced."""
    for one in values:
        if one in replaced:
            return tuple([replaced.get(each, each) for each in values])
    return values


def last(replaced: Mapping[Value, Value], value: Value) -> Value:
    """The final replacement of a value."""
    while (after := replaced.get(value)) is not None:
        value = after
    return value
