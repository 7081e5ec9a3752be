"""Functions shared by passes: blocks in order, dominators, values replaced by others."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.flow_graph import Block, Branch, Edge, Graph, Value


def ordered(graph: Graph) -> list[Block]:
    """The blocks that can be reached; a block comes after those that dominate it."""
    done: list[Block] = []
    seen = {graph.entry}
    waiting = [(graph.entry, iter(graph.entry.end.edges))]  # type: ignore[union-attr]
    while waiting:
        block, edges = waiting[-1]
        for edge in edges:
            if edge.target not in seen:
                seen.add(edge.target)
                waiting.append((edge.target, iter(edge.target.end.edges)))  # type: ignore[union-attr]
                break
        else:
            done.append(block)
            waiting.pop()
    return done[::-1]


def ways_in(blocks: list[Block]) -> dict[Block, list[tuple[Block, Edge]]]:
    """The edges to each block, with the blocks that they come from."""
    found: dict[Block, list[tuple[Block, Edge]]] = {block: [] for block in blocks}
    for block in blocks:
        for edge in block.end.edges:  # type: ignore[union-attr]
            found[edge.target].append((block, edge))
    return found


def dominators(blocks: list[Block], ways: dict[Block, list[tuple[Block, Edge]]]) -> list[int]:
    """The nearest dominator of each block, as places in `blocks`; the first has itself."""
    place = {block: k for k, block in enumerate(blocks)}
    before = [[place[block] for block, _ in ways[one]] for one in blocks]
    found = [0] + [-1] * (len(blocks) - 1)
    changed = True
    while changed:
        changed = False
        for k in range(1, len(blocks)):
            nearest = -1
            for one in before[k]:
                if found[one] >= 0:
                    nearest = one if nearest < 0 else _common(found, nearest, one)
            if nearest != found[k]:
                found[k], changed = nearest, True
    return found


def _common(found: list[int], a: int, b: int) -> int:
    while a != b:
        if a > b:
            a = found[a]
        else:
            b = found[b]
    return a


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
