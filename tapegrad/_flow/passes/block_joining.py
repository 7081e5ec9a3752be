"""Blocks joined with what follows them, and short branches as selects."""

from __future__ import annotations

import dataclasses
from collections import Counter

from ..ir.flow_graph import Block, Branch, Edge, Graph, Jump, Step, Value
from ..kinds.choice_kinds import NOTE, SELECT_OF
from ..kinds.kind_lookup import kind_of
from ..kinds.step_kinds import BOOL
from .graph_edits import replace

#: The most steps of two arms that are computed instead of a jump, and the most selects for them.
_MOST_STEPS, _MOST_SELECTS = 8, 4


def join_blocks(graph: Graph) -> bool:
    """Join blocks that have a single predecessor; returns whether branches became selects.

    The blocks are in order.
    """
    joining, selected = _Joining(graph), False
    for block in reversed(graph.blocks):  # inner branches come before outer ones
        if block not in joining.gone:
            joining.append_next(block)
            if joining.select_arms(block):
                selected = True
                joining.append_next(block)
    graph.blocks = [block for block in graph.blocks if block not in joining.gone]
    replace(graph, joining.replaced)
    return selected


class _Joining:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.ways: Counter[Block] = Counter(
            edge.target
            for block in graph.blocks
            for edge in block.end.edges  # type: ignore[union-attr]
        )
        self.gone: set[Block] = set()
        self.replaced: dict[Value, Value] = {}

    def append_next(self, block: Block) -> None:
        """Append blocks that are reached from here alone, and from here they alone."""
        while isinstance(block.end, Jump) and self.ways[block.end.edge.target] == 1:
            edge = block.end.edge
            after = edge.target
            if after is block:
                return
            self.replaced.update(zip(after.parameters, edge.arguments, strict=True))
            block.steps, block.end = block.steps + after.steps, after.end
            self.gone.add(after)

    def select_arms(self, block: Block) -> bool:
        """Compute both arms of a branch, where they are cheap and meet again."""
        end = block.end
        if not isinstance(end, Branch):
            return False
        (then, first), (other, second) = self.arm(end.then), self.arm(end.other)
        pairs = list(zip(then.arguments, other.arguments, strict=False))
        selects = sum(a is not b for a, b in pairs)
        if (
            then.target is not other.target
            or len(first) + len(second) > _MOST_STEPS
            or selects > _MOST_SELECTS
        ):
            return False
        self.gone.update({end.then.target, end.other.target} - {then.target})
        self.ways[then.target] -= 1
        block.steps += self.within(first, end.condition, True)
        block.steps += self.within(second, end.condition, False)
        first_select = len(block.steps)
        arguments = [self.select(block, end.condition, a, b, end.line) for a, b in pairs]
        if selects:
            block.steps[first_select].payload = self.graph.selects
            self.graph.selects += 1
        block.end = Jump(Edge(then.target, arguments))
        return True

    def arm(self, edge: Edge) -> tuple[Edge, list[Step]]:
        """The edge at the end of an arm and the steps before; an edge may be an arm itself."""
        block = edge.target
        if (
            self.ways[block] == 1
            and not block.parameters
            and isinstance(block.end, Jump)
            and len(block.steps) <= _MOST_STEPS
            and all(kind_of(step.op).in_arms for step in block.steps)
        ):
            return block.end.edge, block.steps
        return edge, []

    def within(self, steps: list[Step], condition: Value, truth: bool) -> list[Step]:
        """Steps of an arm; its own choices count where the arm is taken."""
        if all(step.payload is None for step in steps):
            return steps
        taken, found, line = condition, [], steps[0].line
        if not truth:
            taken = self.graph.value(BOOL)
            found.append(Step("bool_not", (condition,), taken, None, line))
        for step in steps:
            if step.payload is None:
                found.append(step)
            elif step.result is None:
                both = self.graph.value(BOOL)
                found.append(Step("bool_and", (step.operands[1], taken), both, None, step.line))
                found.append(dataclasses.replace(step, operands=(step.operands[0], both)))
            else:
                found.append(dataclasses.replace(step, payload=None))
                noted = step.operands[0], taken
                found.append(Step(NOTE, noted, None, step.payload, step.line))
        return found

    def select(self, block: Block, condition: Value, a: Value, b: Value, line: int) -> Value:
        if a is b:
            return a
        result = self.graph.value(a.kind)
        block.steps.append(Step(SELECT_OF[a.kind], (condition, a, b), result, None, line))
        return result
