"""Blocks in the order of dominators: which block every path to another one goes through."""

from __future__ import annotations

from .flow_graph import Block, Edge, Graph


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


def spans(nearest: list[int]) -> list[tuple[int, int]]:
    """Numbers down the tree of dominators: of a block itself, and the last one below it.

    A block dominates those whose number is in its span. `nearest` has the nearest dominator of each
    block, one before it; the first has itself.
    """
    sizes = [1] * len(nearest)
    for k in range(len(nearest) - 1, 0, -1):
        sizes[nearest[k]] += sizes[k]
    first, free = [0] * len(nearest), [1] * len(nearest)
    for k in range(1, len(nearest)):
        above = nearest[k]
        first[k] = free[above]
        free[above] += sizes[k]
        free[k] = first[k] + 1
    return [(k, k + size - 1) for k, size in zip(first, sizes, strict=True)]
