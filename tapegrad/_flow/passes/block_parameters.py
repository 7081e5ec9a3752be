"""Block parameters that always have the same value, and constants, each set once."""

from __future__ import annotations

from ..ir.block_order import ordered
from ..ir.flow_graph import Block, Graph, Step, Value
from ..kinds.kind_lookup import kind_of
from .graph_edits import last, replace


def settle(graph: Graph) -> None:
    """Drop unreachable blocks, and parameters with one value; set constants in the first block."""
    graph.blocks = ordered(graph)
    replaced = _gather_constants(graph)
    arguments = _arguments(graph)
    readers: dict[Value, list[Value]] = {}
    for parameter, given in arguments.items():
        for one in given:
            readers.setdefault(one, []).append(parameter)
    waiting = list(arguments)
    for parameter in waiting:  # it grows
        if parameter in replaced:
            continue
        only = _only(parameter, arguments[parameter], replaced)
        if only is not None:
            replaced[parameter] = only
            again = readers.get(parameter, ())
            waiting.extend(again)
            readers.setdefault(only, []).extend(again)
    drop_parameters(graph, replaced)
    replace(graph, replaced)


def constant_key(step: Step) -> tuple[str, str]:
    """Equal for equal constants; −0 is not 0."""
    return step.op, repr(step.payload)


def drop_parameters(graph: Graph, gone) -> None:
    """Drop the parameters in `gone`, with their arguments."""
    kept: dict[Block, list[int]] = {}
    for block in graph.blocks[1:]:
        stay = [k for k, one in enumerate(block.parameters) if one not in gone]
        if len(stay) < len(block.parameters):
            kept[block] = stay
            block.parameters = [block.parameters[k] for k in stay]
    for block in graph.blocks:
        for edge in block.end.edges:  # type: ignore[union-attr]
            if edge.target in kept:
                edge.arguments = [edge.arguments[k] for k in kept[edge.target]]


def _gather_constants(graph: Graph) -> dict[Value, Value]:
    """Move constants to the beginning; returns replacements for those that were there already."""
    found: dict[tuple[str, str], Step] = {}
    replaced: dict[Value, Value] = {}
    for block in graph.blocks:
        others = []
        for step in block.steps:
            if not kind_of(step.op).is_constant:
                others.append(step)
                continue
            first = found.setdefault(constant_key(step), step)
            if first is not step:
                replaced[step.result] = first.result  # type: ignore[index, assignment]
        block.steps = others
    graph.entry.steps[:0] = found.values()
    return replaced


def _arguments(graph: Graph) -> dict[Value, list[Value]]:
    """The possible values of each parameter."""
    found: dict[Value, list[Value]] = {
        parameter: [] for block in graph.blocks[1:] for parameter in block.parameters
    }
    for block in graph.blocks:
        for edge in block.end.edges:  # type: ignore[union-attr]
            for parameter, one in zip(edge.target.parameters, edge.arguments, strict=True):
                found[parameter].append(one)
    return found


def _only(parameter: Value, given: list[Value], replaced: dict[Value, Value]) -> Value | None:
    """The value that a parameter is given besides itself, if there is one only."""
    only = None
    for one in given:
        one = last(replaced, one)
        if one is parameter or one is only:
            continue
        if only is not None:
            return None
        only = one
    return only
