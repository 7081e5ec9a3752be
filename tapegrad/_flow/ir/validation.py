"""A graph checked: kinds, numbers, and that every value is set before it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..kinds.kind_lookup import kind_of
from ..kinds.number_kinds import TYPE_OF
from ..kinds.step_kinds import CHOICE, CONSTANT, FLOAT, INT, PLACE, REASON, StepKind
from .block_order import dominators, ordered, spans, ways_in
from .flow_graph import Block, Branch, Graph, Leave, Place, Step, Value


def validate(graph: Graph) -> None:
    """ValueError where a graph is none."""
    blocks = ordered(graph)
    validate_with(graph, blocks, dominators(blocks, ways_in(blocks)))


def validate_with(graph: Graph, blocks: list[Block], nearest: Sequence[int]) -> None:
    """The same, in linear time: the dominators of blocks that can be reached are known or claimed.

    Parameters
    ----------
    graph : Graph
    blocks : list of Block
        The blocks of the graph, the first one first; at least all that can be reached.
    nearest : sequence of int
        For each of these the place of its nearest dominator, before its own.
    """
    _check(_parameters(graph) == _kinds(graph.entry.parameters), "inputs and parameters differ")
    for one in graph.inputs:
        _check(one.ndim is None or _is_region(graph, one.region, FLOAT), f"region {one.region}")
    for reason in graph.reasons:
        _check(0 <= reason.line < len(graph.lines), "a reason has no line")
    known = {id(block) for block in graph.blocks}
    for block in graph.blocks:
        for step in block.steps:
            _check_step(graph, step)
        _check_end(graph, block, known)
    _check_order(blocks, nearest)


def _parameters(graph: Graph) -> str:
    return "".join(one.parameters for one in graph.inputs)


def _kinds(values) -> str:
    return "".join(one.kind for one in values)


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_step(graph: Graph, step: Step) -> None:
    op, kind = step.op, kind_of(step.op)
    kinds = _kinds(step.operands)
    _check(kinds == kind.operands, f"{op} of {kinds}")
    result = step.result.kind if step.result is not None else ""
    _check(result == kind.result, f"{op} gives {result}")
    _check(0 <= step.line < len(graph.lines), f"{op} has no line")
    _PAYLOADS[kind.payload](graph, kind, step.payload)


def _check_nothing(_graph: Graph, kind: StepKind, payload) -> None:
    _check(payload is None, f"{kind.name} has {payload!r:.60}")


def _check_constant(_graph: Graph, kind: StepKind, payload) -> None:
    of_type = type(payload) is TYPE_OF[kind.result]
    fits = of_type and (kind.result != INT or -(2**63) <= payload < 2**63)
    _check(fits, f"{kind.name} is {payload!r:.60}")


def _check_place(graph: Graph, kind: StepKind, place) -> None:
    _check(isinstance(place, Place), f"{kind.name} has no place")
    _check(_is_region(graph, place.region, kind.word), f"{kind.name} in region {place.region}")
    _check(0 <= place.space < graph.spaces, f"space {place.space}")


def _check_reason(graph: Graph, _kind: StepKind, payload) -> None:
    _check(_is_number(payload, len(graph.reasons)), f"reason {payload!r:.60}")


def _check_choice(graph: Graph, kind: StepKind, payload) -> None:
    """A select that never was a branch has no number."""
    is_none = kind.result != "" and payload is None
    _check(is_none or _is_number(payload, graph.selects), f"select {payload!r:.60}")


#: Checks of what steps have in addition to operands.
_PAYLOADS: dict[str, Callable[[Graph, StepKind, Any], None]] = {
    **{"": _check_nothing, CONSTANT: _check_constant, PLACE: _check_place},
    **{REASON: _check_reason, CHOICE: _check_choice},
}


def _is_region(graph: Graph, number: int, kind: str) -> bool:
    return _is_number(number, len(graph.regions)) and graph.regions[number].kind == kind


def _is_number(payload, count: int) -> bool:
    return type(payload) is int and 0 <= payload < count


def _check_end(graph: Graph, block: Block, known: set[int]) -> None:
    end = block.end
    _check(end is not None, f"block {block.number} has no end")
    if isinstance(end, Branch):
        _check(end.condition.kind == "b", "a condition is no truth")
        _check(0 <= end.line < len(graph.lines), "a branch has no line")
    if isinstance(end, Leave):
        _check(_is_number(end.reason, len(graph.reasons)), f"reason {end.reason}")
    for edge in end.edges:  # type: ignore[union-attr]
        _check(id(edge.target) in known, f"an edge of block {block.number} leads nowhere")
        _check(edge.target is not graph.entry, "an edge leads to the first block")
        same = _kinds(edge.arguments) == _kinds(edge.target.parameters)
        _check(same, "arguments and parameters differ")


def _check_order(blocks: list[Block], nearest: Sequence[int]) -> None:
    """Every path to a block sets the values that it reads.

    It is enough that for each edge the dominator of its target also dominates its source: then
    those that are claimed are dominators, if not the nearest ones.
    """
    span = spans([*nearest])
    places = {id(block): k for k, block in enumerate(blocks)}
    made: dict[Value, int] = {}  # the place of the block of each value

    def dominates(a: int, b: int) -> bool:
        return span[a][0] <= span[b][0] <= span[a][1]

    def check_set(values, place: int, what: str) -> None:
        for value in values:
            _check(value in made and dominates(made[value], place), f"{what} is not set")

    for place, block in enumerate(blocks):
        made.update(dict.fromkeys(block.parameters, place))
        for step in block.steps:
            check_set(step.operands, place, f"what {step.op} reads")
            if step.result is not None:
                made[step.result] = place
        check_set(block.end.reads, place, "what an end reads")  # type: ignore[union-attr]
        for edge in block.end.edges:  # type: ignore[union-attr]
            check_set(edge.arguments, place, "what an edge reads")
            above = nearest[places[id(edge.target)]]
            _check(dominates(above, place), "a block is not reached through its dominator")
